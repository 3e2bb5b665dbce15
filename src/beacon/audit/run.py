"""An audit from beginning to end: source sets and a target in, a verdict on every demonstration out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from beacon.audit.cameras import check_cameras
from beacon.audit.diagnosis import DYNAMICS
from beacon.audit.distance import SetDistance, measure_distance
from beacon.audit.dynamics import check_dynamics
from beacon.audit.dynamics_model import DynamicsOptions
from beacon.audit.evidence import SUSPICIOUS, CheckResult, Evidence, Vector, benjamini_hochberg
from beacon.audit.goals import GoalOptions, check_goals
from beacon.audit.habits import HabitOptions, check_habits
from beacon.audit.look_alikes import LookAlikeOptions, check_look_alikes
from beacon.audit.pictures import FRAMES, PictureOptions, check_frames
from beacon.audit.recordings import DEFAULT_RATE, Recording, control_rate, read_recordings
from beacon.data.episodes import EpisodeSet
from beacon.errors import UserError
from beacon.progress import tell as tell_progress

CAUSES = (FRAMES, DYNAMICS)  # checks whose evidence explains that of others
Advance = Callable[[str, int, int], None]  # what is being done, how many frames are done, of how many


@dataclass(frozen=True)
class AuditOptions:
    """Everything that decides an audit."""

    # Share of false accusations among all that are accused (Benjamini and Hochberg).
    false_discovery_rate: float = 0.05
    # Actions against motion.
    dynamics: DynamicsOptions = field(default_factory=DynamicsOptions)
    # Where the first picture says that the robot goes.
    goals: GoalOptions = field(default_factory=GoalOptions)
    # What demonstrations that look alike do.
    look_alikes: LookAlikeOptions = field(default_factory=LookAlikeOptions)
    # Cameras and frames.
    pictures: PictureOptions = field(default_factory=PictureOptions)
    # How demonstrations were recorded.
    habits: HabitOptions = field(default_factory=HabitOptions)

    def __post_init__(self) -> None:
        if not 0 < self.false_discovery_rate < 1:
            raise UserError(
                f"--false-discovery-rate {self.false_discovery_rate}: must be above 0 and below 1"
            )


@dataclass(frozen=True)
class DemoVerdict:
    """What an audit says of one demonstration."""

    name: str
    frames: int
    score: float  # −log10 of the p-value
    p_value: float  # of the strongest evidence, corrected for the number of checks
    is_accused: bool
    evidence: tuple[Evidence, ...]  # causes and the strongest first, remarks last

    @property
    def reason(self) -> str:
        """The first evidence in words; empty where there is none."""
        return self.evidence[0].text if self.evidence else ""


@dataclass(frozen=True)
class SetVerdict:
    """What an audit says of one source set."""

    name: str
    path: str
    demos: tuple[DemoVerdict, ...]
    remarks: tuple[str, ...]  # about the whole set, and what could not be checked
    distance: SetDistance

    @property
    def accused(self) -> tuple[int, ...]:
        """Numbers of the accused demonstrations."""
        return tuple(number for number, demo in enumerate(self.demos) if demo.is_accused)

    @property
    def sound_share(self) -> float:
        """Share of demonstrations that are not accused."""
        return 1.0 - len(self.accused) / len(self.demos)

    def worst_first(self) -> list[DemoVerdict]:
        """The demonstrations, accused ones first, then by p-value."""
        return sorted(self.demos, key=lambda demo: (not demo.is_accused, demo.p_value, -len(demo.evidence)))

    @property
    def delete_command(self) -> str | None:
        """The line that removes the accused with LeRobot's own tool; None for other formats."""
        folder = Path(self.path)
        numbers = [_episode_index(self.demos[number].name) for number in self.accused]
        if not self.accused or None in numbers or not (folder / "meta" / "info.json").exists():
            return None
        return (
            f"lerobot-edit-dataset --repo_id {shlex.quote(folder.name)} --root {shlex.quote(str(folder))} "
            f'--operation.type delete_episodes --operation.episode_indices "{numbers}"'
        )


def _episode_index(name: str) -> int | None:
    """The number of a LeRobot episode, which our reader calls episode_<number>."""
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdecimal() else None


@dataclass(frozen=True)
class AuditResult:
    """All sets of an audit."""

    target: str
    target_demos: int
    sets: tuple[SetVerdict, ...]


def run_audit(
    sources: Sequence[EpisodeSet],
    target: EpisodeSet,
    options: AuditOptions | None = None,
    advance: Advance | None = None,
) -> AuditResult:
    """Audit every source set against the target; nothing is trained.

    Args:
        sources: the sets, with the same observations and actions as the target.
        target: demonstrations that are taken to be sound.
        options: of the audit.
        advance: told how far it is.
    """
    options = options or AuditOptions()
    advance = advance or tell_progress
    _refuse_too_little(sources, target)
    total = target.frames + sum(source.frames for source in sources)
    done = 0

    def read(episodes: EpisodeSet) -> list[Recording]:
        nonlocal done

        def tell(frames: int) -> None:
            nonlocal done
            done += frames
            if advance is not None:
                advance(f"reading {episodes.name}", done, total)

        return read_recordings(episodes, tell)

    trusted = read(target)
    verdicts = []
    for source in sources:
        recordings = read(source)
        if advance is not None:
            advance(f"auditing {source.name}", done, total)
        verdicts.append(
            judge_recordings(
                recordings,
                trusted,
                options,
                name=source.name,
                path=str(source.path),
                rate=control_rate(source),
            )
        )
    return AuditResult(target.name, len(target), tuple(verdicts))


def _refuse_too_little(sources: Sequence[EpisodeSet], target: EpisodeSet) -> None:
    for episodes in (*sources, target):
        if not episodes.images and not episodes.proprio:
            raise UserError(
                f"{episodes.path}: neither cameras nor proprioception are used, so nothing can be audited; "
                "choose some with --cameras or --proprio"
            )
    for episodes in sources:
        if len(episodes) < 2:
            raise UserError(
                f"{episodes.path} has one demonstration; an audit compares those of a set with each other"
            )


@dataclass(frozen=True, eq=False)
class Looks:
    """What does not depend on actions: the same for sets that differ in nothing else."""

    goals: CheckResult
    cameras: CheckResult
    distance: SetDistance


def look_at(recordings: list[Recording], target: list[Recording], options: AuditOptions) -> Looks:
    """What pictures and states say of a set."""
    return Looks(
        check_goals(recordings, options.goals),
        check_cameras(recordings, target, options.pictures),
        measure_distance(recordings, target),
    )


def judge_recordings(
    recordings: list[Recording],
    target: list[Recording],
    options: AuditOptions,
    *,
    name: str = "",
    path: str = "",
    rate: float = DEFAULT_RATE,
    looks: Looks | None = None,
) -> SetVerdict:
    """Judge the demonstrations of one set.

    Args:
        recordings: of the set.
        target: of the target, which is taken to be sound.
        options: of the audit.
        name: of the set.
        path: of the set.
        rate: control steps a second.
        looks: what `look_at` says of the set; None: look now.
    """
    looks = looks or look_at(recordings, target, options)
    dynamics = check_dynamics(recordings, target, options.dynamics)
    checks = [
        dynamics,
        looks.goals,
        check_look_alikes(recordings, target, options.look_alikes, dynamics.p_values < SUSPICIOUS),
        looks.cameras,
    ]
    single = [
        *check_frames(recordings, target, options.pictures),
        *check_habits(recordings, rate, options.habits),
    ]
    evidence = [item for check in checks for item in check.evidence] + single
    # A demonstration has as many chances to look bad as there are checks.
    p_values = np.min([check.p_values for check in checks] + [_smallest(single, len(recordings))], axis=0)
    p_values = np.minimum(1.0, (len(checks) + 1) * p_values)
    accused = benjamini_hochberg(p_values, options.false_discovery_rate)
    demos = tuple(
        DemoVerdict(
            name=recording.name,
            frames=len(recording.actions),
            score=float(-np.log10(max(p_values[number], 1e-300))) + 0.0,  # no -0.0
            p_value=float(p_values[number]),
            is_accused=bool(accused[number]),
            evidence=_sorted([item for item in evidence if item.demo == number]),
        )
        for number, recording in enumerate(recordings)
    )
    remarks = [check.remark for check in checks if check.remark]
    return SetVerdict(name, path, demos, tuple(remarks), looks.distance)


def _smallest(evidence: Sequence[Evidence], demos: int) -> Vector:
    """The smallest p-value of every demonstration's faults, (demos,)."""
    p_values = np.ones(demos)
    for item in evidence:
        if item.is_fault:
            p_values[item.demo] = min(p_values[item.demo], item.p_value)
    return p_values


def _sorted(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Causes before what follows from them, remarks last.

    Where frames are missing, actions do not fit the motion; where they do not fit, they are not those of
    look-alikes.
    """

    def order(item: Evidence) -> tuple[bool, int, float, float]:
        rank = CAUSES.index(item.check) if item.check in CAUSES else len(CAUSES)
        return not item.is_fault, rank, item.p_value, -item.score

    return tuple(sorted(evidence, key=order))
