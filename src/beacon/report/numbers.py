"""What a report says, for programs: rates, comparisons, weights, alignment and figures as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from beacon import __version__
from beacon.analysis import effective_sample_size
from beacon.files import write_bytes
from beacon.plain import finite, to_plain
from beacon.report.build import Report
from beacon.report.page_data import figure_data
from beacon.report.run_view import RunView
from beacon.report.success import Comparison, Rate, Setting
from beacon.report.summary import verdict
from beacon.report.weight_analysis import view_bias


def write_numbers(report: Report, file: Path) -> None:
    """Write the numbers of a report.

    Args:
        report: what was built.
        file: report.json.
    """
    plain = {
        "beacon": __version__,
        "runs": [_run(view) for view in report.views],
        "success": [_setting(setting) for setting in report.settings],
        "figures": {figure.key: figure_data(figure) for figure in report.figures},
    }
    write_bytes(file, (json.dumps(finite(to_plain(plain)), allow_nan=False, indent=1) + "\n").encode())


def _run(view: RunView) -> dict[str, Any]:
    record = view.record
    return {
        "title": view.title,
        "path": record.path,
        "method": record.method,
        "seed": record.option("optimization", "seed"),
        "step": record.last_step,
        "planned_steps": record.planned_steps,
        "domains": [
            {"name": domain.name, "is_target": domain.is_target, "demonstrations": len(domain.demos)}
            for domain in record.domains
        ],
        "weights": None if record.windows is None else _weights(view),
        "alignment": None if view.map is None else view.map.alignment,
        "missing": [asdict(part) for part in record.missing],
    }


def _weights(view: RunView) -> dict[str, Any]:
    table, source = view.record.windows, view.source_windows
    assert table is not None
    return {
        "windows": len(table.weight),
        "effective_sample_size": float(effective_sample_size(table.weight)),
        "source_share": float(table.weight[source].sum() / max(table.weight.sum(), 1e-300)),
        "follows": asdict(view_bias(view)),
    }


def _setting(setting: Setting) -> dict[str, Any]:
    task, size, domain, region = setting.key
    return {
        "task": task,
        "size": size,
        "domain": domain,
        "region": region,
        "initial_states": setting.states,
        "verdict": verdict(setting) if setting.comparisons else None,
        "rates": [_rate(rate) for rate in setting.rates],
        "comparisons": [_comparison(pair) for pair in setting.comparisons],
    }


def _rate(rate: Rate) -> dict[str, Any]:
    said = {key: value for key, value in vars(rate).items() if key != "view"}
    return {"run": rate.view.title, "rate": rate.rate} | said


def _comparison(pair: Comparison) -> dict[str, Any]:
    said = {key: value for key, value in vars(pair).items() if key not in ("first", "second")}
    return {"first": pair.first.title, "second": pair.second.title} | said
