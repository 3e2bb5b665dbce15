from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from demonstrations import make_dataset

from beacon.data.corruption import (
    DELAY,
    choose_corruptions,
    corrupted,
    corruption_of,
    write_corrupted,
)
from beacon.errors import UserError


def actions_of(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: file["data"][name]["actions"][()] for name in file["data"]}


def test_known_shares_are_corrupted_and_say_so(tmp_path: Path) -> None:
    source = make_dataset(tmp_path / "sound.hdf5", 10, action_dim=4)
    out = tmp_path / "bad.hdf5"
    shares = {"delayed": 0.2, "mirrored": 0.1, "noisy": 0.1, "blank": 0.1}

    def blank(data: h5py.Group, name: str) -> None:
        data[name]["obs"]["agentview_image"][...] = 0

    counts = write_corrupted(source, out, shares, 3, {"blank": blank})
    assert counts == {"delayed": 2, "mirrored": 1, "noisy": 1, "blank": 1, "none": 5}
    before, after = actions_of(source), actions_of(out)
    with h5py.File(out) as file, h5py.File(source) as sound:
        for name, demo in file["data"].items():
            kind = demo.attrs["corruption"]
            assert corruption_of(demo.attrs) == demo.attrs["flaw"] == kind
            assert (before[name] != after[name]).any() == (kind in ("delayed", "mirrored", "noisy"))
            same = (
                demo["obs"]["agentview_image"][()] == sound["data"][name]["obs"]["agentview_image"][()]
            ).all()
            assert same == (kind != "blank")
    assert "flaw" not in h5py.File(source)["data"]["demo_0"].attrs


def test_what_each_corruption_does() -> None:
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (20, 4)).astype(np.float32)
    mirrored = corrupted(actions, "mirrored", rng)
    np.testing.assert_array_equal(mirrored, actions * np.array([1, -1, 1, 1], np.float32))
    delayed = corrupted(actions, "delayed", rng)
    np.testing.assert_array_equal(delayed[DELAY:], actions[:-DELAY])
    assert (delayed[:DELAY, :3] == 0).all() and (delayed[:DELAY, 3] == actions[0, 3]).all()
    noisy = corrupted(np.zeros((4000, 4), np.float32), "noisy", rng)
    assert np.abs(noisy).max() <= 1 and 0.4 < noisy[:, :3].std() < 0.5 and (noisy[:, 3] == 0).all()
    np.testing.assert_array_equal(corrupted(actions, "none", rng), actions)
    assert len(corrupted(actions[:3], "delayed", rng)) == 3


def test_the_choice_is_the_seeds() -> None:
    shares = {"noisy": 0.3}
    first, again, other = (choose_corruptions(50, shares, seed) for seed in (1, 1, 2))
    assert first == again != other and first.count("noisy") == other.count("noisy") == 15


def test_bad_shares_are_refused(tmp_path: Path) -> None:
    source = make_dataset(tmp_path / "sound.hdf5", 2)
    with pytest.raises(UserError, match="no corruption 'tired'"):
        write_corrupted(source, tmp_path / "out.hdf5", {"tired": 0.5}, 0)
    with pytest.raises(UserError, match=r"add up to 1\.6"):
        write_corrupted(source, tmp_path / "out.hdf5", {"noisy": 1.0, "delayed": 0.6}, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sound.hdf5"]
