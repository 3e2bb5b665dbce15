"""Cost of serving, as ratios within one run: python benchmarks/serving.py [--json FILE] [--quick].

What a request costs beyond its inference, throughput with 1, 8 and 64 clients, latency among 1,000 idle and
some broken connections, an action chunk of the paper's network, and how many threads are good for it.
``--lerobot PYTHON``, an interpreter that has LeRobot, adds its DiffusionPolicy of the same size, in turns.
The server is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from action_chunk import measure_chunk, measure_threads
from beacon.policy import PRESETS, DiffusionPolicy, EncoderConfig, ObservationSpec, PolicyConfig, save_policy
from beacon.serving import AsyncClient, Client


def small_policy(folder: Path, cameras: int, size: int, config: PolicyConfig) -> Path:
    """An untrained policy with some cameras."""
    spec = ObservationSpec({f"camera{n}": (size, size, 3) for n in range(cameras)}, {"state": 7}, 7)
    flat = {"offset": [0.0] * 7, "scale": [1.0] * 7}
    save_policy(
        folder,
        state=DiffusionPolicy(spec, config).state_dict(),
        ema_state=None,
        spec=spec,
        config=config,
        normalization={"actions": flat, "proprio": {"state": flat}},
    )
    return folder


def observation(cameras: int, size: int) -> dict[str, Any]:
    """Random pictures."""
    rng = np.random.default_rng(0)
    shape = (size, size, 3)
    images = {f"camera{n}": rng.integers(0, 256, shape, dtype=np.uint8) for n in range(cameras)}
    return images | {"state": np.zeros(7, np.float32)}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A server in a process of its own."""
    command = [sys.executable, "-c", "from beacon.cli.main import entry; entry()", "serve", str(folder)]
    options = ["--port", "0", "--threads", "1", "--rate", "100000"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"ws://\S+:\d+", process.stdout.readline())
        assert found
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def ask(url: str, seen: dict[str, Any], requests: int) -> tuple[list[float], list[float]]:
    """Times of requests, and what they cost beyond inference, in milliseconds."""
    totals, beyond = [], []
    with Client(url) as client:
        for number in range(requests + 5):
            began = time.perf_counter()
            answer = client.infer(seen)
            total = 1000 * (time.perf_counter() - began)
            if number >= 5:
                totals.append(total)
                beyond.append(total - answer["server_timing"]["infer_ms"])
    return totals, beyond


def measure_overhead(work: Path, quick: bool) -> dict[str, float]:
    """A request beyond its inference, for one camera of 96 and three of 224 pixels."""
    config = replace(
        PRESETS["cpu"],
        encoder=EncoderConfig(widths=(8, 8, 8, 8), output_stride=32, keypoints=4, feature_dim=None),
        channels=(16,),
        groups=4,
        sampling_steps=1,
    )
    result = {}
    for cameras, size in ((1, 96), (3, 224)):
        folder = small_policy(work / f"overhead{size}", cameras, size, config)
        with served(folder) as url:
            _, beyond = ask(url, observation(cameras, size), 50 if quick else 300)
        # The fastest tenth is what the server costs; the median has other programs' turns on the CPU in it.
        result[f"beyond_inference_ms_{cameras}x{size}"] = statistics.quantiles(beyond, n=10)[0]
        result[f"beyond_inference_ms_{cameras}x{size}_median"] = statistics.median(beyond)
    return result


def measure_throughput(work: Path, quick: bool) -> dict[str, float]:
    """Requests per second of several clients that each wait for their answer, and latency in a crowd."""
    seconds, rounds = (1.5, 2) if quick else (2.0, 5)
    folder = small_policy(work / "cpu", 1, 96, PRESETS["cpu"])
    seen = observation(1, 96)

    async def drive(url: str, until: float) -> int:
        answered = 0
        async with AsyncClient(url) as client:
            await client.act(seen)
            while time.perf_counter() < until:
                await client.act(seen)
                answered += 1
        return answered

    async def crowd(url: str, clients: int) -> float:
        until = time.perf_counter() + seconds
        return sum(await asyncio.gather(*(drive(url, until) for _ in range(clients)))) / seconds

    requests = 50 if quick else 200
    with served(folder) as url:
        # In turns, and the best of each: what else the machine does hits all of them.
        rates = {clients: 0.0 for clients in (1, 8, 64)}
        for _ in range(rounds):
            for clients in rates:
                rates[clients] = max(rates[clients], asyncio.run(crowd(url, clients)))
        result = {f"requests_per_second_{clients}": rate for clients, rate in rates.items()}
        before = ask(url, seen, requests)[0]
        crowded = asyncio.run(among_idle(url, seen, requests))
        after = ask(url, seen, requests)[0]
    result["latency_ms_alone"] = statistics.quantiles(before + after, n=10)[0]
    result["latency_ms_among_1000_idle"] = statistics.quantiles(crowded, n=10)[0]
    return result


async def among_idle(url: str, seen: dict[str, Any], requests: int) -> list[float]:
    """Times of requests while 1,000 connections are idle; some stop in their handshake, or read no answer."""
    from websockets.asyncio.client import connect

    from beacon.serving.wire import pack

    idle = [await connect(url, compression=None) for _ in range(1000)]
    for connection in idle[:20]:
        await connection.send(pack(seen))  # never read
    port = int(url.rsplit(":", 1)[1])
    broken = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    for half in broken:
        half.send(b"GET / HTTP/1.1\r\n")
    await asyncio.sleep(1.0)
    totals, _ = await asyncio.to_thread(ask, url, seen, requests)
    for half in broken:
        half.close()
    for connection in idle:
        connection.transport.abort()
    return totals


def show(result: dict[str, float]) -> None:
    """A table for people."""
    table = Table("what", "measured", "wanted")
    wanted = {
        "beyond_inference_ms_1x96": "at most 2 ms",
        "beyond_inference_ms_3x224": "at most 5 ms",
        "throughput_64_over_1": "at least 3",
        "crowd_over_alone": "about 1",
        "lerobot_over_float32": "at least 1.5",
        "lerobot_over_bfloat16": "2",
    }
    for name, value in result.items():
        table.add_row(name, f"{value:.4g}", wanted.get(name, ""))
    Console().print(table)


def main() -> int:
    """Measure everything and show it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--quick", action="store_true", help="a third of the repetitions")
    parser.add_argument("--threads", type=int, default=1, help="for the action chunk")
    parser.add_argument("--lerobot", help="an interpreter that has LeRobot")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard > 0 else 4096, hard))
    with tempfile.TemporaryDirectory() as work:
        result = measure_overhead(Path(work), options.quick)
        result |= measure_throughput(Path(work), options.quick)
    result["throughput_64_over_1"] = result["requests_per_second_64"] / result["requests_per_second_1"]
    result["crowd_over_alone"] = result["latency_ms_among_1000_idle"] / result["latency_ms_alone"]
    result |= measure_chunk(options.quick, options.threads, options.lerobot)
    result |= measure_threads(options.quick)
    if "chunk_seconds_lerobot" in result:
        for name in ("float32", "bfloat16"):
            ratio = result["chunk_seconds_lerobot"] / result[f"chunk_seconds_{name}"]
            result[f"lerobot_over_{name}"] = ratio
    show(result)
    if options.json:
        about = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        options.json.write_text(json.dumps({**about, **result}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
