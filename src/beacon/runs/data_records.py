"""data.json: which demonstrations a run was trained on, so that others are not taken for them later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data import EpisodeSet
from beacon.data.formats.base import ReadOptions
from beacon.errors import UserError
from beacon.plain import OMIT_DEFAULT, from_plain, to_plain
from beacon.runs.reading import damaged, read_json


@dataclass(frozen=True)
class DomainRecord:
    """One domain of a run."""

    name: str
    file: str  # absolute
    demos: tuple[str, ...]
    lengths: tuple[int, ...]
    actions: str  # hash of all actions
    frames: str  # hash of the first image of every demonstration, as the policy sees it
    is_target: bool
    # The target's control rate, where the dataset was brought to it and does not say so itself.
    fps: float | None = field(default=None, metadata=OMIT_DEFAULT)

    # Whether episodes whose files are missing were to be left out.
    skip_incomplete: bool = field(default=False, metadata=OMIT_DEFAULT)

    @property
    def read_options(self) -> ReadOptions:
        """How the dataset is opened to be what the run was trained on."""
        return ReadOptions(self.skip_incomplete, self.fps)

    @classmethod
    def of(cls, episodes: EpisodeSet, *, is_target: bool) -> DomainRecord:
        """Describe a set that was loaded.

        Args:
            episodes: the demonstrations of the domain.
            is_target: whether it is the target.
        """
        frames = hashlib.sha256()
        for name in sorted(episodes.images):
            frames.update(np.ascontiguousarray(episodes.images[name][episodes.image_starts]).tobytes())
        return cls(
            name=episodes.name,
            file=str(episodes.path.resolve()),
            demos=tuple(episodes.episode_names),
            lengths=tuple(episodes.lengths.tolist()),
            actions=hash_actions([episodes.actions]),
            frames=frames.hexdigest(),
            is_target=is_target,
            fps=episodes.brought_to,
            skip_incomplete=episodes.skip_incomplete,
        )

    def difference(self, other: DomainRecord) -> str | None:
        """How the data of another time differs from this, in a few words."""
        if self.demos != other.demos or self.lengths != other.lengths:
            return "it has other demonstrations"
        if self.actions != other.actions:
            return "its actions differ"
        return "its images differ" if self.frames != other.frames else None


def describe(sets: Sequence[EpisodeSet], *, has_target: bool) -> list[DomainRecord]:
    """A record of every domain; the last one is the target, if there is one.

    Args:
        sets: the demonstrations by domain, sources first.
        has_target: whether the last set is the target's.
    """
    last = len(sets) - 1
    return [DomainRecord.of(s, is_target=has_target and number == last) for number, s in enumerate(sets)]


def hash_actions(parts: Sequence[NDArray[Any]]) -> str:
    """A hash of actions as float32, the same however they are divided into parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(np.ascontiguousarray(part, dtype=np.float32).tobytes())
    return digest.hexdigest()


def to_json(records: Sequence[DomainRecord]) -> bytes:
    """The text of data.json."""
    return (json.dumps(to_plain(list(records))) + "\n").encode()


def read_records(file: Path) -> list[DomainRecord]:
    """The inverse of `to_json`.

    Args:
        file: data.json of a run.
    """
    try:
        return list(from_plain(tuple[DomainRecord, ...], read_json(file)))
    except FileNotFoundError:
        raise UserError(
            f"{file}: there is no such file, so nobody knows what the run was trained on"
        ) from None
    except UserError as error:
        raise error if str(error).startswith(str(file)) else damaged(file, error) from None
