"""Everything in a dataset that would break training or silently hurt it."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from beacon.data.checking_episodes import EpisodeFacts, check_episode
from beacon.data.compatibility import find_differences, peek_shapes, resolve_mapping
from beacon.data.errors import DataWarning, listing
from beacon.data.formats import open_dataset
from beacon.data.formats.base import DatasetReader, Problem, Severity
from beacon.data.mapping import ObservationMapping
from beacon.errors import UserError


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``error``: training refuses or fails. ``warning``: it may be worse for it."""

    severity: Severity
    path: Path
    text: str
    episodes: tuple[str, ...] = ()  # empty: about the whole dataset

    def __str__(self) -> str:
        where = f", {listing(self.episodes, 4)}" if self.episodes else ""
        return f"{self.path}{where}: {self.text}"


def check_files(paths: Sequence[str | Path]) -> list[Finding]:
    """Check each dataset, then whether they fit together. Errors come first within a file."""
    found: list[Finding] = []
    facts: dict[Path, dict[str, EpisodeFacts]] = {}
    for path in dict.fromkeys(Path(p) for p in paths):
        try:
            with open_dataset(path) as reader:
                problems, facts[path] = _check_dataset(reader)
        except UserError as error:
            found.append(Finding("error", path, str(error).removeprefix(str(path)).lstrip(" :,")))
            continue
        found += _grouped(path, problems)
    if len(facts) > 1:
        found += _check_together(facts)
    return found


def _check_dataset(reader: DatasetReader) -> tuple[list[Problem], dict[str, EpisodeFacts]]:
    if not reader.episode_names:
        return [Problem("error", "holds no demonstrations")], {}
    problems = reader.problems()
    headers = {}
    for episode in reader.episode_names:
        try:
            headers[episode] = reader.arrays(episode)
        except UserError as error:
            problems.append(Problem("error", str(error).partition(": ")[2], episode))
    typical = {name: info for arrays in reversed(headers.values()) for name, info in arrays.items()}
    facts: dict[str, EpisodeFacts] = {}
    for episode, arrays in headers.items():
        faults, facts[episode] = check_episode(reader, episode, arrays, typical)
        problems += faults
    problems += _check_actions(facts) + _check_cameras(facts) + _check_masks(reader)
    problems += _check_duplicates(facts)
    return problems, facts


def _check_actions(facts: dict[str, EpisodeFacts]) -> list[Problem]:
    """What only all demonstrations together show about the actions."""
    ranges = [f.action_range for f in facts.values() if f.action_range is not None]
    if not ranges or len({len(low) for low, _ in ranges}) > 1:
        return []
    low = np.min([low for low, _ in ranges], axis=0)
    high = np.max([high for _, high in ranges], axis=0)
    found: list[Problem] = []
    constant = np.flatnonzero(high == low).tolist()
    if len(constant) == len(low):
        return [Problem("error", "the actions never change: there is nothing to learn")]
    for dimension in constant:
        found.append(Problem("warning", f"action dimension {dimension} is always {low[dimension]:g}"))
    outside = [
        e
        for e, f in facts.items()
        if f.action_range and max(-f.action_range[0].min(), f.action_range[1].max()) > 1 + 1e-6
    ]
    extremes = f"smallest {low.min():g}, largest {high.max():g}"
    text = f"actions leave [-1, 1] ({extremes}): a simulator would clip them, or they are in other units"
    return found + [Problem("warning", text, episode) for episode in outside]


def _check_cameras(facts: dict[str, EpisodeFacts]) -> list[Problem]:
    found: list[Problem] = []
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
                found.append(
                    Problem("error", f"'{camera}' {text} of every demonstration: the camera shows nothing")
                )
            else:
                found += [Problem("warning", f"'{camera}' {text}", episode) for episode in episodes]
    return found


def _check_masks(reader: DatasetReader) -> list[Problem]:
    found: list[Problem] = []
    known = set(reader.episode_names)
    for key, names in reader.masks.items():
        unknown = sorted(set(names) - known)
        if unknown:
            found.append(Problem("error", f"mask '{key}' names {listing(unknown, 4)}, not in the file"))
        if not names:
            found.append(Problem("warning", f"mask '{key}' is empty"))
    both = set(reader.masks.get("train", ())) & set(reader.masks.get("valid", ()))
    if both:
        found.append(Problem("warning", f"masks 'train' and 'valid' share {listing(sorted(both), 4)}"))
    return found


def _check_duplicates(facts: dict[str, EpisodeFacts]) -> list[Problem]:
    first: dict[str, str] = {}
    found = []
    for episode, fact in facts.items():
        if fact.fingerprint is not None:
            original = first.setdefault(fact.fingerprint, episode)
            if original != episode:
                found.append(Problem("warning", f"the same demonstration as {original}", episode))
    return found


def _check_together(facts: dict[Path, dict[str, EpisodeFacts]]) -> list[Finding]:
    """Differences and demonstrations in common between datasets that are given together."""
    paths = list(facts)
    found: list[Finding] = []
    for a, b in combinations(paths, 2):
        ours = {f.fingerprint for f in facts[a].values() if f.fingerprint is not None}
        shared = tuple(e for e, f in facts[b].items() if f.fingerprint in ours)
        if shared:
            found.append(Finding("warning", b, f"also in {a}: the domains are not separate", shared))
    usable = [path for path in paths if facts[path]]
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DataWarning)
            mapping = resolve_mapping(usable, ObservationMapping())
        found += [Finding("warning", usable[0], f"together with the others: {w.message}") for w in caught]
        shapes, rates = [], {}
        for path in usable:
            with open_dataset(path) as reader:
                shapes.append(peek_shapes(reader, mapping))
                rate = reader.env_args.get("env_kwargs", {}).get("control_freq")
                if rate is not None:
                    rates[path] = rate
        found += [
            Finding("warning", usable[0], f"together with the others: {d}") for d in find_differences(shapes)
        ]
        if len(set(rates.values())) > 1:
            each = ", ".join(f"{path.name} {rate} Hz" for path, rate in rates.items())
            text = f"control frequencies differ ({each}): the same action chunk lasts longer in one domain"
            found.append(Finding("warning", usable[0], text))
    except UserError as error:
        found.append(
            Finding("warning", usable[0] if usable else paths[0], f"together with the others: {error}")
        )
    return found


def _grouped(path: Path, problems: Sequence[Problem]) -> list[Finding]:
    """The same text for several demonstrations becomes one line; errors before warnings."""
    groups: dict[tuple[Severity, str], list[str]] = {}
    for problem in problems:
        episodes = groups.setdefault((problem.severity, problem.text), [])
        if problem.episode is not None:
            episodes.append(problem.episode)
    lines = [Finding(severity, path, text, tuple(episodes)) for (severity, text), episodes in groups.items()]
    return sorted(lines, key=lambda line: line.severity != "error")
