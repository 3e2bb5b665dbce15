"""Training uses an audit that was made before, and refuses one of other data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import point_robot as robot
import pytest

from beacon.audit.check import AuditCheck
from beacon.cli.main import main
from beacon.cli.train import parse
from beacon.data import Domains, EpisodeSet, Windows
from beacon.data.context import DataContext
from beacon.errors import UserError


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Source, target and the folder of the audit."""
    folder = tmp_path_factory.mktemp("training")
    demos = robot.demonstrations(24, seed=41)
    robot.corrupted(demos, robot.mirrored(0), 0.25)
    source = robot.write(folder / "source.hdf5", demos)
    target = robot.write(folder / "target.hdf5", robot.demonstrations(8, seed=42))
    out = folder / "audit"
    assert main(["audit", "--source", str(source), "--target", str(target), "--out", str(out)]) == 0
    return source, target, out


def context(source: Path, target: Path) -> DataContext:
    sets = [EpisodeSet.load(source), EpisodeSet.load(target)]
    windows = Windows(sets, obs_steps=1, horizon=4)
    return DataContext(windows, Domains(("source",), "target"), seed=0)


def test_the_saved_audit_gives_the_same_factors(audited: tuple[Path, Path, Path]) -> None:
    source, target, out = audited
    data = context(source, target)

    fresh, reused = AuditCheck().build(data), AuditCheck(file=out).build(data)

    assert fresh.prior is not None and reused.prior is not None
    assert np.array_equal(fresh.prior, reused.prior)
    assert set(np.unique(reused.prior)) == {1.0, 5.0}


def test_demonstrations_may_be_left_out_since_the_audit(audited: tuple[Path, Path, Path]) -> None:
    source, target, out = audited
    everyone = AuditCheck(file=out).build(context(source, target)).prior
    sets = [EpisodeSet.load(source).subset([*range(3, 24)]), EpisodeSet.load(target).subset([0, 2, 3])]
    rest = DataContext(Windows(sets, obs_steps=1, horizon=4), Domains(("source",), "target"), seed=0)

    built = AuditCheck(file=out).build(rest)

    assert everyone is not None and built.prior is not None
    assert np.array_equal(built.prior, everyone[-len(built.prior) :])


def test_an_audit_of_other_data_is_refused(audited: tuple[Path, Path, Path], tmp_path: Path) -> None:
    source, target, out = audited
    other = robot.write(tmp_path / "other.hdf5", robot.demonstrations(8, seed=43))

    with pytest.raises(UserError, match="audit of other data"):
        AuditCheck(file=out).build(context(other, target))
    with pytest.raises(UserError, match="audit of other data"):
        AuditCheck(file=out).build(context(source, other))


def test_the_command_line_names_the_file(audited: tuple[Path, Path, Path], tmp_path: Path) -> None:
    source, target, out = audited
    words = ["--source", str(source), "--target", str(target), "--out", str(tmp_path / "run")]

    checks = parse([*words, "--audit", str(out)]).options.checks

    assert [check.file for check in checks if isinstance(check, AuditCheck)] == [out.resolve()]
    with pytest.raises(UserError, match="no such file"):
        parse([*words, "--audit", str(tmp_path / "none.json")])
    with pytest.raises(UserError, match="has no checks"):
        parse([*words, "--method", "cotrain", "--audit", str(out)])
