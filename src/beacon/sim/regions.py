"""Where objects are put at the start of an episode: unions of rectangles on the table, and yaw ranges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

REGIONS = ("train", "target", "ood")


@dataclass(frozen=True)
class Rectangle:
    """An axis-aligned rectangle, metres from the table's centre."""

    x: tuple[float, float]
    y: tuple[float, float]

    @property
    def area(self) -> float:
        """Width times height; a degenerate rectangle (one fixed place) has area zero."""
        return (self.x[1] - self.x[0]) * (self.y[1] - self.y[0])

    def contains(self, x: float, y: float) -> bool:
        """Whether the point lies in the rectangle, border included."""
        return self.x[0] <= x <= self.x[1] and self.y[0] <= y <= self.y[1]


@dataclass(frozen=True)
class Region:
    """A union of rectangles that do not overlap, with a range of yaw angles in radians."""

    rectangles: tuple[Rectangle, ...]
    yaw: tuple[float, float] = (0.0, 0.0)

    def sample(self, rng: np.random.Generator) -> tuple[float, float, float]:
        """One uniformly drawn ``(x, y, yaw)``; always four draws, so that streams stay aligned."""
        areas = np.array([rectangle.area for rectangle in self.rectangles])
        chosen, u, v, w = rng.uniform(size=4)
        total = areas.sum()
        share = np.cumsum(areas / total) if total > 0 else np.array([1.0])
        index = min(int(np.searchsorted(share, chosen, side="right")), len(self.rectangles) - 1)
        rectangle = self.rectangles[index]
        x = rectangle.x[0] + u * (rectangle.x[1] - rectangle.x[0])
        y = rectangle.y[0] + v * (rectangle.y[1] - rectangle.y[0])
        return float(x), float(y), float(self.yaw[0] + w * (self.yaw[1] - self.yaw[0]))

    def contains(self, x: float, y: float) -> bool:
        """Whether the point lies in one of the rectangles."""
        return any(rectangle.contains(x, y) for rectangle in self.rectangles)


def box(
    x: tuple[float, float], y: tuple[float, float], yaw: tuple[float, float] = (0.0, 0.0)
) -> dict[str, Region]:
    """The ``train`` region is the whole rectangle, ``target`` its half with smaller y, ``ood`` the other."""
    middle = (y[0] + y[1]) / 2
    # A strip between the halves keeps them disjoint for objects, not only for their centres' closures.
    gap = 0.02 * (y[1] - y[0])
    return {
        "train": Region((Rectangle(x, y),), yaw),
        "target": Region((Rectangle(x, (y[0], middle - gap)),), yaw),
        "ood": Region((Rectangle(x, (middle + gap, y[1])),), yaw),
    }


def framed(
    x: tuple[float, float], y: tuple[float, float], yaw: tuple[float, float], border: float = 0.25
) -> dict[str, Region]:
    """``target`` is an inner rectangle, ``ood`` the frame around it, each border a quarter of the width."""
    width, height = x[1] - x[0], y[1] - y[0]
    left, right = x[0] + border * width, x[1] - border * width
    low, high = y[0] + border * height, y[1] - border * height
    gap = 0.02 * min(width, height)
    frame = (
        Rectangle((x[0], left - gap), y),
        Rectangle((right + gap, x[1]), y),
        Rectangle((left - gap, right + gap), (y[0], low - gap)),
        Rectangle((left - gap, right + gap), (high + gap, y[1])),
    )
    return {
        "train": Region((Rectangle(x, y),), yaw),
        "target": Region((Rectangle((left, right), (low, high)),), yaw),
        "ood": Region(frame, yaw),
    }


def fixed(x: float, y: float, yaw: float = 0.0) -> dict[str, Region]:
    """One place in every region."""
    region = Region((Rectangle((x, x), (y, y)),), (yaw, yaw))
    return dict.fromkeys(REGIONS, region)
