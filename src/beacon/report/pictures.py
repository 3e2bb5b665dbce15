"""Frames as small JPEG sprites that fit into a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from beacon.data.images import to_picture

Frames = NDArray[np.uint8]


@dataclass(frozen=True)
class Quality:
    """How frames are made small."""

    size: int  # pixels, the height of a frame
    frames: int  # per demonstration
    jpeg: int  # PIL's quality


# From the best to the one that fits thousands of demonstrations.
QUALITIES = (
    Quality(96, 10, 75),
    Quality(80, 10, 70),
    Quality(72, 8, 70),
    Quality(64, 8, 65),
    Quality(56, 8, 60),
    Quality(48, 6, 60),
    Quality(40, 6, 55),
)


def steps_shown(length: int, count: int) -> NDArray[np.int64]:
    """The time steps of a filmstrip: evenly from the first to the last."""
    return np.unique(np.linspace(0, length - 1, min(count, length)).round().astype(np.int64))


def sprite(frames: Sequence[Frames] | Frames, quality: Quality, columns: int | None = None) -> bytes:
    """A JPEG with the frames (H, W, C) side by side, in rows of ``columns``."""
    pictures = [_small(frame, quality.size) for frame in frames]
    columns = columns or len(pictures)
    width = pictures[0].width
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (columns * width, rows * quality.size))
    for index, picture in enumerate(pictures):
        sheet.paste(picture, (index % columns * width, index // columns * quality.size))
    buffer = io.BytesIO()
    sheet.save(buffer, "JPEG", quality=quality.jpeg, optimize=True, subsampling=2)
    return buffer.getvalue()


def data_uri(jpeg: bytes) -> str:
    """For the ``src`` of a picture in a page without files beside it."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()


def read_film(path: str, count: int) -> list[Frames]:
    """Evenly spaced frames of a video, first and last included."""
    import av

    frames: list[Any] = []
    with av.open(path) as container:
        for frame in container.decode(video=0):
            frames.append(frame.to_ndarray(format="rgb24"))
    if not frames:
        raise ValueError("no frames")
    return [frames[step] for step in steps_shown(len(frames), count)]


def _small(frame: Frames, height: int) -> Image.Image:
    picture = to_picture(frame).convert("RGB")
    width = max(1, round(height * picture.width / picture.height))
    if (width, height) == picture.size:
        return picture
    # Enlarging keeps pixels as squares: a small image should look like what the policy sees.
    enlarging = height > picture.height
    return picture.resize(
        (width, height), Image.Resampling.NEAREST if enlarging else Image.Resampling.LANCZOS
    )
