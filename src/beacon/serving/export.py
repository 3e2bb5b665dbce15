"""A policy alone, in one folder to hand on: parameters, description, where it comes from, a card.

policy.json, policy.safetensors   what `beacon.load_policy`, `beacon serve` and `beacon evaluate` read
provenance.json                   training data with hashes, method, success rates, versions
README.md                         the same for people, as model hubs show it
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beacon import __version__
from beacon.errors import RunError, UserError
from beacon.files import as_part, remove_leftovers, sync, writing
from beacon.policy import load_policy, save_policy
from beacon.policy.checkpoint import find_checkpoint, read_description
from beacon.policy.trained import TrainedPolicy
from beacon.serving.card import ONNX, TORCH, write_card
from beacon.serving.example import example_observation
from beacon.serving.protocol import fingerprint
from beacon.serving.provenance import PROVENANCE, read_provenance

CARD = "README.md"


@dataclass(frozen=True)
class ExportOptions:
    """What a policy's folder says and holds besides the policy."""

    license: str | None = None  # of the parameters, as an SPDX name; None: not stated
    onnx: bool = False  # also write the policy as one ONNX graph
    torch_export: bool = False  # and as one of torch.export


def export_policy(run: Path, out: Path, options: ExportOptions) -> dict[str, Any]:
    """Write the policy of a run into the new folder ``out``, load it again and compare what it does.

    Args:
        run: a run folder, or a checkpoint.
        out: where; must not exist.
        options: licence and further formats.

    Returns:
        What was compared: ``sha256`` of the policy, and ``differences``, the largest one of an action by the
        name of a graph's file.
    """
    if out.exists() or out.is_symlink():
        raise UserError(f"{out}: exists already; choose another folder")
    checkpoint = find_checkpoint(run)
    policy, description = load_policy(run), read_description(checkpoint)
    provenance = {
        "beacon": __version__,
        "policy_sha256": fingerprint(policy),
        "license": options.license,
        **read_provenance(run, checkpoint),
    }
    temporary = out.with_name(f".{out.name}.{os.getpid()}.partial")
    report: dict[str, Any] = {"sha256": provenance["policy_sha256"]}
    with writing(out):
        remove_leftovers(out, ".partial")
        try:
            temporary.mkdir(parents=True)
            with as_part():
                save_policy(
                    temporary,
                    state=policy.policy.state_dict(),  # the averaged parameters, if there were any
                    ema_state=None,
                    spec=policy.spec,
                    config=policy.policy.config,
                    normalization=description["normalization"],
                    preset=description.get("preset"),
                    deployment=policy.deployment,
                )
            _compare(policy, temporary)
            report["differences"] = _export_graphs(policy, temporary, options)
            (temporary / PROVENANCE).write_text(json.dumps(provenance, indent=2) + "\n")
            (temporary / CARD).write_text(write_card(out.name, policy, provenance, report))
            for file in temporary.iterdir():
                sync(file)
            temporary.rename(out)
            sync(out.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return report


def _export_graphs(policy: TrainedPolicy, folder: Path, options: ExportOptions) -> dict[str, float]:
    """Write the graphs that are asked for; the largest difference of an action by name of the file."""
    if not (options.onnx or options.torch_export):
        return {}
    from beacon.serving.graph_export import export_onnx, export_torch

    differences = {}
    if options.onnx:
        differences[ONNX] = export_onnx(policy, folder / ONNX)
    if options.torch_export:
        differences[TORCH] = export_torch(policy, folder / TORCH)
    return differences


def _compare(policy: TrainedPolicy, folder: Path) -> None:
    """The exported policy must do what the original does, to the bit."""
    copy = load_policy(folder)
    observation = example_observation(policy)
    policy.reset(0)
    same = np.array_equal(policy.predict(observation), copy.predict(observation))
    if not same or fingerprint(copy) != fingerprint(policy):
        raise RunError(f"{folder}: the exported policy does not do what the original does")
