"""``beacon-to-lerobot RUN OUT``: a BEACON policy as a folder that LeRobot's commands take."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from beacon.errors import RunError, UserError
from beacon.policy import load_policy


def convert(run: Path, out: Path) -> None:
    """Write config.json, model.safetensors and the pipelines.

    Args:
        run: a run folder of BEACON, or what ``beacon export`` wrote.
        out: where; made if need be.
    """
    from lerobot.configs.types import FeatureType, PolicyFeature

    from lerobot_policy_beacon.bridge import description_text
    from lerobot_policy_beacon.configuration_beacon import BeaconConfig
    from lerobot_policy_beacon.modeling_beacon import BeaconPolicy
    from lerobot_policy_beacon.processor_beacon import make_beacon_pre_post_processors

    trained = load_policy(run)
    spec = trained.spec
    inputs = {n: PolicyFeature(FeatureType.VISUAL, (c, h, w)) for n, (h, w, c) in spec.cameras.items()}
    inputs |= {name: PolicyFeature(FeatureType.STATE, (size,)) for name, size in spec.proprio.items()}
    config = BeaconConfig(
        n_obs_steps=trained.obs_steps,
        input_features=inputs,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (spec.action_dim,))},
        device="cpu",
        description=description_text(run),
        action_feature_names=list(trained.deployment.action_names) or None,
    )
    policy = BeaconPolicy(config)
    policy.network.load_state_dict(trained.policy.state_dict())
    policy.save_pretrained(out)
    for pipeline in make_beacon_pre_post_processors(config):
        pipeline.save_pretrained(out)


def main() -> int:
    """The console script."""
    parser = argparse.ArgumentParser(prog="beacon-to-lerobot", description=__doc__)
    parser.add_argument("run", type=Path, help="a run folder of BEACON, or what beacon export wrote")
    parser.add_argument("out", type=Path, help="the folder to write")
    options = parser.parse_args()
    try:
        convert(options.run, options.out)
    except (UserError, RunError) as error:
        print(f"beacon-to-lerobot: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
