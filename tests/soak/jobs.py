"""What is killed and starved: commands on tiny data that take a second or a few; how results compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from demonstrations import make_dataset
from small_experiments import small_experiment, with_data
from tiny_runs import TINY_OPTIONS, assert_same_runs

Compare = Callable[[Path, Path], None]  # raises AssertionError
OUT, DATA = "{out}", "{data}"  # in command lines: the folder of one attempt, and of the datasets
TRAINING = (
    *("--steps", "8", "--steps-per-epoch", "2", "--batch-size", "8", "--log-every", "1"),
    *("--checkpoint-every", "1", "--keep", "2", "--device", "cpu", "--threads", "1", "--seed", "3"),
)
# Networks that methods train for themselves, in a few steps.
FEW_STEPS = {
    "ambient": ("--classifier-steps", "5"),
    "deminf": ("--vae.hidden", "16", "--vae.steps", "5"),
    "iwr": ("--vae.hidden", "16", "--vae.steps", "5"),
}
CLOCK = {"seconds", "when", "machine", "versions", "provenance"}  # what may differ between two results


@dataclass(frozen=True)
class Command:
    """A command line, with placeholders for folders."""

    words: tuple[str, ...]
    data: Path

    def __call__(self, out: Path) -> int:
        from beacon.cli.main import main

        return main([word.replace(OUT, str(out)).replace(DATA, str(self.data)) for word in self.words])


@dataclass(frozen=True)
class Suite:
    """Two experiments of a suite, one after the other in a worker process."""

    def __call__(self, out: Path) -> int:
        from beacon.processes import Processes
        from beacon.suites.results import Folders
        from beacon.suites.runner import check, run_experiments

        if not (out / "work" / "data").exists():
            with_data(out)
        experiments = [small_experiment("beacon", 8), small_experiment("cotrain", 8)]
        with Processes(1) as processes:
            check(run_experiments(experiments, Folders(out / "work", out / "results"), processes))
        return 0


@dataclass(frozen=True)
class Job:
    """Work that may be cut off at any moment and then be asked for again.

    Args:
        name: in words.
        work: called with a folder of its own; the second call goes on or begins again.
        compare: that two such folders hold the same.
        watch: wait for a file of this pattern before a kill, in place of a random moment alone.
    """

    name: str
    work: Callable[[Path], int]
    compare: Compare
    watch: str | None = None


def make_data(folder: Path) -> None:
    """Datasets that all jobs share; those that are there already are left."""
    made: dict[str, dict[str, Any]] = {
        "sim.hdf5": {"count": 3, "steps": 6, "seed": 1},
        "other.hdf5": {"count": 2, "steps": 6, "seed": 2, "background": (10, 90, 10), "mirrored": True},
        "real.hdf5": {"count": 2, "steps": 5, "seed": 3, "background": (90, 60, 30)},
    }
    for name, options in made.items():
        if not (folder / name).exists():
            make_dataset(folder / name, options.pop("count"), **options)


def training_jobs(data: Path) -> list[Job]:
    """Every method; BEACON also with several sources and held-out data, and in two processes where it can."""
    from beacon.methods import METHODS

    jobs = []
    for name, method in METHODS.items():
        sources = ("--source", f"{DATA}/sim.hdf5") if method.needs_source else ()
        target = ("--target", f"{DATA}/real.hdf5") if method.needs_target else ()
        jobs.append(_training(f"train {name}", data, "--method", name, *sources, *target))
    both = ("--source", f"{DATA}/sim.hdf5", "--target", f"{DATA}/real.hdf5")
    several = (*both, "--source", f"{DATA}/other.hdf5")
    validation = ("--validation", f"{DATA}/real.hdf5")
    jobs.append(_training("train beacon, two sources", data, *several, *validation))
    jobs.append(_training("train beacon-paper, two sources", data, "--method", "beacon-paper", *several))
    jobs.append(_training("train beacon, saving", data, *both, watch="run/checkpoints/.*.partial"))
    if _takes_processes():
        for name in ("beacon", "beacon-paper", "cotrain"):
            more = ("--method", name, "--processes", "2")
            jobs.append(_training(f"train {name}, two processes", data, *both, *more))
    return jobs


def short_training(name: str, data: Path, method: str, *, steps: int, keep: int) -> Job:
    """A training with as few checkpoints as tell something.

    Args:
        name: in words.
        data: folder of the datasets.
        method: of those that use source and target.
        steps: two between checkpoints.
        keep: checkpoints that are left at the end.
    """
    both = ("--source", f"{DATA}/sim.hdf5", "--target", f"{DATA}/real.hdf5")
    return _training(name, data, "--method", method, *both, "--steps", str(steps), "--keep", str(keep))


def _training(name: str, data: Path, *more: str, watch: str | None = None) -> Job:
    method = more[more.index("--method") + 1] if "--method" in more else "beacon"
    words = ("train", "--out", f"{OUT}/run", "--resume", *TRAINING, *TINY_OPTIONS)
    command = Command((*words, *more, *FEW_STEPS.get(method, ())), data)
    return Job(name, command, same_runs, watch)


def _takes_processes() -> bool:
    """Whether ``beacon train`` can train in several processes."""
    from beacon.cli.parsing import option_names
    from beacon.cli.train_options import TrainArguments

    return "--processes" in option_names(TrainArguments)


def file_jobs(data: Path, run: Path) -> list[Job]:
    """Conversion, curation and export: what writes a file or folder whole or not at all.

    Args:
        data: folder of the datasets.
        run: a finished run to export from.
    """
    words = {
        "convert to HDF5": ("data", "convert", f"{DATA}/sim.hdf5", f"{OUT}/copy.hdf5", "--overwrite"),
        "convert to LeRobot": (
            *("data", "convert", f"{DATA}/sim.hdf5", f"{OUT}/lerobot", "--overwrite", "--fps", "10"),
        ),
        "convert to LeRobot, images": (
            *("data", "convert", f"{DATA}/sim.hdf5", f"{OUT}/lerobot", "--overwrite", "--fps", "10"),
            "--images",
        ),
        "curate": (
            *("weights", str(run), "--curate", f"{OUT}/best.hdf5", "--keep", "2", "--overwrite"),
            *("--source-file", f"{DATA}/sim.hdf5", "--export", f"{OUT}/weights.parquet"),
        ),
    }
    jobs = [Job(name, Command(said, data), same_files) for name, said in words.items()]
    return [*jobs, Job("export", Export(run), same_files)]


@dataclass(frozen=True)
class Export:
    """``beacon export``, which refuses a folder that is there: then it is done."""

    run: Path

    def __call__(self, out: Path) -> int:
        from beacon.cli.main import main

        folder = out / "exported"
        return 0 if folder.exists() else main(["export", str(self.run), str(folder)])


def simulation_jobs(data: Path) -> list[Job]:
    """Generation and evaluation, in this process and in workers."""
    generate = ("generate", "lift", "--demos", "3", "--seed", "4", "--out", f"{OUT}/lift.hdf5")
    evaluate = ("evaluate", "beacon.sim.policies:random_small", "--task", "lift", "--episodes", "2")
    return [
        Job("generate", Generate(data, generate), same_files),
        Job("generate, two workers", Generate(data, (*generate, "--workers", "2")), same_files),
        Job("evaluate", Command((*evaluate, "--out", f"{OUT}/result.json"), data), same_results),
    ]


@dataclass(frozen=True)
class Generate:
    """``beacon generate``, which refuses a file that is there: then it is done."""

    data: Path
    words: tuple[str, ...]

    def __call__(self, out: Path) -> int:
        return 0 if (out / "lift.hdf5").exists() else Command(self.words, self.data)(out)


def suite_jobs() -> list[Job]:
    """A grid of experiments."""
    return [Job("suite", Suite(), same_suites)]


def same_runs(first: Path, second: Path) -> None:
    """Policy, EMA, optimiser, weights and metrics are the same to the bit."""
    assert_same_runs(first / "run", second / "run")


def same_files(first: Path, second: Path) -> None:
    """The same names, and the same bytes under each."""
    names = _names(first)
    assert names == _names(second), f"{names} and {_names(second)}"
    for name in names:
        a, b = first / name, second / name
        if a.is_file() and sha256(a.read_bytes()).digest() != sha256(b.read_bytes()).digest():
            raise AssertionError(f"{name} differs")


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def same_results(first: Path, second: Path) -> None:
    """The same results but for the clock, and nothing else beside them."""
    assert _names(first) == _names(second)
    for name in _names(first):
        if name.endswith(".json"):
            assert _plain(first / name) == _plain(second / name), f"{name} differs"


def same_suites(first: Path, second: Path) -> None:
    """The same results and the same runs."""
    same_results(first / "results", second / "results")
    runs = sorted(path.name for path in (first / "work" / "runs").iterdir())
    assert runs == sorted(path.name for path in (second / "work" / "runs").iterdir())
    for name in runs:
        assert_same_runs(first / "work" / "runs" / name, second / "work" / "runs" / name)


def _plain(file: Path) -> Any:
    """JSON without what depends on clock and machine."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(inner) for name, inner in value.items() if name not in CLOCK}
        return [without(inner) for inner in value] if isinstance(value, list) else value

    return without(json.loads(file.read_text()))
