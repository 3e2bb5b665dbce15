"""How windows are drawn: pure functions of their arguments, with the right frequencies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon.methods.sampling import mixed, proportional, shuffled


@given(
    size=st.integers(1, 40),
    passes=st.integers(1, 4),
    cut=st.integers(0, 100),
    seed=st.integers(0, 2**40),
)
def test_shuffled_covers_every_member_once_a_pass_however_it_is_cut(
    size: int, passes: int, cut: int, seed: int
) -> None:
    members = np.arange(size) * 3 + 1
    whole = shuffled(members, 0, passes * size, seed)
    for one_pass in whole.reshape(passes, size):
        assert np.array_equal(np.sort(one_pass), members)
    cut = cut % (passes * size)
    rest = shuffled(members, cut, passes * size - cut, seed) if cut < passes * size else whole[:0]
    head = shuffled(members, 0, cut, seed) if cut else whole[:0]
    assert np.array_equal(np.concatenate([head, rest]), whole)


def test_shuffles_differ_between_passes_and_seeds() -> None:
    members = np.arange(50)
    first, second = shuffled(members, 0, 100, seed=0).reshape(2, 50)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, shuffled(members, 0, 50, seed=1))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_mixed_draws_at_its_ratio(share: float) -> None:
    first, second = np.arange(20), np.arange(20, 25)
    drawn = mixed(first, second, share, 20_000, seed=0, epoch=1)
    assert np.array_equal(drawn, mixed(first, second, share, 20_000, seed=0, epoch=1))
    assert np.mean(drawn < 20) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 20_000))
    if share == 0.3:  # uniform within each side
        counts = np.bincount(drawn, minlength=25)
        expected = np.r_[np.full(20, 0.3 / 20), np.full(5, 0.7 / 5)] * 20_000
        assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


@given(st.lists(st.floats(0, 5), min_size=1, max_size=30), st.integers(1, 200), st.integers(0, 50))
def test_proportional_draws_each_as_often_as_it_weighs(values: list[float], count: int, epoch: int) -> None:
    weights = np.array(values)
    if weights.sum() < 1e-6:
        return
    drawn = proportional(weights, count, 7, epoch)
    assert len(drawn) == count
    expected = weights / weights.sum() * count
    # Systematic sampling: the expected number, rounded up or down.
    assert (np.abs(np.bincount(drawn, minlength=len(weights)) - expected) < 1 + 1e-6).all()


def test_proportional_expectation_over_epochs() -> None:
    """Means over many epochs approach (1/Σq) Σ q_i ℓ_i, what weighting uniform draws has as expectation."""
    rng = np.random.default_rng(0)
    weights, losses = rng.uniform(0, 5, 300) * (rng.random(300) < 0.7), rng.normal(1, 1, 300)
    means = [losses[proportional(weights, 64, 0, epoch)].mean() for epoch in range(800)]
    exact = weights @ losses / weights.sum()
    assert np.mean(means) == pytest.approx(exact, abs=4 * np.std(means) / np.sqrt(len(means)))
    # Scaled by the mean weight, as the method does, that is the weighted mean over uniform draws...
    uniform = [(weights * losses)[shuffled(np.arange(300), epoch * 64, 64, 0)].mean() for epoch in range(800)]
    assert np.mean(means) * weights.mean() == pytest.approx(np.mean(uniform), abs=0.06)
    # ... with less variance.
    assert np.std(means) * weights.mean() < 0.7 * np.std(uniform)
