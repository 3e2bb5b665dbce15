"""What does the target not cover yet, and which demonstrations to record next?

Demonstrations are compared by where they start and go: first states, the way ahead, first pictures, and what
a policy sees in them. The next ones are proposed by facility location over the source demonstrations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beacon.analysis import greedy_facilities
from beacon.audit.distance import MOMENTS, covered_shares, distances, way
from beacon.audit.evidence import Vector
from beacon.audit.goals import GoalOptions, explained_ways
from beacon.audit.recordings import Recording, read_recordings
from beacon.audit.regression import principal_components
from beacon.data.episodes import EpisodeSet
from beacon.errors import UserError

FIRST_STATES, WAY_AHEAD, FIRST_PICTURES, POLICY = "first states", "way ahead", "first pictures", "policy"
LEAST_EXPLAINED = 0.1  # share of the best dimension; below, pictures do not tell where robots go
FAR_APART = 0.5  # share of target demonstrations near one of the source, below which a remark is made
Matrix = NDArray[np.float64]
# Features of first observations: policy features (E, F) of a set.
PolicyFeatures = Callable[[EpisodeSet], NDArray[np.float32]]


@dataclass(frozen=True)
class CoverageOptions:
    """How demonstrations are compared."""

    # Demonstrations to propose.
    next: int = 5
    # Principal components of pictures and of policy features.
    components: int = 16
    # Target demonstrations from which on pictures are compared: fewer do not tell look from content.
    enough_for_pictures: int = 3
    # Of the regression that tells the look of a set from what its pictures show.
    ridge: float = 1.0

    def __post_init__(self) -> None:
        if self.next < 0:
            raise UserError(f"--next {self.next}: must be at least 0")


@dataclass(frozen=True)
class ViewCoverage:
    """Coverage by one kind of features."""

    view: str
    source_covered: float  # share of source demonstrations with a target demonstration nearby
    target_covered: float  # share of target demonstrations with one of the source nearby


@dataclass(frozen=True)
class SetCoverage:
    """One source set."""

    name: str
    path: str
    demos: int
    views: tuple[ViewCoverage, ...]


@dataclass(frozen=True)
class Proposal:
    """A start that is worth recording in the target's domain."""

    set: int  # number of the source set
    episode: int  # number of the demonstration in it
    name: str
    nearest_target: str
    distance: float  # to it; demonstrations vary by one in each kind of features
    stands_for: int  # source demonstrations that are nearer to it than to any target demonstration
    uncovered_left: float  # share of the uncovered distance that is left with it and those before it


@dataclass(frozen=True)
class CoverageResult:
    """Where source and target start and go."""

    target: str
    target_demos: int
    sets: tuple[SetCoverage, ...]
    proposals: tuple[Proposal, ...]
    remarks: tuple[str, ...]  # what could not be compared


def measure_coverage(
    sources: Sequence[EpisodeSet],
    target: EpisodeSet,
    options: CoverageOptions | None = None,
    policy_features: PolicyFeatures | None = None,
    advance: Callable[[int], None] | None = None,
) -> CoverageResult:
    """Compare where source and target demonstrations start and go, and propose the next ones.

    Args:
        sources: sets with the same observations as the target.
        target: what has been recorded so far.
        options: how they are compared, and how many to propose.
        policy_features: what a policy makes of first observations; None: is left out.
        advance: is told the number of frames after every demonstration.
    """
    asked = options or CoverageOptions()
    sets = [*sources, target]
    if sum(len(s) for s in sources) < 2:
        raise UserError("one source demonstration: at least two are needed to tell what is nearby")
    recordings = [read_recordings(s, advance) for s in sets]
    member = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
    learned = None if policy_features is None else [policy_features(s) for s in sets]
    views, remarks = _views(recordings, member, learned, asked)
    everything = np.concatenate(list(views.values()), axis=1)
    of_target = member == len(sources)
    covered = tuple(_set_coverage(s, views, member == k, of_target) for k, s in enumerate(sources))
    remarks += _far_apart(covered)
    return CoverageResult(
        target=target.name,
        target_demos=len(target),
        sets=covered,
        proposals=_propose(everything, member, recordings, asked.next),
        remarks=tuple(remarks),
    )


def _views(
    recordings: list[list[Recording]],
    member: NDArray[np.int64],
    learned: list[NDArray[np.float32]] | None,
    options: CoverageOptions,
) -> tuple[dict[str, Matrix], list[str]]:
    """Features of all demonstrations by their kind, (E, F); way and pictures have a variance of one each."""
    every = [recording for of_set in recordings for recording in of_set]
    views: dict[str, Matrix] = {}
    remarks: list[str] = []
    ways = np.zeros((len(every), 0))
    if every[0].state.shape[1]:
        start_scale, way_scale = _relevance(max(recordings[:-1], key=len))
        starts = np.stack([r.state[0] for r in every]) * start_scale
        ways = np.stack([way(r) for r in every])[:, every[0].state.shape[1] :] * way_scale
        spread = max(_spread(ways), 1e-12)
        views[FIRST_STATES], views[WAY_AHEAD] = starts / spread, ways / spread
        ways = views[WAY_AHEAD]
    else:
        remarks.append("without proprioception nothing tells where the robot goes")
    pictures = {FIRST_PICTURES: [np.stack([r.first_picture for r in s]) for s in recordings]}
    if learned is not None:
        pictures[POLICY] = learned
    for name, by_set in pictures.items():
        values = np.concatenate(by_set).astype(np.float64)
        if not values.shape[1]:
            remarks.append("there are no pictures to compare")
        elif len(recordings[-1]) < options.enough_for_pictures:
            remarks.append(
                f"{name}: {len(recordings[-1])} target demonstrations do not tell their look from what they "
                "show"
            )
        else:
            components = principal_components(values, options.components)
            cleaned = without_look(components, ways, member, options.ridge)
            views[name] = cleaned / max(_spread(cleaned), 1e-12)
    if not any(_spread(values) > 1e-6 for values in views.values()):
        raise UserError("nothing to compare: neither proprioception that varies nor enough pictures")
    return views, remarks


def _relevance(recordings: list[Recording]) -> tuple[Vector, Vector]:
    """What first states (D,) and ways after the start (W,) are multiplied by.

    Units are standard deviations over all steps. Dimensions count by how much of their variance first
    pictures explain: noise of an arm that is held upright does not tell where anything is.

    Args:
        recordings: of the largest source set.
    """
    unit = np.concatenate([r.state for r in recordings]).astype(np.float64).std(axis=0)
    unit = 1 / np.where(unit > 1e-9, unit, np.inf)
    later = len(MOMENTS) - 1
    options = GoalOptions(moments=MOMENTS[1:])
    if len(recordings) < options.enough or not recordings[0].first_picture.size:
        return unit, np.tile(unit, later)
    explained = explained_ways(recordings, options)
    explained = np.where(np.tile(unit, later) > 0, explained, 0.0)
    if explained.max() < LEAST_EXPLAINED:
        return unit, np.tile(unit, later)
    weight = np.sqrt(explained)
    return unit * weight.reshape(later, -1).mean(axis=0), np.tile(unit, later) * weight


def without_look(pictures: Matrix, ways: Matrix, member: NDArray[np.int64], ridge: float = 1.0) -> Matrix:
    """Features of pictures without what tells the sets apart at equal ways, (E, F).

    Sets look different (textures, cameras), and they may start elsewhere; only the second is coverage. A
    ridge regression on the way ahead and on the set says how much of a difference is the set's own.

    Args:
        pictures: (E, F).
        ways: where the robots go, (E, W); W may be 0.
        member: number of the set of each demonstration, (E,).
        ridge: of the ways; the sets are not penalised.
    """
    labels = np.eye(int(member.max()) + 1)[member]  # (E, sets)
    inputs = np.concatenate([ways, labels], axis=1)
    penalty = np.diag([ridge] * ways.shape[1] + [1e-9] * labels.shape[1])
    weights = np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ pictures)
    return np.asarray(pictures - labels @ weights[ways.shape[1] :])


def _spread(values: Matrix) -> float:
    """Root of the summed variances of all columns: what a view counts is divided by it."""
    return float(np.sqrt(values.var(axis=0).sum()))


def _set_coverage(
    episodes: EpisodeSet, views: dict[str, Matrix], own: NDArray[np.bool_], of_target: NDArray[np.bool_]
) -> SetCoverage:
    shares = []
    if own.sum() >= 2:
        parts = {**views, "all together": np.concatenate(list(views.values()), axis=1)}
        for name, values in parts.items():
            target_covered, source_covered = covered_shares(values[own], values[of_target])
            shares.append(ViewCoverage(name, source_covered, target_covered))
    return SetCoverage(episodes.name, str(episodes.path), len(episodes), tuple(shares))


def _far_apart(sets: Sequence[SetCoverage]) -> list[str]:
    """Where sets differ by more than where they start, shares say little; the order of proposals does."""
    return [
        f"{one_set.name}, {view.view}: most target demonstrations are not near any of it, so the sets differ "
        "by more than where they start and go"
        for one_set in sets
        for view in one_set.views
        if view.target_covered < FAR_APART
    ]


def _propose(
    features: Matrix, member: NDArray[np.int64], recordings: list[list[Recording]], count: int
) -> tuple[Proposal, ...]:
    of_target = member == len(recordings) - 1
    candidates = features[~of_target]
    to_target = distances(candidates, features[of_target])
    uncovered = to_target.min(axis=1)
    chosen = greedy_facilities(distances(candidates, candidates), uncovered, count)
    total, gained = max(float(uncovered.sum()), 1e-12), 0.0
    starts = np.searchsorted(member, np.arange(len(recordings)))
    proposals = []
    for choice in chosen:
        number = int(member[choice.index])
        episode = choice.index - int(starts[number])
        gained += choice.gain
        proposals.append(
            Proposal(
                set=number,
                episode=episode,
                name=recordings[number][episode].name,
                nearest_target=recordings[-1][int(to_target[choice.index].argmin())].name,
                distance=float(uncovered[choice.index]),
                stands_for=len(choice.members),
                uncovered_left=1 - gained / total,
            )
        )
    return tuple(proposals)
