"""Training adds to the source's readings what the target's sensors are noisier by, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from demonstrations import make_dataset
from tiny_runs import assert_same_runs, assert_same_tensors, tiny_config, train_with_stops

from beacon.audit.dynamics_gap import dynamics_gap
from beacon.data import WindowBatch
from beacon.data.sensor_noise import MissingNoise
from beacon.methods.beacon.options import RECOMMENDED
from beacon.methods.beacon.target_share import known_target_factor
from beacon.randomness import Share, generator
from beacon.runs import RunFolder
from beacon.training import train
from beacon.training.sensor_noise import SensorNoise
from beacon.training.trainer import Trainer

KEY, CAMERA = "robot0_eef_pos", "agentview_image"
MATCHED = {"match_noise": True}


def trainer(source: Path, target: Path, folder: Path, *, matched: bool) -> Trainer:
    config = tiny_config("cotrain", source, target, data={"match_noise": matched})
    return Trainer(config, RunFolder(folder))


def test_only_the_source_gets_noise(source: Path, noisy_target: Path, tmp_path: Path) -> None:
    run = trainer(source, noisy_target, tmp_path, matched=True)
    assert run.noise is not None
    batch = run.windows.gather(np.arange(len(run.windows)))
    noisy = run.noise.add(batch, generator(0))
    of_source = batch.domain == 0
    changed = (noisy.proprio[KEY] != batch.proprio[KEY]).flatten(1)
    assert changed[of_source][:, :2].all() and not changed[~of_source].any()
    pixels = (noisy.images[CAMERA] - batch.images[CAMERA].float())[of_source]
    assert 4 < pixels[batch.images[CAMERA][of_source] == 40].std() < 8
    assert torch.equal(noisy.images[CAMERA][~of_source], batch.images[CAMERA][~of_source].float())
    assert noisy.actions is batch.actions
    added = (noisy.proprio[KEY] - batch.proprio[KEY])[of_source].std()
    assert 0.25 < added < 1


def test_the_rows_of_one_process_get_the_noise_of_all(
    source: Path, noisy_target: Path, tmp_path: Path
) -> None:
    noise = trainer(source, noisy_target, tmp_path, matched=True).noise
    assert noise is not None
    windows = trainer(source, noisy_target, tmp_path, matched=True).windows
    whole = noise.add(windows.gather(np.arange(8)), generator(1))
    part = noise.add(windows.gather(np.arange(5, 8)), generator(1), Share(5, 3, 8))
    assert torch.equal(part.proprio[KEY], whole.proprio[KEY][5:])
    assert torch.equal(part.images[CAMERA], whole.images[CAMERA][5:])


def test_noise_is_in_the_units_of_each_domain() -> None:
    lacking = MissingNoise(
        {"position": np.array([[1.0, 0.0], [0.0, 100.0]], np.float32)},
        {"camera": np.array([[5.0, 0.0, 2.0], [0.0, 0.0, 0.0]], np.float32)},
    )
    batch = WindowBatch(
        torch.arange(200),
        torch.arange(200) % 2,
        {"camera": torch.full((200, 2, 6, 6, 3), 128, dtype=torch.uint8)},
        {"position": torch.zeros(200, 1, 2)},
        torch.zeros(200, 4, 2),
    )
    noisy = SensorNoise(lacking, torch.device("cpu")).add(batch, generator(2))
    first, second = noisy.proprio["position"][0::2, 0], noisy.proprio["position"][1::2, 0]
    assert first[:, 0].std() == pytest.approx(1, rel=0.3) and not first[:, 1].any()
    assert second[:, 1].std() == pytest.approx(100, rel=0.3) and not second[:, 0].any()
    pixels = noisy.images["camera"] - 128
    assert pixels[0::2, ..., 0].std() == pytest.approx(5, rel=0.1)
    assert pixels[0::2, ..., 2].std() == pytest.approx(2, rel=0.1)
    assert not pixels[0::2, ..., 1].any() and not pixels[1::2].any()
    of_steps = pixels[0::2, :, ..., 0].flatten(2)  # two steps of a sample are not alike
    assert abs(float((of_steps[:, 0] * of_steps[:, 1]).mean())) < 2


def test_pixels_stay_pixels() -> None:
    lacking = MissingNoise({}, {"camera": np.full((1, 3), 40.0, np.float32)})
    images = {"camera": torch.zeros((4, 1, 8, 8, 3), dtype=torch.uint8)}
    batch = WindowBatch(torch.arange(4), torch.zeros(4, dtype=torch.int64), images, {}, torch.zeros(4, 4, 2))
    noisy = SensorNoise(lacking, torch.device("cpu")).add(batch, generator(0)).images["camera"]
    assert noisy.min() == 0 and 100 < noisy.max() <= 255


def test_where_sensors_are_alike_a_run_is_the_same_to_the_bit(source: Path, tmp_path: Path) -> None:
    target = make_dataset(tmp_path / "alike.hdf5", 5, steps=9, seed=5, background=(90, 60, 30))
    for name, data in (("without", {"match_noise": False}), ("with", MATCHED)):
        train(tiny_config("cotrain", source, target, data=data), tmp_path / name)
    last = "checkpoints/00000006/policy.safetensors"
    assert_same_tensors(tmp_path / "without" / last, tmp_path / "with" / last)


@pytest.mark.parametrize("method", ["cotrain", "beacon"])
def test_runs_with_noise_resume_to_the_bit(
    method: str, source: Path, noisy_target: Path, tmp_path: Path
) -> None:
    config = tiny_config(method, source, noisy_target, data=MATCHED)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "stopped", 3)
    assert_same_runs(tmp_path / "whole", tmp_path / "stopped")


def test_noise_alone_is_no_other_motion(tmp_path: Path) -> None:
    """The same robot behind worse sensors moves alike, once the source's readings are as noisy."""
    source = make_dataset(tmp_path / "sim.hdf5", 30, steps=30, seed=1)
    target = make_dataset(tmp_path / "real.hdf5", 6, steps=30, seed=2)
    rng = np.random.default_rng(0)
    with h5py.File(target, "r+") as file:
        for demo in file["data"].values():
            values = demo["obs"][KEY]
            values[...] = values[...] + rng.normal(size=values.shape).astype(np.float32) * 0.05
    contexts = {
        matched: trainer(source, target, tmp_path / str(matched), matched=matched).context
        for matched in (False, True)
    }
    gaps = {matched: context.dynamics_gap for matched, context in contexts.items()}
    assert gaps[False] is not None and gaps[False] > 3
    assert gaps[True] is not None and gaps[True] < 2
    windows = trainer(source, target, tmp_path / "again", matched=False).windows
    assert gaps[False] == dynamics_gap(windows.sets[:1], windows.sets[1])
    assert all(context.recorded_gap == gaps[False] for context in contexts.values())
    # What decides the target's share is how the readings were recorded.
    assert known_target_factor(RECOMMENDED, contexts[True]) == "natural"


def test_it_is_left_out_of_older_configurations(source: Path, target: Path) -> None:
    config = tiny_config("cotrain", source, target)
    plain = config.to_dict()
    assert ("match_noise" in plain["data"]) == config.data.match_noise
    flipped = replace(config, data=replace(config.data, match_noise=not config.data.match_noise))
    assert flipped.digest() != config.digest()
