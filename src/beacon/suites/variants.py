"""Variants of the methods: the rows of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from beacon.registry import Registry

# The paper's BEACON, asking of each demonstration, too, whether its actions are the target's where it looks
# alike.
LABEL_AWARE: dict[str, Any] = {
    "weighting": {"granularity": "demo", "lambda_d": 0.4},
    "discrepancy": {"part": "knn-joint", "k": 20},
    "features": "obs",
}
FUTURE_STATE: tuple[Mapping[str, Any], ...] = ({"part": "future-state", "strength": 0.01},)
# Also where source and target move otherwise.
ALWAYS_FUTURE_STATE: tuple[Mapping[str, Any], ...] = (
    {"part": "future-state", "strength": 0.01, "largest_dynamics_gap": None},
)
# In the source's units, as the first tables had it: always on, and where source and target move alike.
ALWAYS_SOURCE_UNITS: tuple[Mapping[str, Any], ...] = (
    {"part": "future-state", "strength": 0.01, "units": "source", "largest_dynamics_gap": None},
)
SOURCE_UNITS: tuple[Mapping[str, Any], ...] = ({"part": "future-state", "strength": 0.01, "units": "source"},)
# The paper's steps divided by w².
PRECONDITIONED: dict[str, Any] = {"weighting": {"solver": {"precondition": True}}}
# The default of the first tables: two checks that look at neighbours and at inverse dynamics, and a fixed
# factor on the target.
NEIGHBOR_CHECKS: dict[str, Any] = {
    "weighting": {"target_factor": 4.0},
    "discrepancy": {"outlier_tolerance": 2.0},
    "checks": [{"part": "neighbor-actions"}, {"part": "inverse-dynamics"}],
}


@dataclass(frozen=True)
class MethodVariant:
    """A method with its options, as a table shows it.

    Args:
        name: what ``--methods`` takes.
        title: what tables show.
        method: name of the method.
        options: those that differ from the method's defaults, nested as its dataclass.
        auxiliary: losses that are added to the policy's, each with its name under "part".
        match: co-training at the source's share of this variant, over its run.
        extra: only run where it is asked for by name.
        sources: 1, or 2 for half of the demonstrations from a second source.
        best_source: where a setting has several sources, the first alone.
        match_noise: whether the source's readings get as much noise as the target's have, as by default in
            `beacon train`.
        suites: names of suites that have this row, for a variant of another package.
    """

    name: str
    title: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    auxiliary: tuple[Mapping[str, Any], ...] = ()
    match: str | None = None
    extra: bool = False
    sources: int = 1
    best_source: bool = False
    match_noise: bool = False
    suites: tuple[str, ...] = ()


VARIANTS: Registry[MethodVariant] = Registry("method variant", "beacon.variants")


def _add(name: str, title: str, method: str, options: Mapping[str, Any] | None = None, **more: Any) -> None:
    VARIANTS.register(name)(MethodVariant(name, title, method, options or {}, **more))


def _add_paper(name: str, difference: str, options: Mapping[str, Any]) -> None:
    """The paper's method with one of its options changed."""
    _add(f"beacon-paper-{name}", f"BEACON (paper), {difference}", "beacon-paper", options, extra=True)


_add("source-only", "Source-only", "source-only")
_add("target-only", "Target-only", "target-only")
_add("cotrain", "Co-training, 0.9", "cotrain")
_add("cotrain-natural", "Co-training, natural", "cotrain", {"ratio": "natural"})
_add("cotrain-0.5", "Co-training, 0.5", "cotrain", {"ratio": 0.5}, extra=True)
_add("cotrain-future", "Co-training, 0.9, future-state loss", "cotrain", auxiliary=FUTURE_STATE)
_add("cotrain-auto", "Co-training, ratio rule", "cotrain", {"ratio": "auto"}, extra=True)
# With what is ours and no weight.
_add("cotrain-matched", "Co-training, 0.9, noise matched", "cotrain", match_noise=True, extra=True)
_add(
    "cotrain-natural-matched",
    "Co-training, natural, noise matched",
    "cotrain",
    {"ratio": "natural"},
    match_noise=True,
    extra=True,
)
_add(
    "cotrain-future-matched",
    "Co-training, 0.9, noise matched, future-state loss",
    "cotrain",
    auxiliary=FUTURE_STATE,
    match_noise=True,
    extra=True,
)
# Challengers with BEACON's information, at their papers' options.
_add("ambient", "Ambient", "ambient", extra=True)
_add("iwr", "IWR", "iwr", extra=True)
_add("qoq", "QoQ", "qoq", extra=True)
_add("deminf", "DemInf", "deminf", extra=True)
_add("cfg-adda", "CFG-ADDA", "cfg-adda", extra=True)
_add("mmd", "MMD", "mmd")
# At the papers' strengths of 0.1 neither MMD nor UOT learns much at cpu scale (docs/lab-notes.md).
_add("mmd-0.01", "MMD, 0.01", "mmd", {"strength": 0.01}, extra=True)
# With pairs of a window with itself left out (docs/lab-notes.md).
_add(
    "mmd-unbiased",
    "MMD, 0.01, unbiased",
    "mmd",
    {"strength": 0.01, "kernel": "energy-unbiased"},
    extra=True,
)
# The forms that the paper cites: multi-kernel MMD, and transport between all pairs.
_add("mmd-rbf", "MMD, RBF kernels", "mmd", {"kernel": "rbf"}, extra=True)
_add("uot", "UOT", "uot")
_add("uot-0.01", "UOT, 0.01", "uot", {"strength": 0.01}, extra=True)
_add("uot-outer", "UOT, all pairs", "uot", {"reference": "outer"}, extra=True)
_add("beacon-paper", "BEACON (paper)", "beacon-paper")
# The paper's advice where discrepancies are large (appendix D), and neighbours of other demonstrations
# alone, which makes them smaller.
_add_paper("lambda-d-0.05", "λ_d 0.05", {"weighting": {"lambda_d": 0.05}})
_add_paper("lambda-d-0.02", "λ_d 0.02", {"weighting": {"lambda_d": 0.02}})
_add_paper("alpha-0.3", "α 0.3", {"weighting": {"alpha": 0.3}})
_add_paper(
    "exclude-same-demo", "other demonstrations' neighbours", {"discrepancy": {"exclude_same_demo": True}}
)
# As `beacon train` has it without options, and its weights alone.
_add("beacon", "BEACON+ (ours)", "beacon", auxiliary=FUTURE_STATE, match_noise=True)
_add("beacon-weights", "BEACON+, weights alone", "beacon", match_noise=True)
# With exact readings in the source, however noisy the target's are: the default before.
_add("beacon-unmatched", "BEACON+, noise not matched", "beacon", auxiliary=FUTURE_STATE, extra=True)
# The target's share whatever the data say: that of the ratio rule, and the natural one, with which a target
# window weighs what a trusted source window does.
for _name, _title in (("rule", "share by the ratio rule"), ("natural", "natural share")):
    for _ending, _more in (("", ""), ("-matched", ", noise matched")):
        _add(
            f"beacon-{_name}{_ending}",
            f"BEACON+, {_title}{_more}",
            "beacon",
            {"weighting": {"target_factor": _name}},
            auxiliary=FUTURE_STATE,
            match_noise=bool(_ending),
            extra=True,
        )
_add(
    "beacon-rule-weights",
    "BEACON+, weights alone, share by the ratio rule",
    "beacon",
    {"weighting": {"target_factor": "rule"}},
    extra=True,
)
# Bounded by the average weight of all source windows, faded ones included.
_add(
    "beacon-factor-1",
    "BEACON+, target factor 1",
    "beacon",
    {"weighting": {"target_factor": 1.0}},
    auxiliary=FUTURE_STATE,
    extra=True,
)
# The default before the data decided about share and loss.
_add(
    "beacon-always-future",
    "BEACON+, share by the ratio rule, future-state loss always",
    "beacon",
    {"weighting": {"target_factor": "rule"}},
    auxiliary=ALWAYS_FUTURE_STATE,
    extra=True,
)
# With the future-state loss in the source's units, only where source and target move alike.
_add(
    "beacon-source-units",
    "BEACON+, share by the ratio rule, future-state loss in the source's units",
    "beacon",
    {"weighting": {"target_factor": "rule"}},
    auxiliary=SOURCE_UNITS,
    extra=True,
)
# With weights that depend on the noise level.
for _way in ("domain", "loss", "audit"):
    _add(
        f"beacon-noise-{_way}",
        f"BEACON+, noise levels by {_way}",
        "beacon",
        {"noise_levels": {"part": f"by-{_way}"}},
        auxiliary=FUTURE_STATE,
        match_noise=True,
        extra=True,
    )
# The default of the first tables, alone, with the future-state loss, and without checks.
_add("neighbors", "BEACON+ with neighbour checks", "beacon", NEIGHBOR_CHECKS, extra=True)
_add(
    "neighbors-future",
    "BEACON+ with neighbour checks, future-state loss",
    "beacon",
    NEIGHBOR_CHECKS,
    auxiliary=SOURCE_UNITS,
    extra=True,
)
_add(
    "neighbors-always-future",
    "BEACON+ with neighbour checks, future-state loss always",
    "beacon",
    NEIGHBOR_CHECKS,
    auxiliary=ALWAYS_SOURCE_UNITS,
    extra=True,
)
# With the future-state loss, and weights that hardly differ between demonstrations.
_add(
    "unchecked-future",
    "BEACON+ without checks, future-state loss",
    "beacon",
    {**NEIGHBOR_CHECKS, "checks": []},
    auxiliary=SOURCE_UNITS,
    extra=True,
)
_add(
    "unchecked-always-future",
    "BEACON+ without checks, future-state loss always",
    "beacon",
    {**NEIGHBOR_CHECKS, "checks": []},
    auxiliary=ALWAYS_SOURCE_UNITS,
    extra=True,
)
_add("beacon-joint", "BEACON (paper), label-aware", "beacon-paper", LABEL_AWARE)
_add("mass-matched", "Co-training, BEACON+ mass", "cotrain", match="beacon", extra=True)
_add(
    "neighbors-mass-matched",
    "Co-training, mass of BEACON+ with neighbour checks",
    "cotrain",
    match="neighbors-future",
    extra=True,
)
_add("paper-mass-matched", "Co-training, BEACON (paper) mass", "cotrain", match="beacon-paper", extra=True)
# The paper's MS-BEACON as written, and with steps that are divided by w², so that two sources move as fast
# as one.
_add("ms-beacon-paper", "MS-BEACON (paper)", "beacon-paper", sources=2)
_add(
    "ms-beacon-paper-preconditioned",
    "MS-BEACON (paper), preconditioned",
    "beacon-paper",
    PRECONDITIONED,
    sources=2,
)
_add("ms-beacon", "MS-BEACON+ (ours)", "beacon", auxiliary=FUTURE_STATE, match_noise=True, sources=2)
_add("ms-weights", "MS-BEACON+, weights alone", "beacon", match_noise=True, extra=True, sources=2)
# The same two sources with the paper's steps, without weights, and taken as one.
_add(
    "ms-steps",
    "MS-BEACON+, by steps",
    "beacon",
    {"weighting": {"solver": {"part": "steps"}}},
    auxiliary=FUTURE_STATE,
    extra=True,
    sources=2,
)
_add("ms-cotrain", "Co-training, 0.9, both sources", "cotrain", extra=True, sources=2)
_add(
    "ms-pooled",
    "BEACON+, both sources pooled",
    "beacon",
    {"weighting": {"pool_sources": True}},
    auxiliary=FUTURE_STATE,
    match_noise=True,
    extra=True,
    sources=2,
)

# With several sources of which the first is known to be the best.
_add("cotrain-best-source", "Co-training, 0.9, best source alone", "cotrain", best_source=True)
_add(
    "beacon-best-source",
    "BEACON+, best source alone",
    "beacon",
    auxiliary=FUTURE_STATE,
    best_source=True,
    match_noise=True,
)
_add(
    "beacon-pooled",
    "BEACON+, sources pooled",
    "beacon",
    {"weighting": {"pool_sources": True}},
    auxiliary=FUTURE_STATE,
    match_noise=True,
)
_add(
    "beacon-paper-preconditioned",
    "BEACON (paper), preconditioned",
    "beacon-paper",
    PRECONDITIONED,
)
