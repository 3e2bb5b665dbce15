"""The localized discrepancy of a real policy: its reference, its losses, its place in a run."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import Stopped, assert_same_runs, metrics, stop_at, tiny_config
from torch import Tensor

from beacon.data import WindowBatch
from beacon.errors import UserError
from beacon.methods import PAPER, RECOMMENDED, BeaconOptions
from beacon.methods.beacon.localized import DenoiserLosses, LocalizedDiscrepancy, PolicyDiscrepancy
from beacon.plain import changed
from beacon.runs import RunFolder
from beacon.training import Trainer, train
from beacon.training.reference import fit_reference
from beacon.weighting import InverseDynamicsCheck, NeighborActionCheck, localized_discrepancy

SHORT = LocalizedDiscrepancy(steps=30, evaluate_every=10, learning_rate=3e-3, draws=2)
LOCALIZED = replace(PAPER, discrepancy=SHORT)


@pytest.fixture
def trainer(source: Path, other_source: Path, target: Path, tmp_path: Path) -> Trainer:
    config = tiny_config("beacon-paper", (source, other_source), target, options=LOCALIZED)
    made = Trainer(config, RunFolder(tmp_path / "run"))
    made.folder.path.mkdir()
    return made


def test_the_reference_learns_the_target_alone_and_is_made_once(trainer: Trainer) -> None:
    context = trainer.context
    before = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    reference = context.fit_reference("some", context.target_windows, 80)
    file = trainer.folder.path / "references" / "some.safetensors"
    written = file.stat().st_mtime_ns
    for name, value in trainer.policy.state_dict().items():
        assert torch.equal(value, before[name])  # the run's own policy has not moved
    start = context.measure(context.target_windows, 4, 0).losses.mean()
    assert reference.measure(context.target_windows, 4, 0).losses.mean() < 0.8 * start
    again = context.fit_reference("some", context.target_windows, 80)
    assert file.stat().st_mtime_ns == written
    for a, b in zip(reference.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_reference_has_the_runs_bound_on_gradients(source: Path, target: Path, tmp_path: Path) -> None:
    """Adam divides by √v + 1e-8: gradients that are bounded far below that hardly move anything."""
    moved = {}
    for bound in (None, 1e6, 1e-12):
        config = tiny_config("beacon-paper", source, target, options=LOCALIZED, gradient_clip=bound)
        trainer = Trainer(config, RunFolder(tmp_path / f"run-{bound}"))
        reference = trainer.context.fit_reference("some", trainer.context.target_windows, 6)
        start = torch.cat([p.detach().flatten() for p in trainer.policy.parameters()])
        end = torch.cat([p.detach().flatten() for p in reference.policy.parameters()])
        moved[bound] = float((end - start).abs().max())
    assert moved[None] == moved[1e6] > 1e-3  # a bound that no gradient meets changes nothing
    assert moved[1e-12] < 1e-4


def test_the_reference_is_fitted_on_target_windows_alone(trainer: Trainer) -> None:
    seen: list[int] = []

    def losses(batch: WindowBatch, step: int) -> Tensor:
        seen.extend(batch.index.tolist())
        return trainer.policy.encode(batch.images, batch.proprio).observation.square().mean(dim=1)

    context, optimization = trainer.context, trainer.config.optimization
    file = trainer.folder.path / "seen.safetensors"
    fit_reference(trainer.policy, losses, trainer.loader, context.target_windows, 9, optimization, file)
    assert set(seen) == set(context.target_windows.tolist())  # 72 draws: all of them, and no other


def test_the_localized_discrepancy_asks_for_a_reference_of_the_target(trainer: Trainer) -> None:
    trainer.method.between_epochs(0)
    context = trainer.context
    (file,) = (trainer.folder.path / "references").iterdir()
    steps = round(SHORT.reference_share * context.epochs * context.steps_per_epoch)
    assert file.name == f"target-only-{steps}.safetensors"
    expected = context.fit_reference("of-the-target", context.target_windows, steps)
    other = context.fit_reference("of-all", np.arange(len(context.windows)), steps)
    kept = load_file(file)
    assert all(torch.equal(value, kept[name]) for name, value in expected.policy.state_dict().items())
    assert not all(torch.equal(value, kept[name]) for name, value in other.policy.state_dict().items())


def test_every_window_has_noise_of_its_own(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beacon.methods.beacon.localized.PART", 10)
    context = trainer.context
    reference = context.fit_reference("some", context.target_windows, 1)
    noises: list[Tensor] = []
    timesteps: list[Tensor] = []
    losses: list[Tensor] = []
    compute = reference.policy.per_sample_loss

    def seen(observation: Tensor, actions: Tensor, noise: Tensor, steps: Tensor) -> Tensor:
        noises.append(noise)
        timesteps.append(steps)
        losses.append(compute(observation, actions, noise, steps))
        return losses[-1]

    around = DenoiserLosses(reference, context, replace(SHORT, draws=3))
    monkeypatch.setattr(reference.policy, "per_sample_loss", seen)
    mean = around.loss(around.start, "sim")
    count = int((context.windows.domain == 0).sum())
    noise = torch.cat(noises, dim=1)
    assert noise.shape[:2] == (3, count) and count > 2 * 10  # all windows, in more than two parts
    assert len(torch.unique(noise.flatten(0, 1).flatten(1), dim=0)) == 3 * count
    assert len(torch.unique(torch.cat(timesteps, dim=1))) > 5
    assert mean == pytest.approx(float(torch.cat(losses, dim=1).mean()), rel=1e-6)


def test_with_the_same_number_reference_and_policy_see_the_same_noise(trainer: Trainer) -> None:
    context = trainer.context
    reference = context.fit_reference("same", context.target_windows, 1)
    with torch.no_grad():
        for mine, theirs in zip(reference.policy.parameters(), trainer.policy.parameters(), strict=True):
            mine.copy_(theirs)
    index = np.arange(20)
    a, b = context.measure(index, 2, 7), reference.measure(index, 2, 7)
    assert torch.equal(a.losses, b.losses) and torch.equal(a.observation, b.observation)
    assert not torch.equal(a.losses, context.measure(index, 2, 8).losses)


def test_losses_and_gradients_around_the_reference(trainer: Trainer) -> None:
    context = trainer.context
    reference = context.fit_reference("target-only", context.target_windows, 20)
    encoder = [p.clone() for p in reference.policy.encoder.parameters()]
    around = DenoiserLosses(reference, context, replace(SHORT, draws=20))
    theta = around.start
    assert around.loss(theta, "sim") == around.loss(theta, "sim")  # the same noise every time
    assert around.loss(theta, "real") != around.loss(theta, "sim")

    def slope() -> np.ndarray:
        return np.mean([around.gradient(theta, "sim") for _ in range(40)], axis=0)

    direction = slope()
    assert direction.shape == theta.shape
    direction /= np.linalg.norm(direction)
    rise = around.loss(theta + 0.01 * direction, "sim") - around.loss(theta - 0.01 * direction, "sim")
    assert rise > 0
    assert rise / 0.02 == pytest.approx(float(slope() @ direction), rel=0.3)
    for now, then in zip(reference.policy.encoder.parameters(), encoder, strict=True):
        assert torch.equal(now, then)


def test_the_ascent_raises_the_gap_within_the_ball(trainer: Trainer) -> None:
    context = trainer.context
    reference = context.fit_reference("target-only", context.target_windows, 40)
    around = DenoiserLosses(reference, context, SHORT)
    radius = 0.05 * float(np.linalg.norm(around.start))
    found = localized_discrepancy(
        around.loss,
        around.gradient,
        around.start,
        "sim",
        "real",
        radius=radius,
        learning_rate=3e-3,
        steps=60,
        evaluate_every=10,
    )
    assert found.gaps.max() > found.gaps[0]
    assert np.linalg.norm(found.best - around.start) <= radius * (1 + 1e-9)


def test_every_source_domain_gets_a_number_of_its_own(trainer: Trainer) -> None:
    assert isinstance(trainer.method.reweighter._estimator, PolicyDiscrepancy)
    report = trainer.method.between_epochs(0)
    assert report is not None
    d, domain = report.discrepancies, trainer.windows.domain
    assert d is not None and (d[domain == 2] == 0).all()
    for number in (0, 1):
        assert np.ptp(d[domain == number]) == 0
    assert trainer.method.reweighter.config.lambda_d == 1.0


def test_it_is_estimated_once_and_never_again_on_resume(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("beacon-paper", source, target, options=LOCALIZED)
    train(config, tmp_path / "whole")
    assert "discrepancy/localized/sim" in metrics(tmp_path / "whole", "refresh")[0]
    assert "discrepancy/localized/sim" not in metrics(tmp_path / "whole", "refresh")[1]
    parts = tmp_path / "parts"
    for step in (1, 3):
        with pytest.raises(Stopped):
            train(config, parts, resume=parts.exists(), listener=stop_at(step))
    (reference,) = (parts / "references").iterdir()
    made = reference.stat().st_mtime_ns
    train(config, parts, resume=True)
    assert reference.stat().st_mtime_ns == made
    assert_same_runs(tmp_path / "whole", parts)


@pytest.mark.parametrize(
    "options",
    [
        replace(LOCALIZED, checks=(NeighborActionCheck(),)),
        replace(LOCALIZED, checks=(NeighborActionCheck(prior="none"),)),
        replace(RECOMMENDED, discrepancy=SHORT, checks=(NeighborActionCheck(), InverseDynamicsCheck())),
    ],
    ids=["paper", "learned", "recommended"],
)
def test_with_checks_a_resumed_run_does_not_ascend_again(
    options: BeaconOptions, source: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks change the discrepancies at every refresh; what they multiply is found once and kept."""
    calls: list[str] = []

    def count(module: str, name: str) -> None:
        real = getattr(import_module(module), name)

        def counted(*arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return real(*arguments, **named)

        monkeypatch.setattr(f"{module}.{name}", counted)

    count("beacon.training.measuring", "fit_reference")
    count("beacon.weighting.discrepancy.localized", "localized_discrepancy")
    config = tiny_config("beacon", source, target, options=options, steps=8)
    train(config, tmp_path / "whole")
    assert calls == ["fit_reference", "localized_discrepancy"]
    lines = metrics(tmp_path / "whole", "refresh")
    factors = [
        line["discrepancy/neighbor_actions"] for line in lines if line["swept_windows"] or line["step"]
    ]
    assert len(factors) >= 3 and len(set(factors)) > 1  # the check is asked every time
    parts = tmp_path / "parts"
    with pytest.raises(Stopped):
        train(config, parts, listener=stop_at(5))
    assert calls[2:] == ["fit_reference", "localized_discrepancy"]
    with pytest.raises(Stopped):
        train(config, parts, resume=True, listener=stop_at(7))
    train(config, parts, resume=True)
    assert len(calls) == 4
    assert_same_runs(tmp_path / "whole", parts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 0.0}, "--discrepancy.radius 0.0: must be above 0"),
        ({"radius": -1.0}, "--discrepancy.radius -1.0: must be above 0"),
        ({"steps": 0}, "--discrepancy.steps 0: must be at least 1"),
        ({"evaluate_every": 0}, "--discrepancy.evaluate-every 0: must be at least 1"),
        ({"beta": -1.0}, "--discrepancy.beta -1.0: must be at least 0"),
        ({"learning_rate": 0.0}, "--discrepancy.learning-rate 0.0: must be above 0"),
        ({"draws": 0}, "--discrepancy.draws 0: must be at least 1"),
        ({"windows": -1}, "--discrepancy.windows -1: must be at least 0"),
        ({"reference_share": 0.0}, "--discrepancy.reference-share 0.0: must be above 0 and at most 1"),
        ({"reference_share": 1.5}, "--discrepancy.reference-share 1.5: must be above 0 and at most 1"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        changed(PAPER, {"discrepancy": {"part": "localized", **options}})
