"""Does a policy see where the objects are?  python examples/locate_objects.py RUN DEMOS.hdf5 [OTHER.hdf5 ...]

A policy that fails may simply not know where to go. This fits a linear map from the features of the first
image of every demonstration to where the objects were placed, on three quarters of the demonstrations of the
first file, and prints how far off it is, per coordinate, on the rest and on every other file.

The demonstrations are those of `beacon generate`, which keep the placements.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.policy import TrainedPolicy, load_policy

RIDGE = 0.1  # on features with unit variance

Placements = dict[str, NDArray[np.float64]]  # of every object: (demonstrations, 2), in metres


def first_features(policy: TrainedPolicy, file: Path) -> tuple[NDArray[np.float64], Placements]:
    """Features of every demonstration's first image, (demonstrations, F), and where the objects are."""
    seen, placed = [], []
    with h5py.File(file) as opened:
        demos = opened["data"]
        for name in sorted(demos, key=lambda name: int(name.rsplit("_", 1)[-1])):
            if "placements" not in demos[name].attrs:
                raise UserError(f"{file}: {name} does not say where the objects were; `beacon generate` does")
            observation = {key: demos[name]["obs"][key][0] for key in policy.observation_keys}
            seen.append(policy.features(observation))
            placed.append(json.loads(demos[name].attrs["placements"]))
    places = {thing: np.array([one[thing][:2] for one in placed]) for thing in placed[0]}
    return np.array(seen, np.float64), places


def main(run: str, fitted_on: str, *others: str) -> None:
    """Print a line for every file."""
    policy = load_policy(run)
    features, places = first_features(policy, Path(fitted_on))
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-6
    fit = np.arange(len(features)) % 4 > 0

    def design(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack([(rows - mean) / spread, np.ones(len(rows))])

    x = design(features[fit])
    gram = x.T @ x + RIDGE * np.eye(x.shape[1])
    maps = {thing: np.linalg.solve(gram, x.T @ where[fit]) for thing, where in places.items()}

    def report(name: str, rows: NDArray[np.float64], there: Placements) -> None:
        off = {thing: np.abs(design(rows) @ maps[thing] - there[thing]).mean() for thing in maps}
        print(f"{name}: " + ", ".join(f"{thing} {1000 * far:.1f} mm" for thing, far in off.items()))

    report(fitted_on, features[~fit], {thing: where[~fit] for thing, where in places.items()})
    for other in others:
        report(other, *first_features(policy, Path(other)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
