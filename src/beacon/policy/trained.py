"""A trained policy at work: NumPy observations in, actions in the robot's units out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from beacon.errors import UserError
from beacon.policy.config import ObservationSpec
from beacon.policy.diffusion import DiffusionPolicy
from beacon.policy.images import resize


@dataclass(frozen=True)
class Affine:
    """Normalised = (x - offset) / scale per dimension; a scale of 0 marks a constant, which becomes 0."""

    offset: Tensor  # (d,)
    scale: Tensor  # (d,)

    def normalise(self, x: Tensor) -> Tensor:
        """To [-1, 1]."""
        constant = self.scale == 0
        return ((x - self.offset) / torch.where(constant, 1.0, self.scale)).masked_fill(constant, 0.0)

    def restore(self, x: Tensor) -> Tensor:
        """From [-1, 1]."""
        return x * self.scale + self.offset


@dataclass(frozen=True)
class Normalization:
    """The maps between the robot's units and [-1, 1] that a policy was trained with."""

    actions: Affine
    proprio: dict[str, Affine]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], spec: ObservationSpec) -> Normalization:
        """From ``{"actions": {"offset": [...], "scale": [...]}, "proprio": {key: the same}}``."""
        try:
            return cls(
                actions=_affine(data["actions"], spec.action_dim, "actions"),
                proprio={name: _affine(data["proprio"][name], n, name) for name, n in spec.proprio.items()},
            )
        except (KeyError, TypeError) as error:
            raise UserError(f"normalisation: {error!r} is missing or of the wrong kind") from error


def _affine(data: Mapping[str, Any], size: int, name: str) -> Affine:
    # Tensors in float64 until a value meets them, so that offset and scale keep what JSON said.
    offset, scale = (torch.tensor(data[key], dtype=torch.float64) for key in ("offset", "scale"))
    if offset.shape != (size,) or scale.shape != (size,):
        raise UserError(
            f"normalisation of {name}: {size} offsets and scales, not {offset.numel()} and {scale.numel()}"
        )
    return Affine(offset, scale)


class TrainedPolicy:
    """A policy with its normalisation: ``act`` on an observation history, execute the chunk, act again.

    Row i of a batch has random numbers of its own, from seed + i, so what it does never depends on its batch.
    """

    def __init__(self, policy: DiffusionPolicy, normalization: Normalization, *, seed: int = 0) -> None:
        self.policy = policy.eval().requires_grad_(False)
        self.normalization = normalization
        self.reset(seed)

    @property
    def spec(self) -> ObservationSpec:
        """Names and shapes of observations and actions."""
        return self.policy.spec

    @property
    def observation_keys(self) -> list[str]:
        """What ``act`` needs; other keys are ignored."""
        return self.spec.camera_names + self.spec.proprio_names

    @property
    def obs_steps(self) -> int:
        """Observation steps the policy sees."""
        return self.policy.config.obs_steps

    @property
    def action_steps(self) -> int:
        """Actions ``act`` returns."""
        return self.policy.config.action_steps

    @property
    def horizon(self) -> int:
        """Actions the policy predicts, of which ``act`` returns the first ``action_steps``."""
        return self.policy.config.horizon

    def reset(self, seed: int | Sequence[int] = 0) -> None:
        """Start the random numbers again: row i from ``seed + i``, or from ``seed[i]``."""
        self._seed = seed
        self._generators: dict[int, torch.Generator] = {}

    def act(
        self, observation: Mapping[str, ArrayLike], *, rows: Sequence[int] | None = None
    ) -> NDArray[np.float32]:
        """Actions (B, action_steps, A) for a batch of histories, (action_steps, A) for a single one.

        observation: uint8 images (B, T, H, W, C) and proprioception (B, T, d), oldest step first. A history
        shorter than ``obs_steps`` is padded with its first step, of a longer one the last steps count.
        Without B it is one history, without T too one step. Images of another size are resized.
        rows: which streams of random numbers the batch uses, by default 0, 1, ...
        """
        images, proprio, batched = self._tensors(observation)
        count = len(next(iter((images or proprio).values())))
        generators = [self._generator(row) for row in (range(count) if rows is None else rows)]
        with torch.inference_mode():
            condition = self.policy.encode(images, proprio).observation
            chunk = self.policy.sample(condition, generators)[:, : self.action_steps]
            actions = self.normalization.actions.restore(chunk.cpu().double()).float().numpy()
        return actions if batched else actions[0]

    def features(self, observation: Mapping[str, ArrayLike]) -> NDArray[np.float32]:
        """What the encoder makes of the images, (B, F), or (F,) of a single history; as for ``act``.

        Images count as the target's, whose camera the policy may have learned to see by.
        """
        images, proprio, batched = self._tensors(observation)
        with torch.inference_mode():
            seen = self.policy.encode(images, proprio).vision.float().cpu().numpy()
        return seen if batched else seen[0]

    def _generator(self, row: int) -> torch.Generator:
        if row not in self._generators:
            if isinstance(self._seed, Sequence) and row >= len(self._seed):
                raise UserError(f"row {row}: reset was given {len(self._seed)} seeds")
            seed = self._seed[row] if isinstance(self._seed, Sequence) else self._seed + row
            self._generators[row] = torch.Generator().manual_seed(seed)
        return self._generators[row]

    def _tensors(
        self, observation: Mapping[str, ArrayLike]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], bool]:
        if missing := [key for key in self.observation_keys if key not in observation]:
            raise UserError(f"the observation lacks {', '.join(missing)}; it has {', '.join(observation)}")
        images, proprio, leading = {}, {}, set()
        for name in self.spec.camera_names:
            array = np.asarray(observation[name])
            channels = self.spec.cameras[name][2]
            if array.dtype != np.uint8 or not 3 <= array.ndim <= 5 or array.shape[-1] != channels:
                raise UserError(
                    f"{name}: uint8 images (B, T, H, W, {channels}) expected, not {array.dtype} {array.shape}"
                )
            images[name] = self._image(name, self._history(array, 3))
            leading.add(array.shape[:-3])
        for name in self.spec.proprio_names:
            array = np.asarray(observation[name], dtype=np.float64)
            size = self.spec.proprio[name]
            if not 1 <= array.ndim <= 3 or array.shape[-1] != size:
                raise UserError(f"{name}: values (B, T, {size}) expected, not {array.shape}")
            values = self.normalization.proprio[name].normalise(self._history(array, 1))
            proprio[name] = values.float().to(self.policy.device)
            leading.add(array.shape[:-1])
        if len(leading) > 1:
            raise UserError(f"the keys of the observation disagree on (B, T): {sorted(leading)}")
        return images, proprio, len(leading.pop()) == 2

    def _history(self, array: NDArray[Any], trailing: int) -> Tensor:
        """Any of the accepted forms as a tensor (B, obs_steps, ...)."""
        full = array.reshape((1,) * (trailing + 2 - array.ndim) + array.shape)
        if 0 in full.shape:
            raise UserError(f"an empty observation: {array.shape}")
        steps = np.maximum(np.arange(-self.obs_steps, 0) + full.shape[1], 0)
        return torch.from_numpy(np.ascontiguousarray(full[:, steps]))

    def _image(self, name: str, images: Tensor) -> Tensor:
        height, width, channels = self.spec.cameras[name]
        batch, steps = images.shape[:2]
        resized = resize(images.flatten(0, 1), (height, width))
        return resized.reshape(batch, steps, height, width, channels).to(self.policy.device)
