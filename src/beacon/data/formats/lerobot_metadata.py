"""The ``meta`` folder of a LeRobot dataset, versions 2.0, 2.1 and 3.0: features, episodes, tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beacon.data.errors import listing, printable
from beacon.data.formats import parquet_tables as tables
from beacon.data.formats.folder_paths import expand, file_fault, inside
from beacon.errors import UserError

LARGEST_TEXT = 1 << 26  # bytes of a JSON file, or of one line of it
LONGEST = 100_000_000  # steps of an episode: more is not a number that anyone recorded
INDEX_COLUMNS = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class Feature:
    """One entry of ``features``."""

    name: str
    dtype: str  # a NumPy name, "image", "video" or "string"
    shape: tuple[int, ...]
    names: list[str] | None  # of the dimensions, where they are as many as the shape says
    depth: bool = False  # a depth map, not what a camera sees

    @property
    def is_camera(self) -> bool:
        """Whether it is pictures."""
        return self.dtype in ("image", "video")


@dataclass(frozen=True)
class Clip:
    """Where the pictures of one episode and camera are."""

    path: Path
    first: int  # number of its first frame in the file


@dataclass(frozen=True)
class EpisodeEntry:
    """One episode."""

    index: int
    length: int
    tasks: tuple[str, ...]
    data: Path
    videos: dict[str, Clip] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """By which everybody else knows it."""
        return f"episode_{self.index}"


@dataclass(frozen=True)
class Metadata:
    """What ``meta`` says."""

    version: str
    fps: float
    robot: str | None
    features: dict[str, Feature]
    episodes: list[EpisodeEntry]
    splits: dict[str, str]
    totals: dict[str, Any]


def read_metadata(root: Path) -> Metadata:
    """Read and check everything in ``meta``; the episodes in the order of their numbers."""
    info = read_json(inside(root, "meta/info.json"))
    version = str(info.get("codebase_version", ""))
    fps = info.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not math.isfinite(fps) or fps <= 0:
        raise UserError(f"{root}: info.json says fps {printable(repr(fps))}; it must be a number above 0")
    features = _features(root, info)
    if version.startswith("v3"):
        episodes = list(_episodes_v3(root, info, features, float(fps)))
    elif version.startswith(("v2", "v1.6")):
        episodes = list(_episodes_v2(root, info, features))
    else:
        raise UserError(
            f"{root}: codebase_version '{printable(version)}' is unknown; v2.0, v2.1 and v3.0 are read"
        )
    numbers = [episode.index for episode in episodes]
    if len(set(numbers)) < len(numbers):
        raise UserError(f"{root}: an episode number occurs twice in the list of episodes")
    splits = info.get("splits")
    return Metadata(
        version=version,
        fps=float(fps),
        robot=info["robot_type"] if isinstance(info.get("robot_type"), str) else None,
        features=features,
        episodes=sorted(episodes, key=lambda episode: episode.index),
        splits={str(k): str(v) for k, v in splits.items()} if isinstance(splits, dict) else {},
        totals={key: info.get(key) for key in ("total_episodes", "total_frames")},
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that is an object."""
    fault = file_fault(path)
    if fault is not None:
        raise UserError(f"{path} {fault}")
    try:
        if path.stat().st_size > LARGEST_TEXT:
            raise UserError(f"{path}: larger than {LARGEST_TEXT >> 20} MiB, so it is not what it should be")
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} is not JSON ({printable(str(error))})") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: must be a JSON object")
    return values


def _features(root: Path, info: dict[str, Any]) -> dict[str, Feature]:
    declared = info.get("features")
    if not isinstance(declared, dict) or not declared:
        raise UserError(f"{root}: info.json names no features")
    features = {}
    for name, entry in declared.items():
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise UserError(f"{root}: info.json, feature '{printable(name)}' has no shape of whole numbers")
        details = [entry.get(key) for key in ("info", "video_info")]
        depth = any(
            isinstance(d, dict) and (d.get("video.is_depth_map") or d.get("is_depth_map")) for d in details
        )
        size = shape[0] if len(shape) == 1 else 0
        features[name] = Feature(
            name, str(entry.get("dtype")), tuple(shape), _flat_names(entry.get("names"), size), bool(depth)
        )
    return features


def _flat_names(names: Any, size: int) -> list[str] | None:
    """Names of dimensions: a list, one in a list, or one under some key; None where the number is wrong."""
    while isinstance(names, dict | list) and len(names) == 1:
        inner = next(iter(names.values())) if isinstance(names, dict) else names[0]
        if not isinstance(inner, list | dict):
            break
        names = inner
    if isinstance(names, list) and len(names) == size and all(isinstance(n, str) for n in names):
        return list(names)
    return None


def _video_keys(features: dict[str, Feature]) -> list[str]:
    return [name for name, feature in features.items() if feature.dtype == "video" and not feature.depth]


def _template(root: Path, info: dict[str, Any], key: str, default: str) -> str:
    template = info.get(key) or default
    if not isinstance(template, str):
        raise UserError(f"{root}: info.json, {key} is not a text")
    return template


def _count(root: Path, what: str, value: Any, most: int = 2**62) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise UserError(f"{root}: {what} is {printable(repr(value))[:40]}; a whole number from 0 is expected")
    return value


def _episodes_v2(root: Path, info: dict[str, Any], features: dict[str, Feature]) -> Iterator[EpisodeEntry]:
    data = _template(
        root, info, "data_path", "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
    )
    default = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
    video = _template(root, info, "video_path", default)
    chunk_size = max(1, _count(root, "chunks_size", info.get("chunks_size", 1000)))
    for entry in _json_lines(inside(root, "meta/episodes.jsonl")):
        number = _count(root, "episode_index in episodes.jsonl", entry.get("episode_index"))
        values: dict[str, int | str] = {"episode_index": number, "episode_chunk": number // chunk_size}
        yield EpisodeEntry(
            index=number,
            length=_count(root, f"length of episode {number}", entry.get("length"), LONGEST),
            tasks=_texts(entry.get("tasks")),
            data=inside(root, expand(data, values)),
            videos={
                key: Clip(inside(root, expand(video, {**values, "video_key": key})), 0)
                for key in _video_keys(features)
            },
        )


def _episodes_v3(
    root: Path, info: dict[str, Any], features: dict[str, Feature], fps: float
) -> Iterator[EpisodeEntry]:
    data = _template(root, info, "data_path", "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet")
    default = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    video = _template(root, info, "video_path", default)
    keys = _video_keys(features)
    columns = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    for key in keys:
        columns += [f"videos/{key}/{name}" for name in ("chunk_index", "file_index", "from_timestamp")]
    files = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    if not files:
        raise UserError(f"{root / 'meta' / 'episodes'}: there is no list of episodes (*/*.parquet)")
    for file in files:
        path = inside(root, str(file.relative_to(root)))
        for row in tables.read_rows(path, columns, optional=("tasks",)):
            number = _count(root, "episode_index in the list of episodes", row["episode_index"])

            def address(template: str, prefix: str, row: dict[str, Any] = row, **more: str) -> Path:
                values: dict[str, int | str] = {
                    name: _count(root, f"{prefix}/{name}", row[f"{prefix}/{name}"])
                    for name in ("chunk_index", "file_index")
                }
                return inside(root, expand(template, {**values, **more}))

            clips = {}
            for key in keys:
                start = row[f"videos/{key}/from_timestamp"]
                if not isinstance(start, int | float) or not 0 <= start < 1e9:
                    raise UserError(
                        f"{root}: episode {number}: from_timestamp of '{printable(key)}' is {start}"
                    )
                # By frame number: the stock writer's time stamps drift away from the frames.
                clips[key] = Clip(address(video, f"videos/{key}", video_key=key), round(start * fps))
            yield EpisodeEntry(
                index=number,
                length=_count(root, f"length of episode {number}", row["length"], LONGEST),
                tasks=_texts(row.get("tasks")),
                data=address(data, "data"),
                videos=clips,
            )


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    fault = file_fault(path)
    if fault is not None:
        raise UserError(f"{path} {fault}")
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LARGEST_TEXT):
            number += 1
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{path}, line {number}: not JSON ({printable(str(error))})") from None
            if not isinstance(entry, dict):
                raise UserError(f"{path}, line {number}: must be a JSON object")
            yield entry


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, list | tuple) else ()


def incomplete(root: Path, episode: EpisodeEntry, checked: dict[Path, str | None]) -> str | None:
    """What is missing of an episode, in a few words; ``checked`` remembers files that episodes share."""
    for path in (episode.data, *(clip.path for clip in episode.videos.values())):
        if path not in checked:
            checked[path] = file_fault(path)
        if checked[path] is not None:
            return f"{path.relative_to(root)} {checked[path]}{_misplaced(root, path)}"
    return None


def _misplaced(root: Path, path: Path) -> str:
    parts = path.relative_to(root).parts
    if parts[0] == "videos" and not (root / "videos").exists() and (root / "video").is_dir():
        return " (there is a folder 'video', but info.json says 'videos': rename the folder)"
    return ""


def describe_features(features: dict[str, Feature]) -> str:
    """Their names, for messages."""
    return listing([name for name in features if name not in INDEX_COLUMNS], 40)
