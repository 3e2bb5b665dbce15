"""Do demonstrations that look alike act alike? Wrong goals and objects show where nothing else does.

Every window's action chunk is put together with those of the most similar windows of other demonstrations. If
they look alike, they are exchangeable: how far the own chunk departs from the group's mean, as a rank among
the group, is then as likely large as small, however much the group differs. So the null is that of permuting
a window with its neighbours, and it holds where there are two ways to do a task, and at the edge of what the
set covers. Ranks of a demonstration's windows depend on each other, so their mean is judged beside the
set's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from beacon.audit.calibration import CalibrationOptions, calibrate
from beacon.audit.evidence import CheckResult, Vector, evidence_from_p_values
from beacon.audit.recordings import Recording

CHECK = "look-alikes"


@dataclass(frozen=True)
class LookAlikeOptions:
    """Options of the check by look-alikes."""

    # Neighbours of a window, each of another demonstration.
    k: int = 10
    # Steps of an action chunk.
    horizon: int = 8
    # Every so many steps a window is looked at.
    stride: int = 2
    # Demonstrations, at least.
    enough: int = 8
    # How the sound part of a set is found.
    calibration: CalibrationOptions = field(default_factory=CalibrationOptions)
    # Principal components of coarse pictures, and what a standard deviation of the state counts beside them.
    components: int = 32
    state_weight: float = 0.5


def check_look_alikes(
    recordings: list[Recording],
    target: list[Recording],
    options: LookAlikeOptions,
    doubted: NDArray[np.bool_] | None = None,
) -> CheckResult:
    """Whether demonstrations act as those that look alike.

    Args:
        recordings: of the set; most of it must be sound.
        target: of the target; its demonstrations are neighbours, too.
        options: of the check.
        doubted: (demos,) demonstrations whose actions are known to be wrong: nobody is compared with them.
    """
    from scipy.stats import norm

    count = len(recordings)
    if count < options.enough:
        return CheckResult.silent(count, f"{count} demonstrations are too few to compare look-alikes")
    doubted = np.zeros(count, np.bool_) if doubted is None else doubted
    if (~doubted).sum() < options.enough:
        return CheckResult.silent(count)
    statistic = _Windows([*recordings, *target], count, options).mean_ranks(doubted)
    usual = statistic[~doubted, None]
    null = calibrate(lambda _: usual, len(usual), options.calibration, grows_skewed=True).null
    p_values = null.p_values(statistic[:, None], is_skewed=True)[:, 0]
    scores = np.asarray(norm.isf(np.clip(p_values, 1e-300, 1 - 1e-12)))

    def words(number: int) -> str:
        share = 100 * float(norm.cdf(statistic[number]))
        return f"moves otherwise than demonstrations that look alike (more than {share:.0f}% of them do)"

    evidence = evidence_from_p_values(CHECK, "another goal", p_values, scores, words)
    return CheckResult(p_values, scores, evidence)


def robust_scores(values: Vector) -> Vector:
    """Distance above the median in standard deviations of the lower half, which outliers do not move."""
    median = float(np.median(values))
    below = median - values[values <= median]
    spread = 1.4826 * float(np.median(below)) + 1e-9 if len(below) else 1.0
    return np.asarray((values - median) / max(spread, float(np.sqrt(np.mean(below**2))), 1e-9))


class _Windows:
    """Windows of a set and of the target, of which each is compared with its neighbours.

    Args:
        recordings: of the set, then of the target.
        count: how many are of the set.
        options: of the check.
    """

    def __init__(self, recordings: list[Recording], count: int, options: LookAlikeOptions) -> None:
        self._count, self._options = count, options
        pictures, states, chunks, demo = [], [], [], []
        scale = np.concatenate([r.actions for r in recordings]).std(axis=0) + 1e-6
        for number, recording in enumerate(recordings):
            length = len(recording.actions)
            steps = np.arange(0, length, options.stride)
            ahead = np.minimum(steps[:, None] + np.arange(options.horizon), length - 1)
            chunks.append((recording.actions / scale)[ahead].reshape(len(steps), -1))
            pictures.append(recording.pictures[steps])
            states.append(recording.state[steps])
            demo.append(np.full(len(steps), number))
        parts = []
        if pictures[0].shape[1]:
            parts.append(_components(np.concatenate(pictures), options.components))
        if states[0].shape[1]:
            state = np.concatenate(states)
            parts.append(options.state_weight * (state - state.mean(axis=0)) / (state.std(axis=0) + 1e-6))
        self._features = np.concatenate(parts, axis=1).astype(np.float32)  # (N, F)
        self._chunks = np.concatenate(chunks).astype(np.float32)  # (N, C)
        self._demo = np.concatenate(demo)
        self._of_set = self._demo < count

    def mean_ranks(self, doubted: NDArray[np.bool_]) -> Vector:
        """Mean over a demonstration's windows of how much its action chunk departs from those of its
        neighbours, as a rank among them, (demos,), as quantiles of a normal distribution.
        """
        import torch
        from scipy.stats import norm

        from beacon.weighting.discrepancy.neighbors import nearest

        points, answers = torch.from_numpy(self._features), torch.from_numpy(self._chunks)
        own = torch.from_numpy(self._of_set)
        number = self._demo[self._of_set]
        others = ~np.concatenate([doubted, np.zeros(self._demo.max() + 1 - len(doubted), np.bool_)])[
            self._demo
        ]
        pool = torch.from_numpy(others)
        neighbors = nearest(points[own], points[pool], self._options.k, number, self._demo[others])
        chunks = answers[pool][neighbors.indices]
        group = torch.cat([answers[own].unsqueeze(1), chunks], dim=1)  # own chunk first
        known = torch.cat([torch.ones(len(group), 1), torch.isfinite(neighbors.distances).float()], dim=1)
        members = known.sum(dim=1)
        mean = (group * known.unsqueeze(-1)).sum(dim=1) / members.unsqueeze(-1)
        departure = (group - mean.unsqueeze(1)).square().mean(dim=2)
        nearer = ((departure[:, 1:] < departure[:, :1]) * known[:, 1:]).sum(dim=1)
        level = ((departure[:, 1:] == departure[:, :1]) * known[:, 1:]).sum(dim=1)
        ranks = ((nearer + 0.5 * level + 0.5) / members).double().numpy()
        quantiles = norm.ppf(ranks)
        return np.asarray(
            np.bincount(number, quantiles, self._count) / np.bincount(number, minlength=self._count)
        )


def _components(pictures: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    centred = (pictures - pictures.mean(axis=0)).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    kept = centred @ vectors[:, -count:]
    return np.asarray(kept / max(float(kept.std()), 1e-12))
