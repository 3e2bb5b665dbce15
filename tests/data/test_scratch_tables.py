"""Tables that are too large for memory are in a file that nobody has to remove."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from beacon.data import scratch_tables
from beacon.data.scratch_tables import scratch_table
from beacon.errors import RunError

CPU = torch.device("cpu")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where mapped files are, and everything beyond a hundred bytes is one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(scratch_tables, "MAPPED_BEYOND", 100)
    return tmp_path / "beacon" / "frames"


def test_large_tables_are_mapped_and_leave_nothing(cache: Path) -> None:
    small, large = scratch_table(5, 5, CPU), scratch_table(1000, 3, CPU)
    for table in (small, large):
        assert table.dtype == torch.float32 and not table.any()
    maps = Path("/proc/self/maps").read_text()
    assert maps.count(str(cache)) == 1  # the large one
    assert list(cache.iterdir()) == []  # without a name
    large[torch.tensor([7, 999])] = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert large[999].tolist() == [4.0, 5.0, 6.0] and large.sum() == 21
    del large, table
    assert str(cache) not in Path("/proc/self/maps").read_text()


def test_a_full_disk_is_said_before_anything_is_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(RunError, match=r"cannot write .*the disk is full"):
        scratch_table(1000, 3, CPU)
    assert list(cache.iterdir()) == []
