"""Checkpoints: a folder of safetensors and JSON that appears whole or not at all.

checkpoints/<step>/
    policy.json, policy.safetensors, ema.safetensors    what `beacon.load_policy` reads
    optimizer.safetensors                                AdamW's moments
    method.safetensors                                   the method's state: weights, discrepancies, ...
    trainer.json                                         where the run stands
checkpoints/last                                         the name of the newest step folder
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beacon.errors import UserError
from beacon.files import as_part
from beacon.policy.checkpoint import (
    EMA,
    RAW,
    load_tensors,
    load_weights,
    save_policy,
    save_tensors,
)
from beacon.policy.deployment import DeploymentInfo
from beacon.policy.diffusion import DiffusionPolicy
from beacon.policy.ema import ModelEma
from beacon.policy.flat import FlatParameters
from beacon.policy.tensor_files import load_parameters
from beacon.runs.checkpoints import Checkpoints, find_checkpoint
from beacon.runs.checksums import require_whole
from beacon.runs.layout import step_name

OPTIMIZER, METHOD, TRAINER = "optimizer.safetensors", "method.safetensors", "trainer.json"
ADAMW = {"exp_avg", "exp_avg_sq", "step"}


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a run has come."""

    epoch: int  # epochs done
    step: int  # gradient steps done


def save_checkpoint(
    folder: Path,
    progress: Progress,
    policy: DiffusionPolicy,
    parameters: FlatParameters,
    ema: ModelEma,
    optimizer: torch.optim.Optimizer,
    method_state: dict[str, NDArray[Any]],
    *,
    normalization: dict[str, Any],
    preset: str,
    configuration: str,
    keep: int,
    deployment: DeploymentInfo | None = None,
) -> Path:
    """Write checkpoint ``folder/<step>``, point ``last`` at it, and remove all but the newest ``keep``.

    Args:
        folder: ``checkpoints/`` of the run.
        progress: where the run stands.
        policy: as trained.
        parameters: the policy's.
        ema: its moving average.
        optimizer: AdamW, with its moments.
        method_state: of the method.
        normalization: of actions and proprioception.
        preset: name of the preset.
        configuration: digest of the run's configuration.
        keep: checkpoints to keep.
    """
    with Checkpoints(folder).saving(progress.step, keep) as temporary:
        with as_part():  # `saving` says what became of the checkpoint
            save_policy(
                temporary,
                state=policy.state_dict(),
                ema_state=ema.state_dict(),
                spec=policy.spec,
                config=policy.config,
                normalization=normalization,
                preset=preset,
                deployment=deployment,
            )
        save_tensors(temporary / OPTIMIZER, _optimizer_tensors(optimizer, parameters))
        save_tensors(temporary / METHOD, {k: torch.from_numpy(np.array(v)) for k, v in method_state.items()})
        where = {"epoch": progress.epoch, "step": progress.step, "configuration": configuration}
        (temporary / TRAINER).write_text(json.dumps(where) + "\n")
    return folder / step_name(progress.step)


def load_checkpoint(
    run: Path,
    configuration: str,
    policy: DiffusionPolicy,
    parameters: FlatParameters,
    ema: ModelEma,
    optimizer: torch.optim.Optimizer,
) -> tuple[Progress, dict[str, NDArray[Any]]]:
    """Restore the newest checkpoint of a run; return where it stands and the method's state."""
    folder = find_checkpoint(run)
    require_whole(folder, Checkpoints(folder.parent).before(folder))
    try:
        where = json.loads((folder / TRAINER).read_text())
        progress = Progress(int(where["epoch"]), int(where["step"]))
        whose = where["configuration"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder / TRAINER}: missing or damaged ({error}); the run cannot be resumed"
        ) from None
    if whose != configuration:
        raise UserError(
            f"{folder}: is of a run with another configuration; the run cannot be resumed with it"
        )
    load_weights(policy, folder / RAW)
    ema.load_state_dict(load_parameters(folder / EMA, dict(policy.named_parameters())))
    _load_optimizer(optimizer, parameters, load_tensors(folder / OPTIMIZER), folder / OPTIMIZER)
    state = {name: value.numpy() for name, value in load_tensors(folder / METHOD).items()}
    return progress, state


def _optimizer_tensors(optimizer: torch.optim.Optimizer, parameters: FlatParameters) -> dict[str, Tensor]:
    """The optimiser's state by parameter name."""
    tensors: dict[str, Tensor] = {}
    for key, value in optimizer.state.get(parameters.values, {}).items():
        own = dict.fromkeys(parameters.names, value) if key == "step" else parameters.views(value)
        tensors |= {f"{key}/{name}": part.clone() for name, part in own.items()}
    return tensors


def _load_optimizer(
    optimizer: torch.optim.Optimizer, parameters: FlatParameters, tensors: dict[str, Tensor], file: Path
) -> None:
    moments: dict[str, dict[str, Tensor]] = {}
    for full_name, value in tensors.items():
        key, _, name = full_name.partition("/")
        moments.setdefault(key, {})[name] = value
    if set(moments) != ADAMW:
        raise UserError(f"{file}: holds {sorted(moments)}, not AdamW's {sorted(ADAMW)}")
    own = parameters.views(parameters.values)
    steps = moments.pop("step")
    _check_shapes(steps, dict.fromkeys(own, torch.empty(())), file)
    state = optimizer.state[parameters.values]
    # They are the same for all parameters.
    state["step"] = next(iter(steps.values())).to(parameters.values.device)
    for key, values in moments.items():
        _check_shapes(values, own, file)
        state[key] = torch.empty_like(parameters.values)
        for name, view in parameters.views(state[key]).items():
            view.copy_(values[name])


def _check_shapes(stored: dict[str, Tensor], wanted: dict[str, Tensor], file: Path) -> None:
    """A tensor of every name and shape that the policy has, and no other: copying would stretch it to fit."""
    for name in sorted({*stored, *wanted}):
        here, there = stored.get(name), wanted.get(name)
        if here is None or there is None or here.shape != there.shape:
            raise UserError(f"{file}: belongs to a policy with other parameters, such as {name}")
