"""Refreshes of millions of windows: time and memory a window of every estimator, start-up, checkpoints.

    python benchmarks/scale.py [--windows 1e6 3e6 1e7] [--parts knn minimiser ...] [--json FILE]

Windows are synthetic: embeddings of 64 features and chunks of 8 numbers in memory-mapped files,
demonstrations of 100 windows, 20 target demonstrations. Every part and size has a process of its own; of its
memory the peak counts, without mapped files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

FEATURES, ACTIONS, DEMO, TARGET_DEMOS = 64, 8, 100, 20
PIECE = 100_000  # rows that are made at a time


class Inputs:
    """Memory-mapped embeddings and actions, and who the windows are."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.embeddings = self._mapped(folder / f"embeddings-{count}.npy", FEATURES)
        self.actions = self._mapped(folder / f"actions-{count}.npy", ACTIONS)
        self.episodes = np.arange(count) // DEMO
        self.domains = (self.episodes >= self.episodes[-1] + 1 - TARGET_DEMOS).astype(np.int64)
        self.losses = np.random.default_rng(0).uniform(0, 1, count)

    def _mapped(self, file: Path, columns: int) -> NDArray[np.float32]:
        if not file.exists():
            rng = np.random.default_rng(columns)
            shape = (self.count, columns)
            table = np.lib.format.open_memmap(file, "w+", np.float32, shape)  # type: ignore[no-untyped-call]
            for start in range(0, self.count, PIECE):
                part = table[start : start + PIECE]
                part[:] = rng.standard_normal(part.shape, np.float32)
        loaded: NDArray[np.float32] = np.load(file, mmap_mode="c")
        return loaded


def own_bytes() -> int:
    """Memory of this process now, without mapped files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


class PeakWatch:
    """The largest own memory while a block runs, looked at every few milliseconds."""

    def __enter__(self) -> PeakWatch:
        self.before = self.peak = own_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, own_bytes())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def refresh(inputs: Inputs, **options: Any) -> dict[str, float]:
    """The second refresh of a Reweighter that compares embeddings."""
    embeddings, actions = torch.from_numpy(inputs.embeddings), torch.from_numpy(inputs.actions)
    return _refresh(inputs, {"embeddings": embeddings, "actions": actions}, options)


def solve(inputs: Inputs, **options: Any) -> dict[str, float]:
    """A refresh whose discrepancies are known: the solver alone."""
    distances = np.random.default_rng(1).uniform(0.5, 2, inputs.count)
    return _refresh(inputs, {"discrepancies": distances}, options)


def _refresh(inputs: Inputs, seen: dict[str, Any], options: dict[str, Any]) -> dict[str, float]:
    """Time, and memory above what the inputs take."""
    from beacon.weighting import Reweighter

    with PeakWatch() as watch:
        reweighter = Reweighter(inputs.domains, 1, episodes=inputs.episodes, planned_refreshes=10, **options)
        reweighter.refresh(inputs.losses, **seen)
        start = time.perf_counter()
        reweighter.refresh(inputs.losses, **seen)
        seconds = time.perf_counter() - start
    return {
        "microseconds_per_window": 1e6 * seconds / inputs.count,
        "bytes_per_window": (watch.peak - watch.before) / inputs.count,
        "seconds": seconds,
    }


def checkpoint(inputs: Inputs, **options: Any) -> dict[str, float]:
    """Size and time of what a checkpoint holds of the weights, and of the last measurements."""
    from beacon.policy.tensor_files import load_tensors, save_tensors
    from beacon.weighting import Reweighter

    reweighter = Reweighter(inputs.domains, 1, episodes=inputs.episodes, planned_refreshes=10)
    reweighter.refresh(inputs.losses, discrepancies=np.ones(inputs.count))
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "method.safetensors"
        start = time.perf_counter()
        save_tensors(file, reweighter.state_dict())
        saving = time.perf_counter() - start
        start = time.perf_counter()
        reweighter.load_state_dict(load_tensors(file))
        loading = time.perf_counter() - start
        size = file.stat().st_size
    return {
        "weights_bytes_per_window": size / inputs.count,
        "measurements_bytes_per_window": 4.0 * (FEATURES + 1) + 8,
        "saving_seconds": saving,
        "loading_seconds": loading,
    }


def _parts() -> dict[str, Callable[[Inputs], dict[str, float]]]:
    from beacon.weighting import KNN, DomainClassifier, KNNJoint, KNNRelative, Minimiser, Steps

    return {
        "steps": lambda inputs: solve(inputs, solver=Steps()),
        "minimiser": lambda inputs: solve(inputs, solver=Minimiser()),
        "minimiser-demo": lambda inputs: solve(inputs, solver=Minimiser(), granularity="demo"),
        "knn": lambda inputs: refresh(inputs, discrepancy=KNN()),
        "knn-relative": lambda inputs: refresh(inputs, discrepancy=KNNRelative()),
        "knn-joint": lambda inputs: refresh(inputs, discrepancy=KNNJoint()),
        "classifier": lambda inputs: refresh(inputs, discrepancy=DomainClassifier()),
        "checkpoint": checkpoint,
    }


def start_up(folder: Path, count: int) -> dict[str, float]:
    """Opening a dataset of ``count`` small frames, first from HDF5, then from its mapped frames."""
    from beacon.data import EpisodeSet, RobomimicWriter, Windows

    file, rng = folder / f"frames-{count}.hdf5", np.random.default_rng(0)
    with RobomimicWriter(file, env_args={"env_name": "Scale", "type": 2, "env_kwargs": {}}) as writer:
        for _ in range(count // DEMO):
            images = np.broadcast_to(rng.integers(255, size=(1, 8, 8, 3), dtype=np.uint8), (DEMO, 8, 8, 3))
            position = rng.normal(size=(DEMO, 3)).astype(np.float32)
            actions = rng.uniform(-1, 1, (DEMO, 4)).astype(np.float32)
            writer.add_episode(None, actions, {"agentview_image": images, "robot0_eef_pos": position})
    times = []
    for _ in range(2):
        start = time.perf_counter()
        windows = Windows([EpisodeSet.load(file, memory_limit_bytes=0)], 2, 16)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(100):
        windows.gather(rng.integers(len(windows), size=64))
    gathering = (time.perf_counter() - start) / 100
    return {"first_seconds": times[0], "cached_seconds": times[1], "milliseconds_per_batch": 1e3 * gathering}


def measure(part: str, count: int, folder: Path) -> dict[str, float]:
    """One part at one size, in a process of its own."""
    command = [sys.executable, __file__, "--one", part, str(count), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"failed": float(done.returncode)}
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def main() -> None:
    """Measure everything that was asked for; print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--windows", type=float, nargs="+", default=[1e6, 3e6, 1e7])
    parser.add_argument("--parts", nargs="+", help="by default all")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        part, count, folder = options.one[0], int(options.one[1]), Path(options.one[2])
        torch.set_num_threads(1)
        numbers = start_up(folder, count) if part == "start-up" else _parts()[part](Inputs(folder, count))
        print(json.dumps(numbers))
        return
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for count in map(int, options.windows):
            Inputs(Path(name), count)
            for part in options.parts or [*_parts(), "start-up"]:
                results[f"{part} {count}"] = measure(part, count, Path(name))
                print(f"{part} {count}: {json.dumps(results[f'{part} {count}'])}", flush=True)
            for file in Path(name).iterdir():
                file.unlink()
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
