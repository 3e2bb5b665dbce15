"""What real recorders write, and no format describes: it is read all the same, or named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_lerobot import (
    CAMERA,
    SIZE,
    actions,
    brightness,
    pictures,
    write_info,
    write_v21,
    write_v30,
    write_video,
    write_zarr,
)

from beacon.cli.main import main
from beacon.data import EpisodeSet
from beacon.data.formats import open_dataset

LENGTHS = (7, 5, 6)


def change_feature(root: Path, name: str, **changes: Any) -> None:
    features = json.loads((root / "meta/info.json").read_text())["features"]
    features[name] |= changes
    write_info(root, features=features)


def change_tables(root: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    for path in sorted((root / "data/chunk-000").iterdir()):
        pq.write_table(change(pq.read_table(path)), path)


def set_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def bare_names(root: Path) -> None:
    new = {"observation.state": "state", "action": "actions", CAMERA: "image"}
    features = json.loads((root / "meta/info.json").read_text())["features"]
    write_info(root, features={new.get(name, name): feature for name, feature in features.items()})
    change_tables(root, lambda t: t.rename_columns([new.get(c, c) for c in t.column_names]))
    (root / f"videos/chunk-000/{CAMERA}").rename(root / "videos/chunk-000/image")


def old_codec(root: Path) -> None:
    for e, steps in enumerate(LENGTHS):
        path = root / f"videos/chunk-000/{CAMERA}/episode_{e:06d}.mp4"
        write_video(path, pictures(e, steps), 10, codec="mpeg4")


def short_videos(root: Path) -> None:
    path, name = root / "meta/episodes/chunk-000/file-000.parquet", f"videos/{CAMERA}/to_timestamp"
    table = pq.read_table(path)
    pq.write_table(set_column(table, name, pa.array(table[name].to_numpy() - 0.1)), path)


def unnamed_tasks(root: Path) -> None:
    pq.write_table(pa.table({"task_index": [0], "__index_level_0__": ["lift"]}), root / "meta/tasks.parquet")


CASES: dict[str, tuple[Any, Callable[[Path], object]]] = {
    "names without observation.": (write_v21, bare_names),
    "channels first, video": (
        write_v21,
        lambda r: change_feature(r, CAMERA, shape=[3, *SIZE], names=None),
    ),
    "two names for four": (write_v21, lambda r: change_feature(r, "observation.state", names=["a", "b"])),
    "split too short": (write_v21, lambda r: write_info(r, splits={"train": "0:2"})),
    "split too long": (write_v21, lambda r: write_info(r, splits={"train": "0:9"})),
    "clock in double precision": (
        write_v21,
        lambda r: change_tables(r, lambda t: set_column(t, "timestamp", t["timestamp"].cast(pa.float64()))),
    ),
    "MPEG-4 part 2": (write_v21, old_codec),
    "index without a name": (write_v30, unnamed_tasks),
    "to_timestamp a frame short": (write_v30, short_videos),
    "columns in another order": (
        write_v30,
        lambda r: change_tables(r, lambda t: t.select(t.column_names[::-1])),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_odd_recordings_are_read(tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    write, change = CASES[case]
    root = write(tmp_path / "data")
    change(root)
    assert main(["data", "check", str(root)]) == 0
    assert "sound" in capsys.readouterr().out
    episodes = EpisodeSet.load(root)
    (frames,) = (np.asarray(images) for images in episodes.images.values())
    assert episodes.lengths.tolist() == list(LENGTHS) and len(episodes.proprio) == 1
    np.testing.assert_array_equal(episodes.actions, np.concatenate([actions(*e) for e in enumerate(LENGTHS)]))
    grey = frames[:, 8:24, 32:44].astype(float).mean((1, 2, 3))
    assert np.abs(grey - np.concatenate([brightness(*e) for e in enumerate(LENGTHS)])).max() < 2
    with open_dataset(root) as reader:
        assert reader.attributes("episode_0")["task"] == "lift"


@pytest.mark.parametrize(("turn", "said"), [(360, "360 degrees"), (2 * np.pi, "2π"), (100, "")])
def test_angles_that_wrap_are_named(
    tmp_path: Path, turn: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_v21(tmp_path / "data")

    def wrap(table: pa.Table) -> pa.Table:
        values = [[0.999 * turn if step % 2 else 0.0, 1.0, 2.0, float(step)] for step in range(len(table))]
        return set_column(table, "observation.state", pa.array(values, pa.list_(pa.float32(), 4)))

    change_tables(root, wrap)
    assert main(["data", "check", str(root)]) == 0
    out = capsys.readouterr().out
    assert out.count("wraps around") == bool(said)
    assert not said or f"observation.state'[0] jumps by {said} in a step" in out


def test_jpeg_xl_in_zarr(tmp_path: Path) -> None:
    from imagecodecs.numcodecs import Jpegxl, register_codecs

    register_codecs(verbose=False)
    path = write_zarr(tmp_path / "data", codec=Jpegxl(lossless=True))
    with open_dataset(path) as reader:
        np.testing.assert_array_equal(reader.read("episode_1", "obs/img"), pictures(1, 5))
