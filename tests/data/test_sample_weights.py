"""Weights for LeRobot: the published formula, written down here again, gives them back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon.data.sample_weights import KAPPA, rabc_progress, write_lerobot_weights, write_rabc_progress
from beacon.errors import UserError


def reward_aware_weights(
    index: np.ndarray,
    episode: np.ndarray,
    progress: np.ndarray,
    chunk: int,
    kappa: float,
    epsilon: float = 1e-6,
) -> np.ndarray:
    """The weights as the documentation of reward-aware behaviour cloning has it, one row after the other."""
    lookup = dict(zip(index.tolist(), progress.tolist(), strict=True))
    ends = {e: int(index[episode == e].max()) + 1 for e in np.unique(episode)}
    deltas = np.array(
        [
            lookup[min(i + chunk, ends[e] - 1)] - lookup[i]
            for i, e in zip(index.tolist(), episode.tolist(), strict=True)
        ]
    )
    mean, deviation = max(deltas.mean(), 0.0), max(deltas.std(), epsilon)
    soft = np.clip((deltas - mean + 2 * deviation) / (4 * deviation + epsilon), 0, 1)
    return np.where(deltas > kappa, 1.0, np.where(deltas >= 0, soft, 0.0))


@settings(deadline=None)
@given(
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    chunk=st.integers(1, 90),
)
def test_the_formula_gives_the_weights_back(weights: list[float], chunk: int) -> None:
    wanted = np.array(weights)
    progress = rabc_progress(wanted, chunk)
    rows = np.arange(len(progress))
    given_back = reward_aware_weights(rows, np.zeros_like(rows), progress, chunk, KAPPA)[: len(wanted)]
    # d is a difference of sums: a weight of 0 may come out as one slightly below, which counts as 0, too.
    np.testing.assert_allclose(given_back, wanted, atol=1e-6)


def test_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0, 3, 40)
    index = rng.permutation(40)
    write_lerobot_weights(tmp_path / "w.parquet", index, weights)
    table = pq.read_table(tmp_path / "w.parquet")
    assert table.column_names == ["index", "weight"]
    np.testing.assert_array_equal(table["weight"].to_numpy(), weights)
    factor = write_rabc_progress(tmp_path / "p.parquet", index, weights, chunk_size=16)
    table = pq.read_table(tmp_path / "p.parquet")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    computed = reward_aware_weights(
        columns["index"], columns["episode_index"], columns["progress_sparse"], 16, KAPPA
    )
    np.testing.assert_allclose(factor * computed[index], weights, atol=1e-6)


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "w.parquet"
    for index, weights, message in (
        ([0, 1], [1.0], "1 weights for 2 frames"),
        ([0, 1], [1.0, -1.0], "at least 0"),
        ([0, 1], [1.0, float("nan")], "finite"),
    ):
        with pytest.raises(UserError, match=message):
            write_lerobot_weights(path, np.array(index), np.array(weights))
    with pytest.raises(UserError, match="each once"):
        write_rabc_progress(path, np.array([0, 2]), np.ones(2), 4)
    with pytest.raises(UserError, match="all weights are 0"):
        write_rabc_progress(path, np.array([0, 1]), np.zeros(2), 4)
    assert not path.exists()
