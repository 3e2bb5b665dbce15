from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from beacon.weighting import DomainClassifier, RefreshInputs


def inputs(m: int, n: int, features: int, gap: float, episodes: bool = False, seed: int = 0) -> RefreshInputs:
    rng = np.random.default_rng(seed)
    return RefreshInputs(
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


def test_the_auc_is_over_all_samples() -> None:
    given = inputs(2000, 20, 15, gap=0.2)  # fitted on 20 of each, with about as many features
    diagnostics = DomainClassifier()(given).diagnostics
    assert diagnostics["auc_fitted"] > diagnostics["auc"] + 0.1
    assert diagnostics["separability"] == pytest.approx(2 * diagnostics["auc"] - 1)

    rng = np.random.default_rng(given.seed)  # the same draw, by hand
    chosen = given.source.numpy()[rng.permutation(2000)[:20]], given.target.numpy()[rng.permutation(20)]
    truth = np.repeat([0, 1], 20)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=200))
    model.fit(np.concatenate(chosen), truth)
    everyone = np.concatenate([given.source.numpy(), given.target.numpy()])
    pooled = roc_auc_score(np.repeat([0, 1], [2000, 20]), model.predict_proba(everyone)[:, 1])
    assert diagnostics["auc"] == pytest.approx(pooled, abs=1e-3)
    fitted = roc_auc_score(truth, model.predict_proba(np.concatenate(chosen))[:, 1])
    assert diagnostics["auc_fitted"] == pytest.approx(fitted, abs=1e-3)


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
