"""How well the audit finds injected corruptions: python benchmarks/audit.py FOLDER [--tasks stack ...].

For every task, FOLDER gets sound demonstrations of the source domain and ten of the target (another table and
camera; --target names another domain), made once. Every corruption is injected into 5, 30 and 60% of the
source, in memory. A line of FOLDER/audit.jsonl (audit-<target>.jsonl) is one measurement: the area under the
curve of the scores, false alarms among sound demonstrations, the share of corrupted ones that are accused, of
these the share whose kind, and whose kind and size are named right. Of duplicates, which accuse nobody, it
is the share of pairs that are remarked. Measurements that are there are not made again; --table prints them
all.
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

from audit_corruptions import ACTIONS, CLEAN, DUPLICATES, KINDS, SIZES, WRONG_OBJECT
from beacon.analysis import area_under_curve
from beacon.audit import SetVerdict
from beacon.audit.recordings import Recording, read_recordings
from beacon.audit.run import AuditOptions, judge_recordings, look_at
from beacon.data import EpisodeSet, load_domains
from beacon.sim.generate import GenerateConfig, generate
from beacon.sim.tasks import find_task

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
TARGET, TARGET_DEMOS = "texture-view", 10  # usual domain of the target, and how many there are


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

    def __init__(self, name: str, folder: Path, demos: int, target: str = TARGET) -> None:
        self.name = name
        self._folder, stem = folder, name.replace("/", "-")
        paths = [folder / f"{stem}-{domain}.hdf5" for domain in ("source", target)]
        _provide(name, paths[0], "source", demos, seed=0)
        _provide(name, paths[1], target, TARGET_DEMOS, seed=102)
        self._source, trusted = load_domains(paths)
        began = time.perf_counter()
        self.target, self.sound = read_recordings(trusted), read_recordings(self._source)
        self.reading = time.perf_counter() - began
        self._seen: dict[str, list[Recording]] = {}
        self.looks = look_at(self.sound, self.target, AuditOptions())

    def corrupted(self, corruption: str, chosen: NDArray[np.int64]) -> list[Recording] | None:
        """The set with some demonstrations corrupted; None where the task does not know the corruption."""
        recordings, rng = list(self.sound), np.random.default_rng(1)
        others = self._others(corruption)
        if others is not None and len(others) < len(recordings) and len(others) < len(chosen):
            return None
        originals = np.setdiff1d(np.arange(len(recordings)), chosen)
        for position, number in enumerate(chosen.tolist()):
            if corruption in ACTIONS:
                changed = ACTIONS[corruption][1](recordings[number].actions, rng)
                recordings[number] = replace(recordings[number], actions=changed.astype(np.float32))
            elif corruption == "dropped frames":
                recordings[number] = _drop(recordings[number])
            elif corruption == DUPLICATES:
                recordings[number] = recordings[originals[position % len(originals)]]
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
            _provide(wrong, path, "source", round(max(SHARES) * len(self.sound)), seed=7000)
            return read_recordings(EpisodeSet.load(path))
        change = _freeze if corruption == "frozen frames" else lambda frames: frames[:, :, ::-1]
        images = {camera: cast(Any, _Seen(frames, change)) for camera, frames in self._source.images.items()}
        return read_recordings(replace(self._source, images=images))


def _provide(task: str, path: Path, domain: str, demos: int, seed: int) -> None:
    if not path.exists():
        generate(GenerateConfig(task, path, demos=demos, domain=domain, seed=seed, image_size=64))


def measure(verdict: SetVerdict, chosen: NDArray[np.int64], corruption: str) -> dict[str, Any]:
    """One row of the table.

    Args:
        verdict: of the audit.
        chosen: which demonstrations are corrupted.
        corruption: a key of KINDS, or clean.
    """
    kind, sound = KINDS.get(corruption, ""), np.setdiff1d(np.arange(len(verdict.demos)), chosen)
    accused = set(verdict.accused)
    scores = np.array([demo.score for demo in verdict.demos])
    if corruption == DUPLICATES:
        return {"auc": None, **_duplicates(verdict, chosen, sound)}
    found = [number for number in chosen.tolist() if number in accused]
    first = [verdict.demos[n].evidence[0] for n in found if verdict.demos[n].evidence]
    named = [item for item in first if item.kind == kind]
    is_right = SIZES.get(corruption)
    sized = sum(item.repair is not None and is_right(item.repair) for item in named) if is_right else None
    return {
        "auc": area_under_curve(scores[chosen], scores[sound]) if len(chosen) else None,
        "false_alarms": len(accused & set(sound.tolist())) / max(len(sound), 1),
        "found": len(found) / max(len(chosen), 1),
        "named": len(named) / max(len(found), 1),
        "sized": None if sized is None else sized / max(len(found), 1),
    }


def _duplicates(verdict: SetVerdict, chosen: NDArray[np.int64], sound: NDArray[np.int64]) -> dict[str, Any]:
    """The remark is made of the later one of two, which may be the copy or what it was copied from."""
    said = {n for n, demo in enumerate(verdict.demos) if any(e.kind == "duplicate" for e in demo.evidence)}
    originals = [int(sound[position % len(sound)]) for position in range(len(chosen))]
    pairs = list(zip(chosen.tolist(), originals, strict=True))
    copied = {number for pair in pairs for number in pair}
    found = sum(bool(said & set(pair)) for pair in pairs) / max(len(pairs), 1)
    return {
        "false_alarms": len(set(verdict.accused)) / len(verdict.demos),
        "found": found,
        "named": 1.0 - len(said - copied) / max(len(said), 1),
        "sized": None,
    }


def measurements(
    task: Task, shares: list[float], kinds: list[str], done: set[tuple[str, str, float]]
) -> Iterator[dict[str, Any]]:
    """All of a task that are not there yet, the clean set first."""
    for corruption in (CLEAN, *kinds):
        for share in shares if corruption != CLEAN else [0.0]:
            if (task.name, corruption, share) in done:
                continue
            count = len(task.sound)
            chosen = np.sort(np.random.default_rng(0).permutation(count)[: round(share * count)])
            recordings = task.corrupted(corruption, chosen)
            if recordings is None:
                continue
            began = time.perf_counter(), time.process_time()
            looks = task.looks if corruption in ACTIONS else None
            verdict = judge_recordings(recordings, task.target, AuditOptions(), looks=looks)
            row = measure(verdict, chosen, corruption)
            spent = {
                "seconds": time.perf_counter() - began[0],
                "processor_seconds": time.process_time() - began[1],
                "reading_seconds": task.reading,
            }
            about = {"task": task.name, "corruption": corruption, "share": share, "demos": count}
            yield {**about, **row, **spent}


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, a table a share: a line a corruption, a column a task."""
    tasks = [name for name in TASKS if any(row["task"] == name for row in rows)]
    tasks += sorted({row["task"] for row in rows} - set(TASKS))
    head = [
        "| corruption | " + " | ".join(task.rpartition("/")[2] for task in tasks) + " |",
        "|---" * (1 + len(tasks)) + "|",
    ]
    found = {(row["task"], row["corruption"], row["share"]): row for row in rows}
    lines = []
    for share in sorted({row["share"] for row in rows}):
        lines += ["", f"{share:.0%} corrupted:" if share else "Clean sets:", "", *head]
        for corruption in KINDS if share else (CLEAN,):
            cells = [_cell(found.get((task, corruption, share)), corruption) for task in tasks]
            lines.append(f"| {corruption} | " + " | ".join(cells) + " |")
    return "\n".join(lines[1:])


def _cell(row: dict[str, Any] | None, corruption: str) -> str:
    """AUC, share found, sound ones accused, kind named right and, after a slash, its size, too."""
    if row is None:
        return "–"
    if corruption == CLEAN:
        return f"{round(row['false_alarms'] * row['demos'])} of {row['demos']} accused"
    if corruption == DUPLICATES:
        return f"{row['found']:.0%} remarked"
    named = f"{row['named']:.0%}" + ("" if row["sized"] is None else f" / {row['sized']:.0%}")
    return f"{row['auc']:.2f}; {row['found']:.0%}; {row['false_alarms']:.0%}; {named}"


def main() -> None:
    """Measure what is not there, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--demos", type=int, default=100)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--target", default=TARGET, help="domain of the target demonstrations")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    results = asked.folder / ("audit.jsonl" if asked.target == TARGET else f"audit-{asked.target}.jsonl")
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if asked.table:
        print(table(rows))
        return
    done = {(row["task"], row["corruption"], row["share"]) for row in rows}
    for name in asked.tasks:
        task = Task(name, asked.folder, asked.demos, asked.target)
        for row in measurements(task, list(asked.shares), asked.kinds, done):
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
