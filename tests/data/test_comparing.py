"""What ``beacon data check`` says about domains that were meant alike and are not; check and train agree."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from raw_datasets import MakeFile
from raw_lerobot import write_v21, write_zarr

from beacon.cli.main import main
from beacon.data import ObservationMapping, check_files, load_domains
from beacon.data.checking import CheckOptions
from beacon.errors import UserError


def texts(paths: list[Path], options: CheckOptions | None = None) -> str:
    return "\n".join(f"{f.severity} {f}" for f in check_files(paths, options))


def scaled(path: Path, name: str, factor: float, offset: float = 0.0) -> Path:
    with h5py.File(path, "r+") as file:
        for demo in file["data"].values():
            demo[name][...] = demo[name][()] * factor + offset
    return path


def test_action_scales(make_file: MakeFile) -> None:
    target = make_file("real.hdf5", seed=1)
    said = texts([scaled(make_file("sim.hdf5"), "actions", 20), target])
    assert "actions of sim.hdf5 are about" in said and "times those of real.hdf5" in said
    assert "in the card of sim.hdf5, actions: {scale: 0.0" in said
    assert "times" not in texts([make_file("sim2.hdf5", seed=5), target])


def test_one_dimension_in_other_units(make_file: MakeFile) -> None:
    sim = make_file("sim.hdf5", lengths=(40, 40))
    with h5py.File(sim, "r+") as file:
        for demo in file["data"].values():
            demo["actions"][:, 6] *= 100
    said = texts([sim, make_file("real.hdf5", lengths=(40, 40), seed=1)])
    assert "actions: ranges of some dimensions differ" in said and "[6]" in said


@pytest.mark.parametrize(
    ("factor", "unit"), [(57.3, "degrees against radians"), (1000.0, "millimetres against metres")]
)
def test_units_of_proprioception(make_file: MakeFile, factor: float, unit: str) -> None:
    lengths = (200, 200)
    sim = scaled(make_file("sim.hdf5", lengths=lengths), "obs/robot0_eef_pos", factor)
    said = texts([sim, make_file("real.hdf5", lengths=lengths, seed=1)])
    assert "'robot0_eef_pos' of sim.hdf5 are about" in said and unit in said


def test_ranges_that_do_not_overlap(make_file: MakeFile) -> None:
    sim = scaled(make_file("sim.hdf5"), "obs/robot0_eef_pos", 1.0, 50.0)
    assert "'robot0_eef_pos': ranges do not overlap" in texts([sim, make_file("real.hdf5", seed=1)])


def test_rates_lengths_brightness_and_shapes(make_file: MakeFile) -> None:
    sim = make_file("sim.hdf5", lengths=(50, 60), size=(120, 160))
    with h5py.File(sim, "r+") as file:
        file["data"].attrs["env_args"] = '{"env_kwargs": {"control_freq": 10}}'
        for demo in file["data"].values():
            demo["obs/agentview_image"][...] = 250
            demo["obs/agentview_image"][:, 0, 0, 0] = np.arange(len(demo["actions"]))[:, None][:, 0]
    options = CheckOptions(ObservationMapping(image_size=64))
    said = texts([sim, make_file("real.hdf5", seed=1, size=(64, 64))], options)
    assert "sim.hdf5 10 Hz, real.hdf5 20 Hz" in said and "actions: {resample: hold}" in said
    assert "demonstrations of sim.hdf5 last 5.5s" in said
    assert "is much brighter in sim.hdf5" in said
    assert "is 120×160 and would be squashed to 64×64" in said and "image_fit: pad or crop" in said


def test_check_and_train_agree(make_file: MakeFile, capsys: pytest.CaptureFixture[str]) -> None:
    sim, real = make_file("sim.hdf5"), make_file("real.hdf5", cameras=("front",), seed=1)
    with pytest.raises(UserError) as caught:
        load_domains([sim, real])
    assert main(["data", "check", str(sim), str(real)]) == 2
    assert str(caught.value) in capsys.readouterr().out
    renamed = ["--rename", "agentview_image=front"]
    assert main(["data", "check", str(sim), str(real), *renamed]) == 0
    load_domains([sim, real], mapping=ObservationMapping(rename={"agentview_image": "front"}))
    narrow = make_file("narrow.hdf5", action_dim=4, seed=2)
    assert main(["data", "check", str(sim), str(narrow)]) == 2
    capsys.readouterr()
    assert main(["data", "check", str(sim), str(real), "--cameras", "side"]) == 2
    out = capsys.readouterr().out
    assert "no observation 'side'; there are agentview_image" in out


def test_held_out_demonstrations(make_file: MakeFile, capsys: pytest.CaptureFixture[str]) -> None:
    sim, real = make_file("sim.hdf5"), make_file("real.hdf5", seed=1)
    assert main(["data", "check", str(sim), str(real), "--validation", str(real)]) == 0
    assert "the held-out demonstrations are the training demonstrations" in capsys.readouterr().out
    copy = make_file("copy.hdf5", seed=1)
    assert main(["data", "check", str(sim), str(real), "--validation", str(copy)]) == 0
    assert "the domains are not separate" in capsys.readouterr().out
    other = make_file("other.hdf5", seed=9)
    assert main(["data", "check", str(sim), str(real), "--validation", str(other)]) == 0
    assert "sound" in capsys.readouterr().out


def test_inspect_shows_dimensions_and_writes_a_page(
    tmp_path: Path, make_file: MakeFile, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    root = write_v21(tmp_path / "<script>x")
    assert main(["data", "inspect", str(root), "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "observation.state[3]" in out and "│ d " in out and "10 steps a second" in out and "lift" in out
    assert main(["data", "inspect", str(write_zarr(tmp_path / "zarr"))]) == 0
    assert "│ state[3] " in capsys.readouterr().out, "vectors of a dataset without known names are shown too"
    text = page.read_text()
    assert text.count("<svg") == 4 + 3 and "data:image/jpeg;base64," in text
    assert "<script" not in text and "&lt;script&gt;" in text
    assert "http://" not in text and "https://" not in text
    with pytest.raises(UserError, match=r"\.html file"):
        from beacon.cli.data import main as data_main

        data_main(["inspect", str(make_file()), "--html", str(tmp_path / "page.txt")])
