"""``beacon data repair``: actions as they were before the corruption, and nothing else changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import point_robot as robot
import pytest

from beacon.audit.evidence import Repair
from beacon.audit.repair import NOTE, repaired_actions
from beacon.cli.main import main
from beacon.data import open_dataset
from beacon.data.decisions import Decision, append_decision


def test_each_kind_is_undone() -> None:
    actions = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    late = np.concatenate([np.repeat(actions[:1], 4, axis=0), actions[:-4]])
    after = (3.0, 1.0)

    assert np.array_equal(repaired_actions(late, Repair("lag", *after, lag=4))[:-4], actions[:-4])
    flipped = actions * np.float32([1, -1, 1])
    assert np.array_equal(repaired_actions(flipped, Repair("sign", *after, signs=(1, -1, 1))), actions)
    doubled = Repair("scale", *after, scale=(2.0, 2.0, 2.0))
    assert np.array_equal(repaired_actions(2 * actions, doubled), actions)
    shifted = Repair("offset", *after, offset=(0.5, 0.5, 0.5))
    assert np.allclose(repaired_actions(actions + np.float32(0.5), shifted), actions, atol=1e-6)
    swapped = Repair("permutation", *after, order=(1, 0, 2))
    assert np.array_equal(repaired_actions(actions[:, [1, 0, 2]], swapped), actions)


@pytest.fixture
def audited(tmp_path: Path) -> tuple[Path, list[np.ndarray], list[int]]:
    """A file with mirrored and noisy demonstrations and its audit; the sound actions; the mirrored ones."""
    demos = robot.demonstrations(30, seed=31)
    sound = [demo["actions"].copy() for demo in demos]
    chosen = robot.corrupted(demos[:20], robot.mirrored(0), 0.3)
    robot.corrupted(demos[20:], robot.noisy, 0.3)
    source = robot.write(tmp_path / "source.hdf5", demos)
    target = robot.write(tmp_path / "target.hdf5", robot.demonstrations(8, seed=32))
    command = ["audit", "--source", str(source), "--target", str(target), "--out", str(tmp_path / "audit")]
    assert main(command) == 0
    return source, sound, chosen


def test_a_dataset_is_repaired(
    audited: tuple[Path, list[np.ndarray], list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, sound, chosen = audited
    before = hashlib.sha256(source.read_bytes()).hexdigest()
    out = tmp_path / "repaired.hdf5"
    capsys.readouterr()

    assert main(["data", "repair", str(source), str(out), "--audit", str(tmp_path / "audit")]) == 0

    assert hashlib.sha256(source.read_bytes()).hexdigest() == before
    assert f"{len(chosen)} of 30" in capsys.readouterr().out
    with open_dataset(out) as repaired, open_dataset(source) as original:
        notes = {n: repaired.attributes(f"demo_{n}")[NOTE] for n in range(30)}
        assert [n for n, note in notes.items() if note != "none"] == chosen
        for number, actions in enumerate(sound):
            written = repaired.read(f"demo_{number}", "actions")
            expected = actions if number in chosen else original.read(f"demo_{number}", "actions")
            assert np.allclose(written, expected, atol=1e-6)
    assert json.loads(notes[chosen[0]])["kind"] == "sign"


def test_only_what_was_asked_for_is_changed(
    audited: tuple[Path, list[np.ndarray], list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, _, _ = audited
    command = ["data", "repair", str(source), str(tmp_path / "out.hdf5"), "--audit", str(tmp_path / "audit")]

    assert main([*command, "--only", "lag"]) == 0
    assert ": 0 of 30" in capsys.readouterr().out
    assert main([*command, "--only", "colour", "--overwrite"]) == 2


def test_an_audit_of_other_data_is_refused(
    audited: tuple[Path, list[np.ndarray], list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = robot.write(tmp_path / "other.hdf5", robot.demonstrations(30, seed=33))
    out = tmp_path / "out.hdf5"

    assert main(["data", "repair", str(other), str(out), "--audit", str(tmp_path / "audit")]) == 2
    assert "audit of other data" in capsys.readouterr().err
    assert not out.exists()


def test_a_damaged_audit_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = robot.write(tmp_path / "source.hdf5", robot.demonstrations(2, seed=1))
    (tmp_path / "audit.json").write_text('{"version": 3}')
    out = tmp_path / "out.hdf5"

    assert main(["data", "repair", str(source), str(out), "--audit", str(tmp_path / "audit.json")]) == 2
    assert main(["data", "repair", str(source), str(out), "--audit", str(tmp_path / "none.json")]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not out.exists()


def test_only_what_was_decided_is_repaired(
    audited: tuple[Path, list[np.ndarray], list[int]], tmp_path: Path
) -> None:
    source, sound, chosen = audited
    decisions, out = tmp_path / "decisions.jsonl", tmp_path / "repaired.hdf5"
    left_out = next(number for number in range(30) if number not in chosen)
    append_decision(decisions, Decision("source.hdf5", f"demo_{chosen[0]}", "repair"))
    append_decision(decisions, Decision("source.hdf5", f"demo_{left_out}", "drop"))

    command = ["data", "repair", str(source), str(out), "--audit", str(tmp_path / "audit")]
    assert main([*command, "--decisions", str(decisions)]) == 0
    with open_dataset(out) as reader:
        assert f"demo_{left_out}" not in reader.episode_names and len(reader.episode_names) == 29
        assert np.allclose(reader.read(f"demo_{chosen[0]}", "actions"), sound[chosen[0]])
        assert not np.allclose(reader.read(f"demo_{chosen[1]}", "actions"), sound[chosen[1]])
