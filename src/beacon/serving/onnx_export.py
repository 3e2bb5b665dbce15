"""A policy as one ONNX graph: observation history and noise in, actions in the robot's units out.

Inputs, for one history: every camera uint8 (1, obs_steps, H, W, C), every proprioception float32
(1, obs_steps, d), ``noise`` float32 (1, horizon, A) from a standard normal distribution. Output: ``actions``
(1, horizon, A). The denoising steps are unrolled, so the sampler must be DDIM, which draws no noise itself.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from beacon.errors import RunError, UserError
from beacon.policy.trained import Affine, TrainedPolicy

MOST_STEPS = 50  # denoising steps that are unrolled
LARGEST_DIFFERENCE = 1e-3  # of an action's range; more is a failure
EXTRA = "--onnx needs onnx, onnxscript and onnxruntime: pip install 'beacon-cotraining[export]'"
OPSET = 18


class PolicyGraph(nn.Module):
    """All that happens between an observation and its actions, as tensor operations."""

    def __init__(self, policy: TrainedPolicy) -> None:
        """Take over a policy.

        Args:
            policy: with DDIM as its sampler.
        """
        super().__init__()
        self.policy, self.names = policy.policy, policy.observation_keys
        self.cameras = set(policy.spec.cameras)
        self.scales = {name: _float(affine) for name, affine in policy.normalization.proprio.items()}
        self.actions = _float(policy.normalization.actions)
        plan = policy.policy.plan_sampling()
        if plan.updates is None or len(plan.timesteps) > MOST_STEPS:
            raise UserError(
                f"--onnx: the policy samples by {policy.policy.config.sampler} in {len(plan.timesteps)} "
                f"steps; DDIM with up to {MOST_STEPS} steps can be exported"
            )
        # Ordinary tensors: those of inference mode cannot be traced.
        self.steps = [step.clone() for step in plan.steps]
        self.updates = plan.updates

    def forward(self, *inputs: Tensor) -> Tensor:
        """Observations in the order of ``observation_keys``, then the noise -> actions (1, horizon, A)."""
        values = dict(zip(self.names, inputs[:-1], strict=True))
        images = {name: value for name, value in values.items() if name in self.cameras}
        proprio = {n: self.scales[n].normalise(v) for n, v in values.items() if n not in self.cameras}
        condition = self.policy.encode(images, proprio).observation
        denoiser, actions = self.policy.denoiser, inputs[-1]
        projected = denoiser.project(condition)
        for step, update in zip(self.steps, self.updates, strict=True):
            predicted = denoiser.denoise(actions, denoiser.film.join(step, projected))
            actions = update(predicted, actions, self.policy.config)
        if self.policy.config.clip_sample:
            actions = actions.clamp(-1, 1)
        return self.actions.restore(actions)


def export_onnx(policy: TrainedPolicy, file: Path) -> float:
    """Write the graph, run it, and give the largest difference of an action, as a share of its range."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - what torch exports by
    except ImportError:
        raise UserError(EXTRA) from None
    inputs = _example(policy)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        graph = PolicyGraph(policy)
        wanted = graph(*inputs).numpy()
        program: Any = torch.onnx.export(
            graph.eval(),
            inputs,
            input_names=[*policy.observation_keys, "noise"],
            output_names=["actions"],
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            external_data=False,
        )
    program.save(str(file))
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    feeds = {node.name: value.numpy() for node, value in zip(session.get_inputs(), inputs, strict=True)}
    actual = session.run(["actions"], feeds)[0]
    scale = np.maximum(policy.normalization.actions.scale.numpy(), 1e-9)
    difference = float(np.abs((actual - wanted) / scale).max())
    if not difference <= LARGEST_DIFFERENCE:
        raise RunError(f"{file.name}: actions differ by {difference:.1e} of their range from the original's")
    return difference


def _example(policy: TrainedPolicy) -> tuple[Tensor, ...]:
    from beacon.serving.export import example_observation

    observation = example_observation(policy)
    tensors = []
    for name in policy.observation_keys:
        steps = torch.from_numpy(observation[name][None, None].repeat(policy.obs_steps, 1))
        tensors.append(steps if name in policy.spec.cameras else steps.float())
    shape = (1, policy.horizon, policy.spec.action_dim)
    return (*tensors, torch.randn(shape, generator=torch.Generator().manual_seed(0)))


def _float(affine: Affine) -> Affine:
    return Affine(affine.offset.float(), affine.scale.float())
