"""How quickly the desk opens and scrolls: python benchmarks/desk.py [--demos N] [--json F] [--screenshot F].

A dataset of 1,000 synthetic demonstrations and a small target are written to a temporary folder. Then the
command is started as a user starts it, and its page is opened in headless Chromium. Times are from the
command to the printed address, from there to the drawn grid, and to the last thumbnail in view; scrolling is
the time between two frames of the browser while the grid runs from its first row to its last, and what the
page's main thread uses of a processor for one, which hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import numpy as np

ROOT = Path(__file__).parents[1]
SIZE, STEPS, TARGETS = 64, 40, 10
SCROLL = """new Promise((done) => {
  const grid = document.getElementById("grid"), times = [], last = grid.scrollHeight - grid.clientHeight;
  const frames = 240, step = (now) => {
    times.push(now);
    grid.scrollTop = (last * times.length) / frames;
    if (times.length <= frames) requestAnimationFrame(step);
    else done(times.map((time, i) => time - times[i - 1]).slice(1));
  };
  requestAnimationFrame(step);
})"""


def write_dataset(path: Path, demos: int, seed: int = 0) -> None:
    """A square that moves over a picture, another way in every demonstration; in robomimic's layout."""
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:  # by hand: our writer makes every demonstration safe on the disk
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
        for number in range(demos):
            way = np.linspace(rng.uniform(0, 1, 2), rng.uniform(0, 1, 2), STEPS)
            images = np.full((STEPS, SIZE, SIZE, 3), rng.integers(30, 120, 3), np.uint8)
            for image, (row, column) in zip(images, (way * (SIZE - 12)).astype(int), strict=True):
                image[row : row + 12, column : column + 12] = (230, 80, 60)
            position = np.c_[way, np.zeros(STEPS)].astype(np.float32)
            demo = data.create_group(f"demo_{number}")
            demo["actions"] = np.diff(position, axis=0, append=position[-1:])
            demo["obs/agentview_image"], demo["obs/robot0_eef_pos"] = images, position


@contextmanager
def desk(folder: Path) -> Iterator[tuple[str, float, float]]:
    """The command in a process of its own: the page's address, the seconds until it was printed, and how much
    of a processor they took.
    """
    code = "from beacon.cli.main import entry; entry()"
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", code, "desk", "sim.hdf5", "--target", "real.hdf5"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[0]
        seconds = time.monotonic() - began
        used = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        yield address, seconds, sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
    finally:
        process.terminate()
        process.wait()


def measure(demos: int, screenshot: Path | None) -> dict[str, Any]:
    """All numbers, in seconds and milliseconds."""
    sys.path.insert(0, str(ROOT / "tests" / "report"))
    chromium: Any = import_module("browser")  # the tests' own
    with tempfile.TemporaryDirectory() as name, chromium.Browser() as browser:
        folder = Path(name)
        write_dataset(folder / "sim.hdf5", demos)
        write_dataset(folder / "real.hdf5", TARGETS, seed=1)
        with desk(folder) as (address, started, used):
            drawn = browser.open(address)
            began = time.monotonic()
            browser.wait("[...document.querySelectorAll('.cell img')].every((shown) => shown.naturalWidth)")
            pictures = time.monotonic() - began
            before = browser.busy()
            spans = sorted(browser.run(SCROLL))
            busy = browser.busy() - before
            if screenshot is not None:
                browser.press("Home")
                browser.press("Enter")
                browser.wait("document.querySelector('#other canvas')?.dataset.step === '0'")
                browser.press("d")
                for _ in range(18):
                    browser.press("ArrowRight")
                browser.wait("document.querySelector('#other canvas').dataset.step === '18'")
                browser.wait("document.getElementById('decision').textContent.startsWith('drop')")
                browser.screenshot(screenshot)
    return {
        "demonstrations": demos,
        "command_to_address_seconds": round(started, 2),
        "command_to_address_processor_seconds": round(used, 2),
        "address_to_grid_seconds": round(drawn, 2),
        "thumbnails_in_view_seconds": round(pictures, 2),
        "open_seconds": round(started + drawn, 2),
        "frame_median_ms": round(statistics.median(spans), 1),
        "frame_95_percent_ms": round(spans[int(0.95 * len(spans))], 1),
        "frame_longest_ms": round(spans[-1], 1),
        "main_thread_ms_a_frame": round(1000 * busy / len(spans), 2),
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demos", type=int, default=1000)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--screenshot", type=Path, help="also save a picture of the page")
    options = parser.parse_args()
    numbers = measure(options.demos, options.screenshot)
    for name, value in numbers.items():
        print(f"{name.replace('_', ' '):32} {value}")
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
