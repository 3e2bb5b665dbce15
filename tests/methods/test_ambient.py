"""Ambient Diffusion Policy: which noise levels a source may teach at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from demonstrations import make_dataset
from tiny_runs import metrics, tiny_config

from beacon.errors import UserError
from beacon.methods import AmbientOptions
from beacon.methods.ambient import Ambient, NoiseSchedule, first_level, noise_confusion
from beacon.policy import PolicyConfig
from beacon.policy.noise import make_scheduler
from beacon.runs import RunFolder
from beacon.training import Trainer, train

LEVELS = 20  # of the tiny policy
QUICK = AmbientOptions(folds=2, levels=8)


def trainer(options: AmbientOptions, source, target: Path, folder: Path, **optimization) -> Trainer:
    config = tiny_config("ambient", source, target, options=options, **optimization)
    return Trainer(config, RunFolder(folder))


def schedule() -> NoiseSchedule:
    alphas = make_scheduler(PolicyConfig()).alphas_cumprod
    return NoiseSchedule(alphas.sqrt(), (1 - alphas).sqrt())


def confusion(source: torch.Tensor, target: torch.Tensor, demos: int = 10):
    """C of chunks that are given as (windows, values), in demonstrations of equal length."""
    chunks = torch.cat([source, target])
    labels = np.repeat([0.0, 1.0], [len(source), len(target)])
    sides = [np.arange(len(side)) * demos // len(side) for side in (source, target)]
    episodes = np.concatenate([sides[0], demos + sides[1]])
    return noise_confusion(chunks, labels, episodes, schedule(), QUICK, (0, 0))


def test_levels_at_which_domains_differ_are_found() -> None:
    draw = torch.Generator().manual_seed(0)

    def normal(count: int, mean: float) -> torch.Tensor:
        return 0.1 * torch.randn(count, 4, generator=draw) + mean

    # The same actions are not told apart at any level, however few target demonstrations there are.
    levels, same = confusion(normal(600, 0.3), normal(60, 0.3))
    assert np.abs(same - 0.5).max() < 0.06
    # A gap that is small against the noise ends earlier than a large one, and both end.
    _, small = confusion(normal(600, 0.3), normal(60, 0.1))
    _, large = confusion(normal(600, 0.3), normal(60, -0.7))
    assert small[0] < 0.2 and large[0] < 0.05 and large[-1] > 0.4
    t_small, t_large = (first_level(levels, c, 0.05) for c in (small, large))
    assert first_level(levels, same, 0.07) == 0 < t_small < t_large <= 1


def test_confusion_is_the_probability_of_the_wrong_side() -> None:
    """Against the best possible classifier of two Gaussians, p/(p + q), by numerical integration."""
    draw = torch.Generator().manual_seed(1)
    source, target = (torch.randn(4000, 1, generator=draw) * 0.2 + mean for mean in (0.25, -0.25))
    levels, measured = confusion(source, target, demos=20)
    signal, noise = (part.double().numpy() for part in schedule())
    x = np.linspace(-8, 8, 20_001)
    for level, value in zip(levels, measured, strict=True):
        row = round(level * 100)
        spread = np.hypot(0.2 * signal[row], noise[row])
        p, q = (np.exp(-0.5 * ((x - m * signal[row]) / spread) ** 2) / spread for m in (-0.25, 0.25))
        best = np.sum(q * p / np.maximum(p + q, 1e-300)) / np.sum(q)
        assert value == pytest.approx(best, abs=0.04)


def test_weights_are_those_of_drawing_the_level_first(
    source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    made = trainer(AmbientOptions(ratio=0.8), (source, other_source), target, tmp_path / "run", batch_size=16)
    method = made.method
    assert isinstance(method, Ambient)
    # 45 and 27 source windows, 14 of the target's: half of a mini-batch is the target's.
    method.load_state_dict({"t_min": np.array([0.5, 0.25])})
    index = torch.tensor([0, 45, 72])  # one of each domain
    levels = torch.tensor([[0] * 3, [4] * 3, [5] * 3, [9] * 3, [10] * 3, [19] * 3])
    weights = method.noise_weights(index, levels)
    assert weights is not None
    share = 0.8 * 27 / 72  # of the second source
    both, second, none = [1.6, 1.6, 0.4], [0, 1.6 / (0.2 + share), 0.4 / (0.2 + share)], [0, 0, 2.0]
    expected = torch.tensor([none, none, second, second, both, both], dtype=torch.float32)
    torch.testing.assert_close(weights, expected)
    # The mass of a mini-batch is the same at every level: domains have 5/16, 3/16 and 1/2 of it.
    mass = (weights * torch.tensor([5 / 16, 3 / 16, 1 / 2])).sum(dim=1)
    torch.testing.assert_close(mass, torch.ones(6))


def test_a_source_may_teach_local_motion_too(source: Path, target: Path, tmp_path: Path) -> None:
    method = trainer(AmbientOptions(t_min=0.6, t_max=0.2), source, target, tmp_path / "run").method
    method.between_epochs(0)
    levels = torch.arange(LEVELS).unsqueeze(1)
    weights = method.noise_weights(torch.tensor([0]), levels)
    assert weights is not None
    assert (weights[:, 0] > 0).nonzero().flatten().tolist() == [*range(4), *range(12, 20)]


def test_silent_levels_of_the_source_do_not_move_the_policy(
    source: Path, target: Path, tmp_path: Path
) -> None:
    """With a source that is silent at all levels, what is learned is what the target says."""
    made = trainer(AmbientOptions(t_min=1.0), source, target, tmp_path / "run")
    made.method.between_epochs(0)
    batch = made.windows.gather(made.method.batches(0)[0])
    made._loss(batch, 0)[2].backward()
    with_source = [p.grad.clone() for p in made.policy.parameters() if p.grad is not None]
    changed = batch.actions.clone()
    changed[batch.domain != 1] = 0.123
    made.policy.zero_grad()
    made._loss(type(batch)(batch.index, batch.domain, batch.images, batch.proprio, changed), 0)[2].backward()
    for before, after in zip(with_source, (p.grad for p in made.policy.parameters()), strict=True):
        assert after is not None
        torch.testing.assert_close(before, after)


def test_t_min_is_reported_for_every_source(
    source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    options = AmbientOptions(classifier_steps=20)
    train(tiny_config("ambient", (source, other_source), target, options=options), tmp_path / "run")
    (line,) = metrics(tmp_path / "run", "refresh")
    for name in ("sim", "other"):
        assert 0 <= line[f"t_min/{name}"] <= 1 and 0 < line[f"confusion/{name}/least_noise"] < 1


def test_a_single_demonstration_cannot_be_held_out(source: Path, tmp_path: Path) -> None:
    one = make_dataset(tmp_path / "one.hdf5", 1, seed=9)
    with pytest.raises(UserError, match=r"one is a single demonstration.*say --t-min"):
        trainer(AmbientOptions(), source, one, tmp_path / "run")
    trainer(AmbientOptions(t_min=0.3), source, one, tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 1.0}, "--ratio 1.0"),
        ({"t_min": 1.5}, "--t-min 1.5"),
        ({"t_max": -0.5}, "--t-max -0.5"),
        ({"epsilon": 0.5}, "--epsilon 0.5"),
        ({"target_share": 1.0}, "--target-share"),
        ({"folds": 1}, "--folds 1: must be at least 2"),
        ({"classifier_steps": 0}, "--classifier-steps 0"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        AmbientOptions(**options)
