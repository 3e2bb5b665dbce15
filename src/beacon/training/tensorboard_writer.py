"""TensorBoard's files, written at once: a kill loses nothing, and a full disk is an error like any other."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.files import writing

BINS = 64


class TensorBoardWriter:
    """One event file. torch's own writer queues events in a thread, which a kill or a full disk cuts off."""

    def __init__(self, folder: Path, resumed_at: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter
        from torch.utils.tensorboard import summary

        self._event, self._summary = Event, summary
        host = socket.gethostname()
        self._path = folder / f"events.out.tfevents.{time.time_ns():020d}.{host}.{os.getpid()}"
        with writing(self._path):
            self._file = self._path.open("wb", buffering=0)
        self._records = RecordWriter(self._file)
        self._write(file_version="brain.Event:2")
        # What an earlier part of the run wrote beyond its last checkpoint is not to be shown.
        self._write(step=resumed_at + 1, session_log=SessionLog(status=SessionLog.START))

    def scalar(self, name: str, value: float, step: int) -> None:
        """One number."""
        self._write(step=step, summary=self._summary.scalar(name, value))

    def histogram(self, name: str, values: NDArray[np.float64], step: int) -> None:
        """How many numbers are distributed."""
        self._write(step=step, summary=self._summary.histogram(name, values, bins=BINS))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, **content: Any) -> None:
        with writing(self._path):
            self._records.write(self._event(wall_time=time.time(), **content).SerializeToString())
