"""Demonstrations that are bad in a known way: what the cameras saw stays, what the actions say does not.

Every demonstration of the written file has the attribute ``flaw`` with its kind, ``none`` for sound ones.
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

FLAW, NONE = "flaw", "none"
DELAYED, MIRRORED, NOISY = "delayed", "mirrored", "noisy"
ACTION_FAULTS = (DELAYED, MIRRORED, NOISY)
DELAY = 8  # control steps
LATERAL = 1  # the action's dimension to the side
NOISE = 0.5  # standard deviation, of actions from −1 to 1

Actions = NDArray[np.float32]
Replace = Callable[[h5py.Group, str], None]  # (the file's data group, a demonstration's name)


def write_with_faults(
    source: Path,
    out: Path,
    shares: Mapping[str, float],
    seed: int,
    others: Mapping[str, Replace] | None = None,
) -> dict[str, int]:
    """Copy a robomimic dataset with some demonstrations spoilt; return how many there are of each kind.

    ``shares``: kind -> share of the demonstrations. ``others``: how to spoil kinds that are not among
    `ACTION_FAULTS`, each a function that changes one demonstration in the open file.
    """
    others = others or {}
    unknown = sorted(set(shares) - {*ACTION_FAULTS, *others})
    if unknown:
        raise UserError(f"there is no fault '{unknown[0]}'; take some of {', '.join(ACTION_FAULTS)}")
    with replacing(out) as temporary:
        shutil.copyfile(source, temporary)
        with h5py.File(temporary, "r+") as file:
            data = file["data"]
            names = demonstrations(data)
            kinds = choose_faults(len(names), shares, seed)
            for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
                if kind in others:
                    others[kind](data, name)
                else:
                    rng = np.random.default_rng([seed, 41, place])
                    data[name]["actions"][...] = spoilt(data[name]["actions"][()], kind, rng)
                data[name].attrs[FLAW] = kind
            data.attrs["total"] = sum(int(data[name]["actions"].shape[0]) for name in names)
    return dict(Counter(kinds))


def choose_faults(demos: int, shares: Mapping[str, float], seed: int) -> list[str]:
    """A kind for every demonstration."""
    kinds = [kind for kind, share in shares.items() for _ in range(round(share * demos))]
    if len(kinds) > demos:
        raise UserError(f"the shares of the faults add up to {sum(shares.values()):g}; at most 1 is possible")
    kinds += [NONE] * (demos - len(kinds))
    order = np.random.default_rng([seed, 40]).permutation(demos)
    return [kinds[place] for place in order]


def spoilt(actions: Actions, kind: str, rng: np.random.Generator) -> Actions:
    """The actions (T, A) with the fault; the last dimension is the gripper's."""
    result = actions.copy()
    if kind == MIRRORED:
        result[:, LATERAL] *= -1
    elif kind == DELAYED:
        waiting = min(DELAY, len(actions))
        result[waiting:] = actions[: len(actions) - waiting]
        result[:waiting] = 0.0
        result[:waiting, -1] = actions[0, -1]  # the gripper as it is
    elif kind == NOISY:
        noise = NOISE * rng.standard_normal(result[:, :-1].shape)
        result[:, :-1] = np.clip(result[:, :-1] + noise, -1.0, 1.0)
    return result


def demonstrations(data: Any) -> Sequence[str]:
    """Names of the demonstrations of a data group, in order."""
    return sorted(data, key=lambda name: int(name.rsplit("_", 1)[1]))
