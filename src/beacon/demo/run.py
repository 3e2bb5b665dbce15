"""The demo from beginning to end. What is done is kept: the same call goes on after an interruption."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from beacon.demo.plan import ORDER, SHOWN, DemoFolders, DemoPlan
from beacon.errors import UserError
from beacon.files import writing
from beacon.processes import Processes
from beacon.suites.datasets import provide
from beacon.suites.results import read_result
from beacon.suites.run_experiment import EVALUATE, TRAIN, Execution
from beacon.suites.runner import Notice, check, run_experiments

GENERATE, REPORT = "demonstrations", "report"
# Seconds on one core that one of each takes, roughly: how the stages share the bar.
COST = {GENERATE: 0.5, TRAIN: 0.14, EVALUATE: 0.35, REPORT: 15.0}
Advance = Callable[[str, float, float], None]  # what is being done, seconds of work done, in all


@dataclass(frozen=True)
class DemoResult:
    """What came of it."""

    report: Path
    table: list[tuple[str, int, int, float, float]]  # method, successes, episodes, interval
    verdict: str
    corruption_auc: float | None  # share of pairs in which a sound demonstration outweighs a corrupted one


class _Progress:
    """Adds up what is done of all stages."""

    def __init__(self, plan: DemoPlan, advance: Advance) -> None:
        self._plan, self._advance = plan, advance
        self.total = (
            (plan.source_demos + plan.target_demos) * COST[GENERATE]
            + len(SHOWN) * (plan.steps * COST[TRAIN] + plan.episodes * COST[EVALUATE])
            + COST[REPORT]
        )
        self._done: dict[tuple[str, str], float] = {}

    def tell(self, what: str, stage: str, done: float) -> None:
        """So many of a stage are done."""
        self._done[what, stage] = max(done * COST[stage], self._done.get((what, stage), 0.0))
        label = {
            GENERATE: f"making demonstrations: {what}",
            TRAIN: f"training {what}",
            EVALUATE: f"evaluating {what}",
            REPORT: "writing the report",
        }
        self._advance(label[stage], sum(self._done.values()), self.total)

    def of_demonstrations(self, label: str) -> Callable[[int, int], None]:
        """A listener to the making of source or target demonstrations."""
        return lambda done, _: self.tell(label, GENERATE, done)

    def hear(self, notice: Notice) -> None:
        """What the runner says of a method's run."""
        method = notice.experiment.method
        if notice.kind == "progress" and not notice.stage.startswith(GENERATE):
            self.tell(method, TRAIN if notice.stage == TRAIN else EVALUATE, notice.done)
        elif notice.kind == "done":
            self.tell(method, TRAIN, self._plan.steps)
            self.tell(method, EVALUATE, self._plan.episodes)


def run_demo(plan: DemoPlan, folder: Path, *, workers: int = 2, advance: Advance | None = None) -> DemoResult:
    """Make demonstrations, corrupt some, train, evaluate, report.

    Args:
        plan: sizes and seeds.
        folder: for everything that comes of it.
        workers: processes side by side; they do not change the result.
        advance: is told how far it is.
    """
    _check_simulator()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    plan.keep(folder)
    progress = _Progress(plan, advance or (lambda *_: None))
    folders = DemoFolders(folder, folder / "results")
    experiments = [plan.experiment(method) for method in ORDER]
    for label, spec in (("target", experiments[0].target), ("source", experiments[0].sources[0])):
        processes = min(workers, max(1, spec.demos // 20), os.cpu_count() or 1)  # a process costs seconds
        provide(spec, folders.data, progress.of_demonstrations(label), processes)
        progress.tell(label, GENERATE, spec.demos)
    with Processes(workers) as pool:
        execution = Execution(device="cpu", videos=plan.videos, keep_all=True)
        check(run_experiments(experiments, folders, pool, execution=execution, notify=progress.hear))
    return _finish(plan, folders, progress)


def _check_simulator() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("robosuite", "mujoco", "matplotlib") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"the demo needs {', '.join(missing)}; pip install 'beacon-cotraining[sim,report]', or: make demo"
        )


def _finish(plan: DemoPlan, folders: DemoFolders, progress: _Progress) -> DemoResult:
    from beacon.report import collect_settings, verdict, write_report

    progress.tell(REPORT, REPORT, 0.0)
    out = folders.work / "report.html"
    runs = {method: folders.run(plan.experiment(method)) for method in SHOWN}
    report = write_report(list(runs.values()), out)
    progress.tell(REPORT, REPORT, 1.0)
    settings = collect_settings(report.views)
    if not settings:
        raise UserError(f"{folders.work}: the evaluations are damaged; delete the folder, and begin again")
    results = {method: read_result(folders.result(plan.experiment(method))) for method in SHOWN}
    table = []
    for method, result in results.items():
        rate = result["evaluations"][0]["rates"]["success"]
        table.append((method, round(rate["successes"]), rate["episodes"], *rate["wilson_95"]))
    auc = results["beacon"]["weights"]["auc"]
    return DemoResult(out, table, verdict(settings[0]), auc)
