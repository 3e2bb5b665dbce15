"""What tests of the audit share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from point_robot import as_set, demonstrations

from beacon.data import EpisodeSet


@pytest.fixture(scope="session")
def target() -> EpisodeSet:
    """Ten sound demonstrations."""
    return as_set(demonstrations(10, seed=999), "target")
