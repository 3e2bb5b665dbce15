"""Frames as JPEG: decoded when they are asked for, the latest kept in a bounded memory."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from beacon.data.errors import printable
from beacon.data.formats.base import OBSERVATION
from beacon.data.images import image_fault, looks_like_camera, to_picture
from beacon.desk.collection import Collection, Demo
from beacon.errors import UserError

THUMBNAIL = 160  # pixels along the longer side
LARGE = 640
MOST_FRAMES = 64  # that are sent at a time
CACHE_BYTES = 64 << 20


class ByteCache:
    """The values that were asked for last, up to so many bytes in all.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit, self._size = limit, 0
        self._values: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """The value of a key, made if it is not there.

        Args:
            key: what is asked for.
            make: makes the value.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._size += len(value) - len(self._values.pop(key, b""))
            self._values[key] = value
            while self._size > self._limit:
                _, oldest = self._values.popitem(last=False)
                self._size -= len(oldest)
        return value

    @property
    def size(self) -> int:
        """Bytes that are kept now."""
        return self._size


class Pictures:
    """The frames of a collection.

    Args:
        collection: whose.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._cache = ByteCache()

    def thumbnail(self, demo: int) -> bytes:
        """The frame in the middle of a demonstration, small.

        Args:
            demo: its number.
        """
        entry = self._collection.demos[demo]

        def make() -> bytes:
            cameras = cameras_of(entry)
            if not cameras:
                raise UserError(f"{entry.dataset.path}, {printable(entry.name)}: it has no camera")
            return to_jpeg(read_frames(entry, cameras[0], entry.length // 2, 1)[0], THUMBNAIL)

        return self._cache.get(("thumbnail", demo), make)

    def frames(self, demo: int, camera: int, start: int, count: int) -> bytes:
        """Some frames, one after the other: of each, its length in four bytes, then the JPEG.

        Args:
            demo: number of the demonstration.
            camera: number of the camera among `cameras_of`.
            start: first step.
            count: how many; fewer are given at the end.
        """
        entry = self._collection.demos[demo]

        def make() -> bytes:
            cameras = cameras_of(entry)
            if camera >= len(cameras):
                raise UserError(f"{printable(entry.name)} has {len(cameras)} cameras")
            key = cameras[camera]
            pictures = [to_jpeg(frame, LARGE) for frame in read_frames(entry, key, start, count)]
            return b"".join(len(picture).to_bytes(4, "big") + picture for picture in pictures)

        return self._cache.get((demo, camera, start, count), make)


def cameras_of(demo: Demo) -> list[str]:
    """The cameras of a demonstration that can be shown; may be none.

    Args:
        demo: the demonstration.
    """
    with demo.dataset.lock:
        keys = demo.dataset.reader.observation_keys(demo.name)
    return sorted(key for key, info in keys.items() if looks_like_camera(key, info) and not image_fault(info))


def read_frames(demo: Demo, camera: str, start: int, count: int) -> NDArray[np.uint8]:
    """Frames (n, H, W, C), fewer than asked for at the end.

    Args:
        demo: whose.
        camera: which.
        start: first step.
        count: how many.
    """
    with demo.dataset.lock:
        frames = demo.dataset.reader.frames(demo.name, OBSERVATION + camera, start, start + count)
    return np.asarray(frames, np.uint8)


def to_jpeg(frame: NDArray[np.uint8], longest: int) -> bytes:
    """A frame (H, W, C) as JPEG, at most so large.

    Args:
        frame: the picture.
        longest: pixels along the longer side.
    """
    picture = to_picture(frame)
    if max(picture.size) > longest:
        picture.thumbnail((longest, longest), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
