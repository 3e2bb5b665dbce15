"""Training and evaluating the demo's runs side by side, each in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from beacon.demo.plan import ORDER, DemoPlan
from beacon.processes import POLL, Processes, failure
from beacon.runs.evaluations import evaluation_file

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
        return evaluation_file(
            self.run,
            task=plan.task,
            size=plan.size,
            domain=plan.target_domain,
            region="train",
            seed=1000,
        )


def perform(job: RunJob, tell: Callable[[str, int], None]) -> None:
    """Train and evaluate; what is done already is not done again. ``tell(stage, how many are done)``."""
    from beacon.sim.evaluate import EvaluateConfig, evaluate
    from beacon.training.trainer import train

    plan = job.plan
    if job.result.exists():
        return
    config = plan.train_config(job.method, job.folder / "data")
    train(config, job.run, resume=True, listener=lambda event: tell(TRAIN, event.step))
    wanted = EvaluateConfig(
        task=plan.task,
        domain=plan.target_domain,
        size=plan.size,
        episodes=plan.episodes,
        videos=plan.videos,
    )
    evaluate(job.run, wanted, out=job.result, progress=lambda done, *_: tell(EVALUATE, done))


def perform_all(plan: DemoPlan, folder: Path, workers: int, tell: Tell) -> None:
    """All methods, ``workers`` at a time, each in a process of its own."""
    waiting = [RunJob(method, plan, folder) for method in ORDER]
    with Processes(workers) as processes:
        while waiting or processes.names:
            while waiting and processes.free:
                job = waiting.pop(0)
                processes.start(job.method, perform, job)
            for event in processes.events():
                if event.kind == "failed":
                    raise failure(event)
                if event.kind == "progress":
                    tell(event.name, *event.value)
                else:
                    tell(event.name, TRAIN, plan.steps)
                    tell(event.name, EVALUATE, plan.episodes)
            time.sleep(POLL)
