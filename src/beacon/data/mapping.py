"""Which observations of a dataset are used, and under which names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from beacon.data.errors import listing
from beacon.errors import UserError

# What the paper's policy sees besides the camera, under the names that robosuite gives it.
END_EFFECTOR = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos")


@dataclass(frozen=True)
class ObservationMapping:
    """Cameras, proprioception, names and image size. All names are those *after* renaming."""

    cameras: tuple[str, ...] | None = None  # None: every camera that all domains have
    proprio: tuple[str, ...] | None = None  # None: the end-effector keys that all domains have; (): none
    rename: Mapping[str, str] = field(default_factory=dict)  # key in the file -> name used everywhere else
    image_size: tuple[int, int] | int | None = None  # (height, width) after loading; None: as stored

    def __post_init__(self) -> None:
        for name in ("cameras", "proprio"):
            keys = getattr(self, name)
            if isinstance(keys, str):
                raise UserError(f"{name} is a list of keys, not the text '{keys}'")
            if keys is not None:
                object.__setattr__(self, name, tuple(keys))
                if len(set(keys)) < len(keys):
                    raise UserError(f"{name} names a key twice: {', '.join(keys)}")
        both = set(self.cameras or ()) & set(self.proprio or ())
        if both:
            raise UserError(f"{listing(sorted(both))}: chosen both as camera and as proprioception")
        object.__setattr__(self, "rename", dict(self.rename))
        size = self.image_size
        if size is not None:
            pair = (size, size) if isinstance(size, int) else tuple(int(n) for n in size)
            if len(pair) != 2 or min(pair) < 1:
                raise UserError(f"image size {size}: give one positive number, or height and width")
            object.__setattr__(self, "image_size", pair)

    @property
    def height_width(self) -> tuple[int, int] | None:
        """``image_size`` as a pair."""
        size = self.image_size
        return (size, size) if isinstance(size, int) else size

    def visible(self, keys: Iterable[str], path: Path) -> dict[str, str]:
        """Name used everywhere else -> key in the file, for the keys of one file."""
        names: dict[str, str] = {}
        for key in keys:
            name = self.rename.get(key, key)
            if name in names:
                raise UserError(
                    f"{path}: '{names[name]}' and '{key}' would both be called '{name}'; "
                    f"give one of them another name with --rename {names[name]}=OTHER"
                )
            names[name] = key
        return names


def parse_rename(items: Sequence[str]) -> dict[str, str]:
    """``["agentview_image=front"]`` -> ``{"agentview_image": "front"}``."""
    rename: dict[str, str] = {}
    for item in items:
        key, equals, name = item.partition("=")
        if not (key and equals and name) or "=" in name:
            raise UserError(f"--rename {item}: write KEY=NAME, for example agentview_image=front")
        if rename.get(key, name) != name:
            raise UserError(f"--rename {item}: '{key}' is already renamed to '{rename[key]}'")
        rename[key] = name
    return rename
