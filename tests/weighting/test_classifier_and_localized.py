from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from beacon.weighting import DiscrepancyInputs, DomainClassifier, Localized, localized_discrepancy


def inputs(
    m: int, n: int, features: int, gap: float, episodes: bool = False, seed: int = 0
) -> DiscrepancyInputs:
    rng = np.random.default_rng(seed)
    return DiscrepancyInputs(
        torch.as_tensor(rng.normal(size=(m, features)), dtype=torch.float32),
        torch.as_tensor(rng.normal(gap, 1.0, size=(n, features)), dtype=torch.float32),
        np.zeros(m, np.int64),
        ("sim",),
        "real",
        np.arange(m) // 10 if episodes else None,
        np.arange(n) // 10 if episodes else None,
        seed=3,
    )


def test_posterior_and_auc_agree_with_scikit_learn() -> None:
    given = inputs(40, 40, 4, gap=0.7)  # equal sizes: nothing is undersampled, only shuffled
    result = DomainClassifier()(given)
    features = np.concatenate([given.source.numpy(), given.target.numpy()])
    truth = np.repeat([0, 1], 40)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=200)).fit(features, truth)
    np.testing.assert_allclose(result.values, model.predict_proba(given.source.numpy())[:, 0], atol=1e-3)
    auc = roc_auc_score(truth, model.predict_proba(features)[:, 1])
    assert result.diagnostics["auc"] == pytest.approx(auc, abs=1e-3)
    assert result.diagnostics["separability"] == pytest.approx(2 * auc - 1, abs=2e-3)


@pytest.mark.parametrize(("m", "n"), [(500, 30), (20, 200)])
def test_the_larger_domain_is_undersampled(m: int, n: int) -> None:
    result = DomainClassifier()(inputs(m, n, 3, gap=0.0))
    assert result.values.shape == (m,)
    assert 0.3 < result.values.mean() < 0.7  # a balanced classifier of equal domains is undecided


def test_cross_fitting_stops_saturation() -> None:
    given = inputs(60, 60, 200, gap=0.0)  # more features than samples, no real difference
    saturated, crossed = DomainClassifier()(given), DomainClassifier(folds=5)(given)
    assert saturated.diagnostics["auc"] == 1.0
    assert 0.25 < crossed.diagnostics["auc"] < 0.75
    assert crossed.values.mean() < saturated.values.mean() - 0.1


@pytest.mark.parametrize("episodes", [False, True])
def test_cross_fitting_sees_a_real_difference(episodes: bool) -> None:
    result = DomainClassifier(folds=4)(inputs(200, 50, 5, gap=1.5, episodes=episodes))
    assert result.diagnostics["auc"] > 0.9
    assert result.values.mean() > 0.8


def test_cross_fitting_with_one_demonstration_falls_back_to_samples() -> None:
    given = inputs(50, 8, 3, gap=1.0, episodes=True)  # all eight target samples are of one demonstration
    assert np.isfinite(DomainClassifier(folds=3)(given).values).all()


@pytest.mark.parametrize("options", [{"folds": 1}, {"folds": -1}, {"inverse_penalty": 0.0}])
def test_bad_classifier_options_are_refused(options) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        DomainClassifier(**options)


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


def test_localized_default_radius_and_no_negative_values() -> None:
    reference = np.array([-3.0, 0.0, 4.0])
    result = localized_discrepancy(loss, gradient, reference, "sim", "real", steps=50)
    assert result.radius == pytest.approx(0.05 * 5.0)
    assert result.gaps.max() < 0 and result.value == 0.0


def test_localized_estimator_gives_one_number_per_source_domain() -> None:
    estimator = Localized(
        loss, gradient, np.array([2.0, 0.0, 0.0]), radius=0.5, learning_rate=0.05, steps=300
    )
    given = DiscrepancyInputs(None, None, np.array([1, 0, 1]), ("same", "sim"), "real")
    result = estimator(given)
    np.testing.assert_allclose(result.values, [4.0, 0.0, 4.0], atol=1e-3)
    assert result.diagnostics["localized/sim"] == pytest.approx(4.0, abs=1e-3)


@pytest.mark.parametrize("radius", [0.0, -1.0])
def test_a_radius_that_is_not_positive_is_refused(radius: float) -> None:
    with pytest.raises(ValueError, match="radius: must be above 0"):
        Localized(loss, gradient, np.ones(3), radius=radius)
    with pytest.raises(ValueError, match="radius: must be above 0"):
        localized_discrepancy(loss, gradient, np.ones(3), "sim", "real", radius=radius)


def test_a_loss_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="loss: the gap between 'real' and 'sim' is not finite"):
        localized_discrepancy(lambda theta, label: float("nan"), gradient, np.ones(3), "sim", "real")


@pytest.mark.parametrize("reference", [np.ones((2, 2)), np.array([]), np.array([1.0, np.nan])])
def test_a_bad_reference_is_refused(reference) -> None:
    with pytest.raises(ValueError, match="reference"):
        localized_discrepancy(loss, gradient, reference, "sim", "real")
