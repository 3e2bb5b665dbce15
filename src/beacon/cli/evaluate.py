"""``beacon evaluate RUN``: success rates in simulation, from initial states that all policies share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from beacon.cli import parsing
from beacon.cli.messages import print_json
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.sim.evaluate import EvaluateConfig


DESCRIPTION = """Run a policy and report its success rate with a 95% Wilson interval.

Examples:
  beacon evaluate runs/beacon --task stack --domain texture
  beacon evaluate runs/beacon --task stack --domain texture --compare runs/cotrain
  beacon evaluate ws://127.0.0.1:8000 --task stack --domain texture"""


def command(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    task: str,
    domain: str = "source",
    episodes: int = 100,
    region: str = "train",
    size: str = "small",
    seed: int = 1000,
    policy_seed: int = 0,
    workers: int = 1,
    device: str = "auto",
    video: bool = False,
    compare: str | None = None,
    until_decided: str | None = None,
    alpha: float = 0.05,
    criterion: str = "success",
    out: Path | None = None,
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Run a policy and report its success rate with a 95% Wilson interval.

    Args:
        run: a run folder, a server (ws://127.0.0.1:8000), or module:function that returns a policy.
        task: lift, stack, mug-cleanup, threading, pusht, metaworld/NAME, an installed one, or module:Class.
        domain: source, texture, texture-view, real-proxy, other-dynamics, an installed one, or a YAML file.
        episodes: how many initial states.
        region: where objects start: train, target or ood.
        size: small or full, as the policy was trained.
        seed: of the initial states; all policies have the same states for the same seed.
        policy_seed: of the policy's own random numbers.
        workers: parallel processes; each simulates 20 episodes at a time and asks the policy for all of them.
        device: where the policy computes: cpu, cuda, cuda:1; auto is a GPU when there is one.
        video: also write films of a few successes and failures.
        compare: another run (or its result file) to compare with, state by state.
        until_decided: another run; roll out both in turns, and stop when a paired test shows which is better.
        alpha: of --until-decided: probability of ever calling a policy better that is not.
        criterion: of --until-decided: the outcome that is compared.
        out: the result file; by default RUN/eval/TASK-SIZE-DOMAIN-REGION-SEED.json.
        json: print results and comparison as JSON instead of sentences.
    """
    from beacon.sim.evaluate import EvaluateConfig
    from beacon.sim.evaluate import compare as paired

    config = EvaluateConfig(
        task=task,
        domain=domain,
        size=size,
        region=region,
        episodes=episodes,
        seed=seed,
        policy_seed=policy_seed,
        workers=workers,
        videos=3 if video else 0,
        device=device,
    )
    if until_decided is not None:
        from beacon.cli.evaluate_decision import decide
        from beacon.sim.until_decided import DecisionOptions

        if compare is not None or video or json:
            raise UserError("--until-decided does not go with --compare, --video or --json")
        return decide((run, until_decided), config, DecisionOptions(alpha, criterion), out)
    results = [_evaluate(run, config, out)]
    if not json:
        show_result(results[0])
    if compare is not None:
        results.append(_other(compare, config))
        if not json:
            show_result(results[1])
    tests = {} if compare is None else paired(*results)
    if json:
        print_json({"results": results, "comparison": tests or None})
        return 0
    for criterion, test in tests.items():
        words, test_name = (
            ("is better in", "bootstrapped") if test["is_graded"] else ("alone solves", "McNemar's exact")
        )
        print(
            f"{criterion}: {run} - {compare} = {100 * test['difference']:+.1f} points "
            f"(the first {words} {test['only_first']} states, the second {words} {test['only_second']}; "
            f"{test_name} p = {test['p_value']:.3g})"
        )
    return 0


def _evaluate(run: str, config: EvaluateConfig, out: Path | None) -> dict[str, Any]:
    from beacon.cli.generate import counting_progress
    from beacon.runs.provenance import describe_run, describe_session
    from beacon.sim.evaluate import evaluate

    provenance = {"evaluation": describe_session(config.device)}
    if Path(run).is_dir():
        provenance["training"] = describe_run(Path(run))
    with counting_progress(f"{run} · {config.task} · {config.domain}") as update:
        place = out or result_file(run, config)
        return evaluate(run, config, out=place, progress=update, provenance=provenance)


def result_file(run: str, config: EvaluateConfig) -> Path:
    """Where the result of an evaluation is kept by default.

    Args:
        run: a run folder, or what else names a policy.
        config: of the evaluation.
    """
    from beacon.runs.evaluations import evaluation_file, evaluation_name

    setting: dict[str, Any] = {
        "task": config.task,
        "size": config.size,
        "domain": str(config.domain),
        "region": config.region,
        "seed": config.seed,
    }
    if Path(run).is_dir():
        return evaluation_file(Path(run), **setting)
    return (
        Path("runs")
        / "eval"
        / run.replace("://", ".").replace(":", ".").replace("/", ".")
        / evaluation_name(**setting)
    )


def _other(compare: str, config: EvaluateConfig) -> dict[str, Any]:
    from beacon.sim.evaluate import read_result

    if compare.endswith(".json"):
        return read_result(Path(compare))
    return _evaluate(compare, config, None)


def show_result(result: dict[str, Any]) -> None:
    """Print the rates of a result."""
    print(
        f"{result['policy']}: {result['task']} {result['size']}, "
        f"{result['domain']}, {result['region']} region"
    )
    width = max(8, *map(len, result["rates"]))
    for criterion, rate in result["rates"].items():
        low, high = rate["wilson_95"]
        print(
            f"  {criterion:<{width}} {rate['successes']:g} of {rate['episodes']} = {100 * rate['rate']:.1f}% "
            f"(95% interval {100 * low:.1f} to {100 * high:.1f})"
        )
    print(f"  initial states {result['initial_states']['sha256'][:12]}, {result['seconds']} s")


def main(arguments: list[str]) -> int:
    """Parse and run."""
    if not arguments:
        raise UserError("beacon evaluate: name a run folder or module:function; see beacon evaluate --help")
    try:
        return int(parsing.parse(command, arguments, prog="beacon evaluate", description=DESCRIPTION))
    except SystemExit:  # the help was asked for
        return 0
