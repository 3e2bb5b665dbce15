"""The dataset card: a small YAML file that says how a dataset maps to what a policy sees and does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from beacon.data.errors import printable
from beacon.data.formats.base import Fit
from beacon.data.resampling import Resample
from beacon.data.rotations import Frame, RotationForm
from beacon.errors import UserError
from beacon.plain import from_plain, to_plain

SUFFIXES = (".yaml", ".yml")
LARGEST = 1 << 20  # bytes
Numbers = float | tuple[float, ...]


@dataclass(frozen=True)
class CameraCard:
    """One camera."""

    # Its key in the dataset.
    key: str
    # Order of the stored colours.
    channels: Literal["rgb", "bgr"] = "rgb"
    # Turn the pictures by 180 degrees, as LIBERO's need it.
    rotate: bool = False


@dataclass(frozen=True)
class VectorCard:
    """One vector of proprioception."""

    # Arrays or parts of them, such as observation.state[0:3]; several are put together.
    keys: tuple[str, ...]
    # value × scale + offset: one number, or one a dimension.
    scale: Numbers = 1.0
    offset: Numbers = 0.0


@dataclass(frozen=True)
class RotationCard:
    """Dimensions of an action that are an orientation."""

    # Which of the action's, such as "3:6".
    dimensions: str
    # The orientation that a difference is from, such as robot0_eef_quat or observation.state[3:6].
    pose: str
    # How the action has it: axis-angle, euler-xyz (fixed axes, radians) or quaternion (x, y, z, w).
    written: RotationForm = "axis-angle"
    # How the pose has it.
    pose_written: RotationForm = "quaternion"
    # About whose axes a difference turns: the world's, as in robosuite, or the end-effector's.
    frame: Frame = "world"


@dataclass(frozen=True)
class ActionCard:
    """The actions."""

    # Arrays or parts of them, such as action[0:6]; several are put together.
    keys: tuple[str, ...] = ("actions",)
    # value × scale + offset: one number, or one a dimension.
    scale: Numbers = 1.0
    offset: Numbers = 0.0
    # Smallest and largest value.
    clip: tuple[float, float] | None = None
    # For another rate: hold (targets, velocities, grippers) or sum (differences); one word, or one a key.
    resample: Resample | tuple[Resample, ...] | None = None
    # Absolute targets into differences from the pose, or back.
    convert: Literal["to-delta", "to-absolute"] | None = None
    # What is subtracted from the first dimensions for it, or added: positions or joints, such as
    # observation.state[0:3].
    pose: str | None = None
    # Dimensions that are orientations: they are not subtracted but turned back.
    rotations: tuple[RotationCard, ...] = ()
    # What the dimensions are called, for the robot's program. Left out: as the dataset calls them.
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.keys:
            raise UserError("actions.keys is empty; name at least one array")
        if (self.convert is None) != (self.pose is None and not self.rotations):
            raise UserError(
                "actions.convert belongs together with actions.pose, actions.rotations or both; "
                "say what it converts, or leave all of them out"
            )
        if self.clip is not None and not self.clip[0] < self.clip[1]:
            raise UserError(f"actions.clip {list(self.clip)}: the first number must be the smaller one")
        if isinstance(self.resample, tuple) and len(self.resample) != len(self.keys):
            raise UserError(
                f"actions.resample has {len(self.resample)} entries for {len(self.keys)} keys; "
                "say one word, or one a key"
            )


@dataclass(frozen=True)
class Card:
    """A dataset and how it is read. Everything but the path may be left out, and then is as it is."""

    # The dataset, or several that are one domain; a relative path starts at the card's folder.
    path: Path | tuple[Path, ...]
    # Name for the policy -> key in the dataset, or a mapping with key, channels, rotate. Left out: all.
    cameras: Mapping[str, str | CameraCard] | None = None
    # Name for the policy -> part of an array, a list of them, or a mapping with keys, scale, offset.
    proprio: Mapping[str, str | tuple[str, ...] | VectorCard] | None = None
    actions: ActionCard = field(default_factory=ActionCard)
    # Control steps a second that the data are brought to. Left out: the target's where actions.resample says
    # how, else as recorded.
    fps: float | None = None
    # Control steps a second of the recording, where the dataset does not say, or says something wrong.
    recorded_fps: float | None = None
    # Which episodes: "0:50", a list of numbers or names, or the name of a mask. Left out: all.
    episodes: str | tuple[int | str, ...] | None = None
    # Height and width of all pictures, or one number for both. Left out: as they are.
    image_size: int | tuple[int, int] | None = None
    # How pictures of another shape get that size: stretch, pad with black, or crop the middle.
    image_fit: Fit = "stretch"
    # Leave out episodes whose files are missing.
    skip_incomplete: bool = False

    def __post_init__(self) -> None:
        if not self.paths:
            raise UserError("path is empty; name at least one dataset")
        for name in ("fps", "recorded_fps"):
            rate = getattr(self, name)
            if rate is not None and not 0 < rate < 1e6:
                raise UserError(f"{name} {rate}: must be above 0")
        size = self.height_width
        if size is not None and not all(0 < n <= 8192 for n in size):
            raise UserError(f"image_size {self.image_size}: one number, or height and width, from 1 to 8192")
        both = set(self.cameras or ()) & set(self.proprio or ())
        if both:
            raise UserError(f"'{min(both)}' names both a camera and proprioception")

    @property
    def paths(self) -> tuple[Path, ...]:
        """The dataset, or all of them."""
        return self.path if isinstance(self.path, tuple) else (self.path,)

    @property
    def height_width(self) -> tuple[int, int] | None:
        """``image_size`` as a pair."""
        return (self.image_size, self.image_size) if isinstance(self.image_size, int) else self.image_size

    def camera(self, name: str) -> CameraCard:
        """One camera, spelled out."""
        entry = (self.cameras or {})[name]
        return CameraCard(entry) if isinstance(entry, str) else entry

    def vector(self, name: str) -> VectorCard:
        """One vector of proprioception, spelled out."""
        entry = (self.proprio or {})[name]
        if isinstance(entry, VectorCard):
            return entry
        return VectorCard((entry,) if isinstance(entry, str) else entry)


def read_card(path: Path) -> Card:
    """Read a card; its dataset's path then starts at the current folder.

    Args:
        path: of the YAML file.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path}: larger than {LARGEST >> 20} MiB, so it is no dataset card")
        text = path.read_text(encoding="utf-8")
        # An alias that repeats itself makes a few lines to millions; a card needs none.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise UserError(f"{path}: YAML aliases are not allowed in a dataset card")
        values = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} is not YAML ({printable(' '.join(str(error).split()))[:200]})") from None
    if not isinstance(values, dict) or "path" not in values:
        raise UserError(
            f"{path} is not a dataset card: it has no 'path'; beacon data card DATASET writes one"
        )
    if isinstance(values.get("episodes"), int):  # YAML takes 1:50 for minutes and seconds
        raise UserError(f'{path}: episodes: write a range in quotes, such as "0:50"')
    try:
        card: Card = from_plain(Card, values)
    except UserError as error:
        raise UserError(f"{path}: {printable(str(error))}") from None
    return replace(card, path=tuple(path.parent / dataset for dataset in card.paths))


def card_text(card: Card) -> str:
    """A card as YAML, without what is left at its default."""
    values = _without_defaults(card)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)


def _without_defaults(value: Any) -> dict[str, Any]:
    plain = {}
    for entry in fields(value):
        current = getattr(value, entry.name)
        default = entry.default_factory() if callable(entry.default_factory) else entry.default
        if current == default:
            continue
        plain[entry.name] = (
            _without_defaults(current) if isinstance(current, ActionCard) else to_plain(current)
        )
    return plain
