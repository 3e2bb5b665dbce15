"""Run folders: the only code that knows their files.

run                     `Run`: what a run folder says, read when it is asked for
folder                  `RunFolder`: a run folder as the trainer writes it
layout                  names of files and folders
reading                 small files, read with limits
lock                    one process at a time
data_records            data.json: which demonstrations a run was trained on
metrics                 metrics.jsonl: lines in, series of numbers out
checkpoints             checkpoints/: which there are, which is the newest, saving and pruning
weight_history          weights/: written at every checkpoint
weight_tables           weights/: read as arrays
demonstration_weights   weights by demonstration: shown, exported, used to choose demonstrations
demonstrations          what the datasets of a run say of its demonstrations
initial_states          how far from the target's demonstrations they start
weights_summary         what the weights of a run came to, in a few numbers
evaluations             eval/*.json: named and read
comparison              several of them, and LeRobot's, beside each other
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.runs.data_records import DomainRecord, describe
    from beacon.runs.evaluations import Evaluation, evaluation_name
    from beacon.runs.folder import RunFolder
    from beacon.runs.run import Run
    from beacon.runs.weight_history import WeightHistory
    from beacon.runs.weight_tables import EpisodeHistory, WindowTable

__all__ = [
    "DomainRecord",
    "EpisodeHistory",
    "Evaluation",
    "Run",
    "RunFolder",
    "WeightHistory",
    "WindowTable",
    "describe",
    "evaluation_name",
]

_HOMES = {
    "DomainRecord": "data_records",
    "EpisodeHistory": "weight_tables",
    "Evaluation": "evaluations",
    "Run": "run",
    "RunFolder": "folder",
    "WeightHistory": "weight_history",
    "WindowTable": "weight_tables",
    "describe": "data_records",
    "evaluation_name": "evaluations",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.runs.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.runs' has no attribute {name!r}")
