"""Everything in a dataset that would break training or silently hurt it."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from beacon.data.checking_episodes import EpisodeFacts, check_episode
from beacon.data.comparing import compare, make_profile
from beacon.data.compatibility import find_differences, peek_shapes, resolve_mapping
from beacon.data.errors import DataWarning, listing, printable
from beacon.data.formats import open_dataset
from beacon.data.formats.base import OBSERVATION, DatasetReader, Problem, ReadOptions, Severity
from beacon.data.images import image_fault, looks_like_camera
from beacon.data.mapping import ObservationMapping
from beacon.errors import UserError
from beacon.progress import each


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``error``: training refuses or fails. ``warning``: it may be worse for it."""

    severity: Severity
    path: Path
    text: str
    episodes: tuple[str, ...] = ()  # empty: about the whole dataset

    def __str__(self) -> str:
        where = f", {listing(self.episodes, 4)}" if self.episodes else ""
        return printable(f"{self.path}{where}: {self.text}")


@dataclass(frozen=True)
class CheckOptions:
    """What training would be told, so that check and train agree."""

    # Cameras, proprioception, names and image size.
    mapping: ObservationMapping = field(default_factory=ObservationMapping)
    # Leave out episodes whose files are missing.
    skip_incomplete: bool = False
    # Held-out target demonstrations; they must not be among the others.
    validation: Path | None = None


def check_files(paths: Sequence[str | Path], options: CheckOptions | None = None) -> list[Finding]:
    """Check each dataset, then whether they fit together. Errors come first within a file.

    Args:
        paths: datasets or cards; the target's is the last.
        options: what training would be told.
    """
    options = options or CheckOptions()
    findings: list[Finding] = []
    looks: dict[Path, _Look] = {}
    files = list(dict.fromkeys(Path(p) for p in paths))
    for path in files:
        # As in training, cards that say how to resample are brought to the target's rate.
        rate = None if path == files[-1] else _rate(files[-1], options)
        try:
            with open_dataset(path, ReadOptions(options.skip_incomplete, rate)) as reader:
                problems, looks[path] = _check_dataset(reader)
        except UserError as error:
            findings.append(Finding("error", path, str(error).removeprefix(str(path)).lstrip(" :,")))
            continue
        findings += _grouped(path, problems)
    if len(looks) > 1 or options.mapping != ObservationMapping():
        findings += _check_together(looks, options)
    if options.validation is not None:
        findings += _check_validation(options.validation, looks, options)
    return findings


def _rate(path: Path, options: CheckOptions) -> float | None:
    """Control steps a second of a dataset; None where it cannot be read, which is said of it later."""
    try:
        with open_dataset(path, ReadOptions(options.skip_incomplete)) as reader:
            return reader.fps
    except UserError:
        return None


@dataclass(frozen=True)
class _Look:
    """What is kept of a dataset."""

    facts: dict[str, EpisodeFacts]
    rate: float | None
    sizes: dict[str, tuple[int, ...]]  # camera -> (H, W, C)


def _check_dataset(reader: DatasetReader) -> tuple[list[Problem], _Look]:
    if not reader.episode_names:
        return [Problem("error", "holds no demonstrations")], _Look({}, None, {})
    problems = reader.problems()
    if (fault := reader.rate_fault()) is not None:
        problems.append(Problem("error", fault))
    headers = {}
    for episode in reader.episode_names:
        try:
            headers[episode] = reader.arrays(episode)
        except UserError as error:
            problems.append(Problem("error", str(error).partition(": ")[2] or str(error), episode))
    typical = {name: info for arrays in reversed(headers.values()) for name, info in arrays.items()}
    facts: dict[str, EpisodeFacts] = {}
    for episode in each(list(headers), f"checking {reader.path.name}"):
        faults, facts[episode] = check_episode(reader, episode, headers[episode], typical)
        problems += faults
    problems += _check_actions(facts) + _check_cameras(facts) + _check_masks(reader)
    problems += _check_duplicates(facts)
    sizes = {
        name.removeprefix(OBSERVATION): info.shape[1:]
        for name, info in typical.items()
        if name.startswith(OBSERVATION) and looks_like_camera(name, info) and image_fault(info) is None
    }
    return problems, _Look(facts, reader.fps, sizes)


def _check_actions(facts: dict[str, EpisodeFacts]) -> list[Problem]:
    """What only all demonstrations together show about the actions."""
    ranges = [f.action_range for f in facts.values() if f.action_range is not None]
    if not ranges or len({len(low) for low, _ in ranges}) > 1:
        return []
    low = np.min([low for low, _ in ranges], axis=0)
    high = np.max([high for _, high in ranges], axis=0)
    problems: list[Problem] = []
    constant = np.flatnonzero(high == low).tolist()
    if len(constant) == len(low):
        return [Problem("error", "the actions never change: there is nothing to learn")]
    for dimension in constant:
        problems.append(Problem("warning", f"action dimension {dimension} is always {low[dimension]:g}"))
    outside = [
        e
        for e, f in facts.items()
        if f.action_range and max(-f.action_range[0].min(), f.action_range[1].max()) > 1 + 1e-6
    ]
    extremes = f"smallest {low.min():g}, largest {high.max():g}"
    text = f"actions leave [-1, 1] ({extremes}): a simulator would clip them, or they are in other units"
    return problems + [Problem("warning", text, episode) for episode in outside]


def _check_cameras(facts: dict[str, EpisodeFacts]) -> list[Problem]:
    problems: list[Problem] = []
    for attribute, text in (
        ("black", "is black in every frame"),
        ("frozen", "never changes"),
        ("stuttering", "shows the same picture in most steps as in the step before"),
    ):
        affected: dict[str, list[str]] = defaultdict(list)
        for episode, fact in facts.items():
            for camera in getattr(fact, attribute):
                affected[camera].append(episode)
        for camera, episodes in affected.items():
            if len(episodes) == len(facts) and attribute != "stuttering":
                problems.append(
                    Problem("error", f"'{camera}' {text} of every demonstration: the camera shows nothing")
                )
            else:
                problems += [Problem("warning", f"'{camera}' {text}", episode) for episode in episodes]
    return problems


def _check_masks(reader: DatasetReader) -> list[Problem]:
    problems: list[Problem] = []
    known = set(reader.episode_names)
    for key, names in reader.masks.items():
        unknown = sorted(set(names) - known)
        if unknown:
            problems.append(Problem("error", f"mask '{key}' names {listing(unknown, 4)}, not in the file"))
        if not names:
            problems.append(Problem("warning", f"mask '{key}' is empty"))
    both = set(reader.masks.get("train", ())) & set(reader.masks.get("valid", ()))
    if both:
        problems.append(Problem("warning", f"masks 'train' and 'valid' share {listing(sorted(both), 4)}"))
    return problems


def _check_duplicates(facts: dict[str, EpisodeFacts]) -> list[Problem]:
    first: dict[str, str] = {}
    problems = []
    for episode, fact in facts.items():
        if fact.fingerprint is not None:
            original = first.setdefault(fact.fingerprint, episode)
            if original != episode:
                problems.append(Problem("warning", f"the same demonstration as {original}", episode))
    return problems


def _check_together(looks: Mapping[Path, _Look], options: CheckOptions) -> list[Finding]:
    """What training would say, demonstrations in common, and what differs between domains."""
    findings = _shared(looks)
    usable = [path for path, look in looks.items() if look.facts]
    if not usable:
        return findings
    read = ReadOptions(options.skip_incomplete)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DataWarning)
            mapping = resolve_mapping(usable, options.mapping, read)
        findings += [Finding("warning", usable[0], f"together with the others: {w.message}") for w in caught]
        shapes = []
        for path in usable:
            with open_dataset(path, read) as reader:
                shapes.append(peek_shapes(reader, mapping))
    except UserError as error:
        # Training refuses in the same words.
        return [*findings, Finding("error", usable[0], f"together with the others: {error}")]
    findings += [
        Finding("error", usable[0], f"together with the others: {d}") for d in find_differences(shapes)
    ]
    profiles = [
        make_profile(path, looks[path].rate, looks[path].facts, looks[path].sizes, mapping.rename)
        for path in usable
    ]
    for source in profiles[:-1]:
        for line in compare(source, profiles[-1], mapping.proprio or (), mapping.height_width):
            findings.append(Finding("warning", source.path, line))
    return findings


def _shared(looks: Mapping[Path, _Look]) -> list[Finding]:
    """Demonstrations that are in two datasets."""
    findings = []
    for a, b in combinations(looks, 2):
        ours = {f.fingerprint for f in looks[a].facts.values() if f.fingerprint is not None}
        shared = tuple(e for e, f in looks[b].facts.items() if f.fingerprint in ours)
        if shared:
            findings.append(Finding("warning", b, f"also in {a}: the domains are not separate", shared))
    return findings


def _check_validation(path: Path, looks: Mapping[Path, _Look], options: CheckOptions) -> list[Finding]:
    """Held-out demonstrations that training sees are not held out."""
    for other in looks:
        if path.exists() and other.exists() and path.samefile(other):
            text = "the held-out demonstrations are the training demonstrations: their loss tells nothing new"
            return [Finding("warning", path, text)]
    try:
        with open_dataset(path, ReadOptions(options.skip_incomplete)) as reader:
            problems, look = _check_dataset(reader)
    except UserError as error:
        return [Finding("error", path, str(error).removeprefix(str(path)).lstrip(" :,"))]
    return [*_grouped(path, problems), *_shared({**looks, path: look})]


def _grouped(path: Path, problems: Sequence[Problem]) -> list[Finding]:
    """The same text for several demonstrations becomes one line; errors before warnings."""
    groups: dict[tuple[Severity, str], list[str]] = {}
    for problem in problems:
        episodes = groups.setdefault((problem.severity, problem.text), [])
        if problem.episode is not None:
            episodes.append(problem.episode)
    lines = [Finding(severity, path, text, tuple(episodes)) for (severity, text), episodes in groups.items()]
    return sorted(lines, key=lambda line: line.severity != "error")
