"""Chosen demonstrations of several datasets as one new dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beacon.data.converting import ORIGINAL_NAME, ConvertOptions, read_episodes, write_options
from beacon.data.errors import listing
from beacon.data.formats import create_dataset, open_dataset
from beacon.data.formats.base import DatasetReader, ReadOptions
from beacon.data.formats.robomimic import SUFFIXES, RobomimicReader
from beacon.data.formats.robomimic_copy import ORIGINAL_FILE, copy_episodes
from beacon.errors import UserError


@dataclass(frozen=True)
class Choice:
    """Demonstrations of one dataset that are kept, in this order."""

    file: Path
    names: tuple[str, ...]
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name -> more to note
    options: ReadOptions | None = None  # how it is opened where the datasets have different control rates

    @property
    def as_recorded(self) -> ReadOptions:
        """How it is opened to keep the rate of the recording."""
        return replace(self.options or ReadOptions(), fps=None)


def curate(
    out: Path,
    choices: Sequence[Choice],
    *,
    overwrite: bool = False,
    video: bool = True,
    fps: float | None = None,
) -> int:
    """Write the chosen demonstrations in the format that the name of ``out`` asks for; gives their number.

    Each notes its ``original_name`` and ``original_file``. From one HDF5 file to another they are copied as
    they are; otherwise they are read and written anew.

    Args:
        out: NAME.hdf5, or a folder for LeRobot.
        choices: what is kept.
        overwrite: replace a dataset that is there.
        video: LeRobot: pictures as video, not embedded.
        fps: LeRobot: control steps a second, where no dataset says it.
    """
    kept = [choice for choice in choices if choice.names]
    if not kept:
        raise UserError(f"{out}: no demonstration was chosen")
    with ExitStack() as opened:
        readers = [opened.enter_context(open_dataset(choice.file, choice.as_recorded)) for choice in kept]
        for reader, choice in zip(readers, kept, strict=True):
            unknown = sorted(set(choice.names) - set(reader.episode_names))
            if unknown:
                raise UserError(f"{choice.file} has no {listing(unknown)}")
        if len(kept) == 1 and isinstance(readers[0], RobomimicReader) and out.suffix in SUFFIXES:
            opened.close()
            copy_episodes(
                kept[0].file, out, kept[0].names, attributes=kept[0].attributes, overwrite=overwrite
            )
            return len(kept[0].names)
        if out.exists() and any(out.samefile(choice.file) for choice in kept):
            raise UserError(f"{out}: a dataset cannot replace the one it is made from")
        rates = _rates(readers)
        if len(set(rates.values())) > 1:  # then at the rate to which training brought them, if it did
            readers = [opened.enter_context(open_dataset(choice.file, choice.options)) for choice in kept]
            rates = _rates(readers)
        if len(set(rates.values())) > 1:
            each = ", ".join(f"{name} {rate:g} Hz" for name, rate in rates.items())
            raise UserError(
                f"{out}: the datasets have different control rates ({each}); give them cards with fps"
            )
        rate = next(iter(rates.values()), fps)
        return _write(out, readers, kept, ConvertOptions(video=video, overwrite=overwrite, fps=rate))


def _rates(readers: Sequence[DatasetReader]) -> dict[str, float]:
    return {reader.path.name: reader.fps for reader in readers if reader.fps is not None}


def _write(
    out: Path, readers: Sequence[DatasetReader], choices: Sequence[Choice], options: ConvertOptions
) -> int:
    count = 0
    with create_dataset(out, write_options(readers[0], options)) as writer:
        for reader, choice in zip(readers, choices, strict=True):
            for name, episode in zip(choice.names, read_episodes(reader, choice.names), strict=True):
                noted = {**episode.attributes, ORIGINAL_NAME: name, ORIGINAL_FILE: choice.file.name}
                noted |= choice.attributes.get(name, {})
                writer.add(replace(episode, name=f"demo_{count}", attributes=noted))
                count += 1
    return count
