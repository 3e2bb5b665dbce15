"""A domain classifier: how surely a sample is recognised as source (paper, appendix C)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from beacon.weighting.discrepancy.base import DISCREPANCIES, Discrepancy
from beacon.weighting.inputs import PerSample, RefreshInputs
from beacon.weighting.validation import Ids, Vector

if TYPE_CHECKING:
    import torch

Model = Callable[[NDArray[np.float64]], Vector]  # features (rows, D) -> how surely each is the target's
ROWS = 1 << 14  # that are predicted together


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

    shards: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.folds < 0 or self.folds == 1:
            raise ValueError(f"folds: must be 0 or at least 2, got {self.folds}")
        if not self.inverse_penalty > 0:
            raise ValueError(f"inverse_penalty: must be above 0, got {self.inverse_penalty}")

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        """The discrepancy of every source sample."""
        import torch

        own, target = inputs.embeddings()
        m, n = len(inputs.source_domains), len(target)
        rng = np.random.default_rng(inputs.seed)
        size = min(m, n)
        # Copies: a view would keep the whole permutation.
        of_source, of_target = rng.permutation(m)[:size].copy(), rng.permutation(n)[:size].copy()
        features = np.concatenate(
            [_array(inputs.rows_of(own, of_source)), _array(_chosen(target, of_target))]
        )
        truth = np.repeat([0, 1], size)
        scores = torch.empty(len(own), dtype=torch.float64)
        target_scores = np.empty(n)
        if self.folds == 0:
            model = self._fit(features, truth)
            _predict(model, own, None, scores)
            target_scores = _predict(model, target, None, torch.empty(n, dtype=torch.float64)).numpy()
        else:
            source_folds, target_folds = self._assign_folds(inputs, m, n, rng)
            fitted_folds = np.concatenate([source_folds[of_source], target_folds[of_target]])
            own_folds = source_folds[inputs.shard.rows]
            for fold in range(int(max(source_folds.max(), target_folds.max())) + 1):
                train = fitted_folds != fold
                model = self._fit(features[train], truth[train])
                for folds, table, out in (
                    (own_folds, own, scores),
                    (target_folds, target, torch.from_numpy(target_scores)),
                ):
                    _predict(model, table, np.flatnonzero(folds == fold), out)
        source_scores = inputs.together(scores)
        auc = _auc(source_scores, target_scores)
        diagnostics = {
            "auc": auc,
            "separability": 2.0 * auc - 1.0,
            "auc_fitted": _auc(source_scores[of_source], target_scores[of_target]),
        }
        return PerSample(1.0 - source_scores, diagnostics)

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

    def _fit(self, features: NDArray[np.float64], truth: Ids) -> Model:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if truth.min() == truth.max():  # a fold left only one domain to learn from
            return lambda queries: np.full(len(queries), float(truth[0]))
        model = LogisticRegression(C=self.inverse_penalty, solver="lbfgs", max_iter=self.iterations)
        if self.standardize:
            model = make_pipeline(StandardScaler(), model)
        model.fit(features, truth)
        return lambda queries: np.asarray(model.predict_proba(queries)[:, 1])


def _predict(model: Model, table: torch.Tensor, rows: Ids | None, out: torch.Tensor) -> torch.Tensor:
    """Write how surely rows, or all, are the target's, a part at a time: features as float64 are large."""
    import torch

    for start in range(0, len(table) if rows is None else len(rows), ROWS):
        part = slice(start, start + ROWS)
        if rows is None:
            out[part] = torch.from_numpy(model(_array(table[part])))
        else:
            scores = model(_array(_chosen(table, rows[part])))
            out[torch.from_numpy(rows[part])] = torch.from_numpy(scores)
    return out


def _auc(source: Vector, target: Vector) -> float:
    """How often a target's score is above a source's; equal ones count half. Only the source is sorted."""
    order = np.sort(source)
    below, up_to = (np.searchsorted(order, target, side=side) for side in ("left", "right"))
    return float(np.mean(below + up_to) / (2 * len(order)))


def _chosen(table: torch.Tensor, rows: Ids) -> torch.Tensor:
    import torch

    return table[torch.from_numpy(rows).to(table.device)]


def _spread_over(groups: Ids, folds: int, rng: np.random.Generator) -> Ids:
    _, index = np.unique(groups, return_inverse=True)
    return rng.permutation(index.max() + 1)[index] % folds


def _array(features: torch.Tensor) -> NDArray[np.float64]:
    return features.double().cpu().numpy()
