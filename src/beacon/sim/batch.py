"""Policies at work on several episodes at once: one batched look, then everybody moves."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.policies import Policy, act_rows
from beacon.sim.rollout import stack_frames
from beacon.sim.simulation import InitialState, SimulatedWorld


@dataclass
class EpisodeResult:
    """What a policy did from one initial state."""

    initial: InitialState
    criteria: list[Mapping[str, float]] = field(default_factory=list)
    states: list[Array] = field(default_factory=list)  # after each action; the first is the start
    outcomes: dict[str, float] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """For JSON: outcomes, length, and for each criterion the stretches of frames where it held.

        Measures, such as a coverage, are in the outcomes alone.
        """
        frames = stack_frames(self.criteria)
        return {
            "seed": self.initial.seed,
            "length": len(self.criteria),
            **{name: value for name, value in self.outcomes.items()},
            "criteria": {name: stretches(flags) for name, flags in frames.items() if flags.dtype == bool},
        }


def stretches(flags: Array) -> list[list[int]]:
    """Half-open intervals of true values: [0, 1, 1, 0, 1] gives [[1, 3], [4, 5]]."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    return [
        [int(a), int(b)] for a, b in zip(np.flatnonzero(edges > 0), np.flatnonzero(edges < 0), strict=True)
    ]


class _Runner:
    """One episode and the observations that its policy still remembers."""

    def __init__(
        self, world: SimulatedWorld, initial: InitialState, policy: Policy, keep_states: bool
    ) -> None:
        self.episode = world.episode()
        self.episode.reset(initial)
        self.result = EpisodeResult(initial)
        self.keep_states = keep_states
        self.cameras = [key for key in world.image_keys if key in policy.observation_keys]
        self.memory: deque[dict[str, Array]] = deque(maxlen=policy.obs_steps)
        self._look(True)

    def _look(self, image: bool) -> None:
        self.memory.append(self.episode.observe(image and bool(self.cameras), self.cameras))
        if self.keep_states:
            self.result.states.append(self.episode.state())

    def history(self, key: str, steps: int) -> Array:
        """The last observations of one key, the first one repeated at the start, (steps, ...)."""
        seen = [observation[key] for observation in self.memory]
        return np.stack([seen[0]] * (steps - len(seen)) + seen)

    def execute(self, actions: Array, obs_steps: int) -> bool:
        """Take the actions; returns whether the episode goes on."""
        task = self.episode.world.task
        for index, action in enumerate(actions):
            self.episode.step(action)
            self.result.criteria.append(self.episode.criteria())
            over = self.episode.steps >= task.size.horizon
            # Only what the policy will still remember at its next look needs a picture.
            self._look(not over and index >= len(actions) - obs_steps)
            if over or task.settled(stack_frames(self.result.criteria)):
                self.result.outcomes = task.outcomes(stack_frames(self.result.criteria))
                return False
        return True


def run_batch(
    world: SimulatedWorld,
    policy: Policy,
    states: Sequence[InitialState],
    rows: Sequence[int],
    *,
    keep_states: bool = False,
) -> list[EpisodeResult]:
    """Run one episode from every state, the policy asked for all of them together."""
    check_policy(policy, world)
    runners = [_Runner(world, state, policy, keep_states) for state in states]
    active = list(range(len(runners)))
    while active:
        observation = {
            key: np.stack([runners[i].history(key, policy.obs_steps) for i in active])
            for key in policy.observation_keys
        }
        chunks = act_rows(policy, observation, [rows[i] for i in active])
        wanted = (len(active), policy.action_steps, world.task.size.action_dim)
        if chunks.shape != wanted:
            raise UserError(
                f"the policy returned actions of shape {chunks.shape}, but {world.task.name} "
                f"{world.task.size.name} needs {wanted}; was it trained on this task and size?"
            )
        active = [
            i for i, chunk in zip(active, chunks, strict=True) if runners[i].execute(chunk, policy.obs_steps)
        ]
    return [runner.result for runner in runners]


def check_policy(policy: Policy, world: SimulatedWorld) -> None:
    """Refuse a policy that asks for what the simulator does not give."""
    check_shapes(policy.observation_keys, getattr(getattr(policy, "spec", None), "action_dim", None), world)


def check_shapes(observation_keys: Sequence[str], action_dim: int | None, world: SimulatedWorld) -> None:
    """Refuse what the simulator does not give or take.

    Args:
        observation_keys: what a policy sees.
        action_dim: values of its actions; None: nobody knows.
        world: the task in its domain.
    """
    known = {*world.image_keys, *world.readings}
    unknown = [key for key in observation_keys if key not in known]
    if unknown:
        raise UserError(
            f"the policy needs {', '.join(unknown)}, but the simulator gives {', '.join(sorted(known))}"
        )
    expected = world.task.size.action_dim
    if action_dim is not None and action_dim != expected:
        raise UserError(
            f"the policy has {action_dim}-D actions, {world.task.name} {world.task.size.name} "
            f"takes {expected}; check --task and --size"
        )


def as_mapping(results: Sequence[EpisodeResult]) -> dict[str, list[float]]:
    """Outcomes over episodes, one list a criterion."""
    names: Mapping[str, float] = results[0].outcomes if results else {}
    return {name: [result.outcomes[name] for result in results] for name in names}
