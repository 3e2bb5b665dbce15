"""The page while runs go on: it follows them, to this machine only, and costs training nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from demonstrations import make_dataset
from tiny_runs import TINY_OPTIONS, start_cli

from beacon.errors import UserError
from beacon.report import live
from beacon.report.live import LivePage, LiveServer, watching


@pytest.fixture
def served(
    copy_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[LiveServer, Path]]:
    monkeypatch.setattr(live, "SHORTEST", 0.0)
    run = copy_run()
    # Other tests may have left a map by PCA in the run.
    with LiveServer(LivePage([run], projection="umap"), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield server, run
        server.shutdown()


def get(address: str, **headers: str) -> str:
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return str(answer.read().decode())


def append(run: Path, step: int) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "train", "step": step, "loss": 0.123, "loss/real": 0.2}) + "\n")


def test_the_page_follows_the_run(served: tuple[LiveServer, Path]) -> None:
    server, run = served
    first, version = get(server.address), get(f"{server.address}version")
    assert get(f"{server.address}version") == version
    assert "The map is not drawn while training goes on" in first
    append(run, 777)
    assert get(f"{server.address}version") != version
    assert "777 of 16" in get(server.address) and "777 of 16" not in first


def test_an_open_page_reloads_itself(served: tuple[LiveServer, Path], browser: Browser) -> None:
    server, run = served
    browser.complaints.clear()
    browser.open(server.address)
    assert "live" in browser.run("document.getElementById('live').textContent")
    browser.run("window.old = true")
    time.sleep(3.2)  # until it has asked for the version once
    append(run, 888)
    browser.wait("window.old === undefined && document.documentElement?.dataset?.drawn === 'yes'")
    assert "888 of 16" in browser.run("document.body.textContent")
    assert browser.complaints == []


def test_only_this_machine_by_its_own_name(served: tuple[LiveServer, Path]) -> None:
    server, _ = served
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(server.address, Host="evil.example:80")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{server.address}../../etc/passwd")


def test_a_run_that_has_not_begun_is_waited_for(tmp_path: Path) -> None:
    page = LivePage([tmp_path / "soon"])
    assert b"Nothing to show yet" in page.page()


def test_a_taken_port_is_one_line(served: tuple[LiveServer, Path]) -> None:
    server, run = served
    with pytest.raises(UserError, match="cannot serve there"):
        LiveServer(LivePage([run]), server.server_address[1])


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def get_soon(port: int, wanted: str, process: subprocess.Popen[Any]) -> None:
    """Ask until the page says what is wanted, as long as the process that serves it lives."""
    until = time.monotonic() + 900  # as long as a busy machine may need
    seen = ""
    while wanted not in seen:
        assert time.monotonic() < until and process.poll() is None, seen
        time.sleep(0.2)
        with suppress(OSError):
            seen = get(f"http://127.0.0.1:{port}/")


def test_a_run_is_watched_while_it_trains(tmp_path: Path) -> None:
    files = [make_dataset(tmp_path / f"{name}.hdf5", 2, seed=seed) for seed, name in enumerate("st")]
    port = free_port()
    process = start_cli(
        *("train", "--source", files[0], "--target", files[1], "--out", tmp_path / "run", *TINY_OPTIONS),
        *("--steps", "100000", "--steps-per-epoch", "10", "--batch-size", "8", "--device", "cpu"),
        *("--no-tensorboard", "--watch", "--watch-port", port),
    )
    try:
        get_soon(port, "of 100,000 steps", process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
    with pytest.raises(OSError, match="refused"):
        get(f"http://127.0.0.1:{port}/")


def test_watching_serves_beside_the_training_and_ends_with_it(copy_run: Callable[..., Path]) -> None:
    port = free_port()
    with watching(copy_run(), port) as process:
        get_soon(port, "BEACON report", process)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= min(19, own + 10)
    assert process.poll() is not None


def test_readers_that_go_away_leave_no_words(
    served: tuple[LiveServer, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    server, _ = served
    for request in (
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", server.server_address[1])) as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                reader.send(request)
    assert "BEACON report" in get(server.address)
    assert "Traceback" not in capfd.readouterr().err


def test_other_failures_are_one_line(
    served: tuple[LiveServer, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    server, _ = served
    for error, said in (
        (BrokenPipeError(), ""),
        (KeyError("x"), "beacon: warning: a request failed (KeyError)\n"),
    ):
        try:
            raise error
        except Exception:
            server.handle_error(None, None)
        assert capsys.readouterr().err == said
