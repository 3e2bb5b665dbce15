"""The configuration of a run that was started before."""

from __future__ import annotations

from pathlib import Path

from beacon.errors import UserError
from beacon.plain import differences
from beacon.runs.layout import CONFIG
from beacon.runs.run import Run
from beacon.training.config import TrainConfig
from beacon.training.config import read_config as read_config_file


def read_config(run: Path) -> TrainConfig:
    """The configuration that a run was started with.

    Args:
        run: the run folder.
    """
    if not Run(run).exists:
        raise UserError(f"{run} is not a run: it has no {CONFIG}")
    return read_config_file(run / CONFIG)


def check_same(run: Path, config: TrainConfig) -> None:
    """Refuse to go on with a run under another configuration; how it is run may differ.

    Args:
        run: the run folder.
        config: the configuration that was asked for.
    """
    before, now = read_config(run).decisive(), config.decisive()
    # Another method has other defaults, too: it is what the user has to know first.
    first = [name for name in ("method", "preset") if before[name] != now[name]]
    differing = differences({key: before[key] for key in first}, {key: now[key] for key in first})
    differing += [text for text in differences(before, now) if text not in differing]
    if differing:
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        raise UserError(
            f"{run} was started with another configuration ({differing[0]}{more}); "
            "resume it with --resume --out alone, or choose another --out"
        )
