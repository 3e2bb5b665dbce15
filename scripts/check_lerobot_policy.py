"""Does LeRobot find the plug-in and run a BEACON policy? Run it by an interpreter that has LeRobot.

    PYTHONPATH=src:lerobot_policy_beacon/src PYTHON-WITH-LEROBOT scripts/check_lerobot_policy.py [FOLDER]

FOLDER is one into which `pip install --no-deps --target FOLDER ./lerobot_policy_beacon` has put the plug-in;
with it LeRobot's own discovery is tried as well. Prints one line and ends with 0 if all is well.
"""

from __future__ import annotations

import importlib.metadata
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])

import lerobot
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from beacon.policy import PRESETS, DiffusionPolicy, ObservationSpec, load_policy, save_policy

SPEC = ObservationSpec(
    cameras={"observation.images.front": (48, 48, 3)}, proprio={"observation.state": 5}, action_dim=4
)


def discover() -> str:
    """Let LeRobot find the plug-in, or import it ourselves when it is not installed."""
    installed = any(
        (d.metadata["Name"] or "").startswith("lerobot_policy_") for d in importlib.metadata.distributions()
    )
    if not installed:
        import lerobot_policy_beacon  # noqa: F401

        return "imported"
    try:
        from lerobot.utils.import_utils import register_third_party_plugins
    except ImportError:  # LeRobot 0.4
        from lerobot.utils.import_utils import register_third_party_devices as register_third_party_plugins
    register_third_party_plugins()
    return "found by LeRobot"


def save_example(folder: Path) -> None:
    """A small policy with a history of two steps."""
    import dataclasses

    config = dataclasses.replace(PRESETS["cpu"], obs_steps=2, sampling_steps=5)
    save_policy(
        folder,
        state=DiffusionPolicy(SPEC, config, seed=1).state_dict(),
        ema_state=None,
        spec=SPEC,
        config=config,
        normalization={
            "actions": {"offset": [0.1] * 4, "scale": [0.5] * 4},
            "proprio": {"observation.state": {"offset": [0.0] * 5, "scale": [2.0] * 5}},
        },
    )


def main() -> int:
    """Convert, load by LeRobot's own functions, act, train a step, compare with BEACON itself."""
    how = discover()
    from lerobot_policy_beacon.convert import convert

    with tempfile.TemporaryDirectory() as work:
        native, folder = Path(work) / "native", Path(work) / "lerobot"
        save_example(native)
        convert(native, folder)
        config = PreTrainedConfig.from_pretrained(folder)
        assert config.type == "beacon" and config.chunk_size == 16, config
        policy = get_policy_class("beacon").from_pretrained(folder, config=config)
        before, after = make_pre_post_processors(config, pretrained_path=str(folder))
        ours = load_policy(native)
        policy.reset()
        rng = np.random.default_rng(0)
        history: list[dict[str, np.ndarray]] = []
        for step in range(12):
            image = rng.integers(0, 256, (48, 48, 3), dtype=np.uint8)
            state = rng.uniform(-1, 1, 5).astype(np.float32)
            history.append({"observation.images.front": image, "observation.state": state})
            frame = {
                "observation.images.front": torch.from_numpy(image).permute(2, 0, 1).float() / 255,
                "observation.state": torch.from_numpy(state),
            }
            action = after(policy.select_action(before(frame))).numpy()
            if step % ours.action_steps == 0:
                seen = {key: np.stack([h[key] for h in history[-2:]])[None] for key in history[0]}
                chunk = ours.act(seen)
            np.testing.assert_allclose(action, chunk[:, step % ours.action_steps], rtol=1e-5, atol=1e-6)
        batch = {
            "observation.images.front": torch.rand(3, 2, 3, 48, 48),
            "observation.state": torch.rand(3, 2, 5),
            "action": torch.rand(3, 16, 4),
        }
        policy.train()
        losses, _ = policy.forward(batch, reduction="none")
        loss, _ = policy.forward(batch)
        loss.backward()
        assert losses.shape == (3,) and all(p.grad is not None for p in policy.network.denoiser.parameters())
        policy.save_pretrained(folder / "again")
    print(f"LeRobot {lerobot.__version__}: plug-in {how}; 12 actions as BEACON's own; a training step")
    return 0


if __name__ == "__main__":
    sys.exit(main())
