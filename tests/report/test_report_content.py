"""The numbers behind the figures, and what the page says where a run lacks something."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from report_runs import POLICY, build, config, make_demonstrations, train_run

from beacon.analysis import holm
from beacon.cli.report import main
from beacon.cli.train import parse
from beacon.data import Windows
from beacon.data.decisions import DatasetDecisions
from beacon.errors import RunError, UserError
from beacon.methods import EpochReport
from beacon.report import Report, write_report
from beacon.report.figure_spec import Bars, Figure, Line, Points
from beacon.report.markup import script_data, tag
from beacon.report.reproduce import train_command
from beacon.runs import RunFolder, WeightHistory
from beacon.training import train
from beacon.training.stored_config import read_config


def figures_of(report: Report) -> dict[str, Figure]:
    return {figure.key: figure for figure in report.figures}


# Figures against the files of the run


def test_curves_are_the_logged_numbers(page: tuple[Path, Report], trained: Path) -> None:
    figures = figures_of(page[1])
    entries = [json.loads(line) for line in (trained / "cotrain" / "metrics.jsonl").read_text().splitlines()]
    steps = [entry["step"] for entry in entries if entry["kind"] == "train" and "loss/real" in entry]
    losses = [entry["loss/real"] for entry in entries if entry["kind"] == "train" and "loss/real" in entry]
    panels = {panel.title: panel for panel in figures["learning"].panels}
    assert set(panels) == {
        "Target windows",
        "Source windows",
        "Held-out target windows",
        "What each method minimises",
    }
    mark = next(mark for mark in panels["Target windows"].marks if mark.name == "cotrain")
    assert isinstance(mark, Line)
    assert mark.x == steps
    np.testing.assert_allclose(mark.y, losses, rtol=1e-4)  # type: ignore[arg-type]
    assert {mark.name for mark in panels["Source windows"].marks} == {"cotrain", "beacon"}

    refreshes = [
        json.loads(line)
        for line in (trained / "beacon" / "metrics.jsonl").read_text().splitlines()
        if '"refresh"' in line
    ]
    for title, key in (("objective", "total"), ("concentration, λ₂ ‖q‖²", "l2")):
        panel = next(panel for panel in figures["objective"].panels if panel.title == title)
        assert isinstance(panel.marks[0], Line)
        np.testing.assert_allclose(
            panel.marks[0].y,  # type: ignore[arg-type]
            [entry[f"objective/{key}"] for entry in refreshes],
            rtol=1e-4,
        )


def test_weights_are_those_of_the_tables(page: tuple[Path, Report], trained: Path) -> None:
    figures = figures_of(page[1])
    windows = pq.read_table(trained / "beacon" / "weights" / "windows-00000016.parquet").to_pydict()
    weight, domain = np.array(windows["weight"]), np.array(windows["domain"])
    for mark in figures["weight-distribution"].panels[0].marks:
        assert isinstance(mark, Bars)
        name = "real" if "target" in mark.name else "sim"
        mine = weight[domain == name]
        assert f"{mine.mean():.3g} ±" in mark.name
        counts = np.array(mark.heights, float) * len(mine)
        np.testing.assert_allclose(counts.sum(), len(mine), rtol=1e-3)
        edges = np.array(mark.edges, float)
        edges[[0, -1]] += -1e-3, 1e-3  # rounded, and whole demonstrations weigh as much as the heaviest
        np.testing.assert_allclose(counts, np.histogram(mine, edges)[0], atol=0.6)

    history = pq.read_table(trained / "beacon" / "weights" / "episodes.parquet").to_pydict()
    last = np.array(history["step"]) == max(history["step"])
    target = np.array(history["weight"])[last & (np.array(history["domain"]) == "real")]
    mark = next(m for m in figures["weight-evolution"].panels[0].marks if "target" in m.name)
    assert isinstance(mark, Line) and mark.low is not None and mark.high is not None
    assert [mark.low[-1], mark.high[-1]] == pytest.approx(np.quantile(target, [0.1, 0.9]).tolist(), rel=1e-3)

    shares = {mark.name: mark for mark in figures["mass"].panels[0].marks}
    share = weight[domain == "real"].sum() / weight.sum()
    assert shares["real (target)"].y[-1] == pytest.approx(share, rel=1e-3)  # type: ignore[union-attr]


def test_weight_analysis_is_of_the_demonstrations_own(page: tuple[Path, Report], trained: Path) -> None:
    figures = figures_of(page[1])
    windows = pq.read_table(trained / "beacon" / "weights" / "windows-00000016.parquet").to_pydict()
    episode, weight = np.array(windows["episode"]), np.array(windows["weight"])
    means = np.array([weight[episode == e].mean() for e in range(14)]).round(12)
    pool = page[1].assets[0].pool
    places = np.array(
        [json.loads(a["placements"])["square"][:2] for s in pool.sets for a in s.episode_attributes]
    )
    nearest = np.linalg.norm(places[:14, None] - places[None, 14:], axis=2).min(axis=1)
    panel = figures["coverage"].panels[0]
    for mark in panel.marks:
        assert isinstance(mark, Points) and mark.demos is not None
        np.testing.assert_allclose(mark.x, nearest[mark.demos], rtol=1e-3)  # type: ignore[arg-type]
        np.testing.assert_allclose(mark.y, means[mark.demos], rtol=1e-3)  # type: ignore[arg-type]
    assert sorted(d for mark in panel.marks for d in mark.demos) == list(range(14))  # type: ignore[union-attr]
    assert re.fullmatch(r"rank correlation [+-]\d\.\d\d", panel.note)

    corruption = figures["corruption"].panels[0]
    corrupted = np.arange(14) < 5
    above, below = means[~corrupted][:, None], means[corrupted][None]
    area = (above > below).mean() + 0.5 * (above == below).mean()  # some weigh the same
    assert corruption.note == f"AUC mirrored {area:.2f}"
    assert [mark.name.split(":")[0] for mark in corruption.marks] == ["sound", "mirrored"]

    phase = next(panel for panel in figures["phase"].panels if panel.title == "beacon: loss")
    source = np.array(windows["domain"]) == "sim"
    first = source & (np.array(windows["phase"]) < 0.05)
    assert isinstance(phase.marks[0], Line)
    assert phase.marks[0].y[0] == pytest.approx(np.array(windows["loss"])[first].mean(), rel=1e-3)


def test_the_success_table_and_the_paired_tests(page: tuple[Path, Report]) -> None:
    from scipy.stats import binomtest

    html = page[0].read_text()
    assert "20 of 24" in html and "83.3%" in html and "64.1% to 93.3%" in html  # Wilson, by hand
    p = binomtest(0, 16, 0.5).pvalue  # BEACON alone solves 16 states, target-only none
    row = re.search(r"<td>beacon − target-only</td>(.*?)</tr>", html)
    assert row is not None
    cells = re.findall(r">([^<]+)<", row[1])
    assert cells[:5] == ["success", "+66.7", "16", "0", f"{p:.3g}"]
    assert "unlikely to be noise" in row[1]
    noise = re.search(r"<td>cotrain − target-only</td>(.*?)</tr>", html)
    assert noise is not None and "within noise" in noise[1]
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_decisions_are_told_and_marked(trained: Path, tmp_path: Path) -> None:
    decided = (DatasetDecisions("sim.hdf5", dropped=("demo_1",), kept=("demo_0", "demo_6")),)
    asked = config("beacon", [trained / "sim.hdf5"], trained / "real.hdf5")
    train(replace(asked, data=replace(asked.data, decisions=decided)), tmp_path / "run")
    report = build(tmp_path / "run")

    assert "by decision, left out of sim.hdf5: demo_1; kept of sim.hdf5" in report.html
    assert "at least 1 times the mean weight of their domain: demo_0, demo_6" in report.html
    pool = report.assets[0].pool
    kept = [name for name, decision in zip(pool.names, pool.decisions, strict=True) if decision == "kept"]
    assert kept == ["demo_0", "demo_6"] and len(pool.names) == 13 + 4
    command = train_command(read_config(tmp_path / "run"), tmp_path / "run")
    assert f"--decisions {tmp_path / 'run' / 'decisions.jsonl'}" in command
    words = shlex.split(command)[2:]
    assert parse([*words]).config().data.decisions == decided


def test_the_page_says_which_data_code_and_machine_made_a_run(copy_run: Callable[..., Path]) -> None:
    run = copy_run()
    session = json.loads((run / "provenance.json").read_text())[-1] | {"commit": "c0ffee" * 6}
    (run / "provenance.json").write_text(json.dumps([session, 7]))
    out = run / "page.html"
    write_report([run], out, projection="pca")
    page = out.read_text()
    for record in json.loads((run / "data.json").read_text()):
        assert f"{record['name']} {record['actions'][:12]} {record['frames'][:12]}" in page
    assert f"{session['started']}: beacon {session['beacon']}, commit c0ffeec0ffee, " in page
    assert f"{session['cores']} cores of {session['processor']}" in page


def test_commands_reproduce_the_configuration(trained: Path) -> None:
    for run in ("beacon", "cotrain", "target-only"):
        stored = read_config(trained / run)
        words = train_command(stored, Path("runs/again")).split()
        assert words[:2] == ["beacon", "train"]
        parsed = parse(words[2:])
        assert parsed.method == run
        assert (parsed.options, parsed.data, parsed.policy) == (stored.options, stored.data, POLICY)
        assert (parsed.optimization, parsed.run) == (stored.optimization, stored.run)


# What is missing is said, and breaks nothing


def test_a_run_without_evaluation_names_the_command(copy_run: Callable[..., Path]) -> None:
    run = copy_run()
    shutil.rmtree(run / "eval")
    html = build(run).html
    assert "This run has no evaluation; run:" in html
    assert f"<code>beacon evaluate {run} --task TASK --domain DOMAIN</code>" in html


def test_a_run_cut_off_while_writing(copy_run: Callable[..., Path]) -> None:
    run = copy_run()
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(b"".join(lines[:6]) + lines[6][:25])
    shutil.rmtree(run / "checkpoints")
    shutil.rmtree(run / "weights")
    report = build(run, projection="pca")
    assert "1 line(s) of metrics.jsonl were cut off" in report.html
    assert f"beacon train --out {run} --resume" in report.html
    assert "no usable checkpoint" in report.html
    assert "No weights were saved yet" in report.html
    assert "learning" in figures_of(report)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("config.yaml", "config.yaml could not be read in full"),
        ("metrics.jsonl", "line(s) of metrics.jsonl were cut off or damaged"),
        ("weights/episodes.parquet", "The tables of the weights are damaged"),
        ("weights/windows-00000016.parquet", "The tables of the weights are damaged"),
        ("checkpoints/last", "no usable checkpoint"),
        ("eval/lift-small-texture-train-1000.json", "could not be read"),
    ],
)
def test_a_damaged_file_costs_its_part_only(
    copy_run: Callable[..., Path], broken: str, said: str, tmp_path: Path
) -> None:
    run = copy_run()
    (run / broken).write_bytes(b"\x00\xff{[damaged")
    out = tmp_path / "page.html"
    write_report([run], out, projection="pca")
    html = out.read_text()
    assert said in html
    assert 'id="training"' in html and 'id="configuration"' in html


def test_a_run_that_has_hardly_begun(tmp_path: Path, trained: Path) -> None:
    run = tmp_path / "young"
    run.mkdir()
    shutil.copy(trained / "beacon" / "config.yaml", run)
    html = build(run, projection="pca").html
    assert "nothing was logged yet" in html
    (run / "config.yaml").unlink()
    (run / "metrics.jsonl").touch()
    assert "has no config.yaml" in build(run).html


def test_one_source_demonstration(tmp_path: Path) -> None:
    source = make_demonstrations(tmp_path / "sim.hdf5", 1, placements=False)
    target = make_demonstrations(tmp_path / "real.hdf5", 1, seed=1, placements=False)
    run = train_run(tmp_path / "run", "beacon", [source], target, epochs=2, steps_per_epoch=1)
    report = write_report([run], tmp_path / "r.html", projection="pca")
    assert "too few demonstrations for a correlation" in (tmp_path / "r.html").read_text()
    assert "neither object placements nor simulator states" in (tmp_path / "r.html").read_text()
    assert "coverage" not in figures_of(report)


def test_demonstrations_that_moved_or_changed(copy_run: Callable[..., Path], tmp_path: Path) -> None:
    run = copy_run()
    data = json.loads((run / "data.json").read_text())
    data[0]["file"] = str(tmp_path / "gone.hdf5")
    (run / "data.json").write_text(json.dumps(data))
    report = build(run, projection="pca")
    assert "The demonstrations could not be read" in report.html and "gone.hdf5" in report.html
    assert "weight-distribution" in figures_of(report)
    make_demonstrations(tmp_path / "gone.hdf5", 14, seed=5)
    assert "no longer those that this run was trained on" in build(run, projection="pca").html


def test_a_method_without_weights_is_named_once(page: tuple[Path, Report]) -> None:
    html = page[0].read_text()
    assert html.count("Without weights of their own, and so not in this part: target-only, cotrain.") == 1


# Size, files, command line


def test_five_hundred_demonstrations_stay_small(tmp_path: Path) -> None:
    """Real tables of a run that was never trained, over pictures that are hard to compress."""
    from beacon.data import RobomimicWriter

    rng = np.random.default_rng(0)
    files = []
    for name, demos in (("sim", 500), ("real", 20)):
        with RobomimicWriter(tmp_path / f"{name}.hdf5", env_args={}, compression=None) as writer:
            for _ in range(demos):
                coarse = rng.integers(0, 255, (6, 24, 24, 3), dtype=np.uint8)
                images = coarse.repeat(4, axis=1).repeat(4, axis=2)
                obs = {"agentview_image": images, "robot0_eef_pos": rng.normal(size=(6, 3)).astype("f4")}
                writer.add_episode(None, rng.normal(size=(6, 3)).astype("f4"), obs)
        files.append(tmp_path / f"{name}.hdf5")
    settings = config("beacon", files[:1], files[1])
    run = tmp_path / "run"
    RunFolder(run).start(settings.to_dict(), [])
    from beacon.training.loading import load_training_sets

    windows = Windows(load_training_sets(settings.data), 1, 4)
    history = WeightHistory(run / "weights", windows, ("sim", "real"))
    for refresh in range(100):
        weights, losses, d = rng.uniform(0, 2, (3, len(windows)))
        history.add(refresh, refresh * 300, EpochReport({}, weights, losses, d))
    history.save(180_000)
    report = write_report([run], tmp_path / "report.html", projection="none")
    size = (tmp_path / "report.html").stat().st_size
    assert 2e6 < size < 20e6
    assert len(report.assets[0].strips) == 520


def test_figures_as_files(page: tuple[Path, Report], trained: Path, tmp_path: Path, capsys: Any) -> None:
    runs = [str(trained / "beacon")]
    out, folder = tmp_path / "x" / "page.html", tmp_path / "figures"
    assert main([*runs, "--out", str(out), "--figures", str(folder), "--map", "pca"]) == 0
    assert capsys.readouterr().out.startswith(str(out))
    names = {path.stem for path in folder.iterdir()}
    assert {"success", "learning", "weight-evolution", "weight-distribution", "map-0", "gallery-0"} <= names
    for name in names:
        svg = (folder / f"{name}.svg").read_text()
        assert "<path" in svg or "<image" in svg
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert "20 of 24" in (folder / "success.svg").read_text()


def test_bad_command_lines_are_one_line(tmp_path: Path, trained: Path, capsys: Any) -> None:
    for arguments, said in (
        ([], "name at least one run folder"),
        ([str(tmp_path / "none")], "is not a run folder"),
        ([str(tmp_path)], "has neither config.yaml nor metrics.jsonl"),
        ([str(trained / "beacon"), "--out", str(tmp_path)], "is a folder; name a file"),
        ([str(trained / "beacon"), "--live", "--port", "70000"], "must be from 0 to 65535"),
    ):
        with pytest.raises(UserError, match=said):
            main(arguments)
    assert main(["--help"]) == 0
    assert "--figures" in capsys.readouterr().out
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot write"):
        main([str(trained / "beacon"), "--map", "none", "--out", str(tmp_path / "file" / "x.html")])


def test_markup_is_escaped() -> None:
    assert tag("p", "<b>", title='"&') == '<p title="&quot;&amp;">&lt;b&gt;</p>'
    assert tag("p", ["a", tag("i", "<")], None) == "<p>a<i>&lt;</i></p>"
    text = script_data({"a": "</script><!--&\u2028"})
    assert "<" not in text and "&" not in text and "\u2028" not in text
    assert json.loads(text) == {"a": "</script><!--&\u2028"}
