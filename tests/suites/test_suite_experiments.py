from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_experiments import SOURCE, matched, small_experiment

from beacon.errors import UserError
from beacon.methods import METHODS, PAPER, RECOMMENDED, BeaconOptions
from beacon.plain import changed, to_plain
from beacon.suites.definitions.sensitivity import PAPER_SWEEP, RECOMMENDED_SWEEP
from beacon.suites.experiment import DatasetSpec, digest
from beacon.suites.presets import PRESETS
from beacon.suites.setting import TableEntry
from beacon.suites.suite import SUITES, Choice, Scope, experiments_of, select_entries
from beacon.training.config import preset_config

CPU = PRESETS["cpu"]


def test_a_datasets_key_is_what_it_was() -> None:
    # Files that exist are found by it: it must never change.
    assert DatasetSpec("stack", "source", 200).key == "578cd6fd01c7abd0"
    assert DatasetSpec("stack", "source", 200, corruptions=(("noisy", 0.06),)).key == "1bdfa831e742fd10"


def test_a_key_is_the_same_in_another_process_and_whatever_the_order() -> None:
    code = (
        "from small_experiments import small_experiment; "
        "options = {'discrepancy': {'k': 3}, 'weighting': {'alpha': 0.4, 'lambda_1': 0.1}}; "
        "print(small_experiment('beacon', options=options).key)"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "77",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    turned = small_experiment(
        "beacon", options={"weighting": {"lambda_1": 0.1, "alpha": 0.4}, "discrepancy": {"k": 3}}
    )
    assert done.stdout.strip() == turned.key, done.stderr


def test_everything_that_decides_changes_the_key() -> None:
    experiment = small_experiment("beacon")
    others = [
        replace(experiment, seed=1),
        replace(experiment, options={"discrepancy": {"k": 6}}),
        replace(experiment, options={"discrepancy": "knn"}),
        replace(experiment, options={"checks": []}),
        replace(experiment, options={"checks": ["inverse-dynamics", "neighbor-actions"]}),
        replace(experiment, options={"weighting": {"solver": "steps"}}),
        replace(experiment, auxiliary=({"part": "future-state"},)),
        replace(experiment, auxiliary=({"part": "future-state", "strength": 0.02},)),
        replace(experiment, options={"weighting": {"alpha": 0.4}}),
        replace(experiment, target_demos=3),
        replace(experiment, image_size=16),
        replace(experiment, sources=(replace(SOURCE, corruptions=(("noisy", 0.3),)),)),
        replace(experiment, optimization={**experiment.optimization, "learning_rate": 0.1}),
        replace(experiment, align=True),
        matched(experiment),
        matched(replace(experiment, options={"discrepancy": {"k": 6}})),
    ]
    assert len({one.key for one in [experiment, *others]}) == len(others) + 1
    # A default that is said is the same experiment.
    for said in (
        {"discrepancy": {"k": 5}},
        {"discrepancy": {"part": "knn-relative"}},
        {"checks": [part.part_name for part in RECOMMENDED.checks]},
        to_plain(RECOMMENDED),
    ):
        assert replace(experiment, options=said).key == experiment.key, said


def test_a_method_that_gives_other_weights_than_before_has_new_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> tuple[str, str, str]:
        experiment = small_experiment("beacon")
        return experiment.key, matched(experiment).key, small_experiment("cotrain").key

    before = keys()
    monkeypatch.setattr(METHODS["beacon"], "revision", METHODS["beacon"].revision + 1)
    own, control, other = keys()
    assert own != before[0] and control != before[1] and other == before[2]


def test_other_weights_with_several_sources_leave_the_keys_of_a_single_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = small_experiment("beacon")
    two = replace(one, sources=(*one.sources, replace(one.sources[0], seed=9)))

    def keys() -> tuple[str, str]:
        return digest(one.configuration()), digest(two.configuration())

    before = keys()
    monkeypatch.setattr(METHODS["beacon"], "several_sources_revision", 7)
    after = keys()
    assert after[0] == before[0] and after[1] != before[1]


def test_no_path_is_in_a_configuration() -> None:
    for suite in SUITES.values():
        for entry in select_entries(suite, CPU, Choice((0,))):
            configuration = str(entry.experiment.configuration())
            assert "/" not in configuration.replace(entry.task, "")  # as in metaworld/door-open-v3


def test_one_method_without_target_is_trained_once_for_both_gaps() -> None:
    chosen = select_entries(SUITES["sim2sim"], PRESETS["paper"], Choice((0,), ("source-only",), ("stack",)))
    first, second = (entry.experiment for entry in chosen)
    assert first.training_key == second.training_key and first.key != second.key
    assert first.train_config(Path("data")).data.target is None


def test_the_same_cell_in_two_suites_is_one() -> None:
    def keys(suite: str, row: str, **more: str) -> set[str]:
        found = select_entries(SUITES[suite], CPU, Choice((0,), (row,), ("stack",)))
        return {p.experiment.key for p in found if all(getattr(p, k) == v for k, v in more.items())}

    for gap in ("texture", "texture-view"):
        mine = keys("sim2sim", "beacon", gap=gap)
        assert len(mine) == 1 and mine == keys("scaling", "beacon", gap=gap, detail=f"n={CPU.target_demos}")
    assert keys("ablation", "stochastic-knn") == keys("sim2sim", "beacon-paper")
    assert keys("sim2sim", "target-only", gap="texture") == keys("contaminated", "target-only")
    assert not keys("sim2sim", "cotrain") & keys("contaminated", "cotrain")


def test_the_foreign_world_has_a_clean_and_a_corrupted_column() -> None:
    chosen = select_entries(SUITES["metaworld"], CPU, Choice((0,), ("beacon",)))
    assert len(chosen) == 4 * 2 and {entry.detail for entry in chosen} == {"clean", "30% corrupted"}
    for clean, corrupted in zip(chosen[::2], chosen[1::2], strict=True):
        (sound,), (bad,) = clean.experiment.sources, corrupted.experiment.sources
        assert not sound.corruptions and bad.sound() == sound
        assert dict(bad.corruptions).keys() == {"delayed", "mirrored", "noisy", "other-camera"}
        assert "/" not in sound.file_name


def test_a_repaired_source_is_another_dataset_made_of_the_corrupted_one() -> None:
    chosen = select_entries(SUITES["repaired"], CPU, Choice((0,), ("cotrain",), ("stack",)))
    clean, corrupted, repaired = (entry.experiment.sources[0] for entry in chosen)
    assert repaired.unrepaired() == corrupted and corrupted.sound() == repaired.sound() == clean
    assert len({clean.key, corrupted.key, repaired.key}) == 3
    assert repaired.repaired_for == chosen[2].experiment.target


def test_the_first_table_is_whole_and_seeds_come_one_after_the_other() -> None:
    chosen = select_entries(SUITES["sim2sim"], CPU, Choice((0, 1)))
    rows = {"source-only", "target-only", "cotrain", "cotrain-natural", "mmd", "uot"}
    rows |= {"beacon-paper", "beacon", "beacon-weights", "cotrain-future"}
    assert {entry.row for entry in chosen} == rows
    assert len(chosen) == 2 * 3 * 2 * len(rows)
    assert [entry.experiment.seed for entry in chosen] == [0] * 60 + [1] * 60
    (recommended, *_) = (entry.experiment for entry in chosen if entry.row == "beacon")
    assert not recommended.options and recommended.train_config(Path()).options == RECOMMENDED
    asked = select_entries(SUITES["sim2sim"], CPU, Choice((0,), ("cotrain-0.5",), ("stack",), ("texture",)))
    assert [entry.experiment.train_config(Path()).options.ratio for entry in asked] == [0.5]


def options_of(entry: TableEntry) -> BeaconOptions:
    return entry.experiment.train_config(Path()).options


def test_rows_of_the_papers_method_have_its_options() -> None:
    rows = {
        entry.row: entry
        for entry in select_entries(SUITES["contaminated"], CPU, Choice((0,), tasks=("stack",)))
    }
    assert options_of(rows["beacon-paper"]) == PAPER
    label_aware = {
        "weighting": {"granularity": "demo", "lambda_d": 0.4},
        "discrepancy": {"part": "knn-joint", "k": 20},
        "features": "obs",
    }
    assert options_of(rows["beacon-joint"]) == changed(PAPER, label_aware)
    ablation = select_entries(SUITES["ablation"], CPU, Choice((0,)))
    everything = select_entries(SUITES["ablation"], CPU, Choice((0,)), extra=True)
    assert len(ablation) == 2 * 6 and {entry.experiment.method for entry in everything} == {"beacon-paper"}
    assert [entry for entry in everything if not entry.row.endswith("-demo")] == ablation
    assert len(everything) == 2 * len(ablation)
    for entry in everything:
        options = options_of(entry)
        weighting = {"solver": options.weighting.solver, "granularity": options.weighting.granularity}
        ablated = replace(PAPER.weighting, **weighting)
        assert options == replace(PAPER, weighting=ablated, discrepancy=type(options.discrepancy)())
    # Where a suite has no row of that name, it is the method's.
    assert select_entries(SUITES["ablation"], CPU, Choice((0,), ("beacon-paper",))) == ablation


def test_the_sweep_starts_at_the_defaults_and_changes_what_it_sweeps() -> None:
    (usual,) = select_entries(SUITES["sim2sim"], CPU, Choice((0,), ("beacon",), ("stack",), ("texture",)))
    scope = Scope(CPU, "stack", "texture", (0,))
    start = RECOMMENDED_SWEEP.experiment(scope, 0, {})
    assert start.training_key == usual.experiment.training_key and start.key != usual.experiment.key
    swept = RECOMMENDED_SWEEP.experiment(scope, 0, {"alpha": 0.123})
    expected = changed(RECOMMENDED, {"weighting": {"alpha": 0.123}})
    assert swept.train_config(Path()).options == expected
    assert swept.training()["options"] == to_plain(expected)
    for suite, defaults in (
        ("sensitivity-recommended", RECOMMENDED),
        ("sensitivity", PAPER),
    ):
        for entry in select_entries(SUITES[suite], CPU, Choice((0,))):
            name, _, value = entry.row.partition("=")
            expected = replace(defaults.weighting, **{name: float(value)})
            assert options_of(entry) == replace(defaults, weighting=expected)


def test_the_sweep_is_of_the_papers_method_in_both_gaps_and_lambda_1_is_tried_once() -> None:
    entries = select_entries(SUITES["sensitivity"], PRESETS["paper"], Choice((0, 1)))
    assert {entry.experiment.method for entry in entries} == {"beacon-paper"}
    assert list(PAPER_SWEEP.values) == ["lambda_2", "lambda_d", "alpha"]
    inert = {(entry.gap, entry.row, entry.experiment.seed) for entry in entries if "inert" in entry.detail}
    assert inert == {("texture", f"lambda_1={value}", 0) for value in ("0.001", "0.1")}
    real = [entry.experiment for entry in entries if entry.gap == "real-proxy"]
    # Appendix D's other half: 40 demonstrations over the whole region, 20 rollouts.
    assert {(e.target_demos, e.target.region, e.evaluations[0].episodes) for e in real} == {(40, "train", 20)}
    assert {e.target_demos for e in (entry.experiment for entry in entries)} == {20, 40}


@pytest.mark.parametrize("control, matched", [("", "beacon"), ("paper-", "beacon-paper")])
def test_a_control_brings_the_cell_that_it_waits_for(control: str, matched: str) -> None:
    asked = Choice((0,), (f"{control}mass-matched",), ("stack",), ("texture",))
    first, second = experiments_of(select_entries(SUITES["sim2sim"], CPU, asked))
    assert first.method == matched and second.match == first


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_cell_has_a_configuration_that_trains(suite: str, preset: str) -> None:
    for experiment in experiments_of(select_entries(SUITES[suite], PRESETS[preset], Choice((0,)))):
        config = experiment.train_config(Path("data"), ratio=0.85 if experiment.match else None)
        assert config.optimization.steps == experiment.steps() and config.optimization.seed == 0
        assert config.data.target is None or config.data.target_demos == experiment.target_demos


def test_both_gaps_are_of_one_size() -> None:
    def sizes(preset: str, suite: str) -> set[tuple[int, int]]:
        chosen = select_entries(SUITES[suite], PRESETS[preset], Choice((0,), tasks=("stack",)))
        return {(entry.experiment.target_demos, entry.experiment.steps()) for entry in chosen}

    assert sizes("cpu", "sim2sim") == sizes("cpu", "ablation") == {(10, 10_000)}
    assert sizes("cpu", "scaling") == {(count, 10_000) for count in CPU.scaling}
    assert sizes("quick", "sim2sim") == {(10, 2500)} and sizes("long", "sim2sim") == {(10, 40_000)}
    assert sizes("paper", "sim2sim") == {(20, 180_000)}


def test_the_papers_sizes() -> None:
    (experiment, *_) = experiments_of(
        select_entries(SUITES["sim2sim"], PRESETS["paper"], Choice((0,), ("beacon",)))
    )
    assert (experiment.sources[0].demos, experiment.target_demos, experiment.target.size) == (500, 20, "full")
    assert experiment.evaluations[0].episodes == 100 and experiment.steps() == 180_000


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Choice(methods=("nothing",)), "--methods nothing"),
        (Choice(tasks=("juggle",)), "--tasks juggle: there is no such task; sim2sim has stack"),
        (Choice(gaps=("moon",)), "--gaps moon: there is no such domain"),
    ],
)
def test_what_a_suite_does_not_have_is_refused(choice: Choice, said: str) -> None:
    with pytest.raises(UserError, match=said):
        select_entries(SUITES["sim2sim"], CPU, choice)


def test_the_guide_says_what_is_true_and_its_example_is_a_suite() -> None:
    document = Path(__file__).parents[2] / "docs" / "suites.md"
    text = document.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    entries = select_entries(names["SUITE"], CPU, Choice((0,)))
    assert [options_of(entry).weighting.solver.projection for entry in entries] == ["clip", "direct"]
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert document.parent.joinpath(link).exists(), link
    for name in SUITES:
        assert f"| `{name}` |" in text
    cpu, paper = (preset_config(name)[1] for name in ("cpu", "paper"))
    sizes = [f"{one.steps:,} × {one.batch_size}" for one in (cpu, paper)]
    assert f"| {sizes[0]} | {sizes[1]} |" in text
    assert f"| {CPU.source_demos}, {CPU.target_demos} |" in text


def test_columns_can_be_chosen_where_a_gap_has_several() -> None:
    def chosen(*columns: str) -> set[str]:
        choice = Choice((0,), ("cotrain",), ("stack",), columns=columns)
        return {entry.detail for entry in select_entries(SUITES["sim2real"], CPU, choice)}

    assert chosen() == {"whole region", "target region (ours)", "ood"}
    assert chosen("ood") == {"ood"}
    with pytest.raises(UserError, match=r"--columns 'n=10': sim2real has 'whole region', .*'ood'"):
        chosen("n=10")


def test_an_expanded_source_is_made_of_the_experts_first_demonstrations() -> None:
    chosen = select_entries(SUITES["mimic"], CPU, Choice((0,), ("cotrain",)))
    expert, expanded = (entry.experiment.sources[0] for entry in chosen)
    assert expanded.expanded_from == 10 and expanded.demos == expert.demos
    assert expanded.seeds() == replace(expert, demos=10) and expanded.key != expert.key
    assert (
        chosen[0].experiment.key
        == experiments_of(
            select_entries(SUITES["sim2sim"], CPU, Choice((0,), ("cotrain",), ("stack",), ("texture",)))
        )[0].key
    )
