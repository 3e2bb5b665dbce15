"""Kernel ridge regression with every demonstration predicted by models that have not seen it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def cross_fitted_residuals(
    features: Matrix, answers: Matrix, groups: NDArray[np.int64], *, folds: int = 5, ridge: float = 1e-2
) -> Matrix:
    """Answers minus what a Gaussian kernel ridge regression of the other folds predicts, (N, A).

    Args:
        features: (N, F); the kernel's width is the median distance.
        answers: (N, A).
        groups: (N,) rows of a group are in one fold.
        folds: number of folds.
        ridge: of the regression, as a share of the number of rows.
    """
    squares = (features**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * features @ features.T, 0)
    width = float(np.median(distances)) + 1e-12
    kernel = np.exp(-distances / width)
    _, group = np.unique(groups, return_inverse=True)
    fold = group % folds
    residuals = np.empty_like(answers)
    for number in range(folds):
        test, train = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        if not len(test):
            continue
        mean = answers[train].mean(axis=0)
        gram = kernel[np.ix_(train, train)] + ridge * np.eye(len(train))
        weights = np.linalg.solve(gram, answers[train] - mean)
        residuals[test] = answers[test] - mean - kernel[np.ix_(test, train)] @ weights
    return residuals


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
