"""The demo from beginning to end. What is done is kept: the same call goes on after an interruption."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon.data.corruption import write_corrupted
from beacon.demo.jobs import EVALUATE, TRAIN, RunJob, perform_all
from beacon.demo.plan import SHOWN, DemoPlan
from beacon.errors import UserError
from beacon.files import writing

# Seconds on one core that one of each takes, roughly: how the stages share the bar.
COST = {"generate": 0.5, TRAIN: 0.14, EVALUATE: 0.35, "report": 70.0}
Advance = Callable[[str, float, float], None]  # what is being done, seconds of work done, in all


@dataclass(frozen=True)
class DemoResult:
    """What came of it."""

    report: Path
    table: list[tuple[str, int, int, float, float]]  # method, successes, episodes, interval
    verdict: str
    flaws_found: float | None  # how often BEACON's weights rank a sound demonstration above a flawed one


class _Work:
    """Adds up what is done of all stages."""

    def __init__(self, plan: DemoPlan, advance: Advance) -> None:
        self._advance = advance
        demos = plan.source_demos + plan.target_demos
        methods = len(SHOWN)
        self.total = (
            demos * COST["generate"]
            + methods * (plan.steps * COST[TRAIN] + plan.episodes * COST[EVALUATE])
            + COST["report"]
        )
        self._done: dict[tuple[str, str], float] = {}

    def tell(self, what: str, stage: str, done: float) -> None:
        """So many of a stage are done."""
        self._done[what, stage] = max(done * COST[stage], self._done.get((what, stage), 0.0))
        label = {
            "generate": f"making demonstrations: {what}",
            TRAIN: f"training {what}",
            EVALUATE: f"evaluating {what}",
            "report": "writing the report",
        }
        self._advance(label[stage], sum(self._done.values()), self.total)


def tell(plan: DemoPlan, folder: Path, *, workers: int = 2, advance: Advance | None = None) -> DemoResult:
    """Generate, spoil some, train, evaluate, report."""
    _check_simulator()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    plan.keep(folder)
    work = _Work(plan, advance or (lambda *_: None))
    _make_data(plan, folder / "data", workers, work)
    perform_all(plan, folder, workers, work.tell)
    return _finish(plan, folder, work)


def _check_simulator() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("robosuite", "mujoco", "matplotlib", "umap") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"the demo needs {', '.join(missing)}; pip install 'beacon-cotraining[sim,report]', or: make demo"
        )


def _make_data(plan: DemoPlan, data: Path, workers: int, work: _Work) -> None:
    from beacon.sim.generate import GenerateConfig, generate

    # Seeds apart: no target demonstration starts where a source demonstration does.
    for name, domain, demos, seed in (
        ("target", plan.target_domain, plan.target_demos, 2 * plan.seed + 1),
        ("sound", plan.source_domain, plan.source_demos, 2 * plan.seed + 2),
    ):
        file = data / f"{name}.hdf5"
        label = "target" if name == "target" else "source"
        if not file.exists() and not (name == "sound" and (data / "source.hdf5").exists()):
            config = GenerateConfig(
                task=plan.task,
                out=file,
                demos=demos,
                domain=domain,
                size=plan.size,
                seed=seed,
                workers=min(workers, max(1, demos // 20), os.cpu_count() or 1),  # a process costs seconds
            )
            generate(config, lambda done, *_, label=label: work.tell(label, "generate", done))
        work.tell(label, "generate", demos)
    if not (data / "source.hdf5").exists():
        write_corrupted(data / "sound.hdf5", data / "source.hdf5", dict(plan.faults), plan.seed)


def _finish(plan: DemoPlan, folder: Path, work: _Work) -> DemoResult:
    from beacon.methods import METHODS, Beacon
    from beacon.report import write_report
    from beacon.report.glance import verdict
    from beacon.report.origins import measure_bias
    from beacon.report.success import collect_settings

    work.tell("report", "report", 0.0)
    out = folder / "report.html"
    projection: Any = "pca" if plan.tiny_policy else "umap"
    report = write_report([folder / method for method in SHOWN], out, projection=projection)
    work.tell("report", "report", 1.0)
    settings = collect_settings(report.views)
    if not settings:
        lacking = [m for m in SHOWN if not RunJob(m, plan, folder).result.exists()]
        raise UserError(
            f"{folder}: the evaluations of {', '.join(lacking)} are damaged; delete them and go on"
        )
    rates = [rate for rate in settings[0].rates if rate.criterion == settings[0].criteria[0]]
    table = [(r.view.record.method, round(r.successes), r.episodes, r.low, r.high) for r in rates]
    weighing = [view for view in report.views if issubclass(METHODS.get(view.record.method, object), Beacon)]
    found = [measure_bias(view).found_flaws for view in weighing]
    return DemoResult(out, table, verdict(settings[0]), found[0] if found else None)
