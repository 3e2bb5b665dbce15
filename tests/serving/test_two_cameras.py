"""Two cameras and larger images all the way: generated, trained, looked at, evaluated, served, exported."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest
from report_runs import build
from running_servers import serving, url
from safetensors.torch import load_file
from tiny_runs import TINY_OPTIONS, metrics

from beacon import load_policy
from beacon.cli.main import main
from beacon.cli.train import parse
from beacon.report.figure_spec import Line
from beacon.report.reproduce import train_command
from beacon.serving import Client
from beacon.training.config import read_config

SIZE = 112  # pixels, more than the simulator draws unless told
CAMERAS = ["agentview", "robot0_eye_in_hand"]
KEYS = ["agentview_image", "robot0_eye_in_hand_image"]
STEPS = [
    "--steps",
    "4",
    "--steps-per-epoch",
    "2",
    "--batch-size",
    "8",
    "--device",
    "cpu",
    "--threads",
    "1",
    "--log-every",
    "1",
]
LOOKS = [
    "--evaluate-every",
    "2",
    "--evaluate-task",
    "lift",
    "--evaluate-domain",
    "texture-view",
    "--evaluate-episodes",
    "2",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on demonstrations of two cameras, with an early look at its end."""
    folder = tmp_path_factory.mktemp("cameras")
    for name, domain, demos in (("source", "source", 2), ("target", "texture-view", 1)):
        command = ["generate", "lift", "--domain", domain, "--demos", str(demos), "--cameras", *CAMERAS]
        out = folder / f"{name}.hdf5"
        assert main([*command, "--image-size", str(SIZE), "--out", str(out)]) == 0
    data = ["--source", str(folder / "source.hdf5"), "--target", str(folder / "target.hdf5")]
    method = ["--method", "cotrain", *TINY_OPTIONS]
    assert main(["train", *data, *method, *STEPS, *LOOKS, "--out", str(folder / "run")]) == 0
    return folder / "run"


def test_demonstrations_have_both_pictures(run: Path) -> None:
    with h5py.File(run.parent / "source.hdf5") as file:
        arguments = json.loads(file["data"].attrs["env_args"])["env_kwargs"]
        assert arguments["camera_names"] == CAMERAS and arguments["camera_heights"] == SIZE
        for demo in file["data"].values():
            steps = len(demo["actions"])
            front, wrist = (demo["obs"][key][()] for key in KEYS)
            assert front.shape == wrist.shape == (steps, SIZE, SIZE, 3)
            for one, other in ((front[0], front[-1]), (wrist[0], wrist[-1]), (front[0], wrist[0])):
                assert np.abs(one.astype(int) - other).mean() > 10


def test_every_camera_has_a_map_of_its_own(run: Path) -> None:
    policy = load_policy(run)
    assert policy.spec.cameras == {key: (SIZE, SIZE, 3) for key in KEYS}
    weights = load_file(run / "checkpoints" / "00000004" / "policy.safetensors")
    maps = [value for name, value in weights.items() if name.endswith("departure")]
    assert len(maps) == 2 and all(bool(one.abs().sum() > 0) for one in maps)
    assert bool((maps[0] != maps[1]).any())


def test_an_early_look_is_a_line_a_curve_and_a_figure(run: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (look,) = metrics(run, "evaluation")
    assert look["step"] == 4 and look["episodes"] == 2
    assert (look["task"], look["domain"], look["region"]) == ("lift", "texture-view", "train")
    assert 0 <= look["low"] <= look["success"] <= look["high"] <= 1
    board = EventAccumulator(str(run)).Reload()
    assert [(e.step, e.value) for e in board.Scalars("evaluation/success")] == [(4, look["success"])]
    figure = next(figure for figure in build(run).figures if figure.key == "early-looks")
    (panel,) = figure.panels
    assert panel.title == "lift small, texture-view, train region, 2 episodes"
    (mark,) = panel.marks
    assert isinstance(mark, Line) and (mark.x, mark.y) == ([4.0], [look["success"]])


def test_the_report_names_the_command_with_its_looks(run: Path) -> None:
    config = read_config(run / "config.yaml")
    assert config.run.looks.evaluate_task == "lift"
    assert parse(shlex.split(train_command(config, run))[2:]).config() == config


def test_an_early_look_sees_what_an_evaluation_sees(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    setting = ["--task", "lift", "--domain", "texture-view", "--episodes", "2", "--seed", "2000"]
    assert main(["evaluate", str(run), *setting, "--device", "cpu", "--out", str(out)]) == 0
    (look,) = metrics(run, "evaluation")
    assert json.loads(out.read_text())["rates"]["success"]["rate"] == look["success"]


def test_served_and_exported_it_does_the_same(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), str(tmp_path / "policy")]) == 0
    policy, copy = load_policy(run), load_policy(tmp_path / "policy")
    with h5py.File(run.parent / "target.hdf5") as file:
        demo = file["data/demo_0/obs"]
        seen = {key: demo[key][0] for key in (*KEYS, *policy.spec.proprio_names)}
    actions = policy.predict(seen)
    np.testing.assert_array_equal(copy.predict(seen), actions)
    with serving(tmp_path / "policy") as server, Client(url(server)) as client:
        np.testing.assert_array_equal(client.act(seen), actions)
    blind = {**seen, KEYS[1]: np.zeros_like(seen[KEYS[1]])}
    policy.reset(0)
    assert (policy.predict(blind) != actions).any()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--cameras", "topview"], "--cameras topview: lift has agentview, robot0_eye_in_hand"),
        (["--image-size", "8"], "--image-size is 8; it must lie between 16 and 1024"),
    ],
)
def test_bad_cameras_are_one_line(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "lift", "--out", str(tmp_path / "x.hdf5"), *options]) == 2
    assert capsys.readouterr().err == f"beacon: {says}\n"
    assert list(tmp_path.iterdir()) == []
