"""The dataset that a card describes, read like any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.card import SUFFIXES, Card, Numbers, read_card
from beacon.data.card_actions import CardActions, check_numbers, join, selected_names
from beacon.data.card_episodes import choose_episodes
from beacon.data.errors import listing, printable
from beacon.data.formats.base import (
    ACTIONS,
    OBSERVATION,
    ArrayInfo,
    DatasetReader,
    Fit,
    Format,
    Problem,
    ReadOptions,
    join_blocks,
)
from beacon.data.images import fit_images, image_fault, looks_like_camera
from beacon.data.merging import open_domain
from beacon.data.resampling import step_frames, step_of_frame
from beacon.data.selectors import Selector
from beacon.errors import UserError
from beacon.plain import to_plain

FLOAT = np.dtype(np.float32)


def probe(path: Path) -> bool:
    """A YAML file."""
    return path.suffix in SUFFIXES and path.is_file()


def open_reader(path: Path, options: ReadOptions) -> DatasetReader:
    """Open the dataset of a card."""
    return CardReader(path, read_card(path), options)


FORMAT = Format("a dataset card (.yaml)", probe, open_reader)


class CardReader(DatasetReader):
    """A dataset seen through its card: chosen episodes, renamed, cut, scaled, resampled and resized."""

    def __init__(self, path: Path, card: Card, options: ReadOptions | None = None) -> None:
        self.path, self.card = path, card
        _check_nesting(path, card)
        self._options = options or ReadOptions()
        skip = card.skip_incomplete or self._options.skip_incomplete
        self._inner = open_domain(card.paths, replace(self._options, skip_incomplete=skip))
        try:
            self._prepare()
        except UserError as error:
            self._inner.close()
            text = str(error)
            raise UserError(text if text.startswith(str(path)) else f"{path}: {text}") from None
        except BaseException:
            self._inner.close()
            raise

    def _prepare(self) -> None:
        inner, card = self._inner, self.card
        self.format_name = f"{inner.format_name}, by a card"
        self.env_args = inner.env_args
        self.image_fit = inner.image_fit if card.height_width is None else card.image_fit
        self.episode_names, self.left_out = choose_episodes(inner, card.episodes), inner.left_out
        chosen = set(self.episode_names)
        masks = {key: [n for n in names if n in chosen] for key, names in inner.masks.items()}
        self.masks = {key: names for key, names in masks.items() if names}
        self._recorded = card.recorded_fps or inner.fps
        self.fps = self._choose_rate()
        first = self.episode_names[0]
        self._cameras = self._choose_cameras(first)
        self._vectors = self._parse_vectors(first)
        self._actions = CardActions(inner, card.actions, first)
        self.proprio_keys = tuple(self._vectors)

    def _choose_rate(self) -> float | None:
        """Control steps a second; actions are resampled only where it is said how."""
        card, recorded = self.card, self._recorded
        if card.fps is not None and recorded is None:
            raise UserError(
                f"fps {card.fps:g}: {self._inner.path} does not say at which rate it was recorded; "
                "say recorded_fps"
            )
        if card.fps is not None and card.fps != recorded and card.actions.resample is None:
            raise UserError(
                f"fps {card.fps:g}, recorded at {recorded:g}: say how actions are resampled, "
                "actions.resample: hold (targets, velocities, grippers) or sum (differences)"
            )
        # Whoever says how, and no rate, means the target's.
        known = card.actions.resample is not None and recorded is not None
        return card.fps or (self._options.fps if known else None) or recorded

    def _choose_cameras(self, first: str) -> dict[str, tuple[str, bool, bool]]:
        """Name -> key in the dataset, whether its colours are BGR, whether it stands on its head."""
        keys, card = self._inner.observation_keys(first), self.card
        if card.cameras is None:
            # Whatever looks like a camera, under its own name.
            return {k: (k, False, False) for k, i in keys.items() if looks_like_camera(k, i)}
        cameras = {}
        for name in card.cameras:
            camera = card.camera(name)
            if camera.key not in keys:
                raise UserError(
                    f"cameras.{name}: '{printable(camera.key)}' is not in {self._inner.path}; "
                    f"there are {listing(sorted(keys), 40)}"
                )
            cameras[name] = (camera.key, camera.channels == "bgr", camera.rotate)
        return cameras

    def _parse_vectors(self, first: str) -> dict[str, tuple[list[Selector], Numbers, Numbers]]:
        from beacon.data.loading import default_proprio

        card = self.card
        if card.proprio is None:
            names = {key: key for key in self._inner.observation_keys(first)}
            return {key: ([Selector.parse(key)], 1.0, 0.0) for key in default_proprio(self._inner, names)}
        vectors = {}
        for name in card.proprio:
            vector = card.vector(name)
            selectors = [Selector.parse(text) for text in vector.keys]
            width = sum(selector.width(self._inner, first) for selector in selectors)
            check_numbers(f"proprio.{name}", width, vector.scale, vector.offset)
            vectors[name] = (selectors, vector.scale, vector.offset)
        return vectors

    @property
    def _resamples(self) -> bool:
        return self.fps != self._recorded

    def close(self) -> None:
        self._inner.close()

    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        names = [ACTIONS, *(OBSERVATION + n for n in (*self._vectors, *self._cameras))]
        return {name: self.info(episode, name) for name in names}

    def info(self, episode: str, name: str) -> ArrayInfo:
        if name == ACTIONS:
            return ArrayInfo((self._steps(episode), self._actions.width(episode)), FLOAT)
        key = name.removeprefix(OBSERVATION)
        if key in self._vectors:
            width = sum(s.width(self._inner, episode) for s in self._vectors[key][0])
            return ArrayInfo((self._steps(episode), width), FLOAT)
        if key in self._cameras:
            info = self._inner.info(episode, OBSERVATION + self._cameras[key][0])
            size = self.card.height_width
            shape = info.shape[1:] if size is None or len(info.shape) != 4 else (*size, info.shape[3])
            return ArrayInfo((self._steps(episode), *shape), info.dtype)
        raise UserError(f"{self.path}: no '{printable(name)}'; there are {listing(self.arrays(episode), 40)}")

    def read(self, episode: str, name: str) -> NDArray[Any]:
        if name == ACTIONS:
            begin = self._begin(self._recorded_length(episode)) if self._resamples else None
            return self._actions.read(self.path, episode, begin).astype(np.float32)
        key = name.removeprefix(OBSERVATION)
        if key in self._vectors:
            selectors, scale, offset = self._vectors[key]
            parts = [selector.read(self._inner, episode) for selector in selectors]
            values: NDArray[np.float64] = join(parts, self.path, episode, name) * np.asarray(scale)
            values = values + np.asarray(offset)
            return values[self._begin(len(values))].astype(np.float32)
        return join_blocks(self.blocks(episode, name), self.info(episode, name).shape)

    def blocks(self, episode: str, name: str) -> Iterator[NDArray[Any]]:
        if name.removeprefix(OBSERVATION) in self._cameras:
            return self._pictures(episode, name, self.card.height_width, self.card.image_fit)
        return super().blocks(episode, name)

    def sized_blocks(self, episode: str, name: str, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
        if self.card.height_width is None:
            return self._pictures(episode, name, size, "stretch")
        return super().sized_blocks(episode, name, size)

    def concurrent(self, episode: str, name: str) -> bool:
        camera = self._cameras[name.removeprefix(OBSERVATION)][0]
        return self._inner.concurrent(episode, OBSERVATION + camera)

    def _pictures(
        self, episode: str, name: str, size: tuple[int, int] | None, fit: Fit
    ) -> Iterator[NDArray[np.uint8]]:
        """The frames of a camera that are steps, upright and in RGB."""
        key = name.removeprefix(OBSERVATION)
        original = self._cameras[key][0]
        info = self._inner.info(episode, OBSERVATION + original)
        fault = image_fault(info)
        if fault is not None:
            raise UserError(f"{self.path}, {episode}: '{printable(original)}' {fault}")
        begin = self._begin(info.shape[0])
        if size is not None and fit == "stretch":
            blocks = self._inner.sized_blocks(episode, OBSERVATION + original, size)
        else:
            blocks = self._inner.blocks(episode, OBSERVATION + original)
        first = 0
        for block in blocks:
            inside = begin[(begin >= first) & (begin < first + len(block))]
            frames = block[inside - first]
            first += len(block)
            if len(frames):
                yield self._adapt(key, frames, size, fit)

    def _adapt(self, key: str, frames: NDArray[Any], size: tuple[int, int] | None, fit: Fit) -> NDArray[Any]:
        """Pictures of a camera, upright, in RGB and in the size that is wanted."""
        _, bgr, rotate = self._cameras[key]
        if bgr and frames.shape[3] >= 3:
            frames = np.concatenate([frames[..., 2::-1], frames[..., 3:]], axis=3)
        if rotate:
            frames = frames[:, ::-1, ::-1]
        return frames if size is None else fit_images(frames, size, fit)

    def frames(self, episode: str, name: str, start: int, stop: int) -> NDArray[Any]:
        key = name.removeprefix(OBSERVATION)
        if key not in self._cameras:
            return self.read(episode, name)[start:stop]
        inner = OBSERVATION + self._cameras[key][0]
        begin = self._begin(self._inner.info(episode, inner).shape[0])[start:stop]
        if not len(begin):
            return super().frames(episode, name, start, stop)
        first = int(begin[0])
        frames = self._inner.frames(episode, inner, first, int(begin[-1]) + 1)
        return self._adapt(key, frames[begin - first], self.card.height_width, self.card.image_fit)

    def length(self, episode: str) -> int:
        frames = self._inner.length(episode)
        return len(self._begin(frames)) if frames else 0

    def attributes(self, episode: str) -> dict[str, Any]:
        return self._inner.attributes(episode)

    def rate_fault(self, recorded: float | None = None) -> str | None:
        return self._inner.rate_fault(recorded or self.card.recorded_fps)

    def problems(self) -> list[Problem]:
        chosen = {None, *self.episode_names}
        return [problem for problem in self._inner.problems() if problem.episode in chosen]

    def dimension_names(self, name: str) -> list[str] | None:
        first = self.episode_names[0]
        if name == ACTIONS:
            return self._actions.names(first)
        selectors = self._vectors.get(name.removeprefix(OBSERVATION), ([], 1.0, 0.0))[0]
        return selected_names(self._inner, selectors, first)

    def dataset_index(self, episode: str) -> NDArray[np.int64] | None:
        return self._inner.dataset_index(episode)

    def frame_count(self) -> int | None:
        return self._inner.frame_count()

    def step_of_frame(self, episode: str) -> NDArray[np.int64]:
        frames = self._inner.info(episode, ACTIONS).shape[0]
        return step_of_frame(frames, self._begin(frames))

    def identity(self) -> list[Any]:
        return [*self._inner.identity(), to_plain(self.card), self.fps]

    def _steps(self, episode: str) -> int:
        frames = self._recorded_length(episode)
        return len(self._begin(frames)) if frames else 0

    def _recorded_length(self, episode: str) -> int:
        shape = self._inner.info(episode, self._actions.selectors[0].array_name(self._inner, episode)).shape
        return shape[0] if shape else 0

    def _begin(self, frames: int) -> NDArray[np.int64]:
        """The recorded frame of each step."""
        if not self._resamples or not frames:
            return np.arange(frames)
        assert self._recorded is not None and self.fps is not None
        return step_frames(frames, self._recorded, self.fps)


def _check_nesting(path: Path, card: Card) -> None:
    """A card may join other cards to one domain, and do nothing else; those must name datasets."""
    for dataset in card.paths:
        if dataset.suffix not in SUFFIXES:
            continue
        if card != Card(path=card.path):
            raise UserError(f"{path}: '{dataset}' is a card itself; name the dataset")
        if any(inner.suffix in SUFFIXES for inner in read_card(dataset).paths):
            raise UserError(f"{path}: '{dataset}' is a card that names cards; name its datasets here")
