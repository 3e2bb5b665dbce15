"""What the weights of a run came to, in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.analysis import area_under_curve, effective_sample_size, weight_bias
from beacon.errors import UserError
from beacon.runs.demonstrations import Demonstrations, corruption_labels
from beacon.runs.initial_states import InitialDistance, initial_distance
from beacon.runs.run import Run
from beacon.runs.weight_tables import EpisodeHistory, WindowTable

MOST_REFRESHES = 60  # of the history that is kept, evenly spread
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
NOTHING = 1e-3  # a weight below this is as good as zero
SOUND = "none"


def summarise_weights(path: Path) -> dict[str, Any] | None:
    """Of the newest checkpoint; None for a method that has no weights.

    Args:
        path: the run folder.
    """
    run = Run(path)
    table, history = run.windows, run.episodes
    if table is None or history is None:
        return None
    target = next((record.name for record in run.domains if record.is_target), None)
    on_source = np.ones(len(table), bool) if target is None else ~table.members(target)
    demos = np.flatnonzero(on_source[table.starts])
    means = table.episode_means(table.weight)
    distance, corruption = _known(run, table, demos)
    bias = weight_bias(
        table.weight[on_source],
        table.phase[on_source],
        means[demos],
        distance=distance,
        corruption=corruption,
    )
    total = float(table.weight.sum())
    source = table.weight[on_source]
    return {
        "domains": {name: _domain(table, name, name == target, total) for name in table.domains},
        "source_mass": float(source.sum()) / total,
        "mean_source_mass": _mean_source_mass(table, history, demos),
        "effective_samples": round(effective_sample_size(table.weight), 1),
        "effective_source_samples": round(effective_sample_size(source), 1),
        "phase_explains": bias.phase,
        "first_tenth": bias.first_tenth,
        "last_tenth": bias.last_tenth,
        "rank_correlation_with_distance": bias.coverage,
        "auc": bias.corruption_auc,
        "history": _history(table, history),
        # The key that stored results have.
        "flaws": _by_corruption(means[demos], corruption),
    }


def _known(
    run: Run, table: WindowTable, demos: NDArray[np.int64]
) -> tuple[NDArray[np.float64] | None, list[str] | None]:
    """Distances and corruption of the source demonstrations, as far as their datasets are there."""
    try:
        domains = [Demonstrations.read(record) for record in run.domains]
    except (UserError, OSError):
        return None, None
    if sum(len(domain.names) for domain in domains) != len(table.lengths):
        return None, None
    target = next((number for number, record in enumerate(run.domains) if record.is_target), None)
    distance, labels = initial_distance(domains, target), corruption_labels(domains)
    return (
        distance.values[demos] if isinstance(distance, InitialDistance) else None,
        None if labels is None else [labels[demo] for demo in demos],
    )


def _domain(table: WindowTable, name: str, is_target: bool, total: float) -> dict[str, Any]:
    weight = table.weight[table.members(name)]
    return {
        "role": "target" if is_target else "source",
        "windows": len(weight),
        "mean": round(float(weight.mean()), 6),
        "std": round(float(weight.std()), 6),
        "quantiles": _rounded(np.quantile(weight, QUANTILES)),
        "mass": float(weight.sum()) / total,
        "nothing": round(float((weight < NOTHING).mean()), 6),
    }


def _mean_source_mass(table: WindowTable, history: EpisodeHistory, demos: NDArray[np.int64]) -> float:
    """The source's share of all weight, over all refreshes."""
    mass = history.weight * table.lengths  # (R, E)
    return float((mass[:, demos].sum(axis=1) / mass.sum(axis=1)).mean())


def _history(table: WindowTable, history: EpisodeHistory) -> dict[str, Any]:
    """Mean weight of every domain's windows, and the deviation between its demonstrations, by refresh."""
    last = len(history.step) - 1
    chosen = np.unique(np.linspace(0, last, min(last + 1, MOST_REFRESHES)).round().astype(np.int64))
    domains = {}
    for name in table.domains:
        members = np.flatnonzero(history.members(name))
        weight, length = history.weight[np.ix_(chosen, members)], table.lengths[members]
        mean = (weight * length).sum(axis=1) / length.sum()
        spread = np.sqrt((np.square(weight - mean[:, None]) * length).sum(axis=1) / length.sum())
        domains[name] = {"mean": _rounded(mean), "std": _rounded(spread)}
    return {"steps": history.step[chosen].tolist(), "domains": domains}


def _by_corruption(means: NDArray[np.float64], corruption: Sequence[str] | None) -> dict[str, Any]:
    """Mean weights of the source demonstrations by what is known to be wrong with them."""
    labels = np.array([label or SOUND for label in corruption or [""] * len(means)])
    sound = means[labels == SOUND]
    summary: dict[str, Any] = {}
    for label in sorted(set(labels.tolist()), key=lambda name: (name != SOUND, name)):
        members = means[labels == label]
        summary[label] = {"demos": len(members), "mean": round(float(members.mean()), 6)}
        if label != SOUND:
            summary[label]["auc"] = area_under_curve(sound, members)
        summary[label]["weights"] = _rounded(members)
    return summary


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 4) for value in values]
