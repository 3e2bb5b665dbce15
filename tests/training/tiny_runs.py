"""Runs of seconds: a policy of a few thousand parameters on a few small demonstrations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from demonstrations import make_dataset
from safetensors.torch import load_file

from beacon.methods import METHODS, AuxiliaryLoss
from beacon.plain import changed
from beacon.policy import EncoderConfig, PolicyConfig
from beacon.training import DataOptions, OptimizationOptions, RunOptions, TrainConfig, train
from beacon.training.trainer import StepEvent

TINY = PolicyConfig(
    obs_steps=2,
    horizon=8,
    action_steps=4,
    encoder=EncoderConfig(widths=(8, 8, 8, 8), output_stride=8, keypoints=4, feature_dim=None),
    channels=(16,),
    groups=4,
    step_dim=16,
    train_timesteps=20,
    sampling_steps=10,
    draws=2,
)
# The same on the command line.
_POLICY = (
    "--policy.obs-steps 2 --policy.horizon 8 --policy.action-steps 4 --policy.encoder.widths 8 8 8 8 "
    "--policy.encoder.output-stride 8 --policy.encoder.keypoints 4 --policy.channels 16 --policy.groups 4 "
    "--policy.step-dim 16 --policy.train-timesteps 20 --policy.sampling-steps 10 --policy.draws 2"
)
TINY_OPTIONS = _POLICY.split()
OPTIMIZATION = OptimizationOptions(
    steps=6, steps_per_epoch=2, batch_size=8, learning_rate=1e-3, warmup_steps=2
)
# Networks that methods train for themselves, in a few steps.
_VAE = {"vae": {"hidden": 16, "steps": 5}}
TINY_METHODS: dict[str, dict[str, Any]] = {
    "ambient": {"classifier_steps": 5},
    "deminf": _VAE,
    "iwr": _VAE,
}
RUN = RunOptions(device="cpu", checkpoint_every=1, keep=9, log_every=1, tensorboard=False)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from more threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing in the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five source demonstrations of nine steps."""
    return make_dataset(tmp_path_factory.mktemp("data") / "sim.hdf5", 5, steps=9, seed=1)


@pytest.fixture(scope="session")
def other_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three demonstrations of another source domain."""
    path = tmp_path_factory.mktemp("data") / "other.hdf5"
    return make_dataset(path, 3, steps=9, seed=2, background=(10, 90, 10), mirrored=True)


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two target demonstrations of seven steps, on another background."""
    path = tmp_path_factory.mktemp("data") / "real.hdf5"
    return make_dataset(path, 2, steps=7, seed=3, background=(90, 60, 30))


def tiny_config(
    method: str,
    source: Path | tuple[Path, ...] | None,
    target: Path | None,
    *,
    options: Any = None,
    auxiliary: tuple[AuxiliaryLoss, ...] = (),
    data: dict[str, Any] | None = None,
    run: dict[str, Any] | None = None,
    policy: PolicyConfig = TINY,
    **optimization: Any,
) -> TrainConfig:
    """A configuration of the tiny policy, with these options and changes."""
    sources = () if source is None else source if isinstance(source, tuple) else (source,)
    return TrainConfig(
        method=method,
        options=changed(METHODS[method].default_options(), TINY_METHODS.get(method, {}))
        if options is None
        else options,
        auxiliary=auxiliary,
        data=DataOptions(source=sources, target=target, **(data or {})),
        policy=policy,
        optimization=replace(OPTIMIZATION, **optimization),
        run=replace(RUN, **(run or {})),
    )


class Stopped(Exception):
    """A run was cut off."""


def stop_at(step: int) -> Callable[[StepEvent], None]:
    """A listener that cuts a run off after this step."""

    def listen(event: StepEvent) -> None:
        if event.step == step:
            raise Stopped

    return listen


def train_with_stops(config: TrainConfig, out: Path, *steps: int) -> None:
    """Train to the end, cut off after each of these steps and resumed."""
    for step in steps:
        with pytest.raises(Stopped):
            train(config, out, resume=out.exists(), listener=stop_at(step))
    train(config, out, resume=out.exists())


def metrics(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without what depends on the clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [line for line in lines if kind is None or line["kind"] == kind]
    return [{name: value for name, value in line.items() if name != "steps_per_second"} for line in kept]


def assert_same_tensors(first: Path, second: Path) -> None:
    """Two safetensors files hold the same names, and the same bits under each."""
    a, b = load_file(first), load_file(second)
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert value.dtype == b[name].dtype
        assert np.array_equal(value.numpy(), b[name].numpy(), equal_nan=True), f"{first.name}: {name}"


def assert_same_runs(first: Path, second: Path) -> None:
    """Everything that two runs leave behind is the same to the bit, apart from times."""
    names = sorted(path.name for path in (first / "checkpoints").iterdir())
    assert names == sorted(path.name for path in (second / "checkpoints").iterdir())
    for name in names:
        a, b = first / "checkpoints" / name, second / "checkpoints" / name
        if a.is_file():
            assert a.read_text() == b.read_text()
            continue
        assert sorted(p.name for p in a.iterdir()) == sorted(p.name for p in b.iterdir())
        for file in a.glob("*.safetensors"):
            assert_same_tensors(file, b / file.name)
        for file in a.glob("*.json"):
            assert json.loads(file.read_text()) == json.loads((b / file.name).read_text())
    assert metrics(first) == metrics(second)
    tables = sorted(path.name for path in first.glob("weights/*"))
    assert tables == sorted(path.name for path in second.glob("weights/*"))
    for name in tables:
        assert pq.read_table(first / "weights" / name).equals(pq.read_table(second / "weights" / name)), name
    for left in (*first.rglob(".*"), *second.rglob(".*")):
        assert left.name in (".lock", ".seconds.json"), f"{left} was left behind"


def start_cli(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """The real command line in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    return subprocess.Popen(
        [sys.executable, "-c", "from beacon.cli.main import entry; entry()", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )
