"""The trainer by what it leaves in the run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from demonstrations import make_dataset
from safetensors.torch import load_file
from tiny_runs import TINY, Stopped, assert_same_runs, metrics, stop_at, tiny_config, train_with_stops

from beacon import load_policy
from beacon.data import EpisodeSet
from beacon.errors import UserError
from beacon.methods import PAPER, RECOMMENDED
from beacon.plain import changed
from beacon.randomness import generator
from beacon.runs import RunFolder
from beacon.training import OptimizationOptions, TrainConfig, Trainer, train
from beacon.training.optimization import half_squared_norm, learning_rate
from beacon.training.stored_config import read_config


def test_per_sample_losses_average_to_the_batch_loss(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = Trainer(tiny_config("cotrain", source, target), RunFolder(tmp_path / "run"))
    for step, batch in enumerate(trainer.loader(trainer.method.batches(0))):
        losses, _, loss = trainer._loss(batch, step)
        assert losses.shape == (8,)
        assert loss.item() == pytest.approx(losses.mean().item(), rel=1e-6)
        again, _, _ = trainer._loss(batch, step)
        assert torch.equal(again, losses)  # crops and noise belong to the step


def test_a_method_may_weigh_losses_by_noise_level(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = Trainer(tiny_config("cotrain", source, target), RunFolder(tmp_path / "run"))
    batch = next(iter(trainer.loader(trainer.method.batches(0))))
    plain, _, _ = trainer._loss(batch, 0)
    seen: list[torch.Tensor] = []

    def little_noise_alone(index: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        assert torch.equal(index, batch.index)
        seen.append(timesteps)
        return (timesteps < 10).float()

    trainer.method.noise_weights = little_noise_alone
    losses, _, loss = trainer._loss(batch, 0)
    by_draw, timesteps, _ = trainer._sample_losses(trainer.policy, batch, generator(0, 0, 0))
    assert torch.equal(losses, plain)  # what is logged and measured is not weighed
    assert torch.equal(seen[0], timesteps) and timesteps.shape == (TINY.draws, len(batch))
    chosen = timesteps < 10
    assert 0 < chosen.float().mean() < 1
    assert loss.item() == pytest.approx(by_draw[chosen].sum().item() / by_draw.numel(), rel=1e-6)


def test_weight_decay_shrinks_parameters(source: Path, target: Path, tmp_path: Path) -> None:
    """By learning rate times weight decay a step, where gradients are too small to do anything."""
    for decay in (0.0, 0.3):
        config = tiny_config("cotrain", source, target, weight_decay=decay, gradient_clip=1e-12)
        trainer = Trainer(config, RunFolder(tmp_path / str(decay)))
        assert trainer.context.weight_decay == decay
        trainer.folder.path.mkdir()
        start = [parameter.detach().clone() for parameter in trainer.policy.parameters()]
        trainer.run()
        rates = [learning_rate(step, config.optimization) for step in range(config.optimization.steps)]
        kept = float(np.prod([1 - rate * decay for rate in rates]))
        assert (kept < 0.9995) == (decay > 0)
        for before, after in zip(start, trainer.policy.parameters(), strict=True):
            assert torch.allclose(after, kept * before, rtol=1e-5, atol=1e-6)


def test_learning_rate() -> None:
    options = OptimizationOptions(steps=40, steps_per_epoch=10, warmup_steps=10, learning_rate=2.0)
    rates = np.array([learning_rate(step, options) for step in range(40)])
    assert rates[:10] == pytest.approx(2.0 * np.arange(1, 11) / 10)
    assert rates[10:] == pytest.approx(1 + np.cos(np.pi * np.arange(30) / 30))
    no_warmup = OptimizationOptions(steps=4, steps_per_epoch=4, warmup_steps=0, learning_rate=1.0)
    assert learning_rate(0, no_warmup) == 1.0


def test_capacity_is_half_the_squared_norm(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = Trainer(tiny_config("cotrain", source, target), RunFolder(tmp_path / "run"))
    exact = 0.5 * sum(float(p.detach().double().square().sum()) for p in trainer.policy.parameters())
    assert half_squared_norm(trainer.policy) == pytest.approx(exact, rel=1e-6)


@pytest.fixture(scope="module")
def run(source: Path, other_source: Path, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two sources, validation and all logs."""
    path = tmp_path_factory.mktemp("runs") / "full"
    config = tiny_config(
        "beacon-paper",
        (source, other_source),
        target,
        data={"validation": target},
        run={"tensorboard": True, "keep": 2, "log_every": 2, "validate_every": 2},
        steps=15,
        steps_per_epoch=3,
    )
    train(config, path)
    return path


def test_logs_of_training(run: Path) -> None:
    lines = metrics(run, "train")
    # Every second step, and at the end of every epoch of three.
    assert [line["step"] for line in lines] == [2, 3, 4, 6, 8, 9, 10, 12, 14, 15]
    assert [line["epoch"] for line in lines] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    options = OptimizationOptions(
        steps=15, steps_per_epoch=3, learning_rate=1e-3, warmup_steps=2, batch_size=8
    )
    assert [line["learning_rate"] for line in lines] == [
        learning_rate(line["step"] - 1, options) for line in lines
    ]
    assert all(np.isfinite(line["loss"]) for line in lines)
    assert {"loss/sim", "loss/other", "loss/real"} <= {name for line in lines for name in line}
    raw = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(line["steps_per_second"] > 0 for line in raw if line["kind"] == "train")


def test_logs_of_refreshes(run: Path) -> None:
    lines = metrics(run, "refresh")
    assert [(line["epoch"], line["step"]) for line in lines] == [(e, 3 * e) for e in range(5)]
    for line in lines:
        assert {f"mass/{name}" for name in ("sim", "other", "real")} <= line.keys()
        assert {f"q/mean/{name}" for name in ("sim", "other", "real")} <= line.keys()
        assert {"q/max", "q/effective_sample_size", "discrepancy/mean"} <= line.keys()
        assert line["discrepancy/quantile_0.1"] <= line["discrepancy/quantile_0.5"]
        terms = [value for name, value in line.items() if name.startswith("objective/")]
        assert len(terms) >= 6
        parts = sum(terms) - line["objective/total"]
        assert line["objective/total"] == pytest.approx(parts, rel=1e-9)
        # Five demonstrations of nine steps, three of nine, two of seven.
        masses = line["mass/sim"] + line["mass/other"] + line["mass/real"]
        assert masses == pytest.approx(14 + 0.5 * 72)
        assert line["domain_weight/sim"] + line["domain_weight/other"] == pytest.approx(1)


def test_held_out_loss(run: Path, source: Path, target: Path, tmp_path: Path) -> None:
    lines = metrics(run, "validation")
    assert [line["step"] for line in lines] == [6, 12]
    # At the averaged parameters, four draws, always the same noise.
    config = tiny_config("cotrain", source, target, data={"validation": target}, steps=4)
    trainer = Trainer(config, RunFolder(tmp_path / "run"))
    trainer.folder.path.mkdir()
    trainer.run()
    logged = metrics(tmp_path / "run", "validation")[-1]["loss"]
    before = [p.detach().clone() for p in trainer.policy.parameters()]
    assert trainer._validate() == logged
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))
    trainer.ema.copy_to(trainer.policy)
    found = trainer.measurer(trainer.context.target_windows, 4, (0, 2, 1)).losses.mean().item()
    assert found == pytest.approx(logged, rel=1e-5)


def events(run: Path) -> Iterator[Any]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    for file in sorted(run.glob("events.out.tfevents.*")):
        yield from EventFileLoader(str(file)).Load()


def test_tensorboard_has_what_metrics_have(run: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run), size_guidance={"scalars": 0, "histograms": 0}).Reload()
    for line in metrics(run):
        kind, step = line.pop("kind"), line.pop("step")
        for name, value in line.items():
            found = {event.step: event.value for event in board.Scalars(f"{kind}/{name}")}
            assert found[step] == pytest.approx(value, rel=1e-6)
    assert sorted(board.Tags()["histograms"]) == ["q/other", "q/real", "q/sim"]
    assert len(board.Histograms("q/sim")) == 5


def test_tensorboard_after_a_kill(source: Path, target: Path, tmp_path: Path) -> None:
    """Nothing before the checkpoint is lost, nothing after it is shown twice with two values."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = tiny_config("cotrain", source, target, run={"tensorboard": True})
    train_with_stops(config, tmp_path / "run", 1, 3)
    assert len(list(tmp_path.glob("run/events.*"))) == 3
    assert any(event.HasField("session_log") for event in events(tmp_path / "run"))
    board = EventAccumulator(str(tmp_path / "run"), size_guidance={"scalars": 0}).Reload()
    assert [event.step for event in board.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6]


def test_checkpoints_keep_the_newest(run: Path) -> None:
    names = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert names == ["00000012", "00000015", "last"]
    assert (run / "checkpoints" / "last").read_text().strip() == "00000015"
    assert sorted(path.name for path in (run / "checkpoints" / "00000015").iterdir()) == [
        "checksums.json",
        "ema.safetensors",
        "method.safetensors",
        "optimizer.safetensors",
        "policy.json",
        "policy.safetensors",
        "trainer.json",
    ]
    # The full weights of all checkpoints stay.
    assert len(list(run.glob("weights/windows-*.parquet"))) == 5


def test_about_ten_checkpoints_unless_said_otherwise(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config(
        "cotrain", source, target, run={"checkpoint_every": None, "keep": 99}, steps=25, steps_per_epoch=1
    )
    train(config, tmp_path / "run")
    steps = [int(p.name) for p in (tmp_path / "run" / "checkpoints").iterdir() if p.is_dir()]
    assert sorted(steps) == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 25]


def test_weight_tables(run: Path) -> None:
    episodes = pq.read_table(run / "weights" / "episodes.parquet")
    assert episodes.num_rows == 5 * 10
    assert episodes["name"].to_pylist()[:10] == [f"demo_{i}" for n in (5, 3, 2) for i in range(n)]
    assert episodes["domain"].to_pylist()[:10] == ["sim"] * 5 + ["other"] * 3 + ["real"] * 2
    windows = pq.read_table(run / "weights" / "windows-00000015.parquet")
    assert windows.num_rows == 72 + 14
    q = windows["weight"].to_numpy()
    assert np.array_equal(
        q, load_file(run / "checkpoints" / "00000015" / "method.safetensors")["method/reweighter/q"].numpy()
    )
    means = np.bincount(windows["episode"].to_numpy(), weights=q) / np.array([9] * 8 + [7] * 2)
    assert episodes["weight"].to_numpy()[-10:] == pytest.approx(means, rel=1e-6)


def test_pooled_sources_have_no_domain_weights(
    source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    options = changed(PAPER, {"weighting": {"pool_sources": True}})
    train(tiny_config("beacon-paper", (source, other_source), target, options=options), tmp_path / "run")
    last = metrics(tmp_path / "run", "refresh")[-1]
    weights = {name: value for name, value in last.items() if name.startswith("domain_weight/")}
    assert weights == {"domain_weight/sim": 1.0, "domain_weight/other": 1.0}
    assert {"mass/sim", "mass/other"} <= last.keys()


@pytest.mark.parametrize("statistics", ["pooled", "target", "per-domain"])
def test_statistics_travel_with_the_policy(statistics: str, source: Path, tmp_path: Path) -> None:
    target = make_dataset(tmp_path / "real.hdf5", 1, steps=5, seed=8)
    config = tiny_config("cotrain", source, target, data={"statistics": statistics}, steps=2)
    with pytest.warns(UserWarning, match="a single demonstration"):
        train(config, tmp_path / "run")
    scale = load_policy(tmp_path / "run").normalization.actions
    sets = [EpisodeSet.load(path) for path in (source, target)]
    chosen = np.concatenate([s.actions for s in sets]) if statistics == "pooled" else sets[1].actions
    assert (scale.offset - scale.scale).tolist() == pytest.approx(chosen.min(0).tolist(), abs=1e-6)
    assert (scale.offset + scale.scale).tolist() == pytest.approx(chosen.max(0).tolist(), abs=1e-6)


def test_same_seed_same_run_other_seed_other_run(source: Path, target: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(tiny_config("beacon", source, target, seed=seed), tmp_path / name)
    assert_same_runs(tmp_path / "a", tmp_path / "b")
    assert metrics(tmp_path / "a") != metrics(tmp_path / "c")


def test_resuming_a_finished_run_changes_nothing(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("beacon", source, target)
    last = train(config, tmp_path / "run")
    before = {p: p.read_bytes() for p in tmp_path.glob("run/**/*") if p.is_file()}
    assert train(config, tmp_path / "run", resume=True) == last
    assert {p: p.read_bytes() for p in tmp_path.glob("run/**/*") if p.is_file()} == before


def test_the_way_it_is_run_may_change(source: Path, target: Path, tmp_path: Path) -> None:
    train(tiny_config("beacon", source, target), tmp_path / "whole")
    with pytest.raises(Stopped):
        train(tiny_config("beacon", source, target), tmp_path / "run", listener=stop_at(5))
    # A checkpoint that was renamed into place but not named last, as by a kill at that moment.
    checkpoints = tmp_path / "run" / "checkpoints"
    (checkpoints / "00000004").rename(checkpoints / "00000006")
    (checkpoints / "last").write_text("00000002\n")
    other = tiny_config("beacon", source, target, run={"keep": 1, "checkpoint_every": 2})
    train(other, tmp_path / "run", resume=True)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["00000006", "last"]
    for file in ("policy", "method"):
        name = f"checkpoints/00000006/{file}.safetensors"
        a, b = load_file(tmp_path / "whole" / name), load_file(tmp_path / "run" / name)
        assert all(torch.equal(a[key], b[key]) for key in a)


def test_refresh_less_often_than_checkpoints_resumes_tables_too(
    source: Path, target: Path, tmp_path: Path
) -> None:
    options = replace(PAPER, refresh_every=3)
    config = tiny_config("beacon-paper", source, target, options=options, steps=14)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 5, 10, 13)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")


def test_configuration_survives_yaml(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config(
        "beacon",
        source,
        target,
        options=changed(
            RECOMMENDED,
            {
                "weighting": {"solver": {"part": "steps", "eta_q": 0.01}, "alpha": 0.3},
                "discrepancy": {"k": 4},
            },
        ),
        data={"cameras": ("agentview_image",), "rename": ("a=b",), "quantile": 0.01},
    )
    folder = RunFolder(tmp_path / "run")
    folder.start(config.to_dict(), [])
    assert read_config(folder.path) == config
    assert TrainConfig.from_dict(config.to_dict()).digest() == config.digest()
    assert config.policy == TINY


def test_only_one_process_trains_in_a_folder(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("cotrain", source, target)
    train(config, tmp_path / "run")
    with (
        RunFolder(tmp_path / "run").locked(),
        pytest.raises(UserError, match="another process is training in it"),
    ):
        train(config, tmp_path / "run", resume=True)
    train(config, tmp_path / "run", resume=True)
