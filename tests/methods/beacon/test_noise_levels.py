"""Weights that depend on the noise level: what is learned from which evidence, and that the budget holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tiny_runs import TINY, assert_same_runs, assert_same_tensors, metrics, tiny_config, train_with_stops

from beacon.errors import UserError
from beacon.methods import PAPER, RECOMMENDED
from beacon.methods.beacon.noise import ByDomain, NoiseLevels
from beacon.methods.beacon.noise.base import solve_levels
from beacon.methods.beacon.noise.by_domain import Comparison
from beacon.methods.beacon.noise.by_loss import LossLedger, robust_costs
from beacon.methods.beacon.noise.coverage import target_coverage
from beacon.methods.kept import KeptDemonstrations
from beacon.methods.noise_confusion import NoiseSchedule, noise_confusion
from beacon.plain import changed, from_plain, to_plain
from beacon.policy import PolicyConfig
from beacon.policy.noise import make_scheduler
from beacon.randomness import generator
from beacon.runs import RunFolder
from beacon.training import Trainer, train
from beacon.weighting.objective import Strengths
from beacon.weighting.problem import WeightProblem
from beacon.weighting.solvers.minimiser import minimise

QUICK: dict[str, dict[str, Any]] = {
    "by-domain": {"begin": 0.0, "every": 2, "classifier_steps": 3, "folds": 2, "controls": 1, "levels": 4},
    "by-loss": {"begin": 0.0, "least_visits": 0.1},
    "by-audit": {},
}
LEVELS = TINY.train_timesteps


def made(way: str, source: Any, target: Path, folder: Path, **options: Any) -> Trainer:
    chosen = changed(RECOMMENDED, {"noise_levels": {"part": way, **QUICK[way], **options}})
    return Trainer(tiny_config("beacon", source, target, options=chosen), RunFolder(folder))


def schedule() -> NoiseSchedule:
    alphas = make_scheduler(PolicyConfig()).alphas_cumprod
    return NoiseSchedule(alphas.sqrt(), (1 - alphas).sqrt())


# Off, and what is written down


def test_off_is_off(source: Path, target: Path, tmp_path: Path) -> None:
    """No option that is written, no state that is kept, no weight that is multiplied by."""
    for options in (RECOMMENDED, PAPER):
        said = changed(options, {"noise_levels": "all-alike"})
        assert said == options and "noise_levels" not in to_plain(said)
        assert tiny_config("beacon", source, target, options=said).digest() == (
            tiny_config("beacon", source, target, options=options).digest()
        )
    trainer = Trainer(tiny_config("beacon", source, target), RunFolder(tmp_path / "run"))
    index, steps = torch.arange(4), torch.zeros(2, 4, dtype=torch.int64)
    assert trainer.method.noise_weights(index, steps) is None and not trainer.method.wants_noise_losses
    assert not any(name.startswith("noise_levels") for name in trainer.method.state_dict())


def test_where_nothing_is_accused_the_run_is_the_same_to_the_bit(
    source: Path, target: Path, tmp_path: Path
) -> None:
    off = train(tiny_config("beacon", source, target), tmp_path / "off")
    options = changed(RECOMMENDED, {"noise_levels": "by-audit"})
    on = train(tiny_config("beacon", source, target, options=options), tmp_path / "on")
    for name in ("policy", "optimizer"):
        assert_same_tensors(off / f"{name}.safetensors", on / f"{name}.safetensors")
    assert metrics(tmp_path / "off", "train") == metrics(tmp_path / "on", "train")


@pytest.mark.parametrize("way", QUICK)
def test_it_trains_and_resumes_exactly(way: str, source: Path, target: Path, tmp_path: Path) -> None:
    options = changed(RECOMMENDED, {"noise_levels": {"part": way, **QUICK[way]}})
    assert from_plain(type(options), to_plain(options)) == options
    config = tiny_config("beacon", source, target, options=options, steps=8)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3, 5)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    line = metrics(tmp_path / "whole", "refresh")[-1]
    assert sum(line[f"noise/sim/bin_{place}"] for place in range(4)) == pytest.approx(4)
    state = load_file(tmp_path / "whole" / "checkpoints" / "00000008" / "method.safetensors")
    assert state["method/noise_levels/rows"].shape[1] == 4


def test_the_state_of_other_data_is_refused(source: Path, target: Path, tmp_path: Path) -> None:
    for way in QUICK:
        method = made(way, source, target, tmp_path / "run").method
        state = method.state_dict()
        state["noise_levels/share"] = state["noise_levels/share"][1:]
        with pytest.raises(UserError, match="the checkpoint belongs to other data"):
            method.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": "by-domain", "bins": 1}, "--noise-levels.bins 1: must be at least 2"),
        ({"part": "by-domain", "epsilon": -0.1}, "--noise-levels.epsilon -0.1"),
        ({"part": "by-domain", "folds": 1}, "--noise-levels.folds 1"),
        ({"part": "by-domain", "levels": 3}, "--noise-levels.levels 3: must be at least 4"),
        ({"part": "by-loss", "smoothness": 0.0}, "--noise-levels.smoothness 0.0: must be above 0"),
        ({"part": "by-loss", "begin": 1.5}, "--noise-levels.begin 1.5: must be from 0 to 1"),
        ({"part": "by-loss", "memory": 0.0}, "--noise-levels.memory 0.0"),
        ({"part": "by-audit", "kinds": ["late"]}, r"noise_levels.kinds\[0\]: one of 'lag'"),
        ("by-demo", "there is no way to weigh noise levels 'by-demo'"),
    ],
)
def test_bad_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as refusal:
        changed(RECOMMENDED, {"noise_levels": options})
    assert "\n" not in str(refusal.value)


def test_what_the_data_cannot_tell_is_refused(source: Path, target: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--noise-levels.bins 3: must divide the 20 noise levels"):
        made("by-loss", source, target, tmp_path / "run", bins=3)
    with pytest.raises(UserError, match="by-audit: needs --checks audit"):
        options = changed(PAPER, {"noise_levels": "by-audit"})
        Trainer(tiny_config("beacon-paper", source, target, options=options), RunFolder(tmp_path / "run"))
    with pytest.raises(UserError, match="by-domain: real has 2 demonstrations and needs 4"):
        made("by-domain", target, source, tmp_path / "run")


# The budget


@pytest.mark.parametrize("way", QUICK)
def test_every_sample_keeps_its_weight_over_all_levels(
    way: str, source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    sources = source if way == "by-domain" else (source, other_source)
    trainer = made(way, sources, target, tmp_path / "run")
    method, rng = trainer.method, np.random.default_rng(0)
    noise = method._noise
    noise.set(solve_levels(rng.random(noise.rows.shape), 0.2), rng.random(len(noise.share)))
    everyone = torch.arange(len(trainer.windows))
    steps = torch.arange(LEVELS)[:, None].expand(-1, len(everyone))
    g = method.noise_weights(everyone, steps)
    assert g is not None and g.shape == steps.shape and float(g.min()) >= 0
    torch.testing.assert_close(g.mean(dim=0), torch.ones(len(everyone)))
    assert (g[:, trainer.context.target_windows] == 1).all()
    assert float(g[:, trainer.context.source_windows].std(dim=0).min()) > 0
    # One number for all levels of a bin; those of a mini-batch are those of the windows in it.
    assert torch.equal(g[0], g[4]) and not torch.equal(g[4], g[5])
    some, at = torch.tensor([3, 0, 3]), torch.tensor([[0, 7, 19], [19, 0, 1]])
    assert torch.equal(method.noise_weights(some, at), g[at, some])
    kept = KeptDemonstrations(method, np.ones(len(everyone), np.bool_), 1.0)
    assert torch.equal(kept.noise_weights(some, at), g[at, some])
    assert kept.wants_noise_losses == (way == "by-loss")


def test_rows_are_the_joint_minimiser_of_samples_and_bins() -> None:
    """Weights of (sample, bin) under one budget: the mean costs give q, what is left gives its levels."""
    rng = np.random.default_rng(1)
    costs, strength, bins = 0.05 * rng.random((6, 4)), 0.1, 4
    budget = 3.0

    def solved(problem_costs: NDArray[np.float64], total: float, scale: float) -> NDArray[np.float64]:
        size = problem_costs.size
        strengths = Strengths(lambda_d=0.0, lambda_1=0.0, lambda_2=scale)
        zeros = np.zeros(size)
        problem = WeightProblem(problem_costs.ravel(), zeros, zeros, np.full(size, 9.0), total, strengths)
        return minimise(problem).q

    jointly = solved(costs, bins * budget, strength).reshape(costs.shape)
    q = solved(costs.mean(axis=1), budget, strength)
    np.testing.assert_allclose(jointly.mean(axis=1), q)
    for own, row, weight in zip(costs, jointly, q, strict=True):
        np.testing.assert_allclose(weight * solve_levels(own[None], strength * weight)[0], row)


def test_what_is_weighted_moves_the_policy_at_these_levels_alone(
    source: Path, target: Path, tmp_path: Path
) -> None:
    """The loss of a mini-batch is that of its draws times g."""
    trainer = made("by-audit", source, target, tmp_path / "run")
    noise, method = trainer.method._noise, trainer.method
    rows = np.tile([0.0, 0.0, 0.0, 4.0], (len(noise.rows), 1))
    noise.set(rows, np.ones(len(noise.share)))
    index = np.arange(8)  # of the source
    batch = trainer.windows.gather(index)
    losses, _, loss = trainer._loss(batch, 0)
    by_draw, steps, _ = trainer._sample_losses(trainer.policy, batch, generator(0, 0, 0))
    expected = (4.0 * (steps >= 15) * by_draw).mean()
    torch.testing.assert_close(loss, expected)
    assert not torch.isclose(loss, losses.mean())
    assert method.mean_weight == 1.0


# By domain


def world(action: Any, demos: int, first: int, seed: int, offset: float = 0.0) -> tuple[Any, ...]:
    """Windows of demonstrations that see a place x and act by it: embeddings, chunks, episodes."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(-1, 1, (demos * 40, 2))
    chunks = np.repeat(action(places), 4, axis=1) + 0.02 * rng.normal(size=(len(places), 8))
    seen = np.c_[places, np.full(len(places), offset)]  # a look of its own
    episodes = first + np.repeat(np.arange(demos), 40)
    return torch.from_numpy(seen).float(), torch.from_numpy(chunks).float(), episodes


def comparison(action: Any) -> tuple[Comparison, NDArray[np.int64], NDArray[np.int64]]:
    """A source whose expert goes by x, and a target whose expert goes by ``action``, and looks otherwise."""
    sides = [world(lambda x: 0.5 * x, 20, 0, 0), world(action, 5, 20, 1, offset=3.0)]
    embeddings, chunks, episodes = (
        torch.cat(part) if isinstance(part[0], torch.Tensor) else np.concatenate(part)
        for part in zip(*sides, strict=True)
    )
    options = ByDomain(classifier_steps=150, controls=1, folds=2, levels=12, epsilon=0.05)
    made = Comparison(lambda index: chunks[index], embeddings, episodes, schedule(), options)
    return made, np.arange(800, 1000), np.arange(800)


def test_actions_are_told_apart_given_what_is_seen() -> None:
    # The same expert, however different the look: nothing is told apart.
    same, target, source = comparison(lambda x: 0.5 * x)
    assert same.told_apart(target, source, (0,)).costs.max() < 0.1
    # A drift of the actions shows where there is little noise, and is hidden by more of it.
    other, target, source = comparison(lambda x: 0.5 * x + 0.25)
    told, measured, usual = other.told_apart(target, source, (0,))
    assert measured[0] < 0.3 and np.abs(usual - 0.5).max() < 0.1
    assert told[0] > 0.4 and told[0] > told[1] >= told[3] and told[3] < 0.1
    row = solve_levels(told[None], 0.25)[0]
    assert row[0] < 0.6 < 1.1 < row[3]


def test_a_mirrored_expert_has_the_same_actions_and_is_told_apart_all_the_same() -> None:
    """Ambient looks at actions alone, and sees nothing."""
    mirrored, target, source = comparison(lambda x: -0.5 * x)
    everyone = np.concatenate([source, target])
    labels = np.repeat([0.0, 1.0], [len(source), len(target)])
    options = mirrored.options
    _, alone = noise_confusion(
        mirrored.actions(everyone), labels, mirrored.episodes[everyone], schedule(), options, (0,)
    )
    assert np.abs(alone - 0.5).max() < 0.06
    assert mirrored.told_apart(target, source, (0,)).costs[0] > 0.4


# Coverage


def test_coverage_is_of_places_and_not_of_looks() -> None:
    """The target has the left half of the table, in another look."""
    rng = np.random.default_rng(0)
    places = rng.uniform(-1, 1, (2000, 2))
    left = rng.uniform(-1, 1, (400, 2)) * [0.5, 1] - [0.5, 0]
    source = torch.from_numpy(np.c_[places, np.zeros(2000)]).float()
    target = torch.from_numpy(np.c_[left, np.full(400, 2.0)]).float()
    episodes = np.arange(2000) // 50
    covered = target_coverage(source, episodes, target, 8, 10, 4, np.random.default_rng(0))
    assert covered[places[:, 0] < -0.15].mean() > 0.85
    right = covered[places[:, 0] > 0.3]
    assert right.mean() < 0.02 and right.max() < 0.3


def test_where_the_target_has_nothing_all_levels_are_alike(
    source: Path, target: Path, tmp_path: Path
) -> None:
    noise = made("by-domain", source, target, tmp_path / "run").method._noise
    share = np.ones(len(noise.share))
    share[:9] = 0.0
    noise.set(solve_levels(np.tile([1.0, 0.5, 0.0, 0.0], (2, 1)), 0.25), share)
    g = noise.weights(torch.arange(18), torch.zeros(1, 18, dtype=torch.int64))[0]
    assert (g[:9] == 1).all() and (g[9:] < 0.5).all()


# By loss


def ledger_of(factor: Any, steps: int = 400, demos: int = 6) -> LossLedger:
    """Losses that grow with the phase and the bin; the last demonstration is the target's."""
    rng = np.random.default_rng(0)
    ledger = LossLedger(demos, bins=4, knots=10, decay=1.0)
    for _ in range(steps):
        episodes, phase = rng.integers(0, demos, 12), rng.random(12)
        bins = np.tile(np.arange(4)[:, None], (1, 12))
        usual = (0.1 + phase) * (1 + bins)
        noise = np.exp(0.1 * rng.normal(size=bins.shape))
        ledger.add(episodes, phase, episodes == demos - 1, bins, usual * noise * factor(episodes, bins))
    return ledger


def test_losses_are_compared_with_the_targets_in_the_same_bin_and_phase() -> None:
    # What the phase and the level explain is no excess.
    excess, known = ledger_of(lambda episodes, bins: 1.0).excess(8)
    assert known.tolist() == [True] * 5 + [False]  # nobody compares the target with itself
    assert np.abs(excess[:5]).max() < 0.05
    # The first loses three times as much at little noise, the second four times as much everywhere.
    excess, _ = ledger_of(
        lambda episodes, bins: np.where(episodes == 0, 1 + 2 * (bins == 0), 1 + 3 * (episodes == 1))
    ).excess(8)
    np.testing.assert_allclose(excess[0], [np.log(3), 0, 0, 0], atol=0.05)
    np.testing.assert_allclose(excess[1], np.log(4), atol=0.05)
    rows = solve_levels(robust_costs(excess[:5], tolerance=1.0), 0.25)
    assert rows[0, 0] < 0.1 and rows[0, 1:].min() > 1.2  # it teaches where it fits
    np.testing.assert_allclose(rows[1:], 1, atol=0.15)  # no level of the second is better than another


def test_a_demonstration_that_was_hardly_seen_is_left_alone() -> None:
    ledger = ledger_of(lambda episodes, bins: 1 + 2 * (bins == 0), steps=2)
    _, known = ledger.excess(8)
    assert not known.any()
    empty = LossLedger(3, 4, 10, 0.9)
    empty.add(np.array([0]), np.array([0.5]), np.array([False]), np.array([[1]]), np.array([[2.0]]))
    assert not empty.sums["visits"].any()  # no target has been seen yet to compare with


def test_old_losses_are_forgotten() -> None:
    ledger = LossLedger(2, 1, 2, decay=0.5)
    for loss in (8.0, 2.0):
        ledger.add(
            np.array([0, 1]),
            np.array([0.5, 0.5]),
            np.array([False, True]),
            np.zeros((1, 2), np.int64),
            np.array([[loss, 1.0]]),
        )
    assert ledger.sums["own"][0, 0] == 0.5 * 8 + 2 and ledger.sums["visits"][0, 0] == 1.5


def test_gradient_steps_give_the_losses(source: Path, target: Path, tmp_path: Path) -> None:
    """Those of the draws, before any weight."""
    trainer = made("by-loss", source, target, tmp_path / "run")
    seen: list[Any] = []
    real = trainer.method._noise.observe

    def observe(index: Any, timesteps: torch.Tensor, losses: torch.Tensor) -> None:
        seen.append((index, timesteps, losses))
        real(index, timesteps, losses)

    trainer.method._noise.observe = observe
    index = trainer.method.batches(0)[0]
    trainer._step(trainer.windows.gather(index), index, 0)
    ((windows, steps, losses),) = seen
    assert np.array_equal(windows, index) and steps.shape == losses.shape == (TINY.draws, len(index))
    assert not losses.requires_grad and (steps[0] < 10).all() and (steps[1] >= 10).all()
    state = trainer.method.state_dict()  # reads what is waiting, and only once
    again = trainer.method.state_dict()
    assert state["noise_levels/target_mass"].any()
    assert np.array_equal(state["noise_levels/own"], again["noise_levels/own"])


def test_parts_are_of_their_registry() -> None:
    assert list(NoiseLevels.registry)[:4] == ["all-alike", "by-audit", "by-domain", "by-loss"]
