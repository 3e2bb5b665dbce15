"""What is wrong in a LeRobot dataset in ways that only this format can be wrong."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from beacon.data.errors import listing, printable
from beacon.data.formats.base import ACTIONS, OBSERVATION, Problem
from beacon.data.formats.video import VideoFile
from beacon.errors import UserError

if TYPE_CHECKING:
    from beacon.data.formats.lerobot import LeRobotReader
    from beacon.data.formats.lerobot_metadata import EpisodeEntry

RATE_TOLERANCE = 0.02  # relative; containers round 29.97 and 30


def find_problems(reader: LeRobotReader) -> list[Problem]:
    """Totals, videos, clocks, features that cannot be used."""
    problems = _totals(reader) + _features(reader) + _videos(reader)
    for entry in reader.entries:
        problems += _clock(reader, entry) + _commands(reader, entry.name)
    return problems


def _totals(reader: LeRobotReader) -> list[Problem]:
    problems = []
    entries = reader.meta.episodes
    for key, true in (("total_episodes", len(entries)), ("total_frames", sum(e.length for e in entries))):
        said = reader.meta.totals[key]
        if said is not None and said != true:
            problems.append(
                Problem("warning", f"info.json says {key} {printable(repr(said))[:40]}, there are {true}")
            )
    known = set(reader.episode_names)
    skipped = [e.name for e in entries if e.name not in known]
    if skipped:
        problems.append(Problem("warning", f"left out, incomplete or without steps: {listing(skipped, 6)}"))
    return problems


def _features(reader: LeRobotReader) -> list[Problem]:
    problems = []
    for feature in reader.meta.features.values():
        name = printable(feature.name)
        if feature.depth:
            problems.append(Problem("warning", f"'{name}' is a depth map: not used"))
    return problems


def _videos(reader: LeRobotReader) -> list[Problem]:
    """Files by the episodes they hold: enough frames, the rate that info.json says, no overlap."""
    clips: dict[Path, list[tuple[int, int, str]]] = defaultdict(list)
    for entry in reader.entries:
        for clip in entry.videos.values():
            clips[clip.path].append((clip.first, clip.first + entry.length, entry.name))
    problems = []
    for path, spans in clips.items():
        name = path.relative_to(reader.path)
        spans.sort()
        for (_, stop, _), (start, _, episode) in pairwise(spans):
            if start < stop:
                problems.append(
                    Problem(
                        "warning",
                        f"{name}: its frames begin {stop - start} before the last episode ends",
                        episode,
                    )
                )
        try:
            video = VideoFile(path)
        except UserError as error:
            problems.append(Problem("error", str(error).removeprefix(f"{reader.path}/"), spans[0][2]))
            continue
        try:
            count, rate = video.count(), video.rate
        except UserError as error:
            problems.append(Problem("error", str(error).removeprefix(f"{reader.path}/"), spans[0][2]))
            continue
        finally:
            video.close()
        if count < spans[-1][1]:
            text = f"{name} has {count} frames, but {spans[-1][1]} are needed"
            problems.append(Problem("error", text, spans[-1][2]))
        if rate is not None and reader.fps and abs(rate - reader.fps) > RATE_TOLERANCE * reader.fps:
            text = (
                f"videos run at {rate:g} frames a second, info.json says {reader.fps:g}; "
                "frames are taken by number"
            )
            problems.append(Problem("warning", text, spans[0][2]))
    return problems


def _clock(reader: LeRobotReader, entry: EpisodeEntry) -> list[Problem]:
    """Time stamps that are not frame numbers: they are of the recorder's clock, or the rate is wrong."""
    episode = entry.name
    try:
        times = reader.column(entry, "timestamp")
    except UserError:
        return [Problem("warning", "no column 'timestamp'", episode)]
    times = np.asarray(times, np.float64).reshape(-1)
    if len(times) < 2 or not np.isfinite(times).all():
        return []
    rate = (len(times) - 1) / max(times[-1] - times[0], 1e-9)
    if abs(rate - reader.meta.fps) > 0.05 * reader.meta.fps:
        text = (
            f"time stamps run at about {rate:.0f} frames a second, info.json says {reader.meta.fps:g}; "
            "frames are taken by number"
        )
        return [Problem("warning", text, episode)]
    return []


def _commands(reader: LeRobotReader, episode: str) -> list[Problem]:
    """Actions that only repeat the state: there is no command in them."""
    state = OBSERVATION + "observation.state"
    try:
        arrays = reader.arrays(episode)
        if ACTIONS not in arrays or state not in arrays or arrays[ACTIONS].shape != arrays[state].shape:
            return []
        if np.array_equal(reader.read(episode, ACTIONS), reader.read(episode, state)):
            return [
                Problem("warning", "'action' equals 'observation.state': there is no command in it", episode)
            ]
    except UserError:
        pass  # said where the arrays are looked at
    return []
