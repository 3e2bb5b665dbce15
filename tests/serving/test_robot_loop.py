"""The control loop of the examples, with the simulator as the robot and a slow network between."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import io
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from running_servers import serving, url
from serving_inputs import observation

from beacon import load_policy
from beacon.serving import Client

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "robot_loop.py"


@contextmanager
def slow_network(port: int, seconds: float) -> Iterator[str]:
    """A TCP relay that delivers everything so much later, in both directions."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    address: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                when, data = await due.get()
                await asyncio.sleep(max(0.0, when - loop.time()))
                if not data:
                    writer.close()
                    return
                writer.write(data)

        delivery = loop.create_task(deliver())
        while data := await reader.read(2**16):
            due.put_nowait((loop.time() + seconds, data))
        due.put_nowait((loop.time(), b""))
        await delivery

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    async def run() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        address.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        server.close()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    ready.wait()
    try:
        yield f"ws://127.0.0.1:{address[0]}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("robot_loop", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorder:
    """A robot of three numbers that remembers what it was told."""

    still = np.full(2, np.nan)  # to be told from actions of the policy

    def __init__(self) -> None:
        self.executed: list[np.ndarray] = []

    @property
    def observation(self) -> dict[str, Any]:
        return observation(len(self.executed))

    def execute(self, action: np.ndarray) -> bool:
        self.executed.append(np.array(action))
        return False


@pytest.fixture(autouse=True)
def no_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.FileIO("/dev/null"))


def test_it_is_short_and_stands_alone() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 80
    ast.parse(EXAMPLE.read_text())


def test_it_runs_in_simulation_over_a_slow_network(sim_policy: Path) -> None:
    with serving(sim_policy) as server, slow_network(server.port, 0.1) as address:
        done = subprocess.run(
            [sys.executable, EXAMPLE, address, "--task", "Lift", "--steps", "40"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
    assert done.returncode == 0, done.stderr
    counts = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    assert counts["steps"] == 40 and counts["chunks"] >= 2
    assert 1 <= counts["held"] < 40  # before the first answer at least


@pytest.mark.parametrize("late", ["hold", "continue"])
def test_late_answers(policy_folder: Path, late: Any) -> None:
    loop = example()
    robot = Recorder()
    with (
        serving(policy_folder) as server,
        slow_network(server.port, 1.0) as address,
        Client(address) as client,
    ):
        counts = loop.control(robot, client, loop.Options(rate=20.0, steps=80, late=late, ensemble=0.0))
    held = [bool(np.isnan(action).any()) for action in robot.executed]
    assert counts["held"] == sum(held) and counts["steps"] == len(held) == 80
    first = held.index(False)
    # An answer takes two seconds, forty steps; a chunk has four to execute and eight in all.
    stretch = held[first:].index(True)
    assert stretch == (4 if late == "hold" else 8)


def test_without_delay_every_action_is_of_a_chunk_that_the_policy_gave(policy_folder: Path) -> None:
    loop = example()
    with serving(policy_folder) as server, Client(url(server), seed=1) as client:
        robot = Recorder()
        loop.control(robot, client, loop.Options(rate=5.0, steps=12, late="hold", ensemble=0.0))
    executed = [action for action in robot.executed if not np.isnan(action).any()]
    policy = load_policy(policy_folder)
    policy.reset(1)
    first = policy.predict(observation(0))  # asked for at the first step, begun when it came
    np.testing.assert_allclose(executed[0], first[0], atol=1e-6)
    assert len(executed) >= 10


def test_ensembling_averages_chunks(policy_folder: Path) -> None:
    loop = example()
    with serving(policy_folder) as server, Client(url(server)) as client:
        robot = Recorder()
        counts = loop.control(robot, client, loop.Options(rate=10.0, steps=20, late="continue", ensemble=0.1))
    assert counts["chunks"] > 5 and counts["held"] < 10


class StallingRobot(Recorder):
    """Its fourth action takes a second, by a clock that passes in sleep and here alone."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.times = 0.0, [0.0]

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def execute(self, action: np.ndarray) -> bool:
        self.times.append(self.now)
        if len(self.times) == 5:
            self.now += 1.0
        return super().execute(action)


def test_after_a_stall_actions_are_not_sent_in_a_burst(
    policy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, robot = example(), StallingRobot()
    monkeypatch.setattr(loop, "time", robot)
    with serving(policy_folder) as server, Client(url(server)) as client:
        counts = loop.control(robot, client, loop.Options(rate=20.0, steps=40))
    between = np.diff(robot.times[1:])
    assert between[3] == pytest.approx(1.0)
    assert between[4] == pytest.approx(0.0)  # one step is caught up with
    np.testing.assert_allclose(np.delete(between, [3, 4]), 1 / 20)
    assert counts["steps"] == 40 and counts["overrun"] >= 1


def test_q_stops_it(policy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = example()
    (tmp_path / "keys").write_text("x\nq\n")
    monkeypatch.setattr("sys.stdin", (tmp_path / "keys").open())
    with serving(policy_folder) as server, Client(url(server)) as client:
        counts = loop.control(Recorder(), client, loop.Options(rate=100.0, steps=50))
    assert counts["steps"] == 1
