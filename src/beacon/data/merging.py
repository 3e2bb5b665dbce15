"""Several datasets that are one domain, and demonstrations of a domain that are held out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.episodes import EpisodeSet
from beacon.data.errors import DataWarning, printable
from beacon.data.formats import open_dataset
from beacon.data.formats.base import ArrayInfo, DatasetReader, Problem, ReadOptions
from beacon.errors import UserError

DomainPath = str | Path | Sequence[str | Path]  # one dataset, or several that are one domain


def domain_paths(domain: DomainPath) -> tuple[Path, ...]:
    """The datasets of a domain."""
    paths = (domain,) if isinstance(domain, str | Path) else tuple(domain)
    if not paths:
        raise UserError("a domain without a dataset")
    return tuple(Path(path) for path in paths)


def open_domain(domain: DomainPath, options: ReadOptions | None = None) -> DatasetReader:
    """Open the dataset of a domain, or several as if they were one.

    Args:
        domain: a dataset or a card, or several of them.
        options: how they are opened.
    """
    paths = domain_paths(domain)
    if len(paths) == 1:
        return open_dataset(paths[0], options)
    for number, path in enumerate(paths):
        for other in paths[:number]:
            if path.exists() and other.exists() and path.samefile(other):
                raise UserError(f"{path} is given twice for one domain")
    with ExitStack() as opened:
        readers = [opened.enter_context(open_dataset(path, options)) for path in paths]
        merged = MergedReader(readers)
        opened.pop_all()
    return merged


class MergedReader(DatasetReader):
    """Several datasets, one after the other; a demonstration is called ``<dataset>/<its name>``."""

    def __init__(self, readers: Sequence[DatasetReader]) -> None:
        self._readers = list(readers)
        self.path = readers[0].path
        self.format_name = " and ".join(dict.fromkeys(reader.format_name for reader in readers))
        self.env_args = readers[0].env_args
        self.image_fit = readers[0].image_fit
        rates = {reader.fps for reader in readers if reader.fps is not None}
        if len(rates) > 1:
            each = ", ".join(f"{reader.path.name} {reader.fps:g} Hz" for reader in readers if reader.fps)
            raise UserError(
                f"the datasets of one domain have different control rates ({each}); "
                "give them one with fps in their cards"
            )
        self.fps = next(iter(rates), None)
        self.proprio_keys = tuple(dict.fromkeys(key for reader in readers for key in reader.proprio_keys))
        labels = _labels([reader.path for reader in readers])
        self._places = {
            f"{label}/{name}": (reader, name)
            for label, reader in zip(labels, self._readers, strict=True)
            for name in reader.episode_names
        }
        self.episode_names = list(self._places)
        self.left_out = tuple(
            f"{label}/{name}"
            for label, reader in zip(labels, readers, strict=True)
            for name in reader.left_out
        )
        masks: dict[str, list[str]] = {}
        for label, reader in zip(labels, self._readers, strict=True):
            for key, names in reader.masks.items():
                masks.setdefault(key, []).extend(f"{label}/{name}" for name in names)
        self.masks = masks

    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        reader, name = self._place(episode)
        return reader.arrays(name)

    def info(self, episode: str, name: str) -> ArrayInfo:
        reader, own = self._place(episode)
        return reader.info(own, name)

    def read(self, episode: str, name: str) -> NDArray[Any]:
        reader, own = self._place(episode)
        return reader.read(own, name)

    def blocks(self, episode: str, name: str) -> Iterator[NDArray[Any]]:
        reader, own = self._place(episode)
        return reader.blocks(own, name)

    def sized_blocks(self, episode: str, name: str, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
        reader, own = self._place(episode)
        return reader.sized_blocks(own, name, size)

    def concurrent(self, episode: str, name: str) -> bool:
        reader, own = self._place(episode)
        return reader.concurrent(own, name)

    def frames(self, episode: str, name: str, start: int, stop: int) -> NDArray[Any]:
        reader, own = self._place(episode)
        return reader.frames(own, name, start, stop)

    def attributes(self, episode: str) -> dict[str, Any]:
        reader, own = self._place(episode)
        return reader.attributes(own)

    def length(self, episode: str) -> int:
        reader, own = self._place(episode)
        return reader.length(own)

    def dimension_names(self, name: str) -> list[str] | None:
        return self._readers[0].dimension_names(name)

    def step_of_frame(self, episode: str) -> NDArray[np.int64]:
        reader, own = self._place(episode)
        return reader.step_of_frame(own)

    def identity(self) -> list[Any]:
        return [reader.identity() for reader in self._readers]

    def rate_fault(self, recorded: float | None = None) -> str | None:
        faults = (reader.rate_fault(recorded) for reader in self._readers)
        return next((fault for fault in faults if fault is not None), None)

    def problems(self) -> list[Problem]:
        return [problem for reader in self._readers for problem in reader.problems()]

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def _place(self, episode: str) -> tuple[DatasetReader, str]:
        if episode not in self._places:
            raise UserError(f"{self.path} and the datasets with it have no '{printable(episode)}'")
        return self._places[episode]


def hold_out(episodes: EpisodeSet, share: float, seed: int = 0) -> tuple[EpisodeSet, EpisodeSet]:
    """Demonstrations to train on, and others that are held out; at least one of each.

    Args:
        episodes: of the target.
        share: of them that is held out, between 0 and 1.
        seed: which of them.
    """
    if not 0 < share < 1:
        raise UserError(f"--validation {share:g}: a share must lie between 0 and 1, for example 0.1")
    if len(episodes) < 2:
        raise UserError(
            f"--validation {share:g}: {episodes.path} has a single demonstration, none can be held out"
        )
    count = min(len(episodes) - 1, max(1, round(share * len(episodes))))
    held_out = np.sort(np.random.default_rng([seed, 60]).permutation(len(episodes))[:count])
    kept = np.setdiff1d(np.arange(len(episodes)), held_out)
    return episodes.subset(kept), episodes.subset(held_out)


def validation_share(validation: str | Path) -> float | None:
    """The share that ``--validation 0.1`` asks for; None where it names a dataset.

    Args:
        validation: what the user wrote.
    """
    try:
        share = float(str(validation))
    except ValueError:
        return None
    return None if Path(validation).exists() else share


def warn_if_seen(validation: str | Path, training: Sequence[str | Path]) -> None:
    """Say that held-out demonstrations are the training demonstrations, where they are.

    Args:
        validation: dataset of the held-out demonstrations.
        training: datasets that are trained on.
    """
    path = Path(validation)
    for other in map(Path, training):
        if path.exists() and other.exists() and path.samefile(other):
            warnings.warn(
                f"--validation {path}: these are the training demonstrations, their loss tells nothing new; "
                "hold some out with --validation 0.1",
                DataWarning,
                stacklevel=3,
            )


def _labels(paths: Sequence[Path]) -> list[str]:
    """Short names of datasets, numbered where they would be the same."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [f"{stem}#{i}" for i, stem in enumerate(stems)]
