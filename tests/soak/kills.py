"""SIGKILL at random moments; asked again, the work ends as if it had never been interrupted."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from soak import jobs
from soak.campaign import Attempt, Campaign, Randomness
from soak.detached import Detached
from soak.jobs import Job
from soak.sandbox import context

LARGEST_CHAIN = 4  # kills of one piece of work
ROUNDS = 6  # attempts of each job in the whole campaign
LONGEST_PAUSE = 0.02  # seconds after the random moment, so that kills also meet a process that waits
PATIENCE = 60.0  # seconds to wait for what a job watches for
THE_RUN, OF_A_RUN = "train beacon", ("curate", "export")  # which need a finished run
SAMPLE = ("train beacon, saving", "train beacon-paper, two sources", "convert to HDF5")


class Kills(Campaign):
    """Each attempt is a chain of kills of one piece of work, then its end and a comparison."""

    name = "kills"
    what = (
        "SIGKILL at random moments of training (every method; also in two processes), generation, "
        "evaluation, conversion, curation, export, suites and saving; asked again, the result is the same "
        "to the bit and no process is left"
    )
    unit = "kills"
    share = 0.3
    sample = 2
    parallel = True

    def prepare(self) -> None:
        """Make the datasets, and say what there is to kill."""
        context(simulation=not self.small)
        self._one_at_a_time = threading.Lock()
        data = self.folder / "data"
        jobs.make_data(data)
        everything = jobs.training_jobs(data)
        run = self.folder / "whole" / THE_RUN.replace(" ", "-") / "run"
        everything += jobs.file_jobs(data, run)
        if self.small:
            everything = [job for job in everything if job.name in SAMPLE]
        else:
            everything += [*jobs.simulation_jobs(data), *jobs.suite_jobs()]
        self.jobs = everything
        self.planned = ROUNDS * len(self.jobs)

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        """Kill one job several times, let it end, and compare."""
        job = self.jobs[number % len(self.jobs)]
        with self._one_at_a_time:
            if job.name in OF_A_RUN:
                self._whole(next(first for first in self.jobs if first.name == THE_RUN))
            whole, seconds = self._whole(job)
        out, log = self.lane / "out", self.lane / "log.txt"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        kills = 0
        for _ in range(int(rng.integers(1, LARGEST_CHAIN + 1))):
            process = Detached(job.work, out, log=log)
            ended = self._wait(process, job, out, float(rng.uniform(0, seconds)))
            ended = ended or process.wait(float(rng.uniform(0, LONGEST_PAUSE)))
            killed = process.kill()
            if left := process.orphans():
                return Attempt(kills + 1, f"{job.name}: {len(left)} processes outlive a kill")
            if ended or not killed:
                break
            kills += 1
        last = Detached(job.work, out, log=log).end()
        if last.code != 0:
            return Attempt(kills, f"{job.name}: after {kills} kills {last.end}")
        try:
            job.compare(whole, out)
        except (AssertionError, OSError) as error:
            return Attempt(kills, f"{job.name}: after {kills} kills another result: {str(error)[:300]}")
        return Attempt(kills)

    @staticmethod
    def _wait(process: Detached, job: Job, out: Path, seconds: float) -> bool:
        """Let it work until the moment of the kill; whether it ended before."""
        if job.watch is None:
            return process.wait_for_work(seconds)
        until = time.monotonic() + PATIENCE
        while not any(out.glob(job.watch)) and time.monotonic() < until:
            if process.wait(0.0005):
                return True
        return False

    def _whole(self, job: Job) -> tuple[Path, float]:
        """The result without interruption, and the processor's time that it takes; kept between soaks."""
        folder = self.folder / "whole" / job.name.replace(",", "").replace(" ", "-")
        clock = folder.with_suffix(".seconds")
        if not clock.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            process = Detached(job.work, folder, log=self.folder / "log.txt")
            last = process.end()
            if last.code != 0:
                raise RuntimeError(f"{job.name} fails without any kill: {last.end}")
            clock.write_text(str(process.worked))
        return folder, float(clock.read_text())
