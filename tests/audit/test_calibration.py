"""The null comes from the data: clean sets accuse nobody, corrupted ones are told apart up to their share."""

from __future__ import annotations

import numpy as np
import pytest

from beacon.audit.calibration import CalibrationOptions, Members, Null, calibrate
from beacon.audit.evidence import benjamini_hochberg, predictive_p_values
from beacon.audit.regression import cross_fitted_residuals

OPTIONS = CalibrationOptions()


@pytest.mark.parametrize("seed", range(5))
def test_all_of_a_clean_set_join_and_none_is_accused(seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=200)

    calibrated = calibrate(lambda _: values[:, None], 200, OPTIONS)

    assert calibrated.members.sum() >= 198
    assert not benjamini_hochberg(calibrated.combined, 0.05).any()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_the_sound_part_ends_where_corrupted_ones_begin(share: float) -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=200)
    corrupted = rng.permutation(200)[: round(share * 200)]
    values[corrupted] += 9.0

    calibrated = calibrate(lambda _: values[:, None], 200, OPTIONS)

    assert not calibrated.members[corrupted].any()
    assert calibrated.members.sum() >= 0.98 * (200 - len(corrupted))
    assert benjamini_hochberg(calibrated.combined, 0.05)[corrupted].all()


def test_who_may_not_join_is_judged_by_those_who_may() -> None:
    values = np.random.default_rng(14).normal(size=100)
    values[:30] += 1.5  # too little to tell by themselves
    start = np.zeros(100, np.bool_)
    start[60:] = True

    alone = calibrate(lambda _: values[:, None], 100, OPTIONS, start=start)
    told = calibrate(lambda _: values[:, None], 100, OPTIONS, start=start, may_join=np.arange(100) >= 30)

    assert alone.members[:30].sum() > 20 and not told.members[:30].any()
    assert np.median(told.p_values[:30]) < np.median(alone.p_values[:30])


def test_the_model_is_fitted_on_the_sound_part() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=100)
    values[:30] += 6.0

    def distance_from_members(members: Members) -> np.ndarray:
        return np.abs(values - values[members].mean())[:, None]

    assert not calibrate(distance_from_members, 100, OPTIONS).members[:30].any()


def test_targets_that_vary_more_make_the_null_wider() -> None:
    rng = np.random.default_rng(9)
    sound, trusted = 0.1 * rng.normal(size=(50, 1)), rng.normal(size=(10, 1))

    narrow, wide = Null(sound), Null(sound, trusted)

    value = np.array([[1.0]])
    assert narrow.p_values(value)[0, 0] < 1e-6 < 0.05 < wide.p_values(value)[0, 0]
    assert Null(sound, np.full((10, 1), np.nan)).p_values(value) == narrow.p_values(value)


def test_small_values_and_harmless_ones() -> None:
    null = Null(np.random.default_rng(10).normal(size=(60, 2)), None, np.array([0.0, 3.0]), (1,))

    p_values = null.p_values(np.array([[-9.0, -9.0], [9.0, 9.0], [0.0, 2.9], [-0.1, -2.9]]))

    assert p_values[0, 0] == 1.0 and p_values[0, 1] < 1e-6  # only the second looks both ways
    assert (p_values[1] < 1e-6).all() and (p_values[2:] == 1.0).all()


def test_p_values_of_sound_ones_are_uniform() -> None:
    rng = np.random.default_rng(11)
    draws = [predictive_p_values(rng.normal(size=1), rng.normal(size=8), 0.0)[0] for _ in range(4000)]

    assert np.quantile(draws, [0.01, 0.1, 0.5, 0.9]) == pytest.approx([0.01, 0.1, 0.5, 0.9], abs=0.03)


def test_skewed_sound_ones_are_not_rare() -> None:
    rng = np.random.default_rng(4)
    rare = [
        [
            (predictive_p_values(values, sound, 0.0, is_skewed=is_skewed) < 0.003).mean()
            for is_skewed in (False, True)
        ]
        for values, sound in [(rng.gamma(6.0, size=200), rng.gamma(6.0, size=80)) for _ in range(40)]
    ]

    normal, skewed = np.mean(rare, axis=0)

    assert skewed < 0.006 < 0.01 < normal


def test_residuals_at_the_edge_count_less_than_amid_the_others() -> None:
    rng = np.random.default_rng(12)
    features = np.concatenate([rng.normal(size=(100, 1)), [[6.0]]])
    answers = np.concatenate([0.1 * rng.normal(size=(100, 1)), [[1.0]]])

    residuals, units = cross_fitted_residuals(features, answers, np.arange(101))

    assert units[100] > 3 * np.median(units)
    assert residuals[100] == pytest.approx((answers[100] - answers[:100].mean()) / units[100], abs=0.3)


def test_rows_that_may_not_be_fitted_on_teach_nothing() -> None:
    rng = np.random.default_rng(13)
    features, usable = rng.normal(size=(80, 2)), np.arange(80) < 60
    answers = np.where(usable, 0.0, 5.0)[:, None]

    residuals, units = cross_fitted_residuals(features, answers, np.arange(80), usable=usable)

    np.testing.assert_allclose((residuals * units)[~usable], 5.0)
    np.testing.assert_allclose(residuals[usable], 0.0)
