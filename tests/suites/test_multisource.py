"""The suite with several sources of differing worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from beacon.suites.presets import PRESETS
from beacon.suites.results import Folders, write_result
from beacon.suites.sections import make_sections
from beacon.suites.setting import TableEntry
from beacon.suites.suite import SUITES, Choice, select_entries
from beacon.suites.tables import ResultStore

TINY = PRESETS["tiny"]


def entries(*methods: str) -> list[TableEntry]:
    return select_entries(SUITES["multisource"], TINY, Choice((0,), methods))


def test_all_columns_have_as_many_demonstrations_and_begin_with_the_sound_source() -> None:
    for entry in entries("beacon", "cotrain"):
        sources = entry.experiment.sources
        assert {source.demos for source in sources} == {TINY.source_demos // len(sources)}
        assert sources[0].domain == "source" and not sources[0].corruptions
        assert len({source.seed for source in sources}) == len(sources) > 1


def test_the_best_source_alone_is_the_first_of_the_same_demonstrations() -> None:
    for several, alone in zip(entries("beacon"), entries("beacon-best-source"), strict=True):
        assert alone.experiment.sources == several.experiment.sources[:1]


def test_the_table_shows_the_weight_of_every_source(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "work", tmp_path / "results")
    folders.prepare()
    entry = entries("beacon")[0]
    experiment = entry.experiment
    domains = {
        name: {"role": role, "mean": mean, "windows": 10}
        for name, role, mean in (("a", "source", 0.9), ("b", "source", 0.1), ("t", "target", 2.0))
    }
    result = {
        "key": experiment.key,
        "configuration": experiment.configuration(),
        "evaluations": [{"states_sha256": "states", "outcomes": {"R": [1.0, 0.0], "S": [1.0, 0.0]}}],
        "weights": {
            "domains": domains,
            "source_mass": 0.5,
            "effective_samples": 30.0,
            "rank_correlation_with_distance": None,
            "phase_explains": 0.0,
            "auc": None,
            "flaws": {},
        },
        "seconds": {},
    }
    write_result(folders.result(experiment), result)
    sections = {
        s.title: s for s in make_sections(SUITES["multisource"], entries("beacon"), ResultStore(folders))
    }
    (row,) = sections["Weights of the sources"].rows
    assert row == (f"{entry.task}, {entry.gap}, {entry.detail}: BEACON+ (ours)", "source 0.90; mirrored 0.10")


@pytest.mark.parametrize("row", ["beacon-paper", "beacon-pooled"])
def test_rows_name_their_method(row: str) -> None:
    assert {entry.experiment.method for entry in entries(row)} == {row.removesuffix("-pooled")}
