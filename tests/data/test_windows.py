"""Windows against a slow reference, and what they cost in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_datasets import MakeFile

from beacon.data import EpisodeSet, Windows
from beacon.errors import UserError


def make_set(lengths: list[int], seed: int, name: str = "set") -> EpisodeSet:
    rng = np.random.default_rng(seed)
    frames = sum(lengths)
    array = np.array(lengths, np.int64)
    return EpisodeSet(
        name=name,
        path=Path(f"{name}.hdf5"),
        episode_names=[f"demo_{i}" for i in range(len(lengths))],
        lengths=array,
        actions=rng.normal(size=(frames, 2)).astype(np.float32),
        proprio={"pos": rng.normal(size=(frames, 3)).astype(np.float32)},
        images={"front": rng.integers(0, 256, (frames, 2, 3, 3), dtype=np.uint8)},
        env_args={},
        episode_attributes=[{} for _ in lengths],
        image_starts=np.cumsum(array) - array,
    )


def reference(sets: list[EpisodeSet], obs_steps: int, horizon: int) -> list[dict[str, object]]:
    """One dict per window, by plain loops over episodes and steps."""
    windows: list[dict[str, object]] = []
    number = 0
    for d, episodes in enumerate(sets):
        for e in range(len(episodes)):
            episode = episodes.episode(e)
            last = len(episode.actions) - 1
            for t in range(last + 1):
                past = [max(0, t - obs_steps + 1 + k) for k in range(obs_steps)]
                ahead = [min(last, t + k) for k in range(horizon)]
                windows.append(
                    {
                        "domain": d,
                        "episode": number,
                        "step": t,
                        "length": last + 1,
                        "phase": t / last if last else 0.0,
                        "front": np.stack([episode.obs["front"][k] for k in past]),
                        "pos": np.stack([episode.obs["pos"][k] for k in past]),
                        "actions": np.stack([episode.actions[k] for k in ahead]),
                    }
                )
            number += 1
    return windows


def assert_same(windows: Windows, expected: list[dict[str, object]], index: np.ndarray) -> None:
    batch = windows.gather(index)
    assert batch.index.tolist() == index.tolist() and batch.index.dtype == torch.int64
    for b, i in enumerate(index.tolist()):
        assert int(batch.domain[b]) == expected[i]["domain"]
        np.testing.assert_array_equal(batch.images["front"][b].numpy(), expected[i]["front"])
        np.testing.assert_array_equal(batch.proprio["pos"][b].numpy(), expected[i]["pos"])
        np.testing.assert_array_equal(batch.actions[b].numpy(), expected[i]["actions"])


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=4), min_size=1, max_size=3),
    obs_steps=st.integers(1, 4),
    horizon=st.integers(1, 9),
    data=st.data(),
)
def test_equal_to_the_reference(
    lengths: list[list[int]], obs_steps: int, horizon: int, data: st.DataObject
) -> None:
    sets = [make_set(domain, seed) for seed, domain in enumerate(lengths)]
    if data.draw(st.booleans()):  # a subset, whose images are other rows than its actions
        order = data.draw(st.permutations(range(len(sets[0]))))
        sets[0] = sets[0].subset(order[: data.draw(st.integers(1, len(order)))])
    windows = Windows(sets, obs_steps, horizon)
    expected = reference(sets, obs_steps, horizon)
    assert len(windows) == len(expected)
    for name in ("domain", "episode", "step", "length"):
        assert getattr(windows, name).tolist() == [window[name] for window in expected]
    np.testing.assert_allclose(windows.phase, [window["phase"] for window in expected], rtol=1e-6)
    assert_same(windows, expected, np.arange(len(windows)))
    index = data.draw(st.lists(st.integers(0, len(windows) - 1), max_size=12))
    assert_same(windows, expected, np.array(index, np.int64))


def test_dtypes_and_shapes() -> None:
    windows = Windows([make_set([4], 0), make_set([2, 3], 1)], obs_steps=2, horizon=5)
    assert (windows.domain.dtype, windows.episode.dtype, windows.step.dtype) == (np.int16, np.int32, np.int32)
    assert windows.episode_names == ["demo_0", "demo_0", "demo_1"]
    assert windows.episode_domain.tolist() == [0, 1, 1] and windows.episode_length.tolist() == [4, 2, 3]
    batch = windows.gather(torch.tensor([0, 8, 3]))
    assert len(batch) == 3
    assert batch.images["front"].shape == (3, 2, 2, 3, 3) and batch.images["front"].dtype == torch.uint8
    assert batch.proprio["pos"].shape == (3, 2, 3) and batch.proprio["pos"].dtype == torch.float32
    assert batch.actions.shape == (3, 5, 2) and batch.actions.dtype == torch.float32
    assert batch.to("meta").actions.device.type == "meta"


def test_memory_is_reused_when_asked() -> None:
    windows = Windows([make_set([4, 6], 0), make_set([5], 1)], obs_steps=2, horizon=3)
    room = windows.empty(4)
    expected = reference(windows.sets, 2, 3)
    for index in ([0, 14, 3, 9], [12, 1], [2, 3, 4, 5]):  # mixed, smaller, one domain only
        batch = windows.gather(np.array(index), out=room)
        assert len(batch) == len(index)
        assert batch.images["front"].data_ptr() == room.images["front"].data_ptr()
        assert batch.actions.data_ptr() == room.actions.data_ptr()
        for b, i in enumerate(index):
            np.testing.assert_array_equal(batch.images["front"][b].numpy(), expected[i]["front"])
            np.testing.assert_array_equal(batch.actions[b].numpy(), expected[i]["actions"])
    with pytest.raises(ValueError, match="room for 4 windows, asked for 5"):
        windows.gather(np.arange(5), out=room)


def test_memory_does_not_grow_with_history_or_horizon() -> None:
    sets = [make_set([50, 60], 0), make_set([40], 1)]
    frames = sum(s.frames for s in sets)
    for obs_steps, horizon in ((1, 1), (8, 64)):
        windows = Windows(sets, obs_steps, horizon)
        held = 0
        for name, value in vars(windows).items():
            if isinstance(value, np.ndarray):
                held += value.nbytes
                assert not any(np.shares_memory(value, s.actions) for s in sets), name
        assert held < 32 * frames + 32 * (obs_steps + horizon)  # indices only
        for mine, theirs in zip(windows._images, sets, strict=True):
            assert np.shares_memory(mine["front"], theirs.images["front"])


def test_mapped_sets_give_the_same_windows(make_file: MakeFile, tmp_path: Path) -> None:
    path = make_file(lengths=(4, 6, 3))
    plain = EpisodeSet.load(path)
    mapped = EpisodeSet.load(path, memory_limit_bytes=0, cache_dir=tmp_path / "cache")
    mixed = Windows([plain, mapped], obs_steps=2, horizon=4)
    index = np.random.default_rng(0).permutation(13)
    one, two = mixed.gather(index), mixed.gather(index + 13)
    both = mixed.gather(np.concatenate([index, index + 13]))
    assert torch.equal(one.images["agentview_image"], two.images["agentview_image"])
    assert torch.equal(both.images["agentview_image"][13:], one.images["agentview_image"])
    assert torch.equal(one.actions, two.actions)


@pytest.mark.parametrize("index", [[-1], [9], [0, 100]])
def test_indices_out_of_range(index: list[int]) -> None:
    windows = Windows([make_set([4, 5], 0)], 1, 1)
    with pytest.raises(IndexError, match=r"0\.\.8"):
        windows.gather(index)


def test_nonsense_is_refused() -> None:
    with pytest.raises(UserError, match="at least one set"):
        Windows([], 1, 1)
    with pytest.raises(UserError, match="at least 1"):
        Windows([make_set([3], 0)], 0, 1)
