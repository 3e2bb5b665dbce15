"""``beacon weights --curate --decisions``: dropped demonstrations are never chosen, kept ones always."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beacon.cli.weights import _decided
from beacon.errors import UserError
from beacon.runs import DomainRecord
from beacon.runs.demonstration_weights import DemoWeight

RECORD = DomainRecord("sim", "/data/sim.hdf5", ("demo_0", "demo_1", "demo_2"), (5, 5, 5), "", "", False)


def demos() -> list[DemoWeight]:
    return [
        DemoWeight(record=RECORD, name=name, weight=weight, discrepancy=0.0, loss=0.0)
        for name, weight in (("demo_0", 1.0), ("demo_1", 0.5), ("demo_2", 0.1))
    ]


def decide(file: Path, **decisions: str) -> Path:
    lines = [
        json.dumps({"dataset": "sim.hdf5", "demonstration": demo, "decision": decision})
        for demo, decision in decisions.items()
    ]
    file.write_text("\n".join(lines))
    return file


def test_decisions_overrule_weights(tmp_path: Path) -> None:
    file = decide(tmp_path / "decisions.jsonl", demo_0="drop", demo_2="keep")
    everyone = demos()

    assert [demo.name for demo in _decided(everyone, everyone[:2], file)] == ["demo_1", "demo_2"]


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    file = decide(tmp_path / "decisions.jsonl", demo_9="drop")

    with pytest.raises(UserError, match="has no demo_9"):
        _decided(demos(), [], file)
