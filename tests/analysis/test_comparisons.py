from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from beacon.analysis import compact_letters, compare_methods, holm, mcnemar_exact


def outcomes(rng: np.random.Generator, rates: np.ndarray, states: int) -> list[np.ndarray]:
    return [(rng.random(states) < rate).astype(float) for rate in rates]


def test_mcnemar_is_the_binomial_test_of_discordant_pairs() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.random(40) < 0.6, rng.random(40) < 0.4
        test = mcnemar_exact(list(a), list(b))
        discordant = test["only_first"] + test["only_second"]
        expected = binomtest(test["only_first"], discordant, 0.5).pvalue if discordant else 1.0
        assert test["p_value"] == pytest.approx(expected)
        assert test["difference"] == pytest.approx(a.mean() - b.mean())
    first = [True] * 12 + [False] * 8
    second = [False] * 9 + [True] * 5 + [False] * 6
    test = mcnemar_exact(first, second)
    assert (test["only_first"], test["only_second"], test["difference"]) == (9, 2, 7 / 20)
    assert test["p_value"] == pytest.approx(binomtest(2, 11, 0.5).pvalue)
    assert mcnemar_exact([], [])["p_value"] == 1.0
    with pytest.raises(ValueError, match="one length"):
        mcnemar_exact([True], [])


def test_holm_against_its_definition() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


# Methods over seeds and states


def test_the_interval_contains_the_spread_between_seeds() -> None:
    """Pooled rollouts say that the methods differ; five seeds that differ as much as that do not."""
    rng = np.random.default_rng(0)
    first = outcomes(rng, np.array([0.9, 0.3, 0.8, 0.2, 0.9]), 100)
    second = outcomes(rng, np.array([0.5, 0.5, 0.5, 0.5, 0.5]), 100)
    found = compare_methods(first, second)
    pooled = [np.concatenate(part).astype(bool).tolist() for part in (first, second)]
    assert mcnemar_exact(*pooled)["p_value"] < 0.01
    assert found.low < 0 < found.high and found.p_value > 0.05
    assert (found.seeds, found.episodes) == (5, 500)
    assert found.difference == pytest.approx(np.mean(first) - np.mean(second))


def test_a_difference_that_all_seeds_have_is_found() -> None:
    rng = np.random.default_rng(1)
    found = compare_methods(outcomes(rng, np.full(5, 0.8), 60), outcomes(rng, np.full(5, 0.4), 60))
    assert found.low > 0.2 and found.p_value < 0.001
    turned = compare_methods(outcomes(rng, np.full(5, 0.4), 60), outcomes(rng, np.full(5, 0.8), 60))
    assert turned.high < -0.2


def test_states_are_paired_and_seeds_may_have_different_numbers_of_them() -> None:
    same = [np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0])]
    found = compare_methods(same, same, draws=500)
    assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)
    ahead = compare_methods([np.ones(3), np.ones(2)], [np.zeros(3), np.zeros(2)], draws=500)
    assert (ahead.low, ahead.high) == (1.0, 1.0) and ahead.p_value == pytest.approx(2 / 501)


def test_the_bootstrap_has_the_variance_of_its_two_stages() -> None:
    """Var = between/S + within/(S·n) of the resampled means, as resampling from the sample implies."""
    rng = np.random.default_rng(2)
    d = [rng.normal(mean, 0.3, 40) for mean in (0.0, 0.4, 0.8)]
    found = compare_methods(d, [np.zeros(40)] * 3, draws=20_000, level=0.6827)
    means = np.array([part.mean() for part in d])
    variance = means.var() / 3 + np.mean([part.var() / 40 for part in d]) / 3
    assert (found.high - found.low) / 2 == pytest.approx(np.sqrt(variance), rel=0.1)


def test_comparisons_refuse_what_is_not_paired() -> None:
    for first, second in (([], []), ([np.ones(2)], [np.ones(3)]), ([np.ones(2)], [np.array([1.0, np.nan])])):
        with pytest.raises(ValueError):
            compare_methods(first, second)


def test_resampling_is_a_function_of_its_seed() -> None:
    rng = np.random.default_rng(3)
    a, b = outcomes(rng, np.full(3, 0.6), 30), outcomes(rng, np.full(3, 0.5), 30)
    assert compare_methods(a, b, draws=300) == compare_methods(a, b, draws=300)
    assert compare_methods(a, b, draws=300).low != compare_methods(a, b, draws=300, seed=1).low


# Letters


@given(
    st.integers(0, 7).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.sets(
                st.sampled_from(list(itertools.combinations(range(n), 2)) or [(0, 1)])
                if n > 1
                else st.nothing()
            ),
        )
    )
)
def test_groups_share_a_letter_exactly_if_they_do_not_differ(case: tuple[int, set[tuple[int, int]]]) -> None:
    count, different = case
    letters = compact_letters(count, sorted(different))
    assert len(letters) == count and all(letters)
    for pair in itertools.combinations(range(count), 2):
        assert bool(set(letters[pair[0]]) & set(letters[pair[1]])) == (pair not in different)


def test_letters_begin_with_the_first_group() -> None:
    assert compact_letters(4, [(0, 2), (0, 3), (1, 3)]) == ["a", "ab", "bc", "c"]
    assert compact_letters(2, []) == ["a", "a"]
    with pytest.raises(ValueError, match="not a pair"):
        compact_letters(2, [(0, 2)])
