"""Rank correlation of two presets over methods."""

from __future__ import annotations

import pytest

from beacon.cli.main import main
from beacon.suites.ranks import rank_agreement
from beacon.suites.tables import Column, Line, Rate


def column(rates: dict[str, dict[int, float]], gap: str = "texture") -> Column:
    lines = []
    for row, seeds in rates.items():
        total = sum(seeds.values()) * 100
        lines.append(Line(row, row, {"success": Rate(total, 100 * len(seeds), 0.0, 1.0, seeds, None)}))
    return Column("stack", gap, "", ("success",), None, tuple(lines))


def test_methods_and_seeds_that_both_have_count() -> None:
    cheap = column({"a": {0: 0.1, 1: 0.9}, "b": {0: 0.2}, "c": {0: 0.3}, "d": {0: 0.4}, "e": {0: 0.0}})
    same = column({"a": {0: 0.5}, "b": {0: 0.6}, "c": {0: 0.7}, "d": {0: 0.8}})
    turned = column({"a": {0: 0.8}, "b": {0: 0.7}, "c": {0: 0.6}, "d": {0: 0.5}})

    (agreement,) = rank_agreement([cheap], [same])
    assert (agreement.methods, agreement.seeds, agreement.correlation) == (4, 1, pytest.approx(1.0))
    assert rank_agreement([cheap], [turned])[0].correlation == pytest.approx(-1.0)
    assert rank_agreement([cheap], [column({"a": {0: 0.5}})])[0].correlation is None
    assert rank_agreement([cheap], [column({"a": {5: 0.5}})])[0].seeds == 0
    assert rank_agreement([cheap], [column({"a": {0: 0.5}}, "real-proxy")]) == []


def test_without_results_it_is_one_line(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["suite", "table", "sim2sim", "--rank-with", "long", "--results", str(tmp_path)]
    assert main(command) == 2
    assert "no column with results at both" in capsys.readouterr().err
