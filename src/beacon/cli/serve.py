"""``beacon serve RUN``: a policy for robots, by openpi's websocket protocol."""

from __future__ import annotations

import asyncio
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from beacon.cli.parsing import parse
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.serving.server import PolicyServer

DESCRIPTION = """Serve a policy to robots' programs: openpi's client, or beacon.serving.Client.

Examples:
  beacon serve runs/beacon
  beacon serve policies/reach --host 0.0.0.0 --key-file key"""
EXTRA = "beacon serve needs websockets and msgpack: pip install 'beacon-cotraining[serve]'"


@dataclass(frozen=True)
class ServeCommand:
    """Options of the command line."""

    # A run folder, a checkpoint, or what beacon export wrote.
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    # Address to listen on; any other than this machine's own needs --key-file or --insecure.
    host: str = "127.0.0.1"
    # Port to listen on; 0 takes a free one.
    port: int = 8000
    # A file with the key that clients must send as 'Authorization: Api-Key KEY'.
    key_file: Path | None = None
    # Where to compute: cpu, cuda, cuda:1.
    device: str = "cpu"
    # Precision of the denoising network: bfloat16 is faster on CPUs that support it, and less exact.
    precision: Literal["float32", "bfloat16"] = "float32"
    # Compile the sampling, on a GPU as CUDA graphs: faster, but for the first chunk of every batch size.
    compile: bool = False
    # CPU threads for computing; default: the faster of one and all, measured at start.
    threads: int | None = None
    # Listen on other addresses without a key.
    insecure: bool = False
    # Seed of the random numbers of connections that do not send one.
    seed: int = 0
    # Requests of several clients that are computed together; 1: each alone, repeatable to the bit.
    batch: int = 64
    # Largest message, in MiB.
    message_mb: int = 32
    # Connections that may be open at the same time.
    connections: int = 2000
    # Requests per second and connection; faster ones are delayed.
    rate: float = 500.0


def _run(command: ServeCommand) -> int:
    try:
        from beacon.serving.access import read_key
        from beacon.serving.options import Limits, ServeOptions
        from beacon.serving.server import PolicyServer
    except ImportError:
        raise UserError(EXTRA) from None
    from beacon.policy import load_policy

    options = ServeOptions(
        host=command.host,
        port=command.port,
        key=None if command.key_file is None else read_key(command.key_file),
        insecure=command.insecure,
        seed=command.seed,
        threads=command.threads,
        limits=Limits(
            message_bytes=command.message_mb * 2**20,
            connections=command.connections,
            batch=command.batch,
            requests_per_second=command.rate,
        ),
    )
    _allow_open_files(command.connections)
    policy = load_policy(command.run, device=_checked_device(command.device))
    policy.use_precision(command.precision)
    if command.compile:
        policy.compile()
    return asyncio.run(_serve(PolicyServer(policy, options), command.run))


async def _serve(server: PolicyServer, run: Path) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await server.run(stop, ready=lambda ready: print(_greeting(ready, run), flush=True))
    print("stopped", flush=True)
    return 0


def _greeting(server: PolicyServer, run: Path) -> str:
    options, inference = server.options, server.inference
    host = f"[{options.host}]" if ":" in options.host else options.host
    trials = ", ".join(f"{n}: {1000 * seconds:.1f} ms a chunk" for n, seconds in inference.trials.items())
    measured = f" (measured, threads {trials})" if trials else ""
    return (
        f"serving {run} (policy {server.metadata['policy_sha256'][:12]}) at ws://{host}:{server.port}, "
        f"{'with a key' if options.key else 'without a key'}\n"
        f"observations {', '.join(server.policy.observation_keys)}; {server.policy.action_steps} of "
        f"{server.policy.horizon} actions to execute; threads {inference.threads}{measured}"
    )


def _checked_device(device: str) -> str:
    """A device that computes here, or one line."""
    import torch

    try:
        torch.empty(1, device=device).add_(1).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UserError(f"--device {device}: not usable here ({str(error).splitlines()[0]})") from None
    return device


def _allow_open_files(connections: int) -> None:
    """Many systems allow 1,024 open files unless a program asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard > 0 else wanted, hard))


def main(arguments: list[str]) -> int:
    """Parse and run."""
    try:
        command: ServeCommand = parse(ServeCommand, arguments, prog="beacon serve", description=DESCRIPTION)
    except SystemExit:  # help was printed
        return 0
    return _run(command)
