"""Weights of training samples as other training loops read them: Parquet files by the dataset's own index.

LeRobot knows a frame by its ``index``. Two files carry a weight for each: ``sample_weights.parquet`` with the
columns ``index`` and ``weight``, and ``sarm_progress.parquet``, from which LeRobot's reward-aware behaviour
cloning computes its weights. The latter is made so that exactly ours come out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.files import replacing

WEIGHTS_FILE = "sample_weights.parquet"
PROGRESS_FILE = "sarm_progress.parquet"
KAPPA = 1e9  # for LeRobot's --sample_weighting.kappa: no progress counts as full
EPSILON = 1e-6  # LeRobot's default

Values = NDArray[np.float64]


def write_lerobot_weights(path: Path, index: NDArray[np.int64], weight: Values) -> None:
    """Write ``index, weight``.

    Args:
        path: of the Parquet file.
        index: numbers of frames in the dataset.
        weight: at least 0 each.
    """
    _check(index, weight)
    _write(path, {"index": pa.array(index, pa.int64()), "weight": pa.array(weight, pa.float64())})


def write_rabc_progress(
    path: Path, index: NDArray[np.int64], weight: Values, chunk_size: int, epsilon: float = EPSILON
) -> float:
    """Write progress values from which LeRobot's reward-aware weights come out as ``weight``, up to a factor.

    LeRobot takes weights in [0, 1], so they are divided by their largest; it then normalises every batch.

    Args:
        path: of the Parquet file.
        index: numbers of frames in the dataset, 0 to N − 1, each once.
        weight: at least 0 each.
        chunk_size: that of the policy that will be trained; the file is good for this one only.
        epsilon: LeRobot's option of that name.

    Returns:
        The factor: weight = factor × what LeRobot computes before it normalises.
    """
    _check(index, weight)
    if sorted(index.tolist()) != list(range(len(index))):
        raise UserError(
            f"{path}: every frame of the dataset needs a weight, 0 to {len(index) - 1}, each once"
        )
    largest = float(weight.max())
    if largest <= 0:
        raise UserError(f"{path}: all weights are 0; there is nothing to train on")
    scaled = np.empty(len(weight))
    scaled[index] = weight / largest
    progress = rabc_progress(scaled, chunk_size, epsilon)
    rows = len(progress)
    columns = {
        "index": pa.array(np.arange(rows), pa.int64()),
        # One episode for all: the last frames of true ones could have no weight.
        "episode_index": pa.array(np.zeros(rows, np.int64)),
        "progress_sparse": pa.array(progress, pa.float64()),
    }
    _write(path, columns)
    return largest


def rabc_progress(weight: Values, chunk_size: int, epsilon: float = EPSILON) -> Values:
    r"""Progress values p of N frames and some frames behind them that no dataset has.

    LeRobot computes, over all rows, d_i = p[min(i + c, last)] − p[i], the mean μ and the standard deviation σ
    of d, and for 0 ≤ d ≤ κ the weight clip((d − μ + 2σ) / (4σ + ε), 0, 1). With κ very large, σ = (1 − ε) / 4
    and μ = 2σ this is d itself. So d_i = w_i for the frames of the dataset, and the rows behind them are such
    that μ and σ are these.

    Args:
        weight: (N,) in [0, 1].
        chunk_size: c, how far ahead LeRobot looks.
        epsilon: ε.
    """
    if chunk_size < 1:
        raise UserError(f"chunk size {chunk_size}: must be at least 1")
    count = len(weight)
    # Enough of them to bring mean and deviation to what is wanted, also where all weights are 0, or all 1.
    ghosts = max(5 * count + 6, 4 * chunk_size)
    ghosts += ghosts % 2
    sigma = (1 - epsilon) / 4
    mean = 2 * sigma
    rows = count + ghosts
    # The last row's difference is 0, whatever is wanted: it looks at itself. The others make up for it.
    free = ghosts - 1
    total = rows * mean - weight.sum()
    squares = rows * (sigma**2 + mean**2) - (weight**2).sum()
    centre = total / free
    spread = np.sqrt(max(squares / free - centre**2, 0.0) * free / (free - free % 2))
    signs = np.where(np.arange(free) % 2 == 0, 1.0, -1.0)
    if free % 2:
        signs[-1] = 0.0
    difference = np.concatenate([weight, centre + spread * signs, [0.0]])
    progress = np.zeros(rows)
    # Backwards in blocks of c rows: a row's future is in the block behind it, or the last row.
    for stop in range(rows - 1, 0, -chunk_size):
        start = max(stop - chunk_size, 0)
        future = np.minimum(np.arange(start, stop) + chunk_size, rows - 1)
        progress[start:stop] = progress[future] - difference[start:stop]
    return progress


def _check(index: NDArray[np.int64], weight: Values) -> None:
    if len(index) != len(weight) or not len(index):
        raise UserError(f"{len(weight)} weights for {len(index)} frames")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise UserError("weights must be finite and at least 0")


def _write(path: Path, columns: dict[str, pa.Array]) -> None:
    with replacing(path) as temporary:
        pq.write_table(pa.table(columns), temporary)
