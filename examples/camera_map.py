"""How far is the learned map of the target's camera off?  python examples/camera_map.py DOMAIN RUN [RUN ...]

For runs on the small stack task whose target is DOMAIN, such as real-proxy. Where a policy was told in which
half of the table its target demonstrations are, the other half shows what the map was not told
(docs/findings.md). Prints millimetres on the table, for either half.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.policy import load_policy
from beacon.policy.camera_homography import CameraHomography
from beacon.sim.domains import resolve_domain
from beacon.sim.tasks import TASKS
from beacon.sim.tasks.base import Camera

Points = NDArray[np.float64]
HEIGHT = 0.82  # of the cubes' centres, metres


def project(camera: Camera, points: Points, shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Points:
    """Where points (N, 3) are in a square picture, as keypoints count: from -1 to 1, right and down.

    Args:
        camera: that looks.
        points: in the world's frame.
        shift: of the camera, as a domain has it.
    """
    from scipy.spatial.transform import Rotation

    w, x, y, z = camera.quaternion
    axes = Rotation.from_quat([x, y, z, w]).as_matrix()
    seen = (points - camera.position - np.array(shift)) @ axes
    return np.asarray(seen[:, :2] * [1, -1] / -seen[:, 2:] / np.tan(np.radians(camera.fovy) / 2))


def misses(view: CameraHomography, name: str) -> tuple[Points, Points]:
    """Points (N, 2) of the table, and how far off the map puts each, in metres.

    Args:
        view: the learned map.
        name: the target's domain.
    """
    domain, size = resolve_domain(name), TASKS["stack"].sizes()["small"]
    grid = np.linspace(-0.1, 0.1, 9)
    table = np.stack([*map(np.ravel, np.meshgrid(grid, grid)), np.full(81, HEIGHT)], axis=1)
    other = size.rotated_camera if domain.view.rotated else size.camera
    there, here = project(other, table, domain.view.shift), project(size.camera, table)
    with torch.no_grad():
        mapped = view(torch.from_numpy(there).float().reshape(1, -1)).view(-1, 2).double().numpy()
    metre = np.linalg.norm(project(size.camera, table + np.array([0, 1e-3, 0])) - here, axis=1) / 1e-3
    return table[:, :2], np.linalg.norm(mapped - here, axis=1) / metre


def main(domain: str, *runs: str) -> None:
    """Print a line for every run.

    Args:
        domain: the target's.
        runs: their folders.
    """
    for run in runs:
        views = load_policy(run).policy.encoder.views
        if views is None:
            raise UserError(f"{run}: its policy has no map of the target's camera; adapt_view was off")
        for name, view in (("learned", views[0]), ("no map", CameraHomography())):
            assert isinstance(view, CameraHomography)
            table, off = misses(view, domain)
            left, right = (1000 * off[half].mean() for half in (table[:, 1] < 0, table[:, 1] > 0))
            print(f"{run}, {name}: {left:.1f} mm off where y < 0, {right:.1f} mm where y > 0")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except UserError as error:
        sys.exit(f"camera_map: {error}")
