"""How much the target weighs, as far as the data of a run decide it."""

from __future__ import annotations

from beacon.methods.base import MethodContext
from beacon.methods.beacon.options import BeaconOptions
from beacon.weighting.config import TargetFactor


def known_target_factor(options: BeaconOptions, context: MethodContext) -> TargetFactor:
    """What ``target_factor="auto"`` means for these data; says so. Any other is returned as it is.

    Where the target's robot moves otherwise, or is sensed otherwise, a share above the natural one made
    policies worse in what the target shows, and more so in what it does not (docs/findings.md). So the gap is
    that of the readings as they were recorded, whatever noise is matched in training.

    Args:
        options: of the method.
        context: of the run.
    """
    factor, limit = options.weighting.target_factor, options.largest_dynamics_gap
    if factor != "auto":
        return factor
    gap = context.recorded_gap
    if gap is None:
        context.remark("the target's share: the natural one, the data do not tell whether they move alike")
        return "natural"
    alike = gap <= limit
    said = (
        "by the ratio rule, source and target move and are sensed alike"
        if alike
        else "the natural one, the target moves or is sensed otherwise"
    )
    context.remark(
        f"the target's share: {said} (the target's misfit is {gap:.1f} × the source's own, limit {limit:g})"
    )
    return "rule" if alike else "natural"
