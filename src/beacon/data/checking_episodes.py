"""What one demonstration shows about itself, read once and then forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import printable
from beacon.data.formats.base import ACTIONS, OBSERVATION, ArrayInfo, DatasetReader, Problem
from beacon.data.images import image_fault, looks_like_camera
from beacon.data.mapping import END_EFFECTOR
from beacon.errors import UserError

BLACK = 2  # the brightest value that still counts as black: some cameras give a little noise
STUTTER = 0.5  # share of frames equal to the one before, from which on the camera is reported

Range = tuple[NDArray[np.float64], NDArray[np.float64]]  # low, high, each (d,)


@dataclass
class EpisodeFacts:
    """What is kept of a demonstration to compare it with the others."""

    length: int = 0
    action_range: Range | None = None
    vector_ranges: dict[str, Range] = field(default_factory=dict)  # observation -> range
    brightness: dict[str, float] = field(default_factory=dict)  # camera -> mean, 0..255
    fingerprint: str | None = None  # of actions and first and last frames
    black: list[str] = field(default_factory=list)  # cameras
    frozen: list[str] = field(default_factory=list)
    stuttering: list[str] = field(default_factory=list)


def check_episode(
    reader: DatasetReader, episode: str, arrays: Mapping[str, ArrayInfo], typical: Mapping[str, ArrayInfo]
) -> tuple[list[Problem], EpisodeFacts]:
    """Check one demonstration.

    Args:
        reader: the dataset.
        episode: name of the demonstration.
        arrays: its arrays.
        typical: each array as the first demonstration that has it shows it.
    """
    problems: list[Problem] = []
    facts = EpisodeFacts()

    def add(severity: Any, text: str) -> None:
        problems.append(Problem(severity, text, episode))

    actions = arrays.get(ACTIONS)
    fault = _actions_fault(actions)
    if actions is None or fault is not None:
        add("error", fault or "no 'actions'")
        return problems, facts
    facts.length = actions.shape[0]
    for name in typical:
        if name.startswith(OBSERVATION) and name not in arrays:
            add("error", f"no '{printable(name)}', which other demonstrations have")

    digest = hashlib.sha256()
    for name, info in sorted(arrays.items()):
        key = name.removeprefix(OBSERVATION)
        shown = printable(name)
        if name != ACTIONS and not name.startswith(OBSERVATION):
            continue
        if not info.shape or info.shape[0] != actions.shape[0]:
            steps = info.shape[0] if info.shape else "no"
            add("error", f"'{shown}' has {steps} steps but 'actions' has {actions.shape[0]}")
            continue
        if info.shape[1:] != typical[name].shape[1:]:
            add("error", f"'{shown}' has shape {info.shape[1:]} a step, elsewhere {typical[name].shape[1:]}")
        camera = name != ACTIONS and looks_like_camera(key, info)
        fault = image_fault(info) if camera else None
        if fault is not None:
            add("error", f"'{printable(key)}' {_without_length(fault, info)}")
            continue
        try:
            if camera:
                _check_camera(reader, episode, key, facts, digest)
                continue
            array = reader.read(episode, name)
        except UserError as error:
            add("error", _without_place(error, reader, episode))
            continue
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = int((~np.isfinite(array)).reshape(len(array), -1).any(1).sum())
            needed = name == ACTIONS or key in (*END_EFFECTOR, *reader.proprio_keys)
            text = f"'{shown}' is NaN or infinite in {bad} of {len(array)} steps"
            add("error" if needed else "warning", text)
            continue
        if array.dtype.kind not in "biuf" or array.ndim > 2:
            continue
        values = array.reshape(len(array), -1).astype(np.float64)
        if values.shape[1] == 0:
            continue
        limits = (values.min(0), values.max(0))
        for dimension, turn in _wraps(values):
            add("warning", f"'{shown}'[{dimension}] jumps by {turn} in a step: an angle that wraps around")
        if name != ACTIONS:
            facts.vector_ranges[key] = limits
            continue
        facts.action_range = limits
        digest.update(array.astype(np.float32).tobytes())
        if len(array) > 1 and (limits[0] == limits[1]).all():
            add("warning", "the same action in every step")
    if facts.action_range is not None:
        facts.fingerprint = digest.hexdigest()
    return problems, facts


def _wraps(values: NDArray[np.float64]) -> list[tuple[int, str]]:
    """Dimensions of (T, d) values that are an angle which jumps by about a whole turn, and the turn."""
    if len(values) < 2:
        return []
    jumps, spread = np.abs(np.diff(values, axis=0)).max(0), np.ptp(values, axis=0)
    turns = ((360.0, "360 degrees"), (2 * np.pi, "2π"))
    return [
        (d, name)
        for d in range(values.shape[1])
        for turn, name in turns
        if 0.95 * turn < jumps[d] <= spread[d] < 1.01 * turn
    ]


def _actions_fault(actions: ArrayInfo | None) -> str | None:
    if actions is None:
        return "no 'actions'"
    if len(actions.shape) != 2 or actions.dtype.kind not in "biuf" or actions.shape[1] == 0:
        return f"'actions' must be numbers of shape (T, A), not {actions.dtype} of shape {actions.shape}"
    return "has no time steps" if actions.shape[0] == 0 else None


def _check_camera(reader: DatasetReader, episode: str, camera: str, facts: EpisodeFacts, digest: Any) -> None:
    """One pass over the frames, a block at a time: brightness, and frames equal to the one before."""
    first: NDArray[Any] | None = None
    last: NDArray[Any] | None = None
    frames, repeated, brightest, total = 0, 0, 0, 0.0
    for block in reader.blocks(episode, OBSERVATION + camera):
        if not len(block):
            continue
        first = block[0].copy() if first is None else first
        before = block[:1] if last is None else last[None]
        for earlier, later in zip(np.concatenate([before, block[:-1]]), block, strict=True):
            repeated += bool(np.array_equal(earlier, later))
        repeated -= last is None  # the very first frame was compared with itself
        last = block[-1].copy()
        frames += len(block)
        brightest = max(brightest, int(block.max()))
        total += float(block.mean(dtype=np.float64)) * len(block)
    if first is None or last is None:
        return
    digest.update(first.tobytes() + last.tobytes())
    facts.brightness[camera] = total / frames
    if brightest <= BLACK:
        facts.black.append(camera)
    elif frames > 1:
        if repeated == frames - 1:
            facts.frozen.append(camera)
        elif repeated / (frames - 1) > STUTTER:
            facts.stuttering.append(camera)


def _without_place(error: UserError, reader: DatasetReader, episode: str) -> str:
    """The message without dataset and demonstration, which the report says itself."""
    text = str(error)
    for prefix in (f"{reader.path}, {printable(episode)}", f"{reader.path}"):
        if text.startswith(prefix):
            return text.removeprefix(prefix).lstrip(" :,/")
    return text


def _without_length(fault: str, info: ArrayInfo) -> str:
    """The fault with T for the number of steps, so that it reads the same for every demonstration."""
    return fault.replace(str(info.shape), "(T, " + ", ".join(map(str, info.shape[1:])) + ")")
