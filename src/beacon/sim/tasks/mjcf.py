"""MJCF text for objects made of primitives, in robosuite's convention: group 0 collides, group 1 is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# robosuite's contact parameters for generated objects.
CONTACT = 'friction="{friction} 0.005 0.0001" solref="0.02 1" solimp="0.9 0.95 0.001" condim="4"'


@dataclass(frozen=True)
class Part:
    """One primitive of an object."""

    size: Sequence[float]
    position: Sequence[float] = (0.0, 0.0, 0.0)
    rotation: Sequence[float] = (0.0, 0.0, 0.0)  # extrinsic x-y-z Euler angles, radians
    shape: str = "box"
    colour: Sequence[float] = (0.6, 0.6, 0.6, 1.0)
    material: str | None = None
    density: float = 400.0
    friction: float = 1.0
    name: str | None = None
    collides: bool = True
    visible: bool = True


def numbers(values: Sequence[float]) -> str:
    """Space-separated, in nine digits."""
    return " ".join(f"{value:.9g}" for value in values)


def geoms(prefix: str, parts: Sequence[Part]) -> str:
    """The collision and the visual geom of every part."""
    from scipy.spatial.transform import Rotation

    lines: list[str] = []
    for index, part in enumerate(parts):
        name = f"{prefix}_{part.name or f'g{index}'}"
        x, y, z, w = Rotation.from_euler("xyz", part.rotation).as_quat().tolist()
        common = (
            f'type="{part.shape}" size="{numbers(part.size)}" pos="{numbers(part.position)}" '
            f'quat="{numbers((w, x, y, z))}"'
        )
        if part.collides:
            contact = CONTACT.format(friction=part.friction)
            lines.append(f'<geom name="{name}" {common} group="0" density="{part.density}" {contact}/>')
        if part.visible:
            look = f'material="{part.material}"' if part.material else f'rgba="{numbers(part.colour)}"'
            lines.append(
                f'<geom name="{name}_vis" {common} group="1" contype="0" conaffinity="0" mass="1e-8" {look}/>'
            )
    return "".join(lines)


def free_body(name: str, parts: Sequence[Part], extra: str = "") -> str:
    """A movable object."""
    joint = f'<joint name="{name}_joint0" type="free"/>'
    return f'<body name="{name}_main">{geoms(name, parts)}{joint}{extra}</body>'


def wood(name: str, texture: str) -> str:
    """A cube-mapped material from a robosuite texture, with robosuite's own highlights."""
    return (
        f'<texture name="{name}" type="cube" file="{texture}"/>'
        f'<material name="{name}_mat" texture="{name}" texrepeat="1 1" specular="0.4" shininess="0.1"/>'
    )
