"""Disks that fail: every write, fsync, rename and creation once; torn lines, flipped bits, small disks."""

from __future__ import annotations

import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import numpy as np

from soak import faults, jobs
from soak.campaign import Attempt, Campaign, Randomness
from soak.detached import Detached
from soak.faults import Fault
from soak.jobs import Job
from soak.sandbox import Said, context

SAMPLE = ("train beacon", "convert to HDF5")
JOBS = ("train beacon", "train cotrain", *SAMPLE[1:], "convert to LeRobot", "curate", "export")
DAMAGED = "train beacon, keeping three checkpoints"  # of which files are damaged
DAMAGES = 300  # torn lines and flipped bits in the whole campaign
DISKS = 100  # small file systems
LARGEST_DISK = 700  # kB; a run needs about as much


class Storage(Campaign):
    """Calls that fail, all of them, damaged files and small disks, in random order."""

    name = "storage"
    what = (
        "the n-th write, fsync, rename or creation of a file fails, for all n, once or from then on "
        "(full disk, quota, read-only, input/output error), in training, conversion, curation and "
        "export; small disks; torn lines of metrics.jsonl; flipped bits of checkpoints: one line, "
        "nothing half-written, and asked again the result is the same to the bit"
    )
    unit = "faults"
    share = 0.15
    sample = 4
    parallel = True

    def prepare(self) -> None:
        """Do every job once, and count its calls."""
        context()
        data = self.folder / "data"
        jobs.make_data(data)
        run = self._whole("train beacon") / "run"
        training = [
            jobs.short_training("train beacon", data, "beacon", steps=4, keep=1),
            jobs.short_training("train cotrain", data, "cotrain", steps=4, keep=1),
            jobs.short_training(DAMAGED, data, "beacon", steps=6, keep=3),
        ]
        every = {job.name: job for job in [*training, *jobs.file_jobs(data, run)]}
        self._jobs = {name: every[name] for name in (*(SAMPLE if self.small else JOBS), DAMAGED)}
        calls = {name: self._count(job) for name, job in self._jobs.items()}
        attempts = [
            (name, kind, number + 1)
            for name, counts in calls.items()
            if name != DAMAGED
            for kind, count in counts.items()
            for number in range(count)
        ]
        attempts += [(DAMAGED, "damage", number) for number in range(DAMAGES)]
        if not self.small and self._disk("64k"):
            attempts += [("", "disk", number) for number in range(DISKS)]
        # Counts of calls change with the code; "for all n" holds for one plan alone.
        self.plan = sha256(repr(attempts).encode()).hexdigest()[:12]
        order = np.random.default_rng(len(attempts)).permutation(len(attempts))
        self._attempts = [attempts[index] for index in order]
        self.planned = len(self._attempts)

    def _whole(self, name: str) -> Path:
        return self.folder / "whole" / name.replace(",", "").replace(" ", "-")

    def _count(self, job: Job) -> dict[str, int]:
        """How many calls of each kind the job makes; its result is kept to compare with."""
        whole = self._whole(job.name)
        counts = whole.with_suffix(".counts")
        if not counts.exists():
            shutil.rmtree(whole, ignore_errors=True)
            whole.mkdir(parents=True)
            last = self._run(job, whole, Fault("write", 0))
            if last.code != 0:
                raise RuntimeError(f"{job.name} fails without any fault: {last.end}")
            (self.lane / "calls").rename(counts)
        return dict(zip(faults.KINDS, map(int, counts.read_text().split()), strict=True))

    def _run(self, job: Job, out: Path, fault: Fault | None = None) -> Said:
        log = self.lane / "log.txt"
        if fault is None:
            return Detached(job.work, out, log=log).end()
        calls = self.lane / "calls"
        return Detached(faults.run_with_fault, fault, out, calls, job.work, log=log).end()

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        """One fault, what is said of it, and the same command again."""
        name, kind, call = self._attempts[number]
        if kind == "disk":
            return self._full_disk(rng)
        if kind != "damage":
            return self._failing_call(name, kind, call, rng)
        out = self._fresh()
        shutil.copytree(self._whole(DAMAGED), out, dirs_exist_ok=True)
        return _torn_line(self, out, rng) if rng.random() < 0.3 else _flipped_bit(self, out, rng)

    def _fresh(self) -> Path:
        out = self.lane / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        return out

    def _failing_call(self, name: str, kind: str, call: int, rng: Randomness) -> Attempt:
        job, out = self._jobs[name], self._fresh()
        errors = ["read-only", "permission", "full disk"] if kind == "create" else [*faults.ERRORS][:3]
        fault = Fault(kind, call, str(rng.choice(errors)), bool(rng.integers(2)))
        said = self._run(job, out, fault)
        problem = _unclear(said)
        if problem is None and said.code == 0:  # only what is beside the point may fail in silence
            problem = self._differs(job, out)
        if problem is None:
            problem = self._again(job, out)
        return Attempt(1, problem and f"{name}, {fault}: {problem}")

    def _again(self, job: Job, out: Path) -> str | None:
        """The same command on a disk that works."""
        said = self._run(job, out)
        if said.code != 0:
            return f"asked again, {said.end}"
        return self._differs(job, out)

    def _differs(self, job: Job, out: Path) -> str | None:
        try:
            job.compare(self._whole(job.name), out)
        except (AssertionError, OSError) as error:
            return f"another result: {str(error)[:300]}"
        return None

    # Small file systems

    def _disk(self, size: str) -> bool:
        """Mount a file system of this size, where one may."""
        disk = self.lane / "disk"
        disk.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)
        return mounted

    def _full_disk(self, rng: Randomness) -> Attempt:
        """A disk that fills up; with room for the rest, the same command ends as if there had been enough."""
        job = self._jobs[str(rng.choice(["train beacon", "convert to LeRobot", "convert to HDF5"]))]
        disk, size = self.lane / "disk", int(rng.integers(8, LARGEST_DISK))
        disk.mkdir(exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)]
        subprocess.run(mount, check=True)
        try:
            said = self._run(job, disk)
            problem = _unclear(said)
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            problem = problem or self._again(job, disk)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)
        return Attempt(1, problem and f"{job.name} on a disk of {size} kB: {problem}")


def _unclear(said: Said) -> str | None:
    """Whether a failure was not one line that says what cannot be written."""
    lines = [line for line in said.err.splitlines() if line.startswith("beacon: ")]
    lines = [line for line in lines if not line.startswith("beacon: warning: ")]
    if "Traceback" in said.err or said.code not in (0, 1):
        return said.end
    if said.code == 1 and (len(lines) != 1 or "cannot write" not in lines[0]):
        return said.end
    return None


def _torn_line(campaign: Storage, out: Path, rng: Randomness) -> Attempt:
    """The last line of metrics.jsonl was cut off, or is something else."""
    step = _step_back(out)
    file = out / "run" / "metrics.jsonl"
    content = file.read_bytes()
    torn = content[: len(content) - int(rng.integers(1, 60))]
    garbage = bytes(rng.bytes(int(rng.integers(1, 40)))) if rng.random() < 0.5 else b""
    file.write_bytes(torn + garbage)
    problem = campaign._again(campaign._jobs[DAMAGED], out)
    return Attempt(1, problem and f"a torn line, resumed at step {step}: {problem}")


def _flipped_bit(campaign: Storage, out: Path, rng: Randomness) -> Attempt:
    """One bit of a file of the newest checkpoint."""
    step = _step_back(out)
    folder = out / "run" / "checkpoints" / f"{step:08d}"
    files = sorted(path for path in folder.iterdir() if path.stat().st_size)
    file = files[int(rng.integers(len(files)))]
    content = bytearray(file.read_bytes())
    position = int(rng.integers(len(content)))
    content[position] ^= 1 << int(rng.integers(8))
    file.write_bytes(content)
    job = campaign._jobs[DAMAGED]
    said = campaign._run(job, out)
    where = f"{file.name}, byte {position}"
    if said.code == 0:  # in the checksums themselves a bit may say nothing, such as in a space
        problem = campaign._differs(job, out)
        return Attempt(1, problem and f"{where}: not noticed: {problem}")
    lines = [line for line in said.err.splitlines() if line.startswith("beacon: ")]
    if said.code != 2 or len(lines) != 1 or "Traceback" in said.err or "damaged" not in lines[0]:
        return Attempt(1, f"{where}: {said.end}")
    if f"write {step - 2:08d} into" not in lines[0]:
        return Attempt(1, f"{where}: the one before is not offered: {lines[0]}")
    (folder.parent / "last").write_text(f"{step - 2:08d}\n")
    problem = campaign._again(job, out)
    return Attempt(1, problem and f"{where}: from the one before: {problem}")


def _step_back(out: Path) -> int:
    """Make a finished run one that has its newest checkpoint two steps before the end."""
    checkpoints = out / "run" / "checkpoints"
    newest = int((checkpoints / "last").read_text())
    shutil.rmtree(checkpoints / f"{newest:08d}")
    step = int(json.loads((checkpoints / f"{newest - 2:08d}" / "trainer.json").read_text())["step"])
    (checkpoints / "last").write_text(f"{step:08d}\n")
    return step
