"""The page while runs go on: it follows them, to this machine only, and costs training nothing."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import Browser

from beacon.errors import UserError
from beacon.report import live
from beacon.report.live import LivePage, LiveServer, watching


@pytest.fixture
def served(
    copy_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[LiveServer, Path]]:
    monkeypatch.setattr(live, "SHORTEST", 0.0)
    run = copy_run()
    with LiveServer(LivePage([run]), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield server, run
        server.shutdown()


def get(address: str, **headers: str) -> str:
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
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


def test_watching_serves_beside_the_training_and_ends_with_it(copy_run: Callable[..., Path]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with watching(copy_run(), port) as process:
        until = time.monotonic() + 60
        while True:
            try:
                assert "BEACON report" in get(f"http://127.0.0.1:{port}/")
                break
            except OSError:
                assert time.monotonic() < until and process.poll() is None
                time.sleep(0.2)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= 10
    assert process.poll() is not None
