"""Speed of simulation on one core, side by side with stock robosuite: ``python benchmarks/sim.py``.

Prints a table; ``--json FILE`` also writes the numbers. Times are processor time; on a busy machine they
still grow, by up to two thirds here, so compare only numbers of one run, and run it on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.batch import run_batch
from beacon.sim.evaluate import evaluation_states
from beacon.sim.experts import make_expert
from beacon.sim.generate import GenerateConfig, generate
from beacon.sim.policies import RandomPolicy
from beacon.sim.rollout import record
from beacon.sim.scene import robosuite_folder
from beacon.sim.tasks import TASKS
from beacon.sim.world import Episode, World


class Onlooker(RandomPolicy):
    """Random actions, but it looks at every eighth picture, as a trained policy does."""

    observation_keys = ("agentview_image", "robot0_eef_pos")


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Processor seconds a call, after three to warm up."""
    for _ in range(3):
        work()
    began = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - began) / repeats


def demonstration_states(world: World) -> list[Array]:
    """States spread over a demonstration: the arm is out of sight at the start and fills the view later."""
    episode = Episode(world)
    rng = np.random.default_rng(0)
    recording = record(episode, world.initial_state("train", 0), lambda: make_expert(episode, rng).act)
    return recording.states[::4]


def frame_seconds(draw: Callable[[], Any], show: Callable[[Array], None], states: Sequence[Array]) -> float:
    """Processor seconds a picture, averaged over states; putting the state in place is not counted."""
    spent = 0.0
    for index, state in enumerate([states[0], *states]):
        show(state)
        began = time.process_time()
        draw()
        spent += (time.process_time() - began) if index else 0.0  # the first one warms up
    return spent / len(states)


def stock(size: str) -> dict[str, float]:
    """Robosuite's own stacking step, and its own renderer on our scene and states."""
    robosuite_folder()
    import robosuite

    import beacon.sim.robosuite_env  # noqa: F401 - registers the environments

    options: dict[str, Any] = {"hard_reset": False, "horizon": 100_000, "renderer": "mujoco"}
    blind = robosuite.make(
        "Stack", robots="Panda", use_camera_obs=False, has_offscreen_renderer=False, **options
    )
    blind.reset()
    step = seconds(lambda: blind.step(np.zeros(7)), 60)
    blind.close()
    seeing = robosuite.make("BeaconStack", size=size, use_camera_obs=False, **options)
    seeing.reset()
    frame = frame_seconds(
        lambda: seeing.sim.render(camera_name="agentview", width=96, height=96),
        seeing.reset_to_state,
        demonstration_states(World("stack", "source", size)),
    )
    seeing.close()
    return {"step_ms": 1e3 * step, "frame_ms": 1e3 * frame}


def ours(size: str) -> dict[str, float]:
    """The same here."""
    world = World("stack", "source", size)
    states = demonstration_states(world)
    episode = Episode(world)
    episode.reset(world.initial_state("train", 0))
    idle = np.zeros(world.task.size.action_dim)
    step = seconds(lambda: episode.step(idle), 200)
    nq = world.model.nq
    frame = frame_seconds(
        lambda: world.renderer(episode.data), lambda state: episode.restore(state[1 : 1 + nq]), states
    )
    world.close()
    return {"step_ms": 1e3 * step, "frame_ms": 1e3 * frame}


def demonstrations(task: str, size: str, count: int) -> dict[str, float]:
    """Seconds a demonstration, written to disk with its pictures."""
    with tempfile.TemporaryDirectory() as folder:
        generate(GenerateConfig(task, Path(folder) / "warm.hdf5", demos=1, size=size))
        began = time.process_time()
        report = generate(GenerateConfig(task, Path(folder) / "demos.hdf5", demos=count, size=size))
        spent = time.process_time() - began
    return {"seconds_per_demo": spent / count, "mean_length": report.mean_length}


def evaluation(task: str, size: str, episodes: int) -> dict[str, float]:
    """Episodes a minute of simulator and camera, to the horizon; the policy's own time comes on top."""
    world = World(task, "source", size)
    policy = Onlooker(world.task.size.action_dim)
    states = evaluation_states(world, "train", 0, episodes)
    run_batch(world, policy, states[:1], [0])
    began = time.process_time()
    run_batch(world, policy, states, list(range(episodes)))
    spent = time.process_time() - began
    world.close()
    return {"episodes_per_minute": 60 * episodes / spent, "horizon": world.task.size.horizon}


def expert_rates(size: str, episodes: int, tasks: Sequence[str]) -> dict[str, dict[str, float]]:
    """Successes of the scripted experts over fresh states."""
    rates = {}
    for task in tasks:
        world = World(task, "source", size)
        episode = Episode(world)
        solved, lengths = 0.0, []
        for state in evaluation_states(world, "train", 0, episodes):
            rng = np.random.default_rng(state.seed)
            recording = record(episode, state, lambda e=episode, r=rng: make_expert(e, r).act)  # type: ignore[misc]
            solved += min(world.task.outcomes(recording.frames()).values()) >= 1.0
            lengths.append(len(recording))
        rates[task] = {"successes": solved, "episodes": episodes, "mean_length": float(np.mean(lengths))}
        world.close()
    return rates


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--experts", type=int, metavar="N", help="only count the experts' successes over N episodes"
    )
    parser.add_argument("--size", choices=("small", "full"), help="only this size; by default both")
    parser.add_argument("--task", choices=tuple(TASKS), help="only this task; by default all")
    options = parser.parse_args()
    tasks = [options.task] if options.task else list(TASKS)
    sizes = [options.size] if options.size else ["small", "full"]
    results: dict[str, Any] = {}
    if options.experts:
        for size in sizes:
            results[size] = expert_rates(size, options.experts, tasks)
            for task, row in results[size].items():
                print(
                    f"{size:<6} {task:<12} {row['successes']:.0f} of {row['episodes']:.0f} "
                    f"(mean length {row['mean_length']:.0f})"
                )
    else:
        for size in sizes:
            theirs = results[f"robosuite {size}"] = _show(f"robosuite, {size}", stock(size))
            here = results[f"here {size}"] = _show(f"here, {size}", ours(size))
            print(
                f"{size}: the same picture {theirs['frame_ms'] / here['frame_ms']:.1f} times faster, "
                f"a control step {theirs['step_ms'] / here['step_ms']:.1f} times"
            )
        for task in tasks:
            for size in sizes:
                found = {**demonstrations(task, size, 5), **evaluation(task, size, 5)}
                results[f"{task} {size}"] = _show(f"{task} {size}", found)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


def _show(title: str, numbers: Mapping[str, float]) -> Mapping[str, float]:
    parts = [f"{name} {value:.4g}" for name, value in numbers.items()]
    for name in ("step", "frame"):
        if f"{name}_ms" in numbers:
            parts.append(f"{name}s/s {1e3 / numbers[f'{name}_ms']:.0f}")
    print(f"{title:<18} " + ", ".join(parts), flush=True)
    return numbers


if __name__ == "__main__":
    main()
