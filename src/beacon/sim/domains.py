"""Domains (gaps): how a scene looks, is seen, moves and is sensed, each as one declarative object."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beacon.errors import UserError, meant
from beacon.plain import changed
from beacon.registry import Registry


@dataclass(frozen=True)
class Look:
    """Textures and light. A texture is the stem of a robosuite texture or a path to a PNG file."""

    table: str = "ceramic"
    floor: str = "light-gray-floor-tile"
    walls: str = "light-gray-plaster"
    object_tint: tuple[float, float, float] = (1.0, 1.0, 1.0)  # multiplies the objects' colours
    light_position: tuple[float, float, float] = (1.0, 1.0, 1.5)
    light_direction: tuple[float, float, float] = (-0.2, -0.2, -1.0)
    light_colour: tuple[float, float, float] = (0.7, 0.7, 0.7)
    headlight: float = 0.4  # brightness of the light that travels with the camera
    ambient: float = 0.1
    shadows: bool = False  # they cost about three times the rest of a frame without a graphics card


@dataclass(frozen=True)
class View:
    """Where the camera stands relative to the task's own agent view."""

    rotated: bool = False  # the task's rotated view, 45 degrees about the table's axis
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)  # metres, in the world's frame


@dataclass(frozen=True)
class CameraResponse:
    """What the sensor does to a rendered picture: blur, colour gain, gamma, noise (of 255)."""

    blur: float = 0.0  # standard deviation in pixels
    gain: tuple[float, float, float] = (1.0, 1.0, 1.0)
    gamma: float = 1.0
    noise: float = 0.0  # standard deviation of independent pixel noise
    exposure: float = 0.0  # standard deviation of one brightness factor an episode

    @property
    def neutral(self) -> bool:
        """Whether pictures pass through unchanged."""
        return self == CameraResponse()


@dataclass(frozen=True)
class Physics:
    """Factors on the model's physical constants, and on the controller's gains."""

    friction: float = 1.0  # sliding friction of the objects and the table
    mass: float = 1.0  # objects' masses and inertias
    joint_damping: float = 1.0  # the arm's viscous joint damping
    joint_friction: float = 0.0  # dry friction of the arm's joints, N m
    stiffness: float = 1.0  # the controller's proportional gain
    damping_ratio: float = 1.0  # of the controller; one is critical
    action_delay: int = 0  # control steps between a command and its effect


@dataclass(frozen=True)
class Sensing:
    """Noise of proprioception, independent at each step, and a constant offset drawn once an episode."""

    position: float = 0.0  # metres, standard deviation
    rotation: float = 0.0  # radians
    gripper: float = 0.0  # metres
    position_bias: float = 0.0  # metres, standard deviation over episodes

    @property
    def neutral(self) -> bool:
        """Whether readings are exact."""
        return self == Sensing()


@dataclass(frozen=True)
class Domain:
    """One domain. Everything that is not said is as in ``source``."""

    name: str
    description: str = ""
    look: Look = field(default_factory=Look)
    view: View = field(default_factory=View)
    camera: CameraResponse = field(default_factory=CameraResponse)
    physics: Physics = field(default_factory=Physics)
    sensing: Sensing = field(default_factory=Sensing)

    def __post_init__(self) -> None:
        if self.physics.action_delay < 0:
            raise UserError(f"domain '{self.name}': physics.action_delay is negative; it counts steps")
        for label, value in (
            ("friction", self.physics.friction),
            ("mass", self.physics.mass),
            ("stiffness", self.physics.stiffness),
        ):
            if value <= 0:
                raise UserError(f"domain '{self.name}': physics.{label} is {value}; it must be positive")

    def as_dict(self) -> dict[str, Any]:
        """Every parameter, as plain JSON values."""
        return dataclasses.asdict(self)


SOURCE = Domain("source", "robosuite's default look: ceramic table")
TEXTURE = Domain(
    "texture", "T: another table texture, varnished wood panels", look=Look(table="wood-varnished-panels")
)
TEXTURE_VIEW = dataclasses.replace(
    TEXTURE,
    name="texture-view",
    description="T+V: the texture gap, seen by a camera rotated 45 degrees about the table's axis",
    view=View(rotated=True),
)
REAL_PROXY = Domain(
    "real-proxy",
    "P: a stand-in for a real robot, and only that: other textures and light, an imperfect camera, "
    "other friction, masses, damping and gains, delayed actions, noisy proprioception",
    look=Look(
        table="dark-wood",
        floor="gray-felt",
        walls="cream-plaster",
        object_tint=(0.85, 0.8, 0.75),
        light_position=(-0.6, 1.2, 1.8),
        light_direction=(0.4, -0.7, -1.0),
        light_colour=(1.0, 0.92, 0.78),
        headlight=0.35,
        ambient=0.2,
    ),
    view=View(shift=(0.012, -0.015, 0.01)),
    camera=CameraResponse(blur=0.6, gain=(1.06, 1.0, 0.9), gamma=0.8, noise=4.0, exposure=0.05),
    physics=Physics(
        friction=0.75,
        mass=1.35,
        joint_damping=3.0,
        joint_friction=0.1,
        stiffness=0.85,
        damping_ratio=1.15,
        action_delay=1,
    ),
    sensing=Sensing(position=0.001, rotation=0.01, gripper=0.0005, position_bias=0.002),
)

# A source that is seen as the others are and moves as the stand-in does.
OTHER_DYNAMICS = Domain(
    "other-dynamics",
    "robosuite's default look with the friction, masses, damping, gains and delay of real-proxy",
    physics=REAL_PROXY.physics,
)

# Those of the paper's experiments. Their parameters never change: stored results know them by name alone.
PAPER_DOMAINS = (SOURCE.name, TEXTURE.name, TEXTURE_VIEW.name, REAL_PROXY.name)
DOMAINS: Registry[Domain] = Registry("domain", "beacon.domains")
for _domain in (SOURCE, TEXTURE, TEXTURE_VIEW, REAL_PROXY, OTHER_DYNAMICS):
    DOMAINS.register(_domain.name)(_domain)


def resolve_domain(domain: str | Path | Domain) -> Domain:
    """A domain by name, by YAML file, or as itself."""
    if isinstance(domain, Domain):
        return domain
    if str(domain) in DOMAINS:
        return DOMAINS[str(domain)]
    path = Path(domain)
    if path.suffix in (".yaml", ".yml"):
        return read_domain(path)
    raise UserError(
        f"there is no domain '{domain}'; {meant(str(domain), DOMAINS)}take one of {', '.join(DOMAINS)}, "
        "or a YAML file of yours"
    )


def read_domain(path: Path) -> Domain:
    """A domain from YAML: ``name``, optionally ``base`` (a registered name), and what differs from it."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read the domain file {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold a mapping such as 'name: mine', 'look: {{table: dark-wood}}'")
    base = content.pop("base", "source")
    if base not in DOMAINS:
        raise UserError(f"{path}: base '{base}' is not a domain; take one of {', '.join(DOMAINS)}")
    content.setdefault("name", path.stem)
    content.setdefault("description", "")
    domain: Domain = changed(DOMAINS[base], content, str(path))
    return domain


def domain_from_dict(content: Mapping[str, Any]) -> Domain:
    """The inverse of :meth:`Domain.as_dict`, for the domains recorded in datasets."""
    domain: Domain = changed(SOURCE, content, "the recorded domain")
    return domain
