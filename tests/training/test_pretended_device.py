"""Everything trains on a device that refuses to be mixed with the CPU, and no step waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pretended_device import Wait, pretended_device
from safetensors.torch import load_file
from tiny_runs import TINY, TINY_METHODS, assert_same_runs, tiny_config, train_with_stops

from beacon.data import WindowBatch
from beacon.methods import METHODS, AuxiliaryLoss
from beacon.methods.auxiliary import Adversarial, FeatureDistance, FutureState
from beacon.methods.base import Indices
from beacon.methods.losses.transport import sinkhorn_plan, transport_plan
from beacon.plain import changed
from beacon.policy import load_policy
from beacon.randomness import generator
from beacon.runs import RunFolder
from beacon.sim.shared_policy import PolicyHost, SharedPolicy
from beacon.training import TrainConfig
from beacon.training import train as train_run
from beacon.training.trainer import Trainer
from beacon.weighting import Reweighter

LOCALIZED = {"part": "localized", "steps": 3, "evaluate_every": 2}
NOISE_LEVELS = {
    "domain": {"part": "by-domain", "begin": 0.0, "classifier_steps": 3, "levels": 4},
    "loss": {"part": "by-loss", "begin": 0.0, "least_visits": 0.1},
}
# name -> method, its options, auxiliary losses, the run's options
VARIANTS: dict[str, tuple[str, dict[str, Any], tuple[AuxiliaryLoss, ...], dict[str, Any]]] = {
    **{name: (name, {}, (), {}) for name in METHODS},
    "beacon-exact": ("beacon", {"measurement": {"part": "sweep-all"}}, (), {}),
    "paper-classifier": ("beacon-paper", {"discrepancy": {"part": "classifier"}}, (), {}),
    "paper-joint": ("beacon-paper", {"discrepancy": {"part": "knn-joint"}}, (), {}),
    "paper-localized": ("beacon-paper", {"discrepancy": LOCALIZED}, (), {}),
    "losses": ("cotrain", {}, (FutureState(), FeatureDistance(), Adversarial()), {}),
    **{f"noise-{way}": ("beacon", {"noise_levels": part}, (), {}) for way, part in NOISE_LEVELS.items()},
    "bf16": ("beacon", {}, (FutureState(),), {"precision": "bf16"}),
}


def config_of(variant: str, source: Path, target: Path, **changes: Any) -> TrainConfig:
    """Four gradient steps of a variant, in two epochs, on the pretended GPU."""
    method, options, auxiliary, run = VARIANTS[variant]
    spec = METHODS[method]
    return tiny_config(
        method,
        source if spec.needs_source else None,
        target if spec.needs_target or method != "source-only" else None,
        options=changed(spec.default_options(), {**TINY_METHODS.get(method, {}), **options}),
        auxiliary=auxiliary,
        run={"device": "cuda", "precision": "float32", "log_every": 100, **run},
        steps=4,
        **changes,
    )


def watch_steps(monkeypatch: pytest.MonkeyPatch, waits: list[Wait]) -> list[tuple[int, list[Wait]]]:
    """What the host waits for in every gradient step, as (step, waits); and between steps of an epoch."""
    real: Callable[..., Any] = Trainer._step
    seen: list[tuple[int, list[Wait]]] = []
    ended = [0]  # how many waits there were when the last step ended

    def step(self: Trainer, batch: WindowBatch, index: Indices, number: int) -> Any:
        is_first = number % self.config.optimization.steps_per_epoch == 0
        before = len(waits) if is_first else ended[0]
        result = real(self, batch, index, number)
        seen.append((number, [wait for wait in waits[before:] if "batch-loader" not in wait.thread]))
        ended[0] = len(waits)
        return result

    monkeypatch.setattr(Trainer, "_step", step)
    return seen


@pytest.mark.parametrize("variant", VARIANTS)
def test_trains_saves_and_resumes_without_waiting(
    variant: str, source: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(variant, source, target)
    with pretended_device() as waits:
        steps = watch_steps(monkeypatch, waits)
        train_run(config, tmp_path / "whole")
        # The first step sends constants, such as the scaling of actions.
        assert [waited for number, waited in steps if number] == [[]] * 3
        train_with_stops(config, tmp_path / "resumed", 3)
    assert_same_runs(tmp_path / "whole", tmp_path / "resumed")


def test_computes_what_the_cpu_computes(source: Path, target: Path, tmp_path: Path) -> None:
    config = config_of("paper-localized", source, target)
    with pretended_device():
        there = train_run(config, tmp_path / "there")
    here = train_run(replace(config, run=replace(config.run, device="cpu")), tmp_path / "here")
    ours, theirs = (load_file(run / "policy.safetensors") for run in (here, there))
    apart = torch.cat([(ours[name] - theirs[name]).abs().flatten() for name in ours])
    assert float(apart.mean()) < 1e-5  # rounding, which Adam magnifies where a gradient is nothing else
    ours, theirs = (load_file(run / "method.safetensors") for run in (here, there))
    for name, value in ours.items():
        assert torch.allclose(value.double(), theirs[name].double(), rtol=1e-3, atol=1e-4), name


@pytest.mark.parametrize("matched", [False, True])
def test_the_cpu_presets_encoder_and_data_train_there(
    matched: bool,
    source: Path,
    noisy_target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = replace(
        TINY.encoder, adapt_view=True, view_prior=0.02, whiten=True, learn_temperature=True, crop=0.9
    )
    data = {"match_noise": matched}
    config = config_of("beacon", source, noisy_target, policy=replace(TINY, encoder=encoder), data=data)
    with pretended_device() as waits:
        steps = watch_steps(monkeypatch, waits)
        train_run(config, tmp_path / "run")
    assert [waited for number, waited in steps if number] == [[]] * 3


def test_localized_without_proprioception_in_bf16(source: Path, target: Path, tmp_path: Path) -> None:
    config = config_of("paper-localized", source, target, data={"proprio": ()})
    with pretended_device():
        train_run(replace(config, run=replace(config.run, precision="bf16")), tmp_path / "run")


def test_a_reweighter_takes_embeddings_of_the_device_and_actions_of_the_cpu() -> None:
    domains, episodes = ["sim"] * 12 + ["real"] * 6, np.repeat(np.arange(6), 3)
    rng = np.random.default_rng(0)
    features = torch.from_numpy(rng.normal(size=(18, 4)).astype(np.float32))
    actions, losses = rng.normal(size=(18, 2, 3)), np.full(18, 0.5)
    here, there = (Reweighter.recommended(domains, "real", episodes=episodes) for _ in range(2))
    here.refresh(losses, features, actions=actions)
    with pretended_device():
        there.refresh(torch.from_numpy(losses).to("cuda"), features.to("cuda"), actions=actions)
        assert there[torch.arange(18, device="cuda")].device.type == "cuda"
        state = {name: tensor.to("cuda") for name, tensor in there.state_dict().items()}
        again = Reweighter.recommended(domains, "real", episodes=episodes)
        again.load_state_dict(state)
    assert np.allclose(here.weights, there.weights)
    assert np.array_equal(again.weights, there.weights)


def test_a_policy_acts_there(source: Path, target: Path, tmp_path: Path) -> None:
    config = config_of("cotrain", source, target)
    train_run(replace(config, run=replace(config.run, device="cpu")), tmp_path / "run")
    rng = np.random.default_rng(0)
    observation = {
        "agentview_image": rng.integers(255, size=(3, 2, 24, 24, 3), dtype=np.uint8),
        "robot0_eef_pos": rng.normal(size=(3, 2, 3)),
    }
    here = load_policy(tmp_path / "run").act(observation)
    with pretended_device():
        there = load_policy(tmp_path / "run", device="cuda").act(observation)
    assert np.allclose(here, there, atol=1e-4)


def test_workers_of_an_evaluation_are_answered_from_there(source: Path, target: Path, tmp_path: Path) -> None:
    config = config_of("cotrain", source, target)
    train_run(replace(config, run=replace(config.run, device="cpu")), tmp_path / "run")
    rng, seeds = np.random.default_rng(0), [7, 8, 9]
    observation = {
        "agentview_image": rng.integers(255, size=(3, 2, 24, 24, 3), dtype=np.uint8),
        "robot0_eef_pos": rng.normal(size=(3, 2, 3)),
    }
    alone = load_policy(tmp_path / "run")
    alone.reset(seeds)
    here = alone.act(observation, rows=[0, 1, 2])
    with (
        pretended_device(),
        PolicyHost(load_policy(tmp_path / "run", device="cuda"), seeds) as host,
    ):
        there = SharedPolicy(host.ticket).act(observation, rows=[0, 1, 2])
    assert np.allclose(here, there, atol=1e-4)


def test_refreshes_measure_in_float32_whatever_the_steps_compute_in(
    source: Path, target: Path, tmp_path: Path
) -> None:
    """Losses and embeddings of a refresh decide weights: in bf16 they would lose digits."""
    config = config_of("beacon-paper", source, target)
    measured, steps = [], []
    with pretended_device():
        for precision in ("float32", "bf16"):
            run = replace(config, run=replace(config.run, precision=precision))
            trainer = Trainer(run, RunFolder(tmp_path / precision))
            index = trainer.measurer.everything
            measured.append(trainer.context.measure(index, 2, 0))
            batch = trainer.windows.gather(index[:8]).to(torch.device("cuda"))
            steps.append(trainer.loss_pass(batch, generator(0))[0].detach().cpu())
    for name in ("losses", "vision", "observation"):
        first, second = (getattr(measurement, name).cpu() for measurement in measured)
        assert first.dtype == torch.float32 and torch.equal(first, second), name
    assert not torch.equal(*steps)  # the steps do compute in bf16


@pytest.mark.parametrize("reference", ["diag", "outer"])
def test_the_transport_plan_of_a_gpu_is_pots(reference: Any) -> None:
    costs = torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) / 10
    costs[0] = 1e4  # nothing is worth transporting from here
    options: dict[str, Any] = {"reg": 0.1, "tau": 0.05, "reference": reference}
    assert torch.allclose(
        sinkhorn_plan(costs[1:, 1:], **options), transport_plan(costs[1:, 1:], **options), atol=1e-9
    )
    assert not sinkhorn_plan(costs, **options)[0].any()


# The device itself.


def test_tensors_of_both_devices_do_not_mix() -> None:
    with pretended_device():
        there, here = torch.randn(4, 3, device="cuda"), torch.randn(4, 3)
        rows = torch.arange(2, device="cuda")
        mixed: list[Callable[[], Any]] = [
            lambda: there + here,
            lambda: here * there.sum(),
            lambda: here[rows],
            lambda: torch.cat([there, here]),
            lambda: there @ here.T,
            lambda: there.normal_(generator=torch.Generator()),
        ]
        for operation in mixed:
            with pytest.raises(RuntimeError, match="cuda"):
                operation()
        with pytest.raises(TypeError, match="cuda:0"):
            there.numpy()
        assert (there + here[0, 0]).device.type == "cuda"  # a single number is taken
    assert not torch.cuda.is_available()  # as it was


def test_waits_are_counted() -> None:
    with pretended_device() as waits:
        there, here = torch.randn(4, 3, device="cuda"), torch.randn(4, 3)
        there.fill_(1.0)
        torch.where(there > 0, there, 0.0)
        here.pin_memory().to("cuda", non_blocking=True)
        assert waits == []
        there.copy_(here)
        here.to("cuda", non_blocking=True)  # from pageable memory
        there[there > 0]
        there.sum().item()
        there.cpu()
        torch.cuda.synchronize()
        assert [wait.kind for wait in waits] == [
            "upload",
            "upload",
            "mask",
            "read",
            "download",
            "synchronize",
        ]
        assert all("test_waits_are_counted" in wait.caller for wait in waits)
