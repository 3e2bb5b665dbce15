"""Refreshes of millions of windows: time and memory a window of every estimator, start-up, checkpoints.

    python benchmarks/scale.py [--windows 1e6 3e6 1e7] [--parts knn minimiser ...] [--json FILE]

Windows are synthetic: embeddings of 64 features and chunks of 8 numbers in memory-mapped files,
demonstrations of 100 windows, 5 target demonstrations. Every part and size has a process of its own with one
thread. Times a window are of the processor, so that other programs change little; of the memory the peak
counts, without mapped files. `training` is what a window costs in a gradient step and in a refresh,
`overhead` what refreshes add to a run with the default options. `index` compares the inverted index with the
exact search.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from scale_inputs import DEMO, FEATURES, PIECE, Inputs, PeakWatch
from scale_training import overhead, training

BATCH = 64  # windows of a mini-batch


def refresh(inputs: Inputs, **options: Any) -> dict[str, float]:
    """A refresh of a Reweighter that compares embeddings."""
    from beacon.weighting import Reweighter

    reweighter = partial(Reweighter, **options)
    return _refresh(inputs, reweighter, _seen(inputs))


def solve(inputs: Inputs, **options: Any) -> dict[str, float]:
    """A refresh whose discrepancies are known: the solver alone."""
    from beacon.weighting import Reweighter

    return _refresh(inputs, partial(Reweighter, **options), {"discrepancies": inputs.distances})


def recommended(inputs: Inputs) -> dict[str, float]:
    """A refresh with everything that we recommend."""
    from beacon.weighting import Reweighter

    return _refresh(inputs, Reweighter.recommended, _seen(inputs))


def _seen(inputs: Inputs) -> dict[str, Any]:
    return {"embeddings": torch.from_numpy(inputs.embeddings), "actions": torch.from_numpy(inputs.actions)}


def _refresh(inputs: Inputs, make: Callable[..., Any], seen: dict[str, Any]) -> dict[str, float]:
    """Time of a refresh that is not the first, and memory above what the inputs take."""
    with PeakWatch() as watch:
        reweighter = make(inputs.domains, 1, episodes=inputs.episodes, planned_refreshes=600)
        reweighter.refresh(inputs.losses, discrepancies=inputs.distances)
        start, computed = time.perf_counter(), time.process_time()
        reweighter.refresh(inputs.losses, **seen)
        seconds, computed = time.perf_counter() - start, time.process_time() - computed
    return {
        "microseconds_per_window": 1e6 * computed / inputs.count,
        "bytes_per_window": (watch.peak - watch.before) / inputs.count,
        "seconds": seconds,
    }


def localized(inputs: Inputs) -> dict[str, float]:
    """The localized discrepancy of a linear policy: 25 steps of its ascent, two passes over all windows.

    In a run the denoiser takes the place of the linear policy: the passes cost what the policy does.
    """
    from beacon.weighting import LocalizedEstimator, Reweighter

    rows = {domain: np.flatnonzero(inputs.domains == domain) for domain in (0, 1)}
    begin = {domain: slice(members[0], members[-1] + 1) for domain, members in rows.items()}
    del rows
    rng = np.random.default_rng(0)

    def loss(theta: Any, domain: Any) -> float:
        part, total = begin[int(domain)], 0.0
        for start in range(part.start, part.stop, PIECE):
            piece = slice(start, min(start + PIECE, part.stop))
            error = inputs.embeddings[piece] @ theta.astype(np.float32) - inputs.actions[piece, 0]
            total += float(error @ error)
        return total / float(part.stop - part.start)

    def gradient(theta: Any, domain: Any) -> Any:
        part = begin[int(domain)]
        index = rng.integers(part.start, part.stop, BATCH)
        features = inputs.embeddings[index].astype(np.float64)
        return 2 * features.T @ (features @ theta - inputs.actions[index, 0]) / BATCH

    estimator = LocalizedEstimator(loss, gradient, np.ones(FEATURES), steps=25, evaluate_every=25)
    return _refresh(inputs, partial(Reweighter, discrepancy=estimator), {})


def index(inputs: Inputs) -> dict[str, float]:
    """An inverted index of 100,000 targets against the exact search: recall, distances, weights, times.

    Embeddings come in groups, as those of episodes do. 20,000 source windows are compared.
    """
    from beacon.weighting import KNN, Reweighter
    from beacon.weighting.discrepancy.neighbor_index import nearest_by_index
    from beacon.weighting.discrepancy.neighbors import nearest_by_parts

    rng, asking, targets = np.random.default_rng(0), 20_000, 100_000
    centres = rng.normal(size=(1000, FEATURES)) * 1.5
    rows = centres[rng.integers(len(centres), size=asking + targets)]
    table = torch.from_numpy((rows + rng.normal(size=rows.shape)).astype(np.float32))
    table[: asking // 2] += 0.3  # half of the source looks otherwise
    queries, points = table[:asking], table[asking:]
    found, seconds = [], []
    for search in (nearest_by_parts, nearest_by_index):
        start = time.process_time()
        parts = [neighbors for _, neighbors in search(queries, points, 5)]
        seconds.append(time.process_time() - start)
        found.append((torch.cat([p.indices for p in parts]), torch.cat([p.mean_distance() for p in parts])))
    recall = float((found[0][0][:, :, None] == found[1][0][:, None, :]).any(2).double().mean())
    weights = []
    for beyond in (0, 1000):
        domains = np.repeat([0, 1], [asking, targets])
        reweighter = Reweighter(domains, 1, discrepancy=KNN(index_beyond=beyond), planned_refreshes=5)
        for _ in range(5):
            reweighter.refresh(np.full(len(domains), 0.5), table)
        weights.append(reweighter.weights[:asking])
    return {
        "recall": recall,
        "distance_ratio": float((found[1][1] / found[0][1]).mean()),
        "moved_weight_share": float(np.abs(weights[1] - weights[0]).sum() / weights[0].sum()),
        "weight_correlation": float(np.corrcoef(weights[0], weights[1])[0, 1]),
        "exact_seconds": seconds[0],
        "index_seconds": seconds[1],
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
    from beacon.weighting import (
        KNN,
        DomainClassifier,
        KNNJoint,
        KNNRelative,
        Minimiser,
        NeighborActionCheck,
        Reweighter,
        Steps,
    )

    check = NeighborActionCheck(prior="none")
    return {
        "steps": lambda inputs: solve(inputs, solver=Steps()),
        "minimiser": lambda inputs: solve(inputs, solver=Minimiser()),
        "minimiser-demo": lambda inputs: solve(inputs, solver=Minimiser(), granularity="demo"),
        "knn": lambda inputs: refresh(inputs, discrepancy=KNN()),
        "knn-relative": lambda inputs: refresh(inputs, discrepancy=KNNRelative()),
        "knn-joint": lambda inputs: refresh(inputs, discrepancy=KNNJoint()),
        "classifier": lambda inputs: refresh(inputs, discrepancy=DomainClassifier()),
        "neighbor-actions": lambda inputs: refresh(inputs, discrepancy=_nothing, checks=[check]),
        "localized": localized,
        "default": lambda inputs: _refresh(inputs, partial(Reweighter.recommended, checks=()), _seen(inputs)),
        "recommended": recommended,
        "checkpoint": checkpoint,
        "training": training,
        "overhead": overhead,
        "index": index,
    }


def _nothing(inputs: Any) -> NDArray[np.float64]:
    """A discrepancy that costs nothing, to measure a check alone."""
    return np.ones(len(inputs.source_domains))


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
        print((done.stderr.strip().splitlines() or ["it was killed"])[-1], file=sys.stderr)
        return {"failed": float(done.returncode)}
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def main() -> None:
    """Measure everything that was asked for; print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--windows", type=float, nargs="+", default=[1e6, 3e6, 1e7])
    parser.add_argument("--parts", nargs="*", help="by default all")
    parser.add_argument("--folder", type=Path, help="keep the tables here; by default they are removed")
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
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as name:
        for count in map(int, options.windows):
            Inputs(Path(name), count)
            for part in [*_parts(), "start-up"] if options.parts is None else options.parts:
                results[f"{part} {count}"] = measure(part, count, Path(name))
                print(f"{part} {count}: {json.dumps(results[f'{part} {count}'])}", flush=True)
            if not options.folder:
                for file in Path(name).iterdir():
                    file.unlink()
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
