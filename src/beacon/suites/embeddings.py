"""How well source and target mix in what a trained policy sees, and a map of it that fits a result."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from beacon.errors import RunError
from beacon.report import DemonstrationPool, Mapper, Projection, read_run
from beacon.suites.experiment import Experiment
from beacon.training.config import DataOptions
from beacon.training.loading import load_training_sets

SHOWN = 250  # points of each side that a result keeps; the numbers are of all


def measure_embeddings(experiment: Experiment, run: Path, data: Path) -> dict[str, Any]:
    """Numbers and a map of source and target windows, whichever of them the method has trained on."""
    options = DataOptions(
        source=tuple(data / spec.file_name for spec in experiment.sources),
        target=data / experiment.target.file_name,
        target_demos=experiment.target_demos,
        image_size=experiment.image_size,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # training has warned
        library = DemonstrationPool(options, load_training_sets(options))
    demos, times = library.map_sample()
    record = read_run(run)
    projection: Projection = "umap" if find_spec("umap") is not None else "pca"
    made = Mapper(projection)(record, library, demos, times)
    if made is None:
        why = record.missing[-1].text if record.missing else "there is no checkpoint"
        raise RunError(f"the embeddings of {run} could not be mapped: {why}")
    on_target = library.domain[demos] == library.target
    shown = np.concatenate([_some(np.flatnonzero(~on_target)), _some(np.flatnonzero(on_target))])
    return {
        "projection": made.projection,
        "numbers": made.alignment,  # space -> before or after training -> number
        "target": on_target[shown].astype(int).tolist(),
        "map": {
            space: {
                axis: [round(float(value), 2) for value in planes["after"][shown, column]]
                for column, axis in enumerate(("x", "y"))
            }
            for space, planes in made.planes.items()
        },
    }


def _some(rows: Any) -> Any:
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), SHOWN)).round().astype(int))]
