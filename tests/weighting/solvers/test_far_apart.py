"""Bounds and budget hold where numbers are so far apart that rounding loses the shift."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.weighting import Minimiser, Reweighter, WeightingConfig
from beacon.weighting.solvers.far_apart import CLOSE, project_far_apart, restore_budget
from beacon.weighting.solvers.projection import find_shift, project_budget, project_shifted, project_simplex


def exact_projection(x: list[float], budget: float, lower: list[float], upper: list[float]) -> list[float]:
    """In rational numbers: the piece between two breakpoints on which the sum meets the budget."""
    points, lows, highs = ([Fraction(value) for value in values] for values in (x, lower, upper))
    wanted = Fraction(budget)

    def at(shift: Fraction) -> list[Fraction]:
        return [min(max(p - shift, low), high) for p, low, high in zip(points, lows, highs, strict=True)]

    breaks = sorted({p - bound for p, *both in zip(points, lows, highs, strict=True) for bound in both})
    left = max((b for b in breaks if sum(at(b)) >= wanted), default=breaks[0])
    right = min((b for b in breaks if sum(at(b)) <= wanted), default=breaks[-1])
    above, below = sum(at(left)), sum(at(right))
    shift = left if above == below else left + (right - left) * (above - wanted) / (above - below)
    return [float(value) for value in at(shift)]


@settings(max_examples=200, deadline=None)
@given(
    x=st.lists(
        st.floats(-1e18, 1e18) | st.sampled_from([0.0, 1e12, 1e12 + 0.5, -1e300, 1e300]),
        min_size=1,
        max_size=6,
    ),
    share=st.floats(0, 1),
    width=st.sampled_from([1e-6, 1.0, 5.0]),
)
def test_it_is_the_projection(x: list[float], share: float, width: float) -> None:
    lower = [0.1 * (number % 3) for number in range(len(x))]
    upper = [low + width * (1 + number % 2) for number, low in enumerate(lower)]
    budget = sum(lower) + share * (sum(upper) - sum(lower))
    bounds = np.array(lower), np.array(upper)
    expected = exact_projection(x, budget, lower, upper)
    for q in (
        project_budget(x, budget, *bounds),
        project_far_apart(np.array(x), budget, *bounds, find_shift)[0],
    ):
        assert q.sum() == pytest.approx(budget, rel=CLOSE, abs=CLOSE)
        assert (q >= bounds[0]).all() and (q <= bounds[1]).all()
        # Where numbers are near each other it is the projection to their own rounding.
        assert q == pytest.approx(expected, abs=1e-9 + 1e-15 * max(1.0, min(abs(np.array(x)).max(), 1e6)))


def test_usual_numbers_are_projected_as_before() -> None:
    rng = np.random.default_rng(0)
    x, lower, upper = rng.normal(size=5000), np.zeros(5000), np.full(5000, 5.0)
    shift = find_shift(x, 2500.0, lower, upper)
    q, used = project_shifted(x, 2500.0, lower, upper)
    assert used == shift and np.array_equal(q, np.minimum(np.maximum(x - shift, lower), upper))
    out = x.copy()
    assert project_budget(out, 2500.0, 0.0, 5.0, out=out) is out and np.array_equal(out, q)


@pytest.mark.parametrize("scale", [1e12, 1e150, 1e308])
def test_budgets_of_huge_numbers(scale: float) -> None:
    x = np.linspace(-1, 1, 5000) * scale
    q = project_simplex(x)
    assert q.sum() == pytest.approx(1.0, rel=1e-12) and q.argmax() == 4999
    ties = np.array([scale, scale, 0.0])
    assert project_budget(ties, 1.0, 0.0, 5.0) == pytest.approx([0.5, 0.5, 0.0])


@pytest.mark.parametrize("sources", [1, 2])
def test_weights_of_huge_losses_keep_their_constraints(sources: int) -> None:
    rng = np.random.default_rng(sources)
    domains = ["real"] * 5 + ["sim"] * 40 + ["other" if sources == 2 else "sim"] * 40
    config = WeightingConfig(solver=Minimiser(), lambda_2=1e-12, lambda_1=0.01, q_max=2.0)
    reweighter = Reweighter(domains, "real", config=config, planned_refreshes=3)
    for scale in (1.0, 1e20, 1e200):
        with np.errstate(over="raise"):
            reweighter.refresh(rng.uniform(0, scale, 85), discrepancies=rng.uniform(0, scale, 85))
        weights = reweighter.weights
        assert weights.sum() == pytest.approx(reweighter.budget, rel=1e-9)
        assert weights.min() >= 0.0 and weights.max() <= 2.0 and weights[:5].min() >= 0.05


@pytest.mark.parametrize("losses", [[1e308, 1e308, 1.0], [1e300, 1.0, 1.0]])
def test_costs_that_overflow_are_refused_by_name(losses: list[float]) -> None:
    config = WeightingConfig(solver=Minimiser(), lambda_2=1e-12)
    reweighter = Reweighter(["sim", "sim", "real"], "real", config=config)
    before = reweighter.weights
    with pytest.raises(ValueError, match=r"^losses: .*overflow.*loss_scale"):
        reweighter.refresh(losses, discrepancies=losses)
    assert np.array_equal(reweighter.weights, before) and reweighter.refresh_count == 0


def test_what_is_left_of_a_budget_goes_where_there_is_room() -> None:
    lower, upper = np.zeros(4), np.array([1.0, 1.0, 1.0, 0.2])
    assert restore_budget(np.array([1.0, 0.5, 0.0, 0.1]), 2.0, lower, upper) == pytest.approx(
        [1, 0.8, 0, 0.2]
    )
    assert restore_budget(np.array([1.0, 1.0, 0.0, 0.0]), 1.0, lower, upper) == pytest.approx(
        [0.5, 0.5, 0, 0]
    )
    assert restore_budget(np.array([9.0, -3.0, 0.0, 0.0]), 1.0, lower, upper) == pytest.approx([1, 0, 0, 0])
