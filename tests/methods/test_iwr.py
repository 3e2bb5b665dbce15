"""Importance Weighted Retrieval: the ratio of two densities, and what is kept by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from demonstrations import make_dataset
from scipy.stats import gaussian_kde
from tiny_runs import assert_same_runs, metrics, tiny_config, train_with_stops

from beacon.errors import UserError
from beacon.methods import IwrOptions
from beacon.methods.iwr import Iwr, log_density
from beacon.methods.vae import VaeTraining
from beacon.runs import RunFolder
from beacon.training import Trainer, train


@pytest.mark.parametrize("bandwidth", [None, 0.3])
def test_densities_are_those_of_an_independent_program(bandwidth: float | None) -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)) + 2
    points = rng.normal(size=(1500, 3)) * 2
    expected = gaussian_kde(data.T, bw_method=bandwidth).logpdf(points.T)
    found = log_density(torch.from_numpy(points), torch.from_numpy(data), bandwidth)
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=1e-4)


def test_what_never_varies_does_not_break_it() -> None:
    data = torch.zeros(5, 3, dtype=torch.float64)
    assert np.isfinite(log_density(data + 1, data)).all()


QUICK = VaeTraining(hidden=64, learning_rate=1e-3, steps=300)


def method(options: IwrOptions, source, target: Path, folder: Path) -> Iwr:
    made = Trainer(tiny_config("iwr", source, target, options=options), RunFolder(folder)).method
    assert isinstance(made, Iwr)
    return made


def test_scores_are_the_logarithm_of_the_ratio(source: Path, target: Path, tmp_path: Path) -> None:
    made = method(IwrOptions(bandwidth=0.5, latents=2, vae=QUICK), source, target, tmp_path / "run")
    embeddings = made._embeddings(0).double().numpy()
    of_source, of_target = embeddings[made.context.source_windows], embeddings[made.context.target_windows]
    near, far = (gaussian_kde(z.T, bw_method=0.5).logpdf(of_source.T) for z in (of_target, of_source))
    np.testing.assert_allclose(made.score(0), near - far, rtol=1e-2, atol=1e-2)


def test_a_source_that_looks_like_the_target_is_kept(target: Path, tmp_path: Path) -> None:
    like = make_dataset(tmp_path / "like.hdf5", 4, steps=12, seed=7, background=(90, 60, 30))
    unlike = make_dataset(tmp_path / "unlike.hdf5", 4, steps=12, seed=8, background=(10, 200, 10))
    more = make_dataset(tmp_path / "target.hdf5", 6, steps=12, seed=9, background=(90, 60, 30))
    made = method(IwrOptions(latents=3, vae=QUICK), (like, unlike), more, tmp_path / "run")
    report = made.between_epochs(0)
    assert report is not None and report.weights is not None
    assert report.scalars["kept/like"] > 0.9 and report.scalars["kept/unlike"] < 0.1
    assert (report.weights[made.context.source_windows] > 0).sum() == 48  # half of the windows
    assert made.between_epochs(1) is None  # once


def test_the_denominator_counts() -> None:
    """Of two equally near groups of source samples, the rarer one weighs more."""
    rng = np.random.default_rng(1)
    target = torch.from_numpy(np.r_[rng.normal(-3, 0.5, 100), rng.normal(3, 0.5, 100)][:, None])
    source = torch.from_numpy(np.r_[rng.normal(-3, 0.5, 900), rng.normal(3, 0.5, 100)][:, None])
    ratio = log_density(source, target) - log_density(source, source)
    assert ratio[900:].mean() - ratio[:900].mean() == pytest.approx(np.log(9), abs=0.5)


@pytest.mark.parametrize("embeddings", ["vision", "obs"])
def test_embeddings_of_the_policy_are_refreshed_and_resumed(
    embeddings, source: Path, target: Path, tmp_path: Path
) -> None:
    options = IwrOptions(embeddings=embeddings, granularity="demo", keep_share=0.4)
    config = tiny_config("iwr", source, target, options=options)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 1, 3, 5)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")
    lines = metrics(tmp_path / "whole", "refresh")
    assert [line["epoch"] for line in lines] == [1, 2]
    assert all(line["kept/sim"] == pytest.approx(2 / 5) for line in lines)


def test_data_that_it_cannot_use(source: Path, target: Path, tmp_path: Path) -> None:
    options = IwrOptions(embeddings="vision")
    config = tiny_config("iwr", source, target, options=options, data={"cameras": ()})
    with pytest.raises(UserError, match=r"there are no cameras.*say --embeddings obs"):
        Trainer(config, RunFolder(tmp_path / "run"))
    one = make_dataset(tmp_path / "one.hdf5", 1, steps=1)
    with pytest.raises(UserError, match="a single target window has no density"):
        Trainer(tiny_config("iwr", source, one), RunFolder(tmp_path / "run"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_share": 1.5}, "--keep-share 1.5"),
        ({"bandwidth": 0.0}, "--bandwidth 0.0: must be above 0"),
        ({"latents": 0}, "--latents 0"),
        ({"refresh_every": 0}, "--refresh-every 0"),
    ],
)
def test_bad_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        IwrOptions(**options)
