"""Fill the frame store: pictures of all demonstrations, decoded by as many threads as processors are free."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from beacon.data.formats.base import OBSERVATION, DatasetReader
from beacon.data.images import image_fault
from beacon.data.prefetching import work_ahead
from beacon.data.storage import Frames, FrameSink
from beacon.errors import UserError

MOST_THREADS = 16
AHEAD = 16  # pieces of a format that is read by one thread that may wait
WORTH_A_THREAD = 1 << 24  # bytes of images in a demonstration, from which on they are read ahead


@dataclass(frozen=True)
class CameraRoom:
    """Where the pictures of one camera go."""

    key: str  # in the dataset
    shape: tuple[int, int, int]  # (H, W, C) of a picture in the store
    sink: FrameSink


def fill(
    reader: DatasetReader,
    episodes: list[str],
    lengths: NDArray[np.int64],
    rooms: list[CameraRoom],
    size: tuple[int, int] | None,
) -> None:
    """Store the pictures of all cameras, one piece at a time for each thread.

    A video decoder alone keeps no two processors busy, so each thread decodes a run of demonstrations of its
    own, converts their colours and stores them.

    Args:
        reader: of the dataset.
        episodes: names of the demonstrations.
        lengths: of each of them (E,).
        rooms: one a camera.
        size: height and width that pictures are brought to; None: as they are.
    """
    if not rooms:
        return
    runs = split(lengths, _threads(reader, episodes, rooms))
    starts = np.cumsum(lengths) - lengths
    failed = _FirstFailure(len(runs))

    def work(number: int) -> None:
        try:
            for e in range(runs[number].start, runs[number].stop):
                for room in rooms:
                    first = int(starts[e])
                    for block in _image_blocks(reader, episodes[e], room, int(lengths[e]), size):
                        if failed.before(number):
                            return
                        room.sink.put(first, block)
                        first += len(block)
        except BaseException:
            failed.note(number)
            raise

    if len(runs) == 1:
        work(0)
        return
    with ThreadPoolExecutor(len(runs)) as pool:
        futures = [pool.submit(work, number) for number in range(len(runs))]
        try:
            # In the order of the demonstrations, so that of two errors always the same one is told.
            for future in futures:
                future.result()
        except BaseException:
            failed.note(-1)  # interrupted, or failed: nobody goes on
            raise


def split(lengths: NDArray[np.int64], parts: int) -> list[range]:
    """Neighbouring demonstrations in parts of about as many frames; fewer parts where there are not enough.

    Args:
        lengths: frames of each demonstration (E,).
        parts: how many are wanted.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1])
    middles = ends - lengths / 2
    cuts = [0, *(int(np.searchsorted(middles, total * k / parts)) for k in range(1, parts)), len(lengths)]
    return [range(a, b) for a, b in pairwise(cuts) if a < b]


class _FirstFailure:
    """Which run of demonstrations failed first, counted by their order and not by the clock."""

    def __init__(self, runs: int) -> None:
        self._number = runs
        self._lock = threading.Lock()

    def note(self, number: int) -> None:
        with self._lock:
            self._number = min(self._number, number)

    def before(self, number: int) -> bool:
        """Whether a run before this one failed, so that its frames are of no use."""
        return self._number < number


def _threads(reader: DatasetReader, episodes: list[str], rooms: list[CameraRoom]) -> int:
    """Threads that are worth starting."""
    if not all(reader.concurrent(e, OBSERVATION + room.key) for e in episodes for room in rooms):
        return 1
    return min(MOST_THREADS, len(episodes), processors())


def processors() -> int:
    """Processors that this process may use; a container, or taskset, can leave it fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _image_blocks(
    reader: DatasetReader, episode: str, room: CameraRoom, length: int, size: tuple[int, int] | None
) -> Iterator[Frames]:
    """The frames (T, H, W, C) of a demonstration, piece by piece, brought to the common size."""
    name = OBSERVATION + room.key
    info = reader.info(episode, name)
    where = f"{reader.path}, {episode}: '{room.key}'"
    fault = image_fault(info)
    if fault is not None:
        raise UserError(f"{where} {fault}")
    check_length(reader, episode, name, info.shape[0], length)
    same_size = size is not None or info.shape[1:3] == room.shape[:2]
    if not same_size or info.shape[3] != room.shape[2]:
        advice = "; --image-size brings all of them to one size" if not same_size else ""
        raise UserError(
            f"{where} has images of {info.shape[1:]}, in the demonstrations before it {room.shape}{advice}"
        )
    blocks = reader.blocks(episode, name) if size is None else reader.sized_blocks(episode, name, size)
    large = int(np.prod(info.shape, dtype=np.int64)) > WORTH_A_THREAD
    if large and not reader.concurrent(episode, name):
        blocks = work_ahead(blocks, AHEAD)
    yield from blocks


def check_length(reader: DatasetReader, episode: str, name: str, steps: int, length: int) -> None:
    """Refuse an array that has more or fewer steps than the actions.

    Args:
        reader: of the dataset.
        episode: name of the demonstration.
        name: of the array.
        steps: that it has.
        length: of the actions.
    """
    if steps != length:
        raise UserError(f"{reader.path}, {episode}: '{name}' has {steps} steps but 'actions' has {length}")
