"""What every dataset format gives: names, masks, shapes, arrays. Each format is a file beside this one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

Severity = Literal["error", "warning"]

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


class DatasetReader(ABC):
    """An open dataset. Every failure is a UserError that names the file, the demonstration and the key."""

    path: Path
    format_name: str
    episode_names: list[str]  # in their natural order
    masks: Mapping[str, list[str]]  # named subsets
    env_args: dict[str, Any]  # how to rebuild the environment; empty when the dataset does not say

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

    def problems(self) -> list[Problem]:
        """What is wrong in ways that only this format can be wrong."""
        return []

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
