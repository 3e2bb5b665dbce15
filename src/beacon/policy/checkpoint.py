"""A policy on disk: two safetensors files and one JSON file in a folder, nothing that runs code when read.

policy.json          spec, config, normalization, deployment, preset, versions
policy.safetensors   the parameters as trained
ema.safetensors      their moving average, what ``load_policy`` takes when it is there
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from beacon import __version__
from beacon.errors import UserError
from beacon.files import writing
from beacon.plain import from_plain, to_plain
from beacon.policy.config import ObservationSpec, PolicyConfig
from beacon.policy.deployment import DeploymentInfo
from beacon.policy.diffusion import DiffusionPolicy
from beacon.policy.noise import make_scheduler
from beacon.policy.tensor_files import check_header, load_parameters, load_tensors, save_tensors
from beacon.policy.trained import Normalization, TrainedPolicy
from beacon.runs.checkpoints import find_checkpoint as find_checkpoint
from beacon.runs.layout import DESCRIPTION

__all__ = [
    "DESCRIPTION",
    "EMA",
    "RAW",
    "find_checkpoint",
    "load_policy",
    "load_tensors",
    "load_weights",
    "read_description",
    "save_policy",
    "save_tensors",
]

FORMAT = 1
RAW, EMA = "policy.safetensors", "ema.safetensors"
LARGEST_DESCRIPTION = 2**24  # bytes
# What no policy has, and what would take the machine's memory or minutes if a damaged file said it.
LARGEST_NUMBER, LARGEST_SIDE, LARGEST_TIMESTEPS, LARGEST_BLOCKS = 10**6, 2**14, 10**5, 10**3


def save_policy(
    folder: str | Path,
    *,
    state: Mapping[str, Tensor],
    ema_state: Mapping[str, Tensor] | None,
    spec: ObservationSpec,
    config: PolicyConfig,
    normalization: Mapping[str, Any],
    preset: str | None = None,
    deployment: DeploymentInfo | None = None,
) -> None:
    """Write a policy.

    Args:
        folder: where; it is made if need be.
        state: ``DiffusionPolicy.state_dict()``.
        ema_state: ``ModelEma.state_dict()``, or None.
        spec: names and shapes of observations and actions.
        config: what the network is made of.
        normalization: ``{"actions": {"offset": [...], "scale": [...]}, "proprio": {key: the same}}``, where
            normalised = (x - offset) / scale; a scale of 0 marks a constant (0 normalised, ``offset`` back).
        preset: name of the preset that ``config`` started from.
        deployment: names in the training data, control rate, names of the action's values.
    """
    folder = Path(folder)
    Normalization.from_dict(normalization, spec)
    description = {
        "format": FORMAT,
        "spec": spec.to_dict(),
        "config": config.to_dict(),
        "normalization": normalization,
        "deployment": to_plain(deployment or DeploymentInfo()),
        "preset": preset,
        "versions": {"beacon": __version__, "torch": str(torch.__version__)},
    }
    with writing(folder, "the policy is not saved"):
        folder.mkdir(parents=True, exist_ok=True)
        save_tensors(folder / RAW, state)
        if ema_state is not None:
            save_tensors(folder / EMA, ema_state)
        (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def load_policy(path: str | Path, *, device: str | torch.device = "cpu", ema: bool = True) -> TrainedPolicy:
    """A policy that acts.

    Args:
        path: a run folder (its newest checkpoint counts), a checkpoint folder, or what `beacon export` wrote.
        device: where to compute.
        ema: take the averaged parameters when they are there.
    """
    folder = find_checkpoint(path)
    description = read_description(folder)
    file = folder / DESCRIPTION
    spec = from_plain(ObservationSpec, description["spec"], f"{file}: spec")
    config = from_plain(PolicyConfig, description["config"], f"{file}: config")
    deployment = from_plain(DeploymentInfo, description.get("deployment") or {}, f"{file}: deployment")
    _check_sizes(file, spec, config)
    if len(deployment.action_names) not in (0, spec.action_dim):
        named = len(deployment.action_names)
        raise UserError(f"{file}: deployment: {named} names for {spec.action_dim} values of an action")
    try:
        normalization = Normalization.from_dict(description["normalization"], spec)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    weights = folder / (EMA if ema and (folder / EMA).exists() else RAW)
    check_header(weights, _shapes(spec, config))
    policy = DiffusionPolicy(spec, config)
    load_weights(policy, weights)
    return TrainedPolicy(policy.to(device), normalization, deployment=deployment)


def read_description(folder: str | Path) -> dict[str, Any]:
    """The checked content of ``policy.json``."""
    file = Path(folder) / DESCRIPTION
    try:
        description = json.loads(_read_text(file))
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{file}: damaged, not JSON ({error})") from error
    if not isinstance(description, dict):
        raise UserError(f"{file}: damaged, not a description of a policy")
    if missing := [key for key in ("format", "spec", "config", "normalization") if key not in description]:
        raise UserError(f"{file}: damaged, {', '.join(missing)} is missing")
    if description["format"] != FORMAT:
        raise UserError(
            f"{file}: format {description['format']}, this version of beacon reads format {FORMAT}"
        )
    return description


def load_weights(policy: DiffusionPolicy, file: Path) -> None:
    """Load a policy's parameters; they must be this policy's, and finite."""
    policy.load_state_dict(load_parameters(file, policy.state_dict()))


def _shapes(spec: ObservationSpec, config: PolicyConfig) -> dict[str, Tensor]:
    """Names and shapes of a policy's parameters, without the memory that a damaged file may ask for."""
    plain = replace(config, encoder=replace(config.encoder, whiten=False))  # a constant, no parameter
    make_scheduler(plain)  # imports diffusers; with torch 2.6 that fails where tensors are made on "meta"
    with torch.device("meta"):
        return DiffusionPolicy(spec, plain).state_dict()


def _check_sizes(file: Path, spec: ObservationSpec, config: PolicyConfig) -> None:
    for name, shape in spec.cameras.items():
        if max(shape) > LARGEST_SIDE:
            raise UserError(f"{file}: damaged, camera {name!r} has images of {shape}")
    if config.train_timesteps > LARGEST_TIMESTEPS or config.mlp_blocks > LARGEST_BLOCKS:
        raise UserError(
            f"{file}: damaged, {config.train_timesteps} diffusion steps and {config.mlp_blocks} blocks"
        )
    counts = [spec.action_dim, *spec.proprio.values(), *_integers(to_plain(config))]
    if max(counts) > LARGEST_NUMBER:
        raise UserError(f"{file}: damaged, a size of {max(counts)}")


def _integers(value: Any) -> list[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in _integers(item)]
    return [value] if isinstance(value, int) else []


def _read_text(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST_DESCRIPTION:
            raise UserError(f"{file}: damaged, {file.stat().st_size} bytes")
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UserError(f"{file}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: damaged, not readable as text ({error})") from error
