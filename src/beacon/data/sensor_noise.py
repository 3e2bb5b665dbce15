"""How noisy proprioception and cameras are, from the recordings themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from beacon.data.episodes import EpisodeSet

# Median of the square of a normally distributed number of variance one.
_MEDIAN_SQUARE = 0.454936
# Of independent noise 73% of successive second differences have opposite signs (correlation -2/3), of
# motion that is read with noise about two thirds, of independent changes of velocity half, of smooth motion
# fewer.
_OPPOSITE = 0.55
# Pixels that vary by less count as exact: they are rounded to whole numbers.
_FINEST = 1.0
# Pairs of successive frames that are looked at in each demonstration.
_PAIRS = 6
# Readings that are less than so many times as noisy as the others count as alike.
CLEARLY = 2.0


class Roughness(NamedTuple):
    """Of the readings of one key, (d,) each."""

    spread: NDArray[np.float64]  # standard deviation of the noise, if it is noise
    opposite: NDArray[np.float64]  # share of successive second differences with opposite signs


def roughness(episodes: EpisodeSet) -> dict[str, Roughness]:
    """What is left of every reading without smooth motion, by key.

    From the median square of second differences. What moves rarely, such as a gripper, has the roughness that
    it has at rest.

    Args:
        episodes: demonstrations of one domain.
    """
    frames = len(episodes.actions)
    inside = np.ones(frames, bool)
    ends = episodes.starts + episodes.lengths
    for border in (ends - 1, ends - 2):  # differences that would reach into the next demonstration
        inside[border[border >= 0]] = False
    own = inside[: max(frames - 2, 0)]
    found = {}
    for key, values in episodes.proprio.items():
        bend = np.diff(values.astype(np.float64), n=2, axis=0)
        squares = np.square(bend[own]) / 6  # 1 + 4 + 1 times the variance of the noise
        usual = np.median(squares, axis=0) if len(squares) else np.zeros(values.shape[1])
        product = (bend[:-1] * bend[1:])[own[:-1] & own[1:]]
        told = np.maximum((product != 0).sum(axis=0), 1)
        found[key] = Roughness(np.sqrt(usual / _MEDIAN_SQUARE), (product < 0).sum(axis=0) / told)
    return found


def sensor_noise(episodes: EpisodeSet) -> dict[str, NDArray[np.float64]]:
    """Standard deviation of the independent noise of every reading, key -> (d,); zero where there is none.

    Args:
        episodes: demonstrations of one domain.
    """
    return {key: np.where(of.opposite >= _OPPOSITE, of.spread, 0) for key, of in roughness(episodes).items()}


def camera_noise(episodes: EpisodeSet) -> dict[str, NDArray[np.float64]]:
    """Standard deviation of the independent noise of a pixel, camera -> (channels,), in units of 255.

    From differences of successive frames: most of a picture does not move. What all pixels share, such as
    light that flickers, is not counted.

    Args:
        episodes: demonstrations of one domain.
    """
    noise = {}
    for key, images in episodes.images.items():
        spreads = []
        for start, length in zip(episodes.image_starts, episodes.lengths, strict=True):
            for step in np.unique(np.linspace(0, length - 2, _PAIRS).astype(int)) if length > 1 else ():
                first, second = (images[start + step + later].astype(np.float64) for later in (0, 1))
                change = second - first
                change -= np.median(change, axis=(0, 1))
                still = np.abs(change) <= 4 * (np.median(np.abs(change), axis=(0, 1)) + 0.5)
                squares = np.where(still, np.square(change), 0).sum(axis=(0, 1)) / still.sum(axis=(0, 1))
                spreads.append(np.sqrt(squares / 2))
        noise[key] = np.median(spreads, axis=0) if spreads else np.zeros(images.shape[-1])
    return noise


@dataclass(frozen=True, eq=False)
class MissingNoise:
    """Standard deviations of the noise that every domain lacks beside the target's."""

    proprio: dict[str, NDArray[np.float32]]  # key -> (domains, d)
    images: dict[str, NDArray[np.float32]]  # camera -> (domains, channels), in units of 255

    def of(self, domain: int) -> dict[str, NDArray[np.float32]]:
        """That of the proprioception of one domain, key -> (d,).

        Args:
            domain: its number.
        """
        return {key: values[domain] for key, values in self.proprio.items()}

    def __str__(self) -> str:
        """The keys and the largest number of each, in words."""
        said = [f"{key} up to {values.max():.2g}" for key, values in sorted(self.proprio.items())]
        said += [f"{key} up to {values.max():.1f} of 255" for key, values in sorted(self.images.items())]
        return ", ".join(said)


def missing_noise(sets: Sequence[EpisodeSet], target: int) -> MissingNoise | None:
    """The noise that every domain lacks beside the target's.

    Zero where the target's sensors are not clearly noisier; None where that is so of all.

    Args:
        sets: demonstrations of every domain.
        target: number of the target's.
    """
    rough = [{key: of.spread for key, of in roughness(episodes).items()} for episodes in sets]
    grain = [camera_noise(episodes) for episodes in sets]
    proprio = _lacking(sensor_noise(sets[target]), rough, 0.0)
    images = _lacking(grain[target], grain, _FINEST)
    if not proprio and not images:
        return None
    return MissingNoise(proprio, images)


def _lacking(
    wanted: Mapping[str, NDArray[np.float64]], own: Sequence[Mapping[str, NDArray[np.float64]]], finest: float
) -> dict[str, NDArray[np.float32]]:
    """What the domains lack of the wanted noise, key -> (domains, d), of the keys where any lacks some."""
    lacking = {}
    for key, spread in wanted.items():
        table = np.stack([values[key] for values in own])
        more = np.sqrt(np.maximum(spread**2 - table**2, 0))
        clear = (spread > CLEARLY * table) & (spread > finest)
        if clear.any():
            lacking[key] = np.where(clear, more, 0).astype(np.float32)
    return lacking


def with_noise(episodes: EpisodeSet, spread: Mapping[str, NDArray[np.float32]], seed: int = 0) -> EpisodeSet:
    """The demonstrations with noisier proprioception; they share everything else.

    Args:
        episodes: of one domain.
        spread: standard deviations of what is added, key -> (d,).
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    noisy = {
        key: values + (rng.standard_normal(values.shape) * spread.get(key, 0)).astype(np.float32)
        for key, values in episodes.proprio.items()
    }
    return replace(episodes, proprio=noisy)
