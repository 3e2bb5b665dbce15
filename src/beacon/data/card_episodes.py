"""Which episodes of a dataset a card chooses."""

from __future__ import annotations

from beacon.data.errors import listing, printable
from beacon.data.formats.base import DatasetReader
from beacon.errors import UserError


def choose_episodes(reader: DatasetReader, episodes: str | tuple[int | str, ...] | None) -> list[str]:
    """Names of the episodes.

    Args:
        reader: the dataset.
        episodes: a range such as "0:50", a mask, or numbers and names; None: all.
    """
    names = reader.episode_names
    if not names:
        raise UserError(f"{reader.path} holds no demonstrations")
    if episodes is None:
        return list(names)
    chosen = _by_text(reader, episodes) if isinstance(episodes, str) else _by_list(reader, episodes)
    if not chosen:
        raise UserError(f"episodes {printable(repr(episodes))}: none of the {len(names)} of {reader.path}")
    return chosen


def _by_text(reader: DatasetReader, episodes: str) -> list[str]:
    names = reader.episode_names
    start, colon, stop = (piece.strip() for piece in episodes.partition(":"))
    if colon and all(p == "" or (p.lstrip("-").isdecimal() and len(p) < 12) for p in (start, stop)):
        return names[int(start) if start else None : int(stop) if stop else None]
    if episodes in reader.masks:
        return [name for name in names if name in set(reader.masks[episodes])]
    raise UserError(
        f"episodes '{printable(episodes)}': neither a range such as \"0:50\" "
        f"nor a mask of {reader.path}; "
        f"the masks are {listing(reader.masks)}"
    )


def _by_list(reader: DatasetReader, episodes: tuple[int | str, ...]) -> list[str]:
    names = reader.episode_names
    chosen = []
    for entry in episodes:
        known = entry in names if isinstance(entry, str) else 0 <= entry < len(names)
        if not known:
            raise UserError(f"episodes: {reader.path} has no {printable(repr(entry))}, it has {len(names)}")
        chosen.append(entry if isinstance(entry, str) else names[entry])
    if len(set(chosen)) < len(chosen):
        raise UserError("episodes: an episode is named twice")
    return chosen
