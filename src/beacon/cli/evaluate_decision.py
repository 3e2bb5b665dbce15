"""``beacon evaluate RUN --until-decided RUN2``: the verdict, the states it took, and the price."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.sim.evaluate import EvaluateConfig
    from beacon.sim.until_decided import Decision, DecisionOptions


def decide(
    policies: tuple[str, str], config: EvaluateConfig, options: DecisionOptions, out: Path | None
) -> int:
    """Evaluate two policies until one is shown to be better, print and store what came of it.

    Args:
        policies: as the command line names them; the second may be a result file.
        config: the setting.
        options: of the test.
        out: the result file of the first policy; None: in its run folder.
    """
    from beacon.cli.evaluate import result_file, show_result
    from beacon.cli.generate import counting_progress
    from beacon.runs.layout import PARTIAL
    from beacon.sim.evaluate import write_json
    from beacon.sim.until_decided import evaluate_until_decided

    if policies[0].endswith(".json"):
        raise UserError(f"{policies[0]}: name a policy to roll out; only --until-decided takes a result file")
    with counting_progress(f"{policies[0]} · {policies[1]} · {config.task}") as update:
        decision = evaluate_until_decided(*policies, config, options, progress=update)
    written = []
    for policy, result, given in zip(policies, decision.results, (out, None), strict=True):
        show_result(result)
        if policy.endswith(".json"):
            continue
        file = result_file(policy, config)
        path = given or (file.parent / PARTIAL / file.name if decision.is_partial else file)
        write_json(path, result)
        written.append(path)
    print(verdict(policies, decision, options))
    print(price(config.episodes, options))
    what = "partial evaluation, says so" if decision.is_partial else "complete evaluation"
    print(f"written ({what}): {', '.join(map(str, written))}")
    return 0


def verdict(policies: tuple[str, str], decision: Decision, options: DecisionOptions) -> str:
    """Which policy is better, and after how many states that was clear."""
    test = decision.test
    if test.better is None:
        return (
            f"not decided after {decision.states} states, all that were planned: evidence "
            f"{max(test.evidence_first, test.evidence_second):.3g} of {test.threshold:g} that are needed"
        )
    better, other = policies if test.better == "first" else policies[::-1]
    evidence = test.evidence_first if test.better == "first" else test.evidence_second
    return (
        f"{better} is better than {other} ({options.criterion}): decided after {test.decided_after} states; "
        f"{decision.states} of {decision.planned} were used; evidence {evidence:.3g} of {test.threshold:g} "
        f"(two one-sided e-processes at {options.alpha / 2:g} each)"
    )


def price(states: int, options: DecisionOptions) -> str:
    """What the right to stop costs at the planned number of states."""
    from beacon.analysis import detectable_difference

    both = detectable_difference(states, options.alpha)
    return (
        f"the price: with at most {states} states this test finds {_points(both.sequential)} with "
        f"probability {both.power:g}, McNemar's after exactly {states} finds {_points(both.fixed)} "
        "(simulated, rates about one half)"
    )


def _points(difference: float | None) -> str:
    return "no difference" if difference is None else f"differences of {100 * difference:.0f} points"
