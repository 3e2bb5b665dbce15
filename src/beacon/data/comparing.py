"""Domains side by side: rates, scales, units, brightness, lengths; and what to put into a card about it.

Sources are compared with the target, which is named last. What only makes a domain different is why there are
weights; what is said here is what a wrong unit or a forgotten option looks like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beacon.data.checking_episodes import EpisodeFacts, Range

SCALE = 5.0  # times: a larger ratio of two ranges is reported
DURATION = 4.0  # times
BRIGHTNESS = 80.0  # of 255
# Ratios that a unit has, with a tolerance of a fifth.
UNITS = {
    57.3: "degrees against radians",
    1000.0: "millimetres against metres",
    100.0: "centimetres against metres",
}


@dataclass(frozen=True)
class DomainProfile:
    """What is compared of a domain."""

    path: Path
    rate: float | None  # control steps a second
    length: float  # of a demonstration, the median
    actions: Range | None
    vectors: Mapping[str, Range]  # observation, under the name that the policy knows -> range
    brightness: Mapping[str, float]  # camera -> mean, 0..255
    sizes: Mapping[str, tuple[int, ...]]  # camera -> (H, W, C) as stored


def make_profile(
    path: Path,
    rate: float | None,
    facts: Mapping[str, EpisodeFacts],
    sizes: Mapping[str, tuple[int, ...]],
    rename: Mapping[str, str],
) -> DomainProfile:
    """The profile of a domain from what its demonstrations showed."""
    everyone = list(facts.values())
    vectors = {key for fact in everyone for key in fact.vector_ranges}
    cameras = {camera for fact in everyone for camera in fact.brightness}

    def called(key: str) -> str:
        return rename.get(key, key)

    return DomainProfile(
        path=path,
        rate=rate,
        length=float(np.median([f.length for f in everyone])) if everyone else 0.0,
        actions=_union([f.action_range for f in everyone if f.action_range is not None]),
        vectors={
            called(key): limits
            for key in sorted(vectors)
            if (limits := _union([f.vector_ranges[key] for f in everyone if key in f.vector_ranges]))
        },
        brightness={
            called(c): float(np.mean([f.brightness[c] for f in everyone if c in f.brightness]))
            for c in cameras
        },
        sizes={called(camera): size for camera, size in sizes.items()},
    )


def compare(
    source: DomainProfile,
    target: DomainProfile,
    vectors: Sequence[str],
    image_size: tuple[int, int] | None = None,
) -> list[str]:
    """A line for each difference that is probably not meant.

    Args:
        source: one domain.
        target: the domain it is compared with.
        vectors: names of the proprioception that is used.
        image_size: height and width that pictures are brought to.
    """
    lines = _rates(source, target)
    a, b = source.path.name, target.path.name
    if source.actions and target.actions and len(source.actions[0]) == len(target.actions[0]):
        lines += _scales("actions", a, b, source.actions, target.actions, "actions: {scale: %s}")
    for key in vectors:
        ours, theirs = source.vectors.get(key), target.vectors.get(key)
        if ours and theirs and len(ours[0]) == len(theirs[0]):
            advice = f"proprio: {{{key}: {{keys: [...], scale: %s}}}}"
            lines += _scales(f"'{key}'", a, b, ours, theirs, advice)
    for camera in source.brightness.keys() & target.brightness.keys():
        ours_bright, theirs_bright = source.brightness[camera], target.brightness[camera]
        if abs(ours_bright - theirs_bright) > BRIGHTNESS:
            lines.append(
                f"'{camera}' is much {'brighter' if ours_bright > theirs_bright else 'darker'} in {a} "
                f"(mean {ours_bright:.0f} of 255) than in {b} ({theirs_bright:.0f})"
            )
    for camera in sorted(source.sizes.keys() & target.sizes.keys()):
        lines += _aspects(camera, source, target, image_size)
    if source.length and target.length:
        seconds = _seconds(source, target)
        ratio = seconds[0] / seconds[1]
        if max(ratio, 1 / ratio) > DURATION:
            unit = "s" if source.rate and target.rate else " steps"
            lines.append(
                f"demonstrations of {a} last {seconds[0]:.3g}{unit}, those of {b} {seconds[1]:.3g}{unit} "
                "(medians)"
            )
    return lines


def _rates(source: DomainProfile, target: DomainProfile) -> list[str]:
    a, b = source.path.name, target.path.name
    if source.rate and target.rate and source.rate != target.rate:
        return [
            f"control frequencies differ ({a} {source.rate:g} Hz, {b} {target.rate:g} Hz): the same action "
            f"chunk lasts longer in one domain; in a card of {a}, actions: {{resample: hold}} (targets, "
            "velocities) or sum (differences) brings it to the target's"
        ]
    return []


def _scales(what: str, a: str, b: str, ours: Range, theirs: Range, advice: str) -> list[str]:
    """Ranges whose widths differ by a factor, in most dimensions or in some."""
    our_width, their_width = ours[1] - ours[0], theirs[1] - theirs[0]
    both = (our_width > 1e-9) & (their_width > 1e-9)
    if not both.any():
        return []
    ratios = our_width[both] / their_width[both]
    middle = float(np.median(ratios))
    large = np.abs(np.log(ratios)) > np.log(SCALE)
    if large.mean() <= 0.5:
        dimensions = np.flatnonzero(both)[large].tolist()
        if not dimensions:
            return _offsets(what, a, b, ours, theirs)
        shown = ", ".join(f"[{d}] {_limits(ours, d)} against {_limits(theirs, d)}" for d in dimensions[:4])
        return [
            f"{what}: ranges of some dimensions differ more than {SCALE:g} times, {a} against {b}: {shown}"
        ]
    unit = _unit(middle)
    if middle > 1:
        sentence = f"{what} of {a} are about {_round(middle)} times those of {b}"
    else:
        sentence = f"{what} of {b} are about {_round(1 / middle)} times those of {a}"
    d = int(np.flatnonzero(both)[np.argmax(np.abs(np.log(ratios)))])
    return [
        f"{sentence}{unit} (dimension {d}: {_limits(ours, d)} against {_limits(theirs, d)}); "
        f"in the card of {a}, {advice % f'{1 / middle:.3g}'}"
    ]


def _offsets(what: str, a: str, b: str, ours: Range, theirs: Range) -> list[str]:
    """Ranges of similar widths that do not touch: another origin, or another meaning."""
    apart = (ours[0] > theirs[1]) | (theirs[0] > ours[1])
    varying = (ours[1] - ours[0] > 1e-9) & (theirs[1] - theirs[0] > 1e-9)
    dimensions = np.flatnonzero(apart & varying).tolist()
    if not dimensions:
        return []
    shown = ", ".join(f"[{d}] {_limits(ours, d)} against {_limits(theirs, d)}" for d in dimensions[:4])
    return [
        f"{what}: ranges do not overlap, {a} against {b}: {shown}; "
        f"an offset in the card of {a}, if meant alike"
    ]


def _aspects(
    camera: str, source: DomainProfile, target: DomainProfile, image_size: tuple[int, int] | None
) -> list[str]:
    lines = []
    for domain in (source, target):
        height, width = domain.sizes[camera][:2]
        if image_size is not None and abs(height * image_size[1] / (width * image_size[0]) - 1) > 0.02:
            lines.append(
                f"'{camera}' of {domain.path.name} is {height}×{width} and would be squashed to "
                f"{image_size[0]}×{image_size[1]}; in its card, image_size: {list(image_size)} "
                "and image_fit: pad or crop keep the aspect"
            )
    return lines


def _seconds(source: DomainProfile, target: DomainProfile) -> tuple[float, float]:
    if source.rate and target.rate:
        return source.length / source.rate, target.length / target.rate
    return source.length, target.length


def _union(ranges: Sequence[Range]) -> Range | None:
    if not ranges or len({len(low) for low, _ in ranges}) > 1:
        return None
    low: NDArray[np.float64] = np.min([low for low, _ in ranges], axis=0)
    high: NDArray[np.float64] = np.max([high for _, high in ranges], axis=0)
    return low, high


def _unit(ratio: float) -> str:
    for factor, text in UNITS.items():
        if 0.8 < max(ratio, 1 / ratio) / factor < 1.25:
            return f", as {text} would be"
    return ""


def _limits(limits: Range, dimension: int) -> str:
    return f"{limits[0][dimension]:.3g}..{limits[1][dimension]:.3g}"


def _round(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
