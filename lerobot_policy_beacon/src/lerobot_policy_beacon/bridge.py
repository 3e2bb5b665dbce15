"""Between LeRobot's batches and BEACON's policies; nothing here needs LeRobot."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from beacon.errors import UserError
from beacon.plain import from_plain
from beacon.policy import DiffusionPolicy, ObservationSpec, PolicyConfig
from beacon.policy.checkpoint import find_checkpoint, read_description
from beacon.policy.deployment import DeploymentInfo
from beacon.policy.observations import PolicyInput
from beacon.policy.trained import Normalization, TrainedPolicy


def description_text(path: str | Path) -> str:
    """The content of policy.json that a policy is built from, as one JSON text for LeRobot's config.json."""
    description = read_description(find_checkpoint(path))
    kept = ("format", "spec", "config", "normalization", "deployment")
    return json.dumps({key: description[key] for key in kept if key in description}, sort_keys=True)


def build(text: str) -> TrainedPolicy:
    """A policy as `description_text` says, with parameters that are yet to be loaded."""
    if not text:
        raise UserError(
            "a BEACON policy comes from a folder: say --policy.path=FOLDER (see beacon-to-lerobot)"
        )
    description = json.loads(text)
    spec = from_plain(ObservationSpec, description["spec"], "spec")
    config = from_plain(PolicyConfig, description["config"], "config")
    normalization = Normalization.from_dict(description["normalization"], spec)
    deployment = from_plain(DeploymentInfo, description.get("deployment") or {}, "deployment")
    return TrainedPolicy(DiffusionPolicy(spec, config), normalization, deployment=deployment)


def to_observation(batch: Mapping[str, Any], policy: TrainedPolicy) -> dict[str, np.ndarray]:
    """Float images (..., C, H, W) in [0, 1] as BEACON's uint8 (..., H, W, C), states as arrays."""
    observation = {}
    for name in policy.observation_keys:
        for key in policy.deployment.data_names(name):
            if key in batch:
                value = batch[key].detach().cpu()
                observation[key] = (_pixels(value) if name in policy.spec.cameras else value.float()).numpy()
    return observation


def to_input(batch: Mapping[str, Any], policy: TrainedPolicy) -> PolicyInput:
    """A batch of histories (B, n_obs, ...) for training on."""
    return policy.prepare(to_observation(batch, policy), axes="batch-history")[0]


class ChunkPlayer:
    """Observation history and action queue, for robots that are asked for one action at a time."""

    def __init__(self, policy: TrainedPolicy) -> None:
        """Begin an episode.

        Args:
            policy: what is asked when the queue is empty.
        """
        self._policy = policy
        self.reset()

    def reset(self) -> None:
        """Begin another episode."""
        self._history: deque[dict[str, np.ndarray]] = deque(maxlen=self._policy.obs_steps)
        self._actions: deque[np.ndarray] = deque()

    def next_action(self, batch: Mapping[str, Any]) -> Tensor:
        """The action (B, A) of this step, in the robot's units."""
        self._history.append(to_observation(batch, self._policy))
        if not self._actions:
            chunk = self._predict()[:, : self._policy.action_steps]
            self._actions.extend(chunk.swapaxes(0, 1))
        return torch.from_numpy(np.array(self._actions.popleft()))

    def chunk(self, batch: Mapping[str, Any]) -> Tensor:
        """All actions (B, horizon, A) for a batch of single steps or, with a time axis, of histories."""
        observation = to_observation(batch, self._policy)
        name = self._policy.observation_keys[0]
        trailing = 3 if name in self._policy.spec.cameras else 1
        first = observation[next(k for k in self._policy.deployment.data_names(name) if k in observation)]
        axes = "batch-history" if first.ndim == trailing + 2 else "batch"
        return torch.from_numpy(self._policy.predict(observation, axes=axes))

    def _predict(self) -> np.ndarray:
        steps = {key: np.stack([step[key] for step in self._history], axis=1) for key in self._history[-1]}
        return self._policy.predict(steps, axes="batch-history")


def _pixels(images: Tensor) -> Tensor:
    if images.dtype == torch.uint8:
        return images.movedim(-3, -1)
    return (images * 255).round().clamp(0, 255).to(torch.uint8).movedim(-3, -1).contiguous()
