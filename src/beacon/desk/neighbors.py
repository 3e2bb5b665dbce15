"""The target demonstration that is nearest to a demonstration: by its way, else by its first picture."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.data.formats.base import OBSERVATION
from beacon.data.images import resize
from beacon.data.loading import default_proprio
from beacon.desk.collection import Collection, Demo
from beacon.desk.pictures import cameras_of, read_frames

PHASES = 16  # moments of a demonstration that are compared
GRID = 12  # pixels along either side of the pictures that are compared

Features = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Nearest:
    """The nearest target demonstration."""

    demo: int
    by: str  # what was compared


class TargetNeighbors:
    """Finds nearest target demonstrations; features of the target are read once, when first needed.

    Args:
        collection: with the target's demonstrations among its own.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._targets: dict[int, Features] | None = None
        self._lock = threading.Lock()

    def nearest(self, demo: int) -> Nearest | None:
        """The nearest target demonstration other than itself; None where none can be compared.

        Args:
            demo: number of the demonstration.
        """
        others = {number: features for number, features in self._features().items() if number != demo}
        if not others:
            return None
        own = _read(self._collection.demos[demo])
        for by, keys in (("proprioception", _ways(own)), ("first pictures", _views(own))):
            comparable = {
                number: np.concatenate([features[key].ravel() for key in keys])
                for number, features in others.items()
                if keys and all(key in features and features[key].shape == own[key].shape for key in keys)
            }
            if comparable:
                rows = np.stack(list(comparable.values()))
                spread = rows.std(axis=0) + 1e-3 * (np.abs(rows).max() + 1e-9)
                vector = np.concatenate([own[key].ravel() for key in keys])
                distances = np.linalg.norm((rows - vector) / spread, axis=1)
                return Nearest(list(comparable)[int(distances.argmin())], by)
        return None

    def _features(self) -> dict[int, Features]:
        with self._lock:
            if self._targets is None:
                demos = self._collection.demos
                self._targets = {number: _read(demos[number]) for number in self._collection.targets}
            return self._targets


def _read(demo: Demo) -> Features:
    """Proprioception at some moments, and the first picture of every camera, small."""
    features: Features = {}
    reader = demo.dataset.reader
    with demo.dataset.lock:
        keys = reader.observation_keys(demo.name)
        for key in default_proprio(reader, {key: key for key in keys}):
            values = np.asarray(reader.read(demo.name, OBSERVATION + key), np.float64)
            steps = np.linspace(0, len(values) - 1, PHASES).round().astype(int)
            features["way/" + key] = np.nan_to_num(values.reshape(len(values), -1)[steps])
    for camera in cameras_of(demo):
        picture = resize(read_frames(demo, camera, 0, 1), (GRID, GRID))
        features["view/" + camera] = picture.astype(np.float64)
    return features


def _ways(features: Features) -> list[str]:
    return [key for key in features if key.startswith("way/")]


def _views(features: Features) -> list[str]:
    return [key for key in features if key.startswith("view/")]
