"""What one demonstration shows about itself, read once and then forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.formats.base import ACTIONS, OBSERVATION, ArrayInfo, DatasetReader, Problem
from beacon.data.images import image_fault, looks_like_camera
from beacon.data.mapping import END_EFFECTOR
from beacon.errors import UserError

BLACK = 2  # the brightest value that still counts as black: some cameras give a little noise
STUTTER = 0.5  # share of frames equal to the one before, from which on the camera is reported


@dataclass
class EpisodeFacts:
    """What is kept of a demonstration to compare it with the others."""

    action_range: tuple[NDArray[Any], NDArray[Any]] | None = None  # low, high, each (A,)
    fingerprint: str | None = None  # of actions and first and last frames
    black: list[str] = field(default_factory=list)  # cameras
    frozen: list[str] = field(default_factory=list)
    stuttering: list[str] = field(default_factory=list)


def check_episode(
    reader: DatasetReader, episode: str, arrays: Mapping[str, ArrayInfo], typical: Mapping[str, ArrayInfo]
) -> tuple[list[Problem], EpisodeFacts]:
    """Check one demonstration. ``typical``: each array as the first demonstration that has it shows it."""
    found: list[Problem] = []
    facts = EpisodeFacts()

    def add(severity: Any, text: str) -> None:
        found.append(Problem(severity, text, episode))

    actions = arrays.get(ACTIONS)
    if actions is None:
        add("error", "no 'actions'")
        return found, facts
    if len(actions.shape) != 2 or actions.dtype.kind not in "biuf":
        add(
            "error",
            f"'actions' must be numbers of shape (T, A), not {actions.dtype} of shape {actions.shape}",
        )
        return found, facts
    if actions.shape[0] == 0:
        add("error", "has no time steps")
        return found, facts
    for name in typical:
        if name.startswith(OBSERVATION) and name not in arrays:
            add("error", f"no '{name}', which other demonstrations have")

    digest = hashlib.sha256()
    for name, info in sorted(arrays.items()):
        key = name.removeprefix(OBSERVATION)
        if name != ACTIONS and not name.startswith(OBSERVATION):
            continue
        if not info.shape or info.shape[0] != actions.shape[0]:
            steps = info.shape[0] if info.shape else "no"
            add("error", f"'{name}' has {steps} steps but 'actions' has {actions.shape[0]}")
            continue
        if info.shape[1:] != typical[name].shape[1:]:
            add("error", f"'{name}' has shape {info.shape[1:]} a step, elsewhere {typical[name].shape[1:]}")
        camera = name != ACTIONS and looks_like_camera(key, info)
        fault = image_fault(info) if camera else None
        if fault is not None:
            add("error", f"'{key}' {_without_length(fault, info)}")
            continue
        try:
            array = reader.read(episode, name)
        except UserError as error:
            add("error", str(error).partition(": ")[2])
            continue
        if camera:
            _check_images(key, array, facts)
            digest.update(array[0].tobytes() + array[-1].tobytes())
        elif array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = int((~np.isfinite(array)).reshape(len(array), -1).any(1).sum())
            needed = name == ACTIONS or key in END_EFFECTOR
            add(
                "error" if needed else "warning",
                f"'{name}' is NaN or infinite in {bad} of {len(array)} steps",
            )
        elif name == ACTIONS:
            facts.action_range = (array.min(0), array.max(0))
            digest.update(array.astype(np.float32).tobytes())
            if len(array) > 1 and (facts.action_range[0] == facts.action_range[1]).all():
                add("warning", "the same action in every step")
    if facts.action_range is not None:
        facts.fingerprint = digest.hexdigest()
    return found, facts


def _check_images(camera: str, frames: NDArray[Any], facts: EpisodeFacts) -> None:
    if frames.size and frames.max() <= BLACK:
        facts.black.append(camera)
    elif len(frames) > 1:
        repeated = np.array([np.array_equal(a, b) for a, b in pairwise(frames)])
        if repeated.all():
            facts.frozen.append(camera)
        elif repeated.mean() > STUTTER:
            facts.stuttering.append(camera)


def _without_length(fault: str, info: ArrayInfo) -> str:
    """The fault with T for the number of steps, so that it reads the same for every demonstration."""
    return fault.replace(str(info.shape), "(T, " + ", ".join(map(str, info.shape[1:])) + ")")
