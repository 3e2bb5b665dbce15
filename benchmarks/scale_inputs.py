"""What benchmarks/scale.py measures with: synthetic windows in mapped files, and the peak of memory."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FEATURES, ACTIONS, DEMO, TARGET_DEMOS = 64, 8, 100, 5
PIECE = 100_000  # rows that are made at a time


class Inputs:
    """Memory-mapped embeddings and actions, and who the windows are."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.embeddings = self._mapped(folder / f"embeddings-{count}.npy", FEATURES)
        self.actions = self._mapped(folder / f"actions-{count}.npy", ACTIONS)
        self.episodes = np.arange(count) // DEMO
        self.domains = (self.episodes >= self.episodes[-1] + 1 - TARGET_DEMOS).astype(np.int64)
        self.losses = np.random.default_rng(0).uniform(0, 1, count)
        self.distances = np.random.default_rng(1).uniform(0.5, 2, count)

    def _mapped(self, file: Path, columns: int) -> NDArray[np.float32]:
        if not file.exists():
            rng = np.random.default_rng(columns)
            shape = (self.count, columns)
            table = np.lib.format.open_memmap(file, "w+", np.float32, shape)  # type: ignore[no-untyped-call]
            for start in range(0, self.count, PIECE):
                part = table[start : start + PIECE]
                part[:] = rng.standard_normal(part.shape, np.float32)
        loaded: NDArray[np.float32] = np.load(file, mmap_mode="c")
        return loaded


def own_bytes() -> int:
    """Memory of this process now, without mapped files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024


class PeakWatch:
    """The largest own memory while a block runs, looked at every few milliseconds."""

    def __enter__(self) -> PeakWatch:
        self.before = self.peak = own_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.peak = max(self.peak, own_bytes())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
