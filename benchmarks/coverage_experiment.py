"""Do five demonstrations chosen by coverage help more than five at random?

In simulation: ten target demonstrations of stack in another texture (whole table), or in the stand-in for a
real robot (half of the table). Five more start where source demonstrations start: those that ``beacon
coverage`` proposes, or five drawn at random. An expert does them in the target's domain. One policy is
trained on either, with the same seed, and evaluated from the same initial states. Results stay in WORK
(``python benchmarks/coverage_experiment.py WORK``): called again, it goes on where it stopped.
``--placements`` trains nothing: how far object placements of the source are from the nearest one recorded.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from beacon.analysis import compare_methods, greedy_facilities
from beacon.audit.coverage import CoverageOptions, measure_coverage
from beacon.data import RobomimicWriter, load_domains
from beacon.data.corruption import demonstrations
from beacon.errors import RunError
from beacon.files import write_bytes
from beacon.randomness import episode_seed
from beacon.sim.evaluate import EvaluateConfig, evaluate, read_result
from beacon.sim.experts import make_expert
from beacon.sim.replay import load_demonstration
from beacon.sim.rollout import pictures, record
from beacon.sim.simulation import InitialState
from beacon.sim.world import World
from beacon.suites.datasets import provide
from beacon.suites.experiment import EvaluationSpec
from beacon.suites.presets import SuitePreset, find_preset
from beacon.suites.setting import Setting
from beacon.suites.variants import VARIANTS
from beacon.training.run import train

TASK = "stack"
FURTHER = 5
TRIES = 20  # of the expert, from one start
# Gap -> where its first target demonstrations start, and where policies are evaluated.
GAPS = {"texture": ("train", ("train",)), "real-proxy": ("target", ("target", "ood"))}
CHOICES = ("coverage", "random")


def setting_of(preset: SuitePreset, gap: str, seed: int) -> Setting:
    """Demonstrations and evaluations of a gap and seed."""
    region, evaluated = GAPS[gap]
    specs = tuple(EvaluationSpec(gap, name, preset.episodes, preset.states_seed) for name in evaluated)
    return Setting(preset, TASK, gap, seed, specs, evaluated, region=region)


def choose(choice: str, source: Path, target: Path, seed: int) -> list[int]:
    """Numbers of the source demonstrations whose starts are recorded next."""
    sources, known = load_domains([source, target])
    if choice == "random":
        order = np.random.default_rng([seed, 43]).permutation(len(sources))
        return [int(number) for number in order[:FURTHER]]
    result = measure_coverage([sources], known, CoverageOptions(next=FURTHER))
    return [proposal.episode for proposal in result.proposals]


def record_starts(source: Path, starts: list[int], world: World, seed: int, out: Path) -> None:
    """An expert's demonstrations in the target's domain, from the starts of source demonstrations."""
    episode = world.episode()
    with RobomimicWriter(out, env_args={"env_name": f"Beacon{world.task.title}", "type": 1}) as writer:
        for number, start in enumerate(starts):
            _, state, _ = load_demonstration(str(source), start, world)
            initial = InitialState(state.qpos, episode_seed(seed, "expert", number), state.placements)
            for attempt in range(TRIES):
                rng = np.random.default_rng([seed, number, attempt])
                recording = record(episode, initial, lambda rng=rng: make_expert(episode, rng).act)  # type: ignore[misc]
                if min(world.task.outcomes(recording.frames()).values()) >= 1:
                    break
            else:
                raise RunError(f"the expert failed {TRIES} times from the start of demonstration {start}")
            frames = pictures(world, recording.states, initial.seed)
            writer.add_episode(
                f"demo_{number}",
                np.stack(recording.actions),
                {**recording.observations(), "agentview_image": frames},
                states=np.stack(recording.states),
                attributes={"start_of": start, "seed": initial.seed},
            )


def run(work: Path, preset: SuitePreset, gap: str, seed: int, choice: str, method: str) -> dict[str, Any]:
    """Train and evaluate one policy, or read what came of it; outcomes by region."""
    name = f"{gap}-{seed}-{choice}"
    folder = work / "runs" / f"{name}-{method}"
    row = folder / f"{preset.states}.json"
    if row.exists():
        return dict(json.loads(row.read_text()))
    began = time.monotonic()
    setting = setting_of(preset, gap, seed)
    experiment = setting.experiment(VARIANTS[method])
    # As many as the target has before anything is recorded, in a file of their own.
    first = replace(setting.target(), demos=experiment.target_demos, label=f"{gap}-{seed}")
    source, target = provide(setting.source(), work / "data"), provide(first, work / "data")
    further, card = work / "data" / f"{name}.hdf5", work / "data" / f"{name}.yaml"
    starts = choose(choice, source, target, seed)
    if not further.exists():
        world = World(TASK, gap, preset.size)
        record_starts(source, starts, world, seed, further)
        world.close()
    write_bytes(card, f"path: [{target.name}, {further.name}]\n".encode())
    config = experiment.train_config(work / "data")
    config = replace(config, data=replace(config.data, target=card, target_demos=None))
    train(config, folder, resume=True)
    outcomes = {}
    for spec in experiment.evaluations:
        file = folder / "eval" / f"{spec.region}-{preset.states}.json"
        asked = EvaluateConfig(TASK, gap, preset.size, spec.region, spec.episodes, spec.seed)
        result = read_result(file) if file.exists() else evaluate(folder, asked, out=file)
        reported = next(iter(result["rates"]))  # the outcome that the task reports first
        outcomes[spec.region] = [episode[reported] for episode in result["episodes"]]
    done = {"gap": gap, "seed": seed, "choice": choice, "starts": starts, "outcomes": outcomes}
    write_bytes(row, (json.dumps(done) + "\n").encode())
    print(f"{name}: {(time.monotonic() - began) / 60:.1f} min", flush=True)
    return done


def placements(file: Path) -> NDArray[np.float64]:
    """Where all objects start, (demonstrations, 2 · objects)."""
    with h5py.File(file) as content:
        data = content["data"]
        placed = [json.loads(data[name].attrs["placements"]) for name in demonstrations(data)]
    return np.array([[v for _, where in sorted(p.items()) for v in where[:2]] for p in placed])


def placement_row(work: Path, preset: SuitePreset, gap: str, seed: int) -> dict[str, Any]:
    """Share of the source's distance to the nearest placement that is left after five more."""
    setting = setting_of(preset, gap, seed)
    first = replace(setting.target(), demos=preset.target_demos, label=f"{gap}-{seed}")
    source, target = provide(setting.source(), work / "data"), provide(first, work / "data")
    own, known = placements(source), placements(target)
    uncovered = np.linalg.norm(own[:, None] - known, axis=2).min(axis=1)
    between = np.linalg.norm(own[:, None] - own, axis=2)

    def left(starts: list[int]) -> float:
        return float(np.minimum(uncovered, between[:, starts].min(axis=1)).sum() / uncovered.sum())

    rng = np.random.default_rng([seed, 43])
    draws = [rng.permutation(len(own))[:FURTHER].tolist() for _ in range(200)]
    best = [choice.index for choice in greedy_facilities(between, uncovered, FURTHER)]
    return {
        "gap": gap,
        "seed": seed,
        "coverage": left(choose("coverage", source, target, seed)),
        "random": float(np.mean([left(drawn) for drawn in draws])),
        "by placements": left(best),
    }


def main() -> None:
    """Print a line a pair, and the difference over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--gaps", nargs="+", choices=GAPS, default=list(GAPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--method", default="beacon", help="a row of the suites")
    parser.add_argument("--preset", default="cpu", help="of the suites")
    parser.add_argument("--states", default="test", help="initial states, as of beacon suite run")
    parser.add_argument("--placements", action="store_true", help="train nothing, measure placements")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    preset = find_preset(asked.preset, asked.states)
    work = asked.work / preset.name
    rows: list[dict[str, Any]] = []
    if asked.placements:
        for gap in asked.gaps:
            for seed in asked.seeds:
                row = placement_row(work, preset, gap, seed)
                rows.append(row)
                shares = ", ".join(f"{k} {v:.2f}" for k, v in row.items() if isinstance(v, float))
                print(f"{gap} seed {seed}: {shares}", flush=True)
        write_rows(asked.json, {"preset": asked.preset, "placements": True, "rows": rows})
        return
    about = {"preset": asked.preset, "states": asked.states, "method": asked.method}
    for gap in asked.gaps:
        pairs = []
        for seed in asked.seeds:
            pair = [run(work, preset, gap, seed, choice, asked.method) for choice in CHOICES]
            rows += pair
            pairs.append(pair)
            write_rows(asked.json, {**about, "rows": rows})  # what there is may be looked at
            for region in pair[0]["outcomes"]:
                rates = [100 * float(np.mean(row["outcomes"][region])) for row in pair]
                words = f"coverage {rates[0]:.0f}, random {rates[1]:.0f}"
                print(f"{gap} seed {seed} {region}: {words}", flush=True)
        for region in GAPS[gap][1]:
            chosen, drawn = ([pair[side]["outcomes"][region] for pair in pairs] for side in (0, 1))
            test = compare_methods(chosen, drawn)
            print(
                f"{gap} {region}: coverage - random = {100 * test.difference:+.1f} points "
                f"({100 * test.low:+.1f} to {100 * test.high:+.1f}, {test.seeds} seeds)"
            )


def write_rows(file: Path | None, content: dict[str, Any]) -> None:
    """Write what was measured, if asked for."""
    if file is not None:
        write_bytes(file, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
