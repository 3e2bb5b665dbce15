"""``beacon train``: demonstrations in, a policy and a run folder out."""

from __future__ import annotations

import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from beacon.cli import parts
from beacon.cli.early_looks import early_looks
from beacon.cli.messages import print_json
from beacon.cli.train_help import short_help
from beacon.cli.train_options import (
    Choices,
    RunArguments,
    choose,
    defaults,
    method_options,
    parse,
    parse_new,
    parse_resumed,
)
from beacon.cli.train_processes import check_processes, is_one_of_several, is_quiet, train_together
from beacon.cli.train_progress import progress
from beacon.errors import RunError, UserError
from beacon.methods import METHODS
from beacon.plain import to_plain
from beacon.progress_display import in_words

if TYPE_CHECKING:
    from beacon.training.config import TrainConfig

__all__ = ["main", "parse"]


def main(arguments: list[str]) -> int:
    """Run the verb."""
    choices = choose(arguments)
    if choices.help:
        print(_help(choices))
        return 0
    if choices.resumes_alone and not choices.help_all:
        config, asked = parse_resumed(choices)
    else:
        try:
            new = parse_new(choices)
        except SystemExit:  # all of the help was asked for
            return 0
        asked, config = new, new.config()
    if asked.dry_run:
        with _joined_for_now(choices, config) as complete:
            return _rehearse(complete, as_json=asked.json)
    if asked.json:
        raise UserError("--json says what --dry-run found; a run writes metrics.jsonl")
    folder = asked.folder
    if choices.preset == "paper" and not choices.method_said and not choices.resumes_alone and not is_quiet():
        print(
            f"--preset paper with --method {config.method}: the paper's sizes, BEACON as we recommend it; "
            "--method beacon-paper is the paper's own"
        )
    if is_quiet():
        return _train_quietly(config, asked, folder)
    with _joined_targets(choices, folder):
        if asked.processes > 1 and not is_one_of_several():
            check_processes(asked.processes, config.optimization.batch_size)
            goes_on = f"{resume_command(folder)} --processes {asked.processes}"
            return train_together(arguments, asked.processes, goes_on)
        return _train(config, asked, folder)


def resume_command(folder: Path) -> str:
    """What goes on with a run."""
    return f"beacon train --resume --out {shlex.quote(str(folder))}"


def _help(choices: Choices) -> str:
    default, _ = parts.choose(defaults(choices), choices.arguments)
    return short_help(list(METHODS), choices.method, method_options(choices.method), parts.describe(default))


def _train(config: TrainConfig, asked: RunArguments, folder: Path) -> int:
    try:
        with (
            _watched(asked, folder),
            early_looks(config.run.looks) as looks,
            progress(config) as listener,
        ):
            from beacon.training.run import train  # seconds, of which the bar says that it is starting

            _set_threads(config)
            checkpoint = train(
                config,
                folder,
                resume=asked.resume,
                listener=listener,
                started=lambda summary: print(summary, flush=True),
                looks=looks,
            )
    except KeyboardInterrupt:
        print(f"beacon: interrupted; {_how_to_go_on(folder)}", file=sys.stderr)
        return 130
    if int(checkpoint.name) < config.optimization.steps:
        print(
            f"stopped at step {int(checkpoint.name)} of {config.optimization.steps}, before "
            f"--max-hours {config.run.max_hours:g} had passed; {resume_command(folder)} goes on"
        )
    print(f"the policy is in {checkpoint}; beacon.load_policy({str(folder)!r}) loads it")
    return 0


def _how_to_go_on(folder: Path) -> str:
    """What to do after an interrupt."""
    from beacon.runs import Run

    run = Run(folder)
    if not run.exists:
        return "the run had not begun, and nothing was written; give the same command again"
    if run.checkpoints.last is None:
        return f"no checkpoint was written yet; {resume_command(folder)} starts from the first step"
    return f"{resume_command(folder)} goes on from its last checkpoint"


@contextmanager
def _joined_targets(choices: Choices, folder: Path) -> Iterator[None]:
    """The card that joins several targets is in the run's folder; without a run nothing of it is left."""
    from beacon.data.card_writing import write_joint_card
    from beacon.runs import Run

    card = choices.joint_target
    if card is None or Run(folder).exists:
        yield
        return
    write_joint_card(card, choices.targets)
    try:
        yield
    finally:
        if not Run(folder).exists:
            card.unlink(missing_ok=True)
            with suppress(OSError):  # something else is in it
                folder.rmdir()


@contextmanager
def _joined_for_now(choices: Choices, config: TrainConfig) -> Iterator[TrainConfig]:
    """The configuration with several targets joined in a temporary folder: a rehearsal writes nothing."""
    if choices.joint_target is None:
        yield config
        return
    from beacon.data.card_writing import write_joint_card

    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder) / choices.joint_target.name
        write_joint_card(card, choices.targets)
        yield replace(config, data=replace(config.data, target=card))


def _train_quietly(config: TrainConfig, asked: RunArguments, folder: Path) -> int:
    """One of several processes, of which the first speaks to the user."""
    from beacon.training.run import train

    _set_threads(config)
    warnings.simplefilter("ignore")
    try:
        train(config, folder, resume=asked.resume)
    except UserError:
        return 2
    except RunError:
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _rehearse(config: TrainConfig, *, as_json: bool) -> int:
    from beacon.training.rehearsal import rehearse

    _set_threads(config)
    expected = rehearse(config)
    if as_json:
        print_json(to_plain(expected) | {"seconds": expected.seconds})
        return 0
    size = expected.checkpoint_bytes / 2**20
    print(expected.summary)
    print(f"parameters: {expected.parameters:,}; a checkpoint has {size:,.1f} MiB")
    print(f"memory: {expected.memory_bytes / 2**30:.2f} GiB at its peak, {expected.memory_of}")
    details = [
        f"{expected.seconds_per_step:.3g} s a step",
        f"{expected.seconds_per_refresh:.3g} s between two epochs",
    ]
    if expected.reference_steps:
        details.append(f"{in_words(expected.reference_seconds)} for reference policies")
    measured = f"measured over {expected.measured_steps} steps on this machine"
    print(f"time: about {in_words(expected.seconds)} ({', '.join(details)}; {measured})")
    return 0


def _set_threads(config: TrainConfig) -> None:
    if config.run.threads is not None:
        import torch

        torch.set_num_threads(config.run.threads)


def _watched(asked: RunArguments, folder: Path) -> AbstractContextManager[object]:
    """The run's page beside the training, where it is wanted."""
    if not asked.watch:
        return nullcontext()
    from beacon.local_server import check_port
    from beacon.report import watching

    check_port("--watch-port", asked.watch_port)
    return watching(folder, asked.watch_port)
