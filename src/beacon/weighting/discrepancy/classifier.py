"""A domain classifier: how surely a sample is recognised as source (paper, appendix C)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from beacon.weighting.discrepancy.base import DISCREPANCIES, Discrepancy
from beacon.weighting.inputs import PerSample, RefreshInputs
from beacon.weighting.validation import Ids, Vector

if TYPE_CHECKING:
    import torch


@DISCREPANCIES.register("classifier")
@dataclass(frozen=True)
class DomainClassifier(Discrepancy):
    """d_i = 1 − g(φ_i), with g a logistic regression that tells target (1) from source (0).

    The larger domain is undersampled, without replacement, to the size of the smaller one. When there
    are about as many features as samples, g separates anything and all d go to one: ``folds`` > 1 scores
    every sample by a classifier that has not seen it, nor its demonstration where ids are given.

    Logged: ``auc``, over all source and target samples as in the paper, ``separability`` = 2·auc − 1, and
    ``auc_fitted``, over the samples that the classifier was fitted on, which is larger.
    """

    folds: int = 0  # of the cross-fitting; 0: none (paper)
    inverse_penalty: float = 1.0  # scikit-learn's C
    iterations: int = 200  # of lbfgs, at most
    standardize: bool = True  # features to zero mean and unit variance first

    def __post_init__(self) -> None:
        if self.folds < 0 or self.folds == 1:
            raise ValueError(f"folds: must be 0 or at least 2, got {self.folds}")
        if not self.inverse_penalty > 0:
            raise ValueError(f"inverse_penalty: must be above 0, got {self.inverse_penalty}")

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        """The discrepancy of every source sample."""
        from sklearn.metrics import roc_auc_score

        source, target = (_array(part) for part in inputs.embeddings())
        rng = np.random.default_rng(inputs.seed)
        size = min(len(source), len(target))
        chosen_source = rng.permutation(len(source))[:size]
        chosen_target = rng.permutation(len(target))[:size]
        everyone = np.concatenate([source, target])
        fitted = np.concatenate([chosen_source, len(source) + chosen_target])  # rows of everyone
        truth = np.repeat([0, 1], [len(source), len(target)])
        if self.folds == 0:
            posterior = self._fit(everyone[fitted], truth[fitted], everyone)
        else:
            fold_of = np.concatenate(self._assign_folds(inputs, len(source), len(target), rng))
            posterior = np.empty(len(everyone))
            for fold in range(fold_of.max() + 1):
                train, test = fitted[fold_of[fitted] != fold], fold_of == fold
                posterior[test] = self._fit(everyone[train], truth[train], everyone[test])
        auc = float(roc_auc_score(truth, posterior))
        diagnostics = {
            "auc": auc,
            "separability": 2.0 * auc - 1.0,
            "auc_fitted": float(roc_auc_score(truth[fitted], posterior[fitted])),
        }
        return PerSample(1.0 - posterior[: len(source)], diagnostics)

    def _assign_folds(
        self, inputs: RefreshInputs, m: int, n: int, rng: np.random.Generator
    ) -> tuple[Ids, Ids]:
        """A fold for every sample; all samples of a demonstration share one."""
        source = np.arange(m) if inputs.source_episodes is None else inputs.source_episodes
        target = np.arange(n) if inputs.target_episodes is None else inputs.target_episodes
        smaller = min(len(np.unique(source)), len(np.unique(target)))
        if smaller < 2:  # a single demonstration cannot be held out from itself
            source, target, smaller = np.arange(m), np.arange(n), min(m, n)
        if smaller < 2:
            raise ValueError("folds: cross-fitting needs at least two samples of each domain")
        folds = min(self.folds, smaller)
        return _spread_over(source, folds, rng), _spread_over(target, folds, rng)

    def _fit(self, features: NDArray[np.float64], truth: Ids, queries: NDArray[np.float64]) -> Vector:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if truth.min() == truth.max():  # a fold left only one domain to learn from
            return np.full(len(queries), float(truth[0]))
        model = LogisticRegression(C=self.inverse_penalty, solver="lbfgs", max_iter=self.iterations)
        if self.standardize:
            model = make_pipeline(StandardScaler(), model)
        return np.asarray(model.fit(features, truth).predict_proba(queries)[:, 1])


def _spread_over(groups: Ids, folds: int, rng: np.random.Generator) -> Ids:
    _, index = np.unique(groups, return_inverse=True)
    return rng.permutation(index.max() + 1)[index] % folds


def _array(features: torch.Tensor) -> NDArray[np.float64]:
    return features.double().cpu().numpy()
