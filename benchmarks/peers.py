"""A training step of the ``paper`` policy against LeRobot's diffusion policy of the same size, in turns.

    python benchmarks/peers.py --lerobot /path/to/lerobot-environment/bin/python [--rounds 3] [--threads 2]

LeRobot is run in an environment of its own (0.4.4 was measured). Both see two frames of one camera of 96×96
pixels, cropped to 86, and chunks of 16 actions. Forward pass, backward pass and AdamW are timed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

BATCH, ACTIONS, POSITION = 64, 7, 3
HORIZON, CHANNELS, STEP_DIM = 16, (256, 512, 1024), 256


def best_time(step: Callable[[], Any], steps: int) -> float:
    """Seconds of the fastest of some steps, after one to warm up."""
    step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times)


def ours(precision: str) -> tuple[Callable[[], Any], int]:
    """A gradient step of our policy, and how many parameters it has."""
    from beacon.policy import DiffusionPolicy, ObservationSpec
    from beacon.training.config import OptimizationOptions, preset_config
    from beacon.training.loss_pass import autocast
    from beacon.training.optimization import make_optimizer

    config, _ = preset_config("paper", "robomimic")
    spec = ObservationSpec(cameras={"image": (96, 96, 3)}, proprio={"position": POSITION}, action_dim=ACTIONS)
    policy = DiffusionPolicy(spec, config)
    optimizer = make_optimizer(policy.parameters(), OptimizationOptions())
    draw = torch.Generator().manual_seed(0)
    images = {"image": torch.randint(255, (BATCH, config.obs_steps, 96, 96, 3), dtype=torch.uint8)}
    proprio = {"position": torch.rand(BATCH, config.obs_steps, POSITION)}
    actions = torch.rand(BATCH, config.horizon, ACTIONS)

    def step() -> None:
        with autocast(torch.device("cpu"), precision):
            noise, timesteps = policy.draw_noise(BATCH, config.draws, draw)
            losses, _ = policy(images, proprio, actions, noise, timesteps, crop_generator=draw)
        optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        optimizer.step()

    return step, sum(parameter.numel() for parameter in policy.parameters())


def lerobots() -> tuple[Callable[[], Any], int]:
    """The same of LeRobot's policy; in LeRobot's environment."""
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
    from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy

    config = DiffusionConfig(
        input_features={
            "observation.image": PolicyFeature(FeatureType.VISUAL, (3, 96, 96)),
            "observation.state": PolicyFeature(FeatureType.STATE, (POSITION,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (ACTIONS,))},
        n_obs_steps=2,
        horizon=HORIZON,
        n_action_steps=8,
        crop_shape=(86, 86),
        down_dims=CHANNELS,
        diffusion_step_embed_dim=STEP_DIM,
        pretrained_backbone_weights=None,
        device="cpu",
    )
    policy = DiffusionPolicy(config)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, weight_decay=1e-6)
    batch = {
        "observation.image": torch.rand(BATCH, 2, 3, 96, 96),
        "observation.state": torch.rand(BATCH, 2, POSITION),
        "action": torch.rand(BATCH, HORIZON, ACTIONS),
        "action_is_pad": torch.zeros(BATCH, HORIZON, dtype=torch.bool),
    }

    def step() -> None:
        loss, _ = policy.forward(dict(batch))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step, sum(parameter.numel() for parameter in policy.parameters())


MEASURES: dict[str, Callable[[], tuple[Callable[[], Any], int]]] = {
    "float32": lambda: ours("float32"),
    "bf16": lambda: ours("bf16"),
    "lerobot": lerobots,
}


def measure(name: str, python: str, steps: int, threads: int) -> dict[str, float]:
    """Time one of them in a process of its own."""
    command = [python, __file__, "--measure", name, "--steps", str(steps), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} failed: {done.stderr.strip().splitlines()[-1]}")
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def main() -> None:
    """Measure in turns; print the ratios of the fastest steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lerobot", help="python of LeRobot's environment")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        torch.set_num_threads(options.threads)
        step, parameters = MEASURES[options.measure]()
        print(json.dumps({"seconds": best_time(step, options.steps), "parameters": parameters}))
        return
    pythons = {"float32": sys.executable, "bf16": sys.executable}
    if options.lerobot:
        pythons["lerobot"] = options.lerobot
    seconds: dict[str, list[float]] = {name: [] for name in pythons}
    for _ in range(options.rounds):
        for name, python in pythons.items():
            numbers = measure(name, python, options.steps, options.threads)
            seconds[name].append(numbers["seconds"])
            size = f"{numbers['parameters'] / 1e6:.0f} M parameters"
            print(f"{name}: {numbers['seconds']:.2f} s, {size}", flush=True)
    best = {name: min(times) for name, times in seconds.items()}
    ratios = {f"float32 over {name}": best["float32"] / took for name, took in best.items() if name == "bf16"}
    if "lerobot" in best:
        ratios |= {f"lerobot over {name}": best["lerobot"] / best[name] for name in ("float32", "bf16")}
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f} times as long")
    if options.json:
        options.json.write_text(json.dumps({"seconds": seconds, "ratios": ratios}, indent=2) + "\n")


if __name__ == "__main__":
    main()
