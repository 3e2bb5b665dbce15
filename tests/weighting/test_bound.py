from __future__ import annotations

import math

import numpy as np
import pytest

from beacon.weighting import bound_report

IS_TARGET = np.array([False, False, True, True])


def test_every_term_by_hand() -> None:
    q = np.array([0.2, 0.0, 0.4, 0.4])
    losses = np.array([2.0, 1.0, 0.5, 1.0])
    report = bound_report(q, losses, IS_TARGET, discrepancy=0.3, rademacher=0.05, delta=0.1)
    distance = 0.2 + 0.1 + 0.1
    confidence = (math.sqrt(0.04 + 0.16 + 0.16) + 2 * distance) * (
        math.sqrt(math.log(math.log2(2 / (1 - distance)))) + math.sqrt(math.log(20) / 2)
    )
    assert report.applicable and report.reason == ""
    assert report.weighted_loss == pytest.approx((0.2 * 2 + 0.4 * 0.5 + 0.4) / 2)
    assert report.source_mass == pytest.approx(0.2)
    assert report.source_discrepancy == pytest.approx(0.06)
    assert report.distance == pytest.approx(distance)
    assert report.sample_discrepancy == pytest.approx(distance)
    assert report.complexity == pytest.approx(0.1)
    assert report.distance_penalty == pytest.approx(6 * distance)
    assert report.confidence == pytest.approx(confidence)
    assert report.total == pytest.approx(0.5 + 0.06 + distance + 0.1 + 6 * distance + confidence)


def test_raw_weights_are_normalised() -> None:
    q, losses = np.array([1.0, 0.0, 2.0, 2.0]), np.ones(4)
    assert bound_report(q, losses, IS_TARGET) == bound_report(4 * q, losses, IS_TARGET)


def test_the_papers_trained_weights_are_not_covered() -> None:
    """The authors' public figure of appendix F: 54,821 source samples at 0.462, 2,267 targets at 1.928."""
    is_target = np.arange(54_821 + 2_267) >= 54_821
    report = bound_report(np.where(is_target, 1.928, 0.462), np.full(is_target.size, 0.1), is_target)
    assert not report.applicable
    assert report.total is None and report.confidence is None
    assert report.source_mass == pytest.approx(0.853, abs=0.001)
    assert report.distance == pytest.approx(1.71, abs=0.01)
    assert "85.3% of the weight" in report.reason


def test_unknown_terms_are_named_not_guessed() -> None:
    report = bound_report(np.array([0.0, 0.0, 0.5, 0.5]), np.ones(4), IS_TARGET)
    assert report.applicable and report.total is None
    assert report.distance == 0.0 and report.confidence == pytest.approx(
        math.sqrt(0.5) * math.sqrt(math.log(40) / 2)
    )
    assert "dis(P, Q) and the Rademacher complexity" in report.reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": [0.0, 0.0, 0.0, 0.0]}, "q: the weights sum to zero"),
        ({"q": [1.0, -1.0, 1.0, 1.0]}, r"q\[1\] = -1.0 is negative"),
        ({"losses": [1.0, math.inf, 1.0, 1.0]}, r"losses\[1\] = inf is not finite"),
        ({"losses": [1.0, 1.0]}, "losses: expected one number per sample"),
        ({"is_target": [False] * 4}, "is_target: must be a vector with at least one target"),
        ({"delta": 0.0}, "delta: must be between 0 and 1"),
        ({"loss_scale": 0.5}, "loss_scale: must be at least the largest loss"),
    ],
)
def test_bad_input_is_named(change, message: str) -> None:
    arguments = {"q": np.ones(4), "losses": np.ones(4), "is_target": IS_TARGET} | change
    with pytest.raises(ValueError, match=message):
        bound_report(**arguments)
