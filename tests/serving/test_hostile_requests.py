"""What hostile and broken clients send: each is refused with one line, and the others notice nothing."""

from __future__ import annotations

import asyncio
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import websockets.sync.client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpi_client import msgpack_numpy
from running_servers import serving, url
from serving_inputs import observation
from websockets.exceptions import ConnectionClosed, InvalidStatus

from beacon.errors import UserError
from beacon.serving import Client, Limits, PolicyServer
from beacon.serving.rate import RateLimit
from beacon.serving.wire import check_structure, pack, unpack

KEY = "k" * 20 + "0123456789"
LIMITS = Limits(message_bytes=2**20)


@pytest.fixture(scope="module")
def server(policy_folder: Path) -> Iterator[PolicyServer]:
    with serving(policy_folder, limits=LIMITS) as running:
        yield running


class Raw:
    """A connection that sends what it is given."""

    def __init__(self, server: PolicyServer, **headers: str) -> None:
        self.connection = websockets.sync.client.connect(
            url(server), compression=None, max_size=None, additional_headers=headers
        ).__enter__()
        self.connection.recv()

    def refused(self, message: bytes | str) -> str:
        self.connection.send(message)
        reply = self.connection.recv(timeout=120)
        assert isinstance(reply, str), reply
        assert "Traceback" not in reply and "\n" not in reply and len(reply) < 500
        return reply

    def works(self) -> None:
        self.connection.send(pack(observation()))
        reply = unpack(self.connection.recv(timeout=120), Limits())  # type: ignore[arg-type]
        assert reply["actions"].shape == (8, 2)


@pytest.fixture
def raw(server: PolicyServer) -> Iterator[Raw]:
    made = Raw(server)
    yield made
    made.works()  # the connection lives on after all that it was sent
    made.connection.close()


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


def array(dtype: Any = "<f8", shape: Any = (3,), data: Any = b"\0" * 24) -> dict[bytes, Any]:
    return {b"__ndarray__": True, b"data": data, b"dtype": dtype, b"shape": shape}


BOMBS = {
    "deep lists": (nested(100_000), "nested deeper"),
    "deep maps": (b"\x81\xa1a" * 1000 + b"\xc0", "nested deeper"),
    "many empty maps": (b"\xdc\xff\xff" + b"\x80" * 65_535, "more than 10000 values"),
    "a list that says four billion": (b"\xdd\xff\xff\xff\xff", "cut off"),
    "a map that says four billion": (b"\xdf\xff\xff\xff\xff", "cut off"),
    "bytes that say four billion": (b"\xc6\xff\xff\xff\xff", "cut off"),
    "a long text": (msgpack.packb("a" * 100_000), "a text of 100000 bytes"),
    "nothing": (b"", "empty"),
    "an extension": (msgpack.packb(msgpack.ExtType(5, b"abc")), "not allowed"),
    "a time": (msgpack.packb(msgpack.Timestamp(1)), "not allowed"),
    "a reserved byte": (b"\xc1", "not allowed"),
    "two messages": (b"\xc0\xc0", "1 bytes too many"),
    "a cut message": (pack(observation())[:-10], "cut off"),
    "no map": (msgpack.packb([1, 2]), "a map of observations is expected, not list"),
    "a number": (msgpack.packb(7), "a map of observations is expected, not int"),
    "numbers as keys": (msgpack.packb({1: 2}), "not msgpack of text keys"),
    "bytes as keys": (msgpack.packb({b"front": 1}), "keys are text"),
    "text that is not UTF-8": (b"\x81\xa2\xff\xfe\xc0", "not msgpack"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_messages_that_are_none(raw: Raw, name: str) -> None:
    message, complaint = BOMBS[name]
    assert complaint in raw.refused(message)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (array(dtype="|O"), "dtype '|O'"),
        (array(dtype="O"), "dtype 'O'"),
        (array(dtype="<c16"), "dtype '<c16'"),
        (array(dtype="|V8"), "dtype '|V8'"),
        (array(dtype="<i4,<i4"), "dtype '<i4,<i4'"),
        (array(dtype="<M8[s]"), "dtype"),
        (array(dtype="<U6"), "dtype"),
        (array(dtype=5), "dtype 5"),
        (array(dtype="x" * 10_000), "dtype"),
        (array(shape=[4]), "with 24 bytes of data"),
        (array(shape=[-1]), "shape [-1]"),
        (array(shape=[2**62, 2**62]), "with 24 bytes of data"),
        (array(shape=[0, 2**62], data=b""), "empty array"),
        (array(shape="3"), "shape '3'"),
        (array(shape=[1.5]), "shape [1.5]"),
        (array(shape=[1] * 50), "shape"),
        (array(data=[1, 2, 3]), "with list of data"),
        ({b"__ndarray__": True}, "dtype None"),
        ({b"__npgeneric__": True, b"data": "a", b"dtype": "<f8"}, "no number"),
        ({b"__npgeneric__": True, b"data": 300, b"dtype": "|u1"}, "no uint8"),
        ({"deeper": {"and": "deeper"}}, "pose: numbers expected"),
        ([[1, 2], [3]], "pose: values"),
        ("text", "pose: numbers expected"),
        (None, "pose: numbers expected"),
        ([float("nan")] * 3, "pose: has values that are not finite"),
        ([float("inf")] * 3, "pose: has values that are not finite"),
        ([1e300, 0.0, 0.0], "pose: has values too large"),
        ([1.0, 2.0], "pose: values"),
    ],
)
def test_arrays_that_are_none(raw: Raw, value: Any, complaint: str) -> None:
    message = msgpack_numpy.packb({"front": observation()["front"], "pose": value})
    assert complaint in raw.refused(message)


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ({"reset": 1}, "'reset' is true or false"),
        ({"reset": True, "seed": -1}, "'seed' has whole numbers"),
        ({"reset": True, "seed": 2**63}, "'seed' has whole numbers"),
        ({"reset": True, "seed": "1"}, "'seed' has whole numbers"),
        ({"reset": True, "seed": [1.5]}, "'seed' has whole numbers"),
        ({"seed": 3}, "'seed' comes with 'reset'"),
        ({"rows": list(range(300))}, "a list of up to 256"),
        ({"rows": [0], "history": True}, "not both"),
        ({"rows": [0, 1]}, "mean 2 leading axes"),
        ({"history": True}, "mean 1 leading axes"),
        ({"unused": np.zeros((1, 1, 3000))}, "sides of up to 2048"),
    ],
)
def test_control_keys_that_make_no_sense(raw: Raw, extra: dict[str, Any], complaint: str) -> None:
    assert complaint in raw.refused(pack(observation() | extra))


def test_an_image_of_another_size_in_one_history(raw: Raw) -> None:
    raw.works()
    larger = np.zeros((48, 48, 3), np.uint8)
    assert "send 'reset' first" in raw.refused(pack(observation() | {"front": larger}))


def test_text_frames(raw: Raw) -> None:
    assert raw.refused('{"front": 1}') == "binary messages in msgpack are expected, not text"


def test_a_message_that_is_too_large_ends_that_connection_alone(server: PolicyServer, raw: Raw) -> None:
    other = Raw(server)
    other.connection.send(b"\0" * (LIMITS.message_bytes + 1))
    with pytest.raises(ConnectionClosed) as closed:
        other.connection.recv(timeout=120)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=400))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        unpack(data, Limits())
    except UserError:
        return
    msgpack.unpackb(data, strict_map_key=False)  # what we take, msgpack takes


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(position=st.integers(0, 1900), value=st.integers(0, 255))
def test_one_changed_byte_never_fails_otherwise(position: int, value: int) -> None:
    message = bytearray(pack(observation()))
    message[position % len(message)] = value
    with suppress(UserError):
        unpack(bytes(message), Limits())


def test_what_we_pack_openpi_unpacks_and_the_other_way_round() -> None:
    message = {
        "image": np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "scalar": np.float32(1.5),
        "flag": np.bool_(True),
        "list": [1, 2.5, None, "text"],
        "inner": {"deep": np.zeros((), np.int64)},
    }
    for packer, unpacker in [
        (pack, msgpack_numpy.unpackb),
        (msgpack_numpy.packb, lambda data: unpack(data, Limits())),
        (pack, lambda data: unpack(data, Limits())),
    ]:
        back = unpacker(packer(message))
        assert back.keys() == message.keys()
        np.testing.assert_array_equal(back["image"], message["image"])
        np.testing.assert_array_equal(back["turned"], message["turned"])
        assert back["scalar"] == 1.5 and back["scalar"].dtype == np.float32
        assert back["inner"]["deep"].shape == () and back["list"] == message["list"]
    for wrong in (np.array([object()]), np.zeros(2, complex), object(), np.array("text")):
        with pytest.raises(UserError, match="cannot be sent"):
            pack({"a": wrong})


def test_the_structure_is_checked_without_building_it() -> None:
    check_structure(msgpack.packb({"a": [1, -1, 1.5, None, True, b"xy", "z", 2**40, -(2**40)]}), Limits())
    with pytest.raises(UserError, match="nested deeper than 3"):
        check_structure(nested(4), Limits(depth=3))
    check_structure(nested(3), Limits(depth=3))


# Who may connect


def status(server: PolicyServer, path: str = "/healthz", **headers: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("evil.example", 403),
        ("evil.example:8000", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("localhost:8000", 200),
        ("[::1]:8000", 200),
        ("192.168.1.5:8000", 200),
        ("", 403),
    ],
)
def test_names_that_lead_here_from_elsewhere(server: PolicyServer, host: str, expected: int) -> None:
    assert status(server, Host=host) == expected
    if expected == 403:
        with pytest.raises(InvalidStatus) as refused:
            Raw(server, Host=host)
        assert refused.value.response.status_code in (400, 403)


def test_pages_in_browsers_are_refused(server: PolicyServer) -> None:
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port}"):
        assert status(server, "/metrics", Origin=origin) == 403
        with pytest.raises(InvalidStatus):
            Raw(server, Origin=origin)


def test_keys(policy_folder: Path) -> None:
    with serving(policy_folder, key=KEY) as server:
        with Client(url(server), key=KEY) as client:
            assert client.act(observation()).shape == (8, 2)
        for headers in (
            {},
            {"Authorization": f"Api-Key {KEY}x"},
            {"Authorization": f"Bearer {KEY}"},
            {"Authorization": KEY},
            {"Authorization": "Api-Key ü"},
        ):
            assert status(server, "/metrics", **headers) == 401
        assert status(server, "/metrics", Authorization=f"Api-Key {KEY}") == 200
        assert status(server, "/healthz") == 200  # says nothing but that it lives
        assert status(server, "/healthz", Host="robot-7.lab:8000") == 200  # the key protects, not the name
        with pytest.raises(UserError, match="401: send the key as"):
            Client(url(server), key="wrong" * 5)
        assert 'beacon_errors_total{reason="refused"} 6' in server.metrics.text()


# Clients that misbehave while others work


def test_a_thousand_idle_connections_and_broken_ones_among_them(policy_folder: Path) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard) if hard > 0 else 8192, hard))
    with serving(policy_folder, limits=Limits(connections=1_050)) as server:

        async def crowd() -> int:
            from websockets.asyncio.client import connect

            connections = [
                await connect(url(server), compression=None, ping_interval=None) for _ in range(1_000)
            ]
            for number, connection in enumerate(connections[:100]):
                if number % 2:
                    connection.transport.abort()  # vanishes
                else:
                    await connection.send(pack(observation()))  # asks, and reads nothing
            broken = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
            for one in broken:
                one.send(b"GET / HTTP/1.1\r\nHost: loc")  # never ends its handshake
            answers = await asyncio.to_thread(work)
            for one in broken:
                one.close()
            for connection in connections:
                connection.transport.abort()
            return answers

        def work() -> int:
            with Client(url(server)) as client:
                return sum(client.act(observation(seed)).shape == (8, 2) for seed in range(20))

        assert asyncio.run(crowd()) == 20


def test_connections_beyond_the_limit_are_refused_and_come_later(policy_folder: Path) -> None:
    with serving(policy_folder, limits=Limits(connections=3)) as server:
        held = [Raw(server) for _ in range(3)]
        with pytest.raises(InvalidStatus) as refused:
            Raw(server)
        assert refused.value.response.status_code == 503
        held[0].connection.close()
        with Client(url(server), patience=600) as client:  # waits until there is room
            assert client.act(observation()).shape == (8, 2)


def test_a_client_that_vanishes_in_mid_request(server: PolicyServer, raw: Raw) -> None:
    for _ in range(20):
        other = Raw(server)
        other.connection.send(pack(observation()))
        # Reset instead of a goodbye.
        other.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        other.connection.socket.close()
    raw.works()


@pytest.mark.parametrize("reset", [True, False])
def test_frames_that_are_cut_off(server: PolicyServer, raw: Raw, reset: bool) -> None:
    message = pack(observation())
    frame = b"\x82\xff" + struct.pack(">Q", len(message)) + b"\0\0\0\0" + message
    for cut in (1, 5, 12, len(frame) - 1):
        other = Raw(server)
        other.connection.socket.sendall(frame[:cut])
        if reset:
            other.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        other.connection.socket.close()
        raw.works()


def test_a_client_that_stops_reading_is_let_go(policy_folder: Path) -> None:
    limits = Limits(send_seconds=0.5, requests_per_second=1e6)
    with serving(policy_folder, limits=limits) as server:
        with socket.socket() as idle:
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            idle.connect(("127.0.0.1", server.port))
            idle.send(
                b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            # Each is answered with a complaint of its own length, and nobody reads them.
            message = pack({f"{number:040d}": 1 for number in range(20)})
            frame = b"\x82\xff" + struct.pack(">Q", len(message)) + b"\0\0\0\0" + message
            with pytest.raises(ConnectionError):
                while True:
                    idle.sendall(frame)
        with Client(url(server)) as client:
            assert client.act(observation()).shape == (8, 2)
        assert 'beacon_errors_total{reason="stopped reading"} 1' in server.metrics.text()


def test_who_asks_too_often_is_answered_later(policy_folder: Path) -> None:
    rate = RateLimit(20, now=100.0)
    assert [rate.delay(100.0) for _ in range(20)] == [0.0] * 20  # a second's permits at once
    assert [rate.delay(100.0) for _ in range(3)] == pytest.approx([0.05, 0.1, 0.15])
    assert rate.delay(101.0) == 0.0
    slow = RateLimit(0.5, now=0.0)
    assert [slow.delay(0.0), slow.delay(0.0)] == [0.0, 2.0]
    with serving(policy_folder, limits=Limits(requests_per_second=200)) as server:
        raw = Raw(server)
        for _ in range(220):  # more than there are permits: all are answered
            raw.connection.send(msgpack.packb({"reset": True}))
            assert raw.connection.recv() == msgpack.packb({"reset": True})
