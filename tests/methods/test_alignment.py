"""Dynamic time warping, and the pairs that are drawn by it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from demonstrations import make_dataset

from beacon.data import EpisodeSet, Windows
from beacon.methods import dtw
from beacon.methods.alignment import AlignedSampler, cached_alignments, label_sequences
from beacon.methods.dtw import align_all

KEY = "robot0_eef_pos"


def plain_dtw(x, y) -> float:
    """The textbook dynamic program, one cell at a time."""
    table = np.full((len(x) + 1, len(y) + 1), np.inf)
    table[0, 0] = 0
    for i in range(len(x)):
        for j in range(len(y)):
            before = min(table[i, j + 1], table[i + 1, j], table[i, j])
            table[i + 1, j + 1] = np.linalg.norm(x[i] - y[j]) + before
    return float(table[-1, -1])


@pytest.fixture
def sequences():
    rng = np.random.default_rng(0)
    sources = [rng.normal(size=(rng.integers(1, 14), 3)) for _ in range(300)]  # more than one chunk
    return [rng.normal(size=(length, 3)) for length in (1, 6, 12)], sources


def test_distances_are_those_of_the_plain_program(sequences) -> None:
    targets, sources = sequences
    found = align_all(targets, sources)
    for t in range(len(targets)):
        for s in range(0, len(sources), 7):
            assert found.distance[t, s] == pytest.approx(plain_dtw(sources[s], targets[t]))


def test_few_threads_on_a_large_machine(sequences, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread takes a third of a gigabyte with real sequences."""
    real, threads = dtw.align, set()

    def watched(*arguments):
        threads.add(threading.get_ident())
        time.sleep(0.01)  # so that no thread does the work of all
        return real(*arguments)

    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(dtw, "align", watched)
    targets, sources = sequences
    align_all(targets * 8, sources)
    assert 1 < len(threads) <= dtw.MOST_THREADS


def test_paths_are_monotone_whole_and_cost_what_the_distance_says(sequences) -> None:
    targets, sources = sequences
    found = align_all(targets, sources, workers=1)
    for t, target in enumerate(targets):
        for s, source in enumerate(sources):
            first, last = found.first[t][s], found.last[t][s]
            assert first[0] == 0 and last[-1] == len(source) - 1
            assert (first <= last).all() and np.isin(first[1:] - last[:-1], [0, 1]).all()
            cost = sum(
                np.linalg.norm(source[i] - target[j])
                for j in range(len(target))
                for i in range(first[j], last[j] + 1)
            )
            assert cost == pytest.approx(found.distance[t, s])


def test_a_slower_copy_is_no_distance_away() -> None:
    path = np.cumsum(np.random.default_rng(1).normal(size=(10, 2)), axis=0)
    found = align_all([path], [np.repeat(path, 3, axis=0)])
    assert found.distance[0, 0] == 0
    assert found.first[0][0].tolist() == [3 * i for i in range(10)]
    assert found.last[0][0].tolist() == [3 * i + 2 for i in range(10)]


def test_alignments_are_computed_once(sequences, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets, sources = sequences
    fresh = cached_alignments(targets, sources, tmp_path)
    (file,) = tmp_path.iterdir()
    written = file.stat().st_mtime_ns
    monkeypatch.setattr("beacon.methods.alignment.align_all", None)  # nobody may compute again
    stored = cached_alignments(targets, sources, tmp_path)
    assert file.stat().st_mtime_ns == written
    np.testing.assert_array_equal(stored.distance, fresh.distance)
    for name in ("first", "last"):
        for a, b in zip(getattr(stored, name), getattr(fresh, name), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_damaged_cache_is_replaced_and_other_sequences_get_their_own(sequences, tmp_path: Path) -> None:
    targets, sources = sequences
    fresh = cached_alignments(targets, sources, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    again = cached_alignments(targets, sources, tmp_path)
    np.testing.assert_array_equal(again.distance, fresh.distance)
    cached_alignments(targets[:2], sources, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_no_obstacle(sequences, tmp_path: Path) -> None:
    targets, sources = sequences
    (tmp_path / "file").write_text("in the way")
    assert cached_alignments(targets, sources, tmp_path / "file" / "cache").distance.shape == (3, 300)


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Windows:
    """Six source demonstrations; the two of the target are the first two of them again."""
    folder = tmp_path_factory.mktemp("twins")
    sets = [
        EpisodeSet.load(make_dataset(folder / "sim.hdf5", 6, steps=12, seed=5)),
        EpisodeSet.load(make_dataset(folder / "real.hdf5", 2, steps=12, seed=5, background=(90, 60, 30))),
    ]
    return Windows(sets, obs_steps=1, horizon=4)


def sampler(windows: Windows, **options) -> AlignedSampler:
    sequences = label_sequences(windows, KEY)
    chosen = {"sharpness": 10.0, "offset": 0.01, "jitter": 10} | options
    return AlignedSampler(windows, 1, align_all(sequences[6:], sequences[:6]), **chosen)


def test_twins_are_paired_step_by_step(windows: Windows) -> None:
    target, source = sampler(windows, sharpness=1e6, offset=0.0, jitter=0).draw(500, np.random.default_rng(0))
    assert (windows.domain[target] == 1).all() and (windows.domain[source] == 0).all()
    assert (windows.episode[source] == windows.episode[target] - 6).all()
    assert (windows.step[source] == windows.step[target]).all()
    assert len(np.unique(target)) == 24  # every target window has its turn


def test_jitter_moves_the_source_step_and_stays_inside_the_episode(windows: Windows) -> None:
    target, source = sampler(windows, sharpness=1e6, offset=0.0, jitter=3).draw(
        2000, np.random.default_rng(0)
    )
    assert (windows.episode[source] == windows.episode[target] - 6).all()
    moved = windows.step[source] - windows.step[target]
    middle = (windows.step[target] >= 3) & (windows.step[target] <= 8)
    counts = np.bincount(moved[middle] + 3, minlength=7) / middle.sum()
    np.testing.assert_allclose(counts, 1 / 7, atol=0.04)
    assert np.abs(moved).max() == 3


def test_demonstrations_are_drawn_by_their_distance(windows: Windows) -> None:
    mine = sampler(windows)
    expected = 1 / (1 + np.exp(10 * (mine.distance - 0.01)))
    np.testing.assert_allclose(mine.probability, expected / expected.sum(1, keepdims=True))
    target, source = mine.draw(20_000, np.random.default_rng(0))
    for row in range(2):
        drawn = windows.episode[source][windows.episode[target] == 6 + row]
        np.testing.assert_allclose(
            np.bincount(drawn, minlength=6) / len(drawn), mine.probability[row], atol=0.02
        )


def test_without_sharpness_all_demonstrations_are_alike(windows: Windows) -> None:
    np.testing.assert_allclose(sampler(windows, sharpness=0.0).probability, 1 / 6)


def test_demonstrations_far_from_all_still_have_partners(windows: Windows) -> None:
    probability = sampler(windows, sharpness=1e9, offset=-1.0).probability
    np.testing.assert_allclose(probability.sum(1), 1)
