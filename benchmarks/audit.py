"""How well the audit finds injected corruptions: python benchmarks/audit.py FOLDER [--tasks stack ...].

For every task, FOLDER gets sound demonstrations of the source domain and ten of the target (another table and
camera), made once. Every corruption is injected into 5, 30 and 60% of the source, in memory. A line of
FOLDER/audit.jsonl is one measurement: the area under the curve of the scores, false alarms among sound
demonstrations, the share of corrupted ones that are accused, and of these the share whose kind is named
right.
Measurements that are there are not made again; --table prints them all.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from beacon.analysis import area_under_curve
from beacon.audit import SetVerdict
from beacon.audit.recordings import Recording, read_recordings
from beacon.audit.run import AuditOptions, judge_recordings
from beacon.data import EpisodeSet, load_domains
from beacon.sim.generate import GenerateConfig, generate
from beacon.sim.tasks import find_task

Actions = NDArray[np.float32]
ChangeActions = Callable[[Actions, np.random.Generator], Actions]
SHARES = (0.05, 0.3, 0.6)
FROZEN = slice(10, 30)  # frames that show one picture
DROPPED = slice(20, 28)  # steps that are not recorded
TASKS = (
    "stack",
    "mug-cleanup",
    "threading",
    "metaworld/door-open-v3",
    "metaworld/window-open-v3",
    "metaworld/plate-slide-v3",
    "metaworld/handle-pull-side-v3",
)
CLEAN, WRONG_OBJECT = "clean", "wrong object"
TARGET, TARGET_DEMOS = "texture-view", 10  # domain of the target, and how many there are


def late(steps: int) -> ChangeActions:
    """Actions that come so many steps late."""
    return lambda actions, _: np.concatenate([np.repeat(actions[:1], steps, axis=0), actions[:-steps]])


def times(factors: dict[int, float]) -> ChangeActions:
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


ACTIONS: dict[str, tuple[str, ChangeActions]] = {
    "late by 2": ("lag", late(2)),
    "late by 4": ("lag", late(4)),
    "late by 6": ("lag", late(6)),
    "late by 8": ("lag", late(8)),
    "x mirrored": ("sign", times({0: -1})),
    "y mirrored": ("sign", times({1: -1})),
    "z mirrored": ("sign", times({2: -1})),
    "half as large": ("scale", times({0: 0.5, 1: 0.5, 2: 0.5})),
    "twice as large": ("scale", times({0: 2, 1: 2, 2: 2})),
    "x and y swapped": ("permutation", swap),
    "noise": ("actions", noise),
}
KINDS = {name: kind for name, (kind, _) in ACTIONS.items()} | {
    "dropped frames": "dropped frames",
    "frozen frames": "frozen frames",
    "turned camera": "another camera",
    WRONG_OBJECT: "another goal",
}


class _Seen:
    """Frames of one camera, changed as they are read, so that no second copy of a set is held."""

    def __init__(self, frames: NDArray[np.uint8], change: Callable[[Any], Any]) -> None:
        self.frames, self.change = frames, change

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        return cast("NDArray[np.uint8]", self.change(np.array(self.frames[rows])))


def _freeze(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    frames[FROZEN] = frames[FROZEN.start : FROZEN.start + 1]
    return frames


def _drop(recording: Recording) -> Recording:
    kept = np.delete(np.arange(len(recording.actions)), np.arange(len(recording.actions))[DROPPED])
    change = recording.change.copy()
    change[DROPPED.stop] = change[DROPPED].sum()  # at most: what the missing frames would have shown
    arrays = {name: getattr(recording, name)[kept] for name in ("state", "actions", "pictures")}
    return replace(recording, change=change[kept], **arrays)


class Task:
    """Demonstrations of one task, sound and otherwise, as the audit looks at them."""

    def __init__(self, name: str, folder: Path, demos: int) -> None:
        self.name = name
        self._folder, stem = folder, name.replace("/", "-")
        paths = [folder / f"{stem}-{domain}.hdf5" for domain in ("source", TARGET)]
        _provide(name, paths[0], "source", demos, seed=0)
        _provide(name, paths[1], TARGET, TARGET_DEMOS, seed=102)
        self._source, target = load_domains(paths)
        began = time.perf_counter()
        self.target, self.sound = read_recordings(target), read_recordings(self._source)
        self.reading = time.perf_counter() - began
        self._seen: dict[str, list[Recording]] = {}

    def corrupted(self, corruption: str, chosen: NDArray[np.int64]) -> list[Recording] | None:
        """The set with some demonstrations corrupted; None where the task does not know the corruption."""
        recordings, rng = list(self.sound), np.random.default_rng(1)
        others = self._others(corruption)
        if others is not None and len(others) < len(recordings) and len(others) < len(chosen):
            return None
        for position, number in enumerate(chosen.tolist()):
            if corruption in ACTIONS:
                changed = ACTIONS[corruption][1](recordings[number].actions, rng)
                recordings[number] = replace(recordings[number], actions=changed.astype(np.float32))
            elif corruption == "dropped frames":
                recordings[number] = _drop(recordings[number])
            elif others is not None:
                recordings[number] = others[position if corruption == WRONG_OBJECT else number]
        return recordings

    def _others(self, corruption: str) -> list[Recording] | None:
        """What stands in the place of sound demonstrations, where it has to be read."""
        if corruption not in ("frozen frames", "turned camera", WRONG_OBJECT):
            return None
        if corruption not in self._seen:
            self._seen = {corruption: self._read(corruption)}
        return self._seen[corruption]

    def _read(self, corruption: str) -> list[Recording]:
        if corruption == WRONG_OBJECT:
            wrong = find_task(self.name).wrong_object
            if wrong is None:
                return []
            path = self._folder / f"{self.name}-wrong-object.hdf5"
            _provide(wrong, path, "source", round(0.3 * len(self.sound)), seed=7000)
            return read_recordings(EpisodeSet.load(path))
        change = _freeze if corruption == "frozen frames" else lambda frames: frames[:, :, ::-1]
        images = {camera: cast(Any, _Seen(frames, change)) for camera, frames in self._source.images.items()}
        return read_recordings(replace(self._source, images=images))


def _provide(task: str, path: Path, domain: str, demos: int, seed: int) -> None:
    if not path.exists():
        generate(GenerateConfig(task, path, demos=demos, domain=domain, seed=seed, image_size=64))


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
        "auc": area_under_curve(scores[chosen], scores[sound]) if len(chosen) else None,
        "false_alarms": len(accused & set(sound.tolist())) / max(len(sound), 1),
        "found": len(found) / max(len(chosen), 1),
        "named": named / max(len(found), 1),
    }


def measurements(
    task: Task, shares: list[float], done: set[tuple[str, str, float]]
) -> Iterator[dict[str, Any]]:
    """All of a task that are not there yet, the clean set first."""
    for corruption in (CLEAN, *KINDS):
        for share in shares if corruption != CLEAN else [0.0]:
            if (task.name, corruption, share) in done:
                continue
            count = len(task.sound)
            chosen = np.sort(np.random.default_rng(0).permutation(count)[: round(share * count)])
            recordings = task.corrupted(corruption, chosen)
            if recordings is None:
                continue
            began = time.perf_counter(), time.process_time()
            verdict = judge_recordings(recordings, task.target, AuditOptions())
            row = measure(verdict, chosen, KINDS.get(corruption, ""))
            spent = {
                "seconds": time.perf_counter() - began[0],
                "processor_seconds": time.process_time() - began[1],
                "reading_seconds": task.reading,
            }
            about = {"task": task.name, "corruption": corruption, "share": share, "demos": count}
            yield {**about, **row, **spent}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a line a corruption, a column a task, "AUC at 5, 30, 60%; named"."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    lines = ["| corruption | " + " | ".join(tasks) + " |", "|---" * (1 + len(tasks)) + "|"]
    for corruption in (CLEAN, *KINDS):
        cells = []
        for name in tasks:
            here = [r for r in rows if r["task"] == name and r["corruption"] == corruption]
            here.sort(key=lambda row: float(row["share"]))
            if corruption == CLEAN:
                cells.append(", ".join(f"{r['false_alarms']:.1%} accused" for r in here))
            else:
                cells.append(
                    " · ".join(f"{r['auc']:.2f}/{r['false_alarms']:.0%}/{r['named']:.0%}" for r in here)
                )
        lines.append(f"| {corruption} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is not there, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--demos", type=int, default=100)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    results = asked.folder / "audit.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if asked.table:
        print(table(rows))
        return
    done = {(row["task"], row["corruption"], row["share"]) for row in rows}
    for name in asked.tasks:
        for row in measurements(Task(name, asked.folder, asked.demos), list(asked.shares), done):
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            auc = "    –" if row["auc"] is None else f"{row['auc']:.3f}"
            print(
                f"{name:<30} {row['corruption']:<16} {row['share']:>4.0%}  AUC {auc}  "
                f"false {row['false_alarms']:.3f}  found {row['found']:.3f}  named {row['named']:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
