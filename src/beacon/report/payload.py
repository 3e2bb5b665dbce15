"""What the page's script needs: figures, demonstrations with their frames, weights along time, maps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from beacon.report.library import SHEET, Library
from beacon.report.pictures import steps_shown
from beacon.report.placements import InitialDistance, initial_distance
from beacon.report.spec import Figure, number, numbers, thin
from beacon.report.views import COLOURS, RunView

SHOWN = 8  # demonstrations at each end of the gallery
CURVE_POINTS = 100
HISTORY_POINTS = 60


@dataclass
class LibraryAssets:
    """The parts of a library that cost time, made once."""

    library: Library
    demos: Any  # (P,) of the points on the map
    times: Any
    distance: InitialDistance | str
    strips: dict[int, str]
    frames: int  # of a strip
    sheets: list[str]

    @classmethod
    def make(cls, library: Library, first: list[int]) -> LibraryAssets:
        """``first``: demonstrations whose frames must be there even when not all fit."""
        demos, times = library.map_sample()
        strips, quality = library.strips(first)
        sheets, _ = library.sheets(demos, times)
        return cls(library, demos, times, initial_distance(library), strips, quality.frames, sheets)


def library_payload(assets: LibraryAssets) -> dict[str, Any]:
    """A library for the page."""
    library = assets.library
    sources = [name for place, name in enumerate(library.domains) if place != library.target]
    domains = [
        {
            "name": name,
            "target": place == library.target,
            "colour": "target" if place == library.target else f"source{sources.index(name) % COLOURS}",
        }
        for place, name in enumerate(library.domains)
    ]
    shape = library.sets[0].images[library.camera].shape if library.camera else (0, 1, 1)
    distance = None
    if isinstance(assets.distance, InitialDistance):
        distance = {"values": numbers(assets.distance.values), "unit": assets.distance.unit}
    count = len(library.names)
    return {
        "domains": domains,
        "camera": library.camera,
        "aspect": number(shape[2] / shape[1]),
        "names": library.names,
        "domain": library.domain.tolist(),
        "length": library.lengths.tolist(),
        "flaw": library.flaws if any(library.flaws) else None,
        "distance": distance,
        "strips": [assets.strips.get(demo) for demo in range(count)],
        "steps": [steps_shown(int(n), assets.frames).tolist() for n in library.lengths],
        "points": {"demo": assets.demos.tolist(), "time": assets.times.tolist()},
        "sheets": assets.sheets,
        "sheet": {"columns": 20, "frames": SHEET},
    }


def run_payload(view: RunView, assets: LibraryAssets | None) -> dict[str, Any]:
    """A run for the page."""
    payload: dict[str, Any] = {
        "title": view.title,
        "colour": view.colour,
        "library": view.library_place,
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
    """Library numbers of the demonstrations to show: most kept and most faded, or just some."""
    if view.library is None:
        return {}
    if view.record.windows is None or view.numbers is None:
        sources = np.flatnonzero(view.library.domain != view.library.target)
        if view.library.target is None or not len(sources):
            sources = np.arange(len(view.library.names))
        return {"some": sources[thin(len(sources), SHOWN)].tolist()}
    table, demos = view.record.windows, view.source_demos
    means = table.episode_means(table.weight)[demos]
    order = view.numbers[demos[np.argsort(-means, kind="stable")]]
    half = min(SHOWN, (len(order) + 1) // 2)
    return {"kept": order[:half].tolist(), "faded": order[::-1][: min(half, len(order) - half)].tolist()}


def _weights(view: RunView) -> dict[str, Any] | None:
    """Weights, losses and discrepancies along every demonstration, and its mean over the refreshes."""
    table = view.record.windows
    if table is None or view.numbers is None or view.library is None:
        return None
    count = len(view.library.names)
    empty: list[Any] = [None] * count
    result: dict[str, Any] = {"time": [*empty], "mean": [*empty], "rank": [*empty], "curves": {}}
    columns = {"weight": table.weight, "loss": table.loss, "discrepancy": table.discrepancy}
    present = {name: values for name, values in columns.items() if values is not None}
    result["curves"] = {name: [*empty] for name in present}
    means = table.episode_means(table.weight)
    starts, lengths = table.starts, table.lengths
    for own, demo in enumerate(view.numbers):
        rows = thin(int(lengths[own]), CURVE_POINTS) + starts[own]
        result["time"][demo] = table.time[rows].tolist()
        result["mean"][demo] = number(means[own])
        for name, values in present.items():
            result["curves"][name][demo] = [round(float(v), 3) for v in values[rows]]
    order = view.source_demos[np.argsort(-means[view.source_demos], kind="stable")]
    for rank, own in enumerate(order, 1):
        result["rank"][view.numbers[own]] = rank
    result["ranked"] = len(order)
    history = view.record.episodes
    if history is not None and history.weight.shape[1] == len(view.numbers):
        chosen = thin(len(history.step), HISTORY_POINTS)
        past: list[Any] = [*empty]
        for own, demo in enumerate(view.numbers):
            past[demo] = [round(float(v), 3) for v in history.weight[chosen, own]]
        result["history"] = {"step": history.step[chosen].tolist(), "weight": past}
    return result


def _point_weights(view: RunView, assets: LibraryAssets) -> list[float | None] | None:
    """The weight of every point of the map; None for windows that the run has no weight for."""
    table = view.record.windows
    if table is None or view.numbers is None:
        return None
    own = {int(demo): int(start) for demo, start in zip(view.numbers, table.starts, strict=True)}
    found: list[float | None] = []
    for demo, time in zip(assets.demos.tolist(), assets.times.tolist(), strict=True):
        start = own.get(demo)
        found.append(None if start is None else number(table.weight[start + time]))
    return found


def figure_payload(figure: Figure) -> dict[str, Any]:
    """A figure for the page."""
    plain: dict[str, Any] = asdict(figure)
    for panel, source in zip(plain["panels"], figure.panels, strict=True):
        panel["x"]["title"], panel["y"]["title"] = source.x.title, source.y.title
    return plain
