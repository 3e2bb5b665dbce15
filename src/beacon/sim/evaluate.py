"""Success rates of policies from fixed initial states, with intervals, paired comparisons and videos."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from beacon.analysis import paired_test, wilson
from beacon.errors import UserError
from beacon.files import write_bytes
from beacon.randomness import episode_seed
from beacon.sim.attempts import in_order
from beacon.sim.batch import EpisodeResult, run_batch
from beacon.sim.domains import Domain, resolve_domain
from beacon.sim.policies import Policy, keeps_rows, load, picture_size, start_batch
from beacon.sim.regions import REGIONS
from beacon.sim.shared_policy import PolicyHost, SharedPolicy, Ticket
from beacon.sim.simulation import InitialState, SimulatedWorld, make_world
from beacon.sim.tasks import find_task
from beacon.sim.versions import software

BATCH = 20  # episodes per look; fixed, so that results do not depend on the number of workers
EVALUATION_SEED = 1000


@dataclass(frozen=True)
class EvaluateConfig:
    """What ``beacon evaluate`` runs."""

    task: str
    domain: str | Domain = "source"
    size: str = "small"
    region: str = "train"
    episodes: int = 100
    seed: int = EVALUATION_SEED  # of the initial states
    policy_seed: int = 0  # of the policy's own random numbers
    workers: int = 1
    videos: int = 0  # successes and failures to film, each
    device: str = "auto"  # where the policy of a run folder computes, for a batch of episodes at a time

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise UserError(f"--episodes is {self.episodes}; it must be at least 1")
        if self.workers < 1:
            raise UserError(f"--workers is {self.workers}; it must be at least 1")
        for name, seed in (("seed", self.seed), ("policy-seed", self.policy_seed)):
            if seed < 0:
                raise UserError(f"--{name} is {seed}; it must be at least 0")
        if self.region not in REGIONS:
            raise UserError(f"there is no region '{self.region}'; take one of {', '.join(REGIONS)}")


def evaluation_states(world: SimulatedWorld, region: str, seed: int, episodes: int) -> list[InitialState]:
    """The fixed initial states of (task, size, region, seed): the same for every policy and domain."""
    return [world.initial_state(region, episode_seed(seed, "evaluate", index)) for index in range(episodes)]


def states_hash(states: Sequence[InitialState]) -> str:
    """SHA-256 over joint positions (to a nanometre) and noise seeds."""
    digest = hashlib.sha256()
    for state in states:
        digest.update(np.rint(np.asarray(state.qpos) * 1e9).astype("<i8").tobytes())
        digest.update(state.seed.to_bytes(8, "little"))
    return digest.hexdigest()


@dataclass(frozen=True)
class _Job:
    config: EvaluateConfig
    domain: Domain
    policy: str
    shared: Ticket | None = None  # of a policy that all workers ask


@lru_cache(maxsize=2)  # of both policies that are evaluated in turns
def _worker_parts(job: _Job) -> tuple[SimulatedWorld, Policy, tuple[InitialState, ...]]:
    """A worker builds its world, policy and states once."""
    shared = job.shared
    policy: Policy = load(job.policy, job.config.device) if shared is None else SharedPolicy(shared)
    world = make_world(job.config.task, job.domain, job.config.size, picture_size(policy))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # the other cores have workers of their own
    config = job.config
    states = evaluation_states(world, config.region, config.seed, config.episodes)
    return world, policy, tuple(states)


def policy_seeds(config: EvaluateConfig) -> list[int]:
    """One seed an episode for the policy's random numbers."""
    return [episode_seed(config.policy_seed, "policy", index) for index in range(config.episodes)]


def _batches(episodes: int) -> list[range]:
    return [range(start, min(start + BATCH, episodes)) for start in range(0, episodes, BATCH)]


def _work(job: _Job, index: int) -> list[EpisodeResult]:
    world, policy, states = _worker_parts(job)
    batches = _batches(job.config.episodes)
    if index >= len(batches):
        return []
    return _run_rows(world, policy, states, batches[index], job.config)


def _run_rows(
    world: SimulatedWorld, policy: Policy, states: Sequence[InitialState], rows: range, config: EvaluateConfig
) -> list[EpisodeResult]:
    start_batch(policy, policy_seeds(config), rows)
    return run_batch(world, policy, [states[i] for i in rows], list(rows), keep_states=config.videos > 0)


def evaluate(
    policy: str | Path | Policy,
    config: EvaluateConfig,
    *,
    out: Path | None = None,
    progress: Callable[[int, int, int], None] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the policy and return (and write) the result.

    Args:
        policy: itself, or what `beacon.sim.policies.load` takes.
        config: of the evaluation.
        out: the result file.
        progress: called with how many episodes are done, of how many, and how many failed.
        provenance: what made the policy, noted in the result.
    """
    began = time.monotonic()
    domain = resolve_domain(config.domain)
    name = str(policy) if isinstance(policy, (str, Path)) else type(policy).__name__
    results: list[EpisodeResult] = []
    failures = 0
    for batch in run_batches(policy, config, domain):
        results.extend(batch)
        failures = sum(result.outcomes["success"] < 1 for result in results)
        if progress:
            progress(len(results), config.episodes, failures)
    report = describe_results(name, config, domain, results, time.monotonic() - began)
    if provenance is not None:
        report["provenance"] = dict(provenance)
    if out is not None:
        write_json(out, report)
        if config.videos:
            from beacon.sim.video import film

            world = make_world(config.task, domain, config.size, image_size=256)
            report["videos"] = [
                str(path) for path in film(world, results, config.videos, out.with_suffix(""))
            ]
            world.close()
            write_json(out, report)
    return report


def run_batches(
    policy: str | Path | Policy, config: EvaluateConfig, domain: Domain
) -> Iterator[list[EpisodeResult]]:
    """Roll the policy out, a batch of initial states at a time, in their order.

    With several workers each has a policy of its own on the CPU. One on a GPU, or one that is given itself,
    is asked by all of them, together where several wait.

    Args:
        policy: itself, or what `beacon.sim.policies.load` takes.
        config: says from which states, and with how many processes.
        domain: of the simulation.
    """
    batches = _batches(config.episodes)
    workers = min(config.workers, len(batches))
    if workers > 1 and isinstance(policy, (str, Path)) and _is_on_gpu(policy, config.device):
        policy = load(policy, config.device)  # one for all workers
    if isinstance(policy, (str, Path)):
        job = _Job(config, domain, str(policy))
        if workers == 1:
            yield from (_work(job, index) for index in range(len(batches)))
            return
        yield from islice(in_order(_work, job, 0, workers), len(batches))
        return
    if workers > 1 and keeps_rows(policy):
        with PolicyHost(policy, policy_seeds(config)) as host:
            job = _Job(config, domain, type(policy).__name__, host.ticket)
            yield from islice(in_order(_work, job, 0, workers), len(batches))
        return
    world = make_world(config.task, domain, config.size, picture_size(policy))
    states = evaluation_states(world, config.region, config.seed, config.episodes)
    for rows in batches:
        yield _run_rows(world, policy, states, rows, config)
    world.close()


def _is_on_gpu(policy: str | Path, device: str) -> bool:
    """Whether this is a run folder whose policy computes on a GPU."""
    if not Path(policy).exists():
        return False
    from beacon.devices import choose_device

    return choose_device(device).type == "cuda"


def describe_results(
    name: str, config: EvaluateConfig, domain: Domain, results: list[EpisodeResult], seconds: float
) -> dict[str, Any]:
    """What a result file says.

    Args:
        name: of the policy.
        config: of the evaluation.
        domain: of the simulation.
        results: of the episodes, in the order of the initial states; at least one.
        seconds: that it took.
    """
    states = [result.initial for result in results]
    rates: dict[str, dict[str, Any]] = {}
    for criterion in results[0].outcomes:
        total = sum(result.outcomes[criterion] for result in results)
        low, high = wilson(total, len(results))
        rates[criterion] = {
            "successes": total,
            "episodes": len(results),
            "rate": total / len(results),
            "wilson_95": [low, high],
        }
    success = rates["success"]
    return {
        "policy": name,
        "task": config.task,
        "size": config.size,
        "domain": domain.name,
        "region": config.region,
        "rates": rates,
        # The same success under the names that LeRobot's evaluation has, in per cent as there.
        "n_episodes": success["episodes"],
        "n_success": round(success["successes"]),
        "pc_success": 100 * success["rate"],
        "pc_success_wilson_95": [100 * end for end in success["wilson_95"]],
        "initial_states": {
            "sha256": states_hash(states),
            "seed": config.seed,
            "qpos": [[round(value, 12) for value in state.qpos] for state in states],
        },
        "episodes": [result.summary() for result in results],
        "policy_seed": config.policy_seed,
        "domain_parameters": domain.as_dict(),
        "seconds": round(seconds, 1),
        "versions": software(find_task(config.task).packages),
    }


def compare(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The paired difference of two results on the same initial states, per criterion."""
    for key in ("task", "size", "domain", "region"):
        if first[key] != second[key]:
            raise UserError(
                f"the results differ in {key}: {first[key]} and {second[key]}; they cannot be paired"
            )
    if first["initial_states"]["sha256"] != second["initial_states"]["sha256"]:
        raise UserError("the two results start from different initial states; they cannot be paired")
    return {
        criterion: paired_test(
            [episode[criterion] for episode in first["episodes"]],
            [episode[criterion] for episode in second["episodes"]],
        )
        for criterion in first["rates"]
    }


def read_result(path: Path) -> dict[str, Any]:
    """A result written by :func:`evaluate`."""
    try:
        result: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a result of beacon evaluate: {error}") from error
    if "episodes" not in result or "initial_states" not in result:
        raise UserError(f"{path} is not a result of beacon evaluate")
    return result


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write atomically."""
    write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())
