"""BEACON as we recommend it, and as the paper has it: what each name means."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from demonstrations import make_dataset
from tiny_runs import TINY_OPTIONS, metrics

from beacon.cli.main import main
from beacon.cli.train import parse
from beacon.demo import DemoPlan
from beacon.methods import METHODS, Beacon, BeaconOptions, PaperBeaconOptions
from beacon.methods.beacon_options import RECOMMENDED
from beacon.report.reproduce import train_command
from beacon.training import TrainConfig
from beacon.training.stored_config import read_config
from beacon.weighting import Reweighter, WeightingConfig

DATA = ("--source", "a.hdf5", "--target", "b.hdf5", "--out", "run")
# The paper's values, what switches off all that is beyond it, and ours where it names none.
PAPER_WEIGHTING: dict[str, Any] = {
    "update": "stochastic",
    "discrepancy": "knn",
    "lambda_d": None,  # 0.1, and 1 for the localized estimator
    "lambda_1": 0.01,
    "lambda_2": 0.01,
    "gamma": 1e-6,
    "q_max": 5.0,
    "target_factor": None,
    "q_target_min": 0.05,
    "alpha": 0.5,
    "p0": "target",
    "eta_q": "auto",
    "projection": "clip",
    "granularity": "window",
    "loss_ema": 0.0,
    "normalize_cost": False,
    "rho_1": 0.01,
    "rho_2": 0.01,
    "eta_w": 0.05,
    "eta_t": None,
    "w_min": 0.0,
    "precondition": False,
    "pool_sources": False,
}
PAPER_OPTIONS: dict[str, Any] = {
    "k": 5,
    "exclude_same_demo": False,
    "features": "vision",
    "refresh_every": 1,
    "refresh": "exact",
    "max_age": 4,
    "warmup_epochs": 0,
    "refresh_draws": 1,
    "sampling": "uniform",
    "loss_signal": "raw",
    "phase_knots": 10,
    "action_check": "none",
    "gap_tolerance": 0.0,
    "peer_check": "none",
    "foresight": 0.0,
    "reference_share": 0.25,
}


def flat(options: BeaconOptions) -> dict[str, Any]:
    """Options of both levels by name; the localized discrepancy's are the same for both methods."""
    plain = asdict(options)
    plain.pop("localized")
    return {**plain.pop("weighting"), **plain}


def test_beacon_is_what_we_recommend() -> None:
    assert METHODS["beacon"].Options is BeaconOptions and BeaconOptions().weighting == RECOMMENDED
    for arguments in (DATA, ("--method", "beacon", *DATA)):
        parsed = parse([*arguments])
        assert parsed.method == "beacon" and type(parsed.options) is BeaconOptions
        assert parsed.options == BeaconOptions()
    assert DemoPlan().train_config("beacon", Path("data")).options == BeaconOptions()
    # One option that is said leaves the others as recommended.
    changed = {**flat(BeaconOptions()), "alpha": 0.123}
    assert flat(parse(["--alpha", "0.123", *DATA]).options) == changed


def test_beacon_paper_is_the_papers() -> None:
    assert issubclass(METHODS["beacon-paper"], Beacon)
    parsed = parse(["--method", "beacon-paper", *DATA])
    assert type(parsed.options) is PaperBeaconOptions and parsed.options == PaperBeaconOptions()
    assert flat(parsed.options).items() >= {**PAPER_WEIGHTING, **PAPER_OPTIONS}.items()
    assert parsed.options.weighting == WeightingConfig()
    assert Reweighter(domains=[0, 0, 1], target=1).config == WeightingConfig()
    assert [WeightingConfig(discrepancy=d).discrepancy_strength() for d in ("knn", "localized")] == [0.1, 1.0]


def test_the_guide_says_where_they_differ() -> None:
    text = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    ours, papers = flat(BeaconOptions()), flat(PaperBeaconOptions())
    differing = [name for name in ours if ours[name] != papers[name]]
    assert differing
    for name in differing:
        shown = 0.1 if name == "lambda_d" and papers[name] is None else papers[name]
        assert f"| `--{name.replace('_', '-')}` | `{ours[name]}` | `{shown}` |" in text, name
    table = text.split("| option | `beacon` | `beacon-paper` |")[1].split("\n\n")[0]
    assert table.count("| `--") == len(differing)


def test_help_has_the_defaults_and_the_meaning_of_both(capsys: pytest.CaptureFixture[str]) -> None:
    for method, kind in (("beacon", BeaconOptions), ("beacon-paper", PaperBeaconOptions)):
        assert main(["train", "--method", method, "--help-all"]) == 0
        said = " ".join(capsys.readouterr().out.replace("│", " ").split())
        for name, meaning in (
            ("refresh", "sweeps all windows"),
            ("sampling", "draws windows equally often"),
            ("action_check", "how badly a window's actions explain"),
            ("granularity", 'One weight per "window" (paper)'),
        ):
            _, _, about = said.partition(f"--{name.replace('_', '-')} {{")
            about, _, rest = about.partition("(default: ")
            assert meaning in about
            assert rest.split(")")[0] == str(flat(kind())[name])


def old_configuration() -> dict[str, Any]:
    """config.yaml of a run from when `beacon` had the paper's defaults, all written out."""
    config = TrainConfig.from_dict(
        {
            "method": "beacon",
            "options": {"weighting": PAPER_WEIGHTING, **PAPER_OPTIONS},
            **{
                name: value
                for name, value in DemoPlan().train_config("beacon", Path("data")).to_dict().items()
                if name not in ("method", "options")
            },
        }
    )
    return config.to_dict()


def test_run_folders_from_before_mean_what_they_meant(tmp_path: Path) -> None:
    old = old_configuration()
    assert old["options"]["weighting"].items() >= PAPER_WEIGHTING.items()
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(old))
    config = read_config(tmp_path)
    assert config.to_dict() == old  # the same digest: it can be resumed
    assert config.method == "beacon" and flat(config.options) == flat(PaperBeaconOptions())
    # Before there was "auto".
    old["options"]["action_check"] = "motion"
    assert TrainConfig.from_dict(old).options.action_check == "motion"
    # The command that a report shows says all that is no longer the default.
    words = train_command(config, tmp_path / "again").split()
    assert "--method" not in words and words[words.index("--lambda-d") + 1] == "None"
    assert parse(words[2:]).options == config.options


def test_several_sources_train_with_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound, bad = (
        make_dataset(tmp_path / f"{name}.hdf5", 4, steps=20, seed=seed, mirrored=name == "bad")
        for seed, name in enumerate(("sound", "bad"))
    )
    target = make_dataset(tmp_path / "real.hdf5", 4, steps=20, seed=3, background=(90, 60, 30))
    sources = ["--source", str(sound), "--source", str(bad)]
    short = ["--steps", "6", "--steps-per-epoch", "2", "--batch-size", "8", "--device", "cpu"]
    out = tmp_path / "run"
    asked = ["train", *sources, "--target", str(target), "--out", str(out), *short, *TINY_OPTIONS]
    assert main([*asked, "--no-tensorboard"]) == 0
    assert capsys.readouterr().err == ""
    lines = metrics(out, "refresh")
    assert [line["epoch"] for line in lines] == [0, 1, 2]
    assert lines[0]["domain_weight/sound"] > lines[0]["domain_weight/bad"]  # before any training
    for line in lines[1:]:
        assert line["discrepancy/action_misfit"] > 1.1
        assert line["domain_weight/sound"] + line["domain_weight/bad"] == pytest.approx(1)
    table = pq.read_table(next(out.glob("weights/windows-00000006.parquet")))
    d = table["discrepancy"].to_numpy()
    assert d[80:160].mean() > 1.2 * d[:80].mean() > 0 and not d[160:].any()  # mirrored, sound, target
