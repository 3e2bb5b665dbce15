"""What a cell's weights came to, in a few numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.report.library import find_libraries, run_numbers
from beacon.report.origins import area_under_curve, measure_bias
from beacon.report.placements import InitialDistance, initial_distance
from beacon.report.records import read_run
from beacon.report.views import RunView
from beacon.weighting.view import effective_sample_size

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
NOTHING = 1e-3  # a weight below this is as good as zero


def summarise_weights(run: Path) -> dict[str, Any] | None:
    """Of the newest checkpoint; None for a method that has no weights."""
    record = read_run(run)
    table = record.windows
    if table is None:
        return None
    (library,) = find_libraries([record])
    numbers = run_numbers(record, library)
    found = None if library is None else initial_distance(library)
    distance = found if isinstance(found, InitialDistance) else None
    view = RunView(record, 0, library, None, numbers, distance)
    total = float(table.weight.sum())
    domains = {}
    for place, name in enumerate(table.domains):
        weight = table.weight[table.domain == place]
        domains[name] = {
            "role": "target" if name == view.target else "source",
            "windows": len(weight),
            "mean": round(float(weight.mean()), 6),
            "std": round(float(weight.std()), 6),
            "quantiles": _rounded(np.quantile(weight, QUANTILES)),
            "mass": float(weight.sum()) / total,
            "nothing": round(float((weight < NOTHING).mean()), 6),
        }
    bias = measure_bias(view)
    source = table.weight[view.source_windows]
    return {
        "domains": domains,
        "source_mass": float(source.sum()) / total,
        "mean_source_mass": _mean_source_mass(view),
        "effective_samples": round(effective_sample_size(table.weight), 1),
        "effective_source_samples": round(effective_sample_size(source), 1),
        "phase_explains": bias.phase,
        "first_tenth": bias.early,
        "last_tenth": bias.late,
        "rank_correlation_with_distance": bias.coverage,
        "auc": bias.found_flaws,
        "flaws": _by_flaw(view),
    }


def _mean_source_mass(view: RunView) -> float:
    """The source's share of all weight, over all refreshes."""
    table, history = view.record.windows, view.record.episodes
    assert table is not None and history is not None  # a run has both or none
    mass = history.weight * table.lengths  # (R, E)
    return float((mass[:, view.source_demos].sum(axis=1) / mass.sum(axis=1)).mean())


def _by_flaw(view: RunView) -> dict[str, Any]:
    """Mean weights of the source demonstrations by what is known to be wrong with them."""
    table = view.record.windows
    assert table is not None
    means = table.episode_means(table.weight)[view.source_demos]
    flaws = view.flaws
    kinds = np.array([(flaws[demo] if flaws is not None else "") or "none" for demo in view.source_demos])
    sound = means[kinds == "none"]
    found: dict[str, Any] = {}
    for kind in sorted(set(kinds), key=lambda name: (name != "none", name)):
        mine = means[kinds == kind]
        found[kind] = {"demos": len(mine), "mean": round(float(mine.mean()), 6)}
        if kind != "none":
            found[kind]["auc"] = area_under_curve(sound, mine)
        found[kind]["weights"] = _rounded(mine)
    return found


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 4) for value in values]
