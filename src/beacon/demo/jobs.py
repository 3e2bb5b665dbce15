"""Training and evaluating the demo's runs side by side, each in a process of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from beacon.demo.plan import ORDER, DemoPlan
from beacon.errors import RunError, UserError

POLL = 0.25  # seconds
TRAIN, EVALUATE = "train", "evaluate"
Tell = Callable[[str, str, int], None]  # method, stage, how many of the stage are done


@dataclass(frozen=True)
class RunJob:
    """One method of the demo."""

    method: str
    plan: DemoPlan
    folder: Path  # of the demo

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / self.method

    @property
    def result(self) -> Path:
        """The evaluation's file, where `beacon evaluate` would put it."""
        plan = self.plan
        return self.run / "eval" / f"{plan.task}-{plan.size}-{plan.target_domain}-train-1000.json"


def perform(job: RunJob, tell: Tell) -> None:
    """Train and evaluate; what is done already is not done again."""
    from beacon.sim.evaluate import EvaluateConfig, evaluate
    from beacon.training.trainer import train

    plan = job.plan
    config = plan.train_config(job.method, job.folder / "data")
    if not job.result.exists():
        train(config, job.run, resume=True, listener=lambda event: tell(job.method, TRAIN, event.step))
        tell(job.method, TRAIN, plan.steps)
        wanted = EvaluateConfig(
            task=plan.task,
            domain=plan.target_domain,
            size=plan.size,
            episodes=plan.episodes,
            videos=plan.videos,
        )
        evaluate(job.run, wanted, out=job.result, progress=lambda done, *_: tell(job.method, EVALUATE, done))
    tell(job.method, TRAIN, plan.steps)
    tell(job.method, EVALUATE, plan.episodes)


def perform_all(plan: DemoPlan, folder: Path, workers: int, tell: Tell) -> None:
    """All methods, ``workers`` at a time."""
    jobs = [RunJob(method, plan, folder) for method in ORDER]
    if workers == 1:
        for job in jobs:
            perform(job, tell)
        return
    with _processes(jobs, workers) as messages:
        for method, stage, done in messages:
            tell(method, stage, done)


@contextmanager
def _processes(jobs: list[RunJob], workers: int) -> Iterator[Iterator[tuple[str, str, int]]]:
    context = get_context("spawn")  # OpenGL and numba do not survive a fork
    waiting = list(jobs)
    running: dict[str, tuple[Any, Any]] = {}

    def start() -> None:
        while waiting and len(running) < workers:
            job = waiting.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_work, args=(job, theirs), name=f"demo-{job.method}", daemon=True
            )
            process.start()
            theirs.close()
            running[job.method] = (process, ours)

    def messages() -> Iterator[tuple[str, str, int]]:
        start()
        while running:
            for method, (process, connection) in list(running.items()):
                newest: dict[str, int] = {}
                ended = False
                try:
                    while connection.poll():
                        kind, value = connection.recv()
                        if kind == "failed":
                            error, text = value
                            raise (UserError if error == "UserError" else RunError)(f"{method}: {text}")
                        ended = ended or kind == "done"
                        if kind != "done":
                            newest[kind] = value
                except EOFError:
                    if not ended:
                        raise RunError(
                            f"{method}: its process died (killed, or out of memory); "
                            "run the same command again to go on"
                        ) from None
                for stage, done in newest.items():
                    yield method, stage, done
                if ended:
                    process.join()
                    del running[method]
                    start()
            time.sleep(POLL)

    try:
        yield messages()
    finally:
        # Checkpoints appear whole or not at all, so a run may be stopped anywhere.
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()


def _work(job: RunJob, connection: Any) -> None:
    """A process: only the parent hears Ctrl-C, and then stops this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch

    torch.set_num_threads(1)
    last = [0.0]

    def tell(method: str, stage: str, done: int) -> None:
        if time.monotonic() - last[0] > POLL or done == 0:
            last[0] = time.monotonic()
            connection.send((stage, done))

    try:
        perform(job, tell)
        connection.send((TRAIN, job.plan.steps))
        connection.send((EVALUATE, job.plan.episodes))
        connection.send(("done", 0))
    except (UserError, RunError) as error:
        connection.send(("failed", (type(error).__name__, str(error))))
    except Exception as error:
        connection.send(("failed", ("RunError", f"{type(error).__name__}: {error}")))
