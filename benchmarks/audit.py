"""How well the audit finds injected corruptions: python benchmarks/audit.py SOURCE TARGET [--shares 0.3].

SOURCE and TARGET are sound demonstrations, for example of ``beacon generate stack``. Every corruption is
injected into 5, 30 and 60% of the source, in memory. For each: the area under the curve of the scores, false
alarms among sound demonstrations, the share of corrupted ones that are accused, and of these the share whose
kind is named right. The first row is the source as it is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.analysis import area_under_curve
from beacon.audit import SetVerdict, run_audit
from beacon.data import EpisodeSet, load_domains

Actions = NDArray[np.float32]
SHARES = (0.05, 0.3, 0.6)
FROZEN = slice(10, 30)  # frames that show one picture


def late(steps: int) -> Callable[[Actions, np.random.Generator], Actions]:
    """Actions that come so many steps late."""
    return lambda actions, _: np.concatenate([np.repeat(actions[:1], steps, axis=0), actions[:-steps]])


def times(factors: dict[int, float]) -> Callable[[Actions, np.random.Generator], Actions]:
    """Actions with some dimensions multiplied."""

    def change(actions: Actions, _: np.random.Generator) -> Actions:
        scale = np.ones(actions.shape[1], np.float32)
        for dimension, factor in factors.items():
            scale[dimension] = factor
        return actions * scale

    return change


def swap(actions: Actions, _: np.random.Generator) -> Actions:
    """Dimensions 0 and 1 exchanged."""
    return actions[:, [1, 0, *range(2, actions.shape[1])]]


def noise(actions: Actions, rng: np.random.Generator) -> Actions:
    """Noise on all dimensions but the gripper."""
    noisy = actions.copy()
    noisy[:, :-1] += 0.5 * rng.normal(size=noisy[:, :-1].shape).astype(np.float32)
    return np.clip(noisy, -1, 1)


ACTIONS: dict[str, tuple[str, Callable[[Actions, np.random.Generator], Actions]]] = {
    "late by 2": ("lag", late(2)),
    "late by 4": ("lag", late(4)),
    "late by 8": ("lag", late(8)),
    "x mirrored": ("sign", times({0: -1})),
    "y mirrored": ("sign", times({1: -1})),
    "z mirrored": ("sign", times({2: -1})),
    "half as large": ("scale", times({0: 0.5, 1: 0.5, 2: 0.5})),
    "twice as large": ("scale", times({0: 2, 1: 2, 2: 2})),
    "x and y swapped": ("permutation", swap),
    "noise": ("actions", noise),
}
PICTURES = {"frozen frames": "frozen frames", "turned camera": "another camera"}


def corrupted(source: EpisodeSet, corruption: str, chosen: NDArray[np.int64]) -> EpisodeSet:
    """The set with some demonstrations corrupted.

    Args:
        source: sound demonstrations.
        corruption: name in `ACTIONS` or `PICTURES`.
        chosen: which demonstrations.
    """
    rng = np.random.default_rng(1)
    actions = source.actions.copy()
    images = {camera: np.array(frames) for camera, frames in source.images.items()}
    for number in chosen.tolist():
        rows = slice(int(source.starts[number]), int(source.starts[number] + source.lengths[number]))
        if corruption in ACTIONS:
            actions[rows] = ACTIONS[corruption][1](actions[rows], rng)
            continue
        for frames in images.values():
            if corruption == "frozen frames":
                frames[rows][FROZEN] = frames[rows][FROZEN.start]
            else:
                frames[rows] = frames[rows][:, :, ::-1]
    return replace(source, actions=actions, images=images)


def measure(verdict: SetVerdict, chosen: NDArray[np.int64], kind: str) -> dict[str, Any]:
    """One row of the table.

    Args:
        verdict: of the audit.
        chosen: which demonstrations are corrupted.
        kind: what the audit calls it.
    """
    scores = np.array([demo.score for demo in verdict.demos])
    sound = np.setdiff1d(np.arange(len(scores)), chosen)
    accused = set(verdict.accused)
    found = [number for number in chosen.tolist() if number in accused]
    named = sum(any(item.kind == kind for item in verdict.demos[n].evidence[:1]) for n in found)
    return {
        "auc": area_under_curve(scores[chosen], scores[sound]),
        "false_alarms": len(accused & set(sound.tolist())) / max(len(sound), 1),
        "found": len(found) / max(len(chosen), 1),
        "named": named / max(len(found), 1),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    asked = parser.parse_args()
    source, target = load_domains([asked.source, asked.target])
    began = time.perf_counter()
    clean = run_audit([source], target).sets[0]
    seconds = time.perf_counter() - began
    print(f"clean: {len(clean.accused)} of {len(source)} accused, {seconds:.1f} s")
    rows = []
    kinds = {name: kind for name, (kind, _) in ACTIONS.items()} | PICTURES
    print(f"{'corruption':<16} share    AUC  false  found  named")
    for corruption, kind in kinds.items():
        for share in asked.shares:
            chosen = np.random.default_rng(0).permutation(len(source))[: round(share * len(source))]
            verdict = run_audit([corrupted(source, corruption, np.sort(chosen))], target).sets[0]
            row = measure(verdict, np.sort(chosen), kind)
            rows.append({"corruption": corruption, "share": share, **row})
            numbers = f"{row['auc']:.3f}  {row['false_alarms']:.3f}  {row['found']:.3f}  {row['named']:.3f}"
            print(f"{corruption:<16} {share:>5.0%}  {numbers}", flush=True)
    if asked.json is not None:
        content = {"clean_accused": len(clean.accused), "demos": len(source), "seconds": seconds}
        asked.json.write_text(json.dumps({**content, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
