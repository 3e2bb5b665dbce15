"""Making datasets: attempts by experts, by the generator or by replay, successes to robomimic HDF5."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon.errors import RunError, UserError
from beacon.sim.attempts import Attempt, Job, attempts, shared_world
from beacon.sim.domains import Domain, resolve_domain
from beacon.sim.experts import find_expert
from beacon.sim.regions import REGIONS
from beacon.sim.rendering import IMAGE_SIZE, gl_context
from beacon.sim.replay import check_same_task, demonstration_names
from beacon.sim.scene import CAMERA
from beacon.sim.simulation import IMAGE, SimulatedWorld, picture_keys
from beacon.sim.tasks import find_task
from beacon.sim.versions import software

SMALLEST_IMAGE, LARGEST_IMAGE = 16, 1024
PATIENCE = 50  # attempts in a row that may fail before we give up


@dataclass(frozen=True)
class GenerateConfig:
    """What ``beacon generate`` makes."""

    task: str
    out: Path
    demos: int = 200
    domain: str | Domain = "source"
    size: str = "small"
    region: str = "train"
    seed: int = 0
    workers: int = 1
    noise: float = 0.05  # standard deviation of the action noise
    image_size: int = IMAGE_SIZE
    mimic: Path | None = None  # expand these seed demonstrations instead of asking the expert
    replay: Path | None = None  # repeat these demonstrations' actions in the domain
    expert: str | None = None  # another than the task's own: a registered name, or module:Class
    overwrite: bool = False
    cameras: tuple[str, ...] = (CAMERA,)  # whose pictures are recorded

    def __post_init__(self) -> None:
        if self.demos < 1:
            raise UserError(f"--demos is {self.demos}; it must be at least 1")
        if self.workers < 1:
            raise UserError(f"--workers is {self.workers}; it must be at least 1")
        if self.seed < 0:
            raise UserError(f"--seed is {self.seed}; it must be at least 0")
        if self.region not in REGIONS:
            raise UserError(f"there is no region '{self.region}'; take one of {', '.join(REGIONS)}")
        if self.mimic is not None and self.replay is not None:
            raise UserError("--mimic and --replay exclude each other; choose one")
        if self.expert is not None and (self.mimic is not None or self.replay is not None):
            raise UserError("--expert: --mimic and --replay need no expert; leave one of them away")
        if not SMALLEST_IMAGE <= self.image_size <= LARGEST_IMAGE:
            raise UserError(
                f"--image-size is {self.image_size}; it must lie between {SMALLEST_IMAGE} and {LARGEST_IMAGE}"
            )
        if not 0 <= self.noise <= 1:
            raise UserError(f"--noise is {self.noise}; it must lie between 0 and 1")


@dataclass(frozen=True)
class GenerateReport:
    """What came of it."""

    path: Path
    demos: int
    attempts: int
    failures: int
    mean_length: float
    seconds: float

    @property
    def success_rate(self) -> float:
        """Of all attempts."""
        return self.demos / max(self.attempts, 1)


def environment_arguments(world: SimulatedWorld, job: Job) -> dict[str, Any]:
    """The ``env_args`` of robomimic: what the simulator needs to build it, and every parameter."""
    arguments = world.environment(job.region)
    if job.pictures not in ((), world.image_keys[:1]):
        arguments["env_kwargs"]["camera_names"] = [key.removesuffix(IMAGE) for key in job.pictures]
    return {
        **arguments,
        "beacon": {
            **world.task.describe(),
            "region": job.region,
            "seed": job.seed,
            "action_noise": job.noise,
            "generator": "replay" if job.replay else "mimic" if job.mimic else "expert",
            **({"expert": job.expert} if job.expert else {}),
            "versions": software(),
        },
    }


def generate(
    config: GenerateConfig, progress: Callable[[int, int, int], None] | None = None
) -> GenerateReport:
    """Write the dataset; goes on where an interrupted call stopped. ``progress(done, total, failures)``."""
    from beacon.data import RobomimicWriter

    began = time.monotonic()
    if find_task(config.task).recordings is not None:
        raise UserError(f"{config.task} has no expert; train on recordings of people, see docs/simulation.md")
    gl_context()  # a machine without OpenGL should say so now, not in a worker
    domain = resolve_domain(config.domain)
    world = shared_world(config.task, domain, config.size, config.image_size)
    job = Job(
        config.task,
        domain,
        config.size,
        config.region,
        config.seed,
        config.noise,
        config.image_size,
        str(config.mimic) if config.mimic else None,
        str(config.replay) if config.replay else None,
        config.expert,
        picture_keys(world, config.cameras),
    )
    if not job.mimic and not job.replay:
        find_expert(world.task, job.expert)  # what is wrong with it is said now, not by a worker
    if job.mimic and not world.task.subtasks:
        raise UserError(f"--mimic: {config.task} has no subtasks to expand; leave it away")
    for path in (job.mimic, job.replay):
        if path is not None:
            check_same_task(path, world)
    total = config.demos
    names = demonstration_names(job.replay) if job.replay else ()
    if job.replay:
        total = min(total, len(names))
    model_file = world.model_file()
    writer = RobomimicWriter(
        config.out,
        env_args=environment_arguments(world, job),
        attributes={"demos_asked_for": config.demos},
        resume=not config.overwrite,
        overwrite=config.overwrite,
    )
    lengths: list[int] = []
    with writer:
        done = len(writer)
        start, failures = _progress_so_far(writer, job)
        if progress:
            progress(done, total, failures)
        source = attempts(job, start, config.workers)
        with closing(source):  # type: ignore[type-var]  # an iterator here is a generator
            since_success = 0
            for result in _limited(source, start, len(names) if job.replay else None, done, total):
                if result.success:
                    name = names[result.index] if job.replay else f"demo_{done}"
                    _write(writer, name, result, model_file, failures)
                    lengths.append(result.length)
                    done += 1
                    since_success = 0
                else:
                    failures += 1
                    since_success += 1
                if progress:
                    progress(done, total, failures)
                if done >= total:
                    break
                if since_success >= PATIENCE and not job.replay:
                    raise RunError(
                        f"{since_success} attempts at {config.task} failed in a row in domain "
                        f"'{domain.name}'; {done} demonstrations are kept in {writer.partial}"
                    )
        if done == 0:
            raise RunError(f"none of {failures} attempts succeeded, so {config.out} was not written")
    seconds = time.monotonic() - began
    mean = sum(lengths) / max(len(lengths), 1)
    return GenerateReport(config.out, done, done + failures, failures, mean, seconds)


def _limited(
    source: Iterator[Attempt], start: int, stop: int | None, done: int, total: int
) -> Iterator[Attempt]:
    """All attempts, or those that a replayed file has; none when everything is done already."""
    if done >= total:
        return
    index = start
    while stop is None or index < stop:
        yield next(source)
        index += 1


def _progress_so_far(writer: Any, job: Job) -> tuple[int, int]:
    """The next attempt, and how many failed before it, from what an interrupted call left."""
    if not writer.episode_names:
        return 0, 0
    last = max(int(writer.episode_attributes(name)["attempt"]) for name in writer.episode_names)
    return last + 1, last + 1 - len(writer)


def _write(writer: Any, name: str, result: Attempt, model_file: str, failures: int) -> None:
    assert result.actions is not None and result.rewards is not None
    dones = result.rewards.copy()
    dones[-1] = 1.0
    writer.add_episode(
        name,
        result.actions,
        result.observations,
        states=result.states,
        rewards=result.rewards,
        dones=dones,
        attributes={
            **result.attributes,
            "failures_before": failures,
            **({"model_file": model_file} if model_file else {}),
            "ep_meta": json.dumps({}),
        },
        extra=result.extra,
    )
