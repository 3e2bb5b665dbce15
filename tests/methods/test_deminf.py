"""DemInf: mutual information of states and actions, and the demonstrations that have most of it."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from demonstrations import make_dataset
from scipy.special import digamma
from tiny_runs import metrics, tiny_config

from beacon.errors import UserError
from beacon.methods import DemInfOptions
from beacon.methods.deminf import ksg_scores
from beacon.methods.vae import VaeTraining, standardised, vae_latents
from beacon.runs import RunFolder
from beacon.training import Trainer, train


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_mean_score_is_the_mutual_information(correlation: float) -> None:
    """Of two Gaussians: −½ log(1 − ρ²)."""
    rng = np.random.default_rng(0)
    size, k = 1500, 5
    x = rng.normal(size=(size, 1))
    y = correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=(size, 1))
    scores = ksg_scores(torch.from_numpy(x), torch.from_numpy(y), [k])
    estimate = digamma(k) + digamma(size) + scores.mean()
    assert estimate == pytest.approx(-0.5 * np.log(1 - correlation**2), abs=0.06)


def test_a_score_counts_neighbours_in_each_space() -> None:
    """By hand: four samples on a line, one neighbour."""
    states = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
    actions = torch.tensor([[0.0], [2.0], [0.1], [7.0]])
    # Distances in both: of the first sample 2, 3, 7, so the radius is 2; closer than it are itself and the
    # second in s, itself and the third in a.
    assert ksg_scores(states, actions, [1])[0] == pytest.approx(-2 * digamma(2))
    # Of the last: 6.9 to the third, 5 to the second, 7 to the first; in s all are closer than 5, in a itself.
    assert ksg_scores(states, actions, [1])[3] == pytest.approx(-digamma(4) - digamma(1))
    duplicates = torch.zeros(5, 2)
    assert np.isfinite(ksg_scores(duplicates, duplicates, [1, 2])).all()


def test_latents_keep_what_varies() -> None:
    """Ten columns that are linear in two numbers: two latents say them again."""
    draw = torch.Generator().manual_seed(0)
    truth = torch.randn(512, 2, generator=draw)
    inputs = standardised(truth @ torch.randn(2, 10, generator=draw))
    training = VaeTraining(hidden=64, learning_rate=2e-3, steps=500, batch_size=64)
    latents = vae_latents(inputs, 2, 1e-3, training, 0)
    assert torch.equal(latents, vae_latents(inputs, 2, 1e-3, training, 0))
    design = torch.cat([latents, torch.ones(len(latents), 1)], dim=1)
    solution = torch.linalg.lstsq(design, truth).solution
    assert (design @ solution - truth).square().mean() < 0.1


def corrupted(path: Path, demos: int, bad: int) -> Path:
    """Demonstrations of which the last ``bad`` have actions of pure noise."""
    make_dataset(path, demos, steps=20, seed=4)
    rng = np.random.default_rng(5)
    with h5py.File(path, "r+") as file:
        for number in range(demos - bad, demos):
            actions = file[f"data/demo_{number}/actions"]
            actions[...] = rng.uniform(-1, 1, actions.shape)
    return path


def test_demonstrations_of_noise_are_left_out(target: Path, tmp_path: Path) -> None:
    source = corrupted(tmp_path / "sim.hdf5", 40, 12)
    training = VaeTraining(hidden=64, learning_rate=1e-3, steps=200)
    options = DemInfOptions(keep_share=0.7, vae=training)
    made = Trainer(tiny_config("deminf", source, target, options=options), RunFolder(tmp_path / "run"))
    report = made.method.between_epochs(0)
    assert report is not None and report.weights is not None
    kept = np.unique(made.windows.episode[report.weights > 0])
    assert len(kept) == 28 + 2  # and the target's
    assert np.isin(kept, np.arange(28, 40)).sum() <= 1
    # What is drawn is what is kept, at the ratio.
    drawn = np.concatenate([made.method.batches(epoch).ravel() for epoch in range(500)])
    assert set(made.windows.episode[drawn]) <= set(kept)
    assert np.isin(drawn, made.context.source_windows).mean() == pytest.approx(0.9, abs=0.02)
    assert report.weights.mean() == pytest.approx(1)
    assert report.weights[made.context.source_windows].sum() == pytest.approx(0.9 * len(made.windows))


def test_it_works_without_cameras_and_says_what_is_kept(source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("deminf", source, target, data={"cameras": ()})
    train(config, tmp_path / "run")
    (line,) = metrics(tmp_path / "run", "refresh")
    assert line["kept/sim"] == pytest.approx(2 / 5)  # half of five demonstrations, rounded to even


def test_too_few_windows_are_refused(target: Path, tmp_path: Path) -> None:
    short = make_dataset(tmp_path / "short.hdf5", 1, steps=6)
    with pytest.raises(UserError, match=r"each source window with 7 others, and there are 6 source windows"):
        Trainer(tiny_config("deminf", short, target), RunFolder(tmp_path / "run"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_share": 0.0}, "--keep-share 0.0: must be above 0"),
        ({"ratio": 1.5}, "--ratio 1.5"),
        ({"neighbors": (7, 5)}, "--neighbors 7 5"),
        ({"batch": 5}, "--batch 5: must be at least 8"),
        ({"clip": 50.0}, "--clip 50.0"),
        ({"state_latents": 0}, "--state-latents 0"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        DemInfOptions(**options)
    with pytest.raises(UserError, match=r"--vae.learning-rate 0: must be above 0"):
        VaeTraining(learning_rate=0)
