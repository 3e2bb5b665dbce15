"""Videos as LeRobot reads them: constant rate, first frame at 0, many episodes in a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import RunError, UserError
from beacon.processes import leave_real_time

LARGEST_FILE = 200 << 20  # bytes, from which on a new file is begun
# The stock encoder with less loss; a key frame every second frame, so that single frames are found fast.
CODECS = {
    "libsvtav1": {"g": "2", "crf": "20", "preset": "8"},
    "libx264": {"g": "2", "crf": "14", "bf": "0"},
}
NAMES = {"libsvtav1": "av1", "libx264": "h264"}
# Pixels. SVT-AV1 refuses smaller pictures in PyAV 14; at 24 it kills the process in 15, and never ends in 16.
SMALLEST = {"libsvtav1": 64}


def choose_codec(height: int, width: int) -> str:
    """The first codec of `CODECS` that this build of FFmpeg has, and that encodes pictures of this size.

    Args:
        height: of the pictures.
        width: of the pictures.
    """
    import av

    for codec in CODECS:
        if codec in av.codecs_available and min(height, width) >= SMALLEST.get(codec, 0):
            return codec
    raise RunError(
        "this build of FFmpeg encodes neither AV1 nor H.264; write embedded pictures with --images"
    )


class VideoWriter:
    """The videos of one camera.

    Args:
        folder: of the files.
        fps: frames a second.
        largest: bytes, from which on a new file is begun.
    """

    def __init__(self, folder: Path, fps: float, largest: int = LARGEST_FILE) -> None:
        self.codec = ""  # chosen for the first picture
        self.file = 0  # number of the file that is written
        self.frames = 0  # in it
        self._folder, self._largest = folder, largest
        self._rate = Fraction(fps).limit_denominator(1001)
        self._container: Any = None
        self._stream: Any = None

    def add(self, frames: Iterable[NDArray[np.uint8]]) -> tuple[int, int, int]:
        """Append the frames (H, W, 3) of an episode; gives the file's number, its first frame and its end."""
        # The encoder holds frames back: the file appears with its first packets.
        size = self._path.stat().st_size if self._path.exists() else 0
        if self._container is not None and size > self._largest:
            self.close()
            self.file, self.frames = self.file + 1, 0
        start = self.frames
        for frame in frames:
            self._encode(frame)
        return self.file, start, self.frames

    def close(self) -> None:
        """Finish the file."""
        if self._container is not None:
            self._container.mux(self._stream.encode())
            self._container.close()
            self._container = None

    @property
    def _path(self) -> Path:
        return self._folder / f"chunk-{self.file // 1000:03d}" / f"file-{self.file % 1000:03d}.mp4"

    def _encode(self, frame: NDArray[np.uint8]) -> None:
        import av

        if self._container is None:
            self._open(frame.shape[0], frame.shape[1])
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
        picture.pts = self.frames
        picture.time_base = 1 / self._rate
        try:
            packets = self._stream.encode(picture)
        except (av.error.ArgumentError, av.error.ExternalError) as error:
            size = f"{frame.shape[0]}×{frame.shape[1]}"
            raise UserError(
                f"PyAV {av.__version__} cannot encode pictures of {size} with {self.codec} "
                f"({error.strerror}); embed them with --images, or install a newer PyAV"
            ) from error
        self._container.mux(packets)
        if self.frames == 0:  # the first picture has started the encoder
            leave_real_time()
        self.frames += 1

    def _open(self, height: int, width: int) -> None:
        import av

        os.environ.setdefault("SVT_LOG", "1")  # errors only: its banner is not for users
        if height % 2 or width % 2:
            raise UserError(
                f"pictures of {height}×{width} cannot become video, which needs even sizes; "
                "embed them with --images"
            )
        self.codec = choose_codec(height, width)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._container = av.open(str(self._path), "w")
        self._stream = self._container.add_stream(self.codec, rate=self._rate)
        self._stream.height, self._stream.width, self._stream.pix_fmt = height, width, "yuv420p"
        self._stream.time_base = 1 / self._rate
        self._stream.bit_rate = 0  # quality decides; that of PyAV 14 is one that SVT-AV1 refuses beside it
        self._stream.options = CODECS[self.codec]
