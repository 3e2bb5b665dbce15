"""Several domains together: the observations they share, and whether one policy can learn from all."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beacon.data.episodes import EpisodeSet
from beacon.data.errors import DataWarning, listing
from beacon.data.formats import open_dataset
from beacon.data.formats.base import ACTIONS, DatasetReader, ReadOptions
from beacon.data.images import looks_like_camera
from beacon.data.loading import choose_keys, default_proprio, select_episodes
from beacon.data.mapping import ObservationMapping
from beacon.data.merging import DomainPath, domain_paths, open_domain
from beacon.data.storage import default_memory_limit
from beacon.errors import UserError


@dataclass(frozen=True)
class DomainShapes:
    """What must agree between domains."""

    name: str
    actions: int  # dimensions
    images: dict[str, tuple[int, ...]]  # camera -> (H, W, C)
    proprio: dict[str, int]  # key -> dimensions


def load_domains(
    paths: Sequence[DomainPath],
    *,
    mapping: ObservationMapping | None = None,
    masks: Sequence[str | None] | None = None,
    limits: Sequence[int | None] | None = None,
    memory_limit_bytes: int | None = None,
    cache_dir: str | Path | None = None,
    options: ReadOptions | None = None,
    target: int | None = None,
) -> list[EpisodeSet]:
    """Load one set per domain with the observations that all of them have, and check that they fit together.

    A domain is a path, or several paths that are one domain. Where one of them is the target, cards that say
    how to resample actions, and no rate, are brought to its rate; other rates that differ are warned of.

    ``memory_limit_bytes`` is for all domains together: those loaded once it is used up are mapped.
    """
    files = [domain_paths(domain)[0] for domain in paths]
    masks = [None] * len(files) if masks is None else masks
    limits = [None] * len(files) if limits is None else limits
    resolved = resolve_mapping(paths, mapping or ObservationMapping(), options)
    free = default_memory_limit() if memory_limit_bytes is None else memory_limit_bytes
    rates = domain_rates(paths, options)
    rate = None if target is None else rates[target]
    sets: list[EpisodeSet] = []
    for number, (domain, name) in enumerate(zip(paths, _names(files, masks), strict=True)):
        own = options if number == target else replace(options or ReadOptions(), fps=rate)
        loaded = EpisodeSet.load(
            domain,
            mapping=resolved,
            mask=masks[number],
            limit=limits[number],
            memory_limit_bytes=free,
            cache_dir=cache_dir,
            name=name,
            options=own,
        )
        if rate is not None and target is not None:
            loaded = _compare_rates(loaded, rates[number], rate, files[target])
        if loaded.image_bytes <= free:
            free -= loaded.image_bytes
        sets.append(loaded)
    check_compatible(sets)
    return sets


def domain_rates(paths: Sequence[DomainPath], options: ReadOptions | None = None) -> list[float | None]:
    """The control rate of each domain as its dataset or card says it, None where it does not.

    Args:
        paths: of the domains.
        options: how they are opened.
    """
    rates = []
    for domain in paths:
        with open_domain(domain, options) as reader:
            rates.append(reader.fps)
    return rates


def _compare_rates(episodes: EpisodeSet, own: float | None, rate: float, target: Path) -> EpisodeSet:
    """Say aloud when a domain was brought to the target's rate, or should be."""
    if own is None or own == rate:
        return episodes
    if episodes.fps == rate:
        warnings.warn(
            f"{episodes.path.name}: brought from {own:g} Hz to {rate:g} Hz, the rate of {target.name}; "
            "fps in its card decides otherwise",
            DataWarning,
            stacklevel=4,
        )
        return replace(episodes, brought_to=rate)
    warnings.warn(
        f"control rates differ: {episodes.path.name} has {own:g} Hz, {target.name} {rate:g} Hz, so the same "
        f"action chunk lasts longer in one of them; a card of {episodes.path.name} with actions: "
        "{resample: hold} (targets, velocities) or sum (differences) brings it to the target's rate",
        DataWarning,
        stacklevel=4,
    )
    return episodes


def resolve_mapping(
    paths: Sequence[DomainPath], mapping: ObservationMapping, options: ReadOptions | None = None
) -> ObservationMapping:
    """The mapping with cameras and proprioception spelled out: what all datasets have. Reads headers only."""
    cameras: list[list[str]] = []
    proprio: list[list[str]] = []
    every_key: set[str] = set()
    files = list(dict.fromkeys(path for domain in paths for path in domain_paths(domain)))
    for path in files:
        with open_dataset(path, options) as reader:
            keys = reader.observation_keys(select_episodes(reader, None, None)[0])
            names = mapping.visible(sorted(keys), path)
            proprio.append(list(default_proprio(reader, names)))
        every_key |= set(keys)
        cameras.append(sorted(n for n, key in names.items() if looks_like_camera(key, keys[key])))
    for key in mapping.rename:
        if key not in every_key:
            raise UserError(
                f"--rename {key}={mapping.rename[key]}: no dataset has '{key}'; "
                f"there are {listing(sorted(every_key), 40)}"
            )
    return replace(
        mapping,
        cameras=_common(files, cameras, "camera", "cameras") if mapping.cameras is None else mapping.cameras,
        proprio=_common(files, proprio, "end-effector key", "proprio")
        if mapping.proprio is None
        else mapping.proprio,
    )


def check_compatible(sets: Sequence[EpisodeSet]) -> None:
    """Refuse domains that one policy cannot learn from together, saying how they differ."""
    differences = find_differences([_shapes_of(s) for s in sets])
    if differences:
        raise UserError(differences[0])


def peek_shapes(reader: DatasetReader, mapping: ObservationMapping) -> DomainShapes:
    """The shapes of a dataset from its first demonstration."""
    episode = select_episodes(reader, None, None)[0]
    chosen = choose_keys(reader, episode, mapping)
    keys = reader.observation_keys(episode)
    actions = reader.info(episode, ACTIONS).shape
    return DomainShapes(
        name=str(reader.path),
        actions=actions[1] if len(actions) == 2 else 0,
        images={
            n: mapping.height_width + keys[k].shape[3:] if mapping.height_width else keys[k].shape[1:]
            for n, k in chosen.cameras.items()
        },
        proprio={n: keys[k].shape[1] if len(keys[k].shape) == 2 else 1 for n, k in chosen.proprio.items()},
    )


def find_differences(domains: Sequence[DomainShapes]) -> list[str]:
    """One line for each way in which a domain differs from the first one."""
    problems: list[str] = []
    first = domains[0]
    for other in domains[1:]:
        if other.actions != first.actions:
            problems.append(
                f"actions differ: {first.name} has {first.actions} dimensions, "
                f"{other.name} has {other.actions}; one policy needs the same actions in every domain"
            )
        for what, ours, theirs in (
            ("cameras", list(first.images), list(other.images)),
            ("proprioception", list(first.proprio), list(other.proprio)),
        ):
            if set(ours) != set(theirs):
                problems.append(
                    f"{what} differ: {first.name} has {listing(ours)}, {other.name} has {listing(theirs)}; "
                    "give the same thing the same name with --rename KEY=NAME, or choose what both have"
                )
        for camera in first.images.keys() & other.images.keys():
            a, b = first.images[camera], other.images[camera]
            if a != b:
                advice = (
                    "bring them to one size with --image-size" if a[2:] == b[2:] else "their channels differ"
                )
                problems.append(
                    f"images of '{camera}' differ: {first.name} has {_times(a)}, "
                    f"{other.name} has {_times(b)}; {advice}"
                )
        for key in first.proprio.keys() & other.proprio.keys():
            if first.proprio[key] != other.proprio[key]:
                problems.append(
                    f"'{key}' differs: {first.name} has {first.proprio[key]} dimensions, "
                    f"{other.name} has {other.proprio[key]}; choose keys that agree with --proprio"
                )
    return problems


def _shapes_of(episodes: EpisodeSet) -> DomainShapes:
    return DomainShapes(
        name=f"{episodes.name} ({episodes.path.name})"
        if episodes.name != episodes.path.stem
        else episodes.path.name,
        actions=episodes.action_dim,
        images={camera: array.shape[1:] for camera, array in episodes.images.items()},
        proprio={key: int(array.shape[1]) for key, array in episodes.proprio.items()},
    )


def _common(
    paths: Sequence[str | Path], names_by_dataset: list[list[str]], what: str, option: str
) -> tuple[str, ...]:
    """Names in every list, in the order of the first; says aloud what only some domains have."""
    common = (
        tuple(n for n in names_by_dataset[0] if all(n in names for names in names_by_dataset[1:]))
        if names_by_dataset
        else ()
    )
    everything = dict.fromkeys(n for names in names_by_dataset for n in names)
    missing = [n for n in everything if n not in common]
    if everything and not common:
        each = "; ".join(
            f"{p}: {listing(names)}"
            for p, names in zip(dict.fromkeys(map(str, paths)), names_by_dataset, strict=True)
        )
        raise UserError(
            f"no {what} is common to all domains ({each}); give the same thing the same name with "
            f"--rename KEY=NAME, or choose with {option}"
        )
    if missing:
        warnings.warn(
            f"not used, because not every domain has it: {listing(missing)} "
            "(--rename KEY=NAME if it only has another name)",
            DataWarning,
            stacklevel=4,
        )
    return common


def _names(files: Sequence[Path], masks: Sequence[str | None]) -> list[str]:
    """Short names, made longer where two files would have the same."""
    names = [file.stem for file in files]
    for candidates in (
        [f"{file.parent.name}/{file.stem}" for file in files],
        [f"{file.stem}:{mask}" if mask else file.stem for file, mask in zip(files, masks, strict=True)],
        [f"{file.stem}#{i}" for i, file in enumerate(files)],
    ):
        if len(set(names)) == len(names):
            break
        if len(set(candidates)) == len(names):
            names = candidates
    return names


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
