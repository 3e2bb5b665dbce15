"""The demonstrations of a run: sources first, the target last."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beacon.data import (
    DataWarning,
    EpisodeSet,
    Normalizer,
    ObservationMapping,
    Windows,
    load_domains,
    parse_rename,
)
from beacon.data.decisions import DatasetDecisions, dataset_name
from beacon.data.domains import Domains
from beacon.data.formats.base import ReadOptions
from beacon.data.merging import hold_out, validation_share, warn_if_seen
from beacon.errors import UserError
from beacon.policy import ObservationSpec, PolicyConfig
from beacon.policy.deployment import DeploymentInfo
from beacon.training.config import DataOptions


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The demonstrations of a run, ready to be trained on."""

    domains: Domains
    windows: Windows
    normalizer: Normalizer
    spec: ObservationSpec  # of all sets


def load_training_data(options: DataOptions, policy: PolicyConfig) -> TrainingData:
    """Read the demonstrations of a run.

    Args:
        options: which demonstrations, and how they are read and scaled.
        policy: its history and horizon decide what a window is.
    """
    sets = load_training_sets(options)
    domains = domains_of(sets, options)
    target = domains.target_index
    return TrainingData(
        domains,
        Windows(sets, policy.obs_steps, policy.horizon),
        Normalizer.fit(sets, statistics=options.statistics, quantile=options.quantile, target=target),
        observation_spec(sets[target or 0]),
    )


def load_training_sets(options: DataOptions) -> list[EpisodeSet]:
    """All source sets in the order given, then the target's; compatible with each other, names unique."""
    paths: list[str | Path] = [*options.source]
    masks = [options.source_mask] * len(options.source)
    limits = [options.source_demos] * len(options.source)
    if options.target is not None:
        paths.append(options.target)
        masks.append(options.target_mask)
        limits.append(options.target_demos)
    if not paths:
        raise UserError("there is nothing to train on; say --source FILE and --target FILE")
    memory = None if options.memory_limit is None else int(options.memory_limit * 2**30)
    sets = load_domains(
        paths,
        mapping=_mapping(options),
        masks=masks,
        limits=limits,
        memory_limit_bytes=memory,
        options=ReadOptions(options.skip_incomplete),
        target=None if options.target is None else len(paths) - 1,
    )
    sets = [without_dropped(episodes, options.decisions) for episodes in sets]
    share = None if options.validation is None else validation_share(options.validation)
    if options.target is not None and share is not None:
        sets[-1] = hold_out(sets[-1], share)[0]
    elif options.validation is not None:
        warn_if_seen(options.validation, [*options.source, *([options.target] if options.target else [])])
    if options.target is not None and len(sets[-1]) == 1:
        warnings.warn(
            f"{options.target}: the target is a single demonstration, so what is typical of its domain "
            "is known along one path only; discrepancies and weights are less certain, and the policy may "
            "overfit to that one demonstration",
            DataWarning,
            stacklevel=2,
        )
    return sets


def without_dropped(episodes: EpisodeSet, decisions: Sequence[DatasetDecisions]) -> EpisodeSet:
    """The demonstrations that nobody decided to drop.

    Args:
        episodes: of one dataset.
        decisions: about any datasets.
    """
    dropped = {name for entry in _decisions_about(episodes, decisions) for name in entry.dropped}
    rest = [number for number, name in enumerate(episodes.episode_names) if name not in dropped]
    if not rest:
        raise UserError(f"{episodes.path}: every demonstration was dropped by decision; undo some")
    return episodes if len(rest) == len(episodes) else episodes.subset(rest)


def kept_windows(windows: Windows, decisions: Sequence[DatasetDecisions]) -> NDArray[np.bool_]:
    """Which windows are of demonstrations that somebody decided to keep, (N,).

    Args:
        windows: of the run.
        decisions: about its datasets.
    """
    kept = [
        name in {kept for entry in _decisions_about(episodes, decisions) for kept in entry.kept}
        for episodes in windows.sets
        for name in episodes.episode_names
    ]
    return np.asarray(np.array(kept, np.bool_)[windows.episode])


def _decisions_about(episodes: EpisodeSet, decisions: Sequence[DatasetDecisions]) -> list[DatasetDecisions]:
    if not decisions:
        return []
    return [entry for entry in decisions if entry.dataset == dataset_name(episodes.path)]


def domains_of(sets: Sequence[EpisodeSet], options: DataOptions) -> Domains:
    """Which of these sets, as `load_training_sets` gave them, are sources, and which is the target."""
    names = tuple(episodes.name for episodes in sets)
    if options.target is None:
        return Domains(names, None)
    return Domains(names[:-1], names[-1])


def load_validation_set(path: Path, options: DataOptions, like: EpisodeSet) -> EpisodeSet:
    """Held-out target demonstrations with the same observations as ``like``."""
    mapping = replace(_mapping(options), cameras=tuple(like.images), proprio=tuple(like.proprio))
    share = validation_share(path)
    if share is None:
        read = ReadOptions(options.skip_incomplete, like.fps)
        loaded = EpisodeSet.load(path, mapping=mapping, options=read)
        held_out = without_dropped(loaded, options.decisions)
    elif options.target is None:
        raise UserError(f"--validation {share:g}: a share of the target's demonstrations; say --target FILE")
    else:
        target = EpisodeSet.load(
            options.target,
            mapping=mapping,
            mask=options.target_mask,
            limit=options.target_demos,
            options=ReadOptions(options.skip_incomplete),
        )
        held_out = hold_out(without_dropped(target, options.decisions), share)[1]
    if observation_spec(held_out) != observation_spec(like):
        raise UserError(
            f"--validation {path}: its images, proprioception or actions differ from {like.path}'s"
        )
    return held_out


def observation_spec(episodes: EpisodeSet) -> ObservationSpec:
    """Names and shapes of what a policy for these demonstrations sees and does."""
    return ObservationSpec(
        cameras={name: image.shape[1:] for name, image in episodes.images.items()},  # type: ignore[misc]
        proprio={name: values.shape[1] for name, values in episodes.proprio.items()},
        action_dim=episodes.action_dim,
    )


def deployment_info(options: DataOptions, target: EpisodeSet) -> DeploymentInfo:
    """What the policy's checkpoint says of names and control rate in the data."""
    rename = parse_rename(options.rename)
    return DeploymentInfo(rename, target.fps, target.action_names, target.image_fit)


def _mapping(options: DataOptions) -> ObservationMapping:
    return ObservationMapping(
        cameras=options.cameras,
        proprio=options.proprio,
        rename=parse_rename(options.rename),
        image_size=options.image_size,
    )
