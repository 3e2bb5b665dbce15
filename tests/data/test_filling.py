"""Several threads decode the same frames as one, tell the same error, and leave nothing behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_lerobot import AV1_SIZE, SIZE, write_v21, write_v30

from beacon.data import EpisodeSet, ObservationMapping
from beacon.data.filling import split
from beacon.data.formats.video import OpenVideos
from beacon.errors import UserError

LENGTHS = (7, 15, 6, 9, 4, 20)
CARD = "path: data\nimage_size: 24\nimage_fit: pad\nfps: 5\nactions: {keys: [action], resample: hold}\n"
DATASETS: dict[str, Any] = {
    "a video an episode": lambda path: write_v21(path / "data", LENGTHS),
    "one video": lambda path: write_v30(path / "data", LENGTHS),
    "one video, AV1": lambda path: write_v30(path / "data", LENGTHS, codec="libsvtav1", size=AV1_SIZE),
    "embedded pictures": lambda path: write_v30(path / "data", LENGTHS, images=True),
}


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads, other than this one, that read videos; each waits until there are three."""
    seen: set[int] = set()
    get, three = OpenVideos.get, threading.Barrier(3)

    def watched(self: OpenVideos, camera: str, path: Path) -> Any:
        own = threading.get_ident()
        if threading.current_thread() is not threading.main_thread() and own not in seen:
            seen.add(own)
            three.wait(60)
        return get(self, camera, path)

    monkeypatch.setattr(OpenVideos, "get", watched)
    return seen


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("given", ["folder", "sized", "card", "two folders"])
def test_several_threads_store_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: set[int], dataset: str, given: str
) -> None:
    path: Any = DATASETS[dataset](tmp_path)
    if given == "card":
        path = tmp_path / "card.yaml"
        path.write_text(CARD)
    if given == "two folders":
        path = (path, write_v30(tmp_path / "more", (5, 3), size=AV1_SIZE if "AV1" in dataset else SIZE))
    mapping = ObservationMapping(image_size=20 if given == "sized" else None)
    stored = []
    for processors in (1, 3):
        monkeypatch.setattr("beacon.data.filling.processors", lambda n=processors: n)
        for limit in (None, 0):  # in memory, mapped
            threads.clear()
            cache = tmp_path / f"cache{processors}"
            episodes = EpisodeSet.load(path, mapping=mapping, memory_limit_bytes=limit, cache_dir=cache)
            stored.append(next(iter(episodes.images.values())))
            if dataset != "embedded pictures":
                assert len(threads) == (3 if processors > 1 else 0)
    for frames in stored[1:]:
        np.testing.assert_array_equal(frames, stored[0])


def test_the_first_error_is_told_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beacon.data.filling.processors", lambda: 3)
    path = write_v21(tmp_path / "data", LENGTHS)
    videos = sorted(path.rglob("*.mp4"))
    for number in (5, 2):
        videos[number].write_bytes(videos[number].read_bytes()[:200])
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(UserError, match=r"episode_000002\.mp4"):
            EpisodeSet.load(path, memory_limit_bytes=0, cache_dir=tmp_path / "cache")
    assert threading.active_count() == before
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("lengths", "parts", "expected"),
    [
        ([10] * 6, 2, [range(3), range(3, 6)]),
        ([10] * 6, 4, [range(1), range(1, 3), range(3, 4), range(4, 6)]),
        ([5], 4, [range(1)]),
        ([1, 1, 100], 2, [range(2), range(2, 3)]),
        ([100, 1, 1], 2, [range(1), range(1, 3)]),
    ],
)
def test_runs_have_about_as_many_frames(lengths: list[int], parts: int, expected: list[range]) -> None:
    assert split(np.array(lengths), parts) == expected


def test_runs_hold_every_demonstration_once() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        lengths = rng.integers(1, 50, rng.integers(1, 30))
        runs = split(lengths, int(rng.integers(1, 9)))
        assert [e for run in runs for e in run] == list(range(len(lengths)))
