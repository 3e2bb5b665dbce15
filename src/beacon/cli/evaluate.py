"""``beacon evaluate RUN``: success rates in simulation, from initial states that all policies share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from beacon.cli import parsing
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.sim.evaluate import EvaluateConfig


def command(
    run: Annotated[str, tyro.conf.Positional],
    /,
    task: str,
    domain: str = "source",
    episodes: int = 100,
    region: str = "train",
    size: str = "small",
    seed: int = 1000,
    policy_seed: int = 0,
    workers: int = 1,
    video: bool = False,
    compare: str | None = None,
    out: Path | None = None,
) -> int:
    """Run a policy and report its success rate with a 95% Wilson interval.

    Args:
        run: a run folder, the address of a server (ws://127.0.0.1:8000), or module:function that returns a
            policy.
        task: lift, stack, mug-cleanup, threading, metaworld/NAME, an installed one, or module:Class.
        domain: source, texture, texture-view, real-proxy, an installed one, or a YAML file of your own.
        episodes: how many initial states.
        region: where objects start: train, target or ood.
        size: small or full, as the policy was trained.
        seed: of the initial states; all policies have the same states for the same seed.
        policy_seed: of the policy's own random numbers.
        workers: parallel processes.
        video: also write films of a few successes and failures.
        compare: another run (or its result file) to compare with, state by state.
        out: the result file; by default RUN/eval/TASK-SIZE-DOMAIN-REGION-SEED.json.
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
    )
    result = _evaluate(run, config, out)
    _show(result)
    if compare is not None:
        other = _other(compare, config)
        _show(other)
        for criterion, test in paired(result, other).items():
            print(
                f"{criterion}: {run} - {compare} = {100 * test['difference']:+.1f} points "
                f"({test['only_first']} states only the first solves, {test['only_second']} only the second; "
                f"McNemar's exact p = {test['p_value']:.3g})"
            )
    return 0


def _evaluate(run: str, config: EvaluateConfig, out: Path | None) -> dict[str, Any]:
    from beacon.cli.generate import ProgressBar
    from beacon.sim.evaluate import evaluate

    with ProgressBar(f"{run} · {config.task} · {config.domain}") as update:
        return evaluate(run, config, out=out or _default_out(run, config), progress=update)


def _default_out(run: str, config: EvaluateConfig) -> Path:
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


def _show(result: dict[str, Any]) -> None:
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
        return int(parsing.parse(command, arguments, prog="beacon evaluate"))
    except SystemExit:  # the help was asked for
        return 0
