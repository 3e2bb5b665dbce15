"""One cell from beginning to end: demonstrations, training, evaluations, result. Goes on where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from beacon.files import write_bytes
from beacon.runs.evaluations import evaluation_file
from beacon.runs.run import Run
from beacon.suites.cell import Cell, EvaluationSpec
from beacon.suites.datasets import provide
from beacon.suites.locks import trying
from beacon.suites.results import Folders, machine, read_result, write_result

TRAIN, EVALUATE = "training", "evaluation"
DONE, BUSY = "done", "busy"
SECONDS = ".seconds.json"  # hidden: a run folder must be empty when a run starts
NOTED_EVERY = 10.0  # seconds
Tell = Callable[[str, int, int], None]  # stage, how many are done, of how many


@dataclass(frozen=True)
class Assignment:
    """A cell and where to do it."""

    cell: Cell
    folders: Folders  # absolute
    device: str = "auto"
    threads: int | None = 1


def perform(job: Assignment, tell: Tell) -> str:
    """Do the cell, unless it is done or another process is at it; says which."""
    cell, folders = job.cell, job.folders
    with trying(folders.lock(cell)) as free:
        if folders.is_done(cell):
            return DONE
        if not free:
            return BUSY
        folders.work.mkdir(parents=True, exist_ok=True)
        # Paths in the run's configuration are relative to the work folder, so that it may be moved.
        with chdir(folders.work):
            result = _perform(job, Folders(Path(), folders.results), tell)
        write_result(folders.result(cell), result)
        Run(folders.run(cell)).slim()
    return DONE


def _perform(job: Assignment, folders: Folders, tell: Tell) -> dict[str, Any]:
    from beacon.runs.weights_summary import summarise_weights
    from beacon.sim.versions import software
    from beacon.suites.embeddings import measure_embeddings
    from beacon.training.trainer import train

    cell, run = job.cell, folders.run(job.cell)
    for spec in cell.datasets:
        provide(spec, folders.data, partial(tell, f"demonstrations in {spec.domain}"))
    config = cell.train_config(
        folders.data, ratio=_matched_ratio(cell, folders), device=job.device, threads=job.threads
    )
    clock = Clock(run)
    tell(TRAIN, 0, cell.steps())

    def listen(event: Any) -> None:
        clock.tick(TRAIN)
        tell(TRAIN, event.step, event.steps)

    if not is_trained(cell, run):
        train(config, run, resume=True, listener=listen)
        clock.note(TRAIN)
    evaluations = [_evaluate(job.cell, one, run, clock, tell) for one in cell.evaluations]
    decisive = config.decisive()
    decisive["data"] = {
        name: value for name, value in decisive["data"].items() if name not in ("source", "target")
    }
    return {
        "key": cell.key,
        "configuration": cell.configuration(),
        "train_config": decisive,
        "evaluations": evaluations,
        "weights": summarise_weights(run),
        **({"alignment": measure_embeddings(cell, run, folders.data)} if cell.align else {}),
        "seconds": {stage: round(seconds, 1) for stage, seconds in clock.seconds.items()},
        "machine": machine(job.device),
        "versions": software(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def is_trained(cell: Cell, run: Path) -> bool:
    """Whether the last checkpoint is the end: nothing is left to do, and perhaps no optimiser to do it."""
    return Run(run).checkpoints.last == cell.steps()


def _matched_ratio(cell: Cell, folders: Folders) -> float | None:
    """The share of the source in another cell's weights, over its whole run, from its result."""
    if cell.match is None:
        return None
    weights = read_result(folders.result(cell.match))["weights"]
    return float(weights["mean_source_mass"])


def _evaluate(cell: Cell, wanted: EvaluationSpec, run: Path, clock: Clock, tell: Tell) -> dict[str, Any]:
    from beacon.sim.evaluate import EvaluateConfig, evaluate
    from beacon.sim.evaluate import read_result as read_evaluation

    out = evaluation_file(
        run,
        task=cell.task,
        size=cell.target.size,
        domain=wanted.domain,
        region=wanted.region,
        seed=wanted.seed,
        episodes=wanted.episodes,
    )
    stage = f"{EVALUATE} in {wanted.domain}, {wanted.region} region"
    if out.exists():
        found = read_evaluation(out)
    else:
        config = EvaluateConfig(
            task=cell.task,
            domain=wanted.domain,
            size=cell.target.size,
            region=wanted.region,
            episodes=wanted.episodes,
            seed=wanted.seed,
        )
        tell(stage, 0, wanted.episodes)

        def heard(done: int, total: int, _: int) -> None:
            clock.tick(EVALUATE)
            tell(stage, done, total)

        clock.start()
        found = evaluate(run, config, out=out, progress=heard)
        clock.note(EVALUATE)
    return compact_evaluation(found, wanted)


def compact_evaluation(found: Mapping[str, Any], wanted: EvaluationSpec) -> dict[str, Any]:
    """A result of `beacon evaluate` without what its seed gives anyway."""
    return {
        "domain": wanted.domain,
        "region": wanted.region,
        "seed": wanted.seed,
        "episodes": wanted.episodes,
        "states_sha256": found["initial_states"]["sha256"],
        "rates": found["rates"],
        "outcomes": {
            criterion: [_short(episode[criterion]) for episode in found["episodes"]]
            for criterion in found["rates"]
        },
    }


def _short(outcome: float) -> float | int:
    return int(outcome) if float(outcome).is_integer() else float(outcome)


class Clock:
    """Wall-clock seconds by stage, over all the calls that a cell took."""

    def __init__(self, run: Path) -> None:
        self._file = run / SECONDS
        self.seconds: dict[str, float] = {}
        with suppress(OSError, ValueError):
            self.seconds = {str(k): float(v) for k, v in json.loads(self._file.read_text()).items()}
        self.start()

    def start(self) -> None:
        """Time from now on counts."""
        self._since = time.monotonic()

    def tick(self, stage: str) -> None:
        """Note the time now and then."""
        if time.monotonic() - self._since > NOTED_EVERY:
            self.note(stage)

    def note(self, stage: str) -> None:
        """Add what has passed to a stage."""
        now = time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._since
        self._since = now
        if self._file.parent.exists():
            write_bytes(self._file, json.dumps(self.seconds).encode())
