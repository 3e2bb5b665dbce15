"""Demonstrations: read, write, check, cut into windows, normalise.

One :class:`EpisodeSet` per domain whatever the file format; :class:`Windows` turns several of them into
training samples. Names load on first use, so that reading a header does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.data.checking import Finding, check_files
    from beacon.data.compatibility import check_compatible, load_domains, resolve_mapping
    from beacon.data.domains import Domains
    from beacon.data.episodes import Episode, EpisodeSet
    from beacon.data.errors import DataWarning
    from beacon.data.formats import open_dataset
    from beacon.data.formats.robomimic_copy import copy_episodes
    from beacon.data.formats.robomimic_writer import RobomimicWriter, write_robomimic
    from beacon.data.mapping import ObservationMapping, parse_rename
    from beacon.data.normalization import Normalizer
    from beacon.data.windows import WindowBatch, Windows

__all__ = [
    "DataWarning",
    "Domains",
    "Episode",
    "EpisodeSet",
    "Finding",
    "Normalizer",
    "ObservationMapping",
    "RobomimicWriter",
    "WindowBatch",
    "Windows",
    "check_compatible",
    "check_files",
    "copy_episodes",
    "load_domains",
    "open_dataset",
    "parse_rename",
    "resolve_mapping",
    "write_robomimic",
]

_HOMES = {
    "DataWarning": "errors",
    "Domains": "domains",
    "Episode": "episodes",
    "EpisodeSet": "episodes",
    "Finding": "checking",
    "Normalizer": "normalization",
    "ObservationMapping": "mapping",
    "RobomimicWriter": "formats.robomimic_writer",
    "WindowBatch": "windows",
    "Windows": "windows",
    "check_compatible": "compatibility",
    "check_files": "checking",
    "copy_episodes": "formats.robomimic_copy",
    "load_domains": "compatibility",
    "open_dataset": "formats",
    "parse_rename": "mapping",
    "resolve_mapping": "compatibility",
    "write_robomimic": "formats.robomimic_writer",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.data' has no attribute {name!r}")
