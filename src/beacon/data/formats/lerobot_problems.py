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
CLOCK_TOLERANCE = 0.05  # relative; recorders' clocks jitter
CLOCK_ALONE = 0.5  # relative, without a video beside it: what no clock jitters by


def find_problems(reader: LeRobotReader) -> list[Problem]:
    """Totals, videos, clocks, features that cannot be used; not what `wrong_rate` says."""
    known_wrong = wrong_rate(reader) is not None
    problems = _totals(reader) + _features(reader) + _videos(reader, rates=not known_wrong)
    for entry in reader.entries:
        problems += ([] if known_wrong else _clock(reader, entry)) + _commands(reader, entry.name)
    return problems


def wrong_rate(reader: LeRobotReader, recorded: float | None = None) -> str | None:
    """Why info.json must be wrong about the rate: the first video and the clock agree on another one.

    Args:
        reader: of the dataset; its first episode is looked at.
        recorded: the true rate, if the user says it. Where videos of several episodes are joined, they are
            found by times and by the rate of info.json, so that this does not help.
    """
    entry = next((entry for entry in reader.entries if entry.length > 2), None)
    try:
        clock = None if entry is None else _clock_rate(reader, entry)
        video = None if entry is None else _video_rate(entry)
    except UserError:
        return None  # said where the files are read
    joined = video is not None and reader.meta.version.startswith("v3")
    if recorded is not None and not joined:
        return None
    said = reader.meta.fps
    if clock is None or abs(clock - said) <= CLOCK_TOLERANCE * said:
        return None
    if video is None and said / (1 + CLOCK_ALONE) <= clock <= said * (1 + CLOCK_ALONE):
        return None
    if video is not None and abs(video - clock) > CLOCK_TOLERANCE * video:
        return None
    witnesses = "time stamps run" if video is None else "videos and time stamps run"
    rate = clock if video is None else video
    card = "" if joined else ", or say recorded_fps in a card"
    return f"info.json says {said:g} frames a second, {witnesses} at {rate:.4g}; correct fps there{card}"


def _totals(reader: LeRobotReader) -> list[Problem]:
    problems = []
    entries = reader.meta.episodes
    for key, true in (("total_episodes", len(entries)), ("total_frames", sum(e.length for e in entries))):
        said = reader.meta.totals[key]
        if said is not None and said != true:
            problems.append(
                Problem("warning", f"info.json says {key} {printable(repr(said))[:40]}, there are {true}")
            )
    if reader.left_out:
        text = f"left out, incomplete or without steps: {listing(reader.left_out, 6)}"
        problems.append(Problem("warning", text))
    return problems


def _features(reader: LeRobotReader) -> list[Problem]:
    problems = []
    for feature in reader.meta.features.values():
        name = printable(feature.name)
        if feature.depth:
            problems.append(Problem("warning", f"'{name}' is a depth map: not used"))
    return problems


def _videos(reader: LeRobotReader, *, rates: bool) -> list[Problem]:
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
        said = reader.meta.fps
        if rates and rate is not None and abs(rate - said) > RATE_TOLERANCE * said:
            text = (
                f"videos run at {rate:g} frames a second, info.json says {said:g}; frames are taken by number"
            )
            problems.append(Problem("warning", text, spans[0][2]))
    return problems


def _clock(reader: LeRobotReader, entry: EpisodeEntry) -> list[Problem]:
    """Time stamps that are not frame numbers: they are of the recorder's clock, or the rate is wrong."""
    try:
        rate = _clock_rate(reader, entry)
    except UserError as error:
        missing = "no column" in str(error)  # else said where the table is read
        return [Problem("warning", "no column 'timestamp'", entry.name)] if missing else []
    if rate is not None and abs(rate - reader.meta.fps) > CLOCK_TOLERANCE * reader.meta.fps:
        text = (
            f"time stamps run at about {rate:.0f} frames a second, info.json says {reader.meta.fps:g}; "
            "frames are taken by number"
        )
        return [Problem("warning", text, entry.name)]
    return []


def _clock_rate(reader: LeRobotReader, entry: EpisodeEntry) -> float | None:
    """Frames a second by the time stamps; None where they say nothing."""
    times = np.asarray(reader.column(entry, "timestamp"), np.float64).reshape(-1)
    if len(times) < 2 or not np.isfinite(times).all() or times[-1] <= times[0]:
        return None
    return float((len(times) - 1) / (times[-1] - times[0]))


def _video_rate(entry: EpisodeEntry) -> float | None:
    """Frames a second of an episode's first video; None without one."""
    for clip in entry.videos.values():
        video = VideoFile(clip.path)
        try:
            return video.rate
        finally:
            video.close()
    return None


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
