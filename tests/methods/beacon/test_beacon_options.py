"""BEACON as we recommend it, and as the paper has it: what each name means."""

from __future__ import annotations

from dataclasses import fields, replace
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
from beacon.errors import UserError
from beacon.methods import METHODS, PAPER, RECOMMENDED, Beacon, BeaconOptions
from beacon.plain import OMIT_DEFAULT, PART, Part, changed, differences, from_plain, to_plain
from beacon.runs import RunFolder
from beacon.training.stored_config import read_config
from beacon.weighting import Reweighter, WeightingConfig

DATA = ("--source", "a.hdf5", "--target", "b.hdf5", "--out", "run")
# The paper's values, what switches off all that is beyond it, and ours where it names none.
PAPER_VALUES: dict[str, Any] = {
    "weighting": {
        "lambda_d": None,  # 0.1, and 1 for the localized estimator
        "lambda_1": 0.01,
        "lambda_2": 0.01,
        "gamma": None,  # the run's weight decay, of which the paper's is 1e-6
        "q_max": 5.0,
        "target_factor": None,
        "q_target_min": 0.05,
        "alpha": 0.5,
        "p0": "target",
        "granularity": "window",
        "loss_scale": 1.0,
        "loss_ema": 0.0,
        "rho_1": 0.01,
        "rho_2": 0.01,
        "w_min": 0.0,
        "pool_sources": False,
        "solver": {
            "part": "steps",
            "eta_q": "auto",
            "projection": "clip",
            "eta_w": 0.05,
            "eta_t": None,
            "precondition": False,
            "w_gradient": "mean",
            "cap": "scaled",
        },
    },
    "discrepancy": {
        "part": "knn",
        "k": 5,
        "exclude_same_demo": False,
        "cap": 100.0,
        "chunk_bytes": 32 << 20,
    },
    "checks": [],
    "measurement": {"part": "sweep-all", "draws": 1},
    "loss_signal": {"part": "raw"},
    "features": "vision",
    "refresh_every": 1,
    "warmup_epochs": 0,
    "sampling": "uniform",
}


def test_beacon_is_what_we_recommend() -> None:
    assert METHODS["beacon"].Options is BeaconOptions and METHODS["beacon"].default_options() is RECOMMENDED
    assert BeaconOptions() == RECOMMENDED
    for arguments in (DATA, ("--method", "beacon", *DATA)):
        parsed = parse([*arguments])
        assert parsed.method == "beacon" and type(parsed.options) is BeaconOptions
        assert parsed.options == RECOMMENDED
    assert DemoPlan().train_config("beacon", Path("data")).options == RECOMMENDED
    # One option that is said leaves the others as recommended.
    said = parse(["--alpha", "0.123", *DATA]).options
    assert said == changed(RECOMMENDED, {"weighting": {"alpha": 0.123}})
    assert differences(to_plain(said), to_plain(RECOMMENDED)) == ["weighting.alpha: 0.123 and 0.5"]


def test_beacon_paper_is_the_papers() -> None:
    assert issubclass(METHODS["beacon-paper"], Beacon)
    assert METHODS["beacon-paper"].Options is BeaconOptions
    parsed = parse(["--method", "beacon-paper", *DATA])
    assert parsed.options == PAPER == METHODS["beacon-paper"].default_options() != RECOMMENDED
    assert to_plain(PAPER) == PAPER_VALUES  # all of them, and no other
    assert PAPER.weighting == WeightingConfig()
    assert Reweighter(domains=[0, 0, 1], target=1).config == WeightingConfig()
    localized = changed(PAPER, {"discrepancy": "localized"}).discrepancy
    assert [part.default_strength for part in (PAPER.discrepancy, localized)] == [0.1, 1.0]


def table_rows() -> dict[str, tuple[str, str]]:
    """What differs, as a table shows it: options, parts by name, and options that only one part has."""
    rows: dict[str, tuple[str, str]] = {}

    def add(ours: Any, papers: Any, prefix: str) -> None:
        for entry in fields(ours):
            a, b = getattr(ours, entry.name), getattr(papers, entry.name)
            option = f"--{prefix}{entry.name.replace('_', '-')}"
            if a == b:
                continue
            if isinstance(a, WeightingConfig):
                add(a, b, prefix)
            elif isinstance(a, tuple):
                rows[option] = (f"`{' '.join(part.part_name for part in a)}`", "none" if not b else "")
                assert all(part == type(part)() for part in a)
            elif isinstance(a, Part):
                rows[option] = (f"`{a.part_name}`", f"`{b.part_name}`")
                for field in fields(a):
                    if getattr(a, field.name) != getattr(type(a)(), field.name):
                        name = f"{option}.{field.name.replace('_', '-')}"
                        rows[name] = (f"`{getattr(a, field.name)}`", "–")
            else:
                shown = 0.1 if entry.name == "lambda_d" and b is None else b
                rows[option] = (f"`{a}`", f"`{shown}`")

    add(RECOMMENDED, PAPER, "")
    return rows


def test_the_guide_says_where_they_differ() -> None:
    text = (Path(__file__).parents[3] / "docs" / "methods.md").read_text()
    rows = table_rows()
    assert {"--granularity", "--solver", "--checks", "--discrepancy.outlier-tolerance"} <= rows.keys()
    for option, (ours, papers) in rows.items():
        assert f"| `{option}` | {ours} | {papers} |" in text, option
    table = text.split("| option | `beacon` | `beacon-paper` |")[1].split("\n\n")[0]
    assert table.count("| `--") == len(rows)


def test_help_has_the_defaults_and_the_meaning_of_both(capsys: pytest.CaptureFixture[str]) -> None:
    for method, options in (("beacon", RECOMMENDED), ("beacon-paper", PAPER)):
        assert main(["train", "--method", method, "--help-all"]) == 0
        said = " ".join(capsys.readouterr().out.replace("│", " ").split())
        for part, name, meaning in (
            (options, "sampling", "draws windows equally often"),
            (options, "features", "Embeddings the discrepancy looks at"),
            (options.weighting, "target_factor", "as the average source sample"),
            (options.weighting, "granularity", 'One weight per "window" (paper)'),
        ):
            _, _, about = said.partition(f" --{name.replace('_', '-')} ")
            about, _, rest = about.partition("(default: ")
            assert meaning in about
            assert rest.split(")")[0] == str(getattr(part, name))


def test_run_folders_keep_every_part_and_mean_what_they_meant(tmp_path: Path) -> None:
    """A run of today says all of its options, whatever later defaults are."""
    config = replace(DemoPlan().train_config("beacon", Path("data")), options=PAPER)
    RunFolder(tmp_path / "run").start(config.to_dict(), [])
    stored = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert stored["options"] == PAPER_VALUES
    again = read_config(tmp_path / "run")
    assert again == config and again.to_dict() == stored and again.digest() == config.digest()
    assert again.method == "beacon" and again.options == PAPER


def written(part: Part) -> set[str]:
    """Fields that are written also where they have their default."""
    return {field.name for field in fields(part) if field.metadata != OMIT_DEFAULT}


def test_parts_come_back_from_plain_values_as_they_were() -> None:
    for options in (RECOMMENDED, PAPER):
        plain = to_plain(options)
        assert from_plain(BeaconOptions, plain) == options
        assert changed(PAPER, plain) == changed(RECOMMENDED, plain) == options
        for name in ("discrepancy", "measurement", "loss_signal"):
            part = getattr(options, name)
            assert plain[name].keys() == {PART, *written(part)}
        for check, values in zip(options.checks, plain["checks"], strict=True):
            assert values.keys() == {PART, *written(check)}


def test_a_folder_of_flat_options_is_refused_in_one_line(tmp_path: Path) -> None:
    """Before 0.2 the options had no parts."""
    values = DemoPlan().train_config("beacon", Path("data")).to_dict()
    for options, named in (
        ({"weighting": {"update": "stochastic", "alpha": 0.5}}, "options.weighting.update"),
        ({"k": 5, "peer_check": "none"}, "options.k"),
    ):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump({**values, "options": options}))
        with pytest.raises(UserError, match=f"{named}: there is no such option; there are") as refusal:
            read_config(tmp_path)
        assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"discrepancy": "knnn"}, "discrepancy knnn: there is no discrepancy 'knnn'; did you mean knn?"),
        ({"discrepancy": {"part": "localized", "k": 5}}, "discrepancy.k: there is no such option; there are"),
        ({"discrepancy": {"tolerance": 1.0}}, "discrepancy.tolerance: there is no such option"),
        ({"discrepancy": {"k": "five"}}, "discrepancy.k: a whole number expected, not 'five'"),
        ({"discrepancy": {"part": "knn", "k": 0}}, "discrepancy: k: must be at least 1, got 0"),
        ({"checks": ["peers"]}, r"checks\[0\] peers: there is no check 'peers'"),
        ({"checks": "inverse-dynamics"}, "checks: a list expected"),
        (
            {"checks": ["neighbor-actions", {"part": "inverse-dynamics", "k": 3}]},
            r"checks\[1\].k: there is no such option; there are lags",
        ),
        ({"checks": [{"part": "neighbor-actions", "image_features": {"grid": 0}}]}, "grid: must be at least"),
        ({"measurement": "amortized"}, "measurement amortized: there is no measurement 'amortized'"),
        ({"loss_signal": "phase"}, "loss_signal phase: there is no loss signal 'phase'"),
        ({"weighting": {"solver": "convex"}}, "weighting.solver convex: there is no solver 'convex'"),
        (
            {"weighting": {"solver": {"part": "minimiser", "eta_q": 1.0}}},
            "weighting.solver.eta_q: there is no",
        ),
        ({"peer_check": "none"}, "peer_check: there is no such option; did you mean checks"),
        ({"refresh_every": 0}, "--refresh-every 0: must be at least 1"),
        ({"warmup_epochs": -1}, "--warmup-epochs -1: must be at least 0"),
    ],
)
def test_what_does_not_exist_is_said_in_one_line(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as refusal:
        changed(RECOMMENDED, overrides)
    assert len(str(refusal.value).splitlines()) == 1


def test_several_sources_train_with_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound, bad = (
        make_dataset(tmp_path / f"{name}.hdf5", 12, steps=30, seed=seed, mirrored=name == "bad")
        for seed, name in enumerate(("sound", "bad"))
    )
    target = make_dataset(tmp_path / "real.hdf5", 8, steps=30, seed=3, background=(90, 60, 30))
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
        assert line["discrepancy/audit_accused"] > 0.3
        assert line["domain_weight/sound"] + line["domain_weight/bad"] == pytest.approx(1)
    table = pq.read_table(next(out.glob("weights/windows-00000006.parquet")))
    d = table["discrepancy"].to_numpy()
    assert d[360:720].mean() > 1.2 * d[:360].mean() > 0 and not d[720:].any()  # mirrored, sound, target
