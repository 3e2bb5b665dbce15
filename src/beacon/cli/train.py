"""``beacon train``: demonstrations in, a policy and a run folder out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro

from beacon.errors import UserError
from beacon.policy.config import PolicyConfig
from beacon.training.config import DataOptions, OptimizationOptions, RunOptions, TrainConfig, preset_config

Options = TypeVar("Options")

DESCRIPTION = """Train a diffusion policy from source and target demonstrations.

Examples:
  beacon train --source sim.hdf5 --target real.hdf5 --out runs/beacon
  beacon train --source sim.hdf5 --target real.hdf5 --method cotrain --ratio 0.9 --out runs/cotrain
  beacon train --source a.hdf5 --source b.hdf5 --target real.hdf5 --out runs/two-sources
  beacon train --source sim.hdf5 --target real.hdf5 --preset paper --out runs/full
  beacon train --out runs/beacon --resume

Each method has options of its own: see beacon train --method M --help. The run folder gets config.yaml,
metrics.jsonl (also as TensorBoard), checkpoints/ and weights/. A run that was cut off goes on with --resume
and ends with the same policy, bit for bit on the CPU, as one that was not."""


@dataclass(frozen=True)
class TrainArguments(Generic[Options]):
    """What the command line takes, for one method."""

    # Folder of the run.
    out: Path
    options: Annotated[Options, tyro.conf.arg(name="")]
    data: Annotated[DataOptions, tyro.conf.arg(name="")]
    optimization: Annotated[OptimizationOptions, tyro.conf.arg(name="")]
    run: Annotated[RunOptions, tyro.conf.arg(name="")]
    policy: PolicyConfig
    # How source data is used.
    method: str = "beacon"
    # Sizes of policy and training: "cpu" for minutes on one core, "paper" for a GPU.
    preset: Literal["cpu", "paper"] = "cpu"
    # Go on with the run in --out.
    resume: bool = False


def main(arguments: list[str]) -> int:
    """Run the verb."""
    resume_only = "--resume" in arguments and not _mentions(arguments, "--source", "--target")
    if resume_only and not _mentions(arguments, "--help", "-h"):
        config, out = _stored(arguments)
        return _train(config, out, resume=True)
    parsed = parse(arguments)
    config = TrainConfig(
        method=parsed.method,
        options=parsed.options,
        preset=parsed.preset,
        data=parsed.data,
        policy=parsed.policy,
        optimization=parsed.optimization,
        run=parsed.run,
    )
    return _train(config, parsed.out, resume=parsed.resume)


def parse(arguments: list[str]) -> TrainArguments[Any]:
    """Parse with the options of the chosen method and the defaults of the chosen preset."""
    from beacon.methods import METHODS

    method, preset = _value(arguments, "--method", "beacon"), _value(arguments, "--preset", "cpu")
    if method not in METHODS:
        raise UserError(f"--method {method}: choose one of {', '.join(METHODS)}")
    policy, optimization = preset_config(preset)
    kind = METHODS[method].Options
    defaults: TrainArguments[Any] = TrainArguments(
        out=tyro.MISSING,
        options=kind(),
        data=DataOptions(),
        optimization=optimization,
        run=RunOptions(),
        policy=policy,
        method=method,
        preset="paper" if preset == "paper" else "cpu",
    )
    try:
        parsed: TrainArguments[Any] = tyro.cli(
            TrainArguments[kind],  # type: ignore[valid-type]
            prog="beacon train",
            description=DESCRIPTION,
            args=arguments,
            default=defaults,
        )
    except ValueError as error:  # a value of the right type that makes no sense, as alpha=-1
        raise UserError(str(error)) from None
    return parsed


@dataclass(frozen=True)
class ResumeArguments:
    """What may be said when a run goes on: where it is, and how it is run."""

    # Folder of the run.
    out: Path
    run: Annotated[RunOptions, tyro.conf.arg(name="")]
    # Go on with the run in --out.
    resume: bool = True


def _stored(arguments: list[str]) -> tuple[TrainConfig, Path]:
    """The configuration of the run that --out names; only how it is run may be said anew."""
    from beacon.training.run_folder import RunFolder

    out = _value(arguments, "--out", "")
    if not out:
        raise UserError("--resume needs --out, the folder of the run to go on with")
    stored = RunFolder(Path(out)).read_config()
    parsed = tyro.cli(
        ResumeArguments,
        prog="beacon train",
        description=f"Go on with the run in {out}. Its configuration is in config.yaml.",
        args=arguments,
        default=ResumeArguments(Path(out), stored.run),
    )
    return replace(stored, run=parsed.run), parsed.out


def _train(config: TrainConfig, out: Path, *, resume: bool) -> int:
    import torch
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from beacon.training.trainer import StepEvent, train

    if config.run.threads is not None:
        torch.set_num_threads(config.run.threads)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, refresh_per_second=2) as progress:
        task = progress.add_task(f"{config.method}", total=config.optimization.steps, loss=float("nan"))

        def listen(event: StepEvent) -> None:
            progress.update(task, completed=event.step)
            if event.step % config.run.log_every == 0:
                progress.update(task, loss=event.loss())

        checkpoint = train(config, out, resume=resume, listener=listen)
    print(f"the policy is in {checkpoint}; beacon.load_policy({str(out)!r}) loads it")
    return 0


def _mentions(arguments: list[str], *names: str) -> bool:
    return any(argument.split("=")[0] in names for argument in arguments)


def _value(arguments: list[str], name: str, default: str) -> str:
    """The last value given for an option, before the real parsing."""
    value = default
    for place, argument in enumerate(arguments):
        if argument == name and place + 1 < len(arguments):
            value = arguments[place + 1]
        elif argument.startswith(f"{name}="):
            value = argument.split("=", 1)[1]
    return value
