"""Several sources of differing worth: pooling them hurts, and the right order of their weights is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from beacon.sim.domains import OTHER_DYNAMICS, TEXTURE, TEXTURE_VIEW
from beacon.suites.datasets import WRONG_OBJECT
from beacon.suites.experiment import DatasetSpec
from beacon.suites.presets import SuitePreset
from beacon.suites.setting import Setting
from beacon.suites.suite import Suite

MIRRORED = "mirrored"
# Seeds of the demonstrations: every source has scenes of its own.
FIRST_SEED = 20


def _sources(preset: SuitePreset, task: str) -> dict[str, tuple[DatasetSpec, ...]]:
    """The columns: sources of each, the best first; all columns have as many demonstrations in all."""

    def take(*specs: DatasetSpec) -> tuple[DatasetSpec, ...]:
        demos = preset.source_demos // len(specs)
        return tuple(
            replace(spec, demos=demos, seed=FIRST_SEED + number) for number, spec in enumerate(specs)
        )

    source = DatasetSpec(task, "source", preset.source_demos, preset.size)
    mirrored = replace(source, corruptions=((MIRRORED, 1.0),))
    wrong_object = replace(source, corruptions=((WRONG_OBJECT, 1.0),))
    other_camera = replace(source, domain=TEXTURE_VIEW.name)
    other_dynamics = replace(source, domain=OTHER_DYNAMICS.name)
    return {
        "one of two mirrored": take(source, mirrored),
        "other camera, other dynamics": take(source, other_camera, other_dynamics),
        "two of four wrong": take(source, other_dynamics, mirrored, wrong_object),
    }


def _multisource(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    for name, sources in _sources(preset, task).items():
        yield Setting.same_domain(preset, task, gap, seed, sources=sources, details=(name,))


MULTISOURCE = Suite(
    "multisource",
    "two to four sources of differing worth, of which the first is the best",
    ("stack",),
    (TEXTURE.name,),
    _multisource,
    (
        "cotrain",
        "cotrain-natural",
        "cotrain-best-source",
        "beacon-paper",
        "beacon-paper-preconditioned",
        "beacon",
        "beacon-pooled",
        "beacon-best-source",
    ),
)
