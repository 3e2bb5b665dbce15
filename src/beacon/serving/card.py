"""The card of an exported policy: README.md with a header that model hubs read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from beacon.policy.trained import TrainedPolicy

ONNX, TORCH = "policy.onnx", "policy.pt2"
FITS = {"stretch": "others are stretched", "pad": "others are padded", "crop": "others are cropped"}
GRAPHS = {
    ONNX: "observation and noise to actions as one ONNX graph",
    TORCH: "the same for `torch.export.load`",
}


def write_card(
    name: str, policy: TrainedPolicy, provenance: Mapping[str, Any], report: Mapping[str, Any]
) -> str:
    """The text of README.md.

    Args:
        name: of the policy.
        policy: what is described.
        provenance: content of provenance.json.
        report: what the export compared.
    """
    licence = provenance.get("license")
    header = {
        "library_name": "beacon-cotraining",
        "pipeline_tag": "robotics",
        "tags": ["robotics", "imitation-learning", "diffusion-policy", "beacon"],
        "license": licence.lower() if licence else "other",
    }
    if not licence:
        header["license_name"] = "not-stated"
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---",
        f"# {_plain(name)}",
        "A diffusion policy for a robot, trained with BEACON. Observation steps that it sees: "
        f"{policy.obs_steps}. Actions that it predicts: {policy.horizon}, "
        f"of which the first {policy.action_steps} are meant to be executed before the next look.",
        _usage(name, provenance),
        "## Observations and actions\n\n" + _shapes(policy),
        "## Training\n\n" + _training(provenance),
        "## Success rates\n\n" + _success(provenance),
        "## Files\n\n" + _files(provenance, report),
        f"## Licence\n\n{_plain(licence) if licence else 'Not stated. Ask who gave you this folder.'}",
    ]
    return "\n\n".join(parts) + "\n"


def _usage(name: str, provenance: Mapping[str, Any]) -> str:
    folder = _plain(name)
    # Only what was evaluated is known to have a simulation.
    evaluated = [(entry["task"], entry["domain"]) for entry in provenance.get("success") or []]
    plain = [pair for pair in evaluated if all(re.fullmatch(r"[\w./-]+", word) for word in pair)]
    evaluate = f"beacon evaluate {folder} --task {plain[0][0]} --domain {plain[0][1]}\n" if plain else ""
    return (
        "```python\nimport beacon\n\n"
        f'policy = beacon.load_policy("{folder}")\n'
        "actions = policy.act(observation)  # (steps to execute, action dims)\n```\n\n"
        f"```sh\nbeacon serve {folder}      # for robots' programs, by openpi's websocket protocol\n"
        f"{evaluate}```"
    )


def _shapes(policy: TrainedPolicy) -> str:
    rows = [("name", "shape", "type", "also called")]
    for key in policy.observation_keys:
        image = key in policy.spec.cameras
        shape = policy.spec.cameras[key] if image else (policy.spec.proprio[key],)
        others = ", ".join(policy.deployment.data_names(key)[1:]) or "–"
        kind = f"uint8 image, {FITS[policy.deployment.image_fit]}" if image else "float32"
        rows.append((key, " × ".join(map(str, shape)), kind, others))
    names = ", ".join(policy.action_names)
    rows.append(("action", str(policy.spec.action_dim), "float32", names))
    rate = policy.deployment.control_rate
    return _table(rows) + f"\n\nControl rate: {f'{rate:g} actions per second' if rate else 'not stated'}."


def _training(provenance: Mapping[str, Any]) -> str:
    training = provenance.get("training") or {}
    facts = ", ".join(f"{key} {value}" for key, value in training.items()) or "Not known."
    rows = [("data", "role", "demonstrations", "SHA-256 of actions", "SHA-256 of first frames")]
    for entry in provenance.get("data") or []:
        hashes = (entry["actions_sha256"][:16], entry["first_frames_sha256"][:16])
        rows.append((entry["name"], entry["role"], str(entry["demonstrations"]), *hashes))
    return facts[0].upper() + facts[1:] + ("\n\n" + _table(rows) if len(rows) > 1 else "")


def _success(provenance: Mapping[str, Any]) -> str:
    rows = [("task", "size", "domain", "region", "criterion", "success", "95% interval", "episodes")]
    for entry in provenance.get("success") or []:
        low, high = entry.get("wilson_95") or (None, None)
        interval = f"{100 * low:.1f} to {100 * high:.1f}%" if low is not None and high is not None else "–"
        where = tuple(entry[key] for key in ("task", "size", "domain", "region", "criterion"))
        rows.append((*where, f"{100 * entry['rate']:.1f}%", interval, str(entry["episodes"])))
    return _table(rows) if len(rows) > 1 else "Not measured."


def _files(provenance: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    lines = [
        "- `policy.json`, `policy.safetensors`: the policy; nothing that runs code when it is read",
        "- `provenance.json`: where it comes from, with whole hashes",
    ]
    for file, difference in (report.get("differences") or {}).items():
        lines.append(
            f"- `{file}`: {GRAPHS[file]}; actions differ from the original's by at most "
            f"{difference:.1e} of their range"
        )
    return "\n".join(lines) + f"\n\nSHA-256 of the policy: `{provenance['policy_sha256']}`"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(_plain(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Names of others must not become markup."""
    letters = (letter if letter.isprintable() else " " for letter in str(text)[:200])
    return "".join(f"\\{letter}" if letter in r"\`*<>[]|#" else letter for letter in letters)
