"""``beacon audit`` from files to tables, JSON, Parquet and a page; bad input is one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import point_robot as robot
import pyarrow.parquet as pq
import pytest

from beacon.audit.saved import read_audit
from beacon.cli.main import main
from beacon.data.converting import ConvertOptions, convert


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[int]]:
    """A source with mirrored demonstrations and one with a hostile note, a target, and which are mirrored."""
    folder = tmp_path_factory.mktemp("audit")
    demos = robot.demonstrations(30, seed=21)
    chosen = robot.corrupted(demos, robot.mirrored(0), 0.2)
    source = robot.write(folder / "<b>source.hdf5", demos)
    return source, robot.write(folder / "target.hdf5", robot.demonstrations(8, seed=22)), chosen


def test_everything_is_written(
    files: tuple[Path, Path, list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target, chosen = files
    out = tmp_path / "audit"

    assert main(["audit", "--source", str(source), "--target", str(target), "--out", str(out)]) == 0

    printed = capsys.readouterr()
    assert "found sound" in printed.out and "action dimension 0 is mirrored" in printed.out
    assert "95% interval" in printed.out
    saved = read_audit(out)
    assert set(chosen) <= set(saved.result.sets[0].accused)
    assert [record.is_target for record in saved.data] == [False, True]
    table = pq.read_table(out / "audit.parquet").to_pylist()
    assert len(table) == 30
    assert all(table[number]["accused"] for number in chosen)
    page = (out / "audit.html").read_text()
    assert "&lt;b&gt;source" in page and "<b>source" not in page and "<script" not in page
    assert sorted(file.name for file in out.iterdir()) == ["audit.html", "audit.json", "audit.parquet"]


def test_json_goes_to_the_output_alone(
    files: tuple[Path, Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target, chosen = files

    assert main(["audit", "--source", str(source), "--target", str(target), "--json"]) == 0

    content = json.loads(capsys.readouterr().out)
    demos = content["result"]["sets"][0]["demos"]
    assert [number for number in chosen if not demos[number]["is_accused"]] == []


def test_a_lerobot_folder_gets_the_line_that_removes_the_accused(
    files: tuple[Path, Path, list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target, chosen = files
    convert(source, tmp_path / "source_lerobot", ConvertOptions(video=False))
    convert(target, tmp_path / "target_lerobot", ConvertOptions(video=False))
    folders = ["--source", str(tmp_path / "source_lerobot"), "--target", str(tmp_path / "target_lerobot")]

    assert main(["audit", *folders]) == 0

    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("lerobot-edit-dataset"))
    numbers = json.loads(line.rpartition("--operation.episode_indices ")[2].strip('"'))
    assert set(chosen) <= set(numbers)
    assert "--operation.type delete_episodes" in line


def one_demonstration(folder: Path) -> Path:
    return robot.write(folder / "one.hdf5", robot.demonstrations(1, seed=1))


def empty(folder: Path) -> Path:
    path = robot.write(folder / "empty.hdf5", robot.demonstrations(1, seed=1))
    with h5py.File(path, "r+") as file:
        del file["data/demo_0"]
    return path


def other_actions(folder: Path) -> Path:
    demos = robot.demonstrations(3, seed=1)
    for demo in demos:
        demo["actions"] = demo["actions"][:, :3]
    return robot.write(folder / "three.hdf5", demos)


def not_a_number(folder: Path) -> Path:
    demos = robot.demonstrations(3, seed=1)
    demos[1]["actions"][4, 2] = np.nan
    return robot.write(folder / "nan.hdf5", demos)


def no_state(folder: Path) -> Path:
    demos = robot.demonstrations(3, seed=1)
    demos[1]["state"][4, 2] = np.inf
    return robot.write(folder / "inf.hdf5", demos)


def without_camera(folder: Path) -> Path:
    path = robot.write(folder / "blind.hdf5", robot.demonstrations(3, seed=1))
    with h5py.File(path, "r+") as file:
        for name in file["data"]:
            del file[f"data/{name}/obs/agentview_image"]
    return path


BAD = (empty, other_actions, not_a_number, no_state, without_camera)


@pytest.mark.parametrize(
    ("make", "role"), [(one_demonstration, 0), *((make, role) for make in BAD for role in (0, 1))]
)
def test_bad_input_is_one_line_and_writes_nothing(
    make: Callable[[Path], Path],
    role: int,
    files: tuple[Path, Path, list[int]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths, out = [str(files[0]), str(files[1])], tmp_path / "audit"
    paths[role] = str(make(tmp_path))

    assert main(["audit", "--source", paths[0], "--target", paths[1], "--out", str(out)]) == 2

    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("beacon:")]
    assert len([line for line in lines if "warning" not in line]) == 1
    assert not out.exists()


def test_missing_sets_are_named(
    files: tuple[Path, Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    for given, missing in (("source", "target"), ("target", "source")):
        assert main(["audit", f"--{given}", str(files[0])]) == 2
        assert f"beacon: name at least one --{missing}; see beacon audit" in capsys.readouterr().err


def test_one_target_demonstration_is_said_and_accuses_nobody_by_motion(
    files: tuple[Path, Path, list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = one_demonstration(tmp_path)

    assert main(["audit", "--source", str(files[0]), "--target", str(target)]) == 0

    assert capsys.readouterr().out.count("one target demonstration makes no model of motion") == 1


def test_wrong_options_are_refused(
    files: tuple[Path, Path, list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    both = ["--source", str(files[0]), "--target", str(files[1])]

    assert main(["audit", *both, "--false-discovery-rate", "1.5"]) == 2
    assert main(["audit", "--target", str(files[1])]) == 2
    assert main(["audit", *both, "--out", str(files[0])]) == 2
