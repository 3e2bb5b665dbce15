"""What ``beacon train`` takes: a small parser finds method and preset, on which the other options depend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, cast

import tyro

from beacon.cli import parsing
from beacon.cli.parts import ChoiceParser
from beacon.cli.train_help import DESCRIPTION, FIRST_OPTIONS
from beacon.errors import UserError, meant
from beacon.methods import DEFAULT_METHOD, METHODS, AuxiliaryLoss
from beacon.policy.config import PolicyConfig
from beacon.ranges import Range, check_ranges
from beacon.runs.layout import JOINT_TARGET
from beacon.training.config import (
    DataOptions,
    OptimizationOptions,
    Preset,
    RunOptions,
    TrainConfig,
    preset_config,
    preset_data,
)
from beacon.training.early_looks import LookOptions

Options = TypeVar("Options")
PROG = "beacon train"
MOST_LETTERS = 50_000  # of all names in --decisions: config.yaml holds them


@dataclass(frozen=True)
class Choices:
    """What decides which options there are and what their defaults are."""

    method: str
    method_said: bool
    preset: str
    variant: str | None
    resume: bool
    out: Path | None
    audit: Path | None  # an audit of the data that was made before
    targets: tuple[Path, ...]  # datasets of the target domain
    decisions: Path | None  # decisions.jsonl
    data_said: bool  # --source or --target
    help: bool
    help_all: bool
    arguments: list[str]  # without the options that only the first parser knows

    @property
    def joint_target(self) -> Path | None:
        """The card in the run's folder that joins several targets to one domain; None for a single one."""
        return (self.out or Path()) / JOINT_TARGET if len(self.targets) > 1 else None

    @property
    def resumes_alone(self) -> bool:
        """Go on with a run whose configuration is in its folder."""
        return self.resume and not self.data_said


@dataclass(frozen=True)
class RunArguments:
    """What may be said of every run, new or resumed."""

    # Folder of the run.
    out: Path | None = None
    # How it is run, which does not change the result.
    run: Annotated[RunOptions, tyro.conf.arg(name="")] = field(default_factory=RunOptions)
    # Go on with the run in --out.
    resume: bool = False
    # Serve the run's report on this machine while it trains, and keep it up to date.
    watch: bool = False
    # Port of --watch; 0 takes a free one.
    watch_port: int = 8765
    # Say what data, parameters, memory and time the run would have, and start nothing.
    dry_run: bool = False
    # With --dry-run: print it as JSON.
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    # Train with so many processes of this machine, each on a GPU or a share of the cores of its own; the
    # mini-batches are the same with any number. Several machines: torchrun -m beacon train.
    processes: Annotated[int, Range(1, 1024)] = 1

    @property
    def folder(self) -> Path:
        """The run folder, which has to be said."""
        if self.out is None:
            raise UserError(f"{PROG}: --out is missing, the folder of the run; see {PROG} --help")
        return self.out

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class TrainArguments(RunArguments, Generic[Options]):
    """What the command line takes, for one method."""

    # How source data is used.
    method: str = DEFAULT_METHOD
    # Sizes of policy and training: "cpu" for minutes on one core, "gpu" for our recipe at the paper's sizes,
    # "paper" for the paper's own.
    preset: Preset = "cpu"
    # Options of the method.
    options: Annotated[Options, tyro.conf.arg(name="")] = tyro.MISSING
    # Which demonstrations, and how they are read.
    data: Annotated[DataOptions, tyro.conf.arg(name="")] = field(default_factory=DataOptions)
    # How the policy is optimised, the same for all methods.
    optimization: Annotated[OptimizationOptions, tyro.conf.arg(name="")] = field(
        default_factory=OptimizationOptions
    )
    # Losses that are added to the policy's, whatever the method: future-state, feature-distance, or none.
    auxiliary: tuple[AuxiliaryLoss, ...] = ()
    # The policy: what it sees, what it is made of.
    policy: PolicyConfig = field(default_factory=PolicyConfig)

    def config(self) -> TrainConfig:
        """The run's configuration."""
        return TrainConfig(
            method=self.method,
            options=self.options,
            preset=self.preset,
            auxiliary=self.auxiliary,
            data=self.data,
            policy=self.policy,
            optimization=self.optimization,
            run=self.run,
        )


def choose(arguments: Sequence[str]) -> Choices:
    """The first pass over a command line."""
    own = ChoiceParser()  # options that the second pass does not know
    own.add_argument("--policy.variant", dest="variant")
    own.add_argument("--audit")
    own.add_argument("--decisions")
    own.add_argument("--help", "-h", action="store_true")
    own.add_argument("--help-all", action="store_true")
    asked, words = own.take([parsing.with_hyphens(word) for word in arguments])
    shared = ChoiceParser()
    for option in ("--method", "--preset", "--out", "--source"):
        shared.add_argument(option)
    several = ChoiceParser()  # datasets of one domain, which the second pass takes for one value said twice
    for parser in (shared, several):
        parser.add_argument("--target", action="append", default=[])
    shared.add_argument("--resume", action="store_true")
    said, _ = shared.take(words)
    if len(said.target) > 1:
        _, words = several.take(words)
    return Choices(
        method=said.method or DEFAULT_METHOD,
        method_said=said.method is not None,
        preset=said.preset or "cpu",
        variant=asked.variant,
        resume=said.resume,
        out=None if said.out is None else Path(said.out),
        audit=None if asked.audit is None else Path(asked.audit),
        targets=tuple(map(Path, said.target)),
        decisions=None if asked.decisions is None else Path(asked.decisions),
        data_said=said.source is not None or bool(said.target),
        help=asked.help,
        help_all=asked.help_all,
        arguments=words,
    )


def parse(arguments: Sequence[str]) -> TrainArguments[Any]:
    """A new run's arguments, with the options of the chosen method and the defaults of the chosen preset."""
    return parse_new(choose(arguments))


def defaults(choices: Choices) -> TrainArguments[Any]:
    """What the options of this method and preset are when nothing is said."""
    if choices.method not in METHODS:
        near = meant(choices.method, METHODS)
        raise UserError(f"--method {choices.method}: {near}choose one of {', '.join(METHODS)}")
    policy, optimization = preset_config(choices.preset, choices.variant)
    return TrainArguments(
        options=METHODS[choices.method].default_options(),
        auxiliary=METHODS[choices.method].default_auxiliary(),
        data=preset_data(choices.preset),
        optimization=optimization,
        policy=policy,
        method=choices.method,
        preset=cast(Preset, choices.preset),  # of which preset_config knows
    )


def parse_new(choices: Choices) -> TrainArguments[Any]:
    """The second pass, for a run whose configuration is said."""
    default = defaults(choices)
    try:
        parsed: TrainArguments[Any] = parsing.parse(
            TrainArguments[type(default.options)],  # type: ignore[misc]
            [*choices.arguments, *(["--help"] if choices.help_all else [])],
            prog=PROG,
            description=f"{DESCRIPTION.format(methods=', '.join(METHODS))}\n\n{FIRST_OPTIONS}",
            default=default,
            known=("--policy.variant", "--audit", "--decisions", "--help-all"),
        )
    except parsing.UnknownOption as error:
        having = [name for name in METHODS if error.option in method_options(name)]
        if not having:
            raise
        raise UserError(
            f"{error.option} is no option of --method {choices.method}; it is one of {', '.join(having)}; "
            f"{error.see}"
        ) from None
    if parsed.run.looks.evaluate_every is None and parsed.run.looks != LookOptions():
        raise UserError("--evaluate-task and the like: early looks need --evaluate-every, for example 5")
    if choices.joint_target is not None:
        parsed = replace(parsed, data=replace(parsed.data, target=choices.joint_target))
    if choices.audit is not None:
        parsed = _with_audit(parsed, choices.audit)
    return parsed if choices.decisions is None else _with_decisions(parsed, choices.decisions)


def _with_audit(parsed: TrainArguments[Any], file: Path) -> TrainArguments[Any]:
    """The check by audit reads this file; where it is not among the checks, it is added."""
    from beacon.audit.check import AuditCheck
    from beacon.audit.saved import read_audit

    checks = getattr(parsed.options, "checks", None)
    if checks is None:
        raise UserError(f"--audit {file}: {parsed.method} has no checks; it is an option of beacon")
    read_audit(file)  # refused now, not after the data was loaded
    if not any(isinstance(check, AuditCheck) for check in checks):
        checks = (*checks, AuditCheck())
    checks = tuple(
        replace(check, file=file.resolve()) if isinstance(check, AuditCheck) else check for check in checks
    )
    return replace(parsed, options=replace(parsed.options, checks=checks))


def _with_decisions(parsed: TrainArguments[Any], file: Path) -> TrainArguments[Any]:
    """What the file says of these data goes into the configuration: later lines do not change the run."""
    from beacon.data import open_dataset
    from beacon.data.decisions import read_decisions

    decisions = read_decisions(file)
    names: dict[Path, list[str]] = {}
    for path in (*parsed.data.source, *([] if parsed.data.target is None else [parsed.data.target])):
        with open_dataset(path) as reader:
            names[path] = list(reader.episode_names)
    decided = decisions.for_training(names)
    length = sum(len(name) for entry in decided for name in (*entry.dropped, *entry.kept))
    if length > MOST_LETTERS:
        raise UserError(
            f"--decisions {file}: too many decisions for a configuration; write the datasets without what "
            "was dropped with beacon data convert --decisions, and train on them"
        )
    return replace(parsed, data=replace(parsed.data, decisions=decided))


def parse_resumed(choices: Choices) -> tuple[TrainConfig, RunArguments]:
    """The second pass, for the run that --out names: only how it is run may be said anew."""
    from beacon.training.stored_config import read_config

    if choices.decisions is not None:
        raise UserError("--decisions is said when a run is started; a resumed one has them in config.yaml")
    if choices.out is None:
        raise UserError("--resume needs --out, the folder of the run to go on with")
    stored = read_config(choices.out)
    try:
        parsed: RunArguments = parsing.parse(
            RunArguments,
            choices.arguments,
            prog=f"{PROG} --resume",
            description=f"Go on with the run in {choices.out}. Its configuration is in config.yaml.",
            default=RunArguments(choices.out, stored.run),
        )
    except parsing.UnknownOption as error:
        of_a_new_run = defaults(replace(choices, method=stored.method))
        if error.option not in parsing.option_names(TrainArguments, of_a_new_run):
            raise
        raise UserError(
            f"there is no option {error.option} of a resumed run: what decides its result is in "
            f"{choices.out}/config.yaml; start a new run with another --out"
        ) from None
    return replace(stored, run=parsed.run), parsed


def method_options(method: str) -> list[str]:
    """Names of a method's own options."""
    options = METHODS[method].default_options()
    names = parsing.option_names(type(options), options)
    # The audit's own options are many; they belong to beacon audit.
    shown = [name for name in names if ".options." not in name]
    return [name for name in shown if name != "--help" and not name.startswith("--no-")]
