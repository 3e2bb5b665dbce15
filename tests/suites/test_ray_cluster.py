"""A Ray cluster of several nodes with GPUs, of which one dies while it works."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from beacon.cli.main import main
from beacon.processes import Event
from beacon.suites.cluster import RayTasks


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head that does no work; nodes are added by the test."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "num_gpus": 0})
    try:
        ray.init(address=made.address, log_to_driver=False)
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def work_on_a_node(folder: Path, tell: Callable[..., None]) -> str:
    """The first node to come says who it is and never ends; the next one does the work."""
    here = ray.get_runtime_context().get_node_id()
    first = folder / "first"
    if not first.exists():
        first.write_text(here)
        time.sleep(3600)
    return str(here)


def test_another_node_goes_on_when_one_dies(cluster: Any, tmp_path: Path) -> None:
    nodes = [cluster.add_node(num_cpus=1, num_gpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    with RayTasks(None, 1, gpus=0.25) as tasks:
        assert tasks.count == 8  # a quarter of a GPU each
        tasks.start("experiment", work_on_a_node, tmp_path)
        first = tmp_path / "first"
        _until(first.exists)
        _until(lambda: bool(first.read_text()))
        (dead,) = [node for node in nodes if node.node_id == first.read_text()]
        cluster.remove_node(dead, allow_graceful=False)
        events: list[Event] = []
        _until(lambda: bool(events.extend(tasks.events()) or events))
        assert [event.kind for event in events] == ["done"]
        assert events[0].value != dead.node_id
        assert ray.is_initialized()  # the cluster was there before


def _until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_gpus_need_ray(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "run", "sim2sim", "--gpus-per-cell", "0.25"]) == 2
    assert "--gpus-per-cell 0.25: needs --ray" in capsys.readouterr().err
