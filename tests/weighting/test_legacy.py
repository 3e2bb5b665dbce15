"""Options of before 0.2 warn, and mean what they meant."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from small_reweighter import THREE, M, N, data, make, run, state_bytes

from beacon.weighting import KNN, DomainClassifier, KNNRelative, LocalizedEstimator, Minimiser, Steps

TWO_SOURCES = {"domains": THREE, "target": "real"}

LOCALIZED = {
    "loss": lambda theta, label: float(((theta - label) ** 2).sum()),
    "gradient": lambda theta, label: 2 * (theta - label),
    "reference": np.array([-2.0]),
    "steps": 5,
}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"refreshes": 5}, {"planned_refreshes": 5}),
        ({"update": "convex"}, {"solver": Minimiser()}),
        ({"update": "auto"}, {"solver": Minimiser()}),
        ({"update": "auto", "lambda_2": 0.0}, {"lambda_2": 0.0}),
        ({"update": "stochastic"}, {}),
        ({"update": "convex", "normalize_cost": True}, {"solver": Minimiser(normalize_cost=True)}),
        ({"eta_q": 0.3}, {"solver": Steps(eta_q=0.3)}),
        ({"projection": "direct"}, {"solver": Steps(projection="direct")}),
        (
            {"eta_w": 0.2, "eta_t": 0.3, "precondition": True, **TWO_SOURCES},
            {"solver": Steps(eta_w=0.2, eta_t=0.3, precondition=True), **TWO_SOURCES},
        ),
        ({"discrepancy_options": {"k": 2}}, {"discrepancy": KNN(k=2)}),
        (
            {"discrepancy": "classifier", "discrepancy_options": {"folds": 3}},
            {"discrepancy": DomainClassifier(folds=3)},
        ),
        (
            {"discrepancy": "knn-relative", "discrepancy_options": {"subsets": 2}},
            {"discrepancy": KNNRelative(subsets=2)},
        ),
        (
            {"discrepancy": "knn-relative", "discrepancy_options": {"tolerance": 2.0}},
            {"discrepancy": KNNRelative(outlier_tolerance=2.0)},
        ),
        (
            {"discrepancy": "localized", "discrepancy_options": LOCALIZED},
            {"discrepancy": LocalizedEstimator(**LOCALIZED)},
        ),
    ],
    ids=lambda options: "-".join(name for name in options if name not in TWO_SOURCES) or "defaults",
)
def test_an_old_option_warns_and_gives_the_same_weights(old, new) -> None:
    with pytest.warns(DeprecationWarning, match=r"Reweighter\(.*\) is deprecated; say") as told:
        before = make(**old)
    assert all("small_reweighter" in warning.filename for warning in told)  # the line that said it
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        after = make(**new)
    assert before.planned_refreshes == after.planned_refreshes and before.config == after.config
    for rw in (before, after):
        run(rw, 3)
    assert state_bytes(before) == state_bytes(after)


def test_the_options_above_are_felt() -> None:
    """Otherwise equal weights would say nothing about them."""
    plain, two = run(make(), 3).weights, run(make(**TWO_SOURCES), 3).weights
    options = [
        {"planned_refreshes": 5},
        {"solver": Minimiser()},
        {"solver": Steps(eta_q=0.3)},
        {"solver": Steps(projection="direct")},
        {"discrepancy": KNN(k=2)},
        {"discrepancy": DomainClassifier(folds=3)},
        {"discrepancy": KNNRelative(subsets=2)},
        {"discrepancy": KNNRelative(outlier_tolerance=2.0)},
        {"discrepancy": LocalizedEstimator(**LOCALIZED)},
    ]
    for chosen in options:
        assert abs(run(make(**chosen), 3).weights - plain).max() > 1e-6, chosen
    for chosen in ({"eta_w": 0.2}, {"eta_t": 0.3}, {"precondition": True}):
        assert abs(run(make(solver=Steps(**chosen), **TWO_SOURCES), 3).weights - two).max() > 1e-6, chosen


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refreshes": 0}, "refreshes: must be a whole number of at least 1"),
        ({"update": "magic"}, "update: must be 'stochastic' or 'convex'"),
        ({"update": "convex", "lambda_2": 0.0}, "lambda_2: must be above 0"),
        ({"eta_q": "fast"}, "eta_q: must be 'auto' or a number"),
        ({"discrepancy_options": {"neighbours": 3}}, "discrepancy_options: 'knn' does not take these"),
        ({"discrepancy": "magic", "discrepancy_options": {}}, "discrepancy_options: 'magic' does not take"),
        ({"discrepancy": KNN(), "discrepancy_options": {"k": 3}}, "discrepancy_options: only for"),
    ],
)
def test_a_bad_old_option_is_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_the_loop_of_the_first_readme_still_works() -> None:
    with pytest.warns(DeprecationWarning):
        rw = make(refreshes=3)
    losses, embeddings = data()
    for _ in range(3):
        rw.refresh(losses=losses, embeddings=embeddings)
    assert rw[[0, 1]].shape == (2,) and rw.weights.sum() == pytest.approx(N + 0.5 * M)
