"""The state of a Reweighter survives saving to the bit, and a foreign one is refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from small_reweighter import THREE, M, N, make, run, state_bytes

from beacon.weighting import LocalizedEstimator, Minimiser, Steps

OPTIONS = [
    {},
    {"domains": THREE, "target": "real"},
    {"solver": Minimiser()},
    {"solver": Minimiser(), "domains": THREE, "target": "real"},
    {"solver": Steps(cap="box", w_gradient="sum"), "domains": THREE, "target": "real"},
    {"loss_ema": 0.5, "granularity": "demo"},
    {"discrepancy": "classifier"},
    {"discrepancy": "knn-relative"},
    {
        "discrepancy": LocalizedEstimator(
            lambda theta, label: float(((theta - label) ** 2).sum()),
            lambda theta, label: 2 * (theta - label),
            np.array([-2.0]),
            steps=5,
        )
    },
]


def saved_by_torch(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Through a file, read under the safe default of torch.load."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def as_arrays(state: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in state.items()}


@pytest.mark.parametrize("carry", [saved_by_torch, as_arrays])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "defaults")
def test_a_resumed_reweighter_is_the_same_to_the_bit(options, carry) -> None:
    whole = run(make(**options), 6)
    half = run(make(**options), 3)
    resumed = make(**options)
    resumed.load_state_dict(carry(half.state_dict()))
    assert resumed.refresh_count == 3 and resumed.weights.tobytes() == half.weights.tobytes()
    run(resumed, 3, first=3)
    assert state_bytes(resumed) == state_bytes(whole)


def test_a_state_of_before_the_first_refresh_can_be_taken_up() -> None:
    rw = run(make(), 2)
    rw.load_state_dict(saved_by_torch(make().state_dict()))
    assert rw.refresh_count == 0 and np.unique(rw.weights).size == 1
    assert state_bytes(run(rw, 2)) == state_bytes(run(make(), 2))


def test_a_saved_state_is_a_copy() -> None:
    rw = run(make(), 2)
    before = rw.weights
    for tensor in rw.state_dict().values():
        tensor.zero_()
    np.testing.assert_array_equal(rw.weights, before)
    state = rw.state_dict()
    other = make()
    other.load_state_dict(state)
    state["q"].zero_()
    np.testing.assert_array_equal(other.weights, before)


def test_the_state_survives_safetensors(tmp_path) -> None:
    from safetensors.torch import load_file, save_file

    rw = run(make(), 2)
    save_file(rw.state_dict(), tmp_path / "state.safetensors")
    other = make()
    other.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert other.weights.tobytes() == rw.weights.tobytes()


def spoil(name: str, index: int, value: float):
    def change(state: dict[str, torch.Tensor]) -> None:
        state[name][index] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("q"), r"missing \['q'\]"),
        (lambda s: s.update(extra=torch.zeros(1)), r"unknown \['extra'\]"),
        (lambda s: s.update(q=torch.zeros(3)), r"'q' has shape \(3,\)"),
        (lambda s: s.update(base=torch.zeros(M - 1)), r"'base' has shape \(39,\)"),
        (lambda s: s.update(layout=torch.zeros(32, dtype=torch.uint8)), "belongs to other samples"),
        (spoil("q", 7, float("nan")), r"state: q\[7\] = nan is not finite"),
        (spoil("q", 3, -0.5), r"state: q\[3\] = -0.5 is negative"),
        (spoil("q_tilde", 0, float("inf")), r"state: q_tilde\[0\] = inf is not finite"),
        (spoil("w", 0, -1.0), r"state: w\[0\] = -1.0 is negative"),
        (spoil("p0", 2, -1.0), r"state: p0\[2\] = -1.0 is negative"),
        (spoil("discrepancies", 2, float("nan")), r"state: discrepancies\[2\] = nan is not finite"),
        (spoil("losses", 2, float("nan")), r"state: losses\[2\] = nan is not finite"),
        (lambda s: s.update(base=torch.full((M,), -1.0)), r"state: base\[0\] = -1.0 is negative"),
        (lambda s: s.update(refresh_count=torch.tensor(-5)), "state: refresh_count = -5 is negative"),
        (lambda s: s.update(refresh_count=torch.tensor(float("nan"))), "state: refresh_count = nan"),
        (lambda s: s.update(shift=torch.tensor(float("nan"))), "state: shift = nan is not finite"),
        (lambda s: s.update(q=np.array(["x"] * (M + N))), "state: q: must be real numbers"),
        (lambda s: s.update(q=s["q"].to(torch.complex128)), "state: q: must be real numbers"),
    ],
)
def test_a_foreign_state_is_refused_and_changes_nothing(change, message: str) -> None:
    state = run(make(), 2).state_dict()
    change(state)
    rw = run(make(), 1)
    before = state_bytes(rw)
    with pytest.raises(ValueError, match=message):
        rw.load_state_dict(state)
    assert state_bytes(rw) == before


@pytest.mark.parametrize("domains", [THREE[::-1], np.where(THREE == "a", "c", THREE)])
def test_a_state_of_samples_in_another_order_or_of_other_names_is_refused(domains) -> None:
    state = run(make(domains=THREE, target="real"), 1).state_dict()
    with pytest.raises(ValueError, match="belongs to other samples"):
        make(domains=domains, target="real").load_state_dict(state)
