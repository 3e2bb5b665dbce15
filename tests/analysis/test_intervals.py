from __future__ import annotations

import numpy as np
import pytest

from beacon.analysis import wilson


def test_wilson_interval() -> None:
    # The ends are the proportions that a score test at 5% just does not reject.
    for end in wilson(16, 100):
        assert abs(0.16 - end) == pytest.approx(1.959963984540054 * np.sqrt(end * (1 - end) / 100))
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)
