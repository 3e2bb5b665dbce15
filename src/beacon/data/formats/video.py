"""Frames of a video file by their number."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import printable
from beacon.data.formats.folder_paths import file_fault
from beacon.errors import UserError

LARGEST_PICTURE = 1 << 26  # pixels
# Flags of swscale: bilinear, averaged over the source pixels when shrinking, as `beacon.data.images.resize`;
# exact rounding; full colour resolution, without which edges between colours differ from it.
SCALING = 0x2 | 0x40000 | 0x2000
FAR = 256  # frames: to skip more of them, a key frame is looked for


class VideoFile:
    """An open video. Frames are counted in the order in which they are shown, from 0.

    By number and not by time: recorders' clocks and the time stamps of joined videos drift, frames do not.
    Reading goes on where the last reading ended, so a pass over all episodes decodes every frame once.
    """

    def __init__(self, path: Path) -> None:
        import av
        from av.video.reformatter import VideoReformatter

        fault = file_fault(path)
        if fault is not None:
            raise UserError(f"{path} {fault}")
        self.path = path
        try:
            self._container: Any = av.open(str(path), "r")
        except (av.FFmpegError, OSError, ValueError) as error:
            raise self._damaged(error) from error
        if not self._container.streams.video:
            self._container.close()
            raise UserError(f"{path} holds no video")
        self._stream: Any = self._container.streams.video[0]
        context = self._stream.codec_context
        if context is None or not 0 < context.height * context.width <= LARGEST_PICTURE:
            self._container.close()
            raise UserError(f"{path} holds video of an unknown codec, or of an impossible size")
        self._stream.thread_type = "AUTO"
        self._reformatter: Any = VideoReformatter()  # keeps its tables from frame to frame
        self._errors = (av.FFmpegError, OSError, ValueError, MemoryError)
        self._times: NDArray[np.int64] | None = None  # of all frames, sorted; made when it is first needed
        self._decoder = self._start()
        self._next = 0

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return (int(self._stream.codec_context.height), int(self._stream.codec_context.width))

    @property
    def rate(self) -> float | None:
        """Frames a second, as the file says."""
        rate = self._stream.average_rate
        return float(rate) if rate else None

    def count(self) -> int:
        """Number of frames, from the packets of the file; nothing is decoded."""
        return len(self._index())

    def frames(
        self, start: int, stop: int, size: tuple[int, int] | None = None
    ) -> Iterator[NDArray[np.uint8]]:
        """Frames ``start`` to ``stop - 1``, each (H, W, 3) in RGB.

        Args:
            start: the first.
            stop: the one after the last.
            size: height and width that they are brought to; None: as they are.
        """
        try:
            self._go_to(start)
            while self._next < stop:
                frame = next(self._decoder, None)
                if frame is None:
                    raise UserError(
                        f"{self.path} ends after {self._next} frames, but frames up to {stop} are needed: "
                        "it is truncated, or does not belong to this data"
                    )
                self._next += 1
                if self._next > start:
                    yield self._to_rgb(frame, size)
        except self._errors as error:
            if isinstance(error, UserError):
                raise
            raise self._damaged(error) from error

    def _to_rgb(self, frame: Any, size: tuple[int, int] | None) -> NDArray[np.uint8]:
        if size is None or size == self.size:
            return np.asarray(self._reformatter.reformat(frame, format="rgb24").to_ndarray())
        small = self._reformatter.reformat(
            frame, width=size[1], height=size[0], format="rgb24", interpolation=SCALING
        )
        return np.asarray(small.to_ndarray())

    def close(self) -> None:
        """Let go of the file."""
        self._decoder = iter(())
        self._container.close()

    def _start(self) -> Iterator[Any]:
        return iter(self._container.decode(self._stream))

    def _go_to(self, start: int) -> None:
        """Be at frame ``start``, or so little before it that decoding on is the fastest way."""
        if self._next <= start <= self._next + FAR:
            return
        times = self._index()
        if start >= len(times):
            raise UserError(
                f"{self.path} has {len(times)} frames, but number {start} is needed: "
                "it is truncated, or does not belong to this data"
            )
        self._container.seek(int(times[start]), stream=self._stream, backward=True)
        self._decoder = self._start()
        first = next(self._decoder, None)
        if first is None or first.pts is None:
            self._rewind()
            return
        number = int(np.searchsorted(times, first.pts))
        if number > start or number >= len(times) or times[number] != first.pts:
            self._rewind()  # the index of the file is wrong: count from its beginning
            return
        self._decoder = _put_back(first, self._decoder)
        self._next = number

    def _rewind(self) -> None:
        """Begin anew: the file is opened again, which works where seeking does not."""
        import av

        self._container.close()
        self._container = av.open(str(self.path), "r")
        self._stream = self._container.streams.video[0]
        self._stream.thread_type = "AUTO"
        self._decoder = self._start()
        self._next = 0

    def _index(self) -> NDArray[np.int64]:
        """Times of all frames, sorted, from a second look at the packets alone."""
        if self._times is None:
            import av

            try:
                with av.open(str(self.path), "r") as container:
                    stream = container.streams.video[0]
                    times = [
                        packet.pts
                        for packet in container.demux(stream)
                        if packet.pts is not None and not packet.is_discard
                    ]
            except self._errors as error:
                raise self._damaged(error) from error
            self._times = np.unique(np.array(times, np.int64))
        return self._times

    def _damaged(self, error: BaseException) -> UserError:
        reason = printable(" ".join(str(error).split()))[:160]
        return UserError(f"{self.path} cannot be decoded, it is truncated or no video ({reason})")


class OpenVideos:
    """The videos of a dataset that are being read: one a camera and thread, since each goes on by itself."""

    def __init__(self) -> None:
        self._opened: dict[tuple[int, str], VideoFile] = {}

    def get(self, camera: str, path: Path) -> VideoFile:
        """The video of a camera, for the thread that asks; it takes the place of that camera's last one.

        Args:
            camera: whose.
            path: of the file.
        """
        place = (threading.get_ident(), camera)
        opened = self._opened.get(place)
        if opened is None or opened.path != path:
            if opened is not None:
                opened.close()
            opened = self._opened[place] = VideoFile(path)
        return opened

    def close(self) -> None:
        """Let go of all of them."""
        for video in self._opened.values():
            video.close()
        self._opened.clear()


def _put_back(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
