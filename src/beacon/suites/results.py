"""Where a suite keeps things: what is large in the work folder, what is to stay in the results folder."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon.errors import UserError
from beacon.files import write_bytes
from beacon.runs.provenance import processor
from beacon.suites.experiment import Experiment
from beacon.suites.locks import is_held

NEEDED = ("key", "configuration", "evaluations", "seconds")


@dataclass(frozen=True)
class Folders:
    """The two folders of a command."""

    work: Path = Path("runs/suites")
    results: Path = Path("results")

    def resolved(self) -> Folders:
        """With absolute paths, for other processes."""
        return Folders(self.work.resolve(), self.results.resolve())

    @contextmanager
    def entered(self) -> Iterator[Folders]:
        """Inside of the work folder: paths in configurations are relative to it, so that it may be moved."""
        with chdir(self.work):
            yield Folders(Path(), self.results)

    def prepare(self) -> None:
        """Make the folders, so that what is in their way shows before the work."""
        for folder in (self.work, self.results / "cells"):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"cannot make the folder {folder}: {error.strerror}") from None

    @property
    def data(self) -> Path:
        """Demonstrations."""
        return self.work / "data"

    def run(self, experiment: Experiment) -> Path:
        """The run folder."""
        return self.work / "runs" / experiment.training_key

    def lock(self, experiment: Experiment) -> Path:
        """Held by whoever works on the run."""
        return self.work / "locks" / experiment.training_key

    def result(self, experiment: Experiment) -> Path:
        """The result; an experiment is done when this file is there."""
        return self.results / "cells" / f"{experiment.key}.json"

    def is_done(self, experiment: Experiment) -> bool:
        """Whether there is a result."""
        return self.result(experiment).exists()

    def stored_seeds(self) -> list[int]:
        """Training seeds that any result has."""
        results = (read_result(path) for path in (self.results / "cells").glob("*.json"))
        return sorted({int(result["configuration"]["seed"]) for result in results})

    def state(self, experiment: Experiment) -> str:
        """Done, running or missing."""
        if self.is_done(experiment):
            return "done"
        return "running" if is_held(self.lock(experiment)) else "missing"


def read_result(path: Path) -> dict[str, Any]:
    """The result of an experiment."""
    try:
        result = json.loads(path.read_text())
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path}: not a result of beacon suite ({error}); delete it to run it again"
        ) from None
    if not isinstance(result, dict) or any(name not in result for name in NEEDED):
        raise UserError(f"{path}: not a result of beacon suite; delete it to run it again")
    if result["key"] != path.stem:
        raise UserError(f"{path}: is the result of {result['key']}; give it its own name back, or delete it")
    return result


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write atomically, one line for every list of plain values."""
    write_bytes(path, (compact(result) + "\n").encode())


def compact(value: Any, indent: str = "") -> str:
    """JSON that a person can read and a version control can compare."""
    inner = indent + " "
    if isinstance(value, Mapping) and value:
        lines = [f"{inner}{json.dumps(str(key))}: {compact(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        return "[\n" + ",\n".join(f"{inner}{compact(item, inner)}" for item in value) + f"\n{indent}]"
    return json.dumps(value)


def machine(device: str) -> dict[str, Any]:
    """What the work was done on, where ``device`` was asked for; no name that identifies it."""
    import torch

    from beacon.devices import choose_device

    used = choose_device(device)
    description: dict[str, Any] = {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "device": used.type,
    }
    if used.type == "cuda":
        description["gpu"] = torch.cuda.get_device_name(used)
    return description
