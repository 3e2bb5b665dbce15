"""One experiment from demonstrations and training to evaluations and result. Goes on where it stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from beacon.files import write_bytes
from beacon.runs.evaluations import evaluation_file
from beacon.runs.run import Run
from beacon.suites.datasets import provide
from beacon.suites.experiment import EvaluationSpec, Experiment
from beacon.suites.locks import trying
from beacon.suites.results import Folders, machine, read_result, write_result

TRAIN, EVALUATE = "training", "evaluation"
DONE, BUSY = "done", "busy"
SECONDS = ".seconds.json"  # hidden: a run folder must be empty when a run starts
NOTED_EVERY = 10.0  # seconds
Tell = Callable[[str, int, int], None]  # stage, how many are done, of how many


@dataclass(frozen=True)
class Execution:
    """How to run experiments; none of it changes a result.

    Args:
        device: where to compute.
        threads: of torch; None leaves them as they are.
        videos: successes and failures of each evaluation to film.
        keep_all: leave everything in the run folder, also what only going on with the training needs.
    """

    device: str = "auto"
    threads: int | None = 1
    videos: int = 0
    keep_all: bool = False


@dataclass(frozen=True)
class Assignment:
    """An experiment, where to keep it and how to run it."""

    experiment: Experiment
    folders: Folders
    execution: Execution = field(default_factory=Execution)


def run_experiment(job: Assignment, tell: Tell) -> str:
    """Do the experiment, unless it is done or another process is at it; says which."""
    experiment, folders = job.experiment, job.folders
    with trying(folders.lock(experiment)) as free:
        if folders.is_done(experiment):
            return DONE
        if not free:
            return BUSY
        folders.work.mkdir(parents=True, exist_ok=True)
        with folders.entered() as inside:
            result = _run(job, inside, tell)
        write_result(folders.result(experiment), result)
        if not job.execution.keep_all:
            Run(folders.run(experiment)).slim()
    return DONE


def _run(job: Assignment, folders: Folders, tell: Tell) -> dict[str, Any]:
    from beacon.runs.provenance import describe_run
    from beacon.runs.weights_summary import summarise_weights
    from beacon.sim.versions import software
    from beacon.suites.embeddings import measure_embeddings
    from beacon.training.run import train

    experiment, run = job.experiment, folders.run(job.experiment)
    for spec in experiment.datasets:
        provide(spec, folders.data, partial(tell, f"demonstrations in {spec.domain}"))
    config = experiment.train_config(
        folders.data,
        ratio=_matched_ratio(experiment, folders),
        device=job.execution.device,
        threads=job.execution.threads,
    )
    clock = Clock(run)
    tell(TRAIN, 0, experiment.steps())

    def listen(event: Any) -> None:
        clock.tick(TRAIN)
        tell(TRAIN, event.step, event.steps)

    if not is_trained(experiment, run):
        train(config, run, resume=True, listener=listen)
        clock.note(TRAIN)
    evaluations = [_evaluate(job, spec, run, clock, tell) for spec in experiment.evaluations]
    decisive = config.decisive()
    decisive["data"] = {
        name: value for name, value in decisive["data"].items() if name not in ("source", "target")
    }
    return {
        "key": experiment.key,
        "configuration": experiment.configuration(),
        "train_config": decisive,
        "evaluations": evaluations,
        "weights": summarise_weights(run),
        **({"alignment": measure_embeddings(experiment, run, folders.data)} if experiment.align else {}),
        "seconds": {stage: round(seconds, 1) for stage, seconds in clock.seconds.items()},
        "machine": machine(job.execution.device),
        "versions": software(),
        "provenance": describe_run(run),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def is_trained(experiment: Experiment, run: Path) -> bool:
    """Whether the last checkpoint is the end: nothing is left to do, and perhaps no optimiser to do it."""
    return Run(run).checkpoints.last == experiment.steps()


def _matched_ratio(experiment: Experiment, folders: Folders) -> float | None:
    """The share of the source in another experiment's weights, over its whole run, from its result."""
    if experiment.match is None:
        return None
    weights = read_result(folders.result(experiment.match))["weights"]
    return float(weights["mean_source_mass"])


def _evaluate(job: Assignment, wanted: EvaluationSpec, run: Path, clock: Clock, tell: Tell) -> dict[str, Any]:
    from beacon.sim.evaluate import EvaluateConfig, evaluate
    from beacon.sim.evaluate import read_result as read_evaluation

    task, size = job.experiment.task, job.experiment.target.size
    out = evaluation_file(
        run,
        task=task,
        size=size,
        domain=wanted.domain,
        region=wanted.region,
        seed=wanted.seed,
        episodes=wanted.episodes,
    )
    stage = f"{EVALUATE} in {wanted.domain}, {wanted.region} region"
    if out.exists():
        report = read_evaluation(out)
    else:
        config = EvaluateConfig(
            task=task,
            domain=wanted.domain,
            size=size,
            region=wanted.region,
            episodes=wanted.episodes,
            seed=wanted.seed,
            videos=job.execution.videos,
            device=job.execution.device,
        )
        tell(stage, 0, wanted.episodes)

        def heard(done: int, total: int, _: int) -> None:
            clock.tick(EVALUATE)
            tell(stage, done, total)

        clock.start()
        report = evaluate(run, config, out=out, progress=heard)
        clock.note(EVALUATE)
    return compact_evaluation(report, wanted)


def compact_evaluation(report: Mapping[str, Any], wanted: EvaluationSpec) -> dict[str, Any]:
    """A result of `beacon evaluate` without what its seed gives anyway."""
    return {
        "domain": wanted.domain,
        "region": wanted.region,
        "seed": wanted.seed,
        "episodes": wanted.episodes,
        "states_sha256": report["initial_states"]["sha256"],
        "rates": report["rates"],
        "outcomes": {
            criterion: [_short(episode[criterion]) for episode in report["episodes"]]
            for criterion in report["rates"]
        },
    }


def _short(outcome: float) -> float | int:
    return int(outcome) if float(outcome).is_integer() else float(outcome)


class Clock:
    """Wall-clock seconds by stage, over all the calls that an experiment took."""

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
