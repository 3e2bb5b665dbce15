"""Writing LeRobot datasets of version 3.0, which LeRobot loads without a network."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from beacon.data.episodes import Episode
from beacon.data.errors import listing, printable
from beacon.data.formats.base import DatasetWriter, WriteOptions
from beacon.data.formats.lerobot_features import ARRAYS, FeatureArrays, feature_arrays, index_features
from beacon.data.formats.lerobot_stats import Stats, combine, image_stats, to_lists, vector_stats
from beacon.data.formats.lerobot_tables import (
    plain_value,
    robot_name,
    task_table,
    to_column,
    to_png,
    video_info,
)
from beacon.data.formats.video_writer import VideoWriter
from beacon.data.formats.write_lock import WriteLock
from beacon.errors import RunError, UserError
from beacon.files import sync, writing

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_TABLE = 100 << 20  # bytes, from which on a new file is begun
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
CHUNK = 1000  # files in a folder
TASK = "task"  # attribute of a demonstration that says what it shows


class LeRobotWriter(DatasetWriter):
    """Gathers a dataset in ``PATH.partial/``, which becomes ``PATH`` when the ``with`` block ends well.

    Args:
        path: of the new folder.
        options: the rate is needed; images become video or are embedded.
    """

    def __init__(self, path: Path, options: WriteOptions) -> None:
        if options.fps is None:
            raise UserError(
                f"{path}: a LeRobot dataset needs the control rate, which the data do not say; say --fps"
            )
        self.path = path
        # Absolute, because pyarrow takes a relative "scheme:name" for the address of another file system.
        self.partial = path.absolute().with_name(path.name + ".partial")
        self._options = options
        self._fps = options.fps
        self._lock = WriteLock(path, self.partial)
        self._check_place()
        with writing(path):
            self.partial.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.take()
            except BaseException:
                self._lock.release()
                raise
            for left in self.partial.iterdir():  # of a process that died
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left)
                elif left.name != "lock":
                    left.unlink()
        self._layout: FeatureArrays | None = None
        self._videos: dict[str, VideoWriter] = {}
        self._table: Any = None
        self._table_number = 0
        self._rows: list[dict[str, Any]] = []
        self._stats: list[dict[str, Stats]] = []
        self._tasks: dict[str, int] = {}
        self._frames = 0
        self._attributes: dict[str, dict[str, Any]] = {}
        self._names: dict[str, int] = {}
        self._masks: dict[str, list[int]] = {}

    def _check_place(self) -> None:
        if not self.path.exists():
            return
        if not self._options.overwrite:
            raise UserError(f"{self.path} exists already; choose another name or allow overwriting it")
        if not (self.path / "meta" / "info.json").is_file():
            raise UserError(f"{self.path} exists and is no LeRobot dataset, so it is not overwritten")

    def add(self, episode: Episode) -> str:
        """Write one demonstration."""
        number = len(self._rows)
        arrays = feature_arrays(episode, self._options)
        if self._layout is None:
            self._layout = arrays
        elif arrays.features != self._layout.features:
            ours, theirs = arrays.features, self._layout.features
            differing = [name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)]
            raise UserError(
                f"{printable(str(episode.name))}: {listing(sorted(differing))} differ from those of the "
                "demonstrations before it; LeRobot needs the same features everywhere"
            )
        length = len(episode.actions)
        env_name = (self._options.env_args or {}).get("env_name")
        task = str(episode.attributes.get(TASK) or env_name or "demonstration")
        row: dict[str, Any] = {
            "episode_index": number,
            "tasks": [task],
            "length": length,
            "dataset_from_index": self._frames,
            "dataset_to_index": self._frames + length,
        }
        with writing(self.path):
            stats = self._write_videos(arrays, row)
            self._tasks.setdefault(task, len(self._tasks))
            self._write_rows(arrays, row, number)
        for name, values in arrays.vectors.items():
            stats[name] = vector_stats(values)
        for name, frames in arrays.images.items():
            stats[name] = image_stats(frames)
        stats |= {name: vector_stats(values) for name, values in self._index(length, number, task).items()}
        self._rows.append(row | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
        self._stats.append(stats)
        self._frames += length
        name = f"episode_{number}"
        self._note(number, episode)
        self._names[name] = number
        return name

    def set_mask(self, key: str, names: list[str]) -> None:
        """Name a subset; LeRobot has no place for it, so it is kept beside the dataset."""
        self._masks[key] = [self._names[name] for name in names if name in self._names]

    def finish(self) -> None:
        """Write what describes the dataset, and give it its name."""
        if self._layout is None:
            raise RunError(f"{self.path}: no demonstration was added, so there is nothing to write")
        with writing(self.path):
            if self._table is not None:
                self._table.close()
            for video in self._videos.values():
                video.close()
            self._write_meta(self._layout)
            (self.partial / "lock").unlink(missing_ok=True)
            for file in self.partial.rglob("*"):
                sync(file)
            if self.path.exists():
                old = self.path.with_name(f".{self.path.name}.old")
                shutil.rmtree(old, ignore_errors=True)
                self.path.rename(old)
                self.partial.rename(self.path)
                shutil.rmtree(old)
            else:
                self.partial.rename(self.path)
            sync(self.path.parent)

    def _write_videos(self, arrays: FeatureArrays, row: dict[str, Any]) -> dict[str, Stats]:
        stats = {}
        for name, frames in arrays.videos.items():
            if name not in self._videos:
                self._videos[name] = VideoWriter(self.partial / "videos" / name, self._fps)
            file, start, stop = self._videos[name].add(frames)
            row |= {
                f"videos/{name}/chunk_index": file // CHUNK,
                f"videos/{name}/file_index": file % CHUNK,
                # Frames before it, exactly: sums of the container's durations drift.
                f"videos/{name}/from_timestamp": start / self._fps,
                f"videos/{name}/to_timestamp": stop / self._fps,
            }
            stats[name] = image_stats(frames)
        return stats

    def _index(self, length: int, number: int, task: str) -> dict[str, NDArray[Any]]:
        frame = np.arange(length)
        return {
            "timestamp": (frame / self._fps).astype(np.float32),
            "frame_index": frame,
            "episode_index": np.full(length, number),
            "index": self._frames + frame,
            "task_index": np.full(length, self._tasks[task]),
        }

    def _write_rows(self, arrays: FeatureArrays, row: dict[str, Any], number: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        length = row["length"]
        columns: dict[str, pa.Array] = {n: to_column(values) for n, values in arrays.vectors.items()}
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        for name, frames in arrays.images.items():
            cells = [{"bytes": to_png(f), "path": f"frame-{i:06d}.png"} for i, f in enumerate(frames)]
            columns[name] = pa.array(cells, kind)
        columns |= {n: pa.array(v) for n, v in self._index(length, number, row["tasks"][0]).items()}
        table = pa.table(columns)
        if self._table is not None and self._table_path.stat().st_size > LARGEST_TABLE:
            self._table.close()
            self._table, self._table_number = None, self._table_number + 1
        if self._table is None:
            self._table_path.parent.mkdir(parents=True, exist_ok=True)
            self._table = pq.ParquetWriter(self._table_path, table.schema, compression="snappy")
        self._table.write_table(table)  # a row group for each episode
        row["data/chunk_index"] = self._table_number // CHUNK
        row["data/file_index"] = self._table_number % CHUNK

    @property
    def _table_path(self) -> Path:
        number = self._table_number
        return self.partial / DATA_PATH.format(chunk_index=number // CHUNK, file_index=number % CHUNK)

    def _note(self, number: int, episode: Episode) -> None:
        noted = {
            k: v for k, v in episode.attributes.items() if k not in ("num_samples", "episode_index", TASK)
        }
        if episode.name is not None and episode.name != f"episode_{number}":
            noted.setdefault("original_name", episode.name)
        if noted:
            self._attributes[str(number)] = noted

    def _write_meta(self, layout: FeatureArrays) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        meta = self.partial / "meta"
        episodes = meta / "episodes" / "chunk-000" / "file-000.parquet"
        episodes.parent.mkdir(parents=True)
        rows = [
            row
            | {f"stats/{f}/{s}": value for f, entry in to_lists(stats).items() for s, value in entry.items()}
            for row, stats in zip(self._rows, self._stats, strict=True)
        ]
        pq.write_table(pa.Table.from_pylist(rows), episodes)
        pq.write_table(task_table(list(self._tasks)), meta / "tasks.parquet")
        features = dict(layout.features)
        for name, video in self._videos.items():
            features[name] = {**features[name], "info": video_info(features[name], video, self._fps)}
        fps = int(self._fps) if float(self._fps).is_integer() else self._fps
        info = {
            "codebase_version": "v3.0",
            "robot_type": robot_name(self._options),
            "total_episodes": len(self._rows),
            "total_frames": self._frames,
            "total_tasks": len(self._tasks),
            "chunks_size": CHUNK,
            "data_files_size_in_mb": LARGEST_TABLE >> 20,
            "video_files_size_in_mb": 200,
            "fps": fps,
            "splits": {"train": f"0:{len(self._rows)}"},
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if self._videos else None,
            "features": features | index_features(),
        }
        together = {name: combine([stats[name] for stats in self._stats]) for name in self._stats[0]}
        extra = {
            "env_args": dict(self._options.env_args or {}),
            "attributes": dict(self._options.attributes or {}),
            "episodes": self._attributes,
            "masks": self._masks,
            ARRAYS: layout.origins,
        }
        for name, values in (("info.json", info), ("stats.json", to_lists(together)), ("beacon.json", extra)):
            (meta / name).write_text(json.dumps(values, indent=2, default=plain_value) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            for video in self._videos.values():
                with suppress(Exception):  # the encoder must be told, or it complains; nothing of it is kept
                    video.close()
            if self.partial.exists():
                shutil.rmtree(self.partial, ignore_errors=True)
            self._lock.release()
