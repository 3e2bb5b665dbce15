"""Mini-batches from the windows to the device."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from beacon.data import WindowBatch, Windows
from beacon.methods.base import Indices


class BatchLoader:
    """Gathers mini-batches into memory that is used again and again.

    For a GPU the memory is pinned, and the next batch is gathered by a thread and sent on a stream of its own
    while the present one is computed. On the CPU gathering takes about a thousandth of a step, and happens in
    place.
    """

    def __init__(self, windows: Windows, batch_size: int, device: torch.device) -> None:
        self._windows, self._device = windows, device
        self._ahead = device.type == "cuda"
        count = 2 if self._ahead else 1
        self._buffers = [windows.empty(batch_size, pin_memory=self._ahead) for _ in range(count)]
        if self._ahead:
            self._stream = torch.cuda.Stream(device)
            self._sent = [torch.cuda.Event() for _ in range(count)]

    def __call__(self, batches: Indices) -> Iterator[WindowBatch]:
        """Every mini-batch of ``batches`` (steps, batch), in order."""
        if not self._ahead:
            for index in batches:
                yield self._windows.gather(index, out=self._buffers[0])
            return
        with ThreadPoolExecutor(1, thread_name_prefix="batch-loader") as pool:
            pending = pool.submit(self._fetch, batches[0], 0)
            for number in range(1, len(batches) + 1):
                batch = pending.result()
                computing = torch.cuda.current_stream(self._device)
                computing.wait_event(self._sent[(number - 1) % 2])
                for tensor in batch.tensors():  # its memory is not to be reused before it was computed with
                    tensor.record_stream(computing)
                if number < len(batches):
                    pending = pool.submit(self._fetch, batches[number], number)
                yield batch

    def _fetch(self, index: Indices, number: int) -> WindowBatch:
        buffer, sent = self._buffers[number % 2], self._sent[number % 2]
        sent.synchronize()  # the batch before the last has left the buffer; at first nothing is waited for
        batch = self._windows.gather(index, out=buffer)
        with torch.cuda.stream(self._stream):
            batch = batch.to(self._device, non_blocking=True)
            sent.record(self._stream)
        return batch
