"""What a GPU does with every preset, beside the CPU: `make gpu-check`, or python benchmarks/gpu.py [--quick].

Each preset trains a few hundred steps on synthetic demonstrations. Printed are steps per second, the share of
the device's matrix rate, memory, whether a resumed run is the uninterrupted one to the bit, how far the first
losses are from the CPU's in float32, and rows to paste into docs/speed.md. ``--device cpu`` tries the check
itself.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from beacon.devices import choose_device
from beacon.errors import UserError
from beacon.methods import METHODS
from beacon.runs import RunFolder
from beacon.training.config import DataOptions, RunOptions, TrainConfig, preset_config
from beacon.training.run import train
from beacon.training.trainer import StepEvent, Trainer
from training import write_demonstrations

WARM_UP = 20  # steps that are not timed
CLOSE = 1e-3  # share by which the first losses may differ from the CPU's in float32


class Stopped(Exception):
    """A run was cut off on purpose."""


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations per second of a large matrix product."""
    size = 8192 if device.type == "cuda" else 1024
    square = torch.randn(size, size, device=device, dtype=dtype)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        square @ square
        _finish(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def config_of(preset: str, folder: Path, steps: int, batch: int | None, **run: Any) -> TrainConfig:
    """A run of the recommended method at a preset's sizes."""
    policy, optimization = preset_config(preset)
    return TrainConfig(
        method="beacon",
        options=METHODS["beacon"].default_options(),
        data=DataOptions(source=(folder / "sim.hdf5",), target=folder / "real.hdf5"),
        policy=policy,
        optimization=replace(
            optimization,
            steps=steps,
            steps_per_epoch=steps // 4,
            batch_size=batch or optimization.batch_size,
        ),
        run=RunOptions(tensorboard=False, checkpoint_every=1, log_every=1, **run),
    )


def speed(config: TrainConfig, folder: Path) -> dict[str, float]:
    """Steps per second, share of the matrix rate, memory."""
    trainer = Trainer(config, RunFolder(folder))
    device = trainer.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    trainer.method.between_epochs(0)
    trainer.policy.train()
    batches = trainer.method.batches(0)
    warm_up = min(WARM_UP, len(batches) // 2)
    flops, start = 0, 0.0
    for number, batch in enumerate(trainer.loader(batches)):
        if number == 0:
            with FlopCounterMode(display=False) as counter:
                trainer._step(batch, batches[number], number)
            flops = counter.get_total_flops()
            continue
        if number == warm_up:
            _finish(device)
            start = time.perf_counter()
        trainer._step(batch, batches[number], number)
    _finish(device)
    rate = (len(batches) - warm_up) / (time.perf_counter() - start)
    bf16 = config.run.precision == "bf16" or (config.run.precision == "auto" and device.type == "cuda")
    peak = matrix_rate(device, torch.bfloat16 if bf16 else torch.float32)
    memory = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else float("nan")
    return {"steps_per_second": rate, "share_of_matrix_rate": flops * rate / peak, "memory_gib": memory}


def losses_of(run: Path) -> list[float]:
    """The losses of all steps."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["kind"] == "train"]


def resumes(config: TrainConfig, folder: Path) -> bool:
    """Whether a run that was cut off in the middle ends as the one that was not."""

    def stop(event: StepEvent) -> None:
        if event.step == event.steps // 2 + 1:
            raise Stopped

    train(config, folder / "whole")
    try:
        train(config, folder / "cut", listener=stop)
    except Stopped:
        train(config, folder / "cut", resume=True)
    return losses_of(folder / "whole") == losses_of(folder / "cut")


def difference_from_cpu(config: TrainConfig, folder: Path) -> float:
    """The largest relative difference of the first losses from the CPU's, both in float32."""
    short = replace(config, optimization=replace(config.optimization, steps=4, steps_per_epoch=2))
    losses: list[list[float]] = []
    for number, device in enumerate((config.run.device, "cpu")):
        run = folder / f"first-{number}"
        train(replace(short, run=replace(short.run, device=device, precision="float32")), run)
        losses.append(losses_of(run))
    there, here = losses
    return max(abs(a - b) / b for a, b in zip(there, here, strict=True))


def check(preset: str, device: str, folder: Path, *, quick: bool) -> dict[str, Any]:
    """Everything about one preset."""
    steps, batch = (8, 4) if quick else (400, None)
    config = config_of(preset, folder, steps, batch, device=device)
    work = folder / preset
    numbers: dict[str, Any] = {"preset": preset, "batch": config.optimization.batch_size}
    numbers |= speed(config, work / "speed")
    fewer = config_of(preset, folder, 8 if quick else 40, batch, device=device)
    numbers["resumes_to_the_bit"] = resumes(fewer, work)
    numbers["difference_from_cpu"] = difference_from_cpu(config_of(preset, folder, 4, 4, device=device), work)
    return numbers


def main() -> int:
    """Check the presets; 1 where a check fails, 2 where there is no such device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--presets", nargs="+", default=["cpu", "gpu", "paper"])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    try:
        device = choose_device(options.device)
    except UserError as error:
        reason = str(error).partition("; try")[0]  # not another device: the check is of a GPU
        print(
            f"gpu-check: {reason}; run it on a machine with an NVIDIA GPU and a torch that is built for it "
            "(see beacon doctor), or try the check itself: python benchmarks/gpu.py --device cpu --quick",
            file=sys.stderr,
        )
        return 2
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        demos, steps = (4, 20) if options.quick else (60, 65)
        write_demonstrations(Path(folder) / "sim.hdf5", demos, steps, 0)
        write_demonstrations(Path(folder) / "real.hdf5", 2, steps, 1)
        rows = [
            "| preset, batch | steps a second | share of the matrix rate | memory | resumed | from the CPU |"
        ]
        rows.append("|---|---|---|---|---|---|")
        for preset in options.presets:
            numbers = check(preset, options.device, Path(folder), quick=options.quick)
            same, apart = numbers["resumes_to_the_bit"], numbers["difference_from_cpu"]
            failed = failed or apart > CLOSE
            rows.append(
                f"| `{preset}`, {numbers['batch']} | {numbers['steps_per_second']:.1f} "
                f"| {100 * numbers['share_of_matrix_rate']:.0f}% | {numbers['memory_gib']:.1f} GiB "
                f"| {'to the bit' if same else 'not to the bit'} | {apart:.1e} |"
            )
            print(json.dumps(numbers), flush=True)
    print("\n".join(rows))
    if failed:
        print(f"the first losses differ from the CPU's by more than {CLOSE:g}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
