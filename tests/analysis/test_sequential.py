"""The e-process: valid whenever one looks, and worse than McNemar's test at a fixed number of states."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.analysis import detectable_difference, e_process, mcnemar_exact, sequential_test

SCORES = st.lists(st.floats(-1, 1), max_size=40)


def test_the_e_process_is_the_mean_capital_of_its_gamblers() -> None:
    d = [1.0, 0.0, -1.0, 0.5]
    bets = (0.2, 0.7)
    by_hand = [np.mean([np.prod([1 + bet * x for x in d[: n + 1]]) for bet in bets]) for n in range(4)]
    np.testing.assert_allclose(e_process(d, bets), by_hand)
    np.testing.assert_allclose(e_process([d, d[::-1]], bets)[0], by_hand)
    assert len(e_process([])) == 0
    assert np.isfinite(e_process(-np.ones(2000))).all()
    for wrong in ([1.5], [np.nan], 0.5):
        with pytest.raises(ValueError, match="from -1 to 1"):
            e_process(wrong)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
@settings(max_examples=30, deadline=None)
def test_it_is_a_martingale_under_symmetry(sizes: list[float]) -> None:
    """Exactly: over all signs of any sizes its mean stays one, and few of its paths ever reach 1/α."""
    signs = np.array(list(itertools.product((-1, 1), repeat=len(sizes))))
    evidence = e_process(signs * np.array(sizes))
    np.testing.assert_allclose(evidence.mean(axis=0), 1.0)
    for alpha in (0.05, 0.2, 0.5):
        assert (evidence.max(axis=1) >= 1 / alpha).mean() <= alpha


@given(SCORES)
def test_swapping_the_policies_swaps_the_verdict(d: list[float]) -> None:
    one, other = sequential_test(d), sequential_test([-x for x in d])
    assert other.better == {"first": "second", "second": "first", None: None}[one.better]
    assert one.decided_after == other.decided_after
    assert (one.evidence_first, one.evidence_second) == (other.evidence_second, other.evidence_first)


@given(SCORES, SCORES)
def test_a_decision_stands_whatever_comes_later(d: list[float], later: list[float]) -> None:
    early = sequential_test(d)
    if early.better is not None:
        late = sequential_test(d + later)
        assert (late.better, late.decided_after) == (early.better, early.decided_after)


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.9, 0.9), (0.05, 0.05)])
def test_looking_after_every_state_gives_few_false_decisions(rates: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(1000):
        first, second = (rng.random(400) < rate for rate in rates)
        wrong += sequential_test(first.astype(float) - second).better is not None
    assert wrong <= 50  # α = 0.05


def test_graded_scores_give_few_false_decisions() -> None:
    rng = np.random.default_rng(1)
    wrong = sum(
        sequential_test(np.subtract(*rng.beta(2, 1, (2, 300)))).better is not None for _ in range(500)
    )
    assert wrong <= 25


def test_clear_differences_are_decided_early_and_rightly() -> None:
    rng = np.random.default_rng(1)
    tests = []
    for _ in range(200):
        d = (rng.random(100) < 0.71).astype(float) - (rng.random(100) < 0.23)
        tests.append(sequential_test(d))
    assert np.median([test.decided_after or 101 for test in tests]) <= 25
    assert {test.better for test in tests} == {"first"}
    assert sequential_test([0.0] * 10).better is None
    assert sequential_test(-np.ones(30)).better == "second"
    assert sequential_test(-np.ones(30), alternative="greater").better is None


def test_either_side_has_half_of_alpha() -> None:
    test = sequential_test(np.ones(30), alpha=0.1)
    assert test.threshold == 20 and test.decided_after is not None
    evidence = e_process(np.ones(30))
    assert evidence[test.decided_after - 2] < 20 <= evidence[test.decided_after - 1]
    assert sequential_test(np.ones(30), alpha=0.1, alternative="greater").threshold == 10


def test_at_a_fixed_number_of_states_mcnemar_has_more_power() -> None:
    rng = np.random.default_rng(2)
    sequential = fixed = 0
    for _ in range(300):
        first, second = rng.random(100) < 0.85, rng.random(100) < 0.65
        sequential += sequential_test(first.astype(float) - second).better == "first"
        fixed += mcnemar_exact(first.tolist(), second.tolist())["p_value"] <= 0.05
    assert 0.5 * fixed < sequential < fixed


def test_the_price_is_stated_in_detectable_differences() -> None:
    few, many = detectable_difference(50), detectable_difference(200)
    for both in (few, many):
        assert both.sequential is not None and both.fixed is not None
        assert both.fixed < both.sequential < 2 * both.fixed
    assert many.sequential is not None and few.sequential is not None and many.sequential < few.sequential
    assert detectable_difference(4).fixed is None  # four states never reject at 5%
