"""Finite differences confirm every gradient; the terms are computed once more by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from beacon.weighting import Strengths, objective_terms
from beacon.weighting.objective import (
    TARGET,
    capacity_push,
    domain_data_gradient,
    domain_penalty_gradient,
    weight_gradient,
    within_domain_gradient,
)
from beacon.weighting.problem import domain_scale

Array = NDArray[np.float64]
STRENGTHS = Strengths(lambda_d=0.1, lambda_1=0.3, lambda_2=0.2, gamma=1e-3, rho_1=0.7, rho_2=0.4)
CAPACITY = 250.0


@pytest.fixture
def problem() -> dict[str, Array]:
    rng = np.random.default_rng(3)
    source = np.array([0, 1, 2, 0, 1, 2, 0, TARGET, TARGET])
    return {
        "losses": rng.random(9),
        "d": np.where(source == TARGET, 0.0, rng.random(9)),
        "p0": rng.random(9),
        "q_tilde": rng.random(9) + 0.1,
        "w": np.array([0.5, 0.2, 0.3]),
        "source": source,
    }


def numeric_gradient(function: Callable[[Array], float], at: Array, step: float = 1e-6) -> Array:
    return np.array(
        [(function(at + step * unit) - function(at - step * unit)) / (2 * step) for unit in np.eye(at.size)]
    )


def test_every_term_by_hand(problem) -> None:
    q, losses, d, p0, w = (problem[name] for name in ("q_tilde", "losses", "d", "p0", "w"))
    terms = objective_terms(q, losses, d, p0, STRENGTHS, CAPACITY, w)
    assert terms.loss == pytest.approx(sum(a * b for a, b in zip(q, losses, strict=True)))
    assert terms.discrepancy == pytest.approx(0.1 * sum(a * b for a, b in zip(q, d, strict=True)))
    assert terms.capacity == pytest.approx(1e-3 * max(q) * 250)
    assert terms.l1 == pytest.approx(0.3 * sum(abs(a - b) for a, b in zip(q, p0, strict=True)))
    assert terms.l2 == pytest.approx(0.2 * sum(a * a for a in q))
    assert terms.domain_l1 == pytest.approx(0.7 * (0.5 - 1 / 3 + 1 / 3 - 0.2 + 1 / 3 - 0.3))
    assert terms.domain_l2 == pytest.approx(0.4 * (0.25 + 0.04 + 0.09))
    parts = (
        terms.loss,
        terms.discrepancy,
        terms.capacity,
        terms.l1,
        terms.l2,
        terms.domain_l1,
        terms.domain_l2,
    )
    assert terms.total == pytest.approx(sum(parts))


def test_gradient_over_q(problem) -> None:
    q = problem["q_tilde"]

    def objective(at: Array) -> float:
        return objective_terms(at, problem["losses"], problem["d"], problem["p0"], STRENGTHS, CAPACITY).total

    gradient = weight_gradient(q, problem["losses"] + 0.1 * problem["d"], problem["p0"], STRENGTHS)
    largest, push = capacity_push(q, STRENGTHS, CAPACITY)
    gradient[q == largest] += push
    np.testing.assert_allclose(gradient, numeric_gradient(objective, q), atol=1e-8)


def test_capacity_is_shared_by_all_largest_weights() -> None:
    q = np.array([1.0, 2.0, 2.0, 0.5])
    assert capacity_push(q, STRENGTHS, CAPACITY) == (2.0, 1e-3 * 250 / 2)
    assert capacity_push(q, Strengths(0, 0, 0, gamma=0.0), CAPACITY)[1] == 0.0


def test_sign_of_zero_is_zero() -> None:
    at = np.array([0.5])
    assert weight_gradient(at, np.zeros(1), at, Strengths(0, lambda_1=9.0, lambda_2=0.0)) == [0.0]


def test_both_multi_source_blocks(problem) -> None:
    source, p0 = problem["source"], problem["p0"]
    without_capacity = Strengths(0.1, 0.3, 0.2, 0.0, 0.7, 0.4)

    def objective(w: Array, q_tilde: Array) -> float:
        q = domain_scale(w, source) * q_tilde
        return objective_terms(q, problem["losses"], problem["d"], p0, without_capacity, 0.0, w).total

    w, q_tilde = problem["w"], problem["q_tilde"]
    scale = domain_scale(w, source)
    costs = problem["losses"] + 0.1 * problem["d"]
    gradient = weight_gradient(scale * q_tilde, costs, p0, without_capacity)
    over_w = domain_data_gradient(q_tilde, gradient, source, 3) + domain_penalty_gradient(w, without_capacity)
    np.testing.assert_allclose(over_w, numeric_gradient(lambda at: objective(at, q_tilde), w), atol=1e-8)
    over_q = within_domain_gradient(gradient, scale)
    np.testing.assert_allclose(over_q, numeric_gradient(lambda at: objective(w, at), q_tilde), atol=1e-8)
