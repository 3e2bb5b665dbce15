"""Bad demonstrations with a known share: actions mirrored to the wrong side, or delayed."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from beacon.data.files import replacing

FLAW = "flaw"  # attribute of a demonstration; beacon.report shows it
MIRRORED, DELAYED, NONE = "mirrored", "delayed", "none"
DELAY = 8  # control steps
LATERAL = 1  # the action's dimension to the side


def spoil(source: Path, out: Path, share: float, seed: int) -> dict[str, int]:
    """Copy a dataset with some actions spoilt, and note in each demonstration what was done to it.

    What the cameras saw stays as it was: these demonstrations show one thing and say another.
    Returns how many there are of each kind.
    """
    counts = dict.fromkeys((NONE, MIRRORED, DELAYED), 0)
    with replacing(out) as temporary:
        shutil.copyfile(source, temporary)
        with h5py.File(temporary, "r+") as file:
            names = sorted(file["data"], key=lambda name: int(name.rsplit("_", 1)[1]))
            kinds = choose_flaws(len(names), share, seed)
            for name, kind in zip(names, kinds, strict=True):
                demo = file["data"][name]
                demo["actions"][...] = spoilt(demo["actions"][()], kind)
                demo.attrs[FLAW] = kind
                counts[kind] += 1
    return counts


def choose_flaws(demos: int, share: float, seed: int) -> list[str]:
    """A kind for every demonstration: half of the flawed ones mirrored, the others delayed."""
    flawed = round(share * demos)
    kinds = [MIRRORED] * (flawed // 2) + [DELAYED] * (flawed - flawed // 2) + [NONE] * (demos - flawed)
    order = np.random.default_rng([seed, 40]).permutation(demos)
    return [kinds[place] for place in order]


def spoilt(actions: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """The actions (T, A) with the flaw."""
    result = actions.copy()
    if kind == MIRRORED:
        result[:, LATERAL] *= -1
    elif kind == DELAYED:
        waiting = min(DELAY, len(actions))
        result[waiting:] = actions[: len(actions) - waiting]
        result[:waiting] = 0.0
        result[:waiting, -1] = actions[0, -1]  # the gripper as it is
    return result
