"""Operational-space control of the arm, as robosuite's OSC_POSE computes it, in one compiled function.

robosuite spends nine of ten milliseconds of a control step in Python, on this law:

    tau = J^T [Lp (kp ep - kd vp); Lo (kp eo - kd vo)] + bias + M a - J^T L (J a)
    a   = 10 (q0 - q) - 2 sqrt(10) q'         the null-space pull towards the initial joints
    L   = (J M^-1 J^T)^-1, Lp and Lo the same for the rows of position and orientation alone

The last two terms are robosuite's N^T M a with N = I - M^-1 J^T L J multiplied out, so no inverse of M and
no null-space matrix is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from beacon.sim.arrays import Array

JOINTS = 7
NULLSPACE_GAIN = 10.0

Kernel = Callable[..., None]


def _torques(
    mass: Any,  # (nv, nv) the whole model's mass matrix; the arm's joints come first
    jacobian_position: Any,  # (3, nv)
    jacobian_rotation: Any,  # (3, nv)
    qpos: Any,
    qvel: Any,
    bias: Any,  # (nv,) gravity, Coriolis and centrifugal forces
    position: Any,  # (3,)
    rotation: Any,  # (9,) row-major
    goal_position: Any,  # (3,)
    goal_rotation: Any,  # (3, 3)
    rest: Any,  # (7,)
    stiffness: float,
    damping: float,
    torque: Any,  # (7,) out
) -> None:
    n = 7
    J = np.empty((6, n))
    for k in range(n):
        for i in range(3):
            J[i, k] = jacobian_position[i, k]
            J[i + 3, k] = jacobian_rotation[i, k]
    velocity = np.zeros(6)
    for i in range(6):
        for k in range(n):
            velocity[i] += J[i, k] * qvel[k]
    error = np.zeros(6)
    for i in range(3):
        error[i] = goal_position[i] - position[i]
    # Half the sum of the cross products of corresponding axes: sin(angle) times the rotation axis.
    for c in range(3):
        for i in range(3):
            a, b = (i + 1) % 3, (i + 2) % 3
            error[3 + i] += 0.5 * (
                rotation[3 * a + c] * goal_rotation[b, c] - rotation[3 * b + c] * goal_rotation[a, c]
            )
    wanted = np.empty(6)
    for i in range(6):
        wanted[i] = stiffness * error[i] - damping * velocity[i]
    # Cholesky factor of the arm's mass matrix, then M^-1 J^T column by column.
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = mass[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
    # With Y = L^-1 J^T the inertia seen by the hand is simply Y^T Y.
    Y = np.empty((n, 6))
    for c in range(6):
        for i in range(n):
            s = J[c, i]
            for k in range(i):
                s -= L[i, k] * Y[k, c]
            Y[i, c] = s / L[i, i]
    inertia = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            for k in range(n):
                inertia[i, j] += Y[k, i] * Y[k, j]
    acceleration = np.empty(n)
    pull = 2.0 * np.sqrt(10.0)
    for k in range(n):
        acceleration[k] = 10.0 * (rest[k] - qpos[k]) - pull * qvel[k]
    resisted = np.zeros(6)
    for i in range(6):
        for k in range(n):
            resisted[i] += J[i, k] * acceleration[k]
    wrench = np.empty(6)
    # Three symmetric positive definite systems: rows 0-2, rows 3-5, all six.
    for part in range(3):
        start = 3 if part == 1 else 0
        size = 6 if part == 2 else 3
        C = np.zeros((6, 6))
        x = np.zeros(6)
        for i in range(size):
            for j in range(i + 1):
                s = inertia[start + i, start + j]
                for k in range(j):
                    s -= C[i, k] * C[j, k]
                C[i, j] = np.sqrt(max(s, 1e-12)) if i == j else s / C[j, j]
        for i in range(size):
            s = resisted[i] if part == 2 else wanted[start + i]
            for k in range(i):
                s -= C[i, k] * x[k]
            x[i] = s / C[i, i]
        for r in range(size):
            i = size - 1 - r
            s = x[i]
            for k in range(i + 1, size):
                s -= C[k, i] * x[k]
            x[i] = s / C[i, i]
        for i in range(size):
            if part == 2:
                wrench[i] -= x[i]
            else:
                wrench[start + i] = x[i]
    for k in range(n):
        s = bias[k]
        for i in range(6):
            s += J[i, k] * wrench[i]
        for j in range(n):
            s += mass[k, j] * acceleration[j]
        torque[k] = s


@cache
def compiled_torques() -> Kernel:
    """The control law in machine code; compiled once, then read from numba's cache on disk."""
    from numba import njit

    kernel: Kernel = njit(cache=True)(_torques)
    return kernel


def rotation_matrix(axis_angle: Array) -> Array:
    """Rodrigues' formula, (3,) -> (3, 3)."""
    angle = float(np.linalg.norm(axis_angle))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = axis_angle / angle
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    rotation: Array = np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * (K @ K)
    return rotation


def axis_angle(rotation: Array) -> Array:
    """The rotation vector of a rotation matrix, angle in [0, pi]."""
    from scipy.spatial.transform import Rotation

    vector: Array = Rotation.from_matrix(rotation).as_rotvec()
    return vector
