"""`train`: a run folder from a configuration, or on with the run that is in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from beacon.progress import tell
from beacon.runs import RunFolder, describe
from beacon.training.config import TrainConfig
from beacon.training.early_looks import EarlyLooks
from beacon.training.metrics import check_loggers
from beacon.training.ranks import Ranks, joined
from beacon.training.stored_config import check_same
from beacon.training.trainer import StepEvent, Trainer


def train(
    config: TrainConfig,
    out: Path,
    *,
    resume: bool = False,
    listener: Callable[[StepEvent], None] | None = None,
    started: Callable[[str], None] | None = None,
    looks: EarlyLooks | None = None,
) -> Path:
    """Train a policy into a run folder; return the last checkpoint.

    Started by torchrun, this process is one of several that train together; see `beacon.training.ranks`.

    Args:
        config: everything that decides the run.
        out: the run folder, which is made.
        resume: go on with the run in it, if there is one.
        listener: called after every step; by default the progress is told to `beacon.progress`, so that
            ``with beacon.progress_display.shown_progress():`` around the call shows it.
        started: called with two lines about the run when it begins.
        looks: evaluates checkpoints while the run goes on, as ``config.run.looks`` says.
    """
    listener = listener or (lambda event: tell(f"training {config.method}", event.step, event.steps))
    with joined(config.run.device) as ranks:
        return _train(ranks, config, RunFolder(out), resume, listener, started, looks)


def _train(
    ranks: Ranks,
    config: TrainConfig,
    folder: RunFolder,
    resume: bool,
    listener: Callable[[StepEvent], None],
    started: Callable[[str], None] | None,
    looks: EarlyLooks | None,
) -> Path:
    """The work of one process; nothing of it is left when the group of processes is destroyed."""
    goes_on = ranks.agree(resume and folder.exists)
    if goes_on:
        check_same(folder.path, config)
    elif ranks.is_first:
        folder.check_free()
    check_loggers(config)
    trainer = Trainer(config, folder, ranks)
    if looks is not None:
        looks.check(trainer.policy.spec)
    data = describe(trainer.windows.sets, has_target=trainer.domains.target is not None)
    with folder.locked() if ranks.is_first else nullcontext():
        with ranks.first_goes_first():
            if ranks.is_first and goes_on:
                folder.take_up(data)
            elif ranks.is_first:
                folder.start(config.to_dict(), data, config.data.decisions)
        return trainer.run(resume=goes_on, listener=listener, started=started, looks=looks)
