"""``beacon weights`` for LeRobot: a run on a LeRobot folder and an HDF5 file, its weights, its best."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from demonstrations import make_dataset
from tiny_runs import TINY_OPTIONS, tiny_config

from beacon.cli.main import main
from beacon.data import EpisodeSet
from beacon.data.converting import ConvertOptions, convert
from beacon.runs.demonstration_weights import load_demonstration_weights
from beacon.training import train

STEPS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources, one a LeRobot folder seen through a card that leaves out an episode; a target; a run."""
    folder = tmp_path_factory.mktemp("lerobot")
    make_dataset(folder / "near.hdf5", 4, steps=STEPS, seed=1)
    convert(folder / "near.hdf5", folder / "near", ConvertOptions(video=False, fps=10))
    cameras = {"agentview_image": "observation.images.agentview_image"}
    card = {"path": "near", "cameras": cameras, "episodes": "1:4"}
    card["proprio"] = {"robot0_eef_pos": "observation.state[0:3]"}
    (folder / "near.yaml").write_text(yaml.safe_dump(card))
    make_dataset(folder / "far.hdf5", 3, steps=STEPS, seed=2, background=(0, 90, 0))
    make_dataset(folder / "real.hdf5", 2, steps=4, seed=3, background=(90, 60, 30))
    sources = (folder / "near.yaml", folder / "far.hdf5")
    train(tiny_config("beacon", sources, folder / "real.hdf5"), folder / "run")
    return folder


def test_weights_by_the_index_of_the_dataset(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["weights", str(folder / "run"), "--export", str(out), "--format", "lerobot"]
    assert main([*arguments, "--chunk-size", "4"]) == 0
    assert sorted(p.name for p in (out / "near").iterdir()) == [
        "sample_weights.parquet",
        "sarm_progress.parquet",
    ]
    table = pq.read_table(out / "near" / "sample_weights.parquet")
    # Episode 0 was not trained on, so the first frame with a weight is number STEPS.
    assert table["index"].to_pylist() == list(range(STEPS, 4 * STEPS))
    weights = load_demonstration_weights(folder / "run").table.weight[: 3 * STEPS]
    np.testing.assert_array_equal(table["weight"].to_numpy(), weights)
    rows = pq.read_table(out / "near" / "sarm_progress.parquet")
    assert rows.num_rows > 4 * STEPS and rows.column_names == ["index", "episode_index", "progress_sparse"]
    progress = rows["progress_sparse"].to_numpy()
    deltas = progress[4 : 4 * STEPS + 4] - progress[: 4 * STEPS]
    np.testing.assert_allclose(deltas[:STEPS], 0, atol=1e-9)
    np.testing.assert_allclose(deltas[STEPS:] * weights.max(), weights, atol=1e-6)
    capsys.readouterr()
    assert (
        main(["weights", str(folder / "run"), "--export", str(tmp_path / "x.parquet"), "--chunk-size", "4"])
        == 2
    )
    assert "--format lerobot" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["best.hdf5", "best"])
def test_the_best_of_several_sources(folder: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    assert main(["weights", str(folder / "run"), "--curate", str(out), "--keep", "4"]) == 0
    table = load_demonstration_weights(folder / "run")
    best = table.demos()[:4]
    curated = EpisodeSet.load(out)
    noted = curated.episode_attributes
    assert {(a["original_file"], a["original_name"]) for a in noted} == {
        (Path(demo.record.file).name, demo.name) for demo in best
    }
    for e, attributes in enumerate(noted):
        source = EpisodeSet.load(folder / attributes["original_file"])
        number = source.episode_names.index(attributes["original_name"])
        np.testing.assert_array_equal(curated.episode(e).actions, source.episode(number).actions)
        weight = next(
            d.weight
            for d in best
            if d.name == attributes["original_name"]
            and Path(d.record.file).name == attributes["original_file"]
        )
        assert attributes["beacon_weight"] == pytest.approx(weight)


def test_sources_of_another_rate_are_kept_at_the_rate_of_the_run(tmp_path: Path) -> None:
    """A source that training brought to the target's rate fits to one that was recorded at it."""
    make_dataset(tmp_path / "fast.hdf5", 3, steps=2 * STEPS, seed=1)
    make_dataset(tmp_path / "slow.hdf5", 2, steps=STEPS, seed=2)
    make_dataset(tmp_path / "real.hdf5", 2, steps=STEPS, seed=3)
    convert(tmp_path / "fast.hdf5", tmp_path / "fast", ConvertOptions(video=False, fps=20))
    for name in ("slow", "real"):
        convert(tmp_path / f"{name}.hdf5", tmp_path / name, ConvertOptions(video=False, fps=10))
    card = {
        "cameras": {"agentview_image": "observation.images.agentview_image"},
        "proprio": {"robot0_eef_pos": "observation.state[0:3]"},
        "actions": {"resample": "hold"},
    }
    for name in ("fast", "slow", "real"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(card | {"path": name}))
    cards = (tmp_path / "fast.yaml", tmp_path / "slow.yaml")
    with pytest.warns(match="brought from 20 Hz to 10 Hz"):
        train(tiny_config("beacon", cards, tmp_path / "real.yaml"), tmp_path / "run")
    for name in ("best", "best.hdf5"):
        out = tmp_path / name
        assert main(["weights", str(tmp_path / "run"), "--curate", str(out), "--keep", "1.0"]) == 0
        assert EpisodeSet.load(out).lengths.tolist() == [STEPS] * 5


def test_a_run_without_the_episodes_that_are_incomplete(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "near"
    convert(folder / "near.hdf5", source, ConvertOptions(fps=10))
    keys = ["observation.images.agentview_image=agentview_image", "observation.state=robot0_eef_pos"]
    command = ["train", "--source", source, "--target", folder / "real.hdf5", "--out", tmp_path / "run"]
    command += ["--rename", keys[0], "--rename", keys[1], "--cameras", "agentview_image", *TINY_OPTIONS]
    command += ["--steps", "4", "--steps-per-epoch", "2", "--batch-size", "8"]
    episodes = pq.read_table(source / "meta/episodes/chunk-000/file-000.parquet")
    column = "data/file_index"  # episode 2 is in a table that is not there
    moved = episodes.set_column(
        episodes.schema.get_field_index(column), column, pa.array([0, 0, 7, 0], pa.int64())
    )
    pq.write_table(moved, source / "meta/episodes/chunk-000/file-000.parquet")
    assert main([str(word) for word in command]) == 2
    assert "1 of 4 episodes lack a file" in capsys.readouterr().err and not (tmp_path / "run").exists()
    assert main([str(word) for word in [*command, "--skip-incomplete"]]) == 0
    assert "near: left out, incomplete or without steps: episode_2" in capsys.readouterr().err
    records = load_demonstration_weights(tmp_path / "run").sources
    assert [record.demos for record in records] == [("episode_0", "episode_1", "episode_3")]
    # What reads the source again knows of it.
    best = tmp_path / "best.hdf5"
    assert main(["weights", str(tmp_path / "run"), "--curate", str(best), "--keep", "0.6"]) == 0
    assert len(EpisodeSet.load(best)) == 2
