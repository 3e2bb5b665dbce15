"""A dataset in another format, one demonstration at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beacon.data.decisions import read_decisions
from beacon.data.episodes import Episode
from beacon.data.errors import printable
from beacon.data.formats import create_dataset, open_dataset
from beacon.data.formats.base import (
    ACTIONS,
    OBSERVATION,
    DatasetReader,
    ReadOptions,
    WriteOptions,
    numbered_actions,
)
from beacon.data.formats.robomimic_attributes import episode_order
from beacon.data.loading import default_proprio, select_episodes
from beacon.errors import UserError
from beacon.progress import each

ORIGINAL_NAME = "original_name"


@dataclass(frozen=True)
class ConvertOptions:
    """How a dataset is converted."""

    video: bool = True  # LeRobot: images as video; False: embedded, without loss
    fps: float | None = None  # control steps a second, where the dataset does not say
    mask: str | None = None  # only the demonstrations of this mask
    skip_incomplete: bool = False  # leave out episodes whose files are missing
    overwrite: bool = False  # replace a dataset that is there
    decisions: Path | None = None  # decisions.jsonl: dropped demonstrations are left out


def convert(source: str | Path, out: str | Path, options: ConvertOptions | None = None) -> int:
    """Write a dataset in the format that the name of ``out`` asks for; gives the number of demonstrations.

    Args:
        source: a dataset of any format, or a card.
        out: NAME.hdf5 for robomimic, a folder for LeRobot.
        options: how.
    """
    options = options or ConvertOptions()
    source, out = Path(source), Path(out)
    with open_dataset(source, ReadOptions(options.skip_incomplete)) as reader:
        if out.exists() and source.exists() and out.samefile(reader.path):
            raise UserError(f"{out}: a dataset cannot replace the one it is made from")
        if (fault := reader.rate_fault(options.fps)) is not None:
            raise UserError(f"{source}: {fault}")
        names = select_episodes(reader, options.mask, None)
        if options.decisions is not None:
            decided = read_decisions(options.decisions)
            decided.check({source: reader.episode_names})
            dropped = decided.names(source, "drop", reader.episode_names)
            names = [name for name in names if name not in dropped]
            if not names:
                raise UserError(f"{options.decisions}: every demonstration of {source} was dropped")
        with create_dataset(out, write_options(reader, options)) as writer, _naming(source):
            written = {
                name: writer.add(ep) for name, ep in zip(names, read_episodes(reader, names), strict=True)
            }
            for key, members in reader.masks.items():
                kept = [written[name] for name in members if name in written]
                if kept and key != options.mask:
                    writer.set_mask(key, kept)
    return len(written)


@contextmanager
def _naming(source: Path) -> Iterator[None]:
    """Complaints inside are about this dataset."""
    try:
        yield
    except UserError as error:
        raise error if str(source) in str(error) else UserError(f"{source}: {error}") from None


def write_options(reader: DatasetReader, options: ConvertOptions) -> WriteOptions:
    """What the writer must know about a dataset."""
    keys = reader.observation_keys(reader.episode_names[0])
    names = tuple(reader.dimension_names(ACTIONS) or ())
    return WriteOptions(
        fps=options.fps or reader.fps,
        env_args=reader.env_args,
        proprio=default_proprio(reader, {key: key for key in keys}),
        action_names=() if names == numbered_actions(len(names)) else names,
        video=options.video,
        overwrite=options.overwrite,
    )


def read_episodes(
    reader: DatasetReader,
    names: Sequence[str],
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[Episode]:
    """Demonstrations, one at a time, under names that robomimic knows.

    Args:
        reader: the dataset.
        names: of the demonstrations.
        attributes: more to note, by name.
    """
    originals = {name: str(reader.attributes(name).get(ORIGINAL_NAME, name)) for name in names}
    keep = len(set(originals.values())) == len(names) and not any(
        episode_order(n)[0] for n in originals.values()
    )
    for number, name in enumerate(each(names, f"copying {reader.path.name}")):
        noted = {
            k: v for k, v in reader.attributes(name).items() if k not in ("num_samples", "episode_index")
        }
        if keep:
            noted.pop(ORIGINAL_NAME, None)
        else:
            noted.setdefault(ORIGINAL_NAME, name)
        noted |= (attributes or {}).get(name, {})
        called = originals[name] if keep else f"demo_{number}"
        yield _episode(called, reader.original_arrays(name), noted)


def _episode(name: str, arrays: dict[str, Any], attributes: Mapping[str, Any]) -> Episode:
    if ACTIONS not in arrays:
        raise UserError(f"{name}: no actions")
    actions = arrays.pop(ACTIONS)
    if np.ndim(actions) != 2 or 0 in actions.shape or actions.dtype.kind not in "biuf":
        raise UserError(f"{name}: actions are {actions.dtype} of shape {actions.shape}, not numbers (T, A)")
    if actions.dtype.kind == "f" and not np.isfinite(actions).all():
        step, dimension = np.argwhere(~np.isfinite(actions))[0]
        raise UserError(
            f"{name}: 'actions' holds {actions[step, dimension]} at step {step}, dimension {dimension}"
        )
    obs = {n.removeprefix(OBSERVATION): arrays.pop(n) for n in list(arrays) if n.startswith(OBSERVATION)}
    steps = len(actions)
    for key, values in obs.items():
        if not np.ndim(values) or len(values) != steps:
            raise UserError(
                f"{name}: '{printable(key)}' has shape {np.shape(values)}, but there are {steps} actions"
            )

    def series(key: str) -> Any:
        array = arrays.get(key)
        return arrays.pop(key) if array is not None and np.ndim(array) and len(array) == steps else None

    return Episode(
        name,
        actions,
        obs,
        states=series("states"),
        rewards=series("rewards"),
        dones=series("dones"),
        attributes=attributes,
        extra=arrays,
    )
