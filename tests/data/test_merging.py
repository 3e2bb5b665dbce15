"""Several datasets as one domain, and a share of it held out."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from raw_datasets import MakeFile
from raw_lerobot import CAMERA, write_v21

from beacon.data import EpisodeSet, ObservationMapping, Windows, load_domains
from beacon.data.merging import hold_out, open_domain, validation_share, warn_if_seen
from beacon.errors import UserError


def test_several_datasets_are_one_domain(make_file: MakeFile, tmp_path: Path) -> None:
    source = make_file("sim.hdf5", seed=1)
    targets = [
        make_file("monday.hdf5", lengths=(4, 5), seed=2),
        make_file("tuesday.hdf5", lengths=(3,), seed=3),
    ]
    for limit_bytes in (None, 0):
        sets = load_domains([source, targets], memory_limit_bytes=limit_bytes, cache_dir=tmp_path / "cache")
        assert len(sets) == 2 and sets[1].path == targets[0]
        assert sets[1].episode_names == ["monday/demo_0", "monday/demo_1", "tuesday/demo_0"]
        assert sets[1].lengths.tolist() == [4, 5, 3]
        each = [EpisodeSet.load(path) for path in targets]
        np.testing.assert_array_equal(sets[1].actions, np.concatenate([s.actions for s in each]))
        images = np.concatenate([s.images["agentview_image"] for s in each])
        np.testing.assert_array_equal(sets[1].images["agentview_image"], images)
    assert len(Windows(sets, 2, 4)) == 12 + 12
    assert len(EpisodeSet.load(targets, limit=2)) == 2


def test_formats_can_be_mixed(make_file: MakeFile, tmp_path: Path) -> None:
    write_v21(tmp_path / "arm")
    card = tmp_path / "arm.yaml"
    card.write_text(
        f"path: arm\ncameras: {{agentview_image: {CAMERA}}}\nimage_size: [6, 8]\nrecorded_fps: 20\n"
        "proprio: {robot0_eef_pos: 'observation.state[0:3]'}\n"
    )
    mapping = ObservationMapping(proprio=("robot0_eef_pos",))
    merged = EpisodeSet.load([make_file("sim.hdf5", action_dim=3), card], mapping=mapping)
    assert merged.lengths.tolist() == [5, 3, 4, 7, 5, 6]
    assert merged.episode_names[3] == "arm/episode_0"


def test_refusals(make_file: MakeFile, tmp_path: Path) -> None:
    file = make_file()
    with pytest.raises(UserError, match="given twice"):
        open_domain([file, file])
    slow = write_v21(tmp_path / "slow", fps=5)
    with pytest.raises(UserError, match="different control rates"):
        open_domain([file, slow])
    with pytest.raises(UserError, match="no such file"):
        open_domain([file, tmp_path / "gone.hdf5"])


@pytest.mark.parametrize(
    ("share", "demos", "expected"), [(0.1, 20, 2), (0.1, 3, 1), (0.9, 2, 1), (0.5, 5, 2)]
)
def test_a_share_is_held_out(make_file: MakeFile, share: float, demos: int, expected: int) -> None:
    episodes = EpisodeSet.load(make_file(lengths=(2,) * demos))
    kept, held_out = hold_out(episodes, share)
    assert len(held_out) == expected and len(kept) + len(held_out) == demos
    assert set(kept.episode_names) | set(held_out.episode_names) == set(episodes.episode_names)
    again = hold_out(episodes, share)[1]
    assert again.episode_names == held_out.episode_names
    if demos == 20:
        assert hold_out(episodes, share, seed=1)[1].episode_names != held_out.episode_names


def test_a_share_or_a_dataset(make_file: MakeFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert validation_share("0.1") == 0.1 and validation_share(make_file()) is None
    monkeypatch.chdir(tmp_path)
    write_v21(tmp_path / "0.5")
    assert validation_share("0.5") is None  # there is a dataset of that name


def test_nothing_can_be_held_out(make_file: MakeFile) -> None:
    with pytest.raises(UserError, match="single demonstration"):
        hold_out(EpisodeSet.load(make_file(lengths=(4,))), 0.5)
    for share in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(UserError, match="between 0 and 1"):
            hold_out(EpisodeSet.load(make_file()), share)


def test_held_out_demonstrations_that_are_trained_on(make_file: MakeFile, tmp_path: Path) -> None:
    file = make_file()
    link = tmp_path / "link.hdf5"
    link.symlink_to(file)
    with pytest.warns(match="the training demonstrations"):
        warn_if_seen(link, [file])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_seen(make_file("other.hdf5"), [file])
