"""Undo what an audit is certain of: actions that are late, mirrored, in another unit or in another order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.audit.evidence import Repair, RepairKind
from beacon.audit.run import DemoVerdict
from beacon.audit.saved import SavedAudit
from beacon.data.converting import ConvertOptions, read_episodes, write_options
from beacon.data.decisions import read_decisions
from beacon.data.episodes import Episode
from beacon.data.formats import create_dataset, open_dataset
from beacon.data.formats.base import ACTIONS, DatasetReader
from beacon.errors import UserError
from beacon.plain import to_plain
from beacon.runs.data_records import DomainRecord, hash_actions

NOTE = "beacon_repair"  # attribute of every demonstration that is written
KINDS: tuple[RepairKind, ...] = ("lag", "sign", "scale", "offset", "permutation")


@dataclass(frozen=True)
class RepairOptions:
    """What is repaired."""

    # Which changes are made.
    only: tuple[RepairKind, ...] = KINDS
    # Residual after the change, in units of the usual one, up to which it is certain.
    largest_residual: float = 1.2
    # p-value of the demonstration below which it is certain.
    largest_p: float = 0.01
    # Replace a dataset that is there.
    overwrite: bool = False
    # LeRobot: pictures as video, not embedded.
    video: bool = True
    # decisions.jsonl: only demonstrations that somebody decided to repair are, dropped ones are left out.
    decisions: Path | None = None


@dataclass(frozen=True)
class RepairCount:
    """What was done."""

    demos: int
    repaired: int
    left: int  # accused, but not certain or not asked for


def repair_dataset(
    source: Path, out: Path, audit: SavedAudit, where: str, options: RepairOptions | None = None
) -> RepairCount:
    """Write a dataset anew with the actions of some demonstrations changed; the source is only read.

    Args:
        source: the dataset that was audited.
        out: the new one: NAME.hdf5, or a folder for LeRobot.
        audit: of it.
        where: the file that the audit was read from, for messages.
        options: what is repaired.
    """
    options = options or RepairOptions()
    with open_dataset(source) as reader:
        if out.exists() and out.samefile(reader.path):
            raise UserError(f"{out}: a dataset cannot replace the one it is made from")
        verdicts = {demo.name: demo for demo in audit.verdict(_record(reader), where).demos}
        names, wanted = _decided(reader, source, options)
        repairs = {
            name: certain_repair(verdicts[name], options) if name in wanted else None for name in names
        }
        writing = ConvertOptions(video=options.video, overwrite=options.overwrite)
        with create_dataset(out, write_options(reader, writing)) as writer:
            written = {
                name: writer.add(repaired_episode(episode, repairs[name]))
                for name, episode in zip(names, read_episodes(reader, names), strict=True)
            }
            for key, members in reader.masks.items():
                writer.set_mask(key, [written[name] for name in members if name in written])
    done = sum(repair is not None for repair in repairs.values())
    accused = sum(verdicts[name].is_accused and repairs[name] is None for name in names)
    return RepairCount(len(names), done, accused)


def _decided(reader: DatasetReader, source: Path, options: RepairOptions) -> tuple[list[str], set[str]]:
    """The demonstrations that are written, and those of them that may be repaired."""
    names = list(reader.episode_names)
    if options.decisions is None:
        return names, set(names)
    decisions = read_decisions(options.decisions)
    decisions.check({source: names})
    dropped = decisions.names(source, "drop", names)
    return [name for name in names if name not in dropped], decisions.names(source, "repair", names)


def certain_repair(demo: DemoVerdict, options: RepairOptions) -> Repair | None:
    """The change that an audit is certain of, or None.

    Args:
        demo: what the audit says.
        options: what is repaired, and what counts as certain.
    """
    for item in demo.evidence:
        repair = item.repair
        if (
            demo.is_accused
            and repair is not None
            and repair.kind in options.only
            and repair.residual_after <= options.largest_residual
            and demo.p_value < options.largest_p
        ):
            return repair
    return None


def repaired_episode(episode: Episode, repair: Repair | None) -> Episode:
    """The demonstration with its actions changed, and a note of what was done.

    Args:
        episode: as it was recorded.
        repair: the change; None: none.
    """
    note = json.dumps(to_plain(repair)) if repair is not None else "none"
    attributes = {**episode.attributes, NOTE: note}
    if repair is None:
        return replace(episode, attributes=attributes)
    return replace(
        episode, actions=repaired_actions(np.asarray(episode.actions), repair), attributes=attributes
    )


def repaired_actions(actions: NDArray[Any], repair: Repair) -> NDArray[Any]:
    """Actions that fit the motion, of the same shape and type.

    Late actions move earlier; at the end, where none are left, the last one is held.

    Args:
        actions: (T, A) as recorded.
        repair: the change.
    """
    changed = actions.astype(np.float64)
    if repair.kind == "lag":
        steps = np.clip(np.arange(len(changed)) + repair.lag, 0, len(changed) - 1)
        changed = changed[steps]
    elif repair.kind == "sign":
        changed = changed * np.asarray(repair.signs)
    elif repair.kind == "scale":
        changed = changed / np.asarray(repair.scale)
    elif repair.kind == "offset":
        changed = changed - np.asarray(repair.offset)
    else:
        changed = changed[:, list(repair.order)]
    return changed.astype(actions.dtype)


def parse_kinds(text: str) -> tuple[RepairKind, ...]:
    """``lag,sign`` as kinds of repair."""
    words: Sequence[str] = [word.strip() for word in text.split(",")]
    unknown = [word for word in words if word not in KINDS]
    if unknown:
        raise UserError(f"--only {unknown[0]}: choose some of {', '.join(KINDS)}, with commas between them")
    return tuple(kind for kind in KINDS if kind in words)


def _record(reader: DatasetReader) -> DomainRecord:
    """What identifies the data of an audit, without its pictures."""
    names = tuple(reader.episode_names)
    actions = [reader.read(name, ACTIONS) for name in names]
    return DomainRecord(
        name=reader.path.stem,
        file=str(reader.path),
        demos=names,
        lengths=tuple(len(part) for part in actions),
        actions=hash_actions(actions),
        frames="",
        is_target=False,
    )
