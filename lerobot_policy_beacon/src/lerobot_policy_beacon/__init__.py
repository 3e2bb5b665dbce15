"""BEACON policies for LeRobot, which imports this package because of its name.

`bridge` needs no LeRobot; the other modules do. ``--sample_weighting.type=beacon`` is made known to LeRobot
0.6, for whatever policy is trained; other versions have no such option.
"""

import contextlib
from importlib.util import find_spec

if find_spec("lerobot") is not None:
    from beacon.errors import UserError
    from beacon.integrations.lerobot import install
    from lerobot_policy_beacon.configuration_beacon import BeaconConfig
    from lerobot_policy_beacon.modeling_beacon import BeaconPolicy
    from lerobot_policy_beacon.processor_beacon import make_beacon_pre_post_processors

    with contextlib.suppress(UserError):
        install()

    __all__ = ["BeaconConfig", "BeaconPolicy", "make_beacon_pre_post_processors"]
