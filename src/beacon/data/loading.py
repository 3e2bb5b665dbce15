"""From an open dataset to an EpisodeSet: choose, check, allocate once, read one demonstration at a time."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beacon.data.episodes import EpisodeSet
from beacon.data.errors import DataWarning, listing
from beacon.data.filling import CameraRoom, check_length, fill
from beacon.data.formats.base import ACTIONS, OBSERVATION, ArrayInfo, DatasetReader, ReadOptions
from beacon.data.images import image_fault, looks_like_camera
from beacon.data.mapping import END_EFFECTOR, ObservationMapping
from beacon.data.merging import DomainPath, domain_paths, open_domain
from beacon.data.storage import (
    Frames,
    FrameSink,
    MappedSink,
    MemorySink,
    cache_path,
    default_cache_dir,
    default_memory_limit,
    find_mapped,
)
from beacon.errors import UserError
from beacon.progress import each


@dataclass(frozen=True)
class ChosenKeys:
    """The observations that are used: name everywhere else -> key in the file."""

    cameras: dict[str, str]
    proprio: dict[str, str]


def select_episodes(reader: DatasetReader, mask: str | None, limit: int | None) -> list[str]:
    """Names of the demonstrations to read, in the dataset's order."""
    names = reader.episode_names
    if not names:
        raise UserError(f"{reader.path} holds no demonstrations")
    if mask is not None:
        if mask not in reader.masks:
            raise UserError(f"{reader.path} has no mask '{mask}'; the masks are: {listing(reader.masks)}")
        wanted = set(reader.masks[mask])
        unknown = sorted(wanted - set(names))
        if unknown:
            raise UserError(f"{reader.path}: mask '{mask}' names {listing(unknown)}, not in the file")
        names = [name for name in names if name in wanted]
        if not names:
            raise UserError(f"{reader.path}: mask '{mask}' is empty")
    if limit is not None:
        if limit < 1:
            raise UserError(f"{reader.path}: asked for {limit} demonstrations; ask for at least one")
        if limit > len(names):
            among = f" in mask '{mask}'" if mask is not None else ""
            raise UserError(
                f"{reader.path} has {len(names)} demonstrations{among}, fewer than the {limit} asked for"
            )
        names = names[:limit]
    return names


def choose_keys(reader: DatasetReader, episode: str, mapping: ObservationMapping) -> ChosenKeys:
    """Apply the mapping to the keys of one demonstration."""
    keys = reader.observation_keys(episode)
    names = mapping.visible(sorted(keys), reader.path)  # name -> key
    cameras = mapping.cameras
    if cameras is None:
        cameras = tuple(sorted(n for n, key in names.items() if looks_like_camera(key, keys[key])))
    proprio = mapping.proprio
    if proprio is None:
        proprio = default_proprio(reader, names)
    for name in (*cameras, *proprio):
        if name not in names:
            raise UserError(
                f"{reader.path}, {episode}: no observation '{name}'; there are {listing(sorted(names), 40)} "
                f"(--rename KEY={name} gives one of them this name)"
            )
    for name in proprio:
        if len(keys[names[name]].shape) > 2:
            raise UserError(
                f"{reader.path}, {episode}: '{name}' is not proprioception, "
                f"its shape is {keys[names[name]].shape}; choose it as a camera if it is one"
            )
    return ChosenKeys({n: names[n] for n in cameras}, {n: names[n] for n in proprio})


def default_proprio(reader: DatasetReader, names: dict[str, str]) -> tuple[str, ...]:
    """Names of the proprioception when none is chosen: what the dataset says, or the end-effector's keys."""
    said = [name for key in reader.proprio_keys for name, k in names.items() if k == key]
    return tuple(dict.fromkeys([*(n for n in END_EFFECTOR if n in names), *said]))


def load_episodes(
    domain: DomainPath,
    *,
    mapping: ObservationMapping,
    mask: str | None,
    limit: int | None,
    memory_limit_bytes: int | None,
    cache_dir: Path | None,
    name: str | None,
    options: ReadOptions | None = None,
) -> EpisodeSet:
    """See :meth:`EpisodeSet.load`."""
    path = domain_paths(domain)[0]
    with open_domain(domain, options) as reader, ExitStack() as cleanup:
        if (fault := reader.rate_fault()) is not None:
            raise UserError(f"{reader.path}: {fault}")
        if reader.left_out:
            text = f"{reader.path}: left out, incomplete or without steps: {listing(reader.left_out, 6)}"
            warnings.warn(text, DataWarning, stacklevel=3)
        episodes = select_episodes(reader, mask, limit)
        chosen = choose_keys(reader, episodes[0], mapping)
        lengths = _measure(reader, episodes)
        frames = int(lengths.sum())
        widths = {n: _width(reader.info(episodes[0], n)) for n in _vector_names(chosen)}
        _check_room(reader, frames, widths)

        shapes = {c: _frame_shape(reader, episodes[0], c, k, mapping) for c, k in chosen.cameras.items()}
        size = sum(frames * h * w * channels for h, w, channels in shapes.values())
        mapped = size > (default_memory_limit() if memory_limit_bytes is None else memory_limit_bytes)
        images: dict[str, Frames] = {}
        sinks: dict[str, FrameSink] = {}
        for camera, key in chosen.cameras.items():
            shape = (frames, *shapes[camera])
            if not mapped:
                sinks[camera] = MemorySink(shape)
                continue
            selection = {"episodes": episodes, "key": key, "size": mapping.image_size}
            file = cache_path(cache_dir or default_cache_dir(), path.stem, reader.identity(), selection)
            kept = find_mapped(file, shape)
            if kept is not None:
                images[camera] = kept
            else:
                sinks[camera] = MappedSink(file, shape)
                cleanup.callback(sinks[camera].abandon)

        actions: NDArray[np.float32] = np.empty((frames, widths[ACTIONS]), np.float32)
        proprio: dict[str, NDArray[np.float32]] = {
            p: np.empty((frames, widths[OBSERVATION + key]), np.float32) for p, key in chosen.proprio.items()
        }
        start = 0
        told = each(episodes, f"reading {reader.path.name}")
        for episode, length in zip(told, lengths.tolist(), strict=True):
            rows = slice(start, start + length)
            _read_vectors(reader, episode, ACTIONS, actions[rows])
            for p, key in chosen.proprio.items():
                _read_vectors(reader, episode, OBSERVATION + key, proprio[p][rows])
            start += length
        rooms = [CameraRoom(chosen.cameras[c], shapes[c], sink) for c, sink in sinks.items()]
        fill(reader, episodes, lengths, rooms, mapping.height_width)
        images |= {camera: sink.finish() for camera, sink in sinks.items()}
        return EpisodeSet(
            name=name or path.stem,
            path=path,
            episode_names=episodes,
            lengths=lengths,
            actions=actions,
            proprio=proprio,
            images={camera: images[camera] for camera in chosen.cameras},
            env_args=reader.env_args,
            episode_attributes=[reader.attributes(episode) for episode in episodes],
            image_starts=np.cumsum(lengths) - lengths,
            fps=reader.fps,
            action_names=tuple(reader.dimension_names(ACTIONS) or ()),
            image_fit=reader.image_fit,
            skip_incomplete=options is not None and options.skip_incomplete,
        )


def _measure(reader: DatasetReader, episodes: list[str]) -> NDArray[np.int64]:
    """Length of each demonstration, from its actions (E,)."""
    lengths = np.empty(len(episodes), np.int64)
    for e, episode in enumerate(episodes):
        info = reader.info(episode, ACTIONS)
        if len(info.shape) != 2 or info.shape[1] == 0 or info.dtype.kind not in "biuf":
            raise UserError(
                f"{reader.path}, {episode}: 'actions' must be numbers of shape (T, A), "
                f"not {info.dtype} of shape {info.shape}"
            )
        if info.shape[0] == 0:
            raise UserError(
                f"{reader.path}, {episode}: has no time steps; remove it or leave it out by a mask"
            )
        lengths[e] = info.shape[0]
    return lengths


def _vector_names(chosen: ChosenKeys) -> list[str]:
    return [ACTIONS, *(OBSERVATION + key for key in chosen.proprio.values())]


def _check_room(reader: DatasetReader, frames: int, widths: dict[str, int]) -> None:
    """Refuse vectors that do not fit into memory, before it is asked for."""
    need, free = 4 * frames * sum(widths.values()), default_memory_limit()
    if need > free:
        widest = max(widths, key=lambda name: widths[name])
        raise UserError(
            f"{reader.path}: {frames:,} steps of {sum(widths.values()):,} numbers need "
            f"{need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} are free "
            f"('{widest}' has {widths[widest]:,} dimensions)"
        )


def _width(info: ArrayInfo) -> int:
    return int(info.shape[1]) if len(info.shape) > 1 else 1


def _frame_shape(
    reader: DatasetReader, episode: str, camera: str, key: str, mapping: ObservationMapping
) -> tuple[int, int, int]:
    """(H, W, C) after resizing."""
    info = reader.info(episode, OBSERVATION + key)
    fault = image_fault(info)
    if fault is not None:
        raise UserError(f"{reader.path}, {episode}: '{camera}' {fault}")
    height, width = mapping.height_width or info.shape[1:3]
    return (height, width, info.shape[3])


def _read_vectors(reader: DatasetReader, episode: str, name: str, out: NDArray[np.float32]) -> None:
    """Read (T, d) numbers into their rows, refusing what would poison training."""
    info = reader.info(episode, name)
    where = f"{reader.path}, {episode}: '{name}'"
    if info.dtype.kind not in "biuf" or len(info.shape) not in (1, 2):
        raise UserError(f"{where} must be numbers of shape (T, d), not {info.dtype} of shape {info.shape}")
    check_length(reader, episode, name, info.shape[0], len(out))
    if _width(info) != out.shape[1]:
        raise UserError(
            f"{where} has {_width(info)} dimensions, in the demonstrations before it {out.shape[1]}"
        )
    out[...] = reader.read(episode, name).reshape(out.shape)
    if not np.isfinite(out).all():
        step, dimension = np.argwhere(~np.isfinite(out))[0]
        raise UserError(
            f"{where} holds {out[step, dimension]} at step {step}, dimension {dimension}; "
            f"beacon data check {reader.path} lists every such place"
        )
