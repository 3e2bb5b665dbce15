"""One question about a method each: which update and discrepancy, how many target demonstrations."""

from __future__ import annotations

from collections.abc import Iterator

from beacon.sim.domains import TEXTURE, TEXTURE_VIEW
from beacon.suites.presets import SuitePreset
from beacon.suites.setting import Setting
from beacon.suites.suite import Suite
from beacon.suites.variants import MethodVariant

SEED_DEMOS = 10  # from which the paper's source demonstrations are expanded


def _one_column(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    yield Setting.same_domain(preset, task, gap, seed)


def _ablated(update: str, discrepancy: str, granularity: str) -> MethodVariant:
    """The paper's method with another update, discrepancy or unit of the weights."""
    solver = {"stochastic": "steps", "convex": "minimiser"}[update]
    weighting = {"solver": {"part": solver}, "granularity": granularity}
    by_demo = granularity == "demo"
    return MethodVariant(
        f"{update}-{discrepancy}" + ("-demo" if by_demo else ""),
        f"{update}, {discrepancy}" + (", per demonstration" if by_demo else ""),
        "beacon-paper",
        {"weighting": weighting, "discrepancy": {"part": discrepancy}},
        extra=by_demo,
    )


def _by_count(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    for count in preset.scaling:
        yield Setting.same_domain(preset, task, gap, seed, target_demos=count, details=(f"n={count}",))


def _expert_or_expanded(preset: SuitePreset, task: str, gap: str, seed: int) -> Iterator[Setting]:
    yield Setting.same_domain(preset, task, gap, seed, details=("by the expert",))
    yield Setting.same_domain(
        preset, task, gap, seed, details=(f"from {SEED_DEMOS}",), expanded_from=SEED_DEMOS
    )


ABLATION = Suite(
    "ablation",
    "two updates of the weights by three discrepancies",
    ("stack",),
    (TEXTURE_VIEW.name, TEXTURE.name),  # the paper's first
    _one_column,
    tuple(
        _ablated(update, discrepancy, granularity)
        for granularity in ("window", "demo")
        for update in ("stochastic", "convex")
        for discrepancy in ("localized", "knn", "classifier")
    ),
)
SCALING = Suite(
    "scaling",
    "success against the number of target demonstrations",
    ("stack",),
    (TEXTURE.name, TEXTURE_VIEW.name),
    _by_count,
    (
        "target-only",
        "cotrain",
        "cotrain-natural",
        "beacon-paper",
        "beacon",
        "beacon-weights",
        "neighbors-future",
    ),
)
MIMIC = Suite(
    "mimic",
    "a source by the expert, and one expanded from ten of his demonstrations as in the paper",
    ("stack",),
    (TEXTURE.name,),
    _expert_or_expanded,
    ("cotrain", "beacon-paper", "beacon"),
)
