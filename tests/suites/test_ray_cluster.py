"""A Ray cluster of several nodes with GPUs, of which one dies while it works, and whose head restarts."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import ray
from ray._common.utils import get_default_ray_temp_dir
from ray._raylet import (
    DASHBOARD_AGENT_LISTEN_PORT_NAME,
    METRICS_AGENT_PORT_NAME,
    METRICS_EXPORT_PORT_NAME,
    get_port_filename,
)

from beacon.cli.main import main
from beacon.processes import Event
from beacon.suites.cluster import RayTasks

PATIENCE = 900  # seconds; see conftest.py


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A head that does no work and keeps its tables on the disk; nodes are added by the tests."""
    from ray.cluster_utils import Cluster

    storage, name = tmp_path_factory.mktemp("head"), f"session_{uuid4().hex}"
    (storage / "session_name").write_text(name)
    session = Path(get_default_ray_temp_dir()) / name
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_gcs_storage", "rocksdb")
        patch.setenv("RAY_gcs_storage_path", str(storage))
        made = Cluster()
        made.add_node(wait=False, num_cpus=0, num_gpus=0, include_dashboard=False, **patiently(session))
        try:
            made.wait_for_nodes(PATIENCE)
            ray.init(address=made.address, log_to_driver=False)
            ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


def patiently(session: Path) -> dict[str, Any]:
    """Options of a node that does not wait for its agents, which a busy machine is slow to start.

    A node ends itself where an agent has not said on which port it listens after half a minute, whatever is
    configured. Two of them are not used here, which is said in their place; the third is told its port.
    """
    node = ray.NodeID.from_random().hex()
    session.mkdir(parents=True, exist_ok=True)
    for agent in (METRICS_AGENT_PORT_NAME, METRICS_EXPORT_PORT_NAME, DASHBOARD_AGENT_LISTEN_PORT_NAME):
        (session / get_port_filename(node, agent)).write_text("-1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"env_vars": {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": node}, "runtime_env_agent_port": port}


def add_nodes(cluster: Any, count: int) -> list[Any]:
    """Nodes with a processor and a GPU each."""
    session = Path(cluster.head_node.get_session_dir_path())
    nodes = [cluster.add_node(wait=False, num_cpus=1, num_gpus=1, **patiently(session)) for _ in range(count)]
    cluster.wait_for_nodes(PATIENCE)
    return nodes


def work_on_a_node(folder: Path, tell: Callable[..., None]) -> str:
    """The first node to come says who it is and never ends; the next one does the work."""
    here = ray.get_runtime_context().get_node_id()
    first = folder / "first"
    if not first.exists():
        first.write_text(here)
        time.sleep(3600)
    return str(here)


def work_until_told(folder: Path, tell: Callable[..., None]) -> int:
    """Say that it has begun, and end when somebody says so; how often it has begun."""
    begun = folder / "begun"
    with begun.open("a") as file:
        file.write("x")
    _until((folder / "end").exists)
    return len(begun.read_text())


def test_another_node_goes_on_when_one_dies(cluster: Any, tmp_path: Path) -> None:
    nodes = add_nodes(cluster, 2)
    with RayTasks(None, 1, gpus=0.25) as tasks:
        assert tasks.count == 8  # a quarter of a GPU each
        tasks.start("experiment", work_on_a_node, tmp_path)
        first = tmp_path / "first"
        _until(first.exists)
        _until(lambda: bool(first.read_text()))
        (dead,) = [node for node in nodes if node.node_id == first.read_text()]
        cluster.remove_node(dead, allow_graceful=False)
        event = next_event(tasks)
        assert event.kind == "done", event.value
        assert event.value != dead.node_id
        assert ray.is_initialized()  # the cluster was there before


def test_work_goes_on_while_the_head_restarts(cluster: Any, tmp_path: Path) -> None:
    if len(cluster.worker_nodes) == 0:
        add_nodes(cluster, 1)
    with RayTasks(1, 1, gpus=0.25) as tasks:
        tasks.start("experiment", work_until_told, tmp_path)
        _until((tmp_path / "begun").exists)
        cluster.head_node.kill_gcs_server()
        cluster.head_node.start_gcs_server()
        (tmp_path / "end").touch()
        event = next_event(tasks)
        assert (event.kind, event.value) == ("done", 1)  # it was not begun again
        (again := tmp_path / "again").mkdir()
        (again / "end").touch()
        tasks.start("another", work_until_told, again)
        assert next_event(tasks).kind == "done"  # and the new head hands out work


def next_event(tasks: RayTasks) -> Event:
    """The first that a task says."""
    events: list[Event] = []
    _until(lambda: bool(events.extend(tasks.events()) or events))
    return events[0]


def _until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_gpus_need_ray(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "run", "sim2sim", "--gpus-per-cell", "0.25"]) == 2
    assert "--gpus-per-cell 0.25: needs --ray" in capsys.readouterr().err
