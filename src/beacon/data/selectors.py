"""``observation.state[0:3]``: dimensions of an array, as cards write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import listing, printable
from beacon.data.formats.base import ACTIONS, OBSERVATION, DatasetReader
from beacon.errors import UserError

_SELECTOR = re.compile(r"(?P<key>[^\[\]]+)(?:\[(?P<start>-?\d{1,9})?(?P<colon>:)?(?P<stop>-?\d{1,9})?\])?")


@dataclass(frozen=True)
class Selector:
    """Some dimensions of one array of a dataset."""

    text: str  # as it was written
    key: str
    dimensions: slice

    @classmethod
    def parse(cls, text: str) -> Selector:
        """``key``, ``key[3]``, ``key[0:3]``, ``key[:3]`` or ``key[-1]``."""
        match = _SELECTOR.fullmatch(text.strip())
        if match is None or text.strip().endswith("[]"):
            raise UserError(f"'{printable(text)}': write KEY, KEY[3] or KEY[0:3]")
        start = int(match["start"]) if match["start"] else None
        stop = int(match["stop"]) if match["stop"] else None
        if match["colon"]:
            return cls(text, match["key"], slice(start, stop))
        if start is None:
            return cls(text, match["key"], slice(None))
        return cls(text, match["key"], slice(start, start + 1 if start != -1 else None))

    def array_name(self, reader: DatasetReader, episode: str) -> str:
        """The name of the array in a dataset; both sides are shown where there is none."""
        names = reader.arrays(episode)
        for name in (self.key, OBSERVATION + self.key, *([ACTIONS] if self.key == "action" else [])):
            if name in names:
                return name
        shown = [n.removeprefix(OBSERVATION) for n in names]
        raise UserError(f"'{printable(self.text)}' is not in {reader.path}; there are {listing(shown, 40)}")

    def width(self, reader: DatasetReader, episode: str) -> int:
        """How many dimensions are chosen."""
        info = reader.info(episode, self.array_name(reader, episode))
        size = int(np.prod(info.shape[1:], dtype=np.int64))
        chosen = len(range(size)[self.dimensions])
        if not chosen:
            raise UserError(f"'{printable(self.text)}' chooses nothing: '{self.key}' has {size} dimensions")
        if self.dimensions.stop is not None and self.dimensions.stop > size:
            raise UserError(f"'{printable(self.text)}' goes beyond '{self.key}', which has {size} dimensions")
        return chosen

    def read(self, reader: DatasetReader, episode: str) -> NDArray[np.float64]:
        """(T, d) numbers of one demonstration."""
        name = self.array_name(reader, episode)
        self.width(reader, episode)
        values: NDArray[Any] = reader.read(episode, name)
        if values.dtype.kind not in "biuf" or values.ndim == 0:
            raise UserError(f"{reader.path}, {episode}: '{printable(self.key)}' is not made of numbers")
        return np.asarray(values.reshape(len(values), -1)[:, self.dimensions], np.float64)
