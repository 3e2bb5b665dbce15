"""Noise levels by what the audit says: late actions teach at much noise, wrong ones not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import point_robot as robot
import pytest
import torch
from tiny_runs import TINY, tiny_config

from beacon.audit.evidence import Evidence, Repair
from beacon.audit.run import DemoVerdict
from beacon.methods import RECOMMENDED
from beacon.methods.beacon.noise.by_audit import coarse_repair
from beacon.plain import changed
from beacon.runs import RunFolder
from beacon.training import Trainer

LATE, MIRRORED = (0, 1), (2, 3)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """Of 24 source demonstrations two have late actions, two mirrored ones."""
    folder, rng = tmp_path_factory.mktemp("audited"), np.random.default_rng(0)
    demos = robot.demonstrations(24, seed=41)
    for chosen, corrupt in ((LATE, robot.delayed(4)), (MIRRORED, robot.mirrored(0))):
        for number in chosen:
            corrupt(demos[number], rng)
    source = robot.write(folder / "source.hdf5", demos)
    target = robot.write(folder / "target.hdf5", robot.demonstrations(8, seed=42))
    options = changed(RECOMMENDED, {"noise_levels": "by-audit"})
    config = tiny_config("beacon", source, target, options=options)
    return Trainer(replace(config, policy=replace(TINY, obs_steps=1)), RunFolder(folder / "run"))


def test_late_demonstrations_teach_at_much_noise_and_mirrored_ones_nowhere(trainer: Trainer) -> None:
    method, windows = trainer.method, trainer.windows
    report = method.between_epochs(0)
    assert report is not None and report.weights is not None
    q = np.array([report.weights[windows.episode == number].mean() for number in range(24)])
    sound = np.setdiff1d(np.arange(24), [*LATE, *MIRRORED])
    assert q[[*MIRRORED]].max() < 0.05 < 0.9 * np.median(q[sound]) < q[[*LATE]].min()
    first = torch.tensor([int(np.flatnonzero(windows.episode == number)[0]) for number in range(24)])
    steps = torch.arange(TINY.train_timesteps)[:, None].expand(-1, 24)
    g = method.noise_weights(first, steps)
    assert g is not None
    for number in LATE:
        assert float(g[0, number]) < 0.2 and float(g[-1, number]) > 1.5
        assert (g[1:, number] >= g[:-1, number]).all() and float(g[:, number].mean()) == pytest.approx(1)
    assert (g[:, 2:] == 1).all()


def test_the_overlap_is_that_of_two_noised_chunks(trainer: Trainer) -> None:
    """Against the best test of two Gaussians, by drawing from them."""
    noise, windows = trainer.method._noise, trainer.windows
    repair = Repair("lag", 2.0, 1.0, lag=4)
    distances = noise._distances(0, repair)
    index = np.flatnonzero(windows.episode == 0)
    seen = trainer.context.present_policy().actions(index).double().numpy()
    later = np.minimum(np.arange(len(index)) + 4, len(index) - 1)
    np.testing.assert_allclose(distances, np.sqrt(((seen[later] - seen) ** 2).sum(axis=(1, 2))), rtol=1e-4)
    overlap = noise._overlap(0, repair)
    policy, rng = trainer.policy, np.random.default_rng(0)
    drawn = []
    for level in range(TINY.train_timesteps):
        ratio = float(policy.signal[level] / policy.noise[level])
        # Along the line between both chunks; an error on either side counts half.
        along = rng.normal(size=(2000, 1)) > 0.5 * ratio * distances
        drawn.append(2 * along.mean())
    np.testing.assert_allclose(overlap, np.reshape(drawn, (4, -1)).mean(axis=1), atol=0.03)


def verdict(*evidence: tuple[str, str], accused: bool = True) -> DemoVerdict:
    items = tuple(
        Evidence(
            check,
            kind,
            0,
            5.0,
            0.001,
            "",
            repair=Repair(kind, 5.0, 1.0) if check == "inverse-dynamics" else None,  # type: ignore[arg-type]
        )
        for check, kind in evidence
    )
    return DemoVerdict("demo_0", 10, 3.0, 0.001, accused, items)


def test_only_what_leaves_the_plan_right_is_forgiven() -> None:
    late, elsewhere = ("inverse-dynamics", "lag"), ("look-alikes", "another goal")
    for evidence in ((late,), (late, elsewhere)):
        assert coarse_repair(verdict(*evidence), ("lag", "scale")) is not None
    for evidence in (
        (("inverse-dynamics", "sign"),),
        (elsewhere,),
        (late, ("goals", "another goal")),
        (("frames", "dropped frames"), late),
        (),
    ):
        assert coarse_repair(verdict(*evidence), ("lag", "scale")) is None
    assert coarse_repair(verdict(late, accused=False), ("lag",)) is None
    assert coarse_repair(verdict(late), ("scale",)) is None
