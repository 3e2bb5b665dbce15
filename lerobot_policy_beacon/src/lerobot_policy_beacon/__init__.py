"""BEACON policies for LeRobot, which imports this package because of its name.

`bridge` needs no LeRobot; the other modules do.
"""

from importlib.util import find_spec

if find_spec("lerobot") is not None:
    from lerobot_policy_beacon.configuration_beacon import BeaconConfig
    from lerobot_policy_beacon.modeling_beacon import BeaconPolicy
    from lerobot_policy_beacon.processor_beacon import make_beacon_pre_post_processors

    __all__ = ["BeaconConfig", "BeaconPolicy", "make_beacon_pre_post_processors"]
