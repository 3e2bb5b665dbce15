"""Tables that may be larger than memory: beyond a size they are in a file that the system pages in."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from beacon.data.storage import default_cache_dir
from beacon.files import writing

if TYPE_CHECKING:
    import torch

MAPPED_BEYOND = 1 << 27  # bytes; what is larger is in a file


def scratch_table(rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Zeros (rows, columns) of float32, for as long as they are used.

    On the CPU a large table is mapped from a file without a name beside the mapped frames; nothing is left of
    it when the process ends, however it ends.

    Args:
        rows: of the table.
        columns: of the table.
        device: where it is.
    """
    import torch

    size = rows * columns
    if device.type != "cpu" or 4 * size <= MAPPED_BEYOND:
        return torch.zeros(rows, columns, device=device)
    folder = default_cache_dir()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".table-") as file:
            os.posix_fallocate(file.fileno(), 0, 4 * size)  # a full disk is an error now, not a dead process
            return torch.from_file(file.name, shared=True, size=size, dtype=torch.float32).view(rows, columns)
