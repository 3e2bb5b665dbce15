"""Another robot, or worse sensors? python examples/sensor_noise.py SIM REAL [DEMONSTRATIONS ...].

Prints by what the target's sensors are noisier, and how badly its motion fits a model of the source's: as
recorded, and after as much noise was added to the source (docs/findings.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

from beacon.audit.dynamics_gap import dynamics_gap
from beacon.data import load_domains
from beacon.data.sensor_noise import missing_noise, with_noise


def main(source: Path, target: Path, counts: list[int]) -> None:
    """Print a line for each number of target demonstrations.

    Args:
        source: demonstrations of the source.
        target: demonstrations of the target.
        counts: how many of the target's, the first ones.
    """
    for count in counts:
        sim, real = load_domains([source, target], limits=[None, count])
        lacking = missing_noise([sim, real], target=1)
        before = dynamics_gap([sim], real)
        after = before if lacking is None else dynamics_gap([with_noise(sim, lacking.of(0))], real)
        said = [f"{gap:.1f}" if gap is not None else "unknown" for gap in (before, after)]
        print(f"{count} demonstrations: misfit {said[0]}, with matched noise {said[1]}")
        print(f"  the target's sensors are noisier: {lacking if lacking is not None else 'no'}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/sensor_noise.py SOURCE.hdf5 TARGET.hdf5 [DEMONSTRATIONS ...]")
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(count) for count in sys.argv[3:]] or [10])
