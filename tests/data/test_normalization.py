"""Min–max scaling: the three statistics, constants, and the way to JSON and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.data import EpisodeSet, Normalizer
from beacon.errors import UserError


def make_set(actions: np.ndarray, pos: np.ndarray | None = None) -> EpisodeSet:
    length = np.array([len(actions)])
    return EpisodeSet(
        name="set",
        path=Path("set.hdf5"),
        episode_names=["demo_0"],
        lengths=length,
        actions=actions.astype(np.float32),
        proprio={} if pos is None else {"pos": pos.astype(np.float32)},
        images={},
        env_args={},
        episode_attributes=[{}],
        image_starts=np.array([0]),
    )


def domains() -> list[EpisodeSet]:
    rng = np.random.default_rng(0)
    target = rng.uniform(-1, 1, (50, 3)) * [1, 2, 0] + [0, 1, 0.25]
    source = rng.uniform(-1, 1, (80, 3)) * [4, 1, 0] + [1, 0, 0.25]
    return [make_set(target, rng.normal(size=(50, 2))), make_set(source, 3 * rng.normal(size=(80, 2)))]


def test_pooled_covers_everything_exactly() -> None:
    sets = domains()
    normalizer = Normalizer.fit(sets)
    both = torch.from_numpy(np.concatenate([s.actions for s in sets]))
    scaled = normalizer.normalize_actions(both)
    torch.testing.assert_close(scaled[:, :2].amin(0), torch.tensor([-1.0, -1.0]))
    torch.testing.assert_close(scaled[:, :2].amax(0), torch.tensor([1.0, 1.0]))
    assert torch.equal(scaled[:, 2], torch.zeros(130))  # constant
    torch.testing.assert_close(normalizer.denormalize_actions(scaled), both)
    pos = torch.from_numpy(np.concatenate([s.proprio["pos"] for s in sets]))
    scaled = normalizer.normalize_proprio("pos", pos)
    torch.testing.assert_close(scaled.aminmax(dim=0), (-torch.ones(2), torch.ones(2)))
    torch.testing.assert_close(normalizer.denormalize_proprio("pos", scaled), pos)


def test_target_ignores_the_source() -> None:
    sets = domains()
    both_ways = [Normalizer.fit(sets, statistics="target", target=t) for t in (0, 1)]
    for t, normalizer in enumerate(both_ways):
        scaled = normalizer.normalize_actions(torch.from_numpy(sets[t].actions))[:, :2]
        torch.testing.assert_close(scaled.aminmax(dim=0), (-torch.ones(2), torch.ones(2)))
    assert both_ways[0].normalize_actions(torch.from_numpy(sets[1].actions)).abs().max() > 1.5


def test_per_domain_uses_each_ones_own_and_the_targets_at_test() -> None:
    sets = domains()
    normalizer = Normalizer.fit(sets, statistics="per-domain", target=1)
    alone = [Normalizer.fit([s]) for s in sets]
    domain = torch.tensor([0, 1, 1, 0])
    chunk = torch.from_numpy(np.stack([sets[d].actions[4:9] for d in domain.tolist()]))  # (4, 5, 3)
    scaled = normalizer.normalize_actions(chunk, domain)
    for b, d in enumerate(domain.tolist()):
        torch.testing.assert_close(scaled[b], alone[d].normalize_actions(chunk[b]))
        torch.testing.assert_close(normalizer.normalize_actions(chunk[b], d), scaled[b])
    torch.testing.assert_close(normalizer.denormalize_actions(scaled, domain), chunk)
    torch.testing.assert_close(normalizer.normalize_actions(chunk), alone[1].normalize_actions(chunk))
    pos = torch.from_numpy(np.stack([sets[d].proprio["pos"][:2] for d in domain.tolist()]))
    torch.testing.assert_close(
        normalizer.normalize_proprio("pos", pos, domain)[0], alone[0].normalize_proprio("pos", pos[0])
    )
    flat = chunk[:, 0]  # (B, A) works as well as (B, T, A)
    torch.testing.assert_close(normalizer.normalize_actions(flat, domain), scaled[:, 0])


@pytest.mark.parametrize("statistics", ["pooled", "target"])
def test_the_domain_changes_nothing_elsewhere(statistics: str) -> None:
    sets = domains()
    normalizer = Normalizer.fit(sets, statistics=statistics)  # type: ignore[arg-type]
    chunk = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(
        normalizer.normalize_actions(chunk, torch.tensor([0, 1])), normalizer.normalize_actions(chunk)
    )


def test_constants_come_back_as_they_were() -> None:
    normalizer = Normalizer.fit([make_set(np.array([[0.1, 3.0], [0.5, 3.0]]))])
    anything = torch.tensor([[0.0, -0.7], [1.0, 0.9]])
    assert normalizer.denormalize_actions(anything)[:, 1].tolist() == [3.0, 3.0]
    noise = Normalizer.fit([make_set(np.array([[0.1, 3.0], [0.5, 3.00001]]))])
    assert noise.normalize_actions(torch.tensor([[0.3, 3.00001]]))[0, 1] == 0  # noise is not blown up


def test_quantiles_ignore_outliers_but_not_a_rare_gripper() -> None:
    rng = np.random.default_rng(0)
    actions = np.stack([rng.uniform(-1, 1, 1000), np.full(1000, -1.0)], 1)
    actions[0, 0] = 500.0
    actions[:3, 1] = 1.0  # closed in 0.3% of the frames
    normalizer = Normalizer.fit([make_set(actions)], quantile=0.01)
    scaled = normalizer.normalize_actions(torch.from_numpy(actions.astype(np.float32)))
    low, high = np.quantile(actions.astype(np.float32)[:, 0], [0.01, 0.99])
    np.testing.assert_allclose(
        scaled[5:, 0].numpy(), 2 * (actions[5:, 0] - low) / (high - low) - 1, atol=1e-5
    )
    assert scaled[:3, 1].tolist() == [1.0, 1.0, 1.0] and scaled[3, 1] == -1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=2), min_size=2, max_size=6))
def test_json_round_trip_is_exact(rows: list[list[float]]) -> None:
    sets = [make_set(np.array(rows), np.array(rows) / 3)]
    normalizer = Normalizer.fit(sets, statistics="per-domain", quantile=0.1)
    again = Normalizer.from_dict(json.loads(json.dumps(normalizer.to_dict())))
    assert again.to_dict() == normalizer.to_dict()
    for ours, theirs in zip(again.actions, normalizer.actions, strict=True):
        assert ours.dtype == np.float64 and ours.tobytes() == theirs.tobytes()
    values = torch.randn(3, 2, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.normalize_actions(values), normalizer.normalize_actions(values))
    assert torch.equal(again.normalize_proprio("pos", values), normalizer.normalize_proprio("pos", values))


def test_dtype_and_device_follow_the_input() -> None:
    normalizer = Normalizer.fit(domains())
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert normalizer.normalize_actions(torch.zeros(2, 3, dtype=dtype)).dtype == dtype
    assert normalizer.denormalize_actions(torch.zeros(2, 3, device="meta")).device.type == "meta"


def test_gradients_flow_even_after_inference() -> None:
    normalizer = Normalizer.fit(domains())
    with torch.inference_mode():
        normalizer.denormalize_actions(torch.zeros(2, 3))
    values = torch.zeros(2, 3, requires_grad=True)
    normalizer.denormalize_actions(values).sum().backward()
    assert values.grad is not None and values.grad[:, :2].abs().min() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistics": "mean"}, "pooled, target, per-domain"),
        ({"quantile": 0.5}, "between 0 and 0.5"),
        ({"target": 2}, "0..1"),
    ],
)
def test_nonsense_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Normalizer.fit(domains(), **options)  # type: ignore[arg-type]
