"""``beacon train --evaluate-every N``: checkpoints are evaluated beside the training, in another process.

One process at a time, of low priority, for one checkpoint. It ends with the command, however that ends. What
goes wrong in it is one line, and the training goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beacon.errors import RunError, UserError
from beacon.policy.config import ObservationSpec
from beacon.processes import GOES_ON, Event, Processes, failure
from beacon.training.early_looks import Look, LookOptions

if TYPE_CHECKING:
    from beacon.sim.evaluate import EvaluateConfig

NICENESS = 15  # a share of 3% of a core that the training wants for itself
PAUSE = 0.1  # seconds between two questions while there is nothing else to do
SETTING = ("task", "size", "domain", "region")
CHECK = "--evaluate-every"  # name of the job before the training
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LookJob:
    """A checkpoint to look at."""

    step: int
    checkpoint: Path
    setting: EvaluateConfig


class CheckpointLooks:
    """Looks at the checkpoints of a run; a `beacon.training.early_looks.EarlyLooks`.

    Args:
        setting: task, domain, region and episodes.
        processes: room for one.
    """

    def __init__(self, setting: EvaluateConfig, processes: Processes) -> None:
        self._setting, self._processes = setting, processes
        self._waiting: LookJob | None = None  # the newest that could not begin
        self._under_way: LookJob | None = None

    def check(self, spec: ObservationSpec) -> None:
        """Refuse what the task cannot be played with; takes as long as making the task."""
        with Processes(1) as processes:  # of full priority, because nothing else goes on yet
            processes.start(CHECK, check_setting, (self._setting, spec))
            while not (events := _ends(processes)):
                time.sleep(PAUSE)
        if events[0].kind == "failed":
            raise failure(events[0])

    def saved(self, step: int, checkpoint: Path) -> None:
        """Look at a checkpoint now, or when the look before has ended, unless a newer one comes."""
        if self._waiting is not None:
            logger.info(
                f"no early look at step {self._waiting.step}: that at step "
                f"{self._under_way.step if self._under_way else step} takes too long; "
                "take a larger --evaluate-every or fewer --evaluate-episodes"
            )
        self._waiting = LookJob(step, checkpoint, self._setting)
        self._begin()

    def news(self) -> list[Look]:
        """What was seen since the last call, also said in a line each."""
        looks = []
        for event in _ends(self._processes):
            job, self._under_way = self._under_way, None
            if job is not None and (look := _told(job, event)) is not None:
                looks.append(look)
        self._begin()
        return looks

    def finish(self) -> list[Look]:
        """Wait for what is under way or waits; Ctrl-C leaves it out."""
        looks = self.news()
        if self._under_way is not None:
            logger.info("training is done; waiting for the last early look (Ctrl-C leaves it out)")
        with suppress(KeyboardInterrupt):
            while self._under_way is not None:
                time.sleep(PAUSE)
                looks += self.news()
        return looks

    def _begin(self) -> None:
        if self._waiting is None or not self._processes.free:
            return
        job, self._waiting = self._waiting, None
        try:
            self._processes.start(f"step {job.step}", look_at, job)
            self._under_way = job
        except OSError as error:  # no memory, or no more processes
            logger.info(f"no early look at step {job.step}: {error.strerror or error}; training goes on")


@contextmanager
def early_looks(options: LookOptions) -> Iterator[CheckpointLooks | None]:
    """Who looks at the checkpoints of a run while the block runs; None where nobody is to.

    Args:
        options: of the run.
    """
    if options.evaluate_every is None:
        yield None
        return
    setting = _setting(options)
    with Processes(1, niceness=NICENESS) as processes:
        yield CheckpointLooks(setting, processes)


def check_setting(job: tuple[EvaluateConfig, ObservationSpec], tell: Callable[..., None]) -> None:
    """In a process of its own: whether a policy can be tried in a task at all.

    Args:
        job: the setting, and what the policy sees and does.
        tell: not called.
    """
    setting, spec = job
    with needing_simulation():
        from beacon.policy.deployment import DeploymentInfo
        from beacon.policy.observations import read_observation
        from beacon.sim.batch import check_shapes
        from beacon.sim.simulation import make_world

        world = make_world(setting.task, setting.domain, setting.size)
        cameras = [key for key in world.image_keys if key in spec.cameras]
        check_shapes([*spec.cameras, *spec.proprio], spec.action_dim, world)
        episode = world.episode()
        episode.reset(world.initial_state(setting.region, setting.seed))
        read_observation(episode.observe(bool(cameras), cameras), spec, DeploymentInfo(), "step")


def look_at(job: LookJob, tell: Callable[..., None]) -> dict[str, Any] | None:
    """In a process of its own: evaluate a checkpoint; None where it is there no more.

    Args:
        job: which, and in what setting.
        tell: not called.
    """
    from beacon.sim.evaluate import evaluate

    try:
        result = evaluate(job.checkpoint, job.setting)
        return {name: result[name] for name in (*SETTING, "rates", "seconds")}
    except (UserError, RunError, OSError):
        if job.checkpoint.exists():
            raise
        return None  # newer ones have taken its place


@contextmanager
def needing_simulation() -> Iterator[None]:
    """Say what to install where the simulator is not."""
    try:
        yield
    except ImportError as error:
        raise UserError(
            f"early looks need simulation, and {error}; run: pip install 'beacon-cotraining[sim]'"
        ) from None


def _setting(options: LookOptions) -> EvaluateConfig:
    with needing_simulation():
        from beacon.sim.domains import resolve_domain
        from beacon.sim.evaluate import EvaluateConfig
        from beacon.sim.tasks import make_task
    task = options.evaluate_task or ""  # LookOptions refuse to go without
    make_task(task, options.evaluate_size)
    return EvaluateConfig(
        task=task,
        domain=resolve_domain(options.evaluate_domain),
        size=options.evaluate_size,
        region=options.evaluate_region,
        episodes=options.evaluate_episodes,
        seed=options.evaluate_seed,
        device=options.evaluate_device,
    )


def _ends(processes: Processes) -> list[Event]:
    return [event for event in processes.events() if event.kind != "progress"]


def _told(job: LookJob, event: Event) -> Look | None:
    """Say what came of a look."""
    if event.kind == "failed":
        logger.info(f"the early look at {str(failure(event)).removesuffix(GOES_ON)}; training goes on")
        return None
    if event.value is None:
        logger.info(
            f"no early look at step {job.step}: newer checkpoints took its place; say a larger --keep"
        )
        return None
    result: dict[str, Any] = event.value
    success = result["rates"]["success"]
    low, high = success["wilson_95"]
    logger.info(
        f"early look at step {job.step}: {success['successes']:g} of {success['episodes']} succeed in "
        f"{result['task']} {result['size']}, {result['domain']}, {result['region']} region "
        f"(95% interval {100 * low:.0f}% to {100 * high:.0f}%)"
    )
    setting = {name: result[name] for name in SETTING}
    rates = {criterion: rate["rate"] for criterion, rate in result["rates"].items()}
    about = {"episodes": success["episodes"], "seconds": result["seconds"]}
    return Look(job.step, {**setting, **about, **rates, "low": low, "high": high})
