"""``beacon train``: demonstrations in, a policy and a run folder out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import tyro

from beacon.cli import parsing
from beacon.cli.messages import shown_messages
from beacon.errors import UserError
from beacon.methods import DEFAULT_METHOD, METHODS
from beacon.policy.config import PolicyConfig
from beacon.training.config import DataOptions, OptimizationOptions, RunOptions, TrainConfig, preset_config

if TYPE_CHECKING:
    from beacon.training.trainer import StepEvent

Options = TypeVar("Options")

DESCRIPTION = """Train a diffusion policy from source and target demonstrations.

Examples:
  beacon train --source sim.hdf5 --target real.hdf5 --out runs/beacon
  beacon train --source sim.hdf5 --target real.hdf5 --method cotrain --ratio 0.9 --out runs/cotrain
  beacon train --source a.hdf5 --source b.hdf5 --target real.hdf5 --out runs/two-sources
  beacon train --source sim.hdf5 --target real.hdf5 --preset paper --out runs/full
  beacon train --source sim.hdf5 --target real.hdf5 --out runs/beacon --watch
  beacon train --out runs/beacon --resume

Methods: {methods}.
beacon is BEACON as we recommend it, beacon-paper as the paper has it. Each method has options of its own: see
beacon train --method M --help. The run folder gets config.yaml, metrics.jsonl (also as TensorBoard),
checkpoints/ and weights/. A run that was cut off goes on with --resume and ends with the same policy, bit for
bit on the CPU, as one that was not."""


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
    method: str = DEFAULT_METHOD
    # Sizes of policy and training: "cpu" for minutes on one core, "paper" for a GPU.
    preset: Literal["cpu", "paper"] = "cpu"
    # Go on with the run in --out.
    resume: bool = False
    # Serve the run's report on this machine while it trains, and keep it up to date.
    watch: bool = False
    # Port of --watch; 0 takes a free one.
    watch_port: int = 8765


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        return _main(arguments)
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0


def _main(arguments: list[str]) -> int:
    resume_only = "--resume" in arguments and not _mentions(arguments, "--source", "--target")
    if resume_only and not _mentions(arguments, "--help", "-h"):
        return _train(*_stored(arguments))
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
    return _train(config, parsed)


def parse(arguments: list[str]) -> TrainArguments[Any]:
    """Parse with the options of the chosen method and the defaults of the chosen preset."""
    method, preset = _value(arguments, "--method", DEFAULT_METHOD), _value(arguments, "--preset", "cpu")
    if method not in METHODS:
        raise UserError(f"--method {method}: choose one of {', '.join(METHODS)}")
    policy, optimization = preset_config(preset)
    kind = METHODS[method].Options
    defaults: TrainArguments[Any] = TrainArguments(
        out=tyro.MISSING,
        options=METHODS[method].default_options(),
        data=DataOptions(),
        optimization=optimization,
        run=RunOptions(),
        policy=policy,
        method=method,
        preset="paper" if preset == "paper" else "cpu",
    )
    try:
        parsed: TrainArguments[Any] = parsing.parse(
            TrainArguments[kind],  # type: ignore[valid-type]
            arguments,
            prog="beacon train",
            description=DESCRIPTION.format(methods=", ".join(METHODS)),
            default=defaults,
        )
    except UserError as error:
        raise UserError(f"{error}{_other_methods(str(error), method)}") from None
    return parsed


def _other_methods(complaint: str, method: str) -> str:
    """Which methods have the option that this one does not know."""
    if not complaint.startswith("unrecognized options: --"):
        return ""
    option = complaint.removeprefix("unrecognized options: ").split(",")[0].split(";")[0].split("=")[0]
    having = [name for name in METHODS if option in _option_names(METHODS[name].Options)]
    return f" ({option} is an option of {', '.join(having)}, not of {method})" if having else ""


def _option_names(kind: type[Any]) -> set[str]:
    names = set()
    for name, hint in get_type_hints(kind, include_extras=True).items():
        option = name.replace("_", "-")
        inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if not (isinstance(inner, type) and is_dataclass(inner)):
            names.add(f"--{option}")
            continue
        prefix = "" if inner is not hint else f"{option}."  # annotated only in order to have no prefix
        names |= {f"--{prefix}{nested[2:]}" for nested in _option_names(inner)}
    return names


@dataclass(frozen=True)
class ResumeArguments:
    """What may be said when a run goes on: where it is, and how it is run."""

    # Folder of the run.
    out: Path
    run: Annotated[RunOptions, tyro.conf.arg(name="")]
    # Go on with the run in --out.
    resume: bool = True
    # Serve the run's report on this machine while it trains, and keep it up to date.
    watch: bool = False
    # Port of --watch; 0 takes a free one.
    watch_port: int = 8765


def _stored(arguments: list[str]) -> tuple[TrainConfig, ResumeArguments]:
    """The configuration of the run that --out names; only how it is run may be said anew."""
    from beacon.training.run_folder import RunFolder

    out = _value(arguments, "--out", "")
    if not out:
        raise UserError("--resume needs --out, the folder of the run to go on with")
    stored = RunFolder(Path(out)).read_config()
    parsed: ResumeArguments = parsing.parse(
        ResumeArguments,
        arguments,
        prog="beacon train --resume",
        description=f"Go on with the run in {out}. Its configuration is in config.yaml.",
        default=ResumeArguments(Path(out), stored.run),
    )
    return replace(stored, run=parsed.run), parsed


def _train(config: TrainConfig, asked: TrainArguments[Any] | ResumeArguments) -> int:
    import torch

    from beacon.training.trainer import train

    if config.run.threads is not None:
        torch.set_num_threads(config.run.threads)
    with _watched(asked), _progress(config) as listener:
        checkpoint = train(config, asked.out, resume=asked.resume, listener=listener)
    print(f"the policy is in {checkpoint}; beacon.load_policy({str(asked.out)!r}) loads it")
    return 0


def _watched(asked: TrainArguments[Any] | ResumeArguments) -> AbstractContextManager[object]:
    """The run's page beside the training, where it is wanted."""
    if not asked.watch:
        return nullcontext()
    from beacon.report.live import check_port, watching

    check_port("--watch-port", asked.watch_port)
    return watching(asked.out, asked.watch_port)


@contextmanager
def _progress(config: TrainConfig) -> Iterator[Callable[[StepEvent], None]]:
    """A bar with the loss and the time left on a terminal, ten plain lines a run elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        every = max(1, config.optimization.steps // 10)

        def report(event: StepEvent) -> None:
            if event.step % every == 0:
                print(
                    f"step {event.step} of {event.steps}, loss {event.loss():.4f}",
                    file=sys.stdout,
                    flush=True,
                )

        with shown_messages(lambda message: print(message, flush=True)):
            yield report
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, refresh_per_second=2, console=console) as progress,
        shown_messages(lambda message: console.print(message, markup=False, highlight=False)),
    ):
        task = progress.add_task(config.method, total=config.optimization.steps, loss="-")

        def show(event: StepEvent) -> None:
            progress.update(task, completed=event.step)
            if event.step % config.run.log_every == 0:
                progress.update(task, loss=f"{event.loss():.4f}")

        yield show


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
