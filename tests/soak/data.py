"""Damaged and hostile datasets of every format: success or one line, in bounded time and memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from raw_datasets import write_raw
from raw_lerobot import write_v21, write_v30, write_zarr

from soak.campaign import Attempt, Campaign, Randomness
from soak.mutations import mutate_dataset
from soak.sandbox import Said, Workers, run_cli

LENGTHS = (3, 2)
LARGEST_MEMORY = 1500  # MB beyond what a process has after its imports
LONGEST = 30.0  # seconds of a processor
WRITERS: dict[str, Callable[[Path], Path]] = {
    "robomimic": lambda folder: write_raw(folder / "demos.hdf5", lengths=LENGTHS),
    "MimicGen": lambda folder: write_raw(folder / "demos.hdf5", lengths=LENGTHS, mimicgen=True),
    "LeRobot v2.1": lambda folder: write_v21(folder / "data", lengths=LENGTHS),
    "LeRobot v3.0": lambda folder: write_v30(folder / "data", lengths=LENGTHS),
    "LeRobot v3.0, images": lambda folder: write_v30(folder / "data", lengths=LENGTHS, images=True),
    "zarr folder": lambda folder: write_zarr(folder / "data.zarr", lengths=LENGTHS),
    "zarr zip": lambda folder: write_zarr(folder / "data.zarr.zip", lengths=LENGTHS),
}
# What is asked of a dataset besides `check`; the last word is the dataset.
QUESTIONS: tuple[tuple[str, ...], ...] = (
    ("data", "inspect"),
    ("data", "inspect", "--html", "{out}/page.html"),
    ("data", "inspect", "--contact-sheet", "{out}/sheet.png"),
    ("data", "card"),
    ("data", "convert", "{dataset}", "{out}/copy.hdf5"),
    ("data", "convert", "{dataset}", "{out}/copy", "--images", "--fps", "10"),
)


class Data(Campaign):
    """Each attempt is one mutated dataset."""

    name = "data"
    what = (
        "datasets of every format (robomimic and MimicGen HDF5, LeRobot v2.1 and v3.0, zarr folder "
        "and zip) with bytes or structures changed: check, inspect, card and convert succeed or say "
        f"one line with exit code 2, within {LONGEST:g} s of a processor and {LARGEST_MEMORY} MB"
    )
    unit = "datasets"
    share = 0.2
    sample = 40
    parallel = True
    planned = 10_000

    def prepare(self) -> None:
        """Write a sound dataset of each format."""
        for name, write in WRITERS.items():
            folder = self._sound(name)
            if not folder.exists():
                partial = folder.with_name(folder.name + ".partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                write(partial)
                partial.rename(folder)
        self._workers = Workers(cpu_seconds=LONGEST)

    def _sound(self, name: str) -> Path:
        return self.folder / "sound" / name.replace(", ", "-").replace(" ", "-")

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        """Change a dataset, and ask two things of it."""
        name = list(WRITERS)[number % len(WRITERS)]
        # All of it in the worker: on a busy machine this process would be what the lanes wait for.
        answer = self._workers.here.call(_ask, self._sound(name), self.lane, rng)
        problem = answer.problem or answer.value
        if problem is None and answer.memory > LARGEST_MEMORY:
            problem = f"{answer.memory:.0f} MB"
        if problem is not None:
            self._keep(number, self.lane / "spoilt")
            return Attempt(1, f"{name}, {problem}")
        return Attempt(1, measured={"memory (MB)": answer.memory})

    def _keep(self, number: int, spoilt: Path) -> None:
        """Keep what was not survived, to look at it."""
        kept = self.folder / "failures" / str(number)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(spoilt, kept, symlinks=True)

    def close(self) -> None:
        """End the workers."""
        self._workers.close()


def _ask(sound: Path, lane: Path, rng: Randomness) -> str | None:
    """Change a dataset, and ask two things of it; what is wrong with an answer."""
    spoilt, out = lane / "spoilt", lane / "out"
    for folder in (spoilt, out):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, spoilt)
    out.mkdir()
    dataset = next(spoilt.iterdir())
    how = mutate_dataset(dataset, rng)
    for question in (("data", "check"), QUESTIONS[int(rng.integers(len(QUESTIONS)))]):
        words = [word.replace("{out}", str(out)).replace("{dataset}", str(dataset)) for word in question]
        words += [] if "{dataset}" in question else [str(dataset)]
        problem = _wrong(run_cli(words), out, question)
        if problem is not None:
            return f"{how}: {' '.join(words[:2])}: {problem}"
    return None


def _wrong(said: Said, out: Path, question: tuple[str, ...]) -> str | None:
    """What is wrong with an answer."""
    if "Traceback" in said.err:
        return said.end
    if left := [path.name for path in out.rglob("*" if said.code else ".*")]:
        return f"exit code {said.code} left {left[0]} behind"
    if said.code == 0:
        return None
    if said.code == 2 and (said.one_line or (question == ("data", "check") and not said.err)):
        return None
    return said.end
