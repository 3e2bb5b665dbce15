"""A policy's graph as a file for programs without BEACON, ONNX or torch.export; each is run and compared."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beacon.errors import RunError, UserError
from beacon.policy.trained import TrainedPolicy
from beacon.serving.example import example_observation
from beacon.serving.policy_graph import PolicyGraph

LARGEST_DIFFERENCE = 1e-3  # of an action's range; more is a failure
EXTRA = "--onnx needs onnx, onnxscript and onnxruntime: pip install 'beacon-cotraining[export]'"
OPSET = 18
TRIALS = 3  # observations and noises on which a graph is compared

Runner = Callable[[tuple[Tensor, ...]], NDArray[Any]]


def export_onnx(policy: TrainedPolicy, file: Path) -> float:
    """Write the graph as ONNX, run it, and give the largest difference of an action, as a share of its range.

    Args:
        policy: on the CPU, in float32.
        file: to write.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - what torch exports by
    except ImportError:
        raise UserError(EXTRA) from None
    graph = PolicyGraph(policy).eval()
    with _quietly():
        program: Any = torch.onnx.export(
            graph,
            _inputs(policy, graph, seed=0),
            input_names=[*policy.observation_keys, "noise"],
            output_names=["actions"],
            dynamo=True,
            verbose=False,
            opset_version=OPSET,
            external_data=False,
        )
    program.save(str(file))
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def run(inputs: tuple[Tensor, ...]) -> NDArray[Any]:
        feeds = {node.name: value.numpy() for node, value in zip(session.get_inputs(), inputs, strict=True)}
        actions: NDArray[Any] = session.run(["actions"], feeds)[0]
        return actions

    return _compare(policy, graph, run, file)


def export_torch(policy: TrainedPolicy, file: Path) -> float:
    """The same by torch.export, to be read by `torch.export.load` in Python and by AOTInductor for C++.

    Args:
        policy: on the CPU, in float32.
        file: to write.
    """
    graph = PolicyGraph(policy).eval()
    with _quietly():
        program = torch.export.export(graph, _inputs(policy, graph, seed=0))
        torch.export.save(program, file)
        loaded = torch.export.load(file).module()
    return _compare(policy, graph, lambda inputs: np.asarray(loaded(*inputs).detach().numpy()), file)


def _compare(policy: TrainedPolicy, graph: PolicyGraph, run: Runner, file: Path) -> float:
    """The largest difference from what the policy itself does with the same observation and noise."""
    scale = np.maximum(policy.normalization.actions.scale.numpy(), 1e-9)
    difference = 0.0
    for seed in range(TRIALS):
        policy.reset(seed)
        wanted = policy.predict(example_observation(policy, seed))
        actual = run(_inputs(policy, graph, seed))[0]
        difference = max(difference, float(np.abs((actual - wanted) / scale).max()))
    if not difference <= LARGEST_DIFFERENCE:
        raise RunError(f"{file.name}: actions differ by {difference:.1e} of their range from the original's")
    return difference


def _inputs(policy: TrainedPolicy, graph: PolicyGraph, seed: int) -> tuple[Tensor, ...]:
    observation = example_observation(policy, seed)
    tensors = []
    for name in policy.observation_keys:
        steps = torch.from_numpy(observation[name][None, None].repeat(policy.obs_steps, 1))
        tensors.append(steps if name in policy.spec.cameras else steps.float())
    return (*tensors, graph.draw_noise(torch.Generator().manual_seed(seed)))


@contextmanager
def _quietly() -> Iterator[None]:
    """Without gradients, and without what the exporters say of packages that nobody asked for."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export")]
    levels = [logger.level for logger in loggers]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
