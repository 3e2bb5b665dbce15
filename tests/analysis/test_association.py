from __future__ import annotations

import numpy as np
import pytest

from beacon.analysis import (
    WeightBias,
    area_under_curve,
    cross_domain_neighbours,
    distance_to_nearest,
    spearman,
    variance_explained,
    weight_bias,
)
from beacon.analysis.alignment import balanced_pool
from beacon.analysis.coverage import in_units_of_spread


def test_rank_correlation() -> None:
    x = np.arange(6.0)
    assert spearman(x, x**3) == pytest.approx(1.0) and spearman(x, -x) == pytest.approx(-1.0)
    assert spearman(np.r_[x, np.nan], np.r_[-x, 9.0]) == pytest.approx(-1.0)
    assert spearman(x[:3], x[:3]) is None and spearman(x, np.ones(6)) is None


def test_area_under_curve_counts_ties_half() -> None:
    assert area_under_curve(np.array([2.0, 3.0]), np.array([1.0, 0.0])) == 1.0
    assert area_under_curve(np.array([1.0, 1.0]), np.array([1.0])) == 0.5
    assert area_under_curve(np.array([0.0, 2.0]), np.array([1.0])) == 0.5
    assert area_under_curve(np.array([]), np.array([1.0])) is None


def test_variance_explained() -> None:
    groups = np.array([0, 0, 3, 3])
    assert variance_explained(np.array([1.0, 1.0, 5.0, 5.0]), groups) == pytest.approx(1.0)
    assert variance_explained(np.array([1.0, 5.0, 1.0, 5.0]), groups) == pytest.approx(0.0)
    assert variance_explained(np.ones(4), groups) is None


def test_weight_bias_tells_what_weights_follow() -> None:
    phase = np.tile(np.linspace(0, 1, 11), 6)
    per_demo = np.array([6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    distance, corruption = np.arange(6.0), ["", "", "", "delayed", "delayed", ""]
    by_phase = weight_bias(1 + phase, phase, per_demo, distance=distance, corruption=corruption)
    assert by_phase.phase == pytest.approx(1.0)
    assert by_phase.first_tenth == pytest.approx(1.05) and by_phase.last_tenth == pytest.approx(1.95)
    assert by_phase.coverage == pytest.approx(-1.0)
    assert by_phase.corruption_auc == pytest.approx(6 / 8)  # all but the last sound one are above both
    by_demo = weight_bias(np.repeat(per_demo, 11), phase, per_demo)
    assert by_demo.phase == pytest.approx(0.0) and by_demo.coverage is None
    assert weight_bias(np.zeros(0), np.zeros(0), np.zeros(0)) == WeightBias()


def test_distance_to_the_nearest_other_target() -> None:
    starts = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0], [0.0, 3.0]])
    distance = distance_to_nearest(starts, np.array([False, False, True, True]))
    np.testing.assert_allclose(distance, [1.0, np.sqrt(9 + 1), 2.0, 2.0])
    alone = distance_to_nearest(starts, np.array([False, False, False, True]))
    assert alone[3] == np.inf and np.isfinite(alone[:3]).all()


def test_units_of_spread_leave_constants_out() -> None:
    scaled = in_units_of_spread(np.array([[0.0, 7.0], [2.0, 7.0]]))
    assert scaled is not None
    np.testing.assert_allclose(scaled, [[0.0], [2.0]])
    assert in_units_of_spread(np.ones((3, 2))) is None


def test_neighbours_of_the_other_side() -> None:
    on_target = np.array([True, True, False, False])
    demos = np.array([0, 1, 2, 3])
    neighbours = np.array([[2, 3], [2, 0], [3, 0], [0, 0]])
    near = np.array([[True, True], [True, True], [True, False], [False, False]])
    share, chance = cross_domain_neighbours(neighbours, near, on_target, demos)
    assert share == pytest.approx((1 + 0.5 + 0) / 3) and chance == pytest.approx(2 / 3)
    assert cross_domain_neighbours(neighbours, near & False, on_target, demos) == (None, None)


def test_the_pool_has_as_many_of_either_side() -> None:
    on_target = np.arange(50) < 8
    pool = balanced_pool(on_target)
    assert on_target[pool].sum() == 8 and len(pool) == 16 and len(set(pool.tolist())) == 16
