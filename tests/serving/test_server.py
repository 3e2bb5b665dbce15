"""One server, three clients: openpi's own, ours, ours with await. What is served is what the policy does."""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from running_servers import serving, url
from serving_inputs import NORMALIZATION, TINY, observation

from beacon import load_policy
from beacon.errors import UserError
from beacon.policy import DiffusionPolicy, ObservationSpec, save_policy
from beacon.serving import AsyncClient, Client, Limits, PolicyServer
from beacon.serving.inference import InferenceThread
from beacon.serving.metrics import ServerMetrics
from beacon.serving.protocol import fingerprint

Infer = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def server(policy_folder: Path) -> Iterator[PolicyServer]:
    with serving(policy_folder) as running:
        yield running


class Stock:
    """openpi's client as it is on PyPI."""

    def __init__(self, address: str) -> None:
        self._client = WebsocketClientPolicy(address)
        self.metadata = self._client.get_server_metadata()
        self.infer = self._client.infer

    def close(self) -> None:
        self._client._ws.close()


class Ours:
    """Our client."""

    def __init__(self, address: str) -> None:
        self._client = Client(address)
        self.metadata, self.infer, self.close = self._client.metadata, self._client.infer, self._client.close


class OursAsync:
    """Our client for event loops, driven from outside of one."""

    def __init__(self, address: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncClient(address)
        self._loop.run_until_complete(self._client.__aenter__())
        self.metadata = self._client.metadata

    def infer(self, seen: dict[str, Any]) -> dict[str, Any]:
        return self._loop.run_until_complete(self._client.infer(seen))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


@pytest.fixture(params=[Stock, Ours, OursAsync])
def client(request: pytest.FixtureRequest, server: PolicyServer) -> Iterator[Any]:
    made = request.param(url(server))
    yield made
    made.close()


def test_every_client_gets_what_the_policy_itself_does(client: Any, policy_folder: Path) -> None:
    policy = load_policy(policy_folder)
    steps = [observation(seed) for seed in range(4)]
    for number, step in enumerate(steps):
        answer = client.infer(step)
        history = {key: np.stack([s[key] for s in steps[: number + 1]]) for key in step}
        np.testing.assert_array_equal(answer["actions"], policy.predict(history, axes="history"))
        assert answer["actions"].shape == (8, 2) and answer["actions"].dtype == np.float32
        assert answer["server_timing"]["infer_ms"] > 0
        assert ("prev_total_ms" in answer["server_timing"]) == (number > 0)


def test_metadata_says_all_that_a_robot_must_know(client: Any, policy_folder: Path) -> None:
    metadata = client.metadata
    assert metadata["observation"]["front"] == {
        "shape": [24, 24, 3],
        "dtype": "uint8",
        "kind": "image",
        "fit": "stretch",
        "also_called": [],
    }
    assert metadata["observation"]["pose"]["also_called"] == ["observation/state"]
    expected = {"action_dim": 2, "action_horizon": 8, "action_steps": 4, "obs_steps": 2, "control_rate": 20.0}
    assert {key: metadata[key] for key in expected} == expected
    assert metadata["action_names"] == ["actions.0", "actions.1"]  # nobody named them
    assert metadata["policy_sha256"] == fingerprint(load_policy(policy_folder))


def test_what_is_wrong_is_said_and_the_connection_lives_on(client: Any) -> None:
    good = observation()
    for change, message in [
        ({"front": good["front"][..., :1]}, "front: uint8 images"),
        ({"front": good["front"].astype(np.float32)}, "front: uint8 images"),
        ({"pose": np.zeros(2)}, r"pose: values"),
        ({"pose": np.array([0, np.nan, 0])}, "pose: has values that are not finite"),
        ({"pose": np.zeros((2, 3))}, "disagree|leading axes"),
    ]:
        with pytest.raises((RuntimeError, UserError), match=message):
            client.infer(good | change)
        if isinstance(client, Stock):
            assert client.infer(good)["actions"].shape == (8, 2)
    if isinstance(client, Stock):
        with pytest.raises(RuntimeError, match="lacks pose or observation/state; it has front"):
            client.infer({"front": good["front"]})
    assert client.infer(good)["actions"].shape == (8, 2)


def test_names_of_the_data_are_understood(server: PolicyServer) -> None:
    seen = observation()
    with Client(url(server), seed=3) as client:
        first = client.act(seen)
        client.reset()
        seen["observation/state"] = seen.pop("pose")
        np.testing.assert_array_equal(client.act(seen), first)


def test_reset_cuts_the_history_and_seeds_repeat(server: PolicyServer, policy_folder: Path) -> None:
    policy = load_policy(policy_folder)
    stock = WebsocketClientPolicy(url(server))

    def infer(**message: Any) -> Any:
        return stock.infer(message)

    first = infer(**observation(0))["actions"]
    second = infer(**observation(1))["actions"]
    assert infer(reset=True) == {"reset": True}
    np.testing.assert_array_equal(infer(**observation(0))["actions"], first)
    np.testing.assert_array_equal(infer(**observation(1))["actions"], second)
    # With the observation, and with a seed of its own.
    seeded = infer(reset=True, seed=7, **observation(1))["actions"]
    policy.reset(7)
    np.testing.assert_array_equal(seeded, policy.predict(observation(1)))
    assert not np.array_equal(seeded, second)


def test_a_step_in_between_can_be_observed_without_asking(server: PolicyServer, policy_folder: Path) -> None:
    policy = load_policy(policy_folder)
    with Client(url(server)) as client:
        client.act(observation(0))
        for seed in (1, 2, 3):
            client.observe(observation(seed))
        later = client.act_later(observation(4)).result()
    policy.predict(observation(0))
    steps = {key: np.stack([observation(seed)[key] for seed in (3, 4)]) for key in ("front", "pose")}
    np.testing.assert_array_equal(later, policy.predict(steps, axes="history"))


def test_an_observation_that_changes_its_keys_is_named(server: PolicyServer) -> None:
    with Client(url(server)) as client:
        client.act(observation())
        with pytest.raises(UserError, match=r"^pose: .* pose was of shape \(3,\), now it is not there$"):
            client.act({"front": observation()["front"]})
        client.reset()
        assert client.act(observation()).shape == (8, 2)


def test_a_batch_has_the_bits_of_the_policy_itself(server: PolicyServer, policy_folder: Path) -> None:
    policy = load_policy(policy_folder)
    seeds, rows = list(range(100, 120)), [0, 5, 7, 19]
    policy.reset(seeds)
    with Client(url(server)) as client:
        client.reset_rows(seeds)
        for turn in range(3):
            seen = observation(turn, len(rows), 2)
            np.testing.assert_array_equal(
                client.act_batch(seen, rows), policy.predict(seen, axes="batch-history", rows=rows)
            )
        with pytest.raises(UserError, match="row 20: 'reset' was sent with 20 seeds"):
            client.act_batch(observation(0, 1, 2), [20])


def test_clients_are_computed_together_and_do_not_change_each_other(policy_folder: Path) -> None:
    clients, asks = 12, 6
    answers: dict[int, list[np.ndarray]] = {}
    with serving(policy_folder) as server:

        def drive(number: int) -> None:
            with Client(url(server), seed=number) as client:
                answers[number] = [client.act(observation(100 * number + turn)) for turn in range(asks)]

        threads = [threading.Thread(target=drive, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        text = server.metrics.text()
    policy = load_policy(policy_folder)
    for number in range(clients):
        policy.reset(number)
        steps = [observation(100 * number + turn) for turn in range(asks)]
        for turn in range(asks):
            history = {key: np.stack([s[key] for s in steps[: turn + 1]]) for key in steps[0]}
            # Float32 sums of another batch size differ in their last bits.
            want = policy.predict(history, axes="history")
            np.testing.assert_allclose(answers[number][turn], want, rtol=1e-3, atol=1e-4)
    counts = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert int(counts["beacon_request_seconds_count"]) == clients * asks
    assert int(counts["beacon_batch_size_sum"]) == clients * asks
    assert int(counts["beacon_batch_size_count"]) < clients * asks  # some were computed together


def test_with_batches_of_one_answers_are_repeatable_to_the_bit(policy_folder: Path) -> None:
    policy = load_policy(policy_folder)
    policy.reset(0)
    want = policy.predict(observation(0))
    got: list[np.ndarray] = []
    with serving(policy_folder, limits=Limits(batch=1)) as server:

        def drive() -> None:
            with Client(url(server)) as client:
                got.append(client.act(observation(0)))

        threads = [threading.Thread(target=drive) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for actions in got:
        np.testing.assert_array_equal(actions, want)


def test_health_and_metrics(server: PolicyServer) -> None:
    base = f"http://127.0.0.1:{server.port}"
    with urllib.request.urlopen(f"{base}/healthz") as reply:
        assert reply.status == 200 and reply.read() == b"OK\n"
    with Client(url(server)) as client:
        client.act(observation())
        with pytest.raises(UserError):
            client.act_batch({"front": np.zeros((1, 1, 4, 4, 3), np.uint8)}, [0])
    with urllib.request.urlopen(f"{base}/metrics") as reply:
        text = reply.read().decode()
    for line in (
        "# TYPE beacon_request_seconds summary",
        'beacon_request_seconds{quantile="0.99"}',
        'beacon_batch_size_bucket{le="+Inf"}',
        'beacon_errors_total{reason="request"}',
        "beacon_connections ",
    ):
        assert line in text


def test_health_answers_while_a_slow_inference_runs(server: PolicyServer) -> None:
    with Client(url(server)) as client:
        # Hundreds of histories in one batch take a while.
        seen = observation(0, 256, 2)
        client.act_batch(seen, list(range(256)))
        before = server.metrics.text().count("\n")
        running = threading.Thread(target=client.act_batch, args=(seen, list(range(256))))
        running.start()
        answered = 0
        while running.is_alive():
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz") as reply:
                answered += reply.status == 200
        running.join()
    assert answered >= 1 and before > 10


def test_the_number_of_threads_is_measured_unless_it_is_said(policy_folder: Path) -> None:
    policy, before = load_policy(policy_folder), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        measured = InferenceThread(policy, Limits(), ServerMetrics())
        measured.ready()
        assert set(measured.trials) == {1, 2} and measured.threads in (1, 2)
        assert measured.trials[measured.threads] == min(measured.trials.values())
        said = InferenceThread(policy, Limits(), ServerMetrics(), threads=2)
        said.ready()
        assert said.threads == 2 and not said.trials
        measured.stop()
        said.stop()
    finally:
        torch.set_num_threads(before)


def test_a_policy_whose_names_are_the_protocols_is_refused(tmp_path: Path) -> None:
    spec = ObservationSpec(cameras={}, proprio={"reset": 3}, action_dim=2)
    scale = {"offset": [0.0] * 3, "scale": [1.0] * 3}
    save_policy(
        tmp_path,
        state=DiffusionPolicy(spec, TINY).state_dict(),
        ema_state=None,
        spec=spec,
        config=TINY,
        normalization={"actions": NORMALIZATION["actions"], "proprio": {"reset": scale}},
    )
    with pytest.raises(UserError, match="called 'reset', which is a control key"), serving(tmp_path):
        pass
