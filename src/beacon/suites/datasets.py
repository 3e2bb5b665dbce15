"""The demonstrations of a suite: made once, by whoever needs them first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py

from beacon.data.corruption import ACTION_CORRUPTIONS, Replace, choose_corruptions, write_corrupted
from beacon.errors import UserError
from beacon.sim.addresses import load_attribute
from beacon.sim.tasks import find_task
from beacon.suites.experiment import DatasetSpec
from beacon.suites.locks import waiting

WRONG_OBJECT, OTHER_CAMERA = "wrong-object", "other-camera"
WRONG_SEED = 7000  # added to the dataset's own, so that these scenes are not the ones they replace
Progress = Callable[[int, int], None]  # demonstrations done, in all


def equal_corruptions(task: str, share: float) -> tuple[tuple[str, float], ...]:
    """All corruptions that a task can have, with equal shares that add up to ``share``."""
    wrong_object = [WRONG_OBJECT] if find_task(task).wrong_object else []
    names = [*ACTION_CORRUPTIONS, *wrong_object, OTHER_CAMERA]
    return tuple((name, round(share / len(names), 6)) for name in names)


def provide(spec: DatasetSpec, folder: Path, progress: Progress | None = None, workers: int = 1) -> Path:
    """The dataset's file, which is made if it is not there; a call that was cut off goes on.

    Args:
        spec: what is in it.
        folder: where it is, or is to be.
        progress: is told how many demonstrations there are, and of how many.
        workers: processes that make demonstrations; they do not change the result.
    """
    path = folder / spec.file_name
    if path.exists():
        return path
    tell = progress or (lambda *_: None)
    if spec.repaired_for is not None:
        corrupted = provide(spec.unrepaired(), folder, progress, workers)
        target = provide(spec.repaired_for, folder, progress, workers)
        with waiting(folder / f".{spec.file_name}.lock", lambda: tell(0, spec.demos)):
            if not path.exists():
                _repair(corrupted, target, spec.repaired_demos, path)
        return path
    sound = provide(spec.sound(), folder, progress, workers) if spec.corruptions else None
    seeds = provide(spec.seeds(), folder, progress, workers) if spec.expanded_from and sound is None else None
    with waiting(folder / f".{spec.file_name}.lock", lambda: tell(0, spec.demos)):
        if path.exists():  # another process has made it meanwhile
            return path
        if sound is None:
            _generate(spec, spec.task, spec.seed, spec.demos, path, tell, workers, seeds)
        else:
            _corrupt(spec, sound, folder, path, tell)
    return path


def _generate(
    spec: DatasetSpec,
    task: str,
    seed: int,
    demos: int,
    path: Path,
    tell: Progress,
    workers: int = 1,
    expanded: Path | None = None,
) -> None:
    from beacon.sim.generate import GenerateConfig, generate

    recordings = find_task(task).recordings
    if recordings is not None:
        load_attribute(recordings, "the demonstrations")(task, path, demos, seed, tell)
        return
    config = GenerateConfig(
        task=task,
        out=path,
        demos=demos,
        domain=spec.domain,
        size=spec.size,
        region=spec.region,
        seed=seed,
        workers=workers,
        mimic=expanded,
    )
    generate(config, lambda done, total, _: tell(done, total))


def _corrupt(spec: DatasetSpec, sound: Path, folder: Path, path: Path, tell: Progress) -> None:
    shares = dict(spec.corruptions)
    seed = spec.seed if spec.corruption_seed is None else spec.corruption_seed
    chosen = choose_corruptions(spec.demos, shares, seed)
    others: dict[str, Replace] = {}
    if (own := find_task(spec.task).corruptions) is not None:
        others |= load_attribute(own, "the corruptions")(seed)
    if OTHER_CAMERA in chosen:
        others[OTHER_CAMERA] = _seen_otherwise(spec)
    if WRONG_OBJECT in chosen:
        wrong_task = find_task(spec.task).wrong_object
        if wrong_task is None:
            raise UserError(f"{spec.task} has no second object, so no demonstrations on the wrong one")
        wrong = folder / f"{WRONG_OBJECT}-{spec.file_name}"
        if not wrong.exists():
            count = chosen.count(WRONG_OBJECT)
            _generate(spec, wrong_task, spec.seed + WRONG_SEED, count, wrong, tell)
        others[WRONG_OBJECT] = _taken_from(wrong)
    write_corrupted(sound, path, shares, seed, others)


def _repair(corrupted: Path, target: Path, target_demos: int, path: Path) -> None:
    """What ``beacon audit`` and ``beacon data repair`` do."""
    from beacon.audit import AuditOptions, run_audit
    from beacon.audit.repair import repair_dataset
    from beacon.audit.saved import SavedAudit
    from beacon.data import load_domains

    source, trusted = load_domains([corrupted, target], limits=[None, target_demos])
    result = run_audit([source], trusted)
    saved = SavedAudit.of([source], trusted, AuditOptions(), result)
    repair_dataset(corrupted, path, saved, f"the audit of {corrupted.name}")


def _seen_otherwise(spec: DatasetSpec) -> Replace:
    """Pictures of the same states by the rotated camera, in the domain's own look."""
    from beacon.sim.domains import View, resolve_domain
    from beacon.sim.rollout import pictures
    from beacon.sim.simulation import make_world

    own = resolve_domain(spec.domain)
    rotated = replace(own, name=f"{own.name}-rotated", view=View(rotated=True))
    world = make_world(spec.task, rotated, spec.size)

    def render(data: h5py.Group, name: str) -> None:
        demo = data[name]
        frames = pictures(world, demo["states"][()], int(demo.attrs["seed"]))
        demo["obs"]["agentview_image"][...] = frames

    return render


def _taken_from(path: Path) -> Replace:
    """The next demonstration of another file in place of each."""
    taken = [0]

    def take(data: h5py.Group, name: str) -> None:
        with h5py.File(path, "r") as other:
            del data[name]
            other.copy(f"data/demo_{taken[0]}", data, name=name)
        taken[0] += 1

    return take
