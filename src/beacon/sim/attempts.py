"""Attempts at a demonstration, each a pure function of the job and an index, run by any number of workers."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from beacon.errors import RunError
from beacon.processes import end_with_parent
from beacon.randomness import episode_seed
from beacon.sim.arrays import Array
from beacon.sim.domains import Domain
from beacon.sim.experts import make_expert
from beacon.sim.mimic import MimicActor, load_source
from beacon.sim.replay import load_demonstration
from beacon.sim.rollout import Recording, pictures, record
from beacon.sim.simulation import SimulatedWorld, make_world
from beacon.sim.world import Episode, World


@dataclass(frozen=True)
class Job:
    """Everything that decides what attempt ``index`` gives."""

    task: str
    domain: Domain
    size: str
    region: str
    seed: int
    noise: float
    image_size: int
    mimic: str | None = None  # a dataset of seed demonstrations to expand
    replay: str | None = None  # a dataset whose actions are repeated
    expert: str | None = None  # another scripted expert than the task's own
    pictures: tuple[str, ...] = ()  # which the observations have; none said: the world's first


@dataclass(frozen=True)
class Attempt:
    """What came of it; the arrays are there only if it succeeded."""

    index: int
    success: bool
    length: int
    attributes: dict[str, Any]
    actions: Array | None = None
    observations: dict[str, Array] | None = None
    states: Array | None = None
    rewards: Array | None = None
    extra: dict[str, Array] | None = None


@lru_cache(maxsize=2)
def shared_world(task: str, domain: Domain, size: str, image_size: int) -> SimulatedWorld:
    """A process builds its world once."""
    return make_world(task, domain, size, image_size)


def attempt(job: Job, index: int) -> Attempt:
    """Try once."""
    world = shared_world(job.task, job.domain, job.size, job.image_size)
    episode = world.episode()
    extra: dict[str, Array] = {}
    provenance: dict[str, Any] = {}
    if job.replay is not None:
        name, initial, actions = load_demonstration(job.replay, index, world)
        queue = deque(actions)
        recording = record(episode, initial, lambda: lambda: queue.popleft() if queue else None)
        provenance = {"replayed_from": name}
    else:
        seed = episode_seed(job.seed, "generate", index)
        initial = world.initial_state(job.region, seed)
        if job.mimic is not None:
            assert isinstance(world, World) and isinstance(episode, Episode)  # tasks with subtasks are ours
            rng = np.random.default_rng(episode_seed(job.seed, "mimic", index))
            actor = MimicActor(load_source(job.mimic, world), episode, rng, job.noise)
            recording = record(episode, initial, lambda: actor)
            extra = {"src_demo_inds": np.array(actor.chosen, dtype=np.int64)}
            provenance = {"generator": "mimic"}
        else:
            rng = np.random.default_rng(episode_seed(job.seed, "expert", index))
            recording = record(episode, initial, lambda: make_expert(episode, rng, job.noise, job.expert).act)
            provenance = {"generator": "expert"}
    return _finish(world, recording, job.pictures or world.image_keys[:1], index, provenance, extra)


def _finish(
    world: SimulatedWorld,
    recording: Recording,
    keys: Sequence[str],
    index: int,
    provenance: dict[str, Any],
    extra: dict[str, Array],
) -> Attempt:
    frames = recording.frames()
    outcomes = world.task.outcomes(frames) if len(recording) else {"success": 0.0}
    attributes = {
        "attempt": index,
        "seed": recording.initial.seed,
        "outcomes": json.dumps(outcomes),
        "placements": json.dumps({k: [p.x, p.y, p.yaw] for k, p in recording.initial.placements.items()}),
        **provenance,
    }
    # A demonstration must end well, not only have been well on the way.
    success = min(outcomes.values()) >= 1.0
    if not success:
        return Attempt(index, False, len(recording), attributes)
    observations = recording.observations()
    for key in keys:
        observations[key] = pictures(world, recording.states, recording.initial.seed, key)
    return Attempt(
        index,
        True,
        len(recording),
        attributes,
        np.stack(recording.actions),
        observations,
        np.stack(recording.states),
        frames[world.task.success].astype(np.float32),
        {**extra, **{f"criteria/{name}": flags for name, flags in frames.items()}},
    )


def attempts(job: Job, start: int, workers: int) -> Iterator[Attempt]:
    """Attempts ``start``, ``start + 1``, ... in this order, whatever the number of workers."""
    if workers <= 1:
        index = start
        while True:
            yield attempt(job, index)
            index += 1
    yield from in_order(attempt, job, start, workers)


def in_order(work: Callable[[Any, int], Any], job: Any, start: int, workers: int) -> Iterator[Any]:
    """``work(job, i)`` for i = start, start + 1, ... by processes, results in order, a few ahead."""
    # spawn: OpenGL contexts and numba's threads do not survive a fork.
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=end_with_parent) as pool:
        pending: deque[Future[Any]] = deque()
        try:
            index = start
            while True:
                while len(pending) < 2 * workers:
                    pending.append(pool.submit(work, job, index))
                    index += 1
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process died (killed, or out of memory); what is finished is kept: "
                "run the same command again to go on, perhaps with fewer --workers"
            ) from error
        finally:
            for future in pending:
                future.cancel()
