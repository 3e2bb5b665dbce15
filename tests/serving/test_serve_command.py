"""``beacon serve`` and ``beacon evaluate ws://...`` from the command line, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving_inputs import observation
from tiny_runs import start_cli

from beacon.cli.main import main
from beacon.errors import UserError
from beacon.serving import Client, ServerUnavailable
from beacon.serving.access import read_key

KEY = "0123456789abcdef0123456789abcdef"


@contextmanager
def served(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address of a server."""
    process = start_cli("serve", *map(str, arguments), "--port", "0", "--threads", "1")
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        address = re.search(r"ws://\S+:\d+", line)
        assert address, line + process.stderr.read()
        yield process, address[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_it_serves_until_sigterm_and_answers_what_is_in_flight(policy_folder: Path) -> None:
    clients, answers, failures = 4, [], []
    asked, rows = threading.Barrier(clients + 1), 256
    with served(policy_folder) as (process, address):

        def drive() -> None:
            with Client(address) as client:
                seen = observation(0, rows, 2)
                client.act_batch(seen, range(rows))  # warm, and connected
                client._connection.send(_batch(seen, rows))  # type: ignore[union-attr]
                asked.wait()
                try:
                    answers.append(client._connection.recv(timeout=600))  # type: ignore[union-attr]
                except Exception as error:
                    failures.append(error)

        threads = [threading.Thread(target=drive) for _ in range(clients)]
        for thread in threads:
            thread.start()
        asked.wait()
        # Until every message has arrived the server cannot know of it.
        while _busy(address) < clients and not answers:
            pass
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert process.wait(timeout=600) == 0
        assert not failures and len(answers) == clients
        assert process.stderr is not None and process.stderr.read() == ""


def _batch(seen: dict[str, Any], rows: int) -> bytes:
    from beacon.serving.client_state import batch_message

    return batch_message(seen, range(rows))


def _busy(address: str) -> int:
    import urllib.request

    with urllib.request.urlopen(address.replace("ws://", "http://") + "/metrics") as reply:
        found = re.search(r"^beacon_requests_in_flight (\d+)$", reply.read().decode(), re.MULTILINE)
    assert found
    return int(found[1])


def test_a_client_connects_again_after_a_restart(policy_folder: Path) -> None:
    with served(policy_folder) as (process, address):
        port = address.rsplit(":", 1)[1]
        client = Client(address, seed=5, patience=600)
        first = client.act(observation(0))
        client.observe(observation(1))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 0
    again = start_cli("serve", policy_folder, "--port", port, "--threads", "1")
    try:
        assert client.act(observation(2)).shape == (8, 2)  # waits for the new server, history intact
        assert client.reconnects == 1
        client.reset()
        np.testing.assert_array_equal(client.act(observation(0)), first)  # the seed was sent again
        client.close()
    finally:
        again.send_signal(signal.SIGINT)
        assert again.wait(timeout=600) == 0


def test_without_a_server_a_client_says_so(free_port: int) -> None:
    with pytest.raises(ServerUnavailable, match=f"ws://127.0.0.1:{free_port}: cannot be reached"):
        Client(f"ws://127.0.0.1:{free_port}", patience=0.2)
    for wrong in ("127.0.0.1:8000", "http://127.0.0.1", "ws://"):
        with pytest.raises(UserError, match="an address such as ws://"):
            Client(wrong)


def test_a_server_that_does_not_answer_in_time(policy_folder: Path) -> None:
    with served(policy_folder) as (process, address), Client(address, timeout=600.0) as client:
        client.act(observation())
        client.options = replace(client.options, timeout=1.0)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(ServerUnavailable, match="no answer within 1 s"):
            client.act(observation())
        process.send_signal(signal.SIGCONT)
        client.options = replace(client.options, timeout=600.0)
        assert client.act(observation()).shape == (8, 2)  # not the late answer of the question before
        assert client.reconnects == 1


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_what_is_wrong_is_one_line(
    policy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    short, good, odd = tmp_path / "short", tmp_path / "good", tmp_path / "odd"
    short.write_text("abc\n")
    good.write_text(KEY + "\n")
    odd.write_bytes(b"\xff" * 40)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for arguments, message in [
            ([tmp_path / "nowhere"], "there is no such folder"),
            ([tmp_path / "empty"], "neither a checkpoint"),
            ([policy_folder, "--port", port], f"--port {port}: another program listens on 127.0.0.1:{port}"),
            ([policy_folder, "--port", 70_000], "--port 70000: must be from 0 to 65535"),
            ([policy_folder, "--host", "0.0.0.0"], "--host 0.0.0.0: others could move your robot"),
            ([policy_folder, "--host", "::"], "others could move your robot"),
            ([policy_folder, "--host", "robot.invalid", "--insecure"], "cannot listen on robot.invalid"),
            ([policy_folder, "--host", "a b"], "not an address"),
            ([policy_folder, "--key-file", tmp_path / "none"], "not readable (No such file"),
            ([policy_folder, "--key-file", short], "a key has at least 16"),
            ([policy_folder, "--key-file", odd], "not readable"),
            ([policy_folder, "--key-file", tmp_path], "not readable"),
            ([policy_folder, "--device", "cuda:77"], "--device cuda:77: not usable here"),
            ([policy_folder, "--device", "meta"], "--device meta: not usable here"),
            ([policy_folder, "--device", "nonsense"], "--device nonsense: not usable here"),
            ([policy_folder, "--threads", 0], "--threads 0: must be"),
            ([policy_folder, "--seed", -1], "--seed -1"),
            ([policy_folder, "--batch", 0], "batch 0: must be at least 1"),
            ([policy_folder, "--message-mb", 0], "message_bytes 0"),
            ([policy_folder, "--rate", "nan"], "--rate nan: a number expected"),
            ([policy_folder, "--ports", 1], "see beacon serve --help"),
            ([], "see beacon serve --help"),
        ]:
            assert main(["serve", *map(str, arguments)]) == 2, arguments
            captured = capsys.readouterr()
            assert captured.err.startswith("beacon: ") and message in captured.err, captured.err
            assert captured.err.count("\n") == 1 and captured.out == ""


def test_a_key_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    file.chmod(0o644)
    with pytest.warns(UserWarning, match="others on this machine can read the key"):
        assert read_key(file) == KEY
    file.chmod(0o600)
    assert read_key(file) == KEY


def test_other_addresses_with_a_key(policy_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    with served(policy_folder, "--host", "0.0.0.0", "--key-file", file) as (_, address):
        local = address.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(UserError, match="401"):
            Client(local)
        with Client(local, key=KEY) as client:
            assert client.act(observation()).shape == (8, 2)


def test_evaluation_of_a_served_policy_is_that_of_the_run_to_the_bit(
    sim_policy: Path, tmp_path: Path
) -> None:
    options = ["--task", "lift", "--domain", "texture", "--episodes", "3"]
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    assert main(["evaluate", str(sim_policy), *options, "--out", str(here)]) == 0
    with served(sim_policy) as (_, address):
        assert main(["evaluate", address, *options, "--out", str(there)]) == 0
    ours, theirs = (json.loads(file.read_text()) for file in (here, there))
    assert theirs["policy"] == address
    assert ours["provenance"]["evaluation"]["beacon"] and "training" not in theirs["provenance"]
    for result in (ours, theirs):
        for clock in ("policy", "seconds", "provenance"):
            del result[clock]
    assert ours == theirs


def test_evaluation_with_a_key_and_without_a_server(
    policy_folder: Path, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beacon.sim.policies import load

    monkeypatch.setattr("beacon.serving.remote.PATIENCE", 0.2)
    with pytest.raises(ServerUnavailable):
        load(f"ws://127.0.0.1:{free_port}")
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    with served(policy_folder, "--key-file", file) as (_, address):
        with pytest.raises(UserError, match="401"):
            load(address)
        monkeypatch.setenv("BEACON_KEY_FILE", os.fspath(file))
        policy = load(address)
        assert (policy.obs_steps, policy.action_steps) == (2, 4)
        assert list(policy.observation_keys) == ["front", "pose"]
