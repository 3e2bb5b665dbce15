"""People's demonstrations: PushT, with a source that is right about pushing and wrong about where to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from beacon.data.corruption import ACTION_CORRUPTIONS
from beacon.suites.definitions.comparisons import CORRUPTED_SHARE
from beacon.suites.experiment import DatasetSpec, EvaluationSpec
from beacon.suites.presets import SuitePreset
from beacon.suites.rows import COMPARED
from beacon.suites.setting import SOURCE_SEED, TARGET_SEED, Setting
from beacon.suites.suite import Suite

TASK, SOURCE_TASK, GAP = "pusht", "pusht-moved", "goal"
SOURCE_DEMOS = 151  # all that there are
TARGET_DEMOS = (10, 20)
WORLD = "source"  # the domain of both: the package's own look
# With as many steps as the preset has. A first choice, to be checked on validation states with 150 target
# demonstrations alone; the goal is a mean coverage of 0.7.
BATCH_SIZE = 32


@dataclass(frozen=True)
class PushTSetting(Setting):
    """A setting whose demonstrations were recorded: which ones, the seed says."""

    def source(self) -> DatasetSpec:
        """The demonstrations with the moved goal."""
        demos = min(SOURCE_DEMOS, self.preset.source_demos)
        return DatasetSpec(
            SOURCE_TASK, WORLD, demos, self.preset.size, seed=SOURCE_SEED, corruptions=self.corruptions
        )

    def target(self) -> DatasetSpec:
        """As many as any column needs, others for every seed."""
        pool = max(_target_demos(self.preset))
        return DatasetSpec(TASK, WORLD, pool, self.preset.size, seed=TARGET_SEED + self.seed)


def sized(preset: SuitePreset) -> SuitePreset:
    """A preset for the CPU with the mini-batches that this task needs; others as they are.

    Args:
        preset: of the suite.
    """
    if preset.train_preset != "cpu" or preset.name == "tiny":
        return preset
    return replace(preset, optimization={**preset.optimization, "batch_size": BATCH_SIZE})


def _target_demos(preset: SuitePreset) -> tuple[int, ...]:
    return preset.scaling if preset.name == "tiny" else TARGET_DEMOS


def _settings(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    corrupted = tuple((name, round(CORRUPTED_SHARE / 3, 6)) for name in ACTION_CORRUPTIONS)
    for demos in _target_demos(preset):
        for words, corruptions in (("clean", ()), (f"{CORRUPTED_SHARE:.0%} corrupted", corrupted)):
            yield PushTSetting(
                sized(preset),
                task,
                gap,
                seed,
                (EvaluationSpec(WORLD, "train", preset.episodes, preset.states_seed),),
                (f"n={demos}, {words}",),
                target_demos=demos,
                corruptions=corruptions,
            )


PUSHT = Suite(
    "pusht",
    "PushT by people: the source's goal is elsewhere; clean and with 30% corrupted",
    (TASK,),
    (GAP,),
    _settings,
    COMPARED,
)
