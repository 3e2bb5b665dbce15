"""Lighter visual meshes: vertex clustering with the best representative of each cell.

A cell's representative minimises the squared distances to the planes of the triangles that touch the cell
(Lindstrom, "Out-of-core simplification of large polygonal models", 2000), so edges and corners stay sharp
although nearly all triangles go. Everything happens in the compiled model's arrays, in memory: the physics
never sees it, and the model that datasets record keeps robosuite's meshes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from beacon.sim.arrays import Array

if TYPE_CHECKING:
    import mujoco

VISUAL_GROUP = 1


def lighten(model: mujoco.MjModel, cells: Array) -> int:
    """Simplify the mesh of every visual geom to ``cells[geom]`` metres; returns the triangles left."""
    import mujoco

    finest: dict[int, float] = {}
    for geom in range(model.ngeom):
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH and model.geom_group[geom] == VISUAL_GROUP:
            mesh = int(model.geom_dataid[geom])
            finest[mesh] = min(finest.get(mesh, np.inf), float(cells[geom]))
    left = 0
    for mesh, cell in finest.items():
        first, count = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        start, stop = int(model.mesh_vertadr[mesh]), int(model.mesh_vertadr[mesh] + model.mesh_vertnum[mesh])
        vertices = model.mesh_vert[start:stop].astype(np.float64)
        faces = model.mesh_face[first : first + count]
        points, kept, owners = simplify(vertices, faces, cell)
        if not len(kept) or len(kept) >= count:
            left += count
            continue
        model.mesh_vert[start : start + len(points)] = points
        # Each corner keeps the normal of the vertex that it came from, so shading hardly changes.
        model.mesh_facenormal[first : first + len(kept)] = model.mesh_facenormal[first : first + count][
            owners
        ]
        model.mesh_face[first : first + len(kept)] = kept
        model.mesh_facenum[mesh] = len(kept)
        left += len(kept)
    return left


def simplify(vertices: Array, faces: Array, cell: float) -> tuple[Array, Array, Array]:
    """Cluster (V, 3) vertices and (F, 3) faces; returns points, faces and the face each came from."""
    grid = np.floor((vertices - vertices.min(axis=0)) / cell).astype(np.int64)
    span = grid.max(axis=0) + 1
    keys = (grid[:, 0] * span[1] + grid[:, 1]) * span[2] + grid[:, 2]
    _, cluster = np.unique(keys, return_inverse=True)
    size = int(cluster.max()) + 1
    corners = vertices[faces]  # (F, 3, 3)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])  # length: twice the area
    offsets = np.einsum("fi,fi->f", normals, corners[:, 0])
    A = np.zeros((size, 3, 3))
    b = np.zeros((size, 3))
    outer = normals[:, :, None] * normals[:, None, :]
    for corner in range(3):
        np.add.at(A, cluster[faces[:, corner]], outer)
        np.add.at(b, cluster[faces[:, corner]], offsets[:, None] * normals)
    count = np.bincount(cluster, minlength=size)[:, None]
    mean = np.stack([np.bincount(cluster, vertices[:, axis], size) for axis in range(3)], axis=1) / count
    # A small pull to the mean decides where the planes leave the point free (flat or straight cells).
    pull = 1e-3 * np.trace(A, axis1=1, axis2=2) + 1e-20
    points = np.linalg.solve(A + pull[:, None, None] * np.eye(3), (b + pull[:, None] * mean)[..., None])[
        ..., 0
    ]
    points = mean + np.clip(points - mean, -cell, cell)
    clustered = cluster[faces]
    solid = (
        (clustered[:, 0] != clustered[:, 1])
        & (clustered[:, 1] != clustered[:, 2])
        & (clustered[:, 0] != clustered[:, 2])
    )
    owners = np.flatnonzero(solid)
    _, first = np.unique(np.sort(clustered[owners], axis=1), axis=0, return_index=True)
    owners = owners[np.sort(first)]
    return points, clustered[owners], owners
