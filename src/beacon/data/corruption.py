"""Demonstrations corrupted in a known way: what the cameras saw stays, what the actions say does not.

Every demonstration of the written file has the attribute ``corruption``, ``none`` for sound ones.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.files import replacing

CORRUPTION, NONE = "corruption", "none"
EARLIER_NAME = "flaw"  # of the attribute, which files and reports of earlier versions have
DELAYED, MIRRORED, NOISY, HALVED = "delayed", "mirrored", "noisy", "halved"
ACTION_CORRUPTIONS = (DELAYED, MIRRORED, NOISY)
REPAIRABLE = (DELAYED, MIRRORED, HALVED)  # those that a change of the actions undoes
DELAY = 8  # control steps
LATERAL = 1  # the action's dimension to the side
NOISE = 0.5  # standard deviation, of actions from −1 to 1

Actions = NDArray[np.float32]
Replace = Callable[[h5py.Group, str], None]  # (the file's data group, a demonstration's name)


def write_corrupted(
    source: Path,
    out: Path,
    shares: Mapping[str, float],
    seed: int,
    others: Mapping[str, Replace] | None = None,
) -> dict[str, int]:
    """Copy a robomimic dataset with some demonstrations corrupted; return how many there are of each.

    Args:
        source: the sound dataset.
        out: the new one.
        shares: corruption -> share of the demonstrations.
        seed: which demonstrations, and the noise.
        others: corruptions that are not of the actions alone, each a function that changes one
            demonstration in the open file.
    """
    others = others or {}
    known = dict.fromkeys((*ACTION_CORRUPTIONS, *REPAIRABLE))
    unknown = sorted(set(shares) - {*known, *others})
    if unknown:
        raise UserError(f"there is no corruption '{unknown[0]}'; take some of {', '.join(known)}")
    with replacing(out) as temporary:
        shutil.copyfile(source, temporary)
        with h5py.File(temporary, "r+") as file:
            data = file["data"]
            names = demonstrations(data)
            corruptions = choose_corruptions(len(names), shares, seed)
            for number, (name, corruption) in enumerate(zip(names, corruptions, strict=True)):
                if corruption in others:
                    others[corruption](data, name)
                else:
                    rng = np.random.default_rng([seed, 41, number])
                    data[name]["actions"][...] = corrupted(data[name]["actions"][()], corruption, rng)
                data[name].attrs[CORRUPTION] = corruption
                data[name].attrs[EARLIER_NAME] = corruption
            data.attrs["total"] = sum(int(data[name]["actions"].shape[0]) for name in names)
    return dict(Counter(corruptions))


def choose_corruptions(demos: int, shares: Mapping[str, float], seed: int) -> list[str]:
    """A corruption, or none, for every demonstration."""
    corruptions = [name for name, share in shares.items() for _ in range(round(share * demos))]
    if len(corruptions) > demos:
        raise UserError(
            f"the shares of the corruptions add up to {sum(shares.values()):g}; at most 1 is possible"
        )
    corruptions += [NONE] * (demos - len(corruptions))
    order = np.random.default_rng([seed, 40]).permutation(demos)
    return [corruptions[number] for number in order]


def corrupted(actions: Actions, corruption: str, rng: np.random.Generator) -> Actions:
    """The actions (T, A) with the corruption; the last dimension is the gripper's."""
    result = actions.copy()
    if corruption == MIRRORED:
        result[:, LATERAL] *= -1
    elif corruption == DELAYED:
        waiting = min(DELAY, len(actions))
        result[waiting:] = actions[: len(actions) - waiting]
        result[:waiting] = 0.0
        result[:waiting, -1] = actions[0, -1]  # the gripper as it is
    elif corruption == HALVED:
        result[:, :-1] *= 0.5
    elif corruption == NOISY:
        noise = NOISE * rng.standard_normal(result[:, :-1].shape)
        result[:, :-1] = np.clip(result[:, :-1] + noise, -1.0, 1.0)
    return result


def corruption_of(attributes: Mapping[str, Any]) -> str:
    """The known corruption of a demonstration, ``none`` where there is none; files of any version."""
    return str(attributes.get(CORRUPTION, attributes.get(EARLIER_NAME, NONE)))


def demonstrations(data: Any) -> Sequence[str]:
    """Names of the demonstrations of a data group, in order."""
    return sorted(data, key=lambda name: int(name.rsplit("_", 1)[1]))
