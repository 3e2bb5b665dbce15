"""Cost of the methods, as ratios within one run: python benchmarks/methods.py [--json FILE] [--quick].

Gradient steps of every method at the sizes of the cpu preset, relative to plain co-training; what happens
between epochs is told apart. Dynamic time warping against a plain Python program.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from beacon.data import RobomimicWriter
from beacon.methods import METHODS, PAPER, RECOMMENDED, CoTrainingOptions, MmdOptions, UotOptions
from beacon.methods.beacon.measurement import ReuseGradientSteps
from beacon.methods.dtw import align_all
from beacon.policy import Encoding
from beacon.runs import RunFolder
from beacon.training import DataOptions, RunOptions, TrainConfig, Trainer, preset_config

IMAGE, DEMO_STEPS = 96, 65
BATCH = 64  # that all numbers of docs/speed.md are of; the preset itself has 16
# What is compared: name -> (method, options).
RIVALS: dict[str, tuple[str, Any]] = {
    "cotrain": ("cotrain", CoTrainingOptions()),
    "target-only": ("target-only", METHODS["target-only"].Options()),
    "source-only": ("source-only", METHODS["source-only"].Options()),
    "mmd (energy)": ("mmd", MmdOptions()),
    "mmd (rbf)": ("mmd", MmdOptions(kernel="rbf")),
    "uot (diag)": ("uot", UotOptions()),
    "uot (outer)": ("uot", UotOptions(reference="outer")),
    "beacon": ("beacon", RECOMMENDED),
    "beacon (paper)": ("beacon-paper", PAPER),
    "beacon (paper, amortized)": ("beacon-paper", replace(PAPER, measurement=ReuseGradientSteps())),
    "remix": ("remix", METHODS["remix"].Options()),
    "ambient": ("ambient", METHODS["ambient"].Options()),
    "deminf": ("deminf", METHODS["deminf"].Options()),
    "iwr": ("iwr", METHODS["iwr"].Options()),
    "iwr (policy's embeddings)": ("iwr", METHODS["iwr"].Options(embeddings="vision")),
    "qoq": ("qoq", METHODS["qoq"].Options()),
    "cfg-adda": ("cfg-adda", METHODS["cfg-adda"].Options()),
}


def write_demonstrations(path: Path, demos: int, seed: int) -> Path:
    """Demonstrations of noise, in the shapes of the small stack task."""
    rng = np.random.default_rng(seed)
    with RobomimicWriter(path, env_args={"env_name": "Noise", "type": 2, "env_kwargs": {}}) as writer:
        for _ in range(demos):
            obs = {
                "agentview_image": rng.integers(0, 256, (DEMO_STEPS, IMAGE, IMAGE, 3), dtype=np.uint8),
                "robot0_eef_pos": np.cumsum(rng.normal(0, 0.01, (DEMO_STEPS, 3)), axis=0).astype(np.float32),
            }
            writer.add_episode(None, rng.uniform(-1, 1, (DEMO_STEPS, 4)).astype(np.float32), obs)
    return path


def bench_steps(folder: Path, steps: int, rounds: int, demos: tuple[int, int]) -> dict[str, dict[str, float]]:
    """Seconds per gradient step of every rival, taken in turns so that a busy machine is fair to all."""
    source = write_demonstrations(folder / "source.hdf5", demos[0], 0)
    target = write_demonstrations(folder / "target.hdf5", demos[1], 1)
    policy, optimization = preset_config("cpu")
    optimization = replace(optimization, steps=steps * rounds, steps_per_epoch=steps, batch_size=BATCH)
    trainers: dict[str, Trainer] = {}
    for name, (method, options) in RIVALS.items():
        config = TrainConfig(
            method=method,
            options=replace(options, cache=folder / "alignments") if method == "uot" else options,
            data=DataOptions(source=(source,), target=target),
            policy=policy,
            optimization=optimization,
            run=RunOptions(device="cpu", tensorboard=False),
        )
        run = folder / name
        run.mkdir()
        trainers[name] = Trainer(config, RunFolder(run))
    times: dict[str, list[float]] = {name: [] for name in trainers}
    between: dict[str, list[float]] = {name: [] for name in trainers}
    for epoch in range(rounds):
        indices = {}
        for name, trainer in trainers.items():
            start = time.perf_counter()
            trainer.method.between_epochs(epoch)
            indices[name] = trainer.method.batches(epoch)
            between[name].append(time.perf_counter() - start)
            trainer.policy.train()
        for step in range(steps):
            for name, trainer in trainers.items():
                start = time.perf_counter()
                batch = next(trainer.loader(indices[name][step : step + 1]))
                losses, encoding, loss = trainer._loss(batch, epoch * steps + step)
                loss.backward()
                trainer.parameters.take_gradients()
                trainer.optimizer.step()
                trainer.ema.update(step)
                seen = Encoding(encoding.vision.detach(), encoding.observation.detach())
                trainer.method.observe(indices[name][step], seen, losses.detach())
                times[name].append(time.perf_counter() - start)
    plain = statistics.median(times["cotrain"])
    return {
        name: {
            "step_ms": 1e3 * statistics.median(values),
            # Each step against the co-training step of the same moment: slow moments are slow for both.
            "step_over_cotrain": statistics.median(
                mine / theirs for mine, theirs in zip(values, times["cotrain"], strict=True)
            ),
            "between_epochs_in_cotrain_steps": statistics.median(between[name][1:] or between[name]) / plain,
            # What a method does once, such as a score of all data; it grows with the data, not with the run.
            "before_training_in_cotrain_steps": between[name][0] / plain,
        }
        for name, values in times.items()
    }


def plain_dtw(x: Sequence[Sequence[float]], y: Sequence[Sequence[float]]) -> float:
    """The textbook program in plain Python."""
    before = [0.0] + [math.inf] * len(y)
    for a in x:
        row = [math.inf]
        for j, b in enumerate(y):
            row.append(math.dist(a, b) + min(before[j], before[j + 1], row[j]))
        before = row
    return before[-1]


def bench_dtw(sources: int, targets: int, steps: int, pairs: int) -> dict[str, float]:
    """All pairs at once, against the plain program on ``pairs`` of them; it gives no paths, ours does."""
    rng = np.random.default_rng(0)

    def walk() -> NDArray[np.float64]:
        return np.cumsum(rng.normal(0, 0.01, (steps, 3)), axis=0)

    source, target = [walk() for _ in range(sources)], [walk() for _ in range(targets)]
    start = time.perf_counter()
    found = align_all(target, source)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    plain = [plain_dtw(source[i].tolist(), target[0].tolist()) for i in range(pairs)]
    each = (time.perf_counter() - start) / pairs
    np.testing.assert_allclose(found.distance[0, :pairs], plain)
    return {
        "pairs": sources * targets,
        "steps": steps,
        "all_pairs_s": ours,
        "plain_python_all_pairs_s": each * sources * targets,
        "plain_python_over_ours": each * sources * targets / ours,
    }


def main() -> None:
    """Run all and print a table a benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        steps = bench_steps(
            Path(folder),
            steps=2 if options.quick else 8,
            rounds=2 if options.quick else 4,
            demos=(2, 1) if options.quick else (20, 5),
        )
    dtw = bench_dtw(*((50, 4) if options.quick else (500, 20)), steps=110, pairs=2 if options.quick else 20)
    console = Console()
    table = Table("method", title=f"gradient steps, cpu preset, batch {BATCH}", title_justify="left")
    for column in ("step, ms", "step ÷ co-training", "between epochs, in steps", "before training, in steps"):
        table.add_column(column, justify="right")
    for name, numbers in steps.items():
        table.add_row(name, *(f"{value:,.3g}" for value in numbers.values()))
    console.print(table)
    table = Table("what", "value", title="dynamic time warping", title_justify="left")
    for name, value in dtw.items():
        table.add_row(name.replace("_", " "), f"{value:,.3g}")
    console.print(table)
    machine = {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
    }
    results = {"machine": machine, "steps": steps, "dtw": dtw}
    print(json.dumps(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
