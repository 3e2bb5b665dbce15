"""A demonstration's arrays as LeRobot features, and where each came from, for converting back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.episodes import Episode
from beacon.data.errors import printable
from beacon.data.formats.base import ACTIONS, OBSERVATION, ArrayInfo, WriteOptions
from beacon.data.images import image_fault
from beacon.errors import UserError

ARRAYS = "arrays"  # key of the origins in meta/beacon.json
STATE = "observation.state"
IMAGES = "observation.images."
ACTION = "action"


@dataclass(frozen=True)
class FeatureArrays:
    """What is written of one demonstration."""

    features: dict[str, dict[str, Any]] = field(default_factory=dict)  # as info.json has them
    vectors: dict[str, NDArray[Any]] = field(default_factory=dict)  # feature -> (T, ...)
    videos: dict[str, NDArray[np.uint8]] = field(default_factory=dict)  # feature -> (T, H, W, 3)
    images: dict[str, NDArray[np.uint8]] = field(default_factory=dict)  # embedded
    # feature -> the arrays it is made of: [name, first dimension, end, dtype, shape of a step]
    origins: dict[str, list[list[Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """An array that a feature, or some of its dimensions, came from."""

    name: str
    start: int
    stop: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of a step


def origins(extra: dict[str, Any], feature: Any) -> list[Origin]:
    """What meta/beacon.json says about a feature; nothing where it says nothing sensible."""
    noted = extra.get(ARRAYS)
    entries = noted.get(feature.name) if isinstance(noted, dict) else None
    parts = []
    for entry in entries if isinstance(entries, list) else []:
        try:
            name, start, stop, dtype, shape = entry
            origin = Origin(str(name), int(start), int(stop), np.dtype(dtype), tuple(map(int, shape)))
        except (TypeError, ValueError):
            return []
        width = int(np.prod(origin.shape, dtype=np.int64))
        if origin.dtype.kind not in "biuf" or (not feature.is_camera and width != stop - start) or start < 0:
            return []
        parts.append(origin)
    return parts


def take_apart(values: NDArray[Any], parts: list[Origin], *, whole: bool) -> dict[str, NDArray[Any]]:
    """The arrays that a feature was made of.

    Args:
        values: of the feature (T, ...).
        parts: where its dimensions came from.
        whole: pictures, which are no part of anything.
    """
    if whole:
        return {part.name: values for part in parts}
    flat = values.reshape(len(values), -1)
    return {
        part.name: flat[:, part.start : part.stop].astype(part.dtype).reshape(len(values), *part.shape)
        for part in parts
        if part.stop <= flat.shape[1]
    }


def feature_arrays(episode: Episode, options: WriteOptions) -> FeatureArrays:
    """Sort the arrays of a demonstration into features.

    Cameras are ``observation.images.<key>``. Proprioception is put together to ``observation.state``, which
    LeRobot's policies look for; other observations are ``obs.<key>``, which they pass over.

    Args:
        episode: the demonstration.
        options: which observations are proprioception, whether pictures become video, names of actions.
    """
    arrays = FeatureArrays()
    state = [key for key in options.proprio if key in episode.obs and key != STATE]
    for key, values in episode.obs.items():
        array = np.asarray(values)
        if image_fault(ArrayInfo(array.shape, array.dtype)) is None:
            _add_camera(arrays, key, array, options.video)
    if STATE in episode.obs:
        _add_vectors(arrays, STATE, {OBSERVATION + STATE: np.asarray(episode.obs[STATE])}, np.float32)
    elif state:
        parts = {OBSERVATION + key: np.asarray(episode.obs[key]) for key in state}
        _add_vectors(arrays, STATE, parts, np.float32)
    _add_vectors(arrays, ACTION, {ACTIONS: np.asarray(episode.actions)}, np.float32)
    if ACTION in arrays.features and len(options.action_names) == np.asarray(episode.actions).shape[-1]:
        arrays.features[ACTION]["names"] = list(options.action_names)
    for key, values in episode.obs.items():
        array = np.asarray(values)
        if IMAGES + _camera_name(key) in arrays.features or key == STATE or key in state:
            continue
        name = key if key.startswith("observation.") else f"obs.{_flat(key)}"
        _add_vectors(arrays, name, {OBSERVATION + key: array})
    for name, series, feature in (
        ("rewards", episode.rewards, "next.reward"),
        ("dones", episode.dones, "next.done"),
        ("states", episode.states, "states"),
    ):
        if series is not None:
            _add_vectors(arrays, feature, {name: np.asarray(series)}, np.bool_ if name == "dones" else None)
    for name, values in episode.extra.items():
        array = np.asarray(values)
        if array.ndim and len(array) == len(episode.actions):
            _add_vectors(arrays, f"extra.{_flat(name)}", {name: array})
    return arrays


def _add_camera(arrays: FeatureArrays, key: str, frames: NDArray[np.uint8], video: bool) -> None:
    name = IMAGES + _camera_name(key)
    if frames.shape[3] == 1:
        frames = np.repeat(frames, 3, axis=3)
    frames = frames[..., :3]
    arrays.features[name] = {
        "dtype": "video" if video else "image",
        "shape": list(frames.shape[1:]),
        "names": ["height", "width", "channels"],
    }
    (arrays.videos if video else arrays.images)[name] = frames
    arrays.origins[name] = [[OBSERVATION + key, 0, 0, "uint8", list(frames.shape[1:])]]


def _add_vectors(
    arrays: FeatureArrays, feature: str, parts: dict[str, NDArray[Any]], dtype: Any = None
) -> None:
    """One feature from one array or several, side by side."""
    kept = {
        name: a for name, a in parts.items() if a.dtype.kind in "biuf" and 0 not in a.shape and a.ndim <= 6
    }
    if not kept:
        return
    for name, array in kept.items():
        if array.ndim == 0:
            raise UserError(f"'{printable(name)}' has no time steps")
    arrays.origins[feature] = []
    flat, names = [], []
    start = 0
    for name, array in kept.items():
        width = int(np.prod(array.shape[1:], dtype=np.int64))
        origin = [name, start, start + width, str(array.dtype), list(array.shape[1:])]
        arrays.origins[feature].append(origin)
        flat.append(array.reshape(len(array), -1))
        short = name.removeprefix(OBSERVATION)
        names += [f"{short}.{d}" if width > 1 else short for d in range(width)]
        start += width
    if len(kept) == 1:
        values = next(iter(kept.values()))
        values = values.reshape(len(values), 1) if values.ndim == 1 else values
    else:
        values = np.concatenate(flat, axis=1)
    values = values.astype(dtype or values.dtype, copy=False)
    if values.dtype == np.float16 or values.dtype.itemsize > 8:
        values = values.astype(np.float32)
    arrays.vectors[feature] = values
    arrays.features[feature] = {
        "dtype": str(values.dtype),
        "shape": list(values.shape[1:]),
        "names": names if values.ndim == 2 else None,
    }


def index_features() -> dict[str, Any]:
    """The columns that every dataset has."""
    whole = {"dtype": "int64", "shape": [1], "names": None}
    return {"timestamp": {"dtype": "float32", "shape": [1], "names": None}} | {
        name: dict(whole) for name in ("frame_index", "episode_index", "index", "task_index")
    }


def _camera_name(key: str) -> str:
    return _flat(key.removeprefix(IMAGES))


def _flat(name: str) -> str:
    """Feature names must not hold a slash."""
    return name.replace("/", ".")
