"""Cost of serving, as ratios within one run: python benchmarks/serving.py [--json FILE] [--parts P ...].

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
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
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
        result[f"beyond_inference_ms_{cameras}x{size}"] = statistics.median(beyond)
        result[f"beyond_inference_ms_{cameras}x{size}_p90"] = statistics.quantiles(beyond, n=10)[8]
    return result


async def crowd(url: str, clients: int, seconds: float) -> float:
    """Answers per second to clients that each wait for theirs; all are connected and warm when it begins."""
    seen = observation(1, 96)
    begin = asyncio.Event()
    until = 0.0

    async def drive(client: AsyncClient) -> int:
        answered = 0
        await begin.wait()
        while True:
            await client.act(seen)
            if time.perf_counter() >= until:
                return answered
            answered += 1

    async with AsyncExitStack() as stack:
        crew = [await stack.enter_async_context(AsyncClient(url)) for _ in range(clients)]
        await asyncio.gather(*(client.act(seen) for client in crew))
        tasks = [asyncio.create_task(drive(client)) for client in crew]
        until = time.perf_counter() + seconds
        begin.set()
        return sum(await asyncio.gather(*tasks)) / seconds


def measure_throughput(work: Path, quick: bool) -> dict[str, float]:
    """Requests per second of 1, 8 and 64 clients."""
    seconds, rounds = (2.0, 2) if quick else (4.0, 5)
    rates: dict[int, list[float]] = {clients: [] for clients in (1, 8, 64)}
    with served(small_policy(work / "cpu", 1, 96, PRESETS["cpu"])) as url:
        for _ in range(rounds):  # in turns: what else the machine does hits all of them
            for clients, measured in rates.items():
                measured.append(asyncio.run(crowd(url, clients, seconds)))
    result = {f"requests_per_second_{clients}": statistics.median(rate) for clients, rate in rates.items()}
    for clients in (8, 64):
        ratio = result[f"requests_per_second_{clients}"] / result["requests_per_second_1"]
        result[f"throughput_{clients}_over_1"] = ratio
    return result


def measure_idle(work: Path, quick: bool) -> dict[str, float]:
    """Latency of one client alone and among idle, slow and broken ones, in turns."""
    requests, rounds = (50, 1) if quick else (100, 3)
    seen = observation(1, 96)
    alone, crowded = [], []
    with served(small_policy(work / "idle", 1, 96, PRESETS["cpu"])) as url:
        for _ in range(rounds):
            alone += ask(url, seen, requests)[0]
            crowded += asyncio.run(among_idle(url, seen, requests))
        alone += ask(url, seen, requests)[0]
    result = {}
    for name, times in (("alone", alone), ("among_1000_idle", crowded)):
        result[f"latency_ms_{name}"] = statistics.median(times)
        result[f"latency_ms_{name}_p99"] = statistics.quantiles(times, n=100)[98]
    result["crowd_over_alone"] = result["latency_ms_among_1000_idle"] / result["latency_ms_alone"]
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


def measure_chunks(work: Path, options: argparse.Namespace) -> dict[str, float]:
    """An action chunk of the paper's network, and LeRobot's, by every number of threads that is asked for."""
    result: dict[str, float] = {}
    for threads in options.threads:
        result |= measure_chunk(options.quick, threads, options.lerobot)
    return result


def show(result: dict[str, float]) -> None:
    """A table for people."""
    table = Table("what", "measured", "wanted")
    wanted = {
        "beyond_inference_ms_1x96": "at most 2 ms",
        "beyond_inference_ms_3x224": "at most 5 ms",
        "throughput_64_over_1": "at least 3",
        "crowd_over_alone": "about 1",
        "lerobot_over_float32_1_thread": "at least 1.5, aim 2",
        "lerobot_over_float32_2_threads": "at least 1.5, aim 2",
    }
    for name, value in result.items():
        table.add_row(name, f"{value:.4g}", wanted.get(name, ""))
    Console().print(table)


def main() -> int:
    """Measure everything and show it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the numbers here, beside those of other parts")
    parser.add_argument("--quick", action="store_true", help="a third of the repetitions")
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=sorted({1, os.cpu_count() or 1}),
        help="for the action chunk",
    )
    parser.add_argument("--lerobot", help="an interpreter that has LeRobot")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="default: all")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard > 0 else 4096, hard))
    result: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as work:
        for part in options.parts:
            result |= PARTS[part](Path(work), options)
    show(result)
    if options.json:
        known = json.loads(options.json.read_text()) if options.json.exists() else {}
        about = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        options.json.write_text(json.dumps({**known, **about, **result}, indent=1) + "\n")
    return 0


PARTS: dict[str, Callable[[Path, argparse.Namespace], dict[str, float]]] = {
    "overhead": lambda work, options: measure_overhead(work, options.quick),
    "throughput": lambda work, options: measure_throughput(work, options.quick),
    "idle": lambda work, options: measure_idle(work, options.quick),
    "chunk": measure_chunks,
    "threads": lambda work, options: measure_threads(options.quick),
}


if __name__ == "__main__":
    sys.exit(main())
