from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from small_cells import SOURCE, matched, small_cell

from beacon.errors import UserError
from beacon.methods import METHODS, PAPER, RECOMMENDED, BeaconOptions
from beacon.plain import changed, to_plain
from beacon.suites import grids
from beacon.suites.cell import DatasetSpec, digest
from beacon.suites.grids import SUITES, Choice, Place, cells, places
from beacon.suites.scales import SCALES
from beacon.training.config import preset_config

CPU = SCALES["cpu"]


def test_a_datasets_key_is_what_it_was() -> None:
    # Files that exist are found by it: it must never change.
    assert DatasetSpec("stack", "source", 200).key == "578cd6fd01c7abd0"
    assert DatasetSpec("stack", "source", 200, faults=(("noisy", 0.06),)).key == "1bdfa831e742fd10"


def test_a_key_is_the_same_in_another_process_and_whatever_the_order() -> None:
    code = (
        "from small_cells import small_cell; "
        "options = {'discrepancy': {'k': 3}, 'weighting': {'alpha': 0.4, 'lambda_1': 0.1}}; "
        "print(small_cell('beacon', options=options).key)"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "77",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    turned = small_cell(
        "beacon", options={"weighting": {"lambda_1": 0.1, "alpha": 0.4}, "discrepancy": {"k": 3}}
    )
    assert done.stdout.strip() == turned.key, done.stderr


def test_everything_that_decides_changes_the_key() -> None:
    cell = small_cell("beacon")
    others = [
        replace(cell, seed=1),
        replace(cell, options={"discrepancy": {"k": 6}}),
        replace(cell, options={"discrepancy": "knn"}),
        replace(cell, options={"checks": []}),
        replace(cell, options={"checks": ["inverse-dynamics", "neighbor-actions"]}),
        replace(cell, options={"weighting": {"solver": "steps"}}),
        replace(cell, options={"weighting": {"alpha": 0.4}}),
        replace(cell, target_demos=3),
        replace(cell, image_size=16),
        replace(cell, sources=(replace(SOURCE, faults=(("noisy", 0.3),)),)),
        replace(cell, optimization={**cell.optimization, "learning_rate": 0.1}),
        replace(cell, align=True),
        matched(cell),
        matched(replace(cell, options={"discrepancy": {"k": 6}})),
    ]
    assert len({one.key for one in [cell, *others]}) == len(others) + 1
    # A default that is said is the same cell.
    for said in (
        {"discrepancy": {"k": 5}},
        {"discrepancy": {"part": "knn-relative"}},
        {"checks": ["neighbor-actions", "inverse-dynamics"]},
        to_plain(RECOMMENDED),
    ):
        assert replace(cell, options=said).key == cell.key, said


def test_a_method_that_gives_other_weights_than_before_has_new_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> tuple[str, str, str]:
        cell = small_cell("beacon")
        return cell.key, matched(cell).key, small_cell("cotrain").key

    before = keys()
    monkeypatch.setattr(METHODS["beacon"], "revision", METHODS["beacon"].revision + 1)
    own, control, other = keys()
    assert own != before[0] and control != before[1] and other == before[2]


def test_other_weights_with_several_sources_leave_the_keys_of_a_single_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = small_cell("beacon")
    two = replace(one, sources=(*one.sources, replace(one.sources[0], seed=9)))

    def keys() -> tuple[str, str]:
        return digest(one.configuration()), digest(two.configuration())

    before = keys()
    monkeypatch.setattr(METHODS["beacon"], "several_sources_revision", 7)
    after = keys()
    assert after[0] == before[0] and after[1] != before[1]


def test_no_path_is_in_a_configuration() -> None:
    for suite in SUITES.values():
        for place in places(suite, CPU, Choice((0,))):
            assert "/" not in str(place.cell.configuration())


def test_one_method_without_target_is_trained_once_for_both_gaps() -> None:
    chosen = places(SUITES["sim2sim"], SCALES["paper"], Choice((0,), ("source-only",), ("stack",)))
    first, second = (place.cell for place in chosen)
    assert first.training_key == second.training_key and first.key != second.key
    assert first.train_config(Path("data")).data.target is None


def test_the_same_cell_in_two_suites_is_one() -> None:
    def keys(suite: str, row: str, **more: str) -> set[str]:
        found = places(SUITES[suite], CPU, Choice((0,), (row,), ("stack",)))
        return {p.cell.key for p in found if all(getattr(p, k) == v for k, v in more.items())}

    for gap in ("texture", "texture-view"):
        mine = keys("sim2sim", "beacon", gap=gap)
        assert len(mine) == 1 and mine == keys("scaling", "beacon", gap=gap, detail=f"n={CPU.target_demos}")
    assert keys("ablation", "stochastic-knn") == keys("sim2sim", "beacon-paper")
    assert keys("sim2sim", "target-only", gap="texture") == keys("contaminated", "target-only")
    assert not keys("sim2sim", "cotrain") & keys("contaminated", "cotrain")


def test_the_first_table_is_whole_and_seeds_come_one_after_the_other() -> None:
    chosen = places(SUITES["sim2sim"], CPU, Choice((0, 1)))
    rows = {"source-only", "target-only", "cotrain", "cotrain-natural", "mmd", "uot"}
    rows |= {"beacon-paper", "beacon", "mass-matched"}
    assert {place.row for place in chosen} == rows
    assert len(chosen) == 2 * 3 * 2 * len(rows)
    assert [place.cell.seed for place in chosen] == [0] * 54 + [1] * 54
    (recommended, *_) = (place.cell for place in chosen if place.row == "beacon")
    assert not recommended.options and recommended.train_config(Path()).options == RECOMMENDED
    asked = places(SUITES["sim2sim"], CPU, Choice((0,), ("cotrain-0.5",), ("stack",), ("texture",)))
    assert [place.cell.train_config(Path()).options.ratio for place in asked] == [0.5]


def options_of(place: Place) -> BeaconOptions:
    return place.cell.train_config(Path()).options


def test_rows_of_the_papers_method_have_its_options() -> None:
    rows = {place.row: place for place in places(SUITES["contaminated"], CPU, Choice((0,), tasks=("stack",)))}
    assert options_of(rows["beacon-paper"]) == PAPER
    label_aware = {
        "weighting": {"granularity": "demo", "lambda_d": 0.4},
        "discrepancy": {"part": "knn-joint", "k": 20},
        "features": "obs",
    }
    assert options_of(rows["beacon-joint"]) == changed(PAPER, label_aware)
    ablation = places(SUITES["ablation"], CPU, Choice((0,)))
    everything = places(SUITES["ablation"], CPU, Choice((0,)), extra=True)
    assert len(ablation) == 2 * 6 and {place.cell.method for place in everything} == {"beacon-paper"}
    assert [place for place in everything if not place.row.endswith("-demo")] == ablation
    assert len(everything) == 2 * len(ablation)
    for place in everything:
        mine = options_of(place)
        weighting = {"solver": mine.weighting.solver, "granularity": mine.weighting.granularity}
        ablated = replace(PAPER.weighting, **weighting)
        assert mine == replace(PAPER, weighting=ablated, discrepancy=type(mine.discrepancy)())
    # Where a suite has no row of that name, it is the method's.
    assert places(SUITES["ablation"], CPU, Choice((0,), ("beacon-paper",))) == ablation


def test_the_sweep_starts_at_the_defaults_and_changes_what_it_sweeps() -> None:
    (usual,) = places(SUITES["sim2sim"], CPU, Choice((0,), ("beacon",), ("stack",), ("texture",)))
    start = grids._swept(CPU, 0, {})
    assert start.training_key == usual.cell.training_key and start.key != usual.cell.key
    swept = grids._swept(CPU, 0, {"alpha": 0.123})
    expected = changed(RECOMMENDED, {"weighting": {"alpha": 0.123}})
    assert swept.train_config(Path()).options == expected
    assert swept.training()["options"] == to_plain(expected)
    for place in places(SUITES["sensitivity"], CPU, Choice((0,))):
        name, _, value = place.row.partition("=")
        assert options_of(place) == changed(RECOMMENDED, {"weighting": {name: float(value)}})


@pytest.mark.parametrize("control, matched", [("", "beacon"), ("paper-", "beacon-paper")])
def test_a_control_brings_the_cell_that_it_waits_for(control: str, matched: str) -> None:
    asked = Choice((0,), (f"{control}mass-matched",), ("stack",), ("texture",))
    first, second = cells(places(SUITES["sim2sim"], CPU, asked))
    assert first.method == matched and second.match == first


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("scale", SCALES)
def test_every_cell_has_a_configuration_that_trains(suite: str, scale: str) -> None:
    for cell in cells(places(SUITES[suite], SCALES[scale], Choice((0,)))):
        config = cell.train_config(Path("data"), ratio=0.85 if cell.match else None)
        assert config.optimization.steps == cell.steps() and config.optimization.seed == 0
        assert config.data.target is None or config.data.target_demos == cell.target_demos


def test_both_gaps_are_of_one_size() -> None:
    def sizes(scale: str, suite: str) -> set[tuple[int, int]]:
        chosen = places(SUITES[suite], SCALES[scale], Choice((0,), tasks=("stack",)))
        return {(place.cell.target_demos, place.cell.steps()) for place in chosen}

    assert sizes("cpu", "sim2sim") == sizes("cpu", "ablation") == {(10, 2500)}
    assert sizes("cpu", "scaling") == {(count, 2500) for count in CPU.scaling}
    assert sizes("paper", "sim2sim") == {(20, 180_000)}


def test_the_papers_sizes() -> None:
    (cell, *_) = cells(places(SUITES["sim2sim"], SCALES["paper"], Choice((0,), ("beacon",))))
    assert (cell.sources[0].demos, cell.target_demos, cell.target.size) == (500, 20, "full")
    assert cell.evaluations[0].episodes == 100 and cell.steps() == 180_000


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Choice(methods=("nothing",)), "--methods nothing"),
        (Choice(tasks=("lift",)), "--tasks lift"),
        (Choice(gaps=("real-proxy",)), "--gaps real-proxy"),
    ],
)
def test_what_a_suite_does_not_have_is_refused(choice: Choice, said: str) -> None:
    with pytest.raises(UserError, match=said):
        places(SUITES["sim2sim"], CPU, choice)


def test_the_guide_says_what_is_true_and_its_example_is_a_suite() -> None:
    document = Path(__file__).parents[2] / "docs" / "suites.md"
    text = document.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = dict(vars(grids))
    exec(code, names)
    suite = grids.Suite("projection", "two ways to project the weights", names["_projection"])
    found = [place.cell.train_config(Path()).options for place in places(suite, CPU, Choice((0,)))]
    assert [options.weighting.solver.projection for options in found] == ["clip", "direct"]
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert document.parent.joinpath(link).exists(), link
    for name in SUITES:
        assert f"| `{name}` |" in text
    cpu, paper = (preset_config(name)[1] for name in ("cpu", "paper"))
    sizes = [f"{one.steps:,} × {one.batch_size}" for one in (cpu, paper)]
    assert f"| {sizes[0]} | {sizes[1]} |" in text
    assert f"| {CPU.source_demos}, {CPU.target_demos} |" in text
