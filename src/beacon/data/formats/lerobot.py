"""Reading LeRobot datasets, versions 2.0, 2.1 and 3.0: Parquet tables, pictures in videos or in tables."""

from __future__ import annotations

import io
import json
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import printable
from beacon.data.formats import parquet_tables as tables
from beacon.data.formats.base import (
    ACTIONS,
    OBSERVATION,
    ArrayInfo,
    DatasetReader,
    DatasetWriter,
    Format,
    Problem,
    ReadOptions,
    WriteOptions,
)
from beacon.data.formats.lerobot_features import origins
from beacon.data.formats.lerobot_metadata import (
    INDEX_COLUMNS,
    Clip,
    EpisodeEntry,
    Feature,
    describe_features,
    incomplete,
    read_metadata,
)
from beacon.data.formats.video import VideoFile
from beacon.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 8  # frames that are decoded at a time
STATE = "observation.state"
# Numbers about an episode that nobody observes.
NOT_OBSERVED = ("next.", "annotation.", "reward", "done", "success")
EXTRA_FILE = "meta/beacon.json"  # what the format has no place for, written by our own writer


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


FORMAT = Format(
    "LeRobot v2 and v3 (a folder)", probe, open_reader, lambda path: path.suffix == "", create_writer
)


class LeRobotReader(DatasetReader):
    """Episodes of a LeRobot dataset; features keep their names, but ``action`` is ``actions``."""

    def __init__(self, path: Path, options: ReadOptions | None = None) -> None:
        self.path = path
        self.meta = read_metadata(path)
        self.format_name = f"LeRobot {self.meta.version}"
        self.fps = self.meta.fps
        self._columns = tables.ColumnReader()
        self._videos: dict[str, VideoFile] = {}
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._widths: dict[str, tuple[int, ...]] = {}
        self._rows: dict[str, slice] = {}
        self._episodes = {e.name: e for e in self._complete((options or ReadOptions()).skip_incomplete)}
        self.episode_names = list(self._episodes)
        self._extra = self._read_extra()
        self.masks = self._splits()
        self._names = self._array_names()
        self.proprio_keys = (STATE,) if OBSERVATION + STATE in self._names else ()
        env_args = self._extra.get("env_args")
        self.env_args = env_args if isinstance(env_args, dict) else {}

    def close(self) -> None:
        self._columns.close()
        for video in self._videos.values():
            video.close()
        self._videos.clear()

    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        return {name: self.info(episode, name) for name in self._names}

    def info(self, episode: str, name: str) -> ArrayInfo:
        feature, entry = self._feature(name), self._entry(episode)
        rows = self._slice(entry)
        length = rows.stop - rows.start
        if feature.is_camera:
            return ArrayInfo((length, *self._frame_size(entry, feature)), np.dtype(np.uint8))
        return ArrayInfo((length, *self._shape(entry, feature)), _dtype(feature))

    def read(self, episode: str, name: str) -> NDArray[Any]:
        feature, entry = self._feature(name), self._entry(episode)
        if not feature.is_camera:
            return self._vectors(entry, feature)
        info = self.info(episode, name)
        if feature.dtype == "video":
            clip = entry.videos[feature.name]
            there = self._video(feature.name, clip).count()
            if there < clip.first + info.shape[0]:
                raise UserError(
                    f"{self.path}, {episode}: {clip.path.relative_to(self.path)} has {there} frames, "
                    f"but {clip.first + info.shape[0]} are needed"
                )
        frames: NDArray[np.uint8] = np.empty(info.shape, np.uint8)
        start = 0
        for block in self.blocks(episode, name):
            frames[start : start + len(block)] = block
            start += len(block)
        return frames

    def blocks(self, episode: str, name: str) -> Iterator[NDArray[Any]]:
        feature, entry = self._feature(name), self._entry(episode)
        if not feature.is_camera:
            yield self._vectors(entry, feature)
            return
        pictures = (
            self._decoded(entry, feature) if feature.dtype == "video" else self._embedded(entry, feature)
        )
        shape = self._frame_size(entry, feature)
        block: NDArray[np.uint8] = np.empty((BLOCK, *shape), np.uint8)
        filled = 0
        for picture in pictures:
            if picture.shape != shape:
                raise UserError(
                    f"{self.path}, {episode}: '{feature.name}' has pictures of {picture.shape}, "
                    f"in the episodes before it {shape}"
                )
            block[filled] = picture
            filled += 1
            if filled == BLOCK:
                yield block
                block = np.empty((BLOCK, *shape), np.uint8)  # the other may be kept
                filled = 0
        if filled:
            yield block[:filled]

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
            pictures = list(self._video(feature.name, clip).frames(begin + first, begin + last))
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
            if not parts:
                arrays[_short(name, self._names)] = values
            flat = values.reshape(len(values), -1)
            for part in parts:
                if feature.is_camera:
                    arrays[part.name] = values
                elif part.stop <= flat.shape[1]:
                    array = flat[:, part.start : part.stop].astype(part.dtype)
                    arrays[part.name] = array.reshape(len(values), *part.shape)
        return arrays

    def identity(self) -> list[Any]:
        files = {entry.data for entry in self._episodes.values()}
        files |= {clip.path for entry in self._episodes.values() for clip in entry.videos.values()}
        stats = [(str(file), file.stat()) for file in sorted(files | {self.path / "meta" / "info.json"})]
        return [str(self.path.resolve()), [(name, s.st_size, s.st_mtime_ns) for name, s in stats]]

    def problems(self) -> list[Problem]:
        from beacon.data.formats.lerobot_problems import find_problems

        return find_problems(self)

    @property
    def entries(self) -> list[EpisodeEntry]:
        """The episodes that are read."""
        return list(self._episodes.values())

    @property
    def extra(self) -> dict[str, Any]:
        """What `beacon data convert` noted beside the dataset."""
        return self._extra

    def _complete(self, skip: bool) -> list[EpisodeEntry]:
        checked: dict[Path, str | None] = {}
        faults = {e.name: incomplete(self.path, e, checked) for e in self.meta.episodes}
        broken = {name: fault for name, fault in faults.items() if fault is not None}
        if broken and not skip:
            name, fault = next(iter(broken.items()))
            raise UserError(
                f"{self.path} is incomplete: {len(broken)} of {len(faults)} episodes lack a file; "
                f"{name}: {fault}; "
                "get what is missing, or leave such episodes out with --skip-incomplete"
            )
        whole = [e for e in self.meta.episodes if e.name not in broken and e.length > 0]
        if broken and not whole:
            raise UserError(f"{self.path}: every episode is incomplete; {next(iter(broken.values()))}")
        return whole

    def _splits(self) -> dict[str, list[str]]:
        masks = {}
        # Our writer notes masks of its own; its one split is everything, which is no mask.
        splits = {} if "masks" in self._extra else self.meta.splits
        for name, text in splits.items():
            start, colon, stop = text.partition(":")
            if colon and start.isdecimal() and stop.isdecimal() and len(start + stop) < 20:
                chosen = [e.name for e in self.entries if int(start) <= e.index < int(stop)]
                if chosen:
                    masks[name] = chosen
        noted = self._extra.get("masks")
        for name, numbers in noted.items() if isinstance(noted, dict) else ():
            wanted = (
                set(numbers) if isinstance(numbers, list) and all(type(n) is int for n in numbers) else set()
            )
            masks[name] = [e.name for e in self.entries if e.index in wanted]
        return {name: members for name, members in masks.items() if members}

    def _array_names(self) -> dict[str, Feature]:
        """Name for everybody else -> feature."""
        names = {}
        for name, feature in self.meta.features.items():
            if name in INDEX_COLUMNS or feature.depth or feature.dtype == "string":
                continue
            if not feature.is_camera and np.dtype(_known(feature.dtype)).kind not in "biuf":
                continue
            if name in ("action", "actions") and ACTIONS not in names:
                names[ACTIONS] = feature
            elif name.startswith(NOT_OBSERVED):
                names[name] = feature
            else:
                names[OBSERVATION + name] = feature
        return names

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

    def _vectors(self, entry: EpisodeEntry, feature: Feature) -> NDArray[Any]:
        rows = self._slice(entry)
        where = f"{self.path}, {entry.name}: '{printable(feature.name)}'"
        array = tables.to_array(self._columns.read(entry.data, feature.name, rows), where)
        shape = feature.shape or (1,)
        if array.shape[1:] != shape and (array.shape[1:] or (1,)) != shape:
            raise UserError(f"{where} has {array.shape[1:] or (1,)} a step, info.json says {feature.shape}")
        return array.reshape(len(array), *shape)

    def _shape(self, entry: EpisodeEntry, feature: Feature) -> tuple[int, ...]:
        """Shape of one step, as the data have it: room is made for it."""
        if feature.name not in self._widths:
            rows = self._slice(entry)
            column = self._columns.read(entry.data, feature.name, slice(rows.start, rows.start + 1))
            where = f"{self.path}, {entry.name}: '{printable(feature.name)}'"
            shape = tables.to_array(column, where).shape[1:] or (1,)
            if shape != (feature.shape or (1,)):
                raise UserError(f"{where} has {shape} a step, info.json says {feature.shape}")
            self._widths[feature.name] = shape
        return self._widths[feature.name]

    def _frame_size(self, entry: EpisodeEntry, feature: Feature) -> tuple[int, int, int]:
        """(H, W, C) of the pictures, from the first of them and not from what is declared."""
        if feature.name not in self._sizes:
            if feature.dtype == "video":
                size = (*self._video(feature.name, entry.videos[feature.name]).size, 3)
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

    def _video(self, key: str, clip: Clip) -> VideoFile:
        """The open video of a camera; one at a time."""
        opened = self._videos.get(key)
        if opened is None or opened.path != clip.path:
            if opened is not None:
                opened.close()
            self._videos[key] = VideoFile(clip.path)
        return self._videos[key]

    def _decoded(self, entry: EpisodeEntry, feature: Feature) -> Iterator[NDArray[np.uint8]]:
        clip, rows = entry.videos[feature.name], self._slice(entry)
        return self._video(feature.name, clip).frames(clip.first, clip.first + rows.stop - rows.start)

    def _embedded(
        self, entry: EpisodeEntry, feature: Feature, rows: slice | None = None
    ) -> Iterator[NDArray[np.uint8]]:
        column: pa.ChunkedArray = self._columns.read(entry.data, feature.name, rows or self._slice(entry))
        where = f"{self.path}, {entry.name}: '{printable(feature.name)}'"
        for chunk in column.chunks:
            for scalar in chunk:
                value = scalar.as_py()
                content = value.get("bytes") if isinstance(value, dict) else value
                if not isinstance(content, bytes):
                    raise UserError(
                        f"{where} holds no embedded picture; pictures in other files are not read"
                    )
                yield _picture(content, feature, where)

    def _read_extra(self) -> dict[str, Any]:
        file = self.path / EXTRA_FILE
        try:
            extra = json.loads(file.read_text()) if file.is_file() and file.stat().st_size < 1 << 26 else {}
        except (OSError, ValueError, RecursionError):
            return {}
        return extra if isinstance(extra, dict) else {}


def _short(name: str, names: Container[str]) -> str:
    """``obs/observation.images.top`` is ``obs/top`` elsewhere, unless that would be another array's name."""
    for prefix in ("observation.images.", "observation."):
        short = OBSERVATION + name.removeprefix(OBSERVATION + prefix)
        if name.startswith(OBSERVATION + prefix) and short not in names:
            return short
    return {"next.reward": "rewards", "next.done": "dones"}.get(name, name)


def _picture(content: bytes, feature: Feature, where: str) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            # Before it is unpacked: a small file can declare a very large picture.
            if image.height * image.width * 3 > 4 * max(1, int(np.prod(feature.shape))):
                raise UserError(f"{where} has a picture of {image.size}, info.json says {feature.shape}")
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{where} holds a picture that cannot be decoded ({printable(str(error))[:80]})"
        ) from error


def _dtype(feature: Feature) -> np.dtype[Any]:
    return np.dtype(_known(feature.dtype))


def _known(name: str) -> str:
    """A NumPy name of a number, or one that is none."""
    try:
        return str(np.dtype(name))
    except TypeError:
        return "object"
