"""A trained policy at work: NumPy observations in, actions in the robot's units out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from beacon.data.formats.base import numbered_actions
from beacon.errors import RunError, UserError
from beacon.policy.config import ObservationSpec
from beacon.policy.deployment import DeploymentInfo
from beacon.policy.diffusion import DiffusionPolicy, SamplingPlan
from beacon.policy.images import fit_images
from beacon.policy.observations import Axes, PolicyInput, last_steps, read_observation

Precision = Literal["float32", "bfloat16"]


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
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"normalisation: {error!r} is missing or of the wrong kind") from error


def _affine(data: Mapping[str, Any], size: int, name: str) -> Affine:
    # Tensors in float64 until a value meets them, so that offset and scale keep what JSON said.
    offset, scale = (torch.tensor(data[key], dtype=torch.float64) for key in ("offset", "scale"))
    if offset.shape != (size,) or scale.shape != (size,):
        raise UserError(
            f"normalisation of {name}: {size} offsets and scales, not {offset.numel()} and {scale.numel()}"
        )
    if not (offset.isfinite().all() and scale.isfinite().all()):
        raise UserError(f"normalisation of {name}: has values that are not finite (NaN or infinite)")
    return Affine(offset, scale)


class TrainedPolicy:
    """A policy with its normalisation: ``act`` on an observation, execute the chunk, act again.

    Row i of a batch has random numbers of its own, from seed + i, so what it does never depends on its batch.
    """

    def __init__(
        self,
        policy: DiffusionPolicy,
        normalization: Normalization,
        *,
        seed: int = 0,
        deployment: DeploymentInfo | None = None,
    ) -> None:
        """Wrap a network.

        Args:
            policy: the network; gradients are turned off.
            normalization: maps between the robot's units and the network's.
            seed: of the random numbers, see `reset`.
            deployment: names in the training data, control rate, names of the action's values.
        """
        self.policy = policy.eval().requires_grad_(False)
        self.normalization = normalization
        self.deployment = deployment or DeploymentInfo()
        self._plan: SamplingPlan | None = None
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
    def action_names(self) -> tuple[str, ...]:
        """A name for every value of an action: as the data call it, else its number."""
        return self.deployment.action_names or numbered_actions(self.spec.action_dim)

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
        self,
        observation: Mapping[str, ArrayLike],
        *,
        axes: Axes | None = None,
        rows: Sequence[int] | None = None,
    ) -> NDArray[np.float32]:
        """The actions to execute before the next look.

        Args:
            observation: uint8 images and proprioception in the robot's units, under the names of the training
                data (before or after ``--rename``). Images of another size are resized, other keys ignored.
            axes: what the arrays' leading axes are: "step" (none), "history" (T), "batch" (B) or
                "batch-history" (B, T), oldest step first. A history shorter than ``obs_steps`` is padded with
                its first step, of a longer one the last steps count. None: no leading axis is one step, two
                are (B, T); one alone is refused, because it may be a history or a batch.
            rows: which streams of random numbers the batch uses, by default 0, 1, ...

        Returns:
            Actions (B, action_steps, A) for a batch, (action_steps, A) for a step or a history.
        """
        chunk = self.predict(observation, axes=axes, rows=rows)
        return np.ascontiguousarray(chunk[..., : self.action_steps, :])

    def predict(
        self,
        observation: Mapping[str, ArrayLike],
        *,
        axes: Axes | None = None,
        rows: Sequence[int] | None = None,
    ) -> NDArray[np.float32]:
        """As ``act``, but all ``horizon`` actions of the chunk: (B, horizon, A) or (horizon, A)."""
        inputs, batched = self.prepare(observation, axes=axes)
        chosen = range(inputs.size) if rows is None else rows
        if len(chosen) != inputs.size:
            raise UserError(f"{len(chosen)} rows for {inputs.size} observations")
        actions = self.sample(inputs, [self._generator(row) for row in chosen])
        return actions if batched else actions[0]

    def features(
        self, observation: Mapping[str, ArrayLike], *, axes: Axes | None = None
    ) -> NDArray[np.float32]:
        """What the encoder makes of the images, (B, F), or (F,) of a step or history; as for ``act``.

        Images count as the target's, whose camera the policy may have learned to see by.
        """
        inputs, batched = self.prepare(observation, axes=axes)
        with torch.inference_mode():
            seen = self.policy.encode(inputs.images, inputs.proprio).vision.float().cpu().numpy()
        return seen if batched else seen[0]

    def prepare(
        self, observation: Mapping[str, ArrayLike], *, axes: Axes | None = None
    ) -> tuple[PolicyInput, bool]:
        """Check an observation and bring it to the network's form; also say whether it was a batch."""
        arrays, batched = read_observation(observation, self.spec, self.deployment, axes)
        images = {name: self._image(name, arrays[name]) for name in self.spec.camera_names}
        proprio = {name: self._proprio(name, arrays[name]) for name in self.spec.proprio_names}
        return PolicyInput(images, proprio), batched

    def sample(self, inputs: PolicyInput, generators: Sequence[torch.Generator]) -> NDArray[np.float32]:
        """Chunks (B, horizon, A) in the robot's units, for what `prepare` gave and one generator a row."""
        with torch.inference_mode():
            condition = self.policy.encode(inputs.images, inputs.proprio).observation
            # The parameters are fixed, so what depends on them alone is computed once.
            self._plan = self._plan or self.policy.plan_sampling()
            chunk = self.policy.sample(condition, generators, plan=self._plan)
            actions: NDArray[np.float32] = (
                self.normalization.actions.restore(chunk.cpu().double()).float().numpy()
            )
        if not np.isfinite(actions).all():
            raise RunError("the policy's actions are not finite (NaN or infinite): do not execute them")
        return actions

    def use_precision(self, precision: Precision) -> None:
        """Compute the denoiser in these numbers from now on.

        ``bfloat16`` reads half the memory: on CPUs that have it built in (AVX-512 BF16, AMX) a chunk of the
        paper's network takes about half the time, and actions differ by about one percent of their range. It
        cannot be undone: load the policy again for ``float32``.

        Args:
            precision: float32, the numbers of training, or bfloat16.
        """
        if precision not in get_args(Precision):
            raise UserError(f"precision {precision!r}: choose one of {', '.join(get_args(Precision))}")
        self.policy.denoiser.to(torch.bfloat16 if precision == "bfloat16" else torch.float32)
        self.parameters_changed()

    def compile(self) -> None:
        """Compile the steps of sampling, on a GPU as CUDA graphs; the first chunk of a size takes long."""
        self.policy.compile_sampling()

    def parameters_changed(self) -> None:
        """Say that the network's parameters are other ones than at the last ``act``."""
        self._plan = None

    def _generator(self, row: int) -> torch.Generator:
        if row not in self._generators:
            if isinstance(self._seed, Sequence) and row >= len(self._seed):
                raise UserError(f"row {row}: reset was given {len(self._seed)} seeds")
            seed = self._seed[row] if isinstance(self._seed, Sequence) else self._seed + row
            self._generators[row] = torch.Generator().manual_seed(seed)
        return self._generators[row]

    def _image(self, name: str, array: NDArray[Any]) -> Tensor:
        height, width, channels = self.spec.cameras[name]
        images = last_steps(array, self.obs_steps)
        resized = fit_images(images.flatten(0, 1), (height, width), self.deployment.image_fit)
        return resized.reshape(*images.shape[:2], height, width, channels).to(self.policy.device)

    def _proprio(self, name: str, array: NDArray[Any]) -> Tensor:
        values = self.normalization.proprio[name].normalise(last_steps(array, self.obs_steps))
        return values.float().to(self.policy.device)
