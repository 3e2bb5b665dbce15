"""The suites that are the paper's have its tasks, sizes and methods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from beacon.methods import PAPER
from beacon.suites.paper import NUMBERS
from beacon.suites.presets import PRESETS
from beacon.suites.setting import TableEntry
from beacon.suites.suite import SUITES, Choice, select_entries
from beacon.weighting import Steps

PAPER_SIZES, CPU = PRESETS["paper"], PRESETS["cpu"]
BASELINES = {"source-only", "target-only", "cotrain", "mmd", "uot"}


def entries_of(suite: str, preset: str = "paper", **choice: tuple[str, ...]) -> list[TableEntry]:
    return select_entries(SUITES[suite], PRESETS[preset], Choice((0,), **choice))


def test_sim_to_real_has_40_demonstrations_20_rollouts_and_the_papers_columns() -> None:
    entries = entries_of("sim2real")
    assert {entry.task for entry in entries} == {"stack", "mug-cleanup"}
    assert {entry.row for entry in entries} >= {
        *BASELINES,
        *("beacon-paper", "beacon", "ms-beacon-paper", "ms-beacon-paper-preconditioned", "ms-beacon"),
    }
    for entry in entries:
        experiment = entry.experiment
        assert experiment.target_demos == 40 <= experiment.target.demos
        assert {spec.episodes for spec in experiment.evaluations} == {20}
    columns = {
        entry.detail: (entry.experiment.target.region, entry.experiment.evaluations[entry.evaluation].region)
        for entry in entries
    }
    assert columns == {
        "whole region": ("train", "train"),  # the paper's P
        "target region (ours)": ("target", "target"),
        "ood": ("target", "ood"),
    }


def test_two_sources_are_halves_of_the_demonstrations_and_the_second_is_the_texture_gap() -> None:
    for preset, half in (("paper", 250), ("cpu", 100)):
        entries = entries_of("sim2real", preset)
        for entry in entries:
            sources = entry.experiment.sources
            if entry.row.startswith("ms-"):
                assert [(spec.domain, spec.demos) for spec in sources] == [
                    ("source", half),
                    ("texture", half),
                ]
                assert sources[0].seed != sources[1].seed  # other scenes, not the same on another table
            else:
                assert [(spec.domain, spec.demos) for spec in sources] == [("source", 2 * half)]


def test_ms_beacon_as_written_has_the_papers_options() -> None:
    options = {
        entry.row: entry.experiment.train_config(Path()).options
        for entry in entries_of("sim2real", methods=("ms-beacon-paper", "ms-beacon-paper-preconditioned"))
    }
    literal = PAPER
    assert options["ms-beacon-paper"] == literal
    preconditioned = replace(literal, weighting=replace(literal.weighting, solver=Steps(precondition=True)))
    assert options["ms-beacon-paper-preconditioned"] == preconditioned != literal


def test_the_papers_numbers_of_beacon_stand_beside_its_method_alone() -> None:
    rows = {row for _, row, *_ in NUMBERS}
    ablated = {"stochastic", "convex"}
    assert {row for row in rows if row.split("-")[0] not in ablated} == {
        *BASELINES,
        *("beacon-paper", "ms-beacon-paper"),
    }
    titles = {entry.row: entry.title for entry in entries_of("sim2real")}
    assert titles["beacon"] == "BEACON+ (ours)" and titles["beacon-paper"] == "BEACON (paper)"


def test_alignment_maps_the_papers_tasks_and_methods() -> None:
    entries = entries_of("alignment")
    assert {entry.task for entry in entries} == {"stack", "mug-cleanup"}
    assert {entry.row for entry in entries} == {*BASELINES, "beacon-paper", "beacon"}
    assert all(entry.experiment.align and not entry.experiment.evaluations for entry in entries)


def test_the_other_tables_have_both_gaps() -> None:
    for suite, tasks in (("sim2sim", {"stack", "mug-cleanup", "threading"}), ("ablation", {"stack"})):
        entries = entries_of(suite)
        assert {(entry.task, entry.gap) for entry in entries} == {
            (task, gap) for task in tasks for gap in ("texture", "texture-view")
        }
    scaling = entries_of("scaling")
    assert {entry.row for entry in scaling} >= {"beacon-paper", "cotrain"}
    assert {(entry.gap, entry.experiment.target_demos) for entry in scaling} == {
        (gap, count) for gap in ("texture", "texture-view") for count in (20, 40, 60, 80)
    }


def test_the_cited_forms_of_the_baselines_can_be_asked_for() -> None:
    asked = entries_of("sim2sim", methods=("mmd-rbf", "uot-outer"), tasks=("stack",), gaps=("texture",))
    options = {entry.row: entry.experiment.train_config(Path()).options for entry in asked}
    assert options["mmd-rbf"].kernel == "rbf" and options["uot-outer"].reference == "outer"


def test_noise_is_matched_in_rows_that_say_so_where_sensors_differ() -> None:
    matched = {
        (entry.gap, entry.row): entry.experiment.training().get("match_noise", False)
        for suite in ("sim2real", "sim2sim")
        for entry in entries_of(
            suite,
            "cpu",
            tasks=("stack",),
            methods=(
                "target-only",
                "cotrain",
                "cotrain-matched",
                "beacon-paper",
                "beacon",
                "beacon-unmatched",
            ),
        )
    }
    assert matched["real-proxy", "beacon"] and matched["real-proxy", "cotrain-matched"]
    assert {name for name, is_on in matched.items() if is_on} == {
        ("real-proxy", "beacon"),
        ("real-proxy", "cotrain-matched"),
    }
    beacon, unmatched = (
        {entry.experiment.key for entry in entries_of("sim2sim", "cpu", methods=(name,))}
        for name in ("beacon", "beacon-unmatched")
    )
    assert beacon == unmatched  # the same runs where sensors are alike


def test_a_run_of_a_suite_matches_noise_as_its_key_says() -> None:
    for entry in entries_of("sim2real", "cpu", tasks=("stack",), methods=("beacon", "beacon-unmatched")):
        config = entry.experiment.train_config(Path("data"))
        assert config.data.match_noise == (entry.row == "beacon")
