"""LeRobot folders that are damaged or were made to harm: one line, nothing else is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_lerobot import CAMERA, pictures, png, write_info, write_v21, write_v30, write_video
from refusing import refuse

from beacon.cli.main import main
from beacon.data import EpisodeSet
from beacon.data.formats import open_dataset


def table_path(root: Path, episode: int = 1) -> Path:
    return root / f"data/chunk-000/episode_{episode:06d}.parquet"


def video_path(root: Path, episode: int = 1) -> Path:
    return root / f"videos/chunk-000/{CAMERA}/episode_{episode:06d}.mp4"


def replace_column(root: Path, name: str, values: pa.Array) -> None:
    table = pq.read_table(table_path(root))
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, values), table_path(root))


def set_feature(root: Path, name: str, **changes: object) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][name] |= changes
    write_info(root, features=info["features"])


def truncate(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


V21: dict[str, tuple[Callable[[Path], object], str]] = {
    "fps 0": (lambda r: write_info(r, fps=0), "fps 0"),
    "fps text": (lambda r: write_info(r, fps="fast"), "fps 'fast'"),
    "fps true": (lambda r: write_info(r, fps=True), "fps True"),
    "no features": (lambda r: write_info(r, features={}), "no features"),
    "features list": (lambda r: write_info(r, features=[1]), "no features"),
    "shape text": (lambda r: set_feature(r, "action", shape="x"), "no shape of whole numbers"),
    "shape negative": (lambda r: set_feature(r, "action", shape=[-3]), "no shape of whole numbers"),
    "width": (lambda r: set_feature(r, "action", shape=[70_000_000]), "info.json says (70000000,)"),
    "picture size": (lambda r: set_feature(r, CAMERA, shape=[90_000, 90_000, 3]), "info.json says (90000"),
    "version": (lambda r: write_info(r, codebase_version="v9\x1b[31m"), "v9\\x1b[31m"),
    "info damaged": (lambda r: (r / "meta/info.json").write_text("{"), "is not JSON"),
    "info deep": (lambda r: (r / "meta/info.json").write_text("[" * 100_000), "is not JSON"),
    "info list": (lambda r: (r / "meta/info.json").write_text("[]"), "JSON object"),
    "traversal": (lambda r: write_info(r, data_path="../../secret.parquet"), "leads out of the folder"),
    "absolute": (lambda r: write_info(r, data_path="/etc/passwd"), "leads out of the folder"),
    "video traversal": (
        lambda r: write_info(r, video_path="videos/../../{video_key}.mp4"),
        "leads out of the folder",
    ),
    "attributes in template": (
        lambda r: write_info(r, data_path="{episode_index.__class__}"),
        "is not a template",
    ),
    "wide template": (lambda r: write_info(r, data_path="{episode_index:0999999999d}"), "is not a template"),
    "unknown field": (lambda r: write_info(r, data_path="{secret}.parquet"), "there is no {secret}"),
    "template list": (lambda r: write_info(r, data_path=[1]), "data_path is not a text"),
    "episodes line": (lambda r: (r / "meta/episodes.jsonl").write_text('{"episode_index": 0'), "line 1"),
    "length text": (
        lambda r: (r / "meta/episodes.jsonl").write_text('{"episode_index": 0, "length": "x"}'),
        "length of episode 0",
    ),
    "length huge": (
        lambda r: (r / "meta/episodes.jsonl").write_text('{"episode_index": 0, "length": 900000000000}'),
        "length of episode 0",
    ),
    "length wrong": (
        lambda r: (r / "meta/episodes.jsonl").write_text('{"episode_index": 0, "length": 90}'),
        "says 90 steps",
    ),
    "twice": (
        lambda r: (r / "meta/episodes.jsonl").write_text('{"episode_index": 0, "length": 7}\n' * 2),
        "occurs twice",
    ),
    "no table": (lambda r: table_path(r).unlink(), "is missing"),
    "empty table": (lambda r: table_path(r).write_bytes(b""), "is empty"),
    "table damaged": (lambda r: table_path(r).write_bytes(b"PAR1" * 1000), "damaged or no Parquet"),
    "table truncated": (lambda r: truncate(table_path(r), 0.5), "damaged or no Parquet"),
    "column missing": (
        lambda r: pq.write_table(pq.read_table(table_path(r)).drop_columns(["action"]), table_path(r)),
        "no column 'action'; there are observation.state",
    ),
    "text column": (lambda r: replace_column(r, "action", pa.array(["x"] * 5)), "not made of numbers"),
    "nulls": (
        lambda r: replace_column(r, "action", pa.array([[0.0, 1.0, 2.0]] * 4 + [None])),
        "has no value",
    ),
    "ragged": (lambda r: replace_column(r, "action", pa.array([[0.0] * 3] * 4 + [[0.0]])), "dimensions"),
    "nan": (
        lambda r: replace_column(r, "action", pa.array([[0.0, float("nan"), 2.0]] * 5)),
        "holds nan at step 0",
    ),
    "video truncated": (lambda r: truncate(video_path(r), 0.6), "episode_000001.mp4"),
    "video of text": (lambda r: video_path(r).write_bytes(b"x" * 5000), "truncated or no video"),
    "video too short": (lambda r: write_video(video_path(r), pictures(1, 3), 10), "frames"),
    "video of another size": (
        lambda r: write_video(video_path(r), pictures(1, 5, (16, 16)), 10),
        "has pictures of (16, 16, 3)",
    ),
    "link out": (
        lambda r: (table_path(r).unlink(), table_path(r).symlink_to("/etc/passwd"))[0],
        "is a link out of the folder",
    ),
}


@pytest.mark.parametrize("case", V21)
def test_bad_lerobot_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    spoil, text = V21[case]
    root = write_v21(tmp_path / "data")
    spoil(root)
    refuse(root, text)
    output = capsys.readouterr()
    assert "Traceback" not in output.out + output.err and "\x1b" not in output.out + output.err


def edit_episodes(
    root: Path, name: str, values: pa.Array | None, file: str = "meta/episodes/chunk-000/file-000.parquet"
) -> None:
    path = root / file
    table = pq.read_table(path)
    at = table.schema.get_field_index(name)
    pq.write_table(table.remove_column(at) if values is None else table.set_column(at, name, values), path)


def number_rows(root: Path, values: list[object]) -> None:
    edit_episodes(root, "episode_index", pa.array(values), "data/chunk-000/file-000.parquet")


V30: dict[str, tuple[Callable[[Path], object], str]] = {
    "column missing": (lambda r: edit_episodes(r, "length", None), "no column length"),
    "from_timestamp": (
        lambda r: edit_episodes(r, f"videos/{CAMERA}/from_timestamp", pa.array([0.0, float("nan"), 1e12])),
        "from_timestamp",
    ),
    "file index": (lambda r: edit_episodes(r, "data/file_index", pa.array([0, -4, 0])), "data/file_index"),
    "no such file": (lambda r: edit_episodes(r, "data/file_index", pa.array([0, 4, 0])), "is missing"),
    "no rows": (
        lambda r: edit_episodes(r, "episode_index", pa.array([0, 7, 2])),
        "holds no rows of episode 7",
    ),
    "rows of nobody": (lambda r: number_rows(r, [None] * 18), "has no value in 18"),
    "rows of half an episode": (lambda r: number_rows(r, [0.5] * 18), "not a column of whole numbers"),
    "rows of a list": (lambda r: number_rows(r, [[0]] * 18), "not a column of whole numbers"),
    "rows of a text": (lambda r: number_rows(r, ["💥"] * 18), "not made of numbers"),
    "no list": (
        lambda r: (r / "meta/episodes/chunk-000/file-000.parquet").unlink(),
        "there is no list of episodes",
    ),
    "key with a way out": (
        lambda r: write_info(r, video_path="{video_key}/../../../x.mp4"),
        "leads out of the folder",
    ),
}


@pytest.mark.parametrize("case", V30)
def test_bad_version_3_folders(tmp_path: Path, case: str) -> None:
    spoil, text = V30[case]
    root = write_v30(tmp_path / "data")
    spoil(root)
    refuse(root, text)


def test_pictures_in_tables_that_are_none_or_too_large(tmp_path: Path) -> None:
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    for content, path, text in (
        (b"no picture", None, "cannot be decoded"),
        (None, "/etc/passwd", "pictures in other files are not read"),
        (png(np.zeros((3000, 3000, 3), np.uint8)), None, "has a picture of (3000, 3000)"),
    ):
        root = write_v21(tmp_path / f"data{len(text)}", images=True)
        replace_column(root, CAMERA, pa.array([{"bytes": content, "path": path}] * 5, kind))
        refuse(root, text)


def set_clock(root: Path, fps: float) -> None:
    for episode in range(3):
        table = pq.read_table(table_path(root, episode))
        times = pa.array((np.arange(len(table)) / fps).astype(np.float32))
        at = table.schema.get_field_index("timestamp")
        pq.write_table(table.set_column(at, "timestamp", times), table_path(root, episode))


@pytest.mark.parametrize(
    ("fps", "images", "witnesses"),
    [
        (30, False, "videos and time stamps run at 10"),
        (5, False, "videos and time stamps run at 10"),
        (30, True, "time stamps run at 10"),
    ],
)
def test_a_wrong_rate_is_an_error(tmp_path: Path, fps: int, images: bool, witnesses: str) -> None:
    root = write_v21(tmp_path / "data", fps=10, images=images)
    write_info(root, fps=fps)
    message = refuse(root, f"info.json says {fps} frames a second", witnesses, "recorded_fps")
    assert message.startswith(str(root))
    assert main(["data", "convert", str(root), str(tmp_path / "out.hdf5")]) == 2
    assert not (tmp_path / "out.hdf5").exists()
    (tmp_path / "card.yaml").write_text("path: data\nrecorded_fps: 10\n")
    assert EpisodeSet.load(tmp_path / "card.yaml").fps == 10
    assert main(["data", "check", str(tmp_path / "card.yaml")]) == 0


def test_a_wrong_rate_of_joined_videos_is_not_mended_by_a_card(tmp_path: Path) -> None:
    root = write_v30(tmp_path / "data", fps=10)
    write_info(root, fps=30)
    assert "recorded_fps" not in refuse(root, "info.json says 30 frames a second, videos and time stamps run")
    (tmp_path / "card.yaml").write_text("path: data\nrecorded_fps: 10\n")
    refuse(tmp_path / "card.yaml", "info.json says 30 frames a second")


def test_clocks_that_differ_alone_are_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_v21(tmp_path / "data", fps=10)
    set_clock(root, 9)
    write_info(root, total_frames=99)
    assert main(["data", "check", str(root)]) == 0
    out = capsys.readouterr().out
    assert "time stamps run at about 9 frames a second, info.json says 10" in out
    assert "info.json says total_frames 99, there are 18" in out
    set_clock(root, 30)
    write_info(root, fps=30)
    assert main(["data", "check", str(root)]) == 0
    assert "videos run at 10 frames a second, info.json says 30" in capsys.readouterr().out


def test_actions_that_repeat_the_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_v21(tmp_path / "data")
    set_feature(root, "action", shape=[4])
    for episode in range(3):
        table = pq.read_table(table_path(root, episode))
        state = table.column("observation.state")
        pq.write_table(
            table.set_column(table.schema.get_field_index("action"), "action", state),
            table_path(root, episode),
        )
    main(["data", "check", str(root)])
    assert "there is no command in it" in capsys.readouterr().out


def test_snapshots_of_the_hugging_face_cache_are_links_and_are_read(tmp_path: Path) -> None:
    real = write_v21(tmp_path / "real")
    snapshot = tmp_path / "datasets--me--arm" / "snapshots" / "abc"
    blobs = tmp_path / "datasets--me--arm" / "blobs"
    blobs.mkdir(parents=True)
    for number, file in enumerate(sorted(p for p in real.rglob("*") if p.is_file())):
        file.rename(blobs / str(number))
        link = snapshot / file.relative_to(real)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blobs / str(number))
    with open_dataset(snapshot) as reader:
        assert len(reader.read("episode_0", "actions")) == 7
