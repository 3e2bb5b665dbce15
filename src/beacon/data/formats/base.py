"""What every dataset format gives: names, masks, shapes, arrays. Each format is a file beside this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from beacon.data.episodes import Episode

Severity = Literal["error", "warning"]
Fit = Literal["stretch", "pad", "crop"]  # how a picture gets another shape

ACTIONS = "actions"
OBSERVATION = "obs/"  # in front of every observation key, as in robomimic's layout


@dataclass(frozen=True)
class ArrayInfo:
    """Shape (time first) and dtype of one array of one demonstration."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Problem:
    """Something wrong in one dataset; the same text for several demonstrations is shown once."""

    severity: Severity
    text: str
    episode: str | None = None  # None: about the whole dataset


@dataclass(frozen=True)
class ReadOptions:
    """How a dataset is opened."""

    # Leave out episodes whose files are missing, instead of refusing the dataset.
    skip_incomplete: bool = False
    # Control steps a second of the target; cards that say how to resample, and no rate, bring theirs to it.
    fps: float | None = None


def numbered_actions(width: int) -> tuple[str, ...]:
    """What the dimensions of actions are called where nobody named them.

    Args:
        width: how many there are.
    """
    return tuple(f"{ACTIONS}.{number}" for number in range(width))


def join_blocks(blocks: Iterator[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Pictures that come in pieces, as one array.

    Args:
        blocks: (t, H, W, C) each.
        shape: of all of them, (T, H, W, C).
    """
    frames: NDArray[np.uint8] = np.empty(shape, np.uint8)
    start = 0
    for block in blocks:
        frames[start : start + len(block)] = block
        start += len(block)
    return frames


class DatasetReader(ABC):
    """An open dataset. Every failure is a UserError that names the file, the demonstration and the key.

    Opening reads headers only; arrays are read when they are asked for, one demonstration at a time.
    """

    path: Path
    format_name: str
    episode_names: list[str]  # in their natural order
    masks: Mapping[str, list[str]]  # named subsets
    env_args: dict[str, Any]  # how to rebuild the environment; empty when the dataset does not say
    fps: float | None = None  # control steps a second; None when the dataset does not say
    proprio_keys: tuple[str, ...] = ()  # observations that are proprioception for sure
    image_fit: Fit = "stretch"  # how pictures got their shape, where one did
    left_out: tuple[str, ...] = ()  # episodes that are not read, because they are incomplete or empty

    @abstractmethod
    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        """Everything stored per time step: ``actions``, ``obs/<key>`` and whatever else there is."""

    @abstractmethod
    def info(self, episode: str, name: str) -> ArrayInfo:
        """Shape and dtype of one array."""

    @abstractmethod
    def read(self, episode: str, name: str) -> NDArray[Any]:
        """One array of one demonstration."""

    @abstractmethod
    def attributes(self, episode: str) -> dict[str, Any]:
        """Small facts about a demonstration, as plain Python values."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the files."""

    def blocks(self, episode: str, name: str) -> Iterator[NDArray[Any]]:
        """The same as `read` in pieces, one after the other in time, for arrays that are large."""
        yield self.read(episode, name)

    def sized_blocks(self, episode: str, name: str, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
        """The pictures of a camera in another size, in pieces; for formats that decode to a size.

        Args:
            episode: which.
            name: of the camera's array.
            size: height and width.
        """
        from beacon.data.images import resize

        for block in self.blocks(episode, name):
            yield resize(block, size)

    def concurrent(self, episode: str, name: str) -> bool:
        """Whether several threads may read `blocks` of this camera at once, and gain by it.

        By then `info` has been asked for every demonstration.

        Args:
            episode: name of the demonstration.
            name: of the camera's array.
        """
        return False

    def frames(self, episode: str, name: str, start: int, stop: int) -> NDArray[Any]:
        """Steps ``start`` to ``stop - 1`` of an array, or fewer at its end, read without the rest of it.

        Args:
            episode: name of the demonstration.
            name: of the array.
            start: first step.
            stop: the step after the last one.
        """
        parts, first = [], 0
        for block in self.blocks(episode, name):  # for formats that know no shorter way
            parts.append(block[max(0, start - first) : max(0, stop - first)])
            first += len(block)
            if first >= stop:
                break
        return np.concatenate(parts) if parts else self.read(episode, name)[:0]

    def length(self, episode: str) -> int:
        """Number of time steps, as cheaply as the format can say; 0 where there are no actions."""
        if ACTIONS not in self.arrays(episode):
            return 0
        shape = self.info(episode, ACTIONS).shape
        return shape[0] if shape else 0

    def problems(self) -> list[Problem]:
        """What is wrong in ways that only this format can be wrong."""
        return []

    def rate_fault(self, recorded: float | None = None) -> str | None:
        """Why ``fps`` cannot be the rate of the recording; None where nothing speaks against it.

        Args:
            recorded: the rate in the user's own words, where there is one: then ``fps`` need not be right.
        """
        return None

    def dimension_names(self, name: str) -> list[str] | None:
        """What the dimensions of a vector are called; None where the dataset does not say."""
        return None

    def dataset_index(self, episode: str) -> NDArray[np.int64] | None:
        """Number of each recorded frame in the dataset's own count; None where it has none."""
        return None

    def frame_count(self) -> int | None:
        """Frames that the dataset counts in all, also of episodes left out; None without a count."""
        return None

    def step_of_frame(self, episode: str) -> NDArray[np.int64]:
        """For each recorded frame, the time step that stands for it; they differ after resampling."""
        return np.arange(self.info(episode, ACTIONS).shape[0])

    def original_arrays(self, episode: str) -> dict[str, NDArray[Any]]:
        """All arrays of a demonstration under the names that another format knows them by."""
        return {name: self.read(episode, name) for name in self.arrays(episode)}

    def identity(self) -> list[Any]:
        """Plain values that change when the dataset does: decoded frames are kept under them."""
        stat = self.path.stat()
        return [str(self.path.resolve()), stat.st_size, stat.st_mtime_ns]

    def observation_keys(self, episode: str) -> dict[str, ArrayInfo]:
        """The observations of one demonstration by key."""
        start = len(OBSERVATION)
        return {n[start:]: i for n, i in self.arrays(episode).items() if n.startswith(OBSERVATION)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DatasetWriter(ABC):
    """A dataset that is being written; it appears whole when the ``with`` block ends well, or not at all."""

    @abstractmethod
    def add(self, episode: Episode) -> str:
        """Write one demonstration; gives back its name."""

    @abstractmethod
    def set_mask(self, key: str, names: list[str]) -> None:
        """Name a subset of the demonstrations, where the format has such names."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True)
class WriteOptions:
    """How a dataset is written."""

    fps: float | None = None  # control steps a second
    env_args: Mapping[str, Any] | None = None  # how to rebuild the environment
    attributes: Mapping[str, Any] | None = None  # of the whole dataset
    proprio: tuple[str, ...] = ()  # observations that are proprioception
    action_names: tuple[str, ...] = ()  # of the dimensions of actions; (): not known
    video: bool = True  # images as video, where the format knows it; False: every image as it is
    overwrite: bool = False  # replace a dataset that is there


@dataclass(frozen=True)
class Format:
    """One dataset format: how it is recognised, opened and written.

    A format of another package joins by an entry point of the group ``beacon.formats``.
    """

    title: str  # for messages
    probe: Callable[[Path], bool]  # whether a path that exists is in this format
    open_reader: Callable[[Path, ReadOptions], DatasetReader]
    writes: Callable[[Path], bool] | None = None  # whether a new path is meant for this format
    create_writer: Callable[[Path, WriteOptions], DatasetWriter] | None = None
