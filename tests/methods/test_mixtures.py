"""Methods that choose how often each domain is drawn: the mass-matched control, and Re-Mix."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_runs import Stopped, assert_same_runs, metrics, stop_at, tiny_config

from beacon.errors import UserError
from beacon.methods import CoTrainingOptions, RemixOptions
from beacon.methods.remix import Remix, exponentiated_step
from beacon.methods.sampling import mixture
from beacon.runs import RunFolder
from beacon.training import Trainer, train


def test_a_mixture_draws_groups_by_share_and_members_uniformly() -> None:
    groups = [np.array([3, 5]), np.array([7]), np.array([10, 11, 12])]
    drawn = mixture(groups, np.array([1.0, 0.0, 3.0]), 40_000, seed=0, epoch=2)
    counts = np.bincount(drawn, minlength=13) / len(drawn)
    np.testing.assert_allclose(
        counts[[3, 5, 7, 10, 11, 12]], [1 / 8, 1 / 8, 0, 1 / 4, 1 / 4, 1 / 4], atol=0.01
    )
    np.testing.assert_array_equal(drawn, mixture(groups, np.array([1.0, 0.0, 3.0]), 40_000, seed=0, epoch=2))


@pytest.fixture(scope="module")
def beacon_run(source: Path, other_source: Path, target: Path, tmp_path_factory) -> Path:
    """BEACON on two sources."""
    out = tmp_path_factory.mktemp("runs") / "beacon"
    train(tiny_config("beacon", (source, other_source), target), out)
    return out


def test_the_control_draws_each_domain_by_its_final_mass(
    beacon_run: Path, source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    final = metrics(beacon_run, "refresh")[-1]
    mass = np.array([final[f"mass/{name}"] for name in ("sim", "other", "real")])
    options = CoTrainingOptions(match_run=beacon_run)
    config = tiny_config("cotrain", (source, other_source), target, options=options)
    made = Trainer(config, RunFolder(tmp_path / "run"))
    drawn = np.concatenate([made.method.batches(epoch).ravel() for epoch in range(2000)])
    counts = np.bincount(made.windows.domain[drawn]) / len(drawn)
    np.testing.assert_allclose(counts, mass / mass.sum(), atol=0.01)


def test_the_control_remembers_the_shares_it_started_with(
    beacon_run: Path, source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    run = tmp_path / "beacon"
    shutil.copytree(beacon_run, run)
    options = CoTrainingOptions(match_run=run)
    config = tiny_config("cotrain", (source, other_source), target, options=options)
    train(config, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(config, tmp_path / "parts", listener=stop_at(3))
    first, *_, last = sorted((run / "weights").glob("windows-*"))
    last.unlink()  # the other run changes meanwhile
    assert first.exists()
    train(config, tmp_path / "parts", resume=True)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")


def test_runs_that_cannot_be_matched_are_refused(
    beacon_run: Path, source: Path, target: Path, tmp_path: Path
) -> None:
    def attempt(run: Path) -> None:
        options = CoTrainingOptions(match_run=run)
        train(tiny_config("cotrain", source, target, options=options), tmp_path / "run")

    with pytest.raises(UserError, match="not a run that has weights"):
        attempt(tmp_path / "nowhere")
    with pytest.raises(UserError, match="its domains are other, real, sim, not sim, real"):
        attempt(beacon_run)
    (tmp_path / "damaged" / "weights").mkdir(parents=True)
    (tmp_path / "damaged" / "weights" / "windows-00000002.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"windows-00000002.parquet: damaged"):
        attempt(tmp_path / "damaged")
    with pytest.raises(UserError, match="--ratio and --match-run"):
        CoTrainingOptions(ratio=0.5, match_run=beacon_run)
    assert not (tmp_path / "run").exists()


def test_exponentiated_steps_stay_on_the_simplex_and_favour_excess() -> None:
    alpha = np.array([0.7, 0.2, 0.1])
    moved = exponentiated_step(alpha, np.array([0.0, 0.0, 2.0]), eta=1.0, smoothing=1e-3)
    assert moved.sum() == pytest.approx(1) and moved[2] > 0.4
    assert moved[0] / moved[1] == pytest.approx(3.5, rel=0.01)
    np.testing.assert_allclose(exponentiated_step(alpha, np.zeros(3), 1.0, 0.0), alpha)
    vanished = exponentiated_step(np.array([1.0, 0.0]), np.array([1e5, 0.0]), 1.0, 0.1)
    np.testing.assert_allclose(vanished, [0.95, 0.05])  # neither overflow nor a domain that is lost


def test_remix_moves_to_the_excess_it_measures(
    source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    options = RemixOptions(eta=3.0, reference_share=1.0)
    config = tiny_config(
        "remix", (source, other_source), target, options=options, steps=12, steps_per_epoch=2
    )
    made = Trainer(config, RunFolder(tmp_path / "run"))
    made.folder.path.mkdir()
    made.run()
    lines = metrics(tmp_path / "run", "refresh")
    names = ("sim", "other", "real")
    mixtures = np.array([[line[f"mixture/{name}"] for name in names] for line in lines])
    excess = np.array([[line[f"excess/{name}"] for name in names] for line in lines])
    np.testing.assert_allclose(mixtures[0], np.array([45, 27, 14]) / 86)  # as large as they are
    for before, after, measured in zip(mixtures[:-1], mixtures[1:], excess[1:], strict=True):
        np.testing.assert_allclose(after, exponentiated_step(before, measured, 3.0, 1e-3))
    assert (excess[1:] >= 0).all() and excess[1:].max() > 0
    # What the next training from scratch takes up is the mean over the updates.
    assert isinstance(made.method, Remix)
    np.testing.assert_allclose(made.method.mean, mixtures[1:].mean(0))
    again = tiny_config(
        "cotrain",
        (source, other_source),
        target,
        options=CoTrainingOptions(match_run=tmp_path / "run"),
    )
    shares = Trainer(again, RunFolder(tmp_path / "second")).method.state_dict()["shares"]
    np.testing.assert_allclose(shares, made.method.mean)


def test_the_excess_is_what_the_policy_has_above_the_reference(
    source: Path, other_source: Path, target: Path, tmp_path: Path
) -> None:
    """An untrained policy against one of 40 steps, on all windows: there are fewer than are probed."""
    options = RemixOptions(reference_share=1.0)
    config = tiny_config("remix", (source, other_source), target, options=options, steps=40)
    made = Trainer(config, RunFolder(tmp_path / "run"))
    report = made.method.between_epochs(1)
    assert report is not None
    context = made.context
    (file,) = (tmp_path / "run" / "references").iterdir()
    reference = context.fit_reference(file.stem, np.arange(len(context.windows)), 40)
    for number, name in enumerate(("sim", "other", "real")):
        members = np.flatnonzero(context.windows.domain == number)
        above = context.measure(members, 1, 1).losses - reference.measure(members, 1, 1).losses
        assert report.scalars[f"excess/{name}"] == pytest.approx(float(above.clamp_min(0).mean()), rel=1e-5)
        assert report.scalars[f"excess/{name}"] > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": -1.0}, "--eta"),
        ({"smoothing": 2.0}, "--smoothing"),
        ({"probe": 0}, "--probe"),
        ({"reference_share": 0.0}, "--reference-share"),
    ],
)
def test_bad_remix_options_are_refused(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        RemixOptions(**options)
