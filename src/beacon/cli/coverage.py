"""``beacon coverage``: what the target does not cover yet, and which demonstrations to record next."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from beacon.cli import parsing
from beacon.cli.set_checks import check_sets

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from beacon.audit.coverage import CoverageResult, PolicyFeatures
    from beacon.data import EpisodeSet

DESCRIPTION = """Say what the target demonstrations do not cover yet, and which to record next.

Examples:
  beacon coverage --source sim.hdf5 --target real.hdf5
  beacon coverage --source a.hdf5 --source b_lerobot --target real.hdf5 --next 5 --out coverage
  beacon coverage --source sim.hdf5 --target real.hdf5 --run runs/beacon --json

Source and target demonstrations are compared by first states, the way ahead, first pictures, and, with --run,
what its policy sees in first pictures. The next starts are source demonstrations that stand for the largest
uncovered part (facility location, greedy: at least 63% of what the best choice covers). Place objects as
their pictures show. --out writes coverage.json, coverage.html and a picture of every start."""
JSON_FILE, PAGE_FILE = "coverage.json", "coverage.html"


@dataclass(frozen=True)
class CoverageArguments:
    """What the command line takes."""

    # A source dataset or a card; repeat for several sets.
    source: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="F")]
    # Target demonstrations that there are.
    target: Annotated[Path, tyro.conf.arg(metavar="F")]
    # Starts to propose.
    next: int = 5
    # A run whose policy also says what looks alike.
    run: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    # Folder for coverage.json, coverage.html and pictures; without it nothing is written.
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    # Print what coverage.json would hold instead of tables.
    json: bool = False
    # Height and width that images are resized to.
    image_size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    # Observations that are called otherwise somewhere; repeat for several.
    rename: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="OLD=NEW")] = ()
    # Cameras to use; by default all that every set has.
    cameras: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME")] = None
    # Proprioception to use; by default the end effector's.
    proprio: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME")] = None

    def __post_init__(self) -> None:
        check_sets("coverage", self.source, [self.target], self.image_size, self.out)


def main(arguments: list[str]) -> int:
    """Run the verb."""
    try:
        options: CoverageArguments = parsing.parse(
            CoverageArguments, arguments, prog="beacon coverage", description=DESCRIPTION
        )
    except SystemExit as stop:  # the help was asked for
        return stop.code if isinstance(stop.code, int) else 0
    from beacon.audit.coverage import CoverageOptions, measure_coverage
    from beacon.data import ObservationMapping, load_domains, parse_rename
    from beacon.plain import to_plain
    from beacon.progress_display import shown_progress

    asked = CoverageOptions(next=options.next)
    mapping = ObservationMapping(
        options.cameras, options.proprio, parse_rename(options.rename), options.image_size
    )
    with shown_progress() as advance:
        advance("opening the datasets", 0, 1)
        *sources, target = load_domains([*options.source, options.target], mapping=mapping)
        total, done = sum(s.frames for s in [*sources, target]), 0

        def read(frames: int) -> None:
            nonlocal done
            done += frames
            advance("reading demonstrations", done, total)

        result = measure_coverage(sources, target, asked, _policy_features(options.run), read)
    text = json.dumps(to_plain(result), indent=1, allow_nan=False) + "\n"
    if options.json:
        sys.stdout.write(text)
    else:
        _print(result)
    if options.out is not None:
        _write(options.out, result, sources, text)
        print(f"written: {options.out}", file=sys.stderr if options.json else sys.stdout)
    return 0


def _policy_features(run: Path | None) -> PolicyFeatures | None:
    """What the policy of a run sees in first observations."""
    if run is None:
        return None
    from beacon.policy import load_policy

    policy = load_policy(run)

    def features(episodes: EpisodeSet) -> NDArray[np.float32]:
        states = {key: array[episodes.starts] for key, array in episodes.proprio.items()}
        pictures = {key: array[episodes.image_starts] for key, array in episodes.images.items()}
        return policy.features({**states, **pictures}, axes="batch")

    return features


def _print(result: CoverageResult) -> None:
    from beacon.data.errors import printable

    for one_set in result.sets:
        print(printable(f"{one_set.name} ({one_set.demos}) and {result.target} ({result.target_demos})"))
        for view in one_set.views:
            print(
                f"  {view.view:<14}  target covers {100 * view.source_covered:3.0f}% of it, "
                f"it covers {100 * view.target_covered:3.0f}% of the target"
            )
    for remark in result.remarks:
        print(printable(remark))
    if result.proposals:
        print("record next, with objects as in the first picture of:")
    for number, proposal in enumerate(result.proposals, 1):
        print(
            printable(
                f"  {number}. {result.sets[proposal.set].name} {proposal.name}: source demonstrations "
                f"that it stands for: {proposal.stands_for}; uncovered distance that is left: "
                f"{100 * proposal.uncovered_left:.0f}%"
            )
        )


def _write(folder: Path, result: CoverageResult, sources: list[EpisodeSet], text: str) -> None:
    from beacon.data.images import to_picture
    from beacon.files import replacing, write_bytes
    from beacon.report import draw_coverage, first_pictures

    page = draw_coverage(result, sources).encode()
    for number, proposal in enumerate(result.proposals, 1):
        for camera, frame in enumerate(first_pictures(sources[proposal.set], proposal.episode)):
            name = f"next-{number}.png" if camera == 0 else f"next-{number}-{camera}.png"
            with replacing(folder / name) as temporary:
                to_picture(frame).save(temporary, format="PNG")
    write_bytes(folder / PAGE_FILE, page)
    write_bytes(folder / JSON_FILE, text.encode())
