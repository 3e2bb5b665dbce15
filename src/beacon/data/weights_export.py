"""The weights of a run as files for other training loops, aligned with each dataset's own frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from beacon.data.errors import listing
from beacon.data.formats import open_dataset
from beacon.data.formats.base import ReadOptions
from beacon.data.sample_weights import (
    PROGRESS_FILE,
    WEIGHTS_FILE,
    Values,
    write_lerobot_weights,
    write_rabc_progress,
)
from beacon.errors import UserError
from beacon.files import replacing

DEMONSTRATIONS_FILE = "demonstrations.parquet"


@dataclass(frozen=True, eq=False)
class DatasetWeights:
    """The weights of the demonstrations of one dataset."""

    name: str  # of the domain
    file: Path  # the dataset, or its card
    demos: tuple[str, ...]
    weights: tuple[Values, ...]  # of each demonstration, one a time step
    options: ReadOptions = field(default_factory=ReadOptions)  # how the run opened it

    def __post_init__(self) -> None:
        if len(self.demos) != len(self.weights):
            raise ValueError(f"{len(self.weights)} lists of weights for {len(self.demos)} demonstrations")


def split_weights(
    names: Sequence[str],
    files: Sequence[Path],
    demos: Sequence[Sequence[str]],
    weight: Values,
    episode: NDArray[np.int64],
) -> list[DatasetWeights]:
    """Weights of all windows of a run, by dataset and demonstration.

    Args:
        names: of the domains, in the order of the windows.
        files: their datasets.
        demos: names of their demonstrations.
        weight: (N,) of every window.
        episode: (N,) demonstration of every window, numbered through all domains; windows in order of time.
    """
    parts, first = [], 0
    for name, file, members in zip(names, files, demos, strict=True):
        weights = tuple(weight[episode == first + number] for number in range(len(members)))
        parts.append(DatasetWeights(name, file, tuple(members), weights))
        first += len(members)
    return parts


def has_frame_index(dataset: DatasetWeights) -> bool:
    """Whether the frames of a dataset are counted, as LeRobot's are.

    Args:
        dataset: one with demonstrations.
    """
    with open_dataset(dataset.file, dataset.options) as reader:
        return dataset.demos[0] in reader.episode_names and reader.dataset_index(dataset.demos[0]) is not None


def frame_weights(dataset: DatasetWeights) -> tuple[NDArray[np.int64], Values, int]:
    """Numbers of frames in the dataset's own count, their weights, and how many frames the dataset has."""
    indices, weights = [], []
    with open_dataset(dataset.file, dataset.options) as reader:
        missing = [name for name in dataset.demos if name not in reader.episode_names]
        if missing:
            raise UserError(f"{dataset.file} has changed since the run: it has no {listing(missing)}")
        for name, values in zip(dataset.demos, dataset.weights, strict=True):
            index = reader.dataset_index(name)
            if index is None:
                raise UserError(
                    f"{dataset.file} is no LeRobot dataset, so its frames have no index; "
                    "convert it first with beacon data convert, or export with --format parquet"
                )
            steps = reader.step_of_frame(name)
            if len(steps) != len(index) or steps.max(initial=0) >= len(values):
                raise UserError(f"{dataset.file}, {name} has changed since the run: it has another length")
            indices.append(index)
            weights.append(values[steps])
        total = reader.frame_count() or 0
    return np.concatenate(indices), np.concatenate(weights), total


def export_for_lerobot(
    out: Path, datasets: Sequence[DatasetWeights], chunk_size: int | None = None
) -> list[Path]:
    """Write ``OUT/<domain>/sample_weights.parquet`` and, for a chunk size, ``sarm_progress.parquet``.

    Frames of demonstrations that were not trained on have weight 0 in the latter.

    Args:
        out: folder of the files.
        datasets: those of the run that are LeRobot datasets.
        chunk_size: of the policy that LeRobot will train with the latter.
    """
    written = []
    for dataset in datasets:
        index, weight, total = frame_weights(dataset)
        folder = out / dataset.name.replace("/", "_")
        write_lerobot_weights(folder / WEIGHTS_FILE, index, weight)
        written.append(folder / WEIGHTS_FILE)
        if chunk_size is not None:
            everyone = np.zeros(total)
            if index.max() >= total:
                raise UserError(f"{dataset.file}: its 'index' does not count its {total} frames from 0")
            everyone[index] = weight
            write_rabc_progress(folder / PROGRESS_FILE, np.arange(total), everyone, chunk_size)
            written.append(folder / PROGRESS_FILE)
    return written


def export_demonstrations(path: Path, datasets: Sequence[DatasetWeights]) -> None:
    """Write one row a demonstration: domain, file, name, steps, mean weight, share of all weight.

    Args:
        path: of the Parquet file.
        datasets: those of the run.
    """
    rows = [
        (dataset.name, str(dataset.file), name, len(values), float(values.mean()), float(values.sum()))
        for dataset in datasets
        for name, values in zip(dataset.demos, dataset.weights, strict=True)
    ]
    total = sum(row[5] for row in rows) or 1.0
    columns = {
        key: pa.array([row[number] for row in rows])
        for number, key in enumerate(("domain", "file", "demo", "steps", "weight"))
    }
    columns["share"] = pa.array([row[5] / total for row in rows])
    with replacing(path) as temporary:
        pq.write_table(pa.table(columns), temporary)
