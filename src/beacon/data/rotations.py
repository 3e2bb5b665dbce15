"""Differences between orientations, and back: what subtraction is for positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

RotationForm = Literal["axis-angle", "euler-xyz", "quaternion"]
Frame = Literal["world", "body"]
WIDTHS: dict[str, int] = {"axis-angle": 3, "euler-xyz": 3, "quaternion": 4}


def difference(
    target: NDArray[np.float64],
    pose: NDArray[np.float64],
    *,
    target_as: RotationForm,
    pose_as: RotationForm,
    frame: Frame,
) -> NDArray[np.float64]:
    """The rotation from a pose to a target, (T, d), written as the target is.

    Args:
        target: orientations, (T, d).
        pose: orientations, (T, e).
        target_as: how the target is written.
        pose_as: how the pose is written.
        frame: about whose axes: world, R = target pose⁻¹; body, R = pose⁻¹ target.
    """
    goal, here = _read(target, target_as), _read(pose, pose_as).inv()
    return _write(goal * here if frame == "world" else here * goal, target_as)


def compose(
    change: NDArray[np.float64],
    pose: NDArray[np.float64],
    *,
    change_as: RotationForm,
    pose_as: RotationForm,
    frame: Frame,
) -> NDArray[np.float64]:
    """The orientation that a rotation leads to, (T, d), written as the rotation is: the inverse.

    Args:
        change: rotations, (T, d).
        pose: orientations that they start from, (T, e).
        change_as: how the rotations are written.
        pose_as: how the pose is written.
        frame: about whose axes.
    """
    turn, here = _read(change, change_as), _read(pose, pose_as)
    return _write(turn * here if frame == "world" else here * turn, change_as)


def _read(values: NDArray[np.float64], form: RotationForm) -> Rotation:
    from scipy.spatial.transform import Rotation  # a moment to import

    try:
        if form == "axis-angle":
            return Rotation.from_rotvec(values)
        return Rotation.from_euler("xyz", values) if form == "euler-xyz" else Rotation.from_quat(values)
    except ValueError as error:
        raise UserError(f"orientations that are none ({error}); is it {form}?") from None


def _write(rotation: Rotation, form: RotationForm) -> NDArray[np.float64]:
    values: Any
    if form == "axis-angle":
        values = rotation.as_rotvec()
    else:
        # Of the two quaternions of a rotation, the one with w >= 0.
        values = rotation.as_euler("xyz") if form == "euler-xyz" else rotation.as_quat(canonical=True)
    return np.asarray(values, np.float64)
