"""Of two cameras in a set, the target tells which is right, also where its table is darker or brighter."""

from __future__ import annotations

import numpy as np
import pytest

from beacon.audit.cameras import check_cameras, right_camera
from beacon.audit.pictures import PictureOptions
from beacon.audit.recordings import GRID, Recording

STEPS, DEMOS = 30, 80
CELLS = np.stack(np.meshgrid(*[np.linspace(-1, 1, GRID)] * 2, indexing="ij"), axis=-1)


def recordings(count: int, seed: int, *, brightness: float, turned: int = 0) -> list[Recording]:
    """A robot on a grey table, as a spot where its state says; some see it mirrored."""
    rng = np.random.default_rng(seed)
    demos = []
    for number in range(count):
        beginning, end = rng.uniform(-1, 1, (2, 2))
        state = np.linspace(beginning, end, STEPS) + 0.05 * rng.normal(size=(STEPS, 2))
        seen = state * np.array([1, -1]) if number < turned else state
        near = np.exp(-((CELLS - seen[:, None, None]) ** 2).sum(axis=-1) / 0.2)
        pictures = 0.5 + brightness * near + 0.005 * rng.normal(size=near.shape)
        pictures = np.repeat(pictures.reshape(STEPS, -1), 3, axis=1).astype(np.float32)
        arrays = (state.astype(np.float32), np.zeros((STEPS, 2), np.float32), pictures, pictures[0])
        demos.append(Recording(f"demo_{number}", *arrays, np.ones(STEPS, np.float32), None))
    return demos


@pytest.mark.parametrize("brightness", [0.3, -0.3])
@pytest.mark.parametrize("turned", [32, 40, 48])
def test_the_other_camera_is_accused_though_most_may_have_it(turned: int, brightness: float) -> None:
    demos = recordings(DEMOS, seed=1, brightness=0.3, turned=turned)
    target = recordings(10, seed=2, brightness=brightness)

    result = check_cameras(demos, target, PictureOptions())

    accused = set(np.flatnonzero(result.p_values < 0.001).tolist())
    assert result.remark is None
    assert len(accused & set(range(turned))) >= 0.9 * turned
    assert len(accused - set(range(turned))) <= 0.1 * (DEMOS - turned)


@pytest.mark.parametrize("brightness", [0.3, -0.3])
def test_where_both_are_the_same_camera_the_target_tells_nothing(brightness: float) -> None:
    demos, target = recordings(DEMOS, 1, brightness=0.3), recordings(10, 2, brightness=brightness)
    first = np.arange(DEMOS) % 2 == 0

    assert right_camera(demos, target, first, ~first, PictureOptions()) is None
