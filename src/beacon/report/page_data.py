"""What the page's script needs: figures, demonstrations with their frames, weights along time, maps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from beacon.report.demonstration_pool import SHEET, DemonstrationPool
from beacon.report.figure_spec import Figure, number, numbers, rounded, thin
from beacon.report.pictures import steps_shown
from beacon.report.run_view import COLOURS, RunView
from beacon.runs.initial_states import InitialDistance, initial_distance

SHOWN = 8  # demonstrations at each end of the gallery
CURVE_POINTS = 100
HISTORY_POINTS = 60


@dataclass
class PoolAssets:
    """The parts of a pool that cost time, made once."""

    pool: DemonstrationPool
    demos: Any  # (P,) of the points on the map
    times: Any
    distance: InitialDistance | str
    strips: dict[int, str]
    frames: int  # of a strip
    sheets: list[str]

    @classmethod
    def make(cls, pool: DemonstrationPool, first: list[int]) -> PoolAssets:
        """``first``: demonstrations whose frames must be there even when not all fit."""
        demos, times = pool.map_sample()
        strips, quality = pool.strips(first)
        sheets, _ = pool.sheets(demos, times)
        return cls(
            pool,
            demos,
            times,
            initial_distance(pool.demonstrations, pool.target),
            strips,
            quality.frames,
            sheets,
        )


def pool_data(assets: PoolAssets) -> dict[str, Any]:
    """A pool for the page."""
    pool = assets.pool
    sources = [name for index, name in enumerate(pool.domains) if index != pool.target]
    domains = [
        {
            "name": name,
            "target": index == pool.target,
            "colour": "target" if index == pool.target else f"source{sources.index(name) % COLOURS}",
        }
        for index, name in enumerate(pool.domains)
    ]
    shape = pool.sets[0].images[pool.camera].shape if pool.camera else (0, 1, 1)
    distance = None
    if isinstance(assets.distance, InitialDistance):
        distance = {"values": numbers(assets.distance.values), "unit": assets.distance.unit}
    return {
        "domains": domains,
        "camera": pool.camera,
        "aspect": number(shape[2] / shape[1]),
        "names": pool.names,
        "domain": pool.domain.tolist(),
        "length": pool.lengths.tolist(),
        "corruption": pool.corruption if any(pool.corruption) else None,
        "decisions": pool.decisions if any(pool.decisions) else None,
        "distance": distance,
        "steps": [steps_shown(int(n), assets.frames).tolist() for n in pool.lengths],
        "points": {"demo": assets.demos.tolist(), "time": assets.times.tolist()},
        "sheet": {"columns": 20, "frames": SHEET},
    }


def pool_pictures(assets: PoolAssets) -> dict[str, list[str | None]]:
    """The pictures of a pool, apart from all else: the page reads them when they are looked at.

    Args:
        assets: of the pool.
    """
    strips = [assets.strips.get(demo) for demo in range(len(assets.pool.names))]
    return {"strips": strips, "sheets": [*assets.sheets]}


def run_data(view: RunView, assets: PoolAssets | None) -> dict[str, Any]:
    """A run for the page."""
    payload: dict[str, Any] = {
        "title": view.title,
        "colour": view.colour,
        "pool": view.pool_index,
        "weights": _weights(view),
        "gallery": gallery(view),
        "map": None,
    }
    if view.map is not None and assets is not None:
        payload["map"] = {
            "projection": view.map.projection,
            "spaces": {
                space: {when: numbers(plane.reshape(-1)) for when, plane in planes.items()}
                for space, planes in view.map.planes.items()
            },
            "weight": _point_weights(view, assets),
        }
    return payload


def gallery(view: RunView) -> dict[str, list[int]]:
    """DemonstrationPool numbers of the demonstrations to show: largest and smallest weights, or just some."""
    if view.pool is None:
        return {}
    if view.record.windows is None or view.pool_numbers is None:
        sources = np.flatnonzero(view.pool.domain != view.pool.target)
        if view.pool.target is None or not len(sources):
            sources = np.arange(len(view.pool.names))
        return {"some": sources[thin(len(sources), SHOWN)].tolist()}
    table, demos = view.record.windows, view.source_demos
    means = table.episode_means(table.weight)[demos]
    order = view.pool_numbers[demos[np.argsort(-means, kind="stable")]]
    half = min(SHOWN, (len(order) + 1) // 2)
    return {"kept": order[:half].tolist(), "faded": order[::-1][: min(half, len(order) - half)].tolist()}


def _weights(view: RunView) -> dict[str, Any] | None:
    """Weights, losses and discrepancies along every demonstration, and its mean over the refreshes."""
    table = view.record.windows
    if table is None or view.pool_numbers is None or view.pool is None:
        return None
    count = len(view.pool.names)
    empty: list[Any] = [None] * count
    result: dict[str, Any] = {"time": [*empty], "mean": [*empty], "rank": [*empty], "curves": {}}
    columns = {"weight": table.weight, "loss": table.loss, "discrepancy": table.discrepancy}
    present = {name: values for name, values in columns.items() if values is not None}
    result["curves"] = {name: [*empty] for name in present}
    means = table.episode_means(table.weight)
    starts, lengths = table.starts, table.lengths
    for own, demo in enumerate(view.pool_numbers):
        rows = thin(int(lengths[own]), CURVE_POINTS) + starts[own]
        result["time"][demo] = table.time[rows].tolist()
        result["mean"][demo] = number(means[own])
        for name, values in present.items():
            result["curves"][name][demo] = [rounded(value) for value in values[rows]]
    order = view.source_demos[np.argsort(-means[view.source_demos], kind="stable")]
    for rank, own in enumerate(order, 1):
        result["rank"][view.pool_numbers[own]] = rank
    result["ranked"] = len(order)
    history = view.record.episodes
    if history is not None and history.weight.shape[1] == len(view.pool_numbers):
        chosen = thin(len(history.step), HISTORY_POINTS)
        past: list[Any] = [*empty]
        for own, demo in enumerate(view.pool_numbers):
            past[demo] = [rounded(value) for value in history.weight[chosen, own]]
        result["history"] = {"step": history.step[chosen].tolist(), "weight": past}
    return result


def _point_weights(view: RunView, assets: PoolAssets) -> list[float | None] | None:
    """The weight of every point of the map; None for windows that the run has no weight for."""
    table = view.record.windows
    if table is None or view.pool_numbers is None:
        return None
    own = {int(demo): int(start) for demo, start in zip(view.pool_numbers, table.starts, strict=True)}
    weights: list[float | None] = []
    for demo, time in zip(assets.demos.tolist(), assets.times.tolist(), strict=True):
        start = own.get(demo)
        weights.append(None if start is None else number(table.weight[start + time]))
    return weights


def figure_data(figure: Figure) -> dict[str, Any]:
    """A figure for the page."""
    plain: dict[str, Any] = asdict(figure)
    for panel, source in zip(plain["panels"], figure.panels, strict=True):
        panel["x"]["title"], panel["y"]["title"] = source.x.title, source.y.title
    return plain
