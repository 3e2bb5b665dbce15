"""The rows of the tables: methods with their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The paper's BEACON, asking of each demonstration, too, whether its actions are the target's where it looks
# alike.
LABEL_AWARE: dict[str, Any] = {
    "weighting": {"granularity": "demo", "discrepancy": "knn-joint", "lambda_d": 0.4},
    "features": "obs",
    "k": 20,
}
FUTURE_STATE: dict[str, Any] = {"foresight": 0.01}  # the strength that helps where only the look differs


@dataclass(frozen=True)
class Row:
    """A method with its options, as a table shows it."""

    name: str
    title: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    match: str | None = None  # co-training at the source's share of this row, over its run
    extra: bool = False  # only where it is asked for by name


def _paper(name: str, difference: str, options: Mapping[str, Any]) -> Row:
    """The paper's method with one of its options changed."""
    return Row(f"beacon-paper-{name}", f"BEACON (paper), {difference}", "beacon-paper", options, extra=True)


ROWS = {
    row.name: row
    for row in (
        Row("source-only", "Source-only", "source-only"),
        Row("target-only", "Target-only", "target-only"),
        Row("cotrain", "Co-training, 0.9", "cotrain"),
        Row("cotrain-natural", "Co-training, natural", "cotrain", {"ratio": "natural"}),
        Row("cotrain-0.5", "Co-training, 0.5", "cotrain", {"ratio": 0.5}, extra=True),
        Row("mmd", "MMD", "mmd"),
        # At the papers' strengths of 0.1 neither MMD nor UOT learns much at cpu scale (docs/findings.md).
        Row("mmd-0.01", "MMD, 0.01", "mmd", {"strength": 0.01}, extra=True),
        # With pairs of a window with itself left out (docs/findings.md).
        Row(
            "mmd-unbiased",
            "MMD, 0.01, unbiased",
            "mmd",
            {"strength": 0.01, "kernel": "energy-unbiased"},
            extra=True,
        ),
        Row("uot", "UOT", "uot"),
        Row("uot-0.01", "UOT, 0.01", "uot", {"strength": 0.01}, extra=True),
        Row("uot-outer", "UOT, all pairs", "uot", {"reference": "outer"}, extra=True),
        Row("beacon-paper", "BEACON (paper)", "beacon-paper"),
        # The paper's advice where discrepancies are large (appendix D), and neighbours of other
        # demonstrations alone, which makes them smaller.
        _paper("lambda-d-0.05", "λ_d 0.05", {"weighting": {"lambda_d": 0.05}}),
        _paper("lambda-d-0.02", "λ_d 0.02", {"weighting": {"lambda_d": 0.02}}),
        _paper("alpha-0.3", "α 0.3", {"weighting": {"alpha": 0.3}}),
        _paper("exclude-same-demo", "other demonstrations' neighbours", {"exclude_same_demo": True}),
        Row("beacon", "BEACON", "beacon"),
        Row("beacon-future", "BEACON + future-state loss", "beacon", FUTURE_STATE, extra=True),
        # With the future-state loss, and weights that hardly differ between demonstrations.
        Row(
            "future-unchecked",
            "BEACON + future-state loss, without checks",
            "beacon",
            {"peer_check": "none", "action_check": "none", **FUTURE_STATE},
            extra=True,
        ),
        Row("beacon-joint", "BEACON, label-aware", "beacon-paper", LABEL_AWARE),
        Row("mass-matched", "Co-training, BEACON's mass", "cotrain", match="beacon"),
        Row(
            "future-mass-matched",
            "Co-training, the mass of BEACON + future-state loss",
            "cotrain",
            match="beacon-future",
            extra=True,
        ),
        Row(
            "paper-mass-matched",
            "Co-training, BEACON (paper)'s mass",
            "cotrain",
            match="beacon-paper",
            extra=True,
        ),
        Row("ms-beacon", "MS-BEACON", "beacon"),
        Row("ms-future", "MS-BEACON + future-state loss", "beacon", FUTURE_STATE, extra=True),
        # The same two sources without weights, with the paper's steps, and taken as one.
        Row("ms-cotrain", "Co-training, 0.9, both sources", "cotrain", extra=True),
        Row("ms-steps", "MS-BEACON, by steps", "beacon", {"weighting": {"update": "stochastic"}}, extra=True),
        Row("ms-pooled", "BEACON, both pooled", "beacon", {"weighting": {"pool_sources": True}}, extra=True),
    )
}
TWO_SOURCES = ("ms-beacon", "ms-future", "ms-steps", "ms-cotrain", "ms-pooled")
COMPARED = (
    "source-only",
    "target-only",
    "cotrain",
    "cotrain-natural",
    "cotrain-0.5",
    "mmd",
    "mmd-0.01",
    "mmd-unbiased",
    "uot",
    "uot-0.01",
    "uot-outer",
    "beacon-paper",
    "beacon-paper-lambda-d-0.05",
    "beacon-paper-lambda-d-0.02",
    "beacon-paper-alpha-0.3",
    "beacon-paper-exclude-same-demo",
    "beacon",
    "beacon-future",
    "future-unchecked",
    "mass-matched",
    "future-mass-matched",
    "paper-mass-matched",
)
