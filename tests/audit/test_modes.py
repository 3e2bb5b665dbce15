"""A set of two parts that contradict each other is cut in two; one of a piece is not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from beacon.audit.calibration import CalibrationOptions, Members
from beacon.audit.evidence import Matrix
from beacon.audit.modes import better_part
from beacon.audit.regression import cross_fitted_residuals

OPTIONS = CalibrationOptions()


def answers(features: Matrix, others: NDArray[np.bool_], rng: np.random.Generator) -> Matrix:
    """What a first picture asks for; the others understand it the other way round."""
    asked = np.where(others[:, None], -1.0, 1.0) * (2.0 + features)
    return np.asarray(asked + 0.1 * rng.normal(size=features.shape))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.0, 0.2, 0.3])
def test_the_smaller_of_two_parts_is_cut_off(share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    others = rng.permutation(100) < round(100 * share)
    features = rng.normal(size=(100, 3))
    wanted = answers(features, others, rng)

    def measure(members: Members) -> Matrix:
        residuals, _ = cross_fitted_residuals(features, wanted, np.arange(100), usable=members)
        return np.asarray(0.5 * np.log((residuals**2).mean(axis=1))[:, None])

    part = better_part(measure, 100, OPTIONS)

    if share == 0:
        assert part is None
    else:
        assert part is not None
        assert part[others].mean() <= 0.1
        assert part.sum() >= 0.95 * (~others).sum()


@pytest.mark.parametrize("seed", range(20))
def test_heavy_tails_are_no_second_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tails = (rng.normal(size=100), rng.gamma(2.0, size=100), rng.standard_t(4, size=100))

    assert all(better_part(lambda _, v=v: v[:, None], 100, OPTIONS) is None for v in tails)


def test_few_outliers_are_no_second_part() -> None:
    values = np.random.default_rng(0).normal(size=100)
    values[:10] += 9.0

    assert better_part(lambda _: values[:, None], 100, OPTIONS) is None
    assert better_part(lambda _: values[:3, None], 3, OPTIONS) is None
