"""Cost of serving, as ratios within one run: python benchmarks/serving.py [--json FILE] [--quick].

What a request costs beyond its inference, throughput with 1, 8 and 64 clients, latency among 1,000 idle and
some broken connections, an action chunk of the paper's network, and how many threads are good for it.
``--lerobot PYTHON``, an interpreter that has LeRobot, adds its DiffusionPolicy of the same size, in turns. The
server is a process of its own.
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
import torch
from rich.console import Console
from rich.table import Table

from beacon.policy import PRESETS, DiffusionPolicy, EncoderConfig, ObservationSpec, PolicyConfig, save_policy
from beacon.policy.trained import Affine, Normalization, TrainedPolicy
from beacon.serving import AsyncClient, Client

LEROBOT = """
import time, torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
torch.set_num_threads({threads})
config = DiffusionConfig(
    n_obs_steps=2, horizon=16, n_action_steps=8, down_dims=(256, 512, 1024), kernel_size=5, n_groups=8,
    diffusion_step_embed_dim=256, use_film_scale_modulation=True, noise_scheduler_type="DDIM",
    num_inference_steps=10, crop_shape=None, pretrained_backbone_weights=None, use_group_norm=True,
    device="cpu",
    input_features={{
        "observation.images.a": PolicyFeature(FeatureType.VISUAL, (3, 84, 84)),
        "observation.state": PolicyFeature(FeatureType.STATE, (9,)),
    }},
    output_features={{"action": PolicyFeature(FeatureType.ACTION, (7,))}},
)
policy = DiffusionPolicy(config).eval()
print(sum(p.numel() for p in policy.parameters()), flush=True)
batch = {{"observation.state": torch.rand(1, 2, 9), "observation.images": torch.rand(1, 2, 1, 3, 84, 84)}}
with torch.inference_mode():
    for line in iter(input, ""):
        began = time.perf_counter()
        policy.diffusion.generate_actions(batch)
        print(time.perf_counter() - began, flush=True)
"""


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
    """Times of requests while 1,000 connections do nothing, and some stop in their handshake or read no answer."""
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


def paper_policy() -> TrainedPolicy:
    """The paper's network, 84 pixels, ten DDIM steps."""
    spec = ObservationSpec({"a": (84, 84, 3)}, {"p": 9}, 7)
    config = replace(PRESETS["paper"], sampler="ddim", sampling_steps=10)

    def unit(size: int) -> Affine:
        return Affine(torch.zeros(size, dtype=torch.float64), torch.ones(size, dtype=torch.float64))

    return TrainedPolicy(DiffusionPolicy(spec, config), Normalization(unit(7), {"p": unit(9)}))


def measure_chunk(quick: bool, threads: int, lerobot: str | None) -> dict[str, float]:
    """An action chunk of the paper's network in turns with its rivals; the fastest of all turns."""
    torch.set_num_threads(threads)
    exact, coarse = paper_policy(), paper_policy()
    coarse.use_precision("bfloat16")
    rng = np.random.default_rng(0)
    seen: dict[str, Any] = {"a": rng.integers(0, 256, (2, 84, 84, 3), dtype=np.uint8), "p": np.zeros((2, 9))}
    rival = None
    result: dict[str, float] = {"parameters": sum(p.numel() for p in exact.policy.parameters())}
    if lerobot:
        rival = subprocess.Popen(
            [lerobot, "-c", LEROBOT.format(threads=threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": str(threads)},
        )
        assert rival.stdin is not None and rival.stdout is not None
        result["lerobot_parameters"] = float(rival.stdout.readline())
    times: dict[str, list[float]] = {"float32": [], "bfloat16": [], "lerobot": []}
    for _ in range(4 if quick else 12):
        for name, policy in (("float32", exact), ("bfloat16", coarse)):
            began = time.perf_counter()
            policy.act(seen, axes="history")
            times[name].append(time.perf_counter() - began)
        if rival is not None and rival.stdin is not None and rival.stdout is not None:
            rival.stdin.write("again\n")
            rival.stdin.flush()
            times["lerobot"].append(float(rival.stdout.readline()))
    if rival is not None:
        rival.terminate()
        rival.wait()
    for name, values in times.items():
        if values:
            result[f"chunk_seconds_{name}"] = min(values[1:])
    exact.reset(0)
    coarse.reset(0)
    difference = exact.act(seen, axes="history") - coarse.act(seen, axes="history")
    result["bfloat16_rms_difference"] = float(np.sqrt(np.mean(difference**2)))
    return result


def measure_threads(quick: bool) -> dict[str, float]:
    """Median seconds of a chunk by one thread and by all, alone and beside a process that is busy, too."""
    policy = paper_policy()
    rng = np.random.default_rng(0)
    seen: dict[str, Any] = {"a": rng.integers(0, 256, (2, 84, 84, 3), dtype=np.uint8), "p": np.zeros((2, 9))}
    result: dict[str, float] = {}
    for neighbours in ("alone", "beside_one"):
        busy = None
        if neighbours == "beside_one":
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            for threads in (1, os.cpu_count() or 1):
                torch.set_num_threads(threads)
                policy.act(seen, axes="history")
                times = []
                for _ in range(3 if quick else 7):
                    began = time.perf_counter()
                    policy.act(seen, axes="history")
                    times.append(time.perf_counter() - began)
                result[f"chunk_seconds_{threads}_threads_{neighbours}"] = statistics.median(times)
        finally:
            if busy is not None:
                busy.kill()
                busy.wait()
    return result


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
