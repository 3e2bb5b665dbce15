"""The dataset that a card describes, read like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.card import SUFFIXES, Card, Numbers, read_card
from beacon.data.errors import listing, printable
from beacon.data.formats.base import (
    ACTIONS,
    OBSERVATION,
    ArrayInfo,
    DatasetReader,
    Format,
    Problem,
    ReadOptions,
)
from beacon.data.images import fit_images, image_fault, looks_like_camera
from beacon.data.merging import open_domain
from beacon.data.resampling import Resample, resample, step_frames, step_of_frame
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
        for dataset in card.paths:
            if dataset.suffix in SUFFIXES:
                raise UserError(f"{path}: '{dataset}' is a card itself; name the dataset")
        skip = card.skip_incomplete or (options or ReadOptions()).skip_incomplete
        self._inner = open_domain(card.paths, ReadOptions(skip_incomplete=skip))
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
        self.episode_names = _choose(inner, card.episodes)
        if not self.episode_names:
            raise UserError(f"{inner.path} holds no demonstrations")
        chosen = set(self.episode_names)
        masks = {key: [n for n in names if n in chosen] for key, names in inner.masks.items()}
        self.masks = {key: names for key, names in masks.items() if names}
        self._recorded = card.recorded_fps or inner.fps
        self.fps = card.fps or self._recorded
        if card.fps is not None and self._recorded is None:
            raise UserError(
                f"fps {card.fps:g}: {inner.path} does not say at which rate it was recorded; say recorded_fps"
            )
        first = self.episode_names[0]
        keys = inner.observation_keys(first)
        if card.cameras is None:
            # Whatever looks like a camera, under its own name.
            self._cameras = {k: (k, False, False) for k, i in keys.items() if looks_like_camera(k, i)}
        else:
            self._cameras = {}
            for name in card.cameras:
                camera = card.camera(name)
                if camera.key not in keys:
                    raise UserError(
                        f"cameras.{name}: '{printable(camera.key)}' is not in {inner.path}; "
                        f"there are {listing(sorted(keys), 40)}"
                    )
                self._cameras[name] = (camera.key, camera.channels == "bgr", camera.rotate)
        self._vectors = self._parse_vectors(first)
        self._actions = [Selector.parse(text) for text in card.actions.keys]
        self._pose = None if card.actions.pose is None else Selector.parse(card.actions.pose)
        self.proprio_keys = tuple(self._vectors)
        self._check_actions(first)

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
            _check_numbers(f"proprio.{name}", width, vector.scale, vector.offset)
            vectors[name] = (selectors, vector.scale, vector.offset)
        return vectors

    def _check_actions(self, first: str) -> None:
        options = self.card.actions
        width = sum(selector.width(self._inner, first) for selector in self._actions)
        _check_numbers("actions", width, options.scale, options.offset)
        if self._pose is not None and self._pose.width(self._inner, first) > width:
            raise UserError(
                f"actions.pose '{options.pose}' has more dimensions than the {width} of the actions"
            )
        if self._resamples and options.resample is None:
            raise UserError(
                f"fps {self.card.fps:g}, recorded at {self._recorded:g}: say how actions are resampled, "
                "actions.resample: hold (targets, velocities, grippers) or sum (differences)"
            )

    @property
    def _resamples(self) -> bool:
        return self.card.fps is not None and self.card.fps != self._recorded

    def close(self) -> None:
        self._inner.close()

    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        names = [ACTIONS, *(OBSERVATION + n for n in (*self._vectors, *self._cameras))]
        return {name: self.info(episode, name) for name in names}

    def info(self, episode: str, name: str) -> ArrayInfo:
        if name == ACTIONS:
            width = sum(s.width(self._inner, episode) for s in self._actions)
            return ArrayInfo((self._steps(episode), width), FLOAT)
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
            return self._read_actions(episode).astype(np.float32)
        key = name.removeprefix(OBSERVATION)
        if key in self._vectors:
            selectors, scale, offset = self._vectors[key]
            parts = [selector.read(self._inner, episode) for selector in selectors]
            values: NDArray[np.float64] = _join(parts, self.path, episode, name) * np.asarray(scale)
            values = values + np.asarray(offset)
            return values[self._begin(episode, len(values))].astype(np.float32)
        frames = np.empty(self.info(episode, name).shape, np.uint8)
        start = 0
        for block in self.blocks(episode, name):
            frames[start : start + len(block)] = block
            start += len(block)
        return frames

    def blocks(self, episode: str, name: str) -> Iterator[NDArray[Any]]:
        key = name.removeprefix(OBSERVATION)
        if key not in self._cameras:
            yield self.read(episode, name)
            return
        original, bgr, rotate = self._cameras[key]
        info = self._inner.info(episode, OBSERVATION + original)
        fault = image_fault(info)
        if fault is not None:
            raise UserError(f"{self.path}, {episode}: '{printable(original)}' {fault}")
        begin = self._begin(episode, info.shape[0])
        size = self.card.height_width
        first = 0
        for block in self._inner.blocks(episode, OBSERVATION + original):
            inside = begin[(begin >= first) & (begin < first + len(block))]
            frames = block[inside - first]
            first += len(block)
            if bgr and frames.shape[3] >= 3:
                frames = np.concatenate([frames[..., 2::-1], frames[..., 3:]], axis=3)
            if rotate:
                frames = frames[:, ::-1, ::-1]
            if len(frames):
                yield frames if size is None else fit_images(frames, size, self.card.image_fit)

    def length(self, episode: str) -> int:
        frames = self._inner.length(episode)
        return len(self._begin(episode, frames)) if frames else 0

    def attributes(self, episode: str) -> dict[str, Any]:
        return self._inner.attributes(episode)

    def problems(self) -> list[Problem]:
        chosen = {None, *self.episode_names}
        return [problem for problem in self._inner.problems() if problem.episode in chosen]

    def dimension_names(self, name: str) -> list[str] | None:
        key = name.removeprefix(OBSERVATION)
        selectors = self._actions if name == ACTIONS else self._vectors.get(key, ([], 1.0, 0.0))[0]
        first = self.episode_names[0]
        names: list[str] = []
        for selector in selectors:
            known = self._inner.dimension_names(selector.array_name(self._inner, first))
            if known is None:
                return None
            names += known[selector.dimensions]
        return names or None

    def dataset_index(self, episode: str) -> NDArray[np.int64] | None:
        return self._inner.dataset_index(episode)

    def frame_count(self) -> int | None:
        return self._inner.frame_count()

    def step_of_frame(self, episode: str) -> NDArray[np.int64]:
        frames = self._inner.info(episode, ACTIONS).shape[0]
        return step_of_frame(frames, self._begin(episode, frames))

    def identity(self) -> list[Any]:
        return [*self._inner.identity(), to_plain(self.card)]

    def _steps(self, episode: str) -> int:
        name = self._actions[0].array_name(self._inner, episode)
        shape = self._inner.info(episode, name).shape
        return len(self._begin(episode, shape[0])) if shape and shape[0] else 0

    def _begin(self, episode: str, frames: int) -> NDArray[np.int64]:
        """The recorded frame of each step."""
        if not self._resamples or not frames:
            return np.arange(frames)
        assert self._recorded is not None and self.card.fps is not None
        return step_frames(frames, self._recorded, self.card.fps)

    def _read_actions(self, episode: str) -> NDArray[np.float64]:
        options = self.card.actions
        parts = [selector.read(self._inner, episode) for selector in self._actions]
        frames = len(parts[0])
        begin = self._begin(episode, frames)
        if self._resamples:
            hows: list[Resample] = _each(options.resample or "hold", len(parts))
            parts = [resample(part, begin, how) for part, how in zip(parts, hows, strict=True)]
        actions = _join(parts, self.path, episode, ACTIONS)
        pose = None if self._pose is None else self._pose.read(self._inner, episode)[begin]
        if pose is not None and options.convert == "to-delta":
            actions[:, : pose.shape[1]] -= pose
        actions = np.asarray(actions * np.asarray(options.scale) + np.asarray(options.offset))
        if pose is not None and options.convert == "to-absolute":
            actions[:, : pose.shape[1]] += pose
        return actions if options.clip is None else np.clip(actions, *options.clip)


def _choose(reader: DatasetReader, episodes: str | tuple[int | str, ...] | None) -> list[str]:
    """Names of the episodes that a card chooses."""
    names = reader.episode_names
    if not names:
        raise UserError(f"{reader.path} holds no demonstrations")
    if episodes is None:
        return list(names)
    if isinstance(episodes, str):
        start, colon, stop = (piece.strip() for piece in episodes.partition(":"))
        if colon and all(p == "" or (p.lstrip("-").isdecimal() and len(p) < 12) for p in (start, stop)):
            chosen = names[int(start) if start else None : int(stop) if stop else None]
        elif episodes in reader.masks:
            chosen = [name for name in names if name in set(reader.masks[episodes])]
        else:
            raise UserError(
                f"episodes '{printable(episodes)}': neither a range such as \"0:50\" "
                f"nor a mask of {reader.path}; "
                f"the masks are {listing(reader.masks)}"
            )
    else:
        chosen = []
        for entry in episodes:
            known = entry in names if isinstance(entry, str) else 0 <= entry < len(names)
            if not known:
                raise UserError(
                    f"episodes: {reader.path} has no {printable(repr(entry))}, it has {len(names)}"
                )
            chosen.append(entry if isinstance(entry, str) else names[entry])
        if len(set(chosen)) < len(chosen):
            raise UserError("episodes: an episode is named twice")
    if not chosen:
        raise UserError(f"episodes {printable(repr(episodes))}: none of the {len(names)} of {reader.path}")
    return chosen


def _check_numbers(where: str, width: int, *numbers: Numbers) -> None:
    for values in numbers:
        if isinstance(values, tuple) and len(values) != width:
            raise UserError(
                f"{where}: {len(values)} numbers for {width} dimensions; say one number, or {width}"
            )


def _join(parts: list[NDArray[np.float64]], path: Path, episode: str, name: str) -> NDArray[np.float64]:
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise UserError(
            f"{path}, {episode}: the parts of '{name}' have {listing(map(str, sorted(lengths)))} steps"
        )
    return np.concatenate(parts, axis=1)


def _each(how: Resample | tuple[Resample, ...], count: int) -> list[Resample]:
    return list(how) if isinstance(how, tuple) else [how] * count
