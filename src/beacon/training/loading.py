"""The demonstrations of a run: sources first, the target last."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from beacon.data import DataWarning, EpisodeSet, ObservationMapping, load_domains, parse_rename
from beacon.errors import UserError
from beacon.policy import ObservationSpec
from beacon.policy.deployment import DeploymentInfo, control_rate
from beacon.training.config import DataOptions


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
        paths, mapping=_mapping(options), masks=masks, limits=limits, memory_limit_bytes=memory
    )
    if options.target is not None and len(sets[-1]) == 1:
        warnings.warn(
            f"{options.target}: the target is a single demonstration, so what is typical of its domain "
            "is known along one path only; discrepancies and weights are less certain, and the policy may "
            "learn that one demonstration by heart",
            DataWarning,
            stacklevel=2,
        )
    return sets


def load_validation_set(path: Path, options: DataOptions, like: EpisodeSet) -> EpisodeSet:
    """Held-out target demonstrations with the same observations as ``like``."""
    mapping = replace(_mapping(options), cameras=tuple(like.images), proprio=tuple(like.proprio))
    held_out = EpisodeSet.load(path, mapping=mapping)
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
    return DeploymentInfo(rename=parse_rename(options.rename), control_rate=control_rate(target.env_args))


def _mapping(options: DataOptions) -> ObservationMapping:
    return ObservationMapping(
        cameras=options.cameras,
        proprio=options.proprio,
        rename=parse_rename(options.rename),
        image_size=options.image_size,
    )
