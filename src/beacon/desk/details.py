"""What the page is told: of the whole collection, and of one demonstration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.corruption import corruption_of
from beacon.data.formats.base import ACTIONS, OBSERVATION
from beacon.data.loading import default_proprio
from beacon.desk.annotations import Annotations
from beacon.desk.collection import Collection, Demo
from beacon.desk.neighbors import TargetNeighbors
from beacon.desk.pictures import cameras_of
from beacon.errors import UserError

MOST_POINTS = 1_000  # of a curve
WIDEST = 64  # dimensions of a vector that is shown
DEFAULT_RATE = 20.0  # control steps a second, where the data do not say
MOST_ATTRIBUTES = 20


def describe_collection(collection: Collection, annotations: Annotations) -> dict[str, Any]:
    """All demonstrations in a few words, for the grid.

    Args:
        collection: the demonstrations.
        annotations: what is known of them.
    """
    numbers = {id(dataset): number for number, dataset in enumerate(collection.datasets)}
    demos = []
    for number, demo in enumerate(collection.demos):
        verdict = annotations.verdicts.get(number)
        demos.append(
            {
                "name": demo.name,
                "dataset": numbers[id(demo.dataset)],
                "length": demo.length,
                "weight": _number(annotations.mean_weight(number)),
                "score": None if verdict is None else _number(verdict.score),
                "accused": verdict is not None and verdict.is_accused,
                "reason": "" if verdict is None else verdict.reason,
            }
        )
    return {
        "datasets": [
            {"name": dataset.name, "path": str(dataset.path), "target": dataset.is_target}
            for dataset in collection.datasets
        ],
        "demos": demos,
        "hasWeights": bool(annotations.weights),
        "hasScores": bool(annotations.verdicts),
    }


def describe_demo(
    number: int, collection: Collection, annotations: Annotations, neighbors: TargetNeighbors
) -> dict[str, Any]:
    """One demonstration with its curves, for the large view.

    Args:
        number: of the demonstration.
        collection: whose it is.
        annotations: what is known of it.
        neighbors: finds the nearest target demonstration.
    """
    demo = collection.demos[number]
    nearest = neighbors.nearest(number)
    verdict = annotations.verdicts.get(number)
    evidence = () if verdict is None else verdict.evidence
    return {
        "number": number,
        "length": demo.length,
        "rate": demo.dataset.reader.fps or DEFAULT_RATE,
        "cameras": cameras_of(demo),
        "panels": [*_vector_panels(demo), *_weight_panels(number, annotations)],
        "evidence": [
            {
                "text": item.text,
                "kind": item.kind,
                "fault": item.is_fault,
                "frames": None if item.frames is None else list(item.frames),
            }
            for item in evidence
        ],
        "pValue": None if verdict is None else _number(verdict.p_value),
        "attributes": _attributes(demo),
        "nearest": None if nearest is None else {"demo": nearest.demo, "by": nearest.by},
    }


def vectors_of(demo: Demo) -> dict[str, NDArray[np.float64]]:
    """Actions and proprioception, each (T, d); where the data do not say what is proprioception, all vectors.

    Args:
        demo: the demonstration.
    """
    reader = demo.dataset.reader
    vectors = {}
    with demo.dataset.lock:
        keys = reader.observation_keys(demo.name)
        numbers = [key for key, info in keys.items() if len(info.shape) <= 2 and info.dtype.kind in "biuf"]
        chosen = default_proprio(reader, {key: key for key in keys}) or sorted(numbers)
        for title, name in ((ACTIONS, ACTIONS), *((key, OBSERVATION + key) for key in chosen)):
            try:
                values = np.asarray(reader.read(demo.name, name), np.float64)
            except (UserError, ValueError, TypeError):  # one array that is damaged hides no other
                continue
            vectors[title] = values.reshape(len(values), -1)[:, :WIDEST]
    return vectors


def _vector_panels(demo: Demo) -> list[dict[str, Any]]:
    return [_panel(title, values, _dimensions(demo, title)) for title, values in vectors_of(demo).items()]


def _dimensions(demo: Demo, title: str) -> list[str] | None:
    with demo.dataset.lock:
        return demo.dataset.reader.dimension_names(ACTIONS if title == ACTIONS else OBSERVATION + title)


def _weight_panels(number: int, annotations: Annotations) -> list[dict[str, Any]]:
    curves = annotations.weights.get(number, {})
    return [_panel(name, values[:, None], [name]) for name, values in curves.items()]


def _panel(title: str, values: NDArray[np.float64], names: list[str] | None) -> dict[str, Any]:
    """Curves of one array; a long one is thinned."""
    steps = np.unique(np.linspace(0, max(0, len(values) - 1), min(len(values), MOST_POINTS)).round())
    shown = values[steps.astype(int)]
    labels = [str(name) for name in names or ()][: shown.shape[1]]
    return {
        "title": title,
        "names": labels if len(labels) == shown.shape[1] else [str(d) for d in range(shown.shape[1])],
        "steps": steps.astype(int).tolist(),
        "values": [[_number(value) for value in column] for column in shown.T.tolist()],
    }


def _attributes(demo: Demo) -> dict[str, str]:
    with demo.dataset.lock:
        attributes = demo.dataset.reader.attributes(demo.name)
    shown = {str(key): str(value)[:200] for key, value in list(attributes.items())[:MOST_ATTRIBUTES]}
    corruption = corruption_of(attributes)
    return {"known corruption": corruption, **shown} if corruption not in ("", "none") else shown


def _number(value: float | None) -> float | None:
    """Five digits; None for what JSON has no number for."""
    return float(f"{value + 0.0:.5g}") if value is not None and math.isfinite(value) else None
