"""Demonstrations of one domain in memory, whatever file they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.formats.base import Fit, ReadOptions
from beacon.data.mapping import ObservationMapping
from beacon.errors import UserError


@dataclass(frozen=True, eq=False)
class Episode:
    """One demonstration of T steps, as it is written to a file."""

    name: str | None  # demo_<i>; None: the next free number
    actions: NDArray[Any]  # (T, A)
    obs: Mapping[str, NDArray[Any]]  # key -> (T, ...)
    states: NDArray[Any] | None = None  # (T, S)
    rewards: NDArray[Any] | None = None  # (T,)
    dones: NDArray[Any] | None = None  # (T,)
    attributes: Mapping[str, Any] = field(default_factory=dict)  # e.g. seeds
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # e.g. "datagen_info/eef_pose"


@dataclass(frozen=True, eq=False)
class EpisodeSet:
    """Demonstrations of one domain: E episodes end to end in arrays of F frames.

    Episode e is ``actions[starts[e] : starts[e] + lengths[e]]``, and likewise every array of ``proprio``.
    Its images are ``images[key][image_starts[e] : image_starts[e] + lengths[e]]``: the same rows in a set
    that was loaded, other ones in a subset, which shares the images of the set it was taken from.
    """

    name: str
    path: Path
    episode_names: list[str]
    lengths: NDArray[np.int64]  # (E,)
    actions: NDArray[np.float32]  # (F, A)
    proprio: dict[str, NDArray[np.float32]]  # key -> (F, d)
    images: dict[str, NDArray[np.uint8]]  # key -> (F, H, W, C), in memory or mapped
    env_args: dict[str, Any]
    episode_attributes: list[dict[str, Any]]
    image_starts: NDArray[np.int64]  # (E,)
    fps: float | None = None  # control steps a second; None: the dataset does not say
    action_names: tuple[str, ...] = ()  # of the dimensions of actions; (): the dataset does not say
    brought_to: float | None = None  # the target's rate, where the dataset was brought to it and says none
    image_fit: Fit = "stretch"  # how pictures got their shape, where one did
    skip_incomplete: bool = False  # whether episodes whose files are missing were to be left out

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        mapping: ObservationMapping | None = None,
        mask: str | None = None,
        limit: int | None = None,
        memory_limit_bytes: int | None = None,
        cache_dir: str | Path | None = None,
        name: str | None = None,
        options: ReadOptions | None = None,
    ) -> EpisodeSet:
        """Read a dataset: all of it, the demos of ``mask``, or the first ``limit`` of those.

        Several paths are read as one domain; ``path`` of the set is then the first of them.

        Images beyond ``memory_limit_bytes`` (default: half of the free memory) go to a file in
        ``cache_dir`` (default: ``~/.cache/beacon/frames``) that is mapped and found again by later runs.
        """
        from beacon.data.loading import load_episodes

        return load_episodes(
            path,
            mapping=mapping or ObservationMapping(),
            mask=mask,
            limit=limit,
            memory_limit_bytes=memory_limit_bytes,
            cache_dir=None if cache_dir is None else Path(cache_dir),
            name=name,
            options=options,
        )

    def __len__(self) -> int:
        return len(self.episode_names)

    @property
    def starts(self) -> NDArray[np.int64]:
        """First row of each episode in ``actions`` and ``proprio`` (E,)."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def frames(self) -> int:
        """Number of time steps over all episodes."""
        return int(self.lengths.sum())

    @property
    def action_dim(self) -> int:
        """Number of action dimensions."""
        return int(self.actions.shape[1])

    @property
    def image_bytes(self) -> int:
        """Size of the image arrays, shared or not, mapped or not."""
        return sum(array.nbytes for array in self.images.values())

    def episode(self, e: int) -> Episode:
        """One demonstration; the arrays are views."""
        start, image_start, length = int(self.starts[e]), int(self.image_starts[e]), int(self.lengths[e])
        obs: dict[str, NDArray[Any]] = {
            k: a[image_start : image_start + length] for k, a in self.images.items()
        }
        obs |= {k: a[start : start + length] for k, a in self.proprio.items()}
        # The number of samples is the writer's to say.
        attributes = {k: v for k, v in self.episode_attributes[e].items() if k != "num_samples"}
        return Episode(
            self.episode_names[e], self.actions[start : start + length], obs, attributes=attributes
        )

    def subset(self, episodes: Sequence[int] | NDArray[np.int64]) -> EpisodeSet:
        """Some of the demonstrations, in the order given. Images are shared, never copied."""
        chosen = np.asarray(episodes, dtype=np.int64).reshape(-1)
        if not len(chosen):
            raise UserError(f"{self.name}: a subset without any demonstration")
        if chosen.min() < 0 or chosen.max() >= len(self):
            raise IndexError(f"{self.name} has the episodes 0..{len(self) - 1}, not {chosen.tolist()}")
        lengths = self.lengths[chosen]
        firsts = np.cumsum(lengths) - lengths
        rows = np.arange(lengths.sum()) + np.repeat(self.starts[chosen] - firsts, lengths)  # (F',)
        return replace(
            self,
            episode_names=[self.episode_names[e] for e in chosen],
            lengths=lengths,
            actions=self.actions[rows],
            proprio={key: array[rows] for key, array in self.proprio.items()},
            images=dict(self.images),
            episode_attributes=[self.episode_attributes[e] for e in chosen],
            image_starts=self.image_starts[chosen],
        )
