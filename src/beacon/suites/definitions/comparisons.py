"""Methods side by side: sim-to-sim, a stand-in for a real robot, a contaminated source, embeddings."""

from __future__ import annotations

from collections.abc import Iterator

from beacon.sim.domains import REAL_PROXY, TEXTURE, TEXTURE_VIEW
from beacon.suites.datasets import equal_corruptions
from beacon.suites.experiment import EvaluationSpec
from beacon.suites.presets import SuitePreset
from beacon.suites.rows import COMPARED, TWO_SOURCES
from beacon.suites.setting import Setting
from beacon.suites.suite import Suite

PAPER_TASKS = ("stack", "mug-cleanup", "threading")
CORRUPTED_SHARE = 0.3  # of the contaminated source
# Columns of sim2real. The paper's P has target demonstrations and rollouts over the whole region; that one
# policy is judged in its part of the region and outside of it is our addition, but for the latter number.
WHOLE_REGION, TARGET_REGION, OUTSIDE = "whole region", "target region (ours)", "ood"


def _sim2sim(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    yield Setting.same_domain(preset, task, gap, seed)


def _sim2real(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    for target_region, evaluated in (
        ("train", {WHOLE_REGION: "train"}),
        ("target", {TARGET_REGION: "target", OUTSIDE: "ood"}),
    ):
        yield Setting(
            preset,
            task,
            gap,
            seed,
            tuple(
                EvaluationSpec(gap, region, preset.real_episodes, preset.states_seed)
                for region in evaluated.values()
            ),
            tuple(evaluated),
            target_demos=preset.real_demos,
            region=target_region,
        )


def _contaminated(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    corruptions = equal_corruptions(task, CORRUPTED_SHARE)
    yield Setting.same_domain(preset, task, gap, seed, corruptions=corruptions)


def _alignment(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    yield Setting.same_domain(preset, task, gap, seed, evaluations=(), align=True)


SIM2SIM = Suite(
    "sim2sim",
    "three tasks, two gaps, all methods and the mass-matched control",
    PAPER_TASKS,
    (TEXTURE.name, TEXTURE_VIEW.name),
    _sim2sim,
    COMPARED,
)
SIM2REAL = Suite(
    "sim2real",
    "a stand-in for a real robot, in and out of distribution",
    ("stack", "mug-cleanup"),
    (REAL_PROXY.name,),
    _sim2real,
    (*COMPARED, *TWO_SOURCES),
)
CONTAMINATED = Suite(
    "contaminated",
    "30% of the source is corrupted: success, and how well the weights find it",
    PAPER_TASKS,
    (TEXTURE.name,),
    _contaminated,
    (*COMPARED, "beacon-joint"),
)
ALIGNMENT = Suite(
    "alignment",
    "maps of the embeddings, and how well the domains mix in them",
    ("stack", "mug-cleanup"),
    (TEXTURE.name,),
    _alignment,
    ("source-only", "target-only", "cotrain", "mmd", "uot", "beacon-paper", "beacon"),
)
