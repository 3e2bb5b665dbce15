"""``beacon weights``: tables, export and curation, against the weights themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from demonstrations import make_dataset
from safetensors.torch import load_file
from tiny_runs import tiny_config

from beacon.cli.main import main
from beacon.data import EpisodeSet, check_files
from beacon.runs.demonstration_weights import how_many, load_demonstration_weights
from beacon.training import train


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two sources and a target, by name."""
    folder = tmp_path_factory.mktemp("data")
    return {
        "sim": make_dataset(folder / "sim.hdf5", 5, steps=6, seed=1),
        "far": make_dataset(folder / "far.hdf5", 3, steps=6, seed=2, background=(0, 90, 0)),
        "real": make_dataset(folder / "real.hdf5", 2, steps=4, seed=3, background=(90, 60, 30)),
    }


@pytest.fixture(scope="module")
def run(data: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one source."""
    path = tmp_path_factory.mktemp("runs") / "one"
    train(tiny_config("beacon", data["sim"], data["real"]), path)
    return path


@pytest.fixture(scope="module")
def two(data: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two sources."""
    path = tmp_path_factory.mktemp("runs") / "two"
    train(tiny_config("beacon", (data["sim"], data["far"]), data["real"]), path)
    return path


def q_of(run: Path) -> np.ndarray:
    return load_file(run / "checkpoints" / "00000006" / "method.safetensors")["method/reweighter/q"].numpy()


def test_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights", str(run)]) == 0
    out = capsys.readouterr().out
    q = q_of(run)
    rows = [line for line in out.splitlines() if "│" in line]
    source = next(row for row in rows if "source" in row)
    columns = [cell.strip() for cell in source.strip("│").split("│")]
    mine = q[:30]
    assert columns[:4] == ["sim", "source", "5", "30"]
    assert float(columns[4]) == pytest.approx(mine.mean(), abs=1e-3)
    assert [float(c) for c in columns[5:8]] == pytest.approx(np.quantile(mine, [0.1, 0.5, 0.9]), abs=1e-3)
    assert float(columns[8]) == pytest.approx(mine.sum(), abs=0.06)
    assert float(columns[9].strip("%")) == pytest.approx(100 * mine.sum() / q.sum(), abs=0.06)
    assert float(columns[10]) == pytest.approx(mine.sum() ** 2 / (mine @ mine), abs=0.6)
    assert "source demonstrations, the heaviest first" in out  # five: both ends would be all of them
    names = [row.split("│")[1].strip() for row in rows if "sim.hdf5" in row]
    order = np.argsort(-mine.reshape(5, 6).mean(1), kind="stable")
    assert names == [f"demo_{i}" for i in order]


def test_both_ends(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights", str(two), "--demos", "2"]) == 0
    out = capsys.readouterr().out
    kept, faded = out.split("smallest weights")
    assert "largest weights" in kept
    means = q_of(two)[:48].reshape(8, 6).mean(1)
    files = ["sim.hdf5"] * 5 + ["far.hdf5"] * 3
    listed = [row.split("│") for row in faded.splitlines() if ".hdf5" in row]
    assert [float(row[4]) for row in listed] == pytest.approx(np.sort(means)[:2], abs=1e-3)
    least = {files[demo] for demo in np.flatnonzero(means == means.min())}  # several weigh nothing
    assert {row[3].strip() for row in listed} <= least
    assert main(["weights", str(two), "--demos", "0"]) == 0
    assert "demo_" not in capsys.readouterr().out


def test_export(two: Path, data: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "w.parquet"
    assert main(["weights", str(two), "--export", str(file)]) == 0
    table = pq.read_table(file)
    assert table.column_names == ["domain", "file", "demo", "time", "weight", "discrepancy", "loss"]
    assert table["weight"].to_numpy().tolist() == q_of(two).tolist()
    assert table["domain"].to_pylist() == ["sim"] * 30 + ["far"] * 18 + ["real"] * 8
    assert table["file"].to_pylist()[30] == str(data["far"])
    assert table["demo"].to_pylist()[28:32] == ["demo_4", "demo_4", "demo_0", "demo_0"]
    assert table["time"].to_pylist()[:7] == [0, 1, 2, 3, 4, 5, 0]
    assert set(table["discrepancy"].to_pylist()[48:]) == {0.0}
    assert min(table["loss"].to_pylist()) > 0
    # Never by accident over something that is there.
    assert main(["weights", str(two), "--export", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["weights", str(two), "--export", str(file), "--overwrite"]) == 0
    assert sorted(p.name for p in file.parent.iterdir()) == ["w.demonstrations.parquet", "w.parquet"]
    demos = pq.read_table(file.with_suffix(".demonstrations.parquet"))
    assert demos["demo"].to_pylist()[4:6] == ["demo_4", "demo_0"] and demos["steps"].to_pylist()[0] == 6
    np.testing.assert_allclose(demos["weight"].to_numpy()[:8], q_of(two)[:48].reshape(8, 6).mean(1))
    assert sum(demos["share"].to_pylist()) == pytest.approx(1)


@pytest.mark.parametrize(("keep", "count"), [("0.5", 3), ("2", 2), ("1", 1), ("1.0", 5), ("0.01", 1)])
def test_curate(keep: str, count: int, run: Path, data: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "best.hdf5"
    assert main(["weights", str(run), "--curate", str(out), "--keep", keep]) == 0
    means = q_of(run)[:30].reshape(5, 6).mean(1)
    best = np.argsort(-means, kind="stable")[:count]
    curated, original = EpisodeSet.load(out), EpisodeSet.load(data["sim"])
    assert len(curated) == count
    for new, old in enumerate(best.tolist()):
        attributes = curated.episode_attributes[new]
        assert attributes["original_name"] == f"demo_{old}"
        assert attributes["beacon_weight"] == pytest.approx(means[old])
        assert attributes["beacon_discrepancy"] > 0 and attributes["beacon_loss"] > 0
        assert np.array_equal(curated.episode(new).actions, original.episode(old).actions)
        for key, values in original.episode(old).obs.items():
            assert np.array_equal(curated.episode(new).obs[key], values)
    assert not [finding for finding in check_files([out]) if finding.severity == "error"]


def test_curate_one_of_several_sources(two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "best.hdf5"
    assert main(["weights", str(two), "--curate", str(out), "--source-domain", "real"]) == 2
    assert "--source-domain real: the source domains of" in capsys.readouterr().err
    assert not out.exists()
    assert main(["weights", str(two), "--curate", str(out), "--source-domain", "far", "--keep", "2"]) == 0
    names = {attributes["original_name"] for attributes in EpisodeSet.load(out).episode_attributes}
    means = q_of(two)[30:48].reshape(3, 6).mean(1)
    assert names == {f"demo_{i}" for i in np.argsort(-means)[:2]}
    assert main(["weights", str(two), "--curate", str(out), "--source-domain", "far"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_only_what_was_trained_on_is_chosen(data: dict[str, Path], tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "best.hdf5"
    train(tiny_config("beacon", data["sim"], data["real"], data={"source_demos": 2}), run)
    assert main(["weights", str(run), "--curate", str(out), "--keep", "1.0"]) == 0
    names = {attributes["original_name"] for attributes in EpisodeSet.load(out).episode_attributes}
    assert names == {"demo_0", "demo_1"}


def test_moved_and_changed_sources(
    data: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, run, out = tmp_path / "mine.hdf5", tmp_path / "run", tmp_path / "best.hdf5"
    shutil.copy(data["sim"], mine)
    train(tiny_config("beacon", mine, data["real"]), run)
    moved = mine.rename(tmp_path / "moved.hdf5")
    assert main(["weights", str(run), "--curate", str(out)]) == 2
    error = capsys.readouterr().err
    assert "mine.hdf5: the dataset that the run was trained on is not there any more" in error
    assert error.count("\n") == 1
    assert main(["weights", str(run), "--curate", str(out), "--source-file", str(moved)]) == 0
    out.unlink()
    with h5py.File(moved, "r+") as file:
        file["data/demo_4/actions"][0] += 1
    assert main(["weights", str(run), "--curate", str(out), "--source-file", str(moved)]) == 2
    assert "has changed since the run: the weights are of other actions" in capsys.readouterr().err
    with h5py.File(moved, "r+") as file:
        del file["data/demo_4"]
    assert main(["weights", str(run), "--curate", str(out), "--source-file", str(moved)]) == 2
    assert "has changed since the run: it has no demo_4" in capsys.readouterr().err
    assert not out.exists()


def test_what_is_not_a_run_with_weights(
    data: dict[str, Path], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "plain"
    train(tiny_config("cotrain", data["sim"], data["real"], steps=2), plain)
    cut_off = tmp_path / "cut_off"
    shutil.copytree(run, cut_off)
    shutil.rmtree(cut_off / "checkpoints")
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / "weights" / "windows-00000006.parquet").write_text("no table")
    for path, says in (
        (tmp_path / "nowhere", "nowhere is not a run: it has no config.yaml"),
        (plain, "has no weights: it was trained by cotrain"),
        (cut_off, "has no checkpoint yet"),
        (damaged, "windows-00000006.parquet: damaged"),
    ):
        assert main(["weights", str(path)]) == 2
        error = capsys.readouterr().err
        assert says in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--keep", "half"], "--keep half: must be a share such as 0.5, or a whole number"),
        (["--keep", "0"], "--keep 0: there are 5 demonstrations; keep 1 to 5"),
        (["--keep", "6"], "--keep 6: there are 5 demonstrations; keep 1 to 5"),
        (["--keep", "1.5"], "--keep 1.5: must be a share above 0 and at most 1.0"),
        (["--keep", "0.0"], "--keep 0.0: must be a share above 0"),
        (["--keep", "nan"], "--keep nan: must be a share"),
        (["--export", "w.csv"], "--export w.csv: must end in .parquet"),
        (["--curate", "w.txt"], "--curate w.txt: must end in .hdf5"),
        (["--curat", "w.hdf5"], "there is no option --curat; did you mean --curate?"),
    ],
)
def test_options_that_make_no_sense(
    arguments: list[str], says: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = [] if "--curate" in arguments else ["--curate", str(tmp_path / "best.hdf5")]
    assert main(["weights", str(run), *arguments, *extra]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_source_itself_is_safe(run: Path, data: dict[str, Path]) -> None:
    before = data["sim"].read_bytes()
    assert main(["weights", str(run), "--curate", str(data["sim"]), "--overwrite"]) == 2
    assert data["sim"].read_bytes() == before


def test_python_face(run: Path) -> None:
    weights = load_demonstration_weights(run)
    assert [domain.record.name for domain in weights.domains()] == ["sim", "real"]
    assert sum(domain.mass for domain in weights.domains()) == pytest.approx(weights.table.weight.sum())
    assert len(weights.demos()) == 5 and len(weights.demos(weights.records[1])) == 2
    assert (how_many(0.5, 5), how_many(0.2, 5), how_many(0.6, 5)) == (3, 1, 3)
