"""Actions that do not explain the motion beside them are found, whatever the images show."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from demonstrations import make_dataset
from tiny_runs import metrics, tiny_config

from beacon.data import Windows
from beacon.data.episodes import EpisodeSet
from beacon.errors import UserError
from beacon.methods import RECOMMENDED
from beacon.plain import changed
from beacon.training import train
from beacon.weighting import DiscrepancyWarning, InverseDynamicsCheck
from beacon.weighting.checks.inverse_dynamics import misfit_factors

STEPS = 20
CHECK = InverseDynamicsCheck()
REQUIRED = changed(
    RECOMMENDED, {"checks": ["neighbor-actions", {"part": "inverse-dynamics", "required": True}]}
)


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("motion") / "real.hdf5", 8, steps=STEPS, seed=3)


def windows(*paths: Path) -> Windows:
    sets = [EpisodeSet.load(path, name=path.stem) for path in paths]
    return Windows(sets, obs_steps=1, horizon=8)


def factors_of(path: Path, trusted: Path) -> np.ndarray:
    """One factor per source demonstration."""
    both = windows(path, trusted)
    found = misfit_factors(both, 1, CHECK)
    assert (
        found is not None
        and found.shape == (len(both),)
        and found.min() >= 1
        and found.max() <= CHECK.largest_factor
    )
    demos = [found[both.episode == e] for e in range(len(both.sets[0]))]
    assert all(np.all(demo == demo[0]) for demo in demos)
    return np.array([demo[0] for demo in demos])


def test_sound_demonstrations_of_another_look_are_left_alone(trusted: Path, tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "sim.hdf5", 6, steps=STEPS, seed=1, background=(200, 10, 90))
    np.testing.assert_array_equal(factors_of(path, trusted), 1.0)


@pytest.mark.parametrize("fault", ["mirrored", "delayed", "noisy"])
def test_faults_of_the_actions_are_found(fault: str, trusted: Path, tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "sim.hdf5", 6, steps=STEPS, seed=1)
    rng = np.random.default_rng(0)
    with h5py.File(path, "r+") as file:
        for name in ("demo_0", "demo_3"):
            actions = file["data"][name]["actions"]
            moved = actions[()]
            if fault == "mirrored":
                moved[:, :2] *= -1
            elif fault == "delayed":
                moved[5:], moved[:5] = moved[:-5].copy(), 0
            else:
                moved += rng.normal(0, 0.5, moved.shape)
            actions[...] = moved
    found = factors_of(path, trusted)
    bad = np.isin(np.arange(6), (0, 3))
    assert found[bad].min() > 1.1
    np.testing.assert_array_equal(found[~bad], 1.0)


def test_one_target_demonstration_is_no_yardstick(tmp_path: Path) -> None:
    paths = [
        make_dataset(tmp_path / f"{name}.hdf5", count, seed=count) for name, count in (("a", 3), ("b", 1))
    ]
    assert misfit_factors(windows(*paths), 1, CHECK) is None
    train(tiny_config("beacon", *paths, data={"target_demos": 1}), tmp_path / "auto")
    assert "discrepancy/inverse_dynamics" not in metrics(tmp_path / "auto", "refresh")[-1]
    asked = tiny_config("beacon", *paths, options=REQUIRED)
    with pytest.warns(
        DiscrepancyWarning, match=r"but one demonstration.*the check inverse-dynamics has no effect"
    ):
        train(asked, tmp_path / "required")


def test_motion_that_explains_nothing_is_no_yardstick(trusted: Path, tmp_path: Path) -> None:
    target = Path(shutil.copy(trusted, tmp_path / "real.hdf5"))
    rng = np.random.default_rng(0)
    with h5py.File(target, "r+") as file:
        for demo in file["data"].values():
            demo["actions"][...] = rng.normal(size=demo["actions"].shape)
    assert misfit_factors(windows(trusted, target), 1, CHECK) is None


def test_dimensions_that_never_move_in_the_target_do_not_count(tmp_path: Path) -> None:
    target = make_dataset(tmp_path / "real.hdf5", 4, steps=STEPS, seed=3, action_dim=7)
    path = make_dataset(tmp_path / "sim.hdf5", 6, steps=STEPS, seed=1, action_dim=7)
    rng = np.random.default_rng(0)
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            demo["actions"][:, 2:6] = rng.normal(0, 0.05, (STEPS, 4))
    np.testing.assert_array_equal(factors_of(path, target), 1.0)


def test_without_proprioception_only_an_explicit_check_is_refused(trusted: Path, tmp_path: Path) -> None:
    blind = [Path(shutil.copy(trusted, tmp_path / f"{name}.hdf5")) for name in ("sim", "real")]
    for path in blind:
        with h5py.File(path, "r+") as file:
            for demo in file["data"].values():
                del demo["obs/robot0_eef_pos"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(tiny_config("beacon", *blind), tmp_path / "auto")
    assert "discrepancy/inverse_dynamics" not in metrics(tmp_path / "auto", "refresh")[-1]
    with pytest.raises(UserError, match="no proprioception to check actions by; leave inverse-dynamics out"):
        train(tiny_config("beacon", *blind, options=REQUIRED), tmp_path / "required")
    assert not (tmp_path / "required").exists()


def test_demonstrations_shorter_than_the_look_ahead(trusted: Path, tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "short.hdf5", 2, steps=3)
    np.testing.assert_array_equal(factors_of(path, trusted), 1.0)


def test_the_discrepancy_of_a_run_is_multiplied(trusted: Path, tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "sim.hdf5", 4, steps=STEPS, seed=1, mirrored=True)
    for name, checks in (
        ("required", [{"part": "inverse-dynamics", "required": True}]),
        ("auto", ["inverse-dynamics"]),
        ("none", []),
    ):
        options = changed(RECOMMENDED, {"checks": checks})
        train(tiny_config("beacon", path, trusted, options=options), tmp_path / name)
    required, checked, plain = (metrics(tmp_path / name, "refresh") for name in ("required", "auto", "none"))
    assert required == checked
    checked, plain = (next(line for line in lines if line["epoch"] == 1) for lines in (checked, plain))
    assert checked["discrepancy/inverse_dynamics"] > 1.2
    assert checked["discrepancy/mean"] > 1.2 * plain["discrepancy/mean"]
