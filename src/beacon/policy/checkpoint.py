"""A policy on disk: two safetensors files and one JSON file in a folder, nothing that runs code when read.

policy.json          spec, config, normalization, preset, versions
policy.safetensors   the parameters as trained
ema.safetensors      their moving average, what ``load_policy`` takes when it is there
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from beacon import __version__
from beacon.errors import RunError, UserError
from beacon.policy.config import ObservationSpec, PolicyConfig
from beacon.policy.diffusion import DiffusionPolicy
from beacon.policy.trained import Normalization, TrainedPolicy
from beacon.runs.checkpoints import find_checkpoint as find_checkpoint
from beacon.runs.layout import DESCRIPTION

FORMAT = 1
RAW, EMA = "policy.safetensors", "ema.safetensors"


def save_policy(
    folder: str | Path,
    *,
    state: Mapping[str, Tensor],
    ema_state: Mapping[str, Tensor] | None,
    spec: ObservationSpec,
    config: PolicyConfig,
    normalization: Mapping[str, Any],
    preset: str | None = None,
) -> None:
    """Write a policy into ``folder``, which is made if need be.

    ``state`` and ``ema_state`` are ``DiffusionPolicy.state_dict()`` and ``ModelEma.state_dict()``.
    ``normalization`` is ``{"actions": {"offset": [...], "scale": [...]}, "proprio": {key: the same}}``, where
    normalised = (x - offset) / scale, and a scale of 0 marks a constant (0 normalised, ``offset`` back).
    """
    folder = Path(folder)
    Normalization.from_dict(normalization, spec)
    description = {
        "format": FORMAT,
        "spec": spec.to_dict(),
        "config": config.to_dict(),
        "normalization": normalization,
        "preset": preset,
        "versions": {"beacon": __version__, "torch": str(torch.__version__)},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_tensors(folder / RAW, state)
        if ema_state is not None:
            save_tensors(folder / EMA, ema_state)
        (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"{folder}: could not save the policy ({error})") from error


def load_policy(path: str | Path, *, device: str | torch.device = "cpu", ema: bool = True) -> TrainedPolicy:
    """A policy that acts, from a run folder (its newest checkpoint) or from a checkpoint folder itself."""
    folder = find_checkpoint(path)
    description = read_description(folder)
    spec = ObservationSpec.from_dict(description["spec"])
    config = PolicyConfig.from_dict(description["config"])
    normalization = Normalization.from_dict(description["normalization"], spec)
    policy = DiffusionPolicy(spec, config)
    file = folder / (EMA if ema and (folder / EMA).exists() else RAW)
    load_weights(policy, file)
    return TrainedPolicy(policy.to(device), normalization)


def read_description(folder: str | Path) -> dict[str, Any]:
    """The checked content of ``policy.json``."""
    file = Path(folder) / DESCRIPTION
    try:
        description = json.loads(_read_text(file))
    except json.JSONDecodeError as error:
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


def save_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors; a full disk is an ``OSError`` like any other."""
    plain = {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}
    try:
        save_file(plain, file)
    except SafetensorError as error:
        if system := re.search(r"os error (\d+)", str(error)):  # as "No space left on device (os error 28)"
            number = int(system[1])
            raise OSError(number, os.strerror(number)) from error
        raise OSError(str(error)) from error


def load_tensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file, with one clear line when it is missing or damaged."""
    try:
        return load_file(file)
    except FileNotFoundError as error:
        raise UserError(f"{file}: there is no such file") from error
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file}: damaged, not a readable safetensors file ({error})") from error


def load_weights(policy: DiffusionPolicy, file: Path) -> None:
    """Load a policy's parameters and check that they are this policy's."""
    found, wanted = load_tensors(file), policy.state_dict()
    if missing := sorted(set(wanted) - set(found)):
        raise UserError(f"{file}: {len(missing)} parameters are missing, such as {missing[0]}")
    if unknown := sorted(set(found) - set(wanted)):
        raise UserError(f"{file}: {len(unknown)} parameters are not this policy's, such as {unknown[0]}")
    for name, value in wanted.items():
        if found[name].shape != value.shape:
            raise UserError(f"{file}: {name} has shape {tuple(found[name].shape)}, not {tuple(value.shape)}")
    policy.load_state_dict(found)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UserError(f"{file}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: damaged, not readable as text ({error})") from error
