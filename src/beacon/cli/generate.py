"""``beacon generate TASK``: demonstrations by scripted experts, from seed demonstrations, or by replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import tyro

from beacon.cli import parsing
from beacon.errors import UserError
from beacon.progress_display import shown_progress


def command(
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")],
    /,
    out: Path,
    domain: str = "source",
    demos: int = 200,
    size: str = "small",
    region: str = "train",
    seed: int = 0,
    workers: int = 1,
    noise: float = 0.05,
    mimic: Path | None = None,
    replay: Path | None = None,
    expert: str | None = None,
    cameras: tuple[str, ...] = ("agentview",),
    image_size: int = 96,
    overwrite: bool = False,
) -> int:
    """Write a robomimic HDF5 file of successful demonstrations.

    Args:
        task: lift, stack, mug-cleanup, threading, pusht, metaworld/NAME, an installed one, or module:Class.
        out: the file to write.
        domain: source, texture, texture-view, real-proxy, other-dynamics, an installed one, or a YAML file.
        demos: how many demonstrations.
        size: small (for a few CPU cores) or full (the paper's).
        region: where objects start: train, target or ood.
        seed: of all random numbers; the same seed writes the same bytes.
        workers: parallel processes.
        noise: standard deviation of the noise added to actions.
        mimic: expand the demonstrations in this file, in the manner of MimicGen, in place of the expert.
        replay: repeat the actions of the demonstrations in this file in the domain.
        expert: another scripted expert than the task's own: an installed one, or module:Class.
        cameras: whose pictures are recorded: agentview, robot0_eye_in_hand (on the wrist), or both.
        image_size: height and width of the pictures.
        overwrite: replace an existing file.
    """
    from beacon.sim.generate import GenerateConfig, generate

    config = GenerateConfig(
        task=task,
        out=out,
        demos=demos,
        domain=domain,
        size=size,
        region=region,
        seed=seed,
        workers=workers,
        noise=noise,
        mimic=mimic,
        replay=replay,
        expert=expert,
        overwrite=overwrite,
        cameras=cameras,
        image_size=image_size,
    )
    with counting_progress(f"{task} · {domain}") as update:
        report = generate(config, update)
    print(
        f"{report.path}: {report.demos} demonstrations of {report.attempts} attempts "
        f"({report.failures} failed, {100 * report.success_rate:.1f}% succeeded), "
        f"mean length {report.mean_length:.0f}, {report.seconds:.0f} s"
    )
    return 0


DESCRIPTION = """Write a robomimic HDF5 file of successful demonstrations.

Examples:
  beacon generate stack --demos 200 --out sim.hdf5
  beacon generate stack --domain texture --demos 5 --seed 1 --out target.hdf5

Repeat an interrupted command to continue. The result does not depend on the number of workers."""


@contextmanager
def counting_progress(title: str) -> Iterator[Callable[[int, int, int], None]]:
    """A listener to how many are done, of how many, and how many failed; it shows the time left.

    Args:
        title: what is being done.
    """
    with shown_progress() as advance:

        def update(done: int, total: int, failures: int) -> None:
            advance(title + (f" ({failures} failed)" if failures else ""), done, total)

        yield update


def main(arguments: list[str]) -> int:
    """Parse and run."""
    if not arguments:
        raise UserError("beacon generate: name a task, for example stack; see beacon generate --help")
    try:
        return int(parsing.parse(command, arguments, prog="beacon generate", description=DESCRIPTION))
    except SystemExit:  # the help was asked for
        return 0
