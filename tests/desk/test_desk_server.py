"""Who is served, and who is not; what is asked for that is not there; every format."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import point_robot as robot
import pytest
from desk_servers import OpenDesk

from beacon.cli.main import main
from beacon.data.converting import ConvertOptions, convert
from beacon.data.decisions import read_decisions
from beacon.desk.annotations import Sources, open_collection
from beacon.desk.pictures import ByteCache
from beacon.desk.server import DeskServer
from beacon.errors import UserError


def ask(address: str, path: str = "", body: Any = None, **headers: str) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        names = {"Content-Type": "application/json"} | names
    with urllib.request.urlopen(urllib.request.Request(address + path, data, names), timeout=120) as answer:
        return bytes(answer.read())


def origin(server: DeskServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def refused(code: int, *args: Any, **options: Any) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(*args, **options)
    assert error.value.code == code


DROP = {"demo": 0, "decision": "drop", "note": ""}


def test_a_wrong_key_is_refused(open_desk: OpenDesk) -> None:
    server = open_desk()
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.key) >= 32
    for address in (
        f"{origin(server)}/",
        f"{origin(server)}/{'x' * len(server.key)}/",
        server.address.replace("/" + server.key, "/%2e"),
    ):
        for path in ("", "overview", "decisions", "thumbnails/0"):
            refused(403, address, path)
        refused(403, address, "decisions", body=DROP, Origin=origin(server))


def test_other_hosts_origins_and_sites_are_refused(open_desk: OpenDesk, tmp_path: Path) -> None:
    server = open_desk()
    refused(403, server.address, "overview", Host="evil.example")
    refused(403, server.address, "overview", Host=f"evil.example:{server.port}")
    refused(403, server.address, "overview", Origin="http://evil.example")
    refused(403, server.address, "overview", Sec_Fetch_Site="cross-site")
    refused(403, server.address, "decisions", body=DROP, Origin="null")
    refused(403, server.address, "decisions", body=DROP)  # a page says where it is from
    refused(415, server.address, "decisions", body=DROP, Origin=origin(server), Content_Type="text/plain")
    assert not (tmp_path / "decisions.jsonl").exists()
    ask(server.address, "decisions", body=DROP, Origin=origin(server))
    assert len(read_decisions(tmp_path / "decisions.jsonl").decided) == 1


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        "demos/99999",
        "thumbnails/-1",
        "frames/0/9/0/16",
        "frames/0/0/0/99",
        "../../etc/passwd",
        "%2e%2e/x",
    ],
)
def test_what_is_not_there_is_said(path: str, open_desk: OpenDesk) -> None:
    with pytest.raises(urllib.error.HTTPError, match=r"404|422"):
        ask(open_desk().address, path)


@pytest.mark.parametrize(
    "body",
    [[], {}, {"demo": 99999, "decision": "drop", "note": ""}, {"demo": 0, "decision": "burn", "note": ""},
     {"demo": 0, "undo": "../x"}, {"demo": "0", "decision": "drop", "note": ""},
     {"demo": 0, "decision": "note", "note": "x" * 5000}],
)  # fmt: skip
def test_what_is_no_decision_is_refused(body: Any, open_desk: OpenDesk, tmp_path: Path) -> None:
    server = open_desk()
    refused(422, server.address, "decisions", body=body, Origin=origin(server))
    assert not (tmp_path / "decisions.jsonl").exists()


def test_no_inline_script_is_allowed(open_desk: OpenDesk) -> None:
    with urllib.request.urlopen(open_desk().address) as answer:
        policy = answer.headers["Content-Security-Policy"]
        page = answer.read().decode()
    assert "script-src 'self'" in policy and "unsafe" not in policy
    assert "<script>" not in page and " style=" not in page and " onclick=" not in page


@pytest.mark.parametrize("kind", ["hdf5", "video", "pictures", "card"])
def test_every_format_is_shown(kind: str, tmp_path: Path, open_desk: OpenDesk) -> None:
    file = robot.write(tmp_path / "demos.hdf5", robot.demonstrations(3, seed=7))
    path = file
    if kind in ("video", "pictures"):
        path = tmp_path / "lerobot"
        convert(file, path, ConvertOptions(video=kind == "video"))
    if kind == "card":
        path = tmp_path / "card.yaml"
        path.write_text("path: demos.hdf5\nfps: 10\nimage_size: 16\nactions: {resample: hold}\n")
    desk = open_desk(Sources((path,))).desk
    detail = desk.demo(1)
    assert len(detail["cameras"]) == 1
    assert detail["panels"][0]["title"] == "actions" and len(detail["panels"][0]["values"]) == 4
    assert desk.pictures.thumbnail(1)[:2] == b"\xff\xd8"
    length = desk.collection.demos[1].length
    sent = desk.pictures.frames(1, 0, length - 3, 16)
    count = 0
    while sent:
        size = int.from_bytes(sent[:4], "big")
        assert sent[4:6] == b"\xff\xd8"
        sent, count = sent[4 + size :], count + 1
    assert count == 3


def test_frames_by_number_are_those_of_the_whole(tmp_path: Path) -> None:
    import numpy as np

    from beacon.data import open_dataset

    file = robot.write(tmp_path / "demos.hdf5", robot.demonstrations(2, seed=7))
    convert(file, tmp_path / "video")
    convert(file, tmp_path / "pictures", ConvertOptions(video=False))
    (tmp_path / "card.yaml").write_text(
        "path: demos.hdf5\nfps: 10\nimage_size: 16\nactions: {resample: hold}\n"
    )
    for name in ("demos.hdf5", "video", "pictures", "card.yaml"):
        with open_dataset(tmp_path / name) as reader:
            for episode in reversed(reader.episode_names):
                keys = reader.observation_keys(episode)
                key = "obs/" + next(key for key, info in keys.items() if len(info.shape) == 4)
                whole = reader.read(episode, key)
                for start, stop in ((20, 23), (0, 5), (len(whole) - 2, len(whole) + 9), (7, 8)):
                    part = reader.frames(episode, key, start, stop)
                    assert np.array_equal(part, whole[start:stop]), (name, start)


def test_the_memory_for_pictures_is_bounded() -> None:
    cache = ByteCache(100)
    for number in range(50):
        assert cache.get(number, lambda: bytes(30)) == bytes(30)
    assert cache.size <= 100
    assert cache.get(49, lambda: b"made again") == bytes(30)


def test_bad_input_is_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = robot.write(tmp_path / "other.hdf5", robot.demonstrations(2, seed=1))
    shorter = robot.write(tmp_path / "sim.hdf5", robot.demonstrations(2, seed=1))
    torn = tmp_path / "torn.jsonl"
    torn.write_text('{"dataset": "other.hdf5", "demonstration": "demo_99", "decision": "drop"}\n')
    twice = robot.write(tmp_path / "again" / "other.hdf5", robot.demonstrations(2, seed=1))
    for arguments in (
        [],
        [str(tmp_path / "nothing.hdf5")],
        [str(other), "--audit", str(folder / "audit")],
        [str(shorter), "--audit", str(folder / "audit")],
        [str(other), "--run", str(folder / "run")],
        [str(other), "--decisions", str(torn)],
        [str(other), "--decisions", str(other)],
        [str(other), str(twice)],
        [str(other), "--rerun", str(tmp_path / "out.txt")],
        [str(other), "--port", "99999"],
    ):
        assert main(["desk", *arguments]) == 2, arguments
        assert len(capsys.readouterr().err.splitlines()) == 1, arguments


def test_a_run_without_weights_says_so(folder: Path, tmp_path: Path) -> None:
    from report_runs import train_run

    train_run(tmp_path / "cotrain", "cotrain", [folder / "sim.hdf5"], folder / "real.hdf5", epochs=2)
    with pytest.raises(UserError, match="has no weights"):
        open_collection(Sources((), run=tmp_path / "cotrain"))


def recorded(file: Path) -> tuple[set[str], Callable[[str], list[list[float]]]]:
    """Entity paths of a Rerun recording, and what gives the numbers of one, a list a step."""
    import rerun

    if hasattr(rerun, "dataframe"):  # 0.23, the last that works with NumPy 1
        recording = rerun.dataframe.load_recording(file)

        def numbers(path: str) -> list[list[float]]:
            table = recording.view(index="step", contents=path).select().read_all()
            return table[next(name for name in table.column_names if name.endswith("Scalar"))].to_pylist()

        return {column.entity_path for column in recording.schema().component_columns()}, numbers
    from rerun.chunk import RrdReader

    chunks = RrdReader(file).stream().to_chunks()

    def numbers_of_chunks(path: str) -> list[list[float]]:
        batches = [chunk.to_record_batch() for chunk in chunks if chunk.entity_path == path]
        rows = [batch.select(["step", "Scalars:scalars"]).to_pydict() for batch in batches]
        steps = {step: at for row in rows for step, at in zip(*row.values(), strict=True)}
        return [steps[step] for step in sorted(steps)]

    return {chunk.entity_path for chunk in chunks}, numbers_of_chunks


def test_rerun_reads_back(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.rrd"
    command = ["desk", "--audit", str(folder / "audit"), "--run", str(folder / "run"), "--rerun", str(out)]
    assert main([*command, "--rerun-demos", "2"]) == 0
    paths, numbers = recorded(out)
    demos = {path.split("/")[2] for path in paths if path.startswith("/sim.hdf5/")}
    assert len(demos) == 2
    for name in ("actions", "robot0_eef_pos", "weight", "loss", "cameras/agentview_image", "reasons"):
        assert any(path.endswith(f"/{name}") for path in paths), name
    demo = sorted(demos)[0]
    from beacon.data import open_dataset

    with open_dataset(folder / "sim.hdf5") as reader:
        actions = reader.read(demo, "actions")
    read = numbers(f"/sim.hdf5/{demo}/actions")
    assert len(read) == len(actions)
    assert read[3] == pytest.approx(actions[3].tolist())
