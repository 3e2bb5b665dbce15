from __future__ import annotations

import numpy as np
import pytest

from beacon.weighting import LocalizedEstimator, RefreshInputs, localized_discrepancy

# Quadratic losses: everything about the localized discrepancy is known in closed form.
CENTRE = {"real": np.array([0.0, 0.0, 0.0]), "sim": np.array([1.0, 0.0, 0.0]), "same": np.zeros(3)}


def loss(theta, label) -> float:
    return float(((theta - CENTRE[label]) ** 2).sum())


def gradient(theta, label):
    return 2 * (theta - CENTRE[label])


def test_localized_finds_the_known_maximum_on_the_ball() -> None:
    # The gap is 2 θ_0 − 1, so on the ball around the reference it is largest at its rightmost point.
    reference = np.array([2.0, 1.0, 0.0])
    result = localized_discrepancy(
        loss, gradient, reference, "sim", "real", radius=0.5, learning_rate=0.05, steps=400, beta=1e-3
    )
    assert result.value == pytest.approx(2 * 2.5 - 1, abs=1e-3)
    assert np.linalg.norm(result.best - reference) <= 0.5 + 1e-12
    assert result.gaps[0] == pytest.approx(3.0)


def test_the_pull_towards_the_reference_is_felt() -> None:
    """The ascent settles where the slope of the gap, 2, equals that of the penalty, 2 β ‖offset‖."""
    reference = np.array([2.0, 1.0, 0.0])
    options = {"radius": 10.0, "learning_rate": 0.05, "steps": 2000}
    pulled = localized_discrepancy(loss, gradient, reference, "sim", "real", beta=2.0, **options)
    assert pulled.gaps[-1] == pytest.approx(2 * 2.5 - 1, abs=1e-3)  # half a unit from the reference
    free = localized_discrepancy(loss, gradient, reference, "sim", "real", beta=0.0, **options)
    assert np.linalg.norm(free.best - reference) == pytest.approx(10.0)  # only the ball holds it


def test_the_penalty_is_no_part_of_the_value() -> None:
    reference = np.array([2.0, 1.0, 0.0])
    result = localized_discrepancy(
        loss, gradient, reference, "sim", "real", radius=10.0, learning_rate=0.05, steps=2000, beta=2.0
    )
    assert result.value == pytest.approx(2 * result.best[0] - 1)
    assert result.value > 3.9


def test_the_largest_gap_on_the_way_counts_not_the_last() -> None:
    """A gradient that leads past the summit: the gap rises, then falls."""
    summit = 3.0

    def hill(theta, label) -> float:
        return 0.0 if label == "sim" else 1.0 - float((theta[0] - summit) ** 2)

    def onwards(theta, label):
        return np.array([0.0 if label == "sim" else 1.0])

    result = localized_discrepancy(
        hill,
        onwards,
        np.array([2.0]),
        "sim",
        "real",
        radius=4.0,
        learning_rate=0.1,
        steps=40,
        evaluate_every=1,
        beta=0.0,
    )
    assert result.value == pytest.approx(1.0, abs=0.01)
    assert result.gaps[-1] < 0 and result.best[0] == pytest.approx(summit, abs=0.06)
    assert len(result.gaps) == 41 and result.gaps.max() == result.value


def test_gaps_are_looked_at_every_so_many_steps_and_at_the_end() -> None:
    told = []
    result = localized_discrepancy(
        loss, gradient, np.ones(3), "sim", "real", steps=55, evaluate_every=25, progress=told.append
    )
    assert len(result.gaps) == 1 + 3  # at the reference, after 25, 50 and 55 steps
    assert told == list(range(1, 56))


def test_localized_default_radius_and_no_negative_values() -> None:
    reference = np.array([-3.0, 0.0, 4.0])
    result = localized_discrepancy(loss, gradient, reference, "sim", "real", steps=50)
    assert result.radius == pytest.approx(0.05 * 5.0)
    assert result.gaps.max() < 0 and result.value == 0.0


def test_localized_estimator_gives_one_number_per_source_domain() -> None:
    estimator = LocalizedEstimator(
        loss, gradient, np.array([2.0, 0.0, 0.0]), radius=0.5, learning_rate=0.05, steps=300
    )
    given = RefreshInputs(None, None, np.array([1, 0, 1]), ("same", "sim"), "real")
    result = estimator(given)
    np.testing.assert_allclose(result.values, [4.0, 0.0, 4.0], atol=1e-3)
    assert result.diagnostics["localized/sim"] == pytest.approx(4.0, abs=1e-3)


@pytest.mark.parametrize("radius", [0.0, -1.0])
def test_a_radius_that_is_not_positive_is_refused(radius: float) -> None:
    with pytest.raises(ValueError, match="radius: must be above 0"):
        LocalizedEstimator(loss, gradient, np.ones(3), radius=radius)
    with pytest.raises(ValueError, match="radius: must be above 0"):
        localized_discrepancy(loss, gradient, np.ones(3), "sim", "real", radius=radius)


def test_a_loss_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="loss: the gap between 'real' and 'sim' is not finite"):
        localized_discrepancy(lambda theta, label: float("nan"), gradient, np.ones(3), "sim", "real")


@pytest.mark.parametrize("reference", [np.ones((2, 2)), np.array([]), np.array([1.0, np.nan])])
def test_a_bad_reference_is_refused(reference) -> None:
    with pytest.raises(ValueError, match="reference"):
        localized_discrepancy(loss, gradient, reference, "sim", "real")
