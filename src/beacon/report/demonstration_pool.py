"""The demonstrations behind the runs of a report: frames, attributes, initial states."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data import EpisodeSet
from beacon.data.decisions import dataset_name
from beacon.errors import RunError, UserError
from beacon.report.pictures import QUALITIES, Quality, data_uri, sprite, steps_shown
from beacon.report.run_record import RunRecord, first_line
from beacon.runs.demonstrations import Demonstrations
from beacon.training.config import DataOptions

Ids = NDArray[np.int64]

STRIP_BYTES = 6_500_000  # of all filmstrips together, before base64 adds a third
SHEET_BYTES = 3_000_000  # of the frames behind the points of the map
SHEET = 200  # frames per sheet
MAP_POINTS = 1600


@dataclass(frozen=True, eq=False)
class DemonstrationPool:
    """All demonstrations of some domains, sources first, numbered through."""

    options: DataOptions
    sets: list[EpisodeSet]

    @cached_property
    def domains(self) -> list[str]:
        """Names, sources first."""
        return [episodes.name for episodes in self.sets]

    @property
    def target(self) -> int | None:
        """The target's number among the domains."""
        return None if self.options.target is None else len(self.sets) - 1

    @cached_property
    def names(self) -> list[str]:
        """Of the demonstrations."""
        return [name for episodes in self.sets for name in episodes.episode_names]

    @cached_property
    def domain(self) -> Ids:
        """Of each demonstration."""
        return np.repeat(np.arange(len(self.sets)), [len(episodes) for episodes in self.sets])

    @cached_property
    def lengths(self) -> Ids:
        """Time steps of each demonstration."""
        return np.concatenate([episodes.lengths for episodes in self.sets])

    @cached_property
    def demonstrations(self) -> list[Demonstrations]:
        """What the datasets say of them, by domain."""
        return [Demonstrations.of(episodes) for episodes in self.sets]

    @cached_property
    def corruption(self) -> list[str]:
        """What is known to be wrong with each demonstration; empty for those where nothing is."""
        return [label for domain in self.demonstrations for label in domain.corruption]

    @cached_property
    def decisions(self) -> list[str]:
        """What was decided about each demonstration, "kept" or nothing: dropped ones are not here."""
        kept = {(entry.dataset, name) for entry in self.options.decisions for name in entry.kept}
        return [
            "kept" if (dataset_name(episodes.path), name) in kept else ""
            for episodes in self.sets
            for name in episodes.episode_names
        ]

    @property
    def camera(self) -> str | None:
        """Whose frames are shown."""
        return min(self.sets[0].images, default=None)

    def frames(self, demo: int, steps: Iterable[int]) -> list[NDArray[np.uint8]]:
        """Frames of a demonstration at these time steps."""
        if self.camera is None:
            return []
        domain = int(self.domain[demo])
        within = demo - int(np.searchsorted(self.domain, domain))
        episodes = self.sets[domain]
        start = int(episodes.image_starts[within])
        return [np.asarray(episodes.images[self.camera][start + int(step)]) for step in steps]

    def numbers_of(self, options: DataOptions) -> Ids | None:
        """The numbers here of a run's own demonstrations, in the run's order; None if they are not here."""
        own = [*options.source, *([] if options.target is None else [options.target])]
        known = [*self.options.source, *([] if self.options.target is None else [self.options.target])]
        if any(path not in known for path in own):
            return None
        return np.concatenate([np.flatnonzero(self.domain == known.index(path)) for path in own])

    def map_sample(self) -> tuple[Ids, Ids]:
        """Demonstration and time step of the windows on the map: the same ones in every report."""
        rng = np.random.default_rng(0)
        demos, times = [], []
        share = _shares([int(episodes.frames) for episodes in self.sets], self.target)
        for domain, count in enumerate(share):
            members = np.flatnonzero(self.domain == domain)
            owner = np.repeat(members, self.lengths[members])
            time = np.concatenate([np.arange(length) for length in self.lengths[members]])
            chosen = np.sort(rng.permutation(len(owner))[:count])
            demos.append(owner[chosen])
            times.append(time[chosen])
        return np.concatenate(demos), np.concatenate(times)

    def strips(self, first: Sequence[int] = ()) -> tuple[dict[int, str], Quality]:
        """A filmstrip of every demonstration, of as good a quality as the room allows.

        Where even the smallest do not all fit, those in ``first`` come first.
        """
        order = list(dict.fromkeys([*first, *range(len(self.names))]))
        if self.camera is None:
            return {}, QUALITIES[-1]
        tried = order[:: max(1, len(order) // 6)][:6]
        quality = QUALITIES[-1]
        for quality in QUALITIES:
            size = sum(len(self._strip(demo, quality)) for demo in tried) / len(tried)
            if size * len(order) <= STRIP_BYTES:
                break
        strips: dict[int, str] = {}
        total = 0
        for demo in order:
            jpeg = self._strip(demo, quality)
            total += len(jpeg)
            if total > 1.2 * STRIP_BYTES:
                break
            strips[demo] = data_uri(jpeg)
        return strips, quality

    def sheets(self, demos: Ids, times: Ids) -> tuple[list[str], int]:
        """The frames behind points of the map, `SHEET` to a picture in rows of 20, and their height."""
        if self.camera is None or not len(demos):
            return [], 0
        frames = [self.frames(int(d), [int(t)])[0] for d, t in zip(demos, times, strict=True)]
        quality = QUALITIES[2]
        for quality in QUALITIES[2:]:
            tried = frames[:: max(1, len(frames) // 100)]
            if len(sprite(tried, quality, 20)) / len(tried) * len(frames) <= SHEET_BYTES:
                break
        parts = [frames[start : start + SHEET] for start in range(0, len(frames), SHEET)]
        return [data_uri(sprite(part, quality, 20)) for part in parts], quality.size

    def _strip(self, demo: int, quality: Quality) -> bytes:
        return sprite(self.frames(demo, steps_shown(int(self.lengths[demo]), quality.frames)), quality)


def _shares(frames: list[int], target: int | None) -> list[int]:
    """Windows of each domain on the map: up to two in five for the target, the rest for the sources."""
    room = MAP_POINTS
    share = [0] * len(frames)
    if target is not None:
        share[target] = min(frames[target], MAP_POINTS * 2 // 5)
        room -= share[target]
    sources = [domain for domain in range(len(frames)) if domain != target]
    for domain in sources:
        share[domain] = min(frames[domain], room // len(sources))
    return share


def find_pools(records: Sequence[RunRecord]) -> list[DemonstrationPool | None]:
    """The demonstrations of every run, read once where runs share them.

    A run that used only some of another run's demonstrations, as target-only does, is shown with all.
    """
    from beacon.training.loading import load_training_sets

    loaded: dict[DataOptions, DemonstrationPool | None] = {}
    failures: dict[DataOptions, str] = {}
    pools: list[DemonstrationPool | None] = []
    every = [record.data for record in records if record.data is not None]
    for record in records:
        if record.data is None:
            pools.append(None)
            continue
        options = _widest(record.data, every)
        if options not in loaded:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    loaded[options] = DemonstrationPool(options, load_training_sets(options))
            except (UserError, RunError, OSError) as error:
                loaded[options] = None
                failures[options] = first_line(error)
        if options in failures:
            record.note("gallery", f"The demonstrations could not be read: {failures[options]}")
        pools.append(loaded[options])
    return pools


def _widest(options: DataOptions, every: list[DataOptions]) -> DataOptions:
    """The options among ``every`` that read these demonstrations and the most others beside."""

    def plain(value: DataOptions) -> DataOptions:
        return replace(value, validation=None, memory_limit=None, statistics="pooled", quantile=None)

    def covers(other: DataOptions) -> bool:
        same = replace(plain(other), source=(), source_mask=None, source_demos=None) == replace(
            plain(options), source=(), source_mask=None, source_demos=None
        )
        if not same or not set(options.source) <= set(other.source):
            return False
        limits = (options.source_mask, options.source_demos) == (other.source_mask, other.source_demos)
        return limits or not options.source

    candidates = [plain(other) for other in every if covers(other)]
    return max(candidates, key=lambda other: len(other.source), default=plain(options))


def pool_numbers(record: RunRecord, pool: DemonstrationPool | None) -> Ids | None:
    """For each demonstration in a run's own tables its number in the pool; None when they disagree."""
    if pool is None or record.data is None:
        return None
    numbers = pool.numbers_of(record.data)
    if numbers is None or record.windows is None:
        return numbers
    lengths = record.windows.lengths
    if len(lengths) != len(numbers) or (lengths != pool.lengths[numbers]).any():
        record.note(
            "gallery",
            "The demonstrations on the disk are no longer those that this run was trained on, "
            "so weights are shown without their frames.",
        )
        return None
    return numbers


def task_of(pool: DemonstrationPool | None) -> dict[str, str]:
    """What a dataset of `beacon generate` says of its task: task, size, domain; empty for others."""
    if pool is None or pool.target is None:
        return {}
    env = pool.sets[pool.target].env_args
    beacon, domain = _part(env, "beacon"), _part(_part(env, "env_kwargs"), "domain")
    task = {"task": beacon.get("task"), "size": beacon.get("size"), "domain": domain.get("name")}
    return {key: str(value) for key, value in task.items() if value}


def _part(values: dict[str, Any], key: str) -> dict[str, Any]:
    part = values.get(key)
    return part if isinstance(part, dict) else {}
