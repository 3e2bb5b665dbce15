"""coverage.html: what the target covers, and pictures of the starts to record next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from beacon import __version__
from beacon.audit.coverage import CoverageResult, Proposal, SetCoverage
from beacon.data.episodes import EpisodeSet
from beacon.data.errors import printable
from beacon.report.markup import Markup, table, tag
from beacon.report.pictures import Quality, data_uri, sprite
from beacon.report.static_page import percent, static_page

PICTURE = Quality(size=192, frames=1, jpeg=85)


def first_pictures(episodes: EpisodeSet, episode: int) -> list[NDArray[np.uint8]]:
    """The first frame of every camera.

    Args:
        episodes: the set.
        episode: number of the demonstration.
    """
    row = int(episodes.image_starts[episode])
    return [np.asarray(episodes.images[camera][row]) for camera in sorted(episodes.images)]


def draw_coverage(result: CoverageResult, sources: Sequence[EpisodeSet]) -> str:
    """The page.

    Args:
        result: of the comparison.
        sources: the sets, for their pictures.
    """
    target = f"{result.target} with {result.target_demos} demonstrations"
    note = f"Coverage by BEACON {__version__}; the target is {target}."
    remarks = [tag("p", printable(remark), class_="missing") for remark in result.remarks]
    shown = [_proposal(n, proposal, sources) for n, proposal in enumerate(result.proposals, 1)]
    nothing = tag("p", "The target covers every source demonstration.", class_="note")
    sections = [
        tag("section", tag("h2", "Record next"), shown or nothing, remarks),
        *(_set(one_set) for one_set in result.sets),
    ]
    return static_page("What does the target not cover yet?", note, sections)


def _proposal(number: int, proposal: Proposal, sources: Sequence[EpisodeSet]) -> Markup:
    source = sources[proposal.set]
    frames = first_pictures(source, proposal.episode)
    picture = (
        tag("img", alt=f"first picture of {printable(proposal.name)}", src=data_uri(sprite(frames, PICTURE)))
        if frames
        else None
    )
    words = (
        f"{number}. {printable(source.name)}, {printable(proposal.name)}: "
        f"source demonstrations that it stands for: {proposal.stands_for}; "
        f"nearest target demonstration: {printable(proposal.nearest_target)}, at {proposal.distance:.2f}; "
        f"uncovered distance left then: {percent(proposal.uncovered_left)}"
    )
    return tag("div", picture, tag("p", words))


def _set(one_set: SetCoverage) -> Markup:
    rows = [(view.view, percent(view.source_covered), percent(view.target_covered)) for view in one_set.views]
    return tag(
        "section",
        tag("h2", printable(one_set.name)),
        tag("p", printable(f"{one_set.path}, {one_set.demos} demonstrations"), class_="note"),
        table(("by", "of it covered by the target", "of the target covered by it"), rows, numeric=(1, 2)),
    )
