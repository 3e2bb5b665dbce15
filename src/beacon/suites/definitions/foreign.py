"""A world that nobody here wrote: Meta-World's tasks, clean and with a corrupted source."""

from __future__ import annotations

from collections.abc import Iterator

from beacon.sim.domains import TEXTURE_VIEW
from beacon.suites.datasets import equal_corruptions
from beacon.suites.definitions.comparisons import CORRUPTED_SHARE
from beacon.suites.presets import SuitePreset
from beacon.suites.rows import COMPARED
from beacon.suites.setting import Setting
from beacon.suites.suite import Suite

# The tasks on which options may be chosen. All others of Meta-World are kept for tests of what was chosen.
METAWORLD_TASKS = (
    "metaworld/door-open-v3",
    "metaworld/window-open-v3",
    "metaworld/plate-slide-v3",
    "metaworld/handle-pull-side-v3",
)
CLEAN, CORRUPTED = "clean", f"{CORRUPTED_SHARE:.0%} corrupted"


def _metaworld(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    yield Setting.same_domain(preset, task, gap, seed, details=(CLEAN,))
    corruptions = equal_corruptions(task, CORRUPTED_SHARE)
    yield Setting.same_domain(preset, task, gap, seed, details=(CORRUPTED,), corruptions=corruptions)


METAWORLD = Suite(
    "metaworld",
    "four tasks of Meta-World with another table and camera, the source clean and 30% corrupted",
    METAWORLD_TASKS,
    (TEXTURE_VIEW.name,),
    _metaworld,
    COMPARED,
)
