"""MMD and UOT as methods: what their mini-batches hold, and what they clone and align."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import metrics, tiny_config

from beacon.errors import UserError
from beacon.methods import MmdOptions, UotOptions
from beacon.methods.losses import energy_distance
from beacon.runs import RunFolder
from beacon.training import Trainer, train


def trainer(method: str, source, target, tmp_path: Path, options=None, **more) -> Trainer:
    config = tiny_config(method, source, target, options=options, batch_size=16, **more)
    return Trainer(config, RunFolder(tmp_path / "run"))


@pytest.mark.parametrize(("share", "targets"), [(0.25, 4), (0.5, 8), (0.01, 2), (0.99, 14)])
def test_mmd_always_has_both_sides_and_clones_them_at_the_ratio(
    share: float, targets: int, source: Path, target: Path, tmp_path: Path
) -> None:
    made = trainer("mmd", source, target, tmp_path, MmdOptions(ratio=0.8, target_share=share))
    for batch in made.method.batches(0):
        on_target = np.isin(batch, made.context.target_windows)
        assert on_target.sum() == targets
        weights = made.method.weights(torch.from_numpy(batch)).numpy()
        assert weights[~on_target].sum() / 16 == pytest.approx(0.8, rel=1e-6)
        assert weights[on_target].sum() / 16 == pytest.approx(0.2, rel=1e-6)


@pytest.mark.parametrize(("kernel", "unbiased"), [("energy", False), ("energy-unbiased", True)])
def test_mmd_has_the_distance_that_was_asked_for(
    kernel, unbiased: bool, source: Path, target: Path, tmp_path: Path
) -> None:
    made = trainer("mmd", source, target, tmp_path, MmdOptions(kernel=kernel, strength=2.0))
    batch = made.windows.gather(made.method.batches(0)[0])
    _, encoding, _ = made._loss(batch, 0)
    on_target, vision = batch.domain == 1, encoding.vision.detach()
    expected = 2 * energy_distance(vision[~on_target], vision[on_target], unbiased=unbiased)
    found = made.method.extra_loss(batch, encoding, None)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


def test_uot_batches_are_targets_partners_and_source_to_clone(
    source: Path, target: Path, tmp_path: Path
) -> None:
    made = trainer("uot", source, target, tmp_path, UotOptions(ratio=0.8, jitter=0, cache=tmp_path / "dtw"))
    windows = made.windows
    batches = made.method.batches(0)
    assert (windows.domain[batches[:, :4]] == 1).all() and (windows.domain[batches[:, 4:]] == 0).all()
    weights = made.method.weights(torch.from_numpy(batches[0])).numpy()
    assert (weights[4:8] == 0).all()  # partners serve the alignment alone
    assert weights[:4].sum() / 16 == pytest.approx(0.2) and weights[8:].sum() / 16 == pytest.approx(0.8)
    assert len(list((tmp_path / "dtw").iterdir())) == 1


def test_uot_compares_partners_by_features_and_labels(source: Path, target: Path, tmp_path: Path) -> None:
    options = UotOptions(strength=2.0, reference="diag", cache=tmp_path / "dtw")
    made = trainer("uot", source, target, tmp_path, options)
    batch = made.windows.gather(made.method.batches(0)[0])
    _, encoding, _ = made._loss(batch, 0)
    found = made.method.extra_loss(batch, encoding, None)
    label = batch.proprio["robot0_eef_pos"][:, -1]
    difference = encoding.vision[4:8] - encoding.vision[:4]
    costs = 0.01 * difference.square().sum(1) + 0.05 * (label[4:8] - label[:4]).square().sum(1)
    plan = torch.exp(-costs / (0.1 + 2 * 0.05)) / 4  # what the diagonal reference comes to
    assert found.item() == pytest.approx(2 * float((plan * costs).sum().detach()), rel=1e-5)
    made.policy.zero_grad()
    found.backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in made.policy.encoder.parameters())
    assert all(p.grad is None for p in made.policy.denoiser.parameters())


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("mmd", MmdOptions(strength=20.0)),
        ("mmd", MmdOptions(kernel="energy-unbiased", strength=20.0)),
        ("mmd", MmdOptions(kernel="rbf", strength=20.0, features="obs")),
        ("uot", UotOptions(strength=50.0, feature_cost=0.1, reference="outer", pairs="unpaired")),
    ],
)
def test_features_move_together(method: str, options, source: Path, target: Path, tmp_path: Path) -> None:
    """With the feature loss the domains end up closer than without, all else being equal."""

    def distance_after_training(strength: float, folder: Path) -> float:
        chosen = replace(options, strength=strength)
        size = {"steps": 40, "steps_per_epoch": 40, "learning_rate": 5e-3}
        made = trainer(method, source, target, folder, chosen, **size)
        made.folder.path.mkdir(parents=True)
        made.run()
        vision = made.context.measure(np.arange(len(made.windows)), 1, 0).vision
        on_target = torch.from_numpy(made.windows.domain == 1)
        return float(energy_distance(vision[~on_target], vision[on_target]))

    without = distance_after_training(0.0, tmp_path / "without")
    assert distance_after_training(options.strength, tmp_path / "with") < 0.7 * without


@pytest.mark.parametrize("method", ["mmd", "uot"])
def test_several_sources_count_as_one(
    method: str, source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    train(tiny_config(method, (source, other_source), target), tmp_path / "run")
    (last, *_) = reversed(metrics(tmp_path / "run", "train"))
    assert np.isfinite(last["loss"])
    made = trainer(method, (source, other_source), target, tmp_path / "again")
    seen = set(made.windows.domain[np.concatenate([made.method.batches(e) for e in range(4)]).ravel()])
    assert seen == {0, 1, 2}


def test_a_label_that_does_not_exist_is_refused_before_training(
    source: Path, target: Path, tmp_path: Path
) -> None:
    config = tiny_config("uot", source, target, options=UotOptions(label="robot0_joint_pos"))
    with pytest.raises(UserError, match=r"--label robot0_joint_pos: .* there is robot0_eef_pos"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["mmd", "uot"])
def test_without_cameras_or_room_there_is_nothing_to_align(
    method: str, source: Path, target: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="no cameras"):
        train(tiny_config(method, source, target, data={"cameras": ()}), tmp_path / "run")
    with pytest.raises(UserError, match="--batch-size 3: too small for a feature loss"):
        train(tiny_config(method, source, target, batch_size=3), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (MmdOptions, {"ratio": 1.2}, "--ratio 1.2: must be a number from 0 to 1"),
        (UotOptions, {"ratio": -0.1}, "--ratio -0.1: must be a number from 0 to 1"),
        (MmdOptions, {"strength": -1.0}, "--strength -1.0: must be at least 0"),
        (MmdOptions, {"target_share": 0.0}, "--target-share 0.0: must be above 0"),
        (UotOptions, {"target_share": 1.0}, "--target-share 1.0: must be above 0 and below 1"),
        (UotOptions, {"reg": 0.0}, "--reg 0.0: must be above 0"),
        (UotOptions, {"tau": float("nan")}, "--tau nan: must be above 0"),
        (UotOptions, {"jitter": -1}, "--jitter -1: must be at least 0"),
    ],
)
def test_bad_options_are_refused(kind, options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        kind(**options)
