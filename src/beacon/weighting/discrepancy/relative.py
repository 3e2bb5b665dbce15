"""Discrepancies relative to what random source subsets of the target's size would give.

With few target demonstrations the distance to the target mostly tells whether the target set happens
to *cover* a situation. Dividing by the distance to random source subsets of as many demonstrations,
the sample's own left out, cancels that: the ratio is one everywhere when the domains agree, whatever
the coverage.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from beacon.weighting.discrepancy.base import DISCREPANCIES, Discrepancy, ratio
from beacon.weighting.discrepancy.knn import CAP, CHUNK_BYTES, NO_SPREAD, check_neighbors
from beacon.weighting.inputs import DiscrepancyWarning, PerSample, RefreshInputs
from beacon.weighting.solvers.projection import soft_threshold
from beacon.weighting.validation import Ids, Vector

if TYPE_CHECKING:
    import torch

    from beacon.weighting.discrepancy.neighbors import Neighbors

PART = 65_536  # chunks that are looked at together
NORMAL_MAD = 1.4826  # standard deviation of a normal distribution over its median absolute deviation

# (indices of source samples that ask or None for all, of source samples that answer or None for all targets,
# whether to leave out the asking sample's own demonstration) -> one number per asking sample
Measure = Callable[[Ids | None, Ids | None, bool], Vector]
# What the neighbours of some asking samples say: (neighbours, rows of the own source) -> one number each
Summary = Callable[["Neighbors", "Ids | slice"], "torch.Tensor"]


@dataclass(frozen=True)
class _Relative(Discrepancy):
    """A summary of the k nearest targets over the same summary of random source subsets."""

    k: int = 5
    subsets: int = 4  # random subsets that are averaged
    # Demonstrations of a domain whose mean discrepancies differ by less than so many of its robust standard
    # deviations count as equally far, and so do domains, so that weights do not follow noise; 0: every
    # difference counts.
    outlier_tolerance: float = 0.0
    floor: float = 1e-3  # least distance to a source subset, as a share of the median one
    cap: float = CAP  # no discrepancy is larger
    chunk_bytes: int = CHUNK_BYTES  # bound of the distance table in memory

    needs: ClassVar[frozenset[str]] = frozenset({"embeddings", "episodes"})
    shards: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_neighbors(self.k, self.cap)
        if self.subsets < 1:
            raise ValueError(f"subsets: must be at least 1, got {self.subsets}")
        if not self.outlier_tolerance >= 0:
            raise ValueError(f"outlier_tolerance: must be at least 0, got {self.outlier_tolerance}")

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        """The discrepancy of every source sample."""
        groups, _ = inputs.episodes()
        summarize = self._summary(inputs)

        def measure(queries: Ids | None, points: Ids | None, leave_out: bool) -> Vector:
            own: Ids | slice = inputs.shard.rows
            rows: Ids | None = None
            summary = summarize(points)
            if queries is not None:
                own = queries[inputs.shard.part(queries)]
                rows = own - inputs.shard.start if inputs.shard.start else own
            asking, answering = (groups[own], groups[points]) if leave_out else (None, None)
            return inputs.together(self._values(inputs, rows, points, summary, asking, answering))

        relative = _relative(inputs, measure, self.subsets, self.floor, self.cap)
        if not self.outlier_tolerance:
            return relative
        shrunk = _shrink_to_median(relative.values, inputs, self.outlier_tolerance)
        return PerSample(shrunk, relative.diagnostics)

    def _values(
        self,
        inputs: RefreshInputs,
        rows: Ids | None,
        points: Ids | None,
        summary: Summary,
        asking: Ids | None,
        answering: Ids | None,
    ) -> torch.Tensor:
        """The summary of every asking row of the own ``source``; answering are source samples or targets."""
        import torch

        from beacon.weighting.discrepancy.neighbors import nearest_by_parts

        source, target = inputs.embeddings()
        candidates = target if points is None else inputs.rows_of(source, points)
        count = len(source) if rows is None else len(rows)
        values = torch.empty(count, dtype=torch.float64, device=source.device)
        found = nearest_by_parts(source, candidates, self.k, rows, asking, answering, self.chunk_bytes)
        for part, neighbors in found:
            values[part] = summary(neighbors, part if rows is None else rows[part])
        return values

    def _summary(self, inputs: RefreshInputs) -> Callable[[Ids | None], Summary]:
        """The summary where these source samples answer, None for all targets."""
        raise NotImplementedError


@DISCREPANCIES.register("knn-relative")
@dataclass(frozen=True)
class KNNRelative(_Relative):
    """d_i = (mean distance to the k nearest targets) / (the same to random source subsets)."""

    def _summary(self, inputs: RefreshInputs) -> Callable[[Ids | None], Summary]:
        return lambda points: lambda neighbors, rows: neighbors.mean_distance()


@DISCREPANCIES.register("knn-joint")
@dataclass(frozen=True)
class KNNJoint(_Relative):
    """How much a sample's action chunk disagrees with those of its nearest targets; it sees labels.

    The disagreement of source i with a set is the mean distance of its action chunk to the chunks of
    its k nearest samples in the set, nearest by embedding, every action dimension in units of its
    standard deviation. d_i is the disagreement with the target over that with random source subsets.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"embeddings", "actions", "episodes"})

    def _summary(self, inputs: RefreshInputs) -> Callable[[Ids | None], Summary]:
        import torch

        from beacon.weighting.discrepancy.neighbors import masked_mean

        (source, target), scale = inputs.actions(), _action_scale(inputs)

        def against(points: Ids | None) -> Summary:
            chunks = (target if points is None else inputs.rows_of(source, points)) / scale

            def disagreement(neighbors: Neighbors, rows: Ids | slice) -> torch.Tensor:
                if isinstance(rows, slice):
                    own = source[rows] / scale
                else:
                    own = source[torch.from_numpy(rows).to(source.device)] / scale
                apart = torch.stack(
                    [(chunks[j] - own).norm(dim=1) for j in neighbors.indices.T], dim=1
                )  # (rows, k)
                return masked_mean(apart, torch.isfinite(neighbors.distances))

            return disagreement

        return against


def _relative(
    inputs: RefreshInputs, measure: Measure, subsets: int, floor_share: float, cap: float
) -> PerSample:
    """The measure against the target over the mean measure against random subsets of the own domain."""
    groups, target_groups = inputs.episodes()
    size = len(np.unique(target_groups))
    rng = np.random.default_rng(inputs.seed)
    against_target = measure(None, None, False)
    against_source = np.full(len(groups), np.nan)
    is_single = len(inputs.source_labels) == 1  # then no list of all samples is made
    for domain, label in enumerate(inputs.source_labels):
        members = None if is_single else np.flatnonzero(inputs.source_domains == domain)
        demos = np.flatnonzero(np.bincount(groups if members is None else groups[members]))
        if len(demos) < 2:
            warnings.warn(
                f"source domain {label!r} has a single demonstration, so nothing to compare the target with; "
                "its discrepancies are set to one",
                DiscrepancyWarning,
                stacklevel=3,
            )
            continue
        total = _against_subset(measure, members, groups, demos, size, rng)
        for _ in range(subsets - 1):
            total += _against_subset(measure, members, groups, demos, size, rng)
        total /= subsets
        if members is None:
            against_source = total
        else:
            against_source[members] = total
    alone = np.isnan(against_source)
    against_source[alone] = against_target[alone]
    diagnostics = {
        "target_distance": float(against_target.mean()),
        "subset_distance": float(against_source.mean()),
    }
    floor = max(
        NO_SPREAD, floor_share * float(np.median(against_source))
    )  # identical samples must not explode d
    values = ratio(against_target, np.maximum(against_source, floor, out=against_source), cap)
    return PerSample(values, diagnostics)


def _against_subset(
    measure: Measure, members: Ids | None, groups: Ids, demos: Ids, size: int, rng: np.random.Generator
) -> Vector:
    """Measure every member against ``size`` random demonstrations of its domain, never its own.

    One demonstration more is drawn: samples of a drawn one are measured against all the others, the
    rest against the first ``size``, so that everybody sees the same number.
    """
    drawn = rng.permutation(demos)[: size + 1]
    inside, points = _of_demos(groups, members, drawn), _of_demos(groups, members, drawn[:size])
    if len(inside) == (len(groups) if members is None else len(members)):
        return measure(members, inside, True)
    result = measure(members, points, False)  # the few drawn ones too, which is cheaper than picking the rest
    rows = inside if members is None else np.searchsorted(members, inside)
    result[rows] = measure(inside, inside, True)
    return result


def _of_demos(groups: Ids, members: Ids | None, chosen: Ids) -> Ids:
    """The members that are of these demonstrations; None: among all samples."""
    parts = []
    for start in range(0, len(groups) if members is None else len(members), PART):
        part = slice(start, start + PART)
        found = np.flatnonzero(np.isin(groups[part if members is None else members[part]], chosen)) + start
        parts.append(found if members is None else members[found])
    return np.concatenate(parts)


def _action_scale(inputs: RefreshInputs) -> torch.Tensor:
    """The standard deviation of every column of the action chunks, all domains together; infinite where it is
    constant, so that it drops out.
    """
    import torch

    source, target = inputs.actions()
    count = len(target) + inputs.shard.totals(len(source))[0]

    def over_all(of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        # In parts: the chunks of millions in double precision would be the largest table of the refresh.
        sums = [sum((of(part) for part in chunks.split(PART)), of(chunks[:0])) for chunks in (source, target)]
        return (inputs.shard.sum(sums[0]) + sums[1]) / count

    mean = over_all(lambda part: part.double().sum(dim=0))
    variance = over_all(lambda part: (part.double() - mean).square().sum(dim=0))
    scale = variance.sqrt().float()
    return torch.where(scale > NO_SPREAD, scale, torch.inf)


def _shrink_to_median(values: Vector, inputs: RefreshInputs, tolerance: float) -> Vector:
    """Values scaled so that nothing but outliers differ.

    Means of demonstrations are drawn towards the median of their domain by the tolerance, and the medians of
    several domains, by as much, towards what is usual among them: the domain that the policy happens to learn
    from looks nearer for that, and would soon be the only one. A domain's standard deviation comes from the
    median absolute deviation, which a minority does not move.
    """
    groups, _ = inputs.episodes()
    counts = np.bincount(groups)  # zero for numbers that no source demonstration has
    means = np.bincount(groups, weights=values) / np.maximum(counts, 1)
    domains = np.full(len(counts), -1, np.int64)
    domains[groups] = inputs.source_domains
    members = [domains == domain for domain in range(len(inputs.source_labels))]
    medians = np.array([np.median(means[chosen]) for chosen in members])
    usual = np.median(medians)
    shrunk = means.copy()
    for chosen, median in zip(members, medians, strict=True):
        apart = means[chosen] - median
        within = tolerance * NORMAL_MAD * np.median(np.abs(apart))
        shrunk[chosen] = usual + soft_threshold(median - usual, within) + soft_threshold(apart, within)
    # A demonstration that is also in the target has no distance at all to scale.
    copies = means == 0
    factors = np.where(copies, 0.0, shrunk) / np.where(copies, 1.0, means)
    scaled = np.asarray(factors[groups])
    scaled *= values
    if copies[counts > 0].any():
        scaled += np.where(copies, shrunk, 0.0)[groups]
    return scaled
