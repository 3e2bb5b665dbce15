"""What windows cost in gradient steps and in refreshes, and what refreshes add to a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from scale_inputs import Inputs

BATCH = 64  # windows of a timed step
PRESETS = ("cpu", "gpu", "paper")
PASSES = 4  # over the data, of the run whose refreshes are counted


def fastest(function: Callable[[], Any], repeats: int = 4) -> float:
    """Seconds of the processor that a call takes at least."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def costs_of_a_window(preset: str) -> dict[str, float]:
    """Milliseconds that a window takes in a gradient step, and when it is measured for a refresh.

    Args:
        preset: of `beacon train`.
    """
    from beacon.policy import DiffusionPolicy, ObservationSpec
    from beacon.training.config import OptimizationOptions, preset_config
    from beacon.training.optimization import make_optimizer

    spec = ObservationSpec(cameras={"image": (96, 96, 3)}, proprio={"position": 3}, action_dim=7)
    config, _ = preset_config(preset, "robomimic" if preset == "paper" else None)
    policy = DiffusionPolicy(spec, config)
    optimizer = make_optimizer(policy.parameters(), OptimizationOptions())
    draw = torch.Generator().manual_seed(0)
    images = {"image": torch.randint(255, (BATCH, config.obs_steps, 96, 96, 3), dtype=torch.uint8)}
    frames = {"image": images["image"][:, :1]}
    proprio = {"position": torch.rand(BATCH, config.obs_steps, 3)}
    actions = torch.rand(BATCH, config.horizon, 7)

    def step() -> None:
        noise, timesteps = policy.draw_noise(BATCH, config.draws, draw)
        losses, _ = policy(images, proprio, actions, noise, timesteps, crop_generator=draw)
        optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        optimizer.step()

    @torch.no_grad()
    def measure() -> None:
        seen = policy.encoder.encode_images(
            frames, None, None
        )  # every frame is encoded once, for all windows that have it
        assert seen is not None
        encoding = policy.encoder.join(seen.expand(-1, config.obs_steps, -1), proprio, None)
        noise, timesteps = policy.draw_noise(BATCH, 1, draw)
        policy.per_sample_loss(encoding.observation, actions, noise, timesteps)

    training = fastest(step, 2)
    policy.eval()
    return {"step": 1e3 * training / BATCH, "measure": 1e3 * fastest(measure, 2) / BATCH}


def training(inputs: Inputs) -> dict[str, float]:
    """The costs of a window with every preset, milliseconds; whatever the number of windows."""
    costs = {preset: costs_of_a_window(preset) for preset in PRESETS}
    return {f"{preset}_{what}": cost for preset in PRESETS for what, cost in costs[preset].items()}


def overhead(inputs: Inputs) -> dict[str, float]:
    """What refreshes add to the time of a run with the default options, over four passes over the data.

    The refresh and the costs of a window are measured; refreshes, and windows that are measured for them, are
    those of the options' schedule, with windows drawn as often as they weigh.
    """
    from beacon.training.config import preset_config
    from beacon.weighting import Reweighter

    reweighter = Reweighter.recommended(
        inputs.domains, 1, episodes=inputs.episodes, checks=(), planned_refreshes=10
    )
    embeddings = torch.from_numpy(inputs.embeddings)
    refresh = fastest(lambda: reweighter.refresh(inputs.losses, embeddings), 2)
    results = {"refresh_microseconds_per_window": 1e6 * refresh / inputs.count}
    for preset in PRESETS:
        options = preset_config(preset, "robomimic" if preset == "paper" else None)[1]
        an_epoch = options.steps_per_epoch * options.batch_size
        epochs = -(-PASSES * inputs.count // an_epoch)
        refreshes, measured = schedule(inputs, reweighter.weights, options, epochs)
        cost = costs_of_a_window(preset)
        between = refreshes * refresh + 1e-3 * cost["measure"] * measured
        results |= {
            f"{preset}_refreshes": refreshes,
            f"{preset}_measured_share": measured / (epochs * an_epoch),
            f"{preset}_overhead": 1.0 + between / (1e-3 * cost["step"] * epochs * an_epoch),
        }
    return results


def schedule(inputs: Inputs, weights: Any, options: Any, epochs: int) -> tuple[int, int]:
    """How many refreshes a run has, and how many windows are measured for them.

    Args:
        inputs: the windows.
        weights: of all of them, by which they are drawn.
        options: of the optimisation.
        epochs: of the run.
    """
    from beacon.methods.beacon.large_data import choose_old
    from beacon.methods.beacon.options import RECOMMENDED
    from beacon.methods.sampling import proportional

    measurement: Any = RECOMMENDED.measurement
    an_epoch = options.steps_per_epoch * options.batch_size
    context: Any = SimpleNamespace(
        windows=range(inputs.count),
        steps_per_epoch=options.steps_per_epoch,
        batch_size=options.batch_size,
        epochs=epochs,
    )
    pace, is_bounded = measurement.pace(context), measurement.is_bounded(context)
    max_age = max(measurement.max_age, inputs.count // an_epoch) if is_bounded else measurement.max_age
    ages = np.full(inputs.count, -1)
    refreshes = measured = 0
    for epoch in range(pace, epochs, pace):
        seen = proportional(weights, pace * an_epoch, 0, epoch)
        ages[seen] = epoch - 1
        old = np.flatnonzero(ages < max(epoch - max_age, 0))
        most = int(measurement.sweep_share * pace * an_epoch)
        if is_bounded and len(old) > most:
            old = choose_old(old, ages, inputs.episodes, most)
        ages[old] = epoch
        refreshes, measured = refreshes + 1, measured + len(old)
    return refreshes, measured
