"""The demonstrations of a suite: made once, by whoever needs them first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py

from beacon.data.corruption import ACTION_CORRUPTIONS, Replace, choose_corruptions, write_corrupted
from beacon.errors import UserError
from beacon.suites.cell import DatasetSpec
from beacon.suites.locks import waiting

WRONG_OBJECT, OTHER_CAMERA = "wrong-object", "other-camera"
# Tasks with a second object that an expert can take for the first.
WRONG_TASKS = {"stack": "beacon.suites.wrong_object:WrongStack"}
WRONG_SEED = 7000  # added to the dataset's own, so that these scenes are not the ones they replace
Progress = Callable[[int, int], None]  # demonstrations done, in all


def faults_of(task: str, share: float) -> tuple[tuple[str, float], ...]:
    """All kinds of fault that a task can have, with equal shares that add up to ``share``."""
    kinds = [*ACTION_CORRUPTIONS, *([WRONG_OBJECT] if task in WRONG_TASKS else []), OTHER_CAMERA]
    return tuple((kind, round(share / len(kinds), 6)) for kind in kinds)


def provide(spec: DatasetSpec, folder: Path, progress: Progress | None = None) -> Path:
    """The dataset's file, which is made if it is not there; a call that was cut off goes on."""
    path = folder / spec.file_name
    if path.exists():
        return path
    tell = progress or (lambda *_: None)
    sound = provide(replace(spec, faults=()), folder, progress) if spec.faults else None
    with waiting(folder / f".{spec.file_name}.lock", lambda: tell(0, spec.demos)):
        if path.exists():  # another process has made it meanwhile
            return path
        if sound is None:
            _generate(spec, spec.task, spec.seed, spec.demos, path, tell)
        else:
            _spoil(spec, sound, folder, path, tell)
    return path


def _generate(spec: DatasetSpec, task: str, seed: int, demos: int, path: Path, tell: Progress) -> None:
    from beacon.sim.generate import GenerateConfig, generate

    config = GenerateConfig(
        task=task, out=path, demos=demos, domain=spec.domain, size=spec.size, region=spec.region, seed=seed
    )
    generate(config, lambda done, total, _: tell(done, total))


def _spoil(spec: DatasetSpec, sound: Path, folder: Path, path: Path, tell: Progress) -> None:
    shares = dict(spec.faults)
    kinds = choose_corruptions(spec.demos, shares, spec.seed)
    others: dict[str, Replace] = {}
    if OTHER_CAMERA in kinds:
        others[OTHER_CAMERA] = _seen_otherwise(spec)
    if WRONG_OBJECT in kinds:
        if spec.task not in WRONG_TASKS:
            raise UserError(f"{spec.task} has no second object, so no demonstrations on the wrong one")
        wrong = folder / f"{WRONG_OBJECT}-{spec.file_name}"
        if not wrong.exists():
            count = kinds.count(WRONG_OBJECT)
            _generate(spec, WRONG_TASKS[spec.task], spec.seed + WRONG_SEED, count, wrong, tell)
        others[WRONG_OBJECT] = _taken_from(wrong)
    write_corrupted(sound, path, shares, spec.seed, others)


def _seen_otherwise(spec: DatasetSpec) -> Replace:
    """Pictures of the same states by the rotated camera, in the domain's own look."""
    from beacon.sim.domains import View, resolve_domain
    from beacon.sim.rollout import pictures
    from beacon.sim.world import World

    own = resolve_domain(spec.domain)
    world = World(spec.task, replace(own, name=f"{own.name}-rotated", view=View(rotated=True)), spec.size)

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
