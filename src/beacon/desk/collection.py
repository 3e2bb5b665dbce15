"""`Collection`: datasets that are open, and all of their demonstrations in one row."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from beacon.data.decisions import dataset_name
from beacon.data.errors import listing
from beacon.data.formats import open_dataset
from beacon.data.formats.base import DatasetReader
from beacon.errors import UserError
from beacon.runs.data_records import DomainRecord


@dataclass(frozen=True, eq=False)
class OpenDataset:
    """One dataset. Readers are for one thread at a time: whoever reads holds the lock."""

    path: Path
    name: str  # by which decisions know it
    reader: DatasetReader
    is_target: bool
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, eq=False)
class Demo:
    """One demonstration."""

    dataset: OpenDataset
    name: str
    length: int


class Collection:
    """All demonstrations of some datasets, numbered through. Whoever opens it closes it.

    Args:
        paths: of the datasets or cards.
        target: which of them is the target's, if one is.
    """

    def __init__(self, paths: Sequence[Path], target: Path | None = None) -> None:
        self._opened = ExitStack()
        self.datasets: list[OpenDataset] = []
        self.demos: list[Demo] = []
        try:
            for path in dict.fromkeys(path.resolve() for path in paths):
                self._open(path, target is not None and path == target.resolve())
        except BaseException:
            self.close()
            raise
        if not self.demos:
            raise UserError(f"{listing(map(str, paths))}: there are no demonstrations")

    def _open(self, path: Path, is_target: bool) -> None:
        reader = self._opened.enter_context(open_dataset(path))
        dataset = OpenDataset(path, dataset_name(path), reader, is_target)
        for other in self.datasets:
            if other.name == dataset.name:
                raise UserError(
                    f"{other.path} and {path} have the same name, by which decisions know a dataset; "
                    "rename one of them"
                )
        self.datasets.append(dataset)
        self.demos += [Demo(dataset, name, reader.length(name)) for name in reader.episode_names]

    @property
    def names(self) -> dict[Path, list[str]]:
        """Every dataset and the names of its demonstrations."""
        return {dataset.path: list(dataset.reader.episode_names) for dataset in self.datasets}

    @property
    def targets(self) -> list[int]:
        """Numbers of the target demonstrations."""
        return [number for number, demo in enumerate(self.demos) if demo.dataset.is_target]

    def numbers(self, record: DomainRecord, where: str) -> list[int] | None:
        """The numbers here of demonstrations that an audit or a run speaks of; None where it has others.

        Args:
            record: which demonstrations those are.
            where: who says so, for messages.
        """
        name = dataset_name(Path(record.file))
        lengths = {
            demo.name: (number, demo.length)
            for number, demo in enumerate(self.demos)
            if demo.dataset.name == name
        }
        if not lengths:
            return None
        for demo, length in zip(record.demos, record.lengths, strict=True):
            if demo not in lengths or lengths[demo][1] != length:
                raise UserError(
                    f"{where} is of other data than {name}: {listing([demo])} is not there, "
                    f"or has not {length} steps"
                )
        return [lengths[demo][0] for demo in record.demos]

    def close(self) -> None:
        """Let go of all files."""
        self._opened.close()
