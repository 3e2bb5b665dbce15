"""Speed and memory of real data, as ratios within one run: python benchmarks/data.py [--json FILE] [--quick].

*Decode*: a LeRobot folder with AV1 video into the mapped frame store, as it is and in the size that a policy
sees, against PyAV decoding the same file to RGB and nothing else, in turns; the fastest turn of each.
*Windows*: to a batch of random windows, once loaded, and with loading over a first epoch; with ``--lerobot
PYTHON`` (an interpreter that has LeRobot) also against LeRobotDataset and DataLoader on the same folder: four
batches with their workers' start, decoding 480 × 640 for every window, while our frames are decoded once and
resized. *Memory*: the peak of a process that loads 10, 100 and 1,000 episodes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from beacon.data import Episode, EpisodeSet, ObservationMapping, Windows
from beacon.data.formats import create_dataset
from beacon.data.formats.base import WriteOptions

FPS, OBS_STEPS, HORIZON, BATCH = 10, 2, 16, 64
SIZE = 96  # what a policy sees
PARTS = ("decode", "windows", "memory")

LEROBOT = """
import sys, time, torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset
root, batches, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
deltas = {"action": [i / 10 for i in range(16)]}
deltas |= {k: [-0.1, 0.0] for k in ("observation.images.front", "observation.state")}
data = LeRobotDataset("beacon/bench", root=root, delta_timestamps=deltas, video_backend="pyav")
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers=workers)
start, seen = time.perf_counter(), 0
for number, batch in enumerate(loader):
    seen += len(batch["index"])
    if number + 1 >= batches:
        break
print(seen / (time.perf_counter() - start))
"""


def write_folder(path: Path, episodes: int, steps: int, size: tuple[int, int]) -> None:
    """A LeRobot folder with pictures that move."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0 : size[0], 0 : size[1]]
    with create_dataset(path, WriteOptions(fps=FPS, proprio=("robot0_eef_pos",))) as writer:
        for episode in range(episodes):
            shift = rng.integers(0, 255) + 3 * np.arange(steps)[:, None, None]
            channels = [rows + shift, columns + shift, np.broadcast_to(rows + columns, (steps, *size))]
            frames = (np.stack(channels, -1) % 256).astype(np.uint8)
            writer.add(
                Episode(
                    f"demo_{episode}",
                    rng.uniform(-1, 1, (steps, 7)).astype(np.float32),
                    {"front": frames, "robot0_eef_pos": rng.normal(size=(steps, 3)).astype(np.float32)},
                )
            )


def decode_all(files: list[Path]) -> int:
    """PyAV alone: every frame to RGB."""
    import av

    frames = 0
    for file in files:
        with av.open(str(file)) as container:
            container.streams.video[0].thread_type = "AUTO"
            for frame in container.decode(video=0):
                frame.to_ndarray(format="rgb24")
                frames += 1
    return frames


def timed(function: Callable[[], Any]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure_decoding(folder: Path, rounds: int) -> dict[str, float]:
    """Frames a second of both, taking turns."""
    files = sorted((folder / "videos").rglob("*.mp4"))
    cache = folder.parent / "cache"
    frames = decode_all(files)

    def load(size: int | None) -> None:
        shutil.rmtree(cache, ignore_errors=True)
        mapping = ObservationMapping(image_size=size)
        EpisodeSet.load(folder, mapping=mapping, memory_limit_bytes=0, cache_dir=cache)

    seconds: dict[str, list[float]] = {"PyAV": [], "beacon": [], f"beacon, {SIZE} pixels": []}
    for _ in range(rounds):
        seconds["PyAV"].append(timed(lambda: decode_all(files)))
        seconds["beacon"].append(timed(lambda: load(None)))
        seconds[f"beacon, {SIZE} pixels"].append(timed(lambda: load(SIZE)))
    best = {name: min(times) for name, times in seconds.items()}
    result = {f"{name}, frames/s": frames / time for name, time in best.items()}
    return result | {f"ratio, {name}": best["PyAV"] / time for name, time in best.items() if name != "PyAV"}


def measure_windows(folder: Path, batches: int, lerobot: str | None) -> dict[str, float]:
    """Windows a second to a batch."""
    start = time.perf_counter()
    windows = Windows(
        [EpisodeSet.load(folder, mapping=ObservationMapping(image_size=SIZE))], OBS_STEPS, HORIZON
    )
    order = np.random.default_rng(0).permutation(len(windows))
    room = windows.empty(BATCH)
    for first in range(0, len(order), BATCH):
        windows.gather(order[first : first + BATCH], out=room)
    epoch = time.perf_counter() - start
    rng = np.random.default_rng(1)
    chosen = [rng.integers(0, len(windows), BATCH) for _ in range(batches)]
    warm = timed(lambda: [windows.gather(index, out=room) for index in chosen])
    found = {
        "beacon, windows/s": batches * BATCH / warm,
        "beacon, first epoch with loading, windows/s": len(windows) / epoch,
    }
    if lerobot is not None:
        arguments = [lerobot, "-c", LEROBOT, str(folder), "4", "2"]
        output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
        found["LeRobotDataset + DataLoader (2 workers), windows/s"] = float(output.split()[-1])
        for ours in ("beacon, windows/s", "beacon, first epoch with loading, windows/s"):
            name = f"ratio, {ours.removeprefix('beacon, ').removesuffix(', windows/s')}"
            found[name] = found[ours] / float(output.split()[-1])
    return found


def peak_of_loading(folder: Path) -> float:
    """Peak MiB of a process that loads a folder into the mapped frame store."""
    code = (
        "import sys; from pathlib import Path; from beacon.data import EpisodeSet;"
        "EpisodeSet.load(sys.argv[1], memory_limit_bytes=0, cache_dir=sys.argv[2]);"
        # Not ru_maxrss, which a process inherits from the one that started it.
        "lines = Path('/proc/self/status').read_text().splitlines();"
        "print(next(int(line.split()[1]) / 1024 for line in lines if line.startswith('VmHWM')))"
    )
    with tempfile.TemporaryDirectory() as cache:
        arguments = [sys.executable, "-c", code, str(folder), cache]
        return float(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def measure_memory(folder: Path, counts: list[int]) -> dict[str, float]:
    """Peak memory by number of episodes, and the largest against the smallest."""
    peaks = {}
    for count in counts:
        path = folder / f"{count}"
        write_folder(path, count, 20, (64, 64))
        peaks[f"{count} episodes, MiB"] = peak_of_loading(path)
    values = list(peaks.values())
    return peaks | {"ratio": values[-1] / values[0]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the numbers here, beside those of other parts")
    parser.add_argument("--quick", action="store_true", help="smaller, for trying")
    parser.add_argument("--lerobot", help="a Python interpreter that has LeRobot")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        episodes, steps = (4, 100) if options.quick else (20, 100)
        large = folder / "large"
        if set(options.parts) & {"decode", "windows"}:
            write_folder(large, episodes, steps, (480, 640))
        if "decode" in options.parts:
            results["decode, 480 × 640 AV1"] = measure_decoding(large, 3 if options.quick else 5)
        if "windows" in options.parts:
            results["windows"] = measure_windows(large, 20 if options.quick else 200, options.lerobot)
        if "memory" in options.parts:
            results["peak memory"] = measure_memory(folder, [10, 100] if options.quick else [10, 100, 1000])
    table = Table("what", "", "")
    for what, numbers in results.items():
        for name, value in numbers.items():
            table.add_row(what, name, f"{value:,.3g}" if value < 100 else f"{value:,.0f}")
    Console().print(table)
    if options.json is not None:
        known = json.loads(options.json.read_text()) if options.json.exists() else {}
        options.json.write_text(json.dumps(known | results, indent=2) + "\n")


if __name__ == "__main__":
    main()
