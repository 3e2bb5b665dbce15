"""A domain in Meta-World: textures, light, camera and physical constants of the compiled model."""

from __future__ import annotations

from typing import Any

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.domains import Domain
from beacon.sim.meshes import VISUAL_GROUP
from beacon.sim.scene import texture_file
from beacon.sim.tasks.base import Task

CAMERA = "corner2"  # the package's camera that is moved to where the task's is
ARM = "base"  # bodies that are the robot's
SCENERY = ("world", "tablelink", "RetainingWall", "mocap")
ARM_JOINTS = 7


def apply_domain(model: Any, task: Task, domain: Domain) -> None:
    """Change a compiled model. Stiffness and damping of the controller have no counterpart: a mocap body
    pulls the hand.

    Args:
        model: MuJoCo's; changed in place.
        task: whose cameras are used.
        domain: what it shall look and move like.
    """
    look = domain.look
    for texture, file in (("T_table", look.table), ("T_floor", look.floor), ("T_wallmetal", look.walls)):
        _paint(model, texture, texture_file(file, domain))
    _light(model, domain)
    camera = task.size.rotated_camera if domain.view.rotated else task.size.camera
    index = model.camera(CAMERA).id
    model.cam_pos[index] = np.add(camera.position, domain.view.shift)
    model.cam_quat[index] = camera.quaternion
    model.cam_fovy[index] = camera.fovy
    # Floor and walls are to be seen as well; a group decides about nothing but drawing.
    model.geom_group[(model.geom_group == 0) & (model.geom_rgba[:, 3] > 0)] = VISUAL_GROUP
    _physics(model, domain)
    if look.object_tint != (1.0, 1.0, 1.0):
        _tint(model, look.object_tint)


def _paint(model: Any, name: str, path: str) -> None:
    """Put a PNG in the place of a texture's pixels, as large as they are."""
    from PIL import Image

    index = model.texture(name).id
    width, height, channels = (
        int(field[index]) for field in (model.tex_width, model.tex_height, model.tex_nchannel)
    )
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB").resize((width, height)), dtype=np.uint8)
    first = int(model.tex_adr[index])
    model.tex_data[first : first + width * height * channels] = pixels[..., :channels].reshape(-1)


def _light(model: Any, domain: Domain) -> None:
    """One lamp and the headlight, as in our other scenes; the package's other lamps are off."""
    look = domain.look
    model.light_active[1:] = 0
    model.light_pos[0], model.light_dir[0] = look.light_position, _unit(look.light_direction)
    model.light_diffuse[0], model.light_castshadow[0] = look.light_colour, look.shadows
    headlight = model.vis.headlight
    headlight.diffuse[:] = headlight.specular[:] = look.headlight
    headlight.ambient[:] = look.ambient


def _unit(direction: tuple[float, float, float]) -> Array:
    return np.asarray(np.asarray(direction) / np.linalg.norm(direction))


def _root_names(model: Any) -> list[str]:
    """For every body the name of the top-level body that it belongs to."""
    return [str(model.body(int(root)).name) for root in model.body_rootid]


def _objects(model: Any) -> Array:
    """Which bodies are the task's, (nbody,)."""
    return np.array([root not in (*SCENERY, ARM) for root in _root_names(model)])


def _physics(model: Any, domain: Domain) -> None:
    physics = domain.physics
    bodies = _objects(model)
    tables = np.array([root == "tablelink" for root in _root_names(model)])
    model.geom_friction[(bodies | tables)[model.geom_bodyid], 0] *= physics.friction
    model.body_mass[bodies] *= physics.mass
    model.body_inertia[bodies] *= physics.mass
    model.dof_damping[:ARM_JOINTS] *= physics.joint_damping
    model.dof_frictionloss[:ARM_JOINTS] += physics.joint_friction


def _tint(model: Any, factors: tuple[float, float, float]) -> None:
    geoms = _objects(model)[model.geom_bodyid]
    materials = np.unique(model.geom_matid[geoms])
    materials = materials[materials >= 0]
    model.mat_rgba[materials, :3] = np.minimum(model.mat_rgba[materials, :3] * factors, 1.0)
    bare = geoms & (model.geom_matid < 0)
    model.geom_rgba[bare, :3] = np.minimum(model.geom_rgba[bare, :3] * factors, 1.0)
