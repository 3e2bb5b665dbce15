"""Observations as a robot gives them, checked and brought to the form that a policy's networks take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from beacon.errors import UserError
from beacon.policy.config import ObservationSpec
from beacon.policy.deployment import DeploymentInfo

# What the leading axes of every array are: none, (T,), (B,) or (B, T).
Axes = Literal["step", "history", "batch", "batch-history"]
_LEADING = {"step": 0, "history": 1, "batch": 1, "batch-history": 2}
LARGEST_VALUE = 1e15  # of proprioception, whatever its unit
_NUMBERS = "biuf"  # dtype kinds: booleans, integers, floats


class PolicyInput(NamedTuple):
    """A batch of observation histories, ready for the encoder."""

    images: dict[str, Tensor]  # camera -> uint8 (B, obs_steps, H, W, C)
    proprio: dict[str, Tensor]  # key -> normalised float32 (B, obs_steps, d)

    @property
    def size(self) -> int:
        """How many histories."""
        return len(next(iter((self.images or self.proprio).values())))


def concatenate_inputs(inputs: Sequence[PolicyInput]) -> PolicyInput:
    """Several batches as one, in order."""
    if len(inputs) == 1:
        return inputs[0]
    images = {name: torch.cat([part.images[name] for part in inputs]) for name in inputs[0].images}
    proprio = {name: torch.cat([part.proprio[name] for part in inputs]) for name in inputs[0].proprio}
    return PolicyInput(images, proprio)


def read_observation(
    observation: Mapping[str, ArrayLike],
    spec: ObservationSpec,
    deployment: DeploymentInfo,
    axes: Axes | None,
) -> tuple[dict[str, NDArray[Any]], bool]:
    """Check an observation; give its arrays as (B, T, ...) by the policy's names, and whether it was a batch.

    Args:
        observation: uint8 images (..., H, W, C) and proprioception (..., d) under the policy's names or
            those of the data; other keys are ignored.
        spec: names and shapes of what the policy sees.
        deployment: says which other names an observation may have.
        axes: what the leading axes are. None: no axis is one step, two are (B, T); one is refused, because
            it may be either.
    """
    values = _by_policy_name(observation, spec, deployment)
    arrays: dict[str, NDArray[Any]] = {
        name: _image(name, values[name], spec.cameras[name][2]) for name in spec.camera_names
    }
    arrays |= {name: _proprio(name, values[name], spec.proprio[name]) for name in spec.proprio_names}
    trailing = {name: 3 if name in spec.cameras else 1 for name in arrays}
    leading = {array.shape[: array.ndim - trailing[name]] for name, array in arrays.items()}
    if len(leading) > 1:
        raise UserError(f"the keys of the observation disagree on (B, T): {sorted(leading)}")
    shape = leading.pop()
    chosen = axes or _axes(shape)
    if chosen not in _LEADING:
        raise UserError(f"axes {chosen!r}: choose one of {', '.join(_LEADING)}, or None")
    if len(shape) != _LEADING[chosen]:
        raise UserError(f"axes {chosen!r} mean {_LEADING[chosen]} leading axes, not {len(shape)}: {shape}")
    if 0 in shape:
        raise UserError(f"an empty observation: {shape}")
    full = {"step": (1, 1), "history": (1, *shape), "batch": (*shape, 1), "batch-history": shape}[chosen]
    return {
        name: array.reshape(full + array.shape[len(shape) :]) for name, array in arrays.items()
    }, chosen.startswith("batch")


def last_steps(array: NDArray[Any], steps: int) -> Tensor:
    """The last steps of (B, T, ...) as (B, steps, ...); one that is too short repeats its first step."""
    chosen = np.maximum(np.arange(-steps, 0) + array.shape[1], 0)
    return torch.from_numpy(np.ascontiguousarray(array[:, chosen]))


def _axes(shape: tuple[int, ...]) -> Axes:
    if len(shape) == 1:
        raise UserError(
            f"one leading axis of {shape[0]} may be a history or a batch: "
            "say axes='history' for (T, ...), axes='batch' for (B, ...), or give (B, T, ...)"
        )
    return "batch-history" if shape else "step"


def _by_policy_name(
    observation: Mapping[str, ArrayLike], spec: ObservationSpec, deployment: DeploymentInfo
) -> dict[str, ArrayLike]:
    values: dict[str, ArrayLike] = {}
    missing = []
    for name in spec.camera_names + spec.proprio_names:
        given = [key for key in deployment.data_names(name) if key in observation]
        if len(given) > 1:
            raise UserError(
                f"{' and '.join(given)} are the same observation for this policy: give one of them"
            )
        if given:
            values[name] = observation[given[0]]
        else:
            missing.append(" or ".join(deployment.data_names(name)))
    if missing:
        has = ", ".join(str(key)[:40] for key in list(observation)[:20]) or "nothing"
        raise UserError(f"the observation lacks {', '.join(missing)}; it has {has}")
    return values


def _image(name: str, value: ArrayLike, channels: int) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype != np.uint8 or not 3 <= array.ndim <= 5 or array.shape[-1] != channels:
        raise UserError(
            f"{name}: uint8 images (B, T, H, W, {channels}) expected, not {array.dtype} {array.shape}"
        )
    if 0 in array.shape[-3:]:
        raise UserError(f"{name}: an empty image: {array.shape}")
    return array


def _proprio(name: str, value: ArrayLike, size: int) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise UserError(f"{name}: values (B, T, {size}) expected, not {error}") from None
    if array.dtype.kind not in _NUMBERS:
        raise UserError(f"{name}: numbers expected, not {array.dtype}")
    if not 1 <= array.ndim <= 3 or array.shape[-1] != size:
        raise UserError(f"{name}: values (B, T, {size}) expected, not {array.shape}")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise UserError(f"{name}: has values that are not finite (NaN or infinite)")
    if np.abs(array).max(initial=0.0) > LARGEST_VALUE:
        raise UserError(f"{name}: has values too large to be those of a robot")
    return array
