"""What coarse pictures say of demonstrations before anything is learned, and weights that start from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from demonstrations import make_dataset
from sklearn.metrics import roc_auc_score
from tiny_runs import metrics, tiny_config

from beacon.data import ObservationMapping, Windows
from beacon.data.episodes import EpisodeSet
from beacon.data.image_features import ImageFeatures
from beacon.methods import RECOMMENDED
from beacon.plain import changed
from beacon.training import train
from beacon.weighting import NeighborActionCheck

DEMOS, BAD = 80, 8
COMPONENTS = ImageFeatures().components


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source whose first demonstrations act at random, and a target."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("looks")
    source = make_dataset(folder / "sim.hdf5", DEMOS, steps=9, seed=1)
    with h5py.File(source, "r+") as file:
        for number in range(BAD):
            actions = file["data"][f"demo_{number}"]["actions"]
            actions[:, :2] = rng.uniform(-1, 1, (len(actions), 2))
    return source, make_dataset(folder / "real.hdf5", 3, steps=9, seed=3, background=(90, 60, 30))


def test_windows_that_look_alike_are_near(data: tuple[Path, Path]) -> None:
    windows = Windows([EpisodeSet.load(path, name=path.stem) for path in data], obs_steps=2, horizon=4)
    features = ImageFeatures().of(windows)
    assert features.shape == (len(windows), COMPONENTS + 3) and torch.isfinite(features).all()
    assert torch.equal(features, ImageFeatures().of(windows))
    # Two steps of one demonstration are nearer than two demonstrations.
    steps = (features[1:9] - features[:8]).norm(dim=1).mean()
    demos = (features[9:81:9] - features[0]).norm(dim=1).mean()
    assert steps < 0.5 * demos


def test_without_cameras_or_proprioception_the_other_serves(data: tuple[Path, Path]) -> None:
    for mapping, wide in (
        (ObservationMapping(cameras=()), 3),
        (ObservationMapping(proprio=()), COMPONENTS),
    ):
        one = EpisodeSet.load(data[0], mapping=mapping)
        assert ImageFeatures().of(Windows([one], 1, 4)).shape == (one.frames, wide)


def test_the_first_weights_come_from_the_data_alone(data: tuple[Path, Path], tmp_path: Path) -> None:
    options = replace(RECOMMENDED, checks=(NeighborActionCheck(),))
    train(tiny_config("beacon", *data, options=options, steps=4), tmp_path / "run")
    first = metrics(tmp_path / "run", "refresh")[0]
    assert first["step"] == 0 and first["swept_windows"] == 0
    history = pq.read_table(tmp_path / "run" / "weights" / "episodes.parquet").to_pydict()
    rows = zip(history["step"], history["episode"], history["weight"], strict=True)
    weights = np.array([weight for step, episode, weight in rows if step == 0 and episode < DEMOS])
    assert len(weights) == DEMOS and roc_auc_score(np.arange(DEMOS) < BAD, -weights) > 0.7


def test_an_exact_first_refresh_looks_at_the_policy(data: tuple[Path, Path], tmp_path: Path) -> None:
    options = changed(RECOMMENDED, {"measurement": "sweep-all"})
    train(tiny_config("beacon", *data, options=options, steps=4), tmp_path / "run")
    first = metrics(tmp_path / "run", "refresh")[0]
    assert first["step"] == 0 and first["swept_windows"] > 0


def test_without_a_minimiser_or_the_pictures_there_is_no_such_start(
    data: tuple[Path, Path], tmp_path: Path
) -> None:
    for name, options in (
        ("steps", changed(RECOMMENDED, {"weighting": {"solver": "steps"}})),
        ("learned", changed(RECOMMENDED, {"checks": [{"part": "neighbor-actions", "prior": "none"}]})),
        ("unchecked", changed(RECOMMENDED, {"checks": []})),
    ):
        train(tiny_config("beacon", *data, options=options, steps=4), tmp_path / name)
        assert metrics(tmp_path / name, "refresh")[0]["step"] > 0
