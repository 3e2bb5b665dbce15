"""Do repaired demonstrations train as well as sound ones?"""

from __future__ import annotations

from collections.abc import Iterator

from beacon.data.corruption import REPAIRABLE
from beacon.sim.domains import TEXTURE
from beacon.suites.definitions.comparisons import CORRUPTED_SHARE
from beacon.suites.presets import SuitePreset
from beacon.suites.setting import Setting
from beacon.suites.suite import Suite

REPAIRED_TASKS = ("stack", "metaworld/door-open-v3")


def _repaired(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    corruptions = tuple((name, round(CORRUPTED_SHARE / len(REPAIRABLE), 6)) for name in REPAIRABLE)
    yield Setting.same_domain(preset, task, gap, seed, details=("clean",))
    yield Setting.same_domain(preset, task, gap, seed, details=("corrupted",), corruptions=corruptions)
    yield Setting.same_domain(
        preset, task, gap, seed, details=("repaired",), corruptions=corruptions, repaired=True
    )


REPAIRED = Suite(
    "repaired",
    "30% of the source late, mirrored or half as large; as it is, and repaired after an audit",
    REPAIRED_TASKS,
    (TEXTURE.name,),
    _repaired,
    ("cotrain", "beacon"),
)
