"""What the future-state loss predicts, in either unit: python examples/future_state_units.py SIM REAL.

Prints the mean square of the target's future states relative to the source's mean, by proprioception and by
moment of the future. In the source's units it is far above one where the source hardly varies and the target
is noisy: such values would dominate the loss (docs/methods.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from beacon.data import Windows, load_domains
from beacon.methods.auxiliary.future_state import FutureState, Units, future_states, in_units


def main(source: Path, target: Path) -> None:
    """Print one table a unit.

    Args:
        source: demonstrations of the source.
        target: demonstrations of the target.
    """
    windows = Windows(load_domains([source, target]), obs_steps=1, horizon=16)
    moments = FutureState().horizon_fractions
    future = future_states(windows, moments)
    on_target = windows.domain == 1
    sizes = {key: values.shape[1] for key, values in sorted(windows.sets[0].proprio.items())}
    units: tuple[Units, ...] = ("source", "larger")
    for unit in units:
        squares = np.square(in_units(future, on_target, unit)[on_target]).mean(axis=0)
        print(f"\nunits {unit}: mean square on the target, smallest to largest of its values")
        ends = np.cumsum([*sizes.values()])[:-1]
        for moment, row in zip(moments, squares.reshape(len(moments), -1), strict=True):
            parts = zip(sizes, np.split(row, ends), strict=True)
            said = ", ".join(f"{key} {part.min():.2f} to {part.max():.2f}" for key, part in parts)
            print(f"  after {moment:.0%} of what is left: {said}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/future_state_units.py SOURCE.hdf5 TARGET.hdf5")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
