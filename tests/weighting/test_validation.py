"""What cannot be is refused by the name of the argument, and nothing changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_reweighter import DOMAINS, M, N, data, make, run, state_bytes

from beacon.weighting import KNN, InverseDynamicsCheck, Minimiser

LOSSES, EMBEDDINGS = data()


def spoiled(array: np.ndarray, index: int, value: float) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


STRUCTURED = np.zeros(M + N, dtype=[("loss", float), ("step", int)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"losses": spoiled(LOSSES, 7, math.nan)}, r"losses\[7\] = nan is not finite"),
        ({"losses": spoiled(LOSSES, 3, math.inf)}, r"losses\[3\] = inf is not finite"),
        ({"losses": LOSSES[:-1]}, r"losses: expected one number per sample, shape \(48,\), got \(47,\)"),
        ({"losses": LOSSES.astype(complex)}, "losses: must be real numbers, got complex128"),
        ({"losses": torch.from_numpy(LOSSES).to(torch.complex64)}, "losses: must be real numbers"),
        ({"losses": np.full(M + N, "2026-01-01", "datetime64[D]")}, "losses: must be real numbers"),
        ({"losses": np.full(M + N, 3, "timedelta64[s]")}, "losses: must be real numbers"),
        ({"losses": STRUCTURED}, "losses: must be real numbers"),
        ({"losses": np.ma.masked_less(LOSSES, 0.5)}, "losses: masked arrays are not taken"),
        ({"losses": ["0.1"] * (M + N)}, "losses: must be real numbers"),
        ({"losses": np.array([None] * (M + N))}, "losses: must be real numbers, got object"),
        ({"losses": [[1.0], [1.0, 2.0]]}, "losses: cannot be read as an array"),
        ({"losses": torch.from_numpy(LOSSES).to_sparse()}, "losses: sparse tensors are not taken"),
        ({"embeddings": torch.from_numpy(EMBEDDINGS).to_sparse()}, "embeddings: sparse tensors are not"),
        ({"losses": 0.5}, r"losses: expected one number per sample, shape \(48,\)"),
        ({"embeddings": spoiled(EMBEDDINGS, 9, math.nan)}, r"embeddings\[9\] is not finite"),
        ({"embeddings": EMBEDDINGS[:5]}, r"embeddings: expected one row per sample \(48 rows\)"),
        ({"embeddings": EMBEDDINGS[:, :0]}, "embeddings: the rows have no features"),
        ({"embeddings": EMBEDDINGS.astype(complex)}, "embeddings: must be real numbers"),
        ({"embeddings": torch.from_numpy(EMBEDDINGS) + 0j}, "embeddings: must be real numbers"),
        ({"embeddings": np.ma.masked_less(EMBEDDINGS, 0.5)}, "embeddings: masked arrays are not taken"),
        ({"embeddings": None}, "embeddings: this estimator needs one row of features per sample"),
        ({"discrepancies": -np.ones(M + N)}, r"discrepancies\[0\] = -1.0 is negative"),
        ({"discrepancies": np.ones(M + N, complex)}, "discrepancies: must be real numbers"),
        ({"actions": spoiled(LOSSES, 2, math.nan)}, r"actions\[2\] is not finite"),
        ({"capacity": math.nan}, "capacity: must be a finite number"),
        ({"capacity": -1.0}, "capacity: must be a finite number of at least 0"),
    ],
)
def test_bad_refresh_is_refused_and_changes_nothing(arguments, message: str) -> None:
    rw = run(make(), 2)
    before = state_bytes(rw)
    with pytest.raises(ValueError, match=message):
        rw.refresh(**({"losses": LOSSES, "embeddings": EMBEDDINGS} | arguments))
    assert state_bytes(rw) == before


@pytest.mark.parametrize(
    "same",
    [
        lambda a: a[::-1][::-1],  # strides of either sign
        lambda a: a[::-1].copy()[::-1],
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.asfortranarray(np.repeat(a, 2, axis=0))[::2],
        lambda a: a.tolist(),
        lambda a: torch.from_numpy(a).requires_grad_(),
    ],
    ids=["reversed twice", "reversed", "big-endian", "strided", "list", "with gradient"],
)
def test_the_same_numbers_however_they_are_stored_give_the_same_weights(same) -> None:
    expected = run(make(), 1).weights
    rw = make()
    rw.refresh(same(LOSSES), same(EMBEDDINGS))
    np.testing.assert_array_equal(rw.weights, expected)


@pytest.mark.parametrize("dtype", ["float16", "float64", "longdouble", "int32", "uint8", "bool"])
def test_embeddings_of_every_number_type_are_taken(dtype: str) -> None:
    features = (10 * np.abs(EMBEDDINGS)).astype(dtype)
    rw, plain = make(), make()
    rw.refresh(LOSSES, features)
    plain.refresh(LOSSES, features.astype(np.float32))
    np.testing.assert_array_equal(rw.weights, plain.weights)


def test_an_estimator_of_ones_own_is_checked_too() -> None:
    rw = make(discrepancy=lambda inputs: np.full(M, np.nan))
    with pytest.raises(ValueError, match=r"discrepancy\[0\] = nan"):
        rw.refresh(LOSSES, EMBEDDINGS)
    assert rw.refresh_count == 0
    rw = make(discrepancy=lambda inputs: np.ones(M + 1))
    with pytest.raises(ValueError, match="discrepancy: expected one number per sample"):
        rw.refresh(LOSSES, EMBEDDINGS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 5}, r"target: no sample is of the target domain 5; domains has \[0, 1\]"),
        ({"target": "real"}, "target: 'real' is not of the labels' type"),
        ({"domains": np.ones(9, int)}, "there is no source"),
        ({"domains": np.array([0, 1, -2])}, r"domains\[2\] = -2 is negative"),
        ({"domains": np.ones((3, 3), int)}, "domains: expected one label per sample"),
        ({"domains": np.array([0.0, 1.0])}, "domains: labels must be all int or all str"),
        ({"domains": np.ma.masked_equal(DOMAINS, 0)}, "domains: masked arrays are not taken"),
        ({"episodes": [1, 2]}, "episodes: expected one id per sample"),
        ({"episodes": np.arange(M + N) / 2}, "episodes: ids must be all int or all str"),
        ({"episodes": None, "granularity": "demo"}, "episodes: granularity='demo' needs"),
        ({"solver": Minimiser(), "lambda_2": 0.0}, "lambda_2: must be above 0 for the minimiser"),
        ({"solver": "minimiser"}, "solver: must be a Solver"),
        ({"alpha": 50.0}, r"alpha: the weights cannot sum to n \+ alpha·m = 2008"),
        ({"q_target_min": 4.0, "alpha": 0.1}, "alpha: the weights cannot sum to"),
        ({"q_target_min": 9.0}, "q_target_min: must be at most q_max"),
        ({"lambda_1": -1.0}, "lambda_1: must be a number of at least 0"),
        ({"lambda_d": math.nan}, "lambda_d: must be None or a number of at least 0"),
        ({"gamma": -1.0}, "gamma: must be None or a number of at least 0"),
        ({"loss_scale": 0.0}, "loss_scale: must be a number above 0"),
        ({"target_factor": 0.0}, "target_factor: must be None, 'auto', 'natural', 'rule' or a number"),
        ({"p0": "everything"}, "p0: must be 'target' or"),
        ({"granularity": "step"}, "granularity: must be 'window' or 'demo'"),
        ({"planned_refreshes": 0}, "planned_refreshes: must be a whole number of at least 1"),
        ({"loss_ema": 1.0}, "loss_ema"),
        ({"w_min": 1.5}, "w_min: must be at most 1"),
        ({"discrepancy": "magic"}, "discrepancy: unknown 'magic'; choose one of .*knn.*, or a callable"),
        ({"planned_refreshes": "ten"}, "planned_refreshes: must be a whole number"),
        ({"planned_refreshes": 2.5}, "planned_refreshes: must be a whole number"),
        ({"discrepancy": KNN}, "discrepancy: must be a name, a Discrepancy or a callable"),
        ({"checks": ("neighbor-actions",)}, "checks: must be checks such as NeighborActionCheck"),
        ({"discrepancy": 3}, "discrepancy: must be a name, a Discrepancy or a callable"),
        ({"checks": (InverseDynamicsCheck(),)}, "checks: inverse-dynamics needs demonstrations"),
        ({"p0": np.ones(3)}, "p0: expected one number per sample"),
        ({"p0": -np.ones(M + N)}, r"p0\[0\] = -1.0 is negative"),
    ],
)
def test_bad_construction_is_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("planned_refresh", "planned_refreshes"),
        ("discrepency", "discrepancy"),
        ("chekcs", "checks"),
        ("alhpa", "alpha"),
        ("lamda_2", "lambda_2"),
        ("granularty", "granularity"),
        ("qmax", "q_max"),
    ],
)
def test_a_typo_in_an_option_is_answered_with_the_nearest_one(typo: str, meant: str) -> None:
    with pytest.raises(ValueError) as refusal:
        make(**{typo: 0.5})
    message = str(refusal.value)
    assert message == f"{typo}: Reweighter has no such option; did you mean {meant}?"


def test_an_option_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(ValueError, match=r"zzz: Reweighter has no such option; there are lambda_d, .*solver"):
        make(zzz=1)
