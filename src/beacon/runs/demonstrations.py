"""What the datasets of a run say of its demonstrations: attributes, lengths, known corruption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon.data import EpisodeSet, open_dataset
from beacon.data.corruption import corruption_of
from beacon.data.errors import listing
from beacon.data.formats.base import DatasetReader
from beacon.errors import UserError
from beacon.progress import each
from beacon.runs.data_records import DomainRecord, hash_actions


@dataclass(frozen=True)
class Demonstrations:
    """The demonstrations of one domain, without their arrays."""

    path: Path
    names: tuple[str, ...]
    attributes: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, episodes: EpisodeSet) -> Demonstrations:
        """Of a set that was loaded."""
        return cls(episodes.path, tuple(episodes.episode_names), tuple(episodes.episode_attributes))

    @classmethod
    def read(cls, record: DomainRecord) -> Demonstrations:
        """Of the dataset that a run was trained on; a UserError where it is not the same any more.

        Args:
            record: the domain, from the run's data.json.
        """
        path = Path(record.file)
        with open_dataset(path, record.read_options) as reader:
            _check_names(reader, record)
            lengths = tuple(int(reader.info(name, "actions").shape[0]) for name in record.demos)
            if lengths != record.lengths:
                raise UserError(f"{path} has changed since the run: it has other demonstrations")
            return cls(path, record.demos, tuple(reader.attributes(name) for name in record.demos))

    @property
    def corruption(self) -> list[str]:
        """What is known to be wrong with each demonstration; empty where nothing is."""
        labels = [corruption_of(attributes) for attributes in self.attributes]
        return ["" if label == "none" else label for label in labels]


def corruption_labels(domains: Sequence[Demonstrations]) -> list[str] | None:
    """What is known to be wrong with all demonstrations, in their order; None where nothing is recorded.

    Args:
        domains: the demonstrations by domain.
    """
    labels = [label for domain in domains for label in domain.corruption]
    return labels if any(labels) else None


def check_unchanged(file: Path, record: DomainRecord) -> None:
    """Refuse a dataset that is not the one that the weights are of.

    Args:
        file: where it is now.
        record: the domain, from the run's data.json.
    """
    if not file.exists():
        raise UserError(
            f"{file}: the dataset that the run was trained on is not there any more; "
            "say where it is now with --source-file"
        )
    with open_dataset(file, record.read_options) as reader:
        _check_names(reader, record)
        told = each(record.demos, f"reading {file.name}")
        if hash_actions([reader.read(name, "actions") for name in told]) != record.actions:
            raise UserError(f"{file} has changed since the run: the weights are of other actions")


def _check_names(reader: DatasetReader, record: DomainRecord) -> None:
    missing = [name for name in record.demos if name not in reader.episode_names]
    if missing:
        raise UserError(f"{reader.path} has changed since the run: it has no {listing(missing)}")
