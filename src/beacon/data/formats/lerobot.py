"""Reading LeRobot datasets, versions 2.0, 2.1 and 3.0: Parquet tables, pictures in videos or in tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import printable
from beacon.data.formats import parquet_tables as tables
from beacon.data.formats.base import (
    OBSERVATION,
    ArrayInfo,
    DatasetReader,
    DatasetWriter,
    Format,
    Problem,
    ReadOptions,
    WriteOptions,
    join_blocks,
)
from beacon.data.formats.lerobot_contents import (
    array_names,
    complete_episodes,
    episode_masks,
    numpy_name,
    read_extra,
    short_name,
)
from beacon.data.formats.lerobot_features import origins, take_apart
from beacon.data.formats.lerobot_metadata import (
    EpisodeEntry,
    Feature,
    describe_features,
    read_metadata,
)
from beacon.data.formats.lerobot_pictures import embedded_pictures
from beacon.data.formats.lerobot_problems import find_problems, wrong_rate
from beacon.data.formats.video import OpenVideos
from beacon.data.images import resize
from beacon.errors import UserError

STATE = "observation.state"


def probe(path: Path) -> bool:
    """A folder with ``meta/info.json``."""
    return path.is_dir() and (path / "meta" / "info.json").exists()


def open_reader(path: Path, options: ReadOptions) -> DatasetReader:
    """Open a LeRobot dataset."""
    return LeRobotReader(path, options)


def create_writer(path: Path, options: WriteOptions) -> DatasetWriter:
    """Begin a LeRobot dataset of version 3.0."""
    from beacon.data.formats.lerobot_writer import LeRobotWriter

    return LeRobotWriter(path, options)


FORMAT = Format("LeRobot (a folder)", probe, open_reader, lambda path: path.suffix == "", create_writer)


class LeRobotReader(DatasetReader):
    """Episodes of a LeRobot dataset; features keep their names, but ``action`` is ``actions``."""

    def __init__(self, path: Path, options: ReadOptions | None = None) -> None:
        self.path = path
        self.meta = read_metadata(path)
        self.format_name = f"LeRobot {self.meta.version}"
        self.fps = self.meta.fps
        self._columns = tables.ColumnReader()
        self._videos = OpenVideos()
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._widths: dict[str, tuple[int, ...]] = {}
        self._rows: dict[str, slice] = {}
        skip = (options or ReadOptions()).skip_incomplete
        self._episodes = {e.name: e for e in complete_episodes(path, self.meta, skip=skip)}
        self.episode_names = list(self._episodes)
        self.left_out = tuple(e.name for e in self.meta.episodes if e.name not in self._episodes)
        self._extra = read_extra(path)
        self.masks = episode_masks(self.meta, self.entries, self._extra)
        self._names = array_names(self.meta.features)
        known = [key for key in (STATE, "state") if OBSERVATION + key in self._names]
        self.proprio_keys = tuple(known[:1])
        env_args = self._extra.get("env_args")
        self.env_args = env_args if isinstance(env_args, dict) else {}

    def close(self) -> None:
        self._columns.close()
        self._videos.close()

    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        return {name: self.info(episode, name) for name in self._names}

    def info(self, episode: str, name: str) -> ArrayInfo:
        feature, entry = self._feature(name), self._entry(episode)
        rows = self._slice(entry)
        length = rows.stop - rows.start
        if feature.is_camera:
            return ArrayInfo((length, *self._frame_size(entry, feature)), np.dtype(np.uint8))
        return ArrayInfo((length, *self._shape(entry, feature)), np.dtype(numpy_name(feature.dtype)))

    def read(self, episode: str, name: str) -> NDArray[Any]:
        feature, entry = self._feature(name), self._entry(episode)
        if not feature.is_camera:
            return self._vectors(entry, feature)
        info = self.info(episode, name)
        if feature.dtype == "video":
            clip = entry.videos[feature.name]
            there = self._videos.get(feature.name, clip.path).count()
            if there < clip.first + info.shape[0]:
                raise UserError(
                    f"{self.path}, {episode}: {clip.path.relative_to(self.path)} has {there} frames, "
                    f"but {clip.first + info.shape[0]} are needed"
                )
        return join_blocks(self.blocks(episode, name), info.shape)

    def blocks(self, episode: str, name: str) -> Iterator[NDArray[Any]]:
        return self._blocks(episode, name, None)

    def sized_blocks(self, episode: str, name: str, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
        return self._blocks(episode, name, size)

    def concurrent(self, episode: str, name: str) -> bool:
        return self._feature(name).dtype == "video"

    def _blocks(self, episode: str, name: str, size: tuple[int, int] | None) -> Iterator[NDArray[Any]]:
        """One frame at a time, the decoder's own array; resized where its colours are converted."""
        feature, entry = self._feature(name), self._entry(episode)
        if not feature.is_camera:
            yield self._vectors(entry, feature)
            return
        shape = self._frame_size(entry, feature)
        if feature.dtype == "video":
            clip, rows = entry.videos[feature.name], self._slice(entry)
            video = self._videos.get(feature.name, clip.path)
            if video.size != shape[:2]:
                raise self._other_size(episode, feature.name, (*video.size, 3))
            for frame in video.frames(clip.first, clip.first + rows.stop - rows.start, size):
                if size is None and frame.shape != shape:  # a video can change its size on the way
                    raise self._other_size(episode, feature.name, frame.shape)
                yield frame[None]
            return
        for picture in self._embedded(entry, feature):
            if picture.shape != shape:
                raise self._other_size(episode, feature.name, picture.shape)
            yield picture[None] if size is None else resize(picture[None], size)

    def _other_size(self, episode: str, name: str, shape: tuple[int, ...]) -> UserError:
        where = f"{self.path}, {episode}: '{name}'"
        return UserError(f"{where} has pictures of {shape}, in the episodes before it {self._sizes[name]}")

    def frames(self, episode: str, name: str, start: int, stop: int) -> NDArray[Any]:
        feature, entry = self._feature(name), self._entry(episode)
        rows = self._slice(entry)
        first, last = (min(rows.start + step, rows.stop) for step in (start, stop))
        if not feature.is_camera:
            return self._vectors(entry, feature)[start:stop]
        if feature.dtype != "video":
            pictures = list(self._embedded(entry, feature, slice(first, last)))
        else:
            clip = entry.videos[feature.name]
            begin = clip.first - rows.start
            pictures = list(self._videos.get(feature.name, clip.path).frames(begin + first, begin + last))
        size = self._frame_size(entry, feature)
        return np.stack(pictures) if pictures else np.empty((0, *size), np.uint8)

    def length(self, episode: str) -> int:
        return self._entry(episode).length

    def attributes(self, episode: str) -> dict[str, Any]:
        entry = self._entry(episode)
        attributes: dict[str, Any] = {"episode_index": entry.index}
        if entry.tasks:
            attributes["task"] = "; ".join(entry.tasks)
        more = self._extra.get("episodes")
        more = more.get(str(entry.index)) if isinstance(more, dict) else None
        return attributes | (more if isinstance(more, dict) else {})

    def dimension_names(self, name: str) -> list[str] | None:
        return self._feature(name).names

    def dataset_index(self, episode: str) -> NDArray[np.int64]:
        return self.column(self._entry(episode), "index").astype(np.int64)

    def frame_count(self) -> int:
        return sum(entry.length for entry in self.meta.episodes)

    def column(self, entry: EpisodeEntry, name: str) -> NDArray[Any]:
        """A column of the tables that is not a feature that anyone learns from, such as ``index``."""
        column = self._columns.read(entry.data, name, self._slice(entry))
        return tables.to_array(column, f"{entry.data}: '{name}'")

    def original_arrays(self, episode: str) -> dict[str, NDArray[Any]]:
        """Arrays under the names they had before our writer made features of them, else under short names."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, feature in self._names.items():
            values = self.read(episode, name)
            parts = origins(self._extra, feature)
            own = {short_name(name, self._names): values}
            arrays |= take_apart(values, parts, whole=feature.is_camera) if parts else own
        return arrays

    def identity(self) -> list[Any]:
        files = {entry.data for entry in self._episodes.values()}
        files |= {clip.path for entry in self._episodes.values() for clip in entry.videos.values()}
        stats = [(str(file), file.stat()) for file in sorted(files | {self.path / "meta" / "info.json"})]
        return [str(self.path.resolve()), [(name, s.st_size, s.st_mtime_ns) for name, s in stats]]

    def problems(self) -> list[Problem]:
        return find_problems(self)

    def rate_fault(self, recorded: float | None = None) -> str | None:
        return wrong_rate(self, recorded)

    @property
    def entries(self) -> list[EpisodeEntry]:
        """The episodes that are read."""
        return list(self._episodes.values())

    @property
    def extra(self) -> dict[str, Any]:
        """What `beacon data convert` noted beside the dataset."""
        return self._extra

    def _feature(self, name: str) -> Feature:
        if name not in self._names:
            raise UserError(
                f"{self.path}: no '{printable(name)}'; "
                f"the features are {describe_features(self.meta.features)}"
            )
        return self._names[name]

    def _entry(self, episode: str) -> EpisodeEntry:
        if episode not in self._episodes:
            raise UserError(f"{self.path} has no episode '{printable(episode)}'")
        return self._episodes[episode]

    def _slice(self, entry: EpisodeEntry) -> slice:
        """The rows of an episode in its table, found once."""
        if entry.name not in self._rows:
            if self.meta.version.startswith("v3"):
                rows = self._columns.rows_of_episode(entry.data, entry.index)
            else:
                rows = slice(0, self._columns.rows(entry.data))
            if rows.stop - rows.start != entry.length:
                raise UserError(
                    f"{self.path}, {entry.name}: the list of episodes says {entry.length} steps, "
                    f"{entry.data.relative_to(self.path)} has {rows.stop - rows.start}"
                )
            self._rows[entry.name] = rows
        return self._rows[entry.name]

    def _vectors(self, entry: EpisodeEntry, feature: Feature, rows: slice | None = None) -> NDArray[Any]:
        """Numbers of an episode (T, ...), of all its rows or of some."""
        rows = rows or self._slice(entry)
        where = f"{self.path}, {entry.name}: '{printable(feature.name)}'"
        array = tables.to_array(self._columns.read(entry.data, feature.name, rows), where)
        shape = feature.shape or (1,)
        if (array.shape[1:] or (1,)) != shape:
            raise UserError(f"{where} has {array.shape[1:] or (1,)} a step, info.json says {feature.shape}")
        return array.reshape(len(array), *shape)

    def _shape(self, entry: EpisodeEntry, feature: Feature) -> tuple[int, ...]:
        """Shape of one step, as the data have it: room is made for it."""
        if feature.name not in self._widths:
            first = self._slice(entry).start
            self._widths[feature.name] = self._vectors(entry, feature, slice(first, first + 1)).shape[1:]
        return self._widths[feature.name]

    def _frame_size(self, entry: EpisodeEntry, feature: Feature) -> tuple[int, int, int]:
        """(H, W, C) of the pictures, from the first of them and not from what is declared."""
        if feature.name not in self._sizes:
            if feature.dtype == "video":
                size = (*self._videos.get(feature.name, entry.videos[feature.name].path).size, 3)
            else:
                rows = self._slice(entry)
                first = slice(rows.start, min(rows.stop, rows.start + 1))
                height, width, channels = next(self._embedded(entry, feature, first)).shape
                size = (height, width, channels)
            if sorted(size) != sorted(feature.shape):
                raise UserError(
                    f"{self.path}: pictures of '{printable(feature.name)}' are {size}, "
                    f"info.json says {feature.shape}"
                )
            self._sizes[feature.name] = size
        return self._sizes[feature.name]

    def _embedded(
        self, entry: EpisodeEntry, feature: Feature, rows: slice | None = None
    ) -> Iterator[NDArray[np.uint8]]:
        column = self._columns.read(entry.data, feature.name, rows or self._slice(entry))
        return embedded_pictures(column, feature, f"{self.path}, {entry.name}: '{printable(feature.name)}'")
