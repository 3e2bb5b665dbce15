"""Running the experiments of a suite: side by side, none twice, in any number of commands and machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from beacon.errors import RunError
from beacon.processes import POLL, Event, Workers
from beacon.suites.experiment import Experiment
from beacon.suites.locks import is_held
from beacon.suites.results import Folders
from beacon.suites.run_experiment import BUSY, Assignment, Execution, run_experiment

RETRY = 5.0  # seconds until an experiment that another command works on is tried again


@dataclass(frozen=True)
class Notice:
    """Something to tell the user about an experiment."""

    experiment: Experiment
    kind: str  # started, progress, done, failed, busy
    stage: str = ""
    done: int = 0
    total: int = 0
    text: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of a command."""

    done: int  # now, of the experiments asked for
    failed: Mapping[str, str]  # key of the experiment -> why
    blocked: int  # that wait for an experiment that failed


def run_experiments(
    experiments: Sequence[Experiment],
    folders: Folders,
    workers: Workers,
    *,
    execution: Execution | None = None,
    notify: Callable[[Notice], None] | None = None,
) -> Outcome:
    """Run all experiments that are not done. A failure of one leaves the others alone.

    Args:
        experiments: in the order of work.
        folders: where demonstrations, runs and results are.
        workers: who runs them.
        execution: how; None: as `Execution` has it.
        notify: is told what happens.
    """
    folders, say, how = folders.resolved(), notify or (lambda _: None), execution or Execution()
    by_key = {experiment.key: experiment for experiment in experiments}
    failed: dict[str, str] = {}
    not_before: dict[str, float] = {}  # of experiments that another command works on
    while True:
        left = [c for c in experiments if c.key not in failed and not folders.is_done(c)]
        running = set(workers.names)
        # Experiments that share a run are done one after the other.
        taken = {by_key[key].training_key for key in running}
        now = time.monotonic()
        ready = [
            c
            for c in left
            if c.training_key not in taken
            and now >= not_before.get(c.key, 0.0)
            and (c.match is None or folders.is_done(c.match))
        ]
        if workers.free and ready:
            experiment = ready[0]
            if is_held(folders.lock(experiment)):
                not_before[experiment.key] = now + RETRY
                say(Notice(experiment, "busy"))
                continue
            say(Notice(experiment, "started"))
            workers.start(experiment.key, run_experiment, Assignment(experiment, folders, how))
            continue
        waits = any(c.match is None or c.match.key not in failed for c in left)
        if not running and not waits:
            break
        for event in workers.events():
            notice = _notice(by_key[event.name], event)
            if notice.kind == "failed":
                failed[event.name] = notice.text
            elif notice.kind == "busy":
                not_before[event.name] = time.monotonic() + RETRY
            say(notice)
        time.sleep(POLL)
    done = sum(folders.is_done(experiment) for experiment in experiments)
    return Outcome(done, failed, len(experiments) - done - len(failed))


def _notice(experiment: Experiment, event: Event) -> Notice:
    if event.kind == "progress":
        stage, done, total = event.value
        return Notice(experiment, "progress", stage, done, total)
    if event.kind == "failed":
        return Notice(experiment, "failed", text=str(event.value[1]))
    return Notice(experiment, "busy" if event.value == BUSY else "done")


def check(outcome: Outcome) -> None:
    """Complain if some experiments failed."""
    if outcome.failed:
        key, why = next(iter(outcome.failed.items()))
        waiting = f", {outcome.blocked} that wait for them are left" if outcome.blocked else ""
        raise RunError(
            f"{len(outcome.failed)} of the experiments failed{waiting}; the first is {key}: {why}; "
            "the same command tries them again"
        )
