"""Speed of training, as ratios within one run: python benchmarks/training.py [--quick] [--only NAME].

Compared with what people would do instead: a plain PyTorch loop with a DataLoader, reading windows from the
HDF5 file item by item, and the rate of a large matrix product on the same machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from beacon.data import EpisodeSet, RobomimicWriter, Windows
from beacon.methods import METHODS
from beacon.methods.beacon.measurement import ReuseGradientSteps, SweepAll
from beacon.policy import PRESETS, DiffusionPolicy, ObservationSpec, PolicyConfig
from beacon.runs import RunFolder, describe
from beacon.training.config import DataOptions, RunOptions, TrainConfig, preset_config
from beacon.training.trainer import Trainer

CAMERA, POSITION = "agentview_image", "robot0_eef_pos"
BATCH = 64  # that all numbers of docs/speed.md are of; the preset itself has 16
SPEC = ObservationSpec(cameras={CAMERA: (96, 96, 3)}, proprio={POSITION: 3}, action_dim=4)


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """Shortest wall time of a call, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def matrix_rate() -> float:
    """Floating-point operations per second of a large float32 matrix product."""
    square = torch.randn(2048, 2048)
    return 2 * 2048**3 / seconds(lambda: square @ square, 5)


def write_demonstrations(path: Path, demos: int, steps: int, seed: int) -> Path:
    """Demonstrations with smooth images of 96×96 and a moving square."""
    rng = np.random.default_rng(seed)
    ramp = np.linspace(0, 120, 96).astype(np.uint8)
    with RobomimicWriter(path, env_args={"env_name": "Bench", "type": 2, "env_kwargs": {}}) as writer:
        for _ in range(demos):
            images = np.broadcast_to(ramp[:, None, None] + rng.integers(60), (steps, 96, 96, 3)).astype(
                np.uint8
            )
            for step, (row, column) in enumerate(rng.integers(0, 84, (steps, 2))):
                images[step, row : row + 12, column : column + 12] = rng.integers(0, 255, 3)
            position = np.cumsum(rng.normal(0, 0.01, (steps, 3)), axis=0).astype(np.float32)
            actions = np.clip(rng.normal(0, 0.4, (steps, 4)), -1, 1).astype(np.float32)
            writer.add_episode(None, actions, {CAMERA: images, POSITION: position})
    return path


class HandWrittenDataset(Dataset[dict[str, torch.Tensor]]):
    """Windows as people write them: one item at a time, from arrays in memory."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.starts = np.concatenate([s.starts for s in windows.sets])

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        w = self.windows
        episodes = w.sets[int(w.domain[index])]
        episode, step, last = w.episode[index], w.step[index], w.episode_length[w.episode[index]] - 1
        start = self.starts[episode]
        past = [start + max(step + offset, 0) for offset in range(1 - w.obs_steps, 1)]
        ahead = [start + min(step + offset, last) for offset in range(w.horizon)]
        return {
            "image": torch.from_numpy(np.stack([episodes.images[CAMERA][row] for row in past])),
            "position": torch.from_numpy(np.stack([episodes.proprio[POSITION][row] for row in past])),
            "actions": torch.from_numpy(np.stack([episodes.actions[row] for row in ahead])),
        }


def hand_written_loop(windows: Windows, policy: DiffusionPolicy, batch_size: int, steps: int) -> float:
    """Seconds per step of a plain loop: DataLoader, default AdamW, a moving average by parameter."""
    loader = DataLoader(HandWrittenDataset(windows), batch_size, shuffle=True, drop_last=True, num_workers=1)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, weight_decay=1e-6)
    average = {name: p.detach().clone() for name, p in policy.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    low = torch.from_numpy(np.concatenate([s.actions for s in windows.sets]).min(0))
    high = torch.from_numpy(np.concatenate([s.actions for s in windows.sets]).max(0))
    done, start = 0, 0.0
    while True:
        for batch in loader:
            if done == 2:  # after the workers have started
                start = time.perf_counter()
            actions = (batch["actions"] - low) / (high - low) * 2 - 1
            noise, timesteps = policy.draw_noise(batch_size, policy.config.draws, generator)
            encoding = policy.encode(
                {CAMERA: batch["image"]}, {POSITION: batch["position"]}, crop_generator=generator
            )
            loss = policy.per_sample_loss(encoding.observation, actions, noise, timesteps).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for name, parameter in policy.named_parameters():
                    average[name].mul_(0.999).add_(parameter, alpha=0.001)
            loss.item()
            done += 1
            if done == steps + 2:
                return (time.perf_counter() - start) / steps


def bench_network(preset: str, batch: int, repeats: int) -> dict[str, float]:
    """Share of the matrix rate that forward and backward of one mini-batch reach."""
    config = PRESETS[preset]
    policy = DiffusionPolicy(SPEC, config)
    generator = torch.Generator().manual_seed(0)
    images = {CAMERA: torch.randint(255, (batch, config.obs_steps, 96, 96, 3), dtype=torch.uint8)}
    proprio = {POSITION: torch.rand(batch, config.obs_steps, 3)}
    actions = torch.rand(batch, config.horizon, 4)
    noise, timesteps = policy.draw_noise(batch, config.draws, generator)

    def step() -> None:
        losses, _ = policy(images, proprio, actions, noise, timesteps, crop_generator=generator)
        policy.zero_grad()
        losses.mean().backward()

    with FlopCounterMode(display=False) as counter:
        step()
    rate, took = matrix_rate(), seconds(step, repeats)
    rate = max(rate, matrix_rate())
    return {
        "batch": batch,
        "parameters_million": sum(p.numel() for p in policy.parameters()) / 1e6,
        "gflop_per_step": counter.get_total_flops() / 1e9,
        "seconds_per_step": took,
        "matrix_gflops": rate / 1e9,
        "share_of_matrix_rate": counter.get_total_flops() / took / rate,
    }


def make_trainer(folder: Path, config: TrainConfig, name: str) -> Trainer:
    """A trainer with its run folder made."""
    trainer = Trainer(config, RunFolder(folder / name))
    trainer.folder.start(config.to_dict(), describe(trainer.windows.sets, has_target=True))
    return trainer


def run_config(folder: Path, method: str, steps: int, epoch: int, **options: Any) -> TrainConfig:
    """A run at the cpu preset's sizes on the benchmark's demonstrations."""
    policy, optimization = preset_config("cpu")
    return TrainConfig(
        method=method,
        options=replace(METHODS[method].default_options(), **options),
        data=DataOptions(source=(folder / "sim.hdf5",), target=folder / "real.hdf5"),
        policy=policy,
        optimization=replace(optimization, steps=steps, steps_per_epoch=epoch, batch_size=BATCH),
        run=RunOptions(tensorboard=False, checkpoint_every=10**9),
    )


def time_run(folder: Path, config: TrainConfig, name: str) -> float:
    """Seconds per gradient step of a whole run, refreshes included, loading and the last checkpoint not."""
    trainer = make_trainer(folder, config, name)
    trainer._save = lambda: folder  # type: ignore[method-assign]
    start = time.perf_counter()
    trainer.run()
    return (time.perf_counter() - start) / config.optimization.steps


def bench_loop(folder: Path, steps: int) -> dict[str, float]:
    """The trainer against a hand-written loop, and what it spends outside forward and backward."""
    config = run_config(folder, "cotrain", steps, steps, ratio="natural")
    whole = time_run(folder, config, "loop")
    trainer = make_trainer(folder, config, "bare")
    batch = trainer.windows.gather(trainer.method.batches(0)[0])

    def forward_backward() -> None:
        _, _, loss = trainer._loss(batch, 0)
        trainer.policy.zero_grad()
        loss.backward()

    forward_backward()
    start = time.perf_counter()
    for _ in range(steps):
        forward_backward()
    bare = (time.perf_counter() - start) / steps
    policy = DiffusionPolicy(SPEC, config.policy)
    plain = hand_written_loop(trainer.windows, policy, config.optimization.batch_size, steps)
    return {
        "steps_per_second": 1 / whole,
        "hand_written_over_trainer": plain / whole,
        "share_outside_forward_backward": max(0.0, 1 - bare / whole),
    }


def bench_step(folder: Path, repeats: int) -> dict[str, float]:
    """Where a step of the cpu preset goes, at its own batch of 16 and one thread: shares of CPU time."""
    config = run_config(folder, "cotrain", 4, 4, ratio="natural")
    config = replace(config, optimization=replace(config.optimization, batch_size=16))
    trainer = make_trainer(folder, config, "step")
    index = trainer.method.batches(0)[0]
    batch, policy = trainer.windows.gather(index), trainer.policy
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    encoding = trainer._loss(batch, 0)[1].observation.detach()
    actions = trainer.measurer.actions(index)
    noise, timesteps = policy.draw_noise(len(index), config.policy.draws, torch.Generator().manual_seed(0))

    def denoise() -> None:
        policy.per_sample_loss(encoding.clone().requires_grad_(), actions, noise, timesteps).mean().backward()

    parts: dict[str, Callable[[], Any]] = {
        "whole_step": lambda: trainer._step(batch, index, 0),
        "gathering": lambda: trainer.windows.gather(index),
        "denoiser": denoise,
        "optimiser": trainer.optimizer.step,
        "moving_average": lambda: trainer.ema.update(1),
    }
    took = {name: _processor_seconds(part, repeats) for name, part in parts.items()}
    torch.set_num_threads(threads)
    whole = took.pop("whole_step")
    shares = {f"{name}_share": seconds / whole for name, seconds in took.items()}
    return {"milliseconds": 1e3 * whole, **shares, "encoder_and_rest_share": 1 - sum(shares.values())}


def _processor_seconds(function: Callable[[], Any], repeats: int) -> float:
    """The processor's time of a call, which other processes disturb less than the clock's."""
    function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return float(np.median(times))


def bench_refresh(folder: Path, steps: int, epoch: int) -> dict[str, float]:
    """BEACON against co-training at the same number of gradient steps."""
    base = time_run(folder, run_config(folder, "cotrain", steps, epoch, ratio="natural"), "cotrain")
    measurements = {"exact": SweepAll(), "amortized": ReuseGradientSteps()}
    exact, amortized = (
        time_run(folder, run_config(folder, "beacon-paper", steps, epoch, measurement=measurement), name)
        for name, measurement in measurements.items()
    )
    return {
        "cotrain_seconds_per_step": base,
        "exact_over_cotrain": exact / base,
        "amortized_over_cotrain": amortized / base,
    }


def bench_reading(folder: Path, batches: int) -> dict[str, float]:
    """Windows per second from disk to batch, against reading the file item by item."""
    path, config = folder / "sim.hdf5", PolicyConfig()
    rng = np.random.default_rng(0)

    start = time.perf_counter()
    windows = Windows([EpisodeSet.load(path)], config.obs_steps, config.horizon)
    loading = time.perf_counter() - start
    draws = [rng.integers(len(windows), size=64) for _ in range(batches)]
    buffer = windows.empty(64)
    start = time.perf_counter()
    for index in draws:
        windows.gather(index, out=buffer)
    gathering = (time.perf_counter() - start) / batches

    names = windows.episode_names
    start = time.perf_counter()
    with h5py.File(path, "r") as file:
        for index in draws[: max(2, batches // 20)]:
            items = []
            for i in index:
                demo = file[f"data/{names[windows.episode[i]]}"]
                step, length = int(windows.step[i]), len(demo["actions"])
                past = np.maximum(np.arange(step - config.obs_steps + 1, step + 1), 0)
                image = demo["obs"][CAMERA][past[0] : step + 1]
                position = demo["obs"][POSITION][past[0] : step + 1]
                actions = demo["actions"][step : min(step + config.horizon, length)]
                pad = config.horizon - len(actions)
                items.append(
                    (
                        image[past - past[0]],
                        position[past - past[0]],
                        np.pad(actions, ((0, pad), (0, 0)), "edge"),
                    )
                )
            [torch.from_numpy(np.stack(part)) for part in zip(*items, strict=True)]
    item_by_item = (time.perf_counter() - start) / max(2, batches // 20)
    epoch = len(windows) / 64  # batches in one pass over the data
    return {
        "loading_seconds": loading,
        "windows_per_second": 64 / gathering,
        "windows_per_second_first_epoch_with_loading": len(windows) / (loading + epoch * gathering),
        "item_by_item_over_gather": item_by_item / gathering,
        "item_by_item_over_first_epoch_with_loading": epoch * item_by_item / (loading + epoch * gathering),
    }


def bench_sampling(repeats: int) -> dict[str, float]:
    """Milliseconds per action chunk at the cpu preset, for one observation and for 32."""
    policy = DiffusionPolicy(SPEC, PRESETS["cpu"]).eval()
    results = {}
    for batch in (1, 32):
        images = {CAMERA: torch.randint(255, (batch, 1, 96, 96, 3), dtype=torch.uint8)}
        proprio = {POSITION: torch.rand(batch, 1, 3)}

        def act(images: Any = images, proprio: Any = proprio) -> None:
            with torch.inference_mode():
                policy.sample(policy.encode(images, proprio).observation, torch.Generator().manual_seed(0))

        results[f"cpu_preset_ms_for_{batch}"] = 1e3 * seconds(act, repeats)
    return results


def main() -> None:
    """Run all and print a table a benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--only", help="one benchmark by name")
    options = parser.parse_args()
    quick = options.quick
    results: dict[str, dict[str, Any]] = {
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_demonstrations(folder / "sim.hdf5", 4 if quick else 200, 20 if quick else 65, 0)
        write_demonstrations(folder / "real.hdf5", 1 if quick else 5, 20 if quick else 65, 1)
        benchmarks: dict[str, Callable[[], dict[str, float]]] = {
            "network_cpu_preset": lambda: bench_network("cpu", 64, 2 if quick else 10),
            "network_paper_preset": lambda: bench_network("paper", 2 if quick else 64, 1 if quick else 3),
            "step": lambda: bench_step(folder, 3 if quick else 60),
            "loop": lambda: bench_loop(folder, 3 if quick else 60),
            "refresh": lambda: bench_refresh(folder, 8 if quick else 300, 4 if quick else 100),
            "reading": lambda: bench_reading(folder, 10 if quick else 200),
            "sampling": lambda: bench_sampling(1 if quick else 10),
        }
        for title, benchmark in benchmarks.items():
            if options.only in (None, title):
                results[title] = benchmark()
                _print(title, results[title])
    print(json.dumps(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def _print(title: str, numbers: dict[str, Any]) -> None:
    table = Table(title=title.replace("_", " "), title_justify="left")
    table.add_column("what")
    table.add_column("value", justify="right")
    for name, value in numbers.items():
        table.add_row(name.replace("_", " "), f"{value:,.3g}" if isinstance(value, float) else f"{value}")
    Console().print(table)


if __name__ == "__main__":
    main()
