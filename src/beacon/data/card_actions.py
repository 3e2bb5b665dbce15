"""The actions that a card describes: chosen, resampled, made relative or absolute, scaled, clipped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beacon.data.card import ActionCard, Numbers, RotationCard
from beacon.data.errors import listing
from beacon.data.formats.base import ACTIONS, DatasetReader
from beacon.data.resampling import Resample, resample
from beacon.data.rotations import WIDTHS, compose, difference
from beacon.data.selectors import Selector
from beacon.errors import UserError


class CardActions:
    """Actions of a dataset, as a card wants them."""

    def __init__(self, reader: DatasetReader, card: ActionCard, episode: str) -> None:
        """Check what the card says against an episode.

        Args:
            reader: the dataset.
            card: what to do with its actions.
            episode: the first one.
        """
        self.selectors = [Selector.parse(text) for text in card.keys]
        self._reader, self._card = reader, card
        self._pose = None if card.pose is None else Selector.parse(card.pose)
        self._rotations = [_Rotation(reader, entry, episode) for entry in card.rotations]
        width = self.width(episode)
        check_numbers("actions", width, card.scale, card.offset)
        if card.names is not None and len(card.names) != width:
            raise UserError(f"actions.names: {len(card.names)} names for {width} dimensions")
        self._check_dimensions(width, 0 if self._pose is None else self._pose.width(reader, episode))

    def width(self, episode: str) -> int:
        """Dimensions of an action.

        Args:
            episode: any.
        """
        return sum(selector.width(self._reader, episode) for selector in self.selectors)

    def names(self, episode: str) -> list[str] | None:
        """What the dimensions are called: as the card says, else as the dataset does.

        Args:
            episode: any.
        """
        if self._card.names is not None:
            return list(self._card.names)
        return selected_names(self._reader, self.selectors, episode)

    def read(self, path: Path, episode: str, begin: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """The actions of an episode, (T, A).

        Args:
            path: of the card, for messages.
            episode: which.
            begin: the recorded frame of each step; None: every frame is a step.
        """
        card = self._card
        parts = [selector.read(self._reader, episode) for selector in self.selectors]
        if begin is not None:
            hows = _each(card.resample or "hold", len(parts))
            parts = [resample(part, begin, how) for part, how in zip(parts, hows, strict=True)]
        actions = join(parts, path, episode, ACTIONS)
        if card.convert == "to-delta":
            self._convert(actions, episode, begin)
        actions = np.asarray(actions * np.asarray(card.scale) + np.asarray(card.offset))
        if card.convert == "to-absolute":
            self._convert(actions, episode, begin)
        return actions if card.clip is None else np.clip(actions, *card.clip)

    def _convert(self, actions: NDArray[np.float64], episode: str, begin: NDArray[np.int64] | None) -> None:
        """Subtract the pose, or add it, in place; rotations are composed."""
        steps = slice(None) if begin is None else begin
        to_delta = self._card.convert == "to-delta"
        if self._pose is not None:
            pose = self._pose.read(self._reader, episode)[steps]
            actions[:, : pose.shape[1]] += -pose if to_delta else pose
        for rotation in self._rotations:
            pose = rotation.pose.read(self._reader, episode)[steps]
            actions[:, rotation.dimensions] = rotation.convert(
                actions[:, rotation.dimensions], pose, to_delta=to_delta
            )

    def _check_dimensions(self, width: int, subtracted: int) -> None:
        if subtracted > width:
            raise UserError(
                f"actions.pose '{self._card.pose}' has more dimensions than the {width} of the actions"
            )
        taken = set(range(subtracted))
        for rotation in self._rotations:
            chosen = range(width)[rotation.dimensions]
            form, card = rotation.card.written, rotation.card
            if len(chosen) != WIDTHS[form]:
                raise UserError(
                    f"actions.rotations: '{card.dimensions}' are {len(chosen)} of the {width} dimensions; "
                    f"{form} has {WIDTHS[form]}"
                )
            if taken & set(chosen):
                raise UserError(
                    f"actions.rotations: '{card.dimensions}' are converted twice; actions.pose is what is "
                    "subtracted from the first dimensions, and must end before them"
                )
            taken |= set(chosen)


class _Rotation:
    """Dimensions of an action that are a rotation."""

    def __init__(self, reader: DatasetReader, card: RotationCard, episode: str) -> None:
        self.card, self.pose = card, Selector.parse(card.pose)
        self.dimensions = Selector.parse(f"action[{card.dimensions}]").dimensions
        width = self.pose.width(reader, episode)
        if width != WIDTHS[card.pose_written]:
            raise UserError(
                f"actions.rotations: '{card.pose}' has {width} dimensions; "
                f"{card.pose_written} has {WIDTHS[card.pose_written]}"
            )

    def convert(
        self, values: NDArray[np.float64], pose: NDArray[np.float64], *, to_delta: bool
    ) -> NDArray[np.float64]:
        """Targets as differences from the pose, or the other way round."""
        card = self.card
        if to_delta:
            return difference(
                values, pose, target_as=card.written, pose_as=card.pose_written, frame=card.frame
            )
        return compose(values, pose, change_as=card.written, pose_as=card.pose_written, frame=card.frame)


def selected_names(reader: DatasetReader, selectors: list[Selector], episode: str) -> list[str] | None:
    """What the dimensions of arrays are called, side by side; None where one of them has no names.

    Args:
        reader: the dataset.
        selectors: dimensions of its arrays.
        episode: any.
    """
    names: list[str] = []
    for selector in selectors:
        known = reader.dimension_names(selector.array_name(reader, episode))
        if known is None:
            return None
        names += known[selector.dimensions]
    return names or None


def check_numbers(where: str, width: int, *numbers: Numbers) -> None:
    """Refuse lists of numbers that are not one for each dimension.

    Args:
        where: part of the card.
        width: dimensions.
        numbers: scale and offset.
    """
    for values in numbers:
        if isinstance(values, tuple) and len(values) != width:
            raise UserError(
                f"{where}: {len(values)} numbers for {width} dimensions; say one number, or {width}"
            )


def join(parts: list[NDArray[np.float64]], path: Path, episode: str, name: str) -> NDArray[np.float64]:
    """Arrays (T, d) side by side; they must be equally long.

    Args:
        parts: the arrays.
        path: of the card, for messages.
        episode: for messages.
        name: of what they make.
    """
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise UserError(
            f"{path}, {episode}: the parts of '{name}' have {listing(map(str, sorted(lengths)))} steps"
        )
    return np.concatenate(parts, axis=1)


def _each(how: Resample | tuple[Resample, ...], count: int) -> list[Resample]:
    return list(how) if isinstance(how, tuple) else [how] * count
