"""Kernel ridge regression with every demonstration predicted by models that have not seen it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def cross_fitted_residuals(
    features: Matrix,
    answers: Matrix,
    groups: NDArray[np.int64],
    *,
    usable: NDArray[np.bool_] | None = None,
    folds: int = 5,
    ridge: float = 1e-2,
    largest: int = 2000,
) -> tuple[Matrix, Matrix]:
    """Answers minus what a Gaussian kernel ridge regression of the other folds predicts, (N, A), in units of
    how well it can tell, and that unit, (N, 1).

    As a Gaussian process, the regression has a variance at every row: small amid the rows that it was fitted
    on, large at their edge. Residuals are divided by its square root.

    Args:
        features: (N, F); the kernel's width is the median distance of some of them.
        answers: (N, A).
        groups: (N,) rows of a group are in one fold.
        usable: (N,) rows that models may be fitted on; None: all.
        folds: number of folds.
        ridge: added to the kernel's diagonal.
        largest: rows that a model is fitted on, drawn at random where there are more; so time grows with N
            alone.
    """
    from scipy.linalg import solve_triangular

    rng = np.random.default_rng(0)
    some = features[rng.permutation(len(features))[:500]]
    width = float(np.median(_squared_distances(some, some))) + 1e-12
    _, group = np.unique(groups, return_inverse=True)
    fold = group % folds
    residuals, units = np.empty_like(answers), np.ones((len(answers), 1))
    allowed = np.ones(len(features), np.bool_) if usable is None else usable
    for number in range(folds):
        test, train = np.flatnonzero(fold == number), np.flatnonzero((fold != number) & allowed)
        if not len(test):
            continue
        if not len(train):
            train = np.flatnonzero(allowed)
        train = np.sort(rng.permutation(train)[:largest])
        mean = answers[train].mean(axis=0)
        gram = np.exp(-_squared_distances(features[train], features[train]) / width)
        gram[np.diag_indices_from(gram)] += ridge
        # With gram = L Lᵀ, both the prediction and its variance need no more than L⁻¹ of two matrices.
        root = np.linalg.cholesky(gram)
        kernel = np.exp(-_squared_distances(features[test], features[train]) / width)
        whitened = solve_triangular(root, kernel.T, lower=True, check_finite=False)
        known = solve_triangular(root, answers[train] - mean, lower=True, check_finite=False)
        variance = 1 - (whitened**2).sum(axis=0) + ridge
        units[test] = np.sqrt(np.maximum(variance, ridge))[:, None]
        residuals[test] = (answers[test] - mean - whitened.T @ known) / units[test]
    return residuals, units


def _squared_distances(first: Matrix, second: Matrix) -> Matrix:
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2 * first @ second.T
    return np.asarray(np.maximum(squares, 0))


def principal_components(values: Matrix, count: int) -> Matrix:
    """The first principal components, with a mean variance of one."""
    centred = values - values.mean(axis=0)
    if centred.shape[0] < centred.shape[1]:
        variances, vectors = np.linalg.eigh(centred @ centred.T)
        kept = vectors[:, -count:] * np.sqrt(np.maximum(variances[-count:], 0))
    else:
        _, vectors = np.linalg.eigh(centred.T @ centred)
        kept = centred @ vectors[:, -count:]
    return np.asarray(kept / max(float(kept.std()), 1e-12))
