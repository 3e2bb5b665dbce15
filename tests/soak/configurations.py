"""Hostile command lines, config.yaml files and run folders: the answer is success or one line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import yaml
from report_runs import write_evaluation

from soak import jobs
from soak.campaign import Attempt, Campaign, Randomness
from soak.command_lines import templates
from soak.detached import Detached
from soak.mutations import STRUCTURED, mutate_bytes, mutate_dataset, mutate_tree
from soak.sandbox import Said, Workers, context, run_cli

LONGEST = 60.0  # seconds of a processor
# What is asked of a run folder with a damaged file.
QUESTIONS: tuple[tuple[str, ...], ...] = (
    ("train", "--resume", "--out", "{run}"),
    ("verify", "{run}"),
    ("weights", "{run}"),
    ("report", "{run}", "--map", "none"),
    ("export", "{run}", "{out}/exported"),
    ("compare", "{run}", "{run}"),
)
FINDINGS = {"verify": 1, "compare": 3, "doctor": 1}  # exit codes that say what was found, not what went wrong


class Configurations(Campaign):
    """Of three attempts, one is a command line, one a config.yaml, one another file of a run folder."""

    name = "configurations"
    what = (
        "random and hostile option values of every verb, config.yaml files and other files of run "
        "folders with bytes or values changed: success, or one line with exit code 2 (1 where a file "
        f"cannot be written), within {LONGEST:g} s of a processor"
    )
    unit = "configurations"
    share = 0.15
    sample = 30
    parallel = True
    planned = 5_000

    def prepare(self) -> None:
        """Train a tiny run to work on."""
        context(simulation=not self.small)
        self._data, self._run = self.folder / "data", self.folder / "sound" / "run"
        jobs.make_data(self._data)
        if not (self._run / "eval").exists():
            shutil.rmtree(self._run.parent, ignore_errors=True)
            self._run.parent.mkdir(parents=True)
            job = next(job for job in jobs.training_jobs(self._data) if job.name == "train beacon")
            last = Detached(job.work, self._run.parent, log=self.folder / "log.txt").end()
            if last.code != 0:
                raise RuntimeError(f"the run fails without any damage: {last.end}")
            write_evaluation(self._run, [1, 0, 1, 1])
        self._pipe = self.folder / "pipe"
        if not self._pipe.exists():
            os.mkfifo(self._pipe)
        self._templates = templates(simulation=not self.small)
        self._workers = Workers(cpu_seconds=LONGEST)

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        """Ask one thing."""
        words: list[str] | None = None
        if number % 3 == 0:
            words = self._templates[int(rng.integers(len(self._templates)))].draw(rng)
        folders = {"data": self._data, "out": self.lane / "out", "pipe": self._pipe}
        answer = self._workers.here.call(_ask, self._run, folders, words, rng, number % 3 == 1)
        problem = f"{words}: {answer.problem}" if answer.problem else answer.value
        if problem is None:
            return Attempt(1, measured={"memory (MB)": answer.memory})
        kept = self.folder / "failures" / str(number)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.lane / "out", kept, symlinks=True, ignore_dangling_symlinks=True)
        return Attempt(1, problem)

    def close(self) -> None:
        """End the workers."""
        self._workers.close()


def _ask(
    run: Path, folders: dict[str, Path], words: list[str] | None, rng: Randomness, config: bool
) -> str | None:
    """A command line, or a question about a run whose files are damaged; what is wrong with the answer.

    Args:
        run: a sound one.
        folders: what placeholders stand for; relative paths lead into ``out``.
        words: the command line.
        rng: decides about the damage where there are no words.
        config: whether config.yaml is damaged, or something else.
    """
    out = folders["out"]
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(run, out / "damaged")
    how = "command line"
    if words is None:
        how = _damage(out / "damaged", rng, config=config)
        words = list(QUESTIONS[int(rng.integers(len(QUESTIONS)))])
    filled = words
    for name, folder in (folders | {"run": out / "damaged"}).items():
        filled = [word.replace(f"{{{name}}}", str(folder)) for word in filled]
    os.chdir(out)
    problem = _wrong(run_cli(filled), words)
    return problem and f"{how}: beacon {' '.join(words)[:600]!r}: {problem}"


def _damage(run: Path, rng: Randomness, *, config: bool) -> str:
    """Change a file of a run; says which."""
    if config:
        file = run / "config.yaml"
        if rng.random() < 0.7:
            tree = mutate_tree(yaml.safe_load(file.read_text()), rng)
            file.write_text(yaml.safe_dump(tree, allow_unicode=bool(rng.integers(2))))
        else:
            file.write_bytes(mutate_bytes(file.read_bytes(), rng))
        return "config.yaml"
    files = sorted(file for file in run.rglob("*") if file.is_file() and file.name != "config.yaml")
    # Small and structured files are where the branches are.
    files += 3 * [file for file in files if file.suffix in STRUCTURED or file.name == "last"]
    return mutate_dataset(files[int(rng.integers(len(files)))], rng)


def _wrong(said: Said, words: list[str]) -> str | None:
    """What is wrong with an answer."""
    if "Traceback" in said.err or "Traceback" in said.out:
        return said.end
    if said.code == 0 or (said.code == FINDINGS.get(words[0]) and not said.err):
        return None
    if said.code == 2 and words[:2] == ["data", "check"] and not said.err:
        return None
    if said.one_line and (said.code == 2 or (said.code == 1 and "cannot write" in said.err)):
        return None
    return said.end
