"""Hundreds of thousands of steps: memory and file handles stay flat, logs bounded and readable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from beacon.runs.metrics import read_metrics
from soak import jobs
from soak.campaign import Attempt, Campaign, Randomness

SLICE, EPOCH, LOG_EVERY = 1_000, 100, 20  # steps
STEPS = {"states": 200_000, "images": 20_000}  # of a run; images take most of the time of a step
WORDS = {"states": ("--cameras", "--features", "obs"), "images": ()}
PATIENCE = 600.0  # seconds without a new line of metrics
WARM_UP = 3  # slices of a process; checkpoints are first written in them, by libraries that need memory once
MORE_MEMORY = 16.0  # MB that a process may have more than after its warm-up
BYTES_A_LINE = 400  # of metrics.jsonl
OTHER_BYTES = 40_000_000  # of everything else in the run folder, at the end


# The smallest policy that there can be, and nothing measured more often than has to be.
SMALLEST = {
    "batch-size": "2",
    "checkpoint-every": "20",
    "device": "cpu",
    "log-every": str(LOG_EVERY),
    "policy.action-steps": "2",
    "policy.denoiser": "mlp",
    "policy.draws": "1",
    "policy.encoder.group-channels": "4",
    "policy.encoder.keypoints": "2",
    "policy.encoder.output-stride": "8",
    "policy.encoder.widths": "4 4 4 4",
    "policy.horizon": "4",
    "policy.mlp-blocks": "1",
    "policy.mlp-width": "16",
    "policy.obs-steps": "1",
    "policy.sampling-steps": "10",
    "policy.train-timesteps": "20",
    "steps-per-epoch": str(EPOCH),
    "threads": "1",
}


def command_line(run: Path, data: Path, kind: str) -> list[str]:
    """``train ...``.

    Args:
        run: folder of the run.
        data: folder of the datasets.
        kind: of the run, one of `STEPS`.
    """
    words = ["train", "--resume", "--out", str(run), "--steps", str(STEPS[kind]), *WORDS[kind]]
    words += ["--source", str(data / "sim.hdf5"), "--target", str(data / "real.hdf5")]
    return words + [word for name, value in SMALLEST.items() for word in (f"--{name}", *value.split())]


class LongRun(Campaign):
    """Each attempt watches one slice of a run that goes on between the attempts; resumed, it goes on, too."""

    name = "long-run"
    what = (
        f"a tiny model for {STEPS['states']:,} steps on states, then one for {STEPS['images']:,} on images, "
        f"looked at every {SLICE:,}: memory and file handles of the process stay what they were, metrics are "
        "readable while it writes, logs stay bounded"
    )
    unit = f"slices of {SLICE:,} steps"
    share = 0.15
    sample = 0
    planned = sum(STEPS.values()) // SLICE

    def prepare(self) -> None:
        """Make the datasets; the first attempt starts or resumes its run."""
        self._data = self.folder / "data"
        jobs.make_data(self._data)
        self._kind = ""
        self._process: subprocess.Popen[bytes] | None = None

    def _enter(self, kind: str) -> subprocess.Popen[bytes]:
        """The run of this kind, started or resumed."""
        if self._process is not None and self._kind == kind:
            return self._process
        self.close()
        self._kind, self._run = kind, self.folder / kind
        self._looks: list[tuple[float, int]] = []
        command = [sys.executable, "-c", "from beacon.cli.main import entry; entry()"]
        with (self.folder / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *command_line(self._run, self._data, kind)], stdout=log, stderr=log
            )
        return self._process

    def close(self) -> None:
        """Interrupt the run; it goes on with the next soak."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        """Wait for the end of a slice, and look."""
        first = STEPS["states"] // SLICE
        process = self._enter("states" if number < first else "images")
        wanted = (number + 1 if number < first else number + 1 - first) * SLICE
        seen, changed = -1, time.monotonic()
        while (step := self._step()) < wanted:
            if step != seen:
                seen, changed = step, time.monotonic()
            if process.poll() is not None:
                step = self._step()
                if step < wanted or process.returncode != 0:
                    last = (self.folder / "log.txt").read_text(errors="replace")[-500:]
                    return Attempt(1, f"the run ended at step {step} with {process.returncode}: {last}")
                break
            if time.monotonic() - changed > PATIENCE:
                return Attempt(1, f"no step after {step} for {PATIENCE:g} s")
            time.sleep(0.5)
        return self._look(wanted, process.pid)

    def _step(self) -> int:
        """The newest step that was logged, from the end of the file alone."""
        try:
            with (self._run / "metrics.jsonl").open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
                lines = file.read().split(b"\n")[1:-1]
        except OSError:
            return 0
        return max((int(json.loads(line)["step"]) for line in lines), default=0)

    def _look(self, step: int, process: int) -> Attempt:
        log = read_metrics(self._run / "metrics.jsonl")
        if log.damaged > 1 or len(log.train) < step // LOG_EVERY:  # the last line may be half written
            return Attempt(1, f"step {step}: {log.damaged} unreadable lines, {len(log.train)} readable ones")
        size = (self._run / "metrics.jsonl").stat().st_size
        lines = len(log.train) + len(log.refreshes)
        others = sum(path.stat().st_size for path in _files(self._run)) - size
        if size > BYTES_A_LINE * 3 * lines or others > OTHER_BYTES:
            return Attempt(1, f"step {step}: metrics.jsonl of {size:,} bytes, {others:,} bytes beside it")
        measured = {f"steps on {self._kind}": float(step), "run folder (MB)": (size + others) / 1e6}
        now = _resources(process)
        if now is None:  # it has just ended
            return Attempt(1, measured=measured)
        self._looks.append(now)
        measured |= {"memory (MB)": now[0], "file handles": float(now[1])}
        if len(self._looks) <= WARM_UP:
            return Attempt(1, measured=measured)
        first = self._looks[WARM_UP - 1]
        if now[0] > first[0] + MORE_MEMORY or now[1] > first[1] + 2:
            return Attempt(1, f"step {step}: {now[0]:.0f} MB and {now[1]} handles, after the warm-up {first}")
        return Attempt(1, measured=measured | {"memory more than after the warm-up (MB)": now[0] - first[0]})


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _resources(process: int) -> tuple[float, int] | None:
    """Resident memory in MB, and open descriptors."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
        handles = len(list(Path(f"/proc/{process}/fd").iterdir()))
    except OSError:
        return None
    lines = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return (int(lines[0].split()[1]) / 1024, handles) if lines else None
