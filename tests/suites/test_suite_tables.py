from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from beacon.analysis import compare_methods, holm
from beacon.cli.main import main
from beacon.report.figure_spec import Line
from beacon.suites.definitions.sensitivity import SELECTION_SEED
from beacon.suites.experiment import Experiment
from beacon.suites.figures import scaling_figure, spread_figure, success_figure, weight_figure
from beacon.suites.page import write_page
from beacon.suites.paper import NUMBERS, reported
from beacon.suites.presets import PRESETS
from beacon.suites.results import Folders, read_result, write_result
from beacon.suites.sections import make_sections
from beacon.suites.setting import TableEntry
from beacon.suites.suite import SUITES, Choice, select_entries
from beacon.suites.tables import ResultStore, make_columns

TINY, CPU = PRESETS["tiny"], PRESETS["cpu"]
STACK = Choice((0, 1), (), ("stack",), ("texture",))


def store_result(
    folders: Folders,
    experiment: Experiment,
    outcomes: Sequence[Mapping[str, Sequence[float]]],
    weights: Any = None,
) -> None:
    """A result with these outcomes, one mapping of criteria for each evaluation."""
    evaluations = [
        {
            "domain": wanted.domain,
            "region": wanted.region,
            "seed": wanted.seed,
            "episodes": wanted.episodes,
            "states_sha256": f"states of {wanted.seed}",
            "rates": {name: {"rate": sum(values) / len(values)} for name, values in mine.items()},
            "outcomes": mine,
        }
        for wanted, mine in zip(experiment.evaluations, outcomes, strict=True)
    ]
    result = {
        "key": experiment.key,
        "configuration": experiment.configuration(),
        "evaluations": evaluations,
        "weights": weights,
        "seconds": {"training": 20.0, "evaluation": 4.0},
    }
    write_result(folders.result(experiment), result)


def stack_outcomes(bits: str) -> dict[str, list[float]]:
    values = [float(bit) for bit in bits]
    return {"success": values, "R": values, "S": [0.0] * len(values)}


def experiment_of(chosen: list[TableEntry], row: str, seed: int) -> Experiment:
    (experiment,) = (e.experiment for e in chosen if e.row == row and e.experiment.seed == seed)
    return experiment


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """BEACON 12 of 20 and co-training 6 of 20, over two seeds and the same states."""
    found = Folders(tmp_path / "work", tmp_path / "results")
    chosen = select_entries(SUITES["sim2sim"], TINY, STACK)
    for row, outcomes in {
        "beacon": ("1111111000", "1111100000"),
        "cotrain": ("1100000001", "1110000000"),
    }.items():
        for seed, bits in enumerate(outcomes):
            store_result(found, experiment_of(chosen, row, seed), [stack_outcomes(bits)])
    store_result(found, experiment_of(chosen, "mmd", 0), [stack_outcomes("1" * 10)])
    return found


def test_pooled_rates_intervals_and_paired_tests(folders: Folders) -> None:
    chosen = select_entries(SUITES["sim2sim"], TINY, STACK)
    (column,) = make_columns(SUITES["sim2sim"], chosen, ResultStore(folders))
    assert column.criteria == ("R", "S") and column.reference == "beacon"
    lines = {line.row: line for line in column.lines}
    beacon, cotrain = lines["beacon"].rates["R"], lines["cotrain"].rates["R"]
    assert (beacon.successes, beacon.episodes, beacon.seeds) == (12, 20, {0: 0.7, 1: 0.5})
    # Wilson's interval for 12 of 20, by hand: (0.6 + 0.09604 ± 1.96·√(0.012 + 0.0024010)) / 1.19207.
    assert (beacon.low, beacon.high) == pytest.approx((0.38658, 0.78119), abs=1e-4)
    assert (beacon.paper, cotrain.paper, lines["cotrain"].rates["S"].paper) == (None, 0.33, 0.25)
    # Seed 0: five states only BEACON, one only co-training; seed 1: two only BEACON.
    assert cotrain.against is not None
    assert (cotrain.against.seeds, cotrain.against.episodes) == (2, 20)
    assert cotrain.against.difference == pytest.approx(0.3)
    by_hand = compare_methods(
        [[1] * 7 + [0] * 3, [1] * 5 + [0] * 5], [[1, 1] + [0] * 7 + [1], [1] * 3 + [0] * 7]
    )
    assert (cotrain.against.low, cotrain.against.high) == (by_hand.low, by_hand.high)
    # Of MMD only seed 0 is done, so that only its states are paired: three that BEACON does not solve.
    mmd = lines["mmd"].rates["R"].against
    assert mmd is not None and (mmd.seeds, mmd.episodes) == (1, 10)
    assert mmd.difference == pytest.approx(-0.3)
    alone = compare_methods([[1] * 7 + [0] * 3], [[1] * 10])
    adjusted = holm([by_hand.p_value, alone.p_value])
    assert [cotrain.against.p_value, mmd.p_value] == pytest.approx(adjusted)
    # MMD lacks a seed; the two others differ where they are the only pair.
    assert (lines["beacon"].letters, lines["cotrain"].letters, lines["mmd"].letters) == ("a", "b", "")
    assert not lines["uot"].rates and "cotrain-0.5" not in lines


def test_a_row_that_lacks_seeds_says_so_in_the_figure(folders: Folders) -> None:
    chosen = select_entries(SUITES["sim2sim"], TINY, STACK)
    columns = make_columns(SUITES["sim2sim"], chosen, ResultStore(folders))
    (panel,) = success_figure(columns).panels
    marks = {mark.name: mark for mark in panel.marks}
    assert marks["MMD"].text == "100% (seed 0), paper 87%" and marks["MMD"].colour == "source5"
    assert marks["Co-training, 0.9"].text == "30%, paper 33%"
    assert marks["Co-training, 0.9"].colour == "source0" and marks["BEACON+ (ours)"].colour == "target"


def test_states_that_differ_are_not_paired(folders: Folders) -> None:
    chosen = select_entries(SUITES["sim2sim"], TINY, STACK)
    path = folders.result(experiment_of(chosen, "mmd", 0))
    path.write_text(path.read_text().replace("states of 1000", "other states"))
    (column,) = make_columns(SUITES["sim2sim"], chosen, ResultStore(folders))
    assert {line.row: line for line in column.lines}["mmd"].rates["R"].against is None


def test_the_table_says_it(folders: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--preset", "tiny", "--results", str(folders.results), "--tasks", "stack"]
    assert main(["suite", "table", "sim2sim", *options, "--markdown"]) == 0
    said = capsys.readouterr().out
    ours = "| BEACON+ (ours) | 20 | 60% (39 to 78) | – | 0% (0 to 16) | – | 100% | – | 0: 70, 1: 50 | – |"
    assert ours in said
    row = "| Co-training, 0.9 | 20 | 30% (15 to 52) | 33% | 0% (0 to 16) | 25% | 100% | 24% | 0: 30, 1: 30 |"
    assert f"{row} +30 (+5 to +60; 2 seeds; p = " in said
    assert "| -30 (1 seed) | – |" in said
    assert main(["suite", "table", "sim2sim", *options, "--json"]) == 0
    (column,) = json.loads(capsys.readouterr().out)["columns"]
    assert column["lines"][2]["rates"]["R"]["against"]["episodes"] == 20
    assert main(["suite", "list", "sim2sim", *options, "--gaps", "texture", "--seeds", "0"]) == 0
    assert "3 done, 0 running, 7 missing" in capsys.readouterr().out


def test_weights_over_the_run_and_at_its_end_are_figures(folders: Folders) -> None:
    chosen = select_entries(SUITES["sim2sim"], TINY, STACK)
    ends = {"sim": [0.0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8], "real": [1.5] * 7}
    weights = {
        "domains": {
            "sim": {"role": "source", "quantiles": ends["sim"]},
            "real": {"role": "target", "quantiles": ends["real"]},
        },
        "history": {
            "steps": [0, 5],
            "domains": {
                "sim": {"mean": [0.5, 0.4], "std": [0.0, 0.1]},
                "real": {"mean": [0.6, 1.5], "std": [0.0, 0.0]},
            },
        },
    }
    experiment = experiment_of(chosen, "beacon", 0)
    store_result(folders, experiment, [stack_outcomes("1" * 10)], weights)
    columns = make_columns(SUITES["sim2sim"], chosen, ResultStore(folders))
    (panel,) = weight_figure(columns).panels  # of the one method that has weights
    source, target = panel.marks
    assert isinstance(source, Line) and isinstance(target, Line)
    assert (source.name, source.y, source.low, source.high) == ("source", [0.5, 0.4], [0.5, 0.3], [0.5, 0.5])
    assert (target.name, target.x, target.y) == ("target", [0, 5], [0.6, 1.5])
    (panel,) = spread_figure(columns).panels
    assert [mark.y for mark in panel.marks if isinstance(mark, Line)] == [ends["sim"], ends["real"]]


def test_the_page_and_its_figures(folders: Folders, tmp_path: Path) -> None:
    page, *figures = write_page(folders, tmp_path / "docs", ["tiny"])
    text = page.read_text()
    assert (
        "## sim2sim, preset tiny, first states" in text
        and "| 60% (39 to 78) |" in text
        and "## ablation" not in text
    )
    # The cells of two target demonstrations are those of the first rung of scaling: a table, no curve yet.
    # The clean column of repaired has the same cells, too.
    names = [figure.name for figure in figures]
    assert "## scaling" in text and names == ["tiny-sim2sim.svg", "tiny-mimic.svg", "tiny-repaired.svg"]
    drawing = figures[0].read_text()
    assert "30%, paper 33%" in drawing and str(tmp_path) not in drawing + text
    gone, foreign = (figures[0].with_name(name) for name in ("tiny-ablation.svg", "other.svg"))
    for file in (gone, foreign):
        file.write_text("<svg/>")
    again = write_page(folders, tmp_path / "docs", ["tiny"])
    assert again == [page, *figures] and figures[0].read_text() == drawing
    assert foreign.exists() and not gone.exists()  # a figure of results that were deleted


def test_runs_of_an_older_policy_have_tables_of_their_own_where_they_differ(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "work", tmp_path / "results")
    for gap in ("texture", "texture-view"):
        chosen = Choice((0,), ("cotrain",), ("stack",), (gap,))
        (entry,) = select_entries(SUITES["sim2sim"], PRESETS["free-view"], chosen)
        store_result(folders, entry.experiment, [stack_outcomes("1" * 100)])
    text = write_page(folders, tmp_path / "docs", ["cpu", "free-view"])[0].read_text()
    today, older = text.split("## sim2sim, preset free-view")
    assert "## sim2sim, preset cpu" in today and "### stack, texture\n" in today
    assert "### stack, texture-view\n" in older and "### stack, texture\n" not in older


def test_what_weights_find_by_corruption(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "work", tmp_path / "results")
    chosen = select_entries(SUITES["contaminated"], TINY, STACK)
    for seed, auc in enumerate((0.9, 0.6)):
        flaws = {"none": {"demos": 7, "mean": 0.5}, "noisy": {"demos": 3, "mean": 0.2, "auc": auc}}
        domain = {"role": "target", "windows": 10, "mean": 2.0}
        weights = {
            "domains": {"a": domain},
            "source_mass": 0.8,
            "effective_samples": 5.0,
            "phase_explains": 0.1,
            "rank_correlation_with_distance": None,
            "auc": auc,
            "flaws": flaws,
        }
        experiment = experiment_of(chosen, "beacon", seed)
        store_result(folders, experiment, [stack_outcomes("10")], weights)
    sections = make_sections(SUITES["contaminated"], chosen, ResultStore(folders))
    _, corruptions, weighed = sections
    assert corruptions.headings == ("task and method", "all corruptions", "noisy")
    assert corruptions.rows == (("stack: BEACON+ (ours)", "0.75 (0.90, 0.60)", "0.75 (0.90, 0.60)"),)
    assert weighed.rows[0][1:4] == ("0.80 (0.80, 0.80)", "2.00 (2.00, 2.00)", "0.50 (0.50, 0.50)")


def test_the_sweep_goes_where_the_selection_states_say(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "work", tmp_path / "results")
    best = {"lambda_1": 0.1, "lambda_2": 0.001, "lambda_d": 0.4, "alpha": 0.3}

    def planned() -> list[TableEntry]:
        return select_entries(SUITES["sensitivity-recommended"], TINY, Choice((0,)), ResultStore(folders))

    for stage in range(5):
        chosen = planned()
        groups = list(dict.fromkeys(entry.detail.split(",")[0] for entry in chosen))
        assert groups == [*best, "chosen"][: stage + 1]
        for entry in chosen:
            assert [one.seed for one in entry.experiment.evaluations] == [SELECTION_SEED, 1000]
            weighting = entry.experiment.train_config(Path()).options.weighting
            good = sum(getattr(weighting, name) == value for name, value in best.items())
            selection = stack_outcomes("1" * good + "0" * (4 - good))
            # On the test states it is the other way round, which must not matter.
            store_result(
                folders, entry.experiment, [selection, stack_outcomes("0" * good + "1" * (4 - good))]
            )
    last = next(entry.experiment for entry in planned() if entry.row == "chosen")
    weighting = last.train_config(Path()).options.weighting
    assert {name: getattr(weighting, name) for name in best} == best


def test_every_number_of_the_paper_has_its_place() -> None:
    preset = PRESETS["paper"]
    for name in ("sim2sim", "sim2real", "ablation", "scaling"):
        found: dict[tuple[str, Any, str], float] = {}
        for entry in select_entries(SUITES[name], preset, Choice((0,))):
            for criterion in ("R", "S", "paper_score", "score", "success"):
                value = reported(name, entry.row, entry.column, criterion)
                if value is not None:
                    found[entry.row, entry.column, criterion] = value
        assert len(found) == sum(suite == name for suite, *_ in NUMBERS)
    assert reported("sim2sim", "mmd", ("mug-cleanup", "texture-view", ""), "paper_score") == 0.29
    assert reported("sim2real", "ms-beacon-paper", ("stack", "real-proxy", "ood"), "S") == 0.45
    assert reported("scaling", "beacon-paper", ("stack", "texture-view", "n=80"), "S") == 0.80
    assert reported("scaling", "beacon-paper", ("stack", "texture-view", "n=20"), "S") == 0.60
    assert reported("scaling", "beacon-paper", ("stack", "texture-view", "n=5"), "S") is None


def test_averages_are_those_that_the_paper_prints() -> None:
    """Its own last column, from R and rounded entries: a check on what was copied."""
    tasks = (("stack", "R"), ("mug-cleanup", "paper_score"), ("threading", "success"))
    for gap, expected in (
        ("texture", {"cotrain": 0.32, "mmd": 0.60, "uot": 0.52, "beacon-paper": 0.64}),
        ("texture-view", {"cotrain": 0.18, "mmd": 0.41, "uot": 0.32, "beacon-paper": 0.45}),
    ):
        for row, average in expected.items():
            values = [NUMBERS["sim2sim", row, (task, gap, ""), criterion] for task, criterion in tasks]
            assert sum(values) / 3 == pytest.approx(average, abs=0.0051)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nothing"], "there is no suite 'nothing'"),
        (["table", "nothing"], "there is no suite 'nothing'"),
        (
            ["run", "sim2sim", "--preset", "huge"],
            "--preset huge: choose one of paper, cpu",
        ),
        (["run", "sim2sim", "--workers", "0"], "--workers 0"),
        (["list", "sim2sim", "--workers", "-3"], "--workers -3"),
        (["table", "--docs", "x", "--seeds", "0", "--tasks", "stack"], "leave --seeds 0 --tasks stack away"),
        (["run", "sim2sim", "--seeds", "-1"], "--seeds -1"),
        (["table"], "name a suite"),
        (["throw"], "there is no 'beacon suite throw'"),
        (["run", "sim2sim", "--tasks", "juggle"], "--tasks juggle"),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["suite", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_without_ray_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    arguments = ["suite", "run", "sim2sim", "--ray", "--work", str(tmp_path), "--results", str(tmp_path)]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "cluster" in error and error.count("\n") == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"key": "x"}', "\x00"])
def test_a_damaged_result_is_one_line(
    folders: Folders, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = select_entries(SUITES["sim2sim"], TINY, STACK)
    path = folders.result(experiment_of(chosen, "mmd", 0))
    path.write_text(text)
    arguments = ["--preset", "tiny", "--results", str(folders.results), "--tasks", "stack"]
    assert main(["suite", "table", "sim2sim", *arguments]) == 2
    error = capsys.readouterr().err
    assert path.name in error and error.count("\n") == 1


def test_a_result_under_another_name_is_refused(folders: Folders) -> None:
    chosen = select_entries(SUITES["sim2sim"], TINY, STACK)
    first, second = (folders.result(experiment_of(chosen, row, 0)) for row in ("mmd", "uot"))
    first.rename(second)
    with pytest.raises(ValueError, match="is the result of"):
        read_result(second)


@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]])
def test_there_is_nothing_to_show_yet(
    form: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["--preset", "tiny", "--seeds", "3", "4", "--results", str(tmp_path)]
    assert main(["suite", "table", "ablation", *chosen, *form]) == 2
    shown = capsys.readouterr()
    command = f"beacon suite run ablation --preset tiny --seeds 3 4 --results {tmp_path} makes them"
    assert shown.out == "" and command in shown.err


def test_a_folder_that_cannot_be_made_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results").write_text("a file")
    where = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    assert main(["suite", "run", "sim2sim", "--preset", "tiny", "--tasks", "stack", *where]) == 2
    error = capsys.readouterr().err
    assert "cannot make the folder" in error and error.count("\n") == 1
    assert not (tmp_path / "work" / "data").exists()


def test_curves_of_scaling_are_of_the_seeds_that_all_points_have(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "work", tmp_path / "results")
    chosen = select_entries(SUITES["scaling"], TINY, Choice((0, 1), ("beacon",), gaps=("texture",)))
    few, many = ([entry.experiment for entry in chosen if entry.detail == f"n={n}"] for n in TINY.scaling)
    store_result(folders, few[0], [stack_outcomes("1000000000")])
    for experiment, bits in zip(many, ("1111100000", "1111111111"), strict=True):
        store_result(folders, experiment, [stack_outcomes(bits)])
    figure = scaling_figure(make_columns(SUITES["scaling"], chosen, ResultStore(folders)))
    (panel,) = figure.panels
    (curve,) = panel.marks
    assert panel.title.endswith("seed 0")
    assert (list(curve.x), list(curve.y)) == (list(TINY.scaling), [0.1, 0.5])


def test_means_over_tasks_are_of_the_seeds_that_all_tasks_have(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "work", tmp_path / "results")
    chosen = select_entries(SUITES["sim2sim"], TINY, Choice((0, 1), gaps=("texture",)))

    def store(task: str, row: str, seed: int, outcomes: Mapping[str, Sequence[float]]) -> None:
        store_result(folders, experiment_of([e for e in chosen if e.task == task], row, seed), [outcomes])

    for seed, bits in enumerate(("1000", "1111")):
        store("stack", "cotrain", seed, stack_outcomes(bits))
        store("stack", "beacon", seed, stack_outcomes(bits))
    store("threading", "cotrain", 0, {"success": [1.0, 1.0]})
    # An older result has no score by the paper's words.
    store(
        "mug-cleanup", "cotrain", 0, {"success": [0.0, 1.0], "score": [0.5, 1.0], "paper_score": [0.5, 1.0]}
    )
    store("mug-cleanup", "mmd", 0, {"success": [0.0, 1.0], "score": [0.5, 1.0]})
    sections = make_sections(SUITES["sim2sim"], chosen, ResultStore(folders))
    averages = next(section for section in sections if section.title == "mean over tasks, texture")
    # Stack 25, mug cleanup 75 and threading 100 of seed 0, and the paper's .33, .29 and .33.
    assert averages.rows == (("Co-training, 0.9", "67%", "32%", "0"),)
    assert "R (stack), paper_score (mug-cleanup), success (threading)" in averages.note
    mug = next(section for section in sections if section.title == "mug-cleanup, texture")
    rows = {row[0]: dict(zip(mug.headings, row, strict=True)) for row in mug.rows}
    assert rows["MMD"]["paper_score"] == "–" and rows["MMD"]["score"].startswith("75%")
    assert rows["Co-training, 0.9"]["paper_score"].startswith("75%")
