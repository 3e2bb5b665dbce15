"""The example that asks a policy's features where the objects are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from demonstrations import SIZE, make_dataset

from beacon.policy import DiffusionPolicy, EncoderConfig, ObservationSpec, PolicyConfig, save_policy

EXAMPLE = Path(__file__).parents[2] / "examples" / "locate_objects.py"
CHANCE = 400.0  # mm: the mean distance of a coordinate in -0.8 .. 0.8 to their mean


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("placed") / "demos.hdf5", 200, steps=1)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not trained: the keypoints of random filters move with what is red."""
    folder = tmp_path_factory.mktemp("policy")
    spec = ObservationSpec({"agentview_image": (SIZE, SIZE, 3)}, {"robot0_eef_pos": 3}, action_dim=3)
    encoder = EncoderConfig(widths=(8, 8, 8, 8), output_stride=4, crop=1.0, feature_dim=None)
    config = PolicyConfig(obs_steps=1, encoder=encoder, denoiser="mlp")
    identity = {"offset": [0.0] * 3, "scale": [1.0] * 3}
    save_policy(
        folder,
        state=DiffusionPolicy(spec, config).state_dict(),
        ema_state=None,
        spec=spec,
        config=config,
        normalization={"actions": identity, "proprio": {"robot0_eef_pos": identity}},
    )
    return folder


def ask(*arguments: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, EXAMPLE, *arguments], capture_output=True, text=True)


def test_features_tell_where_the_square_is(policy: Path, demos: Path, tmp_path: Path) -> None:
    swapped = tmp_path / "swapped.hdf5"
    swapped.write_bytes(demos.read_bytes())
    with h5py.File(swapped, "r+") as file:
        names = sorted(file["data"])
        placements = [file["data"][name].attrs["placements"] for name in names]
        for name, wrong in zip(names, placements[1:] + placements[:1], strict=True):
            file["data"][name].attrs["placements"] = wrong
    done = ask(policy, demos, swapped)
    assert done.returncode == 0, done.stderr
    right, wrong = (float(off) for off in re.findall(r"\.hdf5: square (\d+\.\d) mm", done.stdout))
    assert right < 0.6 * CHANCE and wrong > CHANCE


def test_demonstrations_without_placements_are_refused(policy: Path, demos: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.hdf5"
    bare.write_bytes(demos.read_bytes())
    with h5py.File(bare, "r+") as file:
        del file["data/demo_3"].attrs["placements"]
    done = ask(policy, bare)
    assert done.returncode == 2
    assert done.stderr == f"{bare}: demo_3 does not say where the objects were; `beacon generate` does\n"
