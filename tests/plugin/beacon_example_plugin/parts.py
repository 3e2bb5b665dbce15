"""A domain, a method variant and a suite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from beacon.sim.domains import TEXTURE
from beacon.suites.presets import SuitePreset
from beacon.suites.setting import Setting
from beacon.suites.suite import Suite
from beacon.suites.variants import MethodVariant

EVENING = replace(
    TEXTURE, name="evening", description="little light", look=replace(TEXTURE.look, headlight=0.15)
)
QUARTER = MethodVariant("cotrain-0.25", "Co-training, 0.25", "cotrain", {"ratio": 0.25}, suites=("sim2sim",))


def settings(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    """One column for each task and gap."""
    yield Setting.same_domain(preset, task, gap, seed)


EVENINGS = Suite(
    "evenings",
    "cubes at dusk",
    tasks=("raise-cube",),
    gaps=("evening",),
    settings=settings,
    rows=("cotrain", QUARTER),
)
