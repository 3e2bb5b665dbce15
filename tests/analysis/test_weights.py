from __future__ import annotations

import numpy as np
import pytest

from beacon.analysis import demo_means, effective_sample_size


def test_demonstrations_of_one_weight_have_equal_means_whatever_their_lengths() -> None:
    lengths = np.arange(1, 200)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    means = demo_means(np.full(len(episode), 0.1), episode)
    assert (means == 0.1).all()  # 0.1 · 3 / 3 is not


def test_means_of_different_windows() -> None:
    values, episode = np.array([1.0, 2.0, 6.0, 5.0, 7.0]), np.array([0, 0, 0, 1, 1])
    np.testing.assert_allclose(demo_means(values, episode), [3.0, 6.0])


def test_effective_sample_size() -> None:
    assert effective_sample_size(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_sample_size(np.array([1.0, 0.0, 0.0])) == 1.0
    assert effective_sample_size(np.array([2.0, 1.0])) == pytest.approx(9 / 5)
    assert effective_sample_size(np.zeros(3)) == 0.0
