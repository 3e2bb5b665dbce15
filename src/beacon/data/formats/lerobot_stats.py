"""Statistics of features as LeRobot keeps them: of every episode, and of all episodes together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
MOST_FRAMES = 32  # of an episode that go into the statistics of its pictures
MOST_PIXELS = 64  # along a side

Stats = dict[str, NDArray[np.float64]]


def vector_stats(values: NDArray[Any]) -> Stats:
    """Of (T, ...) numbers; shapes as one step has it, ``(1,)`` for scalars."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    shape = values.shape[1:] or (1,)
    stats = {"min": rows.min(0), "max": rows.max(0), "mean": rows.mean(0), "std": rows.std(0)}
    stats |= dict(zip(QUANTILES, np.quantile(rows, list(QUANTILES.values()), axis=0), strict=True))
    shaped: Stats = {name: value.reshape(shape) for name, value in stats.items()}
    return shaped | {"count": np.array([len(values)])}


def image_stats(frames: NDArray[np.uint8]) -> Stats:
    """Of (T, H, W, 3) pictures, per channel, in [0, 1], of some frames and some of their pixels."""
    chosen = frames[np.linspace(0, len(frames) - 1, min(MOST_FRAMES, len(frames))).round().astype(int)]
    step = max(1, max(chosen.shape[1:3]) // MOST_PIXELS)
    pixels = chosen[:, ::step, ::step].reshape(-1, chosen.shape[3]) / 255.0
    stats = {name: value.reshape(-1, 1, 1) for name, value in vector_stats(pixels).items() if name != "count"}
    return stats | {"count": np.array([len(chosen)])}


def combine(stats: Sequence[Stats]) -> Stats:
    """Of several episodes together; quantiles are the mean of theirs, weighted by their lengths."""
    counts = np.array([float(entry["count"][0]) for entry in stats])
    shares = counts / counts.sum()

    def mean(name: str) -> NDArray[np.float64]:
        return np.tensordot(shares, np.stack([entry[name] for entry in stats]), 1)

    centre = mean("mean")
    spread = np.stack([entry["std"] ** 2 + (entry["mean"] - centre) ** 2 for entry in stats])
    combined: Stats = {
        "min": np.min([entry["min"] for entry in stats], axis=0),
        "max": np.max([entry["max"] for entry in stats], axis=0),
        "mean": centre,
        "std": np.sqrt(np.tensordot(shares, spread, 1)),
        "count": np.array([int(counts.sum())]),
    }
    return combined | {name: mean(name) for name in QUANTILES}


def to_lists(stats: Mapping[str, Stats]) -> dict[str, dict[str, Any]]:
    """As JSON holds them."""
    return {
        feature: {name: value.tolist() for name, value in entry.items()} for feature, entry in stats.items()
    }
