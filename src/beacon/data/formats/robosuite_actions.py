"""What the dimensions of a robosuite action are, from the environment's description in a robomimic file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POSITION = ("x", "y", "z")
POSE = (*POSITION, "rotation_x", "rotation_y", "rotation_z")
GRIPPER = "gripper"
ROBOSUITE = 1  # robomimic's number of an environment's kind
OPERATIONAL_SPACE = {"OSC_POSITION": POSITION, "OSC_POSE": POSE, "IK_POSE": POSE}


def robosuite_action_names(env_args: Mapping[str, Any], width: int) -> list[str] | None:
    """A name for every dimension; None where the description does not decide them.

    One arm: the end-effector's position or pose, or joints, and then the gripper. Of several arms, each has
    its number in front, as its observations do.

    Args:
        env_args: as robomimic keeps it.
        width: dimensions of an action.
    """
    kwargs = env_args.get("env_kwargs")
    if env_args.get("type") != ROBOSUITE or not isinstance(kwargs, Mapping):
        return None
    robots = kwargs.get("robots")
    arms = len(robots) if isinstance(robots, list) and robots else 1
    controllers = kwargs.get("controller_configs")
    controllers = controllers if isinstance(controllers, list) else [controllers] * arms
    if width % arms or len(controllers) != arms:
        return None
    names: list[str] = []
    for number, controller in enumerate(controllers):
        arm = _arm_names(_controller_type(controller), width // arms)
        if arm is None:
            return None
        names += arm if arms == 1 else [f"robot{number}_{name}" for name in arm]
    return names


def _controller_type(controller: Any) -> str | None:
    """The controller of an arm, alone (robosuite 1.4) or as a part of a body (1.5); None: not said."""
    if not isinstance(controller, Mapping):
        return None
    parts = controller.get("body_parts")
    if isinstance(parts, Mapping):
        arms = [part for name, part in parts.items() if name in ("right", "left", "arms")]
        controller = arms[0] if len(arms) == 1 and isinstance(arms[0], Mapping) else {}
        if "type" not in controller:  # {"arms": {"right": {...}}}
            inner = [part for part in controller.values() if isinstance(part, Mapping)]
            controller = inner[0] if len(inner) == 1 else {}
    return str(controller["type"]) if "type" in controller else None


def _arm_names(controller: str | None, width: int) -> list[str] | None:
    if controller is None:  # robosuite's own choice is OSC_POSE; without rotations it is OSC_POSITION
        known = {len(POSITION) + 1: POSITION, len(POSE) + 1: POSE}.get(width)
    elif controller.startswith("JOINT_"):
        known = tuple(f"joint_{number}" for number in range(1, width))
    else:
        known = OPERATIONAL_SPACE.get(controller)
    if known is None or width not in (len(known), len(known) + 1):
        return None
    return [*known, *([GRIPPER] if width > len(known) else [])]
