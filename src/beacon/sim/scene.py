"""From a task and a domain to MJCF: robosuite's arena, Panda and gripper, our objects, the domain's look."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from beacon.errors import UserError
from beacon.sim.domains import Domain
from beacon.sim.load_order import load_before_opengl
from beacon.sim.tasks.base import TABLE_HEIGHT, Camera, Task
from beacon.sim.tasks.mjcf import numbers

TABLE_SIZE = (0.8, 0.8, 0.05)
CAMERA = "agentview"
WRIST_CAMERA = "robot0_eye_in_hand"  # robosuite's, on the hand


def robosuite_folder() -> Path:
    """Where robosuite is installed; its warnings about macro files and other robots are not our users'."""
    load_before_opengl()  # robosuite loads it on import
    previous = logging.root.manager.disable
    try:
        logging.disable(logging.WARNING)
        import robosuite
    except ImportError as error:
        raise UserError(
            "simulation needs robosuite, which is not installed; run: pip install 'beacon-cotraining[sim]'"
        ) from error
    finally:
        logging.disable(previous)
    return Path(robosuite.__file__).parent


def manipulation_task(task: Task) -> Any:
    """The model of arena, robot and gripper, with the task's objects added."""
    robosuite_folder()
    from robosuite.models.arenas import TableArena
    from robosuite.models.bases import robot_base_factory
    from robosuite.models.grippers import gripper_factory
    from robosuite.models.robots import Panda
    from robosuite.models.tasks import ManipulationTask

    robot = Panda(idn=0)
    robot.add_base(robot_base_factory("RethinkMount", idn=0))
    robot.update_joints()
    robot.update_actuators()
    robot.add_gripper(gripper_factory("PandaGripper", idn="0_right"), robot.eef_name["right"])
    robot.set_base_xpos(robot.base_xpos_offset["table"](TABLE_SIZE[0]))
    arena = TableArena(table_full_size=TABLE_SIZE, table_offset=(0, 0, TABLE_HEIGHT))
    arena.set_origin([0, 0, 0])
    model = ManipulationTask(mujoco_arena=arena, mujoco_robots=[robot], mujoco_objects=[])
    add_objects(model.root, task)
    return model


def add_objects(root: ElementTree.Element, task: Task) -> None:
    """Put the task's assets and bodies into a model's tree."""
    assets, world = root.find("asset"), root.find("worldbody")
    assert assets is not None and world is not None
    textures = robosuite_folder() / "models" / "assets" / "textures"
    for asset in ElementTree.fromstring(f"<asset>{task.assets()}</asset>"):
        stem = asset.get("file")
        if stem is not None:
            asset.set("file", str(textures / f"{stem}.png"))
        assets.append(asset)
    for body in ElementTree.fromstring(f"<worldbody>{task.objects()}</worldbody>"):
        world.append(body)


def scene_xml(task: Task, domain: Domain) -> str:
    """The complete model as MJCF text, with robosuite's own meshes."""
    root = manipulation_task(task).root
    apply_domain(root, task, domain)
    return ElementTree.tostring(root, encoding="unicode")


def apply_domain(root: ElementTree.Element, task: Task, domain: Domain) -> None:
    """Edit a model's tree: textures, light, camera, contact and inertia constants."""
    _apply_look(root, task, domain)
    size = task.size
    camera = size.rotated_camera if domain.view.rotated else size.camera
    _set_camera(root, camera, domain.view.shift)
    physics = domain.physics
    for body in _bodies(root, task):
        for geom in body.iter("geom"):
            if geom.get("group") == "0":
                _scale(geom, "density", physics.mass)
                _scale(geom, "friction", physics.friction)
    _scale(_named(root, "geom", "table_collision"), "friction", physics.friction)
    for joint in root.iter("joint"):
        if str(joint.get("name", "")).startswith("robot0_joint"):
            _scale(joint, "damping", physics.joint_damping)
            if physics.joint_friction:
                joint.set("frictionloss", f"{physics.joint_friction:.9g}")


def texture_file(texture: str, domain: Domain) -> str:
    """The path of a texture that a domain names."""
    path = Path(texture)
    if path.suffix:
        if not path.is_file():
            raise UserError(f"domain '{domain.name}': the texture {path} does not exist")
        return str(path.resolve())
    path = robosuite_folder() / "models" / "assets" / "textures" / f"{texture}.png"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.png")))
        raise UserError(
            f"domain '{domain.name}': there is no texture '{texture}'; take a PNG file or one of {known}"
        )
    return str(path)


def portable(xml: str) -> str:
    """The same model with robosuite's paths starting at ``robosuite/``, which its loader finds anywhere."""
    return xml.replace(str(robosuite_folder().parent) + "/", "")


def absolute(xml: str) -> str:
    """The inverse of :func:`portable` on this machine."""
    return xml.replace('file="robosuite/', f'file="{robosuite_folder()}/')


def _apply_look(root: ElementTree.Element, task: Task, domain: Domain) -> None:
    look = domain.look
    for name, texture in (
        ("tex-ceramic", look.table),
        ("texplane", look.floor),
        ("tex-light-gray-plaster", look.walls),
    ):
        _named(root, "texture", name).set("file", texture_file(texture, domain))
    light = root.find("worldbody/light")
    assert light is not None
    light.set("pos", numbers(look.light_position))
    light.set("dir", numbers(look.light_direction))
    light.set("diffuse", numbers(look.light_colour))
    light.set("castshadow", "true" if look.shadows else "false")
    visual = root.find("visual")
    assert visual is not None
    ElementTree.SubElement(
        visual,
        "headlight",
        diffuse=numbers((look.headlight,) * 3),
        ambient=numbers((look.ambient,) * 3),
        specular=numbers((look.headlight,) * 3),
    )
    if look.object_tint != (1.0, 1.0, 1.0):
        tinted = {geom.get("material") for body in _bodies(root, task) for geom in body.iter("geom")} - {None}
        for element in [m for m in root.iter("material") if m.get("name") in tinted]:
            _tint(element, look.object_tint)
        for body in _bodies(root, task):
            for geom in body.iter("geom"):
                if geom.get("group") == "1" and geom.get("material") is None:
                    _tint(geom, look.object_tint)


def _set_camera(root: ElementTree.Element, camera: Camera, shift: Sequence[float]) -> None:
    element = _named(root, "camera", CAMERA)
    element.set("pos", numbers([p + s for p, s in zip(camera.position, shift, strict=True)]))
    element.set("quat", numbers(camera.quaternion))
    element.set("fovy", f"{camera.fovy:.9g}")


def _bodies(root: ElementTree.Element, task: Task) -> list[ElementTree.Element]:
    """The task's own top-level bodies."""
    ours = {body.get("name") for body in ElementTree.fromstring(f"<worldbody>{task.objects()}</worldbody>")}
    world = root.find("worldbody")
    assert world is not None
    return [body for body in world.findall("body") if body.get("name") in ours]


def _tint(element: ElementTree.Element, factors: Sequence[float]) -> None:
    red, green, blue, alpha = (float(value) for value in element.get("rgba", "1 1 1 1").split())
    tinted = [min(1.0, c * f) for c, f in zip((red, green, blue), factors, strict=True)]
    element.set("rgba", numbers([*tinted, alpha]))


def _named(root: ElementTree.Element, tag: str, name: str) -> ElementTree.Element:
    for element in root.iter(tag):
        if element.get("name") == name:
            return element
    raise LookupError(f"the model has no {tag} named {name}")


def _scale(element: ElementTree.Element, attribute: str, factor: float) -> None:
    """Multiply the first number of an attribute (for friction: the sliding one), if there is one."""
    text = element.get(attribute)
    if factor == 1.0 or text is None:
        return
    first, *rest = text.split()
    element.set(attribute, " ".join([f"{float(first) * factor:.9g}", *rest]))
