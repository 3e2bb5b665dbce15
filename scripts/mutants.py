"""Break the code on purpose, one mutant at a time, and see that the tests which guard it fail.

A mutant is a file, a text that occurs in it once, what to put in its place, and the tests of which one must
fail; scripts/mutants.toml lists them. Every mutant is tried in a private copy of the tree, never in your own.
First the tests have to pass without any mutant. It is not part of `make test`; with all mutants it takes some
ten minutes on one core.

    python scripts/mutants.py                     all of them
    python scripts/mutants.py --only knn-no-unit classifier-sign
    python scripts/mutants.py --list

Exit code: 0 if all were killed, 1 if one survived, 2 if the list or the tests are wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")
TIMEOUT = 600  # seconds of the tests of one mutant; one that hangs counts as killed
PASSED, FAILED = 0, 1  # exit codes of pytest
KILLED, SURVIVED, BROKEN = "killed", "SURVIVED", "BROKEN"


@dataclass(frozen=True)
class Mutant:
    """One way to break the code."""

    name: str
    file: str  # relative to the root of the project
    pattern: str  # occurs once in the file
    replacement: str
    tests: tuple[str, ...]  # what pytest is given; at least one of them must fail

    def apply(self, text: str) -> str:
        """The file with the mutant in it."""
        count = text.count(self.pattern)
        if count != 1:
            raise ValueError(f"{self.name}: {self.pattern!r} occurs {count} times in {self.file}, not once")
        return text.replace(self.pattern, self.replacement)


def load(path: Path = LIST) -> list[Mutant]:
    """All mutants of the list."""
    entries = tomllib.loads(path.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


@contextmanager
def private_copy() -> Iterator[Path]:
    """All files that git knows or would add, as they are now, in a folder that is removed afterwards."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, Path(folder) / name)
        yield Path(folder)


def run_tests(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Exit code of pytest in a tree, and what it said; a run that hangs has failed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",  # the next mutant may have the same size and time
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return FAILED, "the tests did not end"
    return done.returncode, done.stdout + done.stderr


def try_mutant(tree: Path, mutant: Mutant) -> str:
    """KILLED, SURVIVED, or BROKEN if the tests could not be run; the tree is as before afterwards."""
    file = tree / mutant.file
    sound = file.read_text()
    file.write_text(mutant.apply(sound))
    try:
        code, output = run_tests(tree, mutant.tests)
    finally:
        file.write_text(sound)
    if code not in (PASSED, FAILED):
        print(output[-2000:], file=sys.stderr)
        return BROKEN
    return KILLED if code == FAILED else SURVIVED


def choose(mutants: Sequence[Mutant], names: Sequence[str]) -> list[Mutant]:
    """Those with these names, or all."""
    unknown = set(names) - {mutant.name for mutant in mutants}
    if unknown:
        raise ValueError(f"--only {' '.join(sorted(unknown))}: no such mutant; see --list")
    return [mutant for mutant in mutants if not names or mutant.name in names]


def try_all(mutants: Sequence[Mutant]) -> dict[str, str]:
    """Try each mutant, say how it went, and return that by name."""
    outcomes = {}
    with private_copy() as tree:
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        code, output = run_tests(tree, tests)
        if code != PASSED:
            raise ValueError(f"the tests fail without any mutant\n{output[-2000:]}")
        for mutant in mutants:
            outcomes[mutant.name] = try_mutant(tree, mutant)
            print(f"{outcomes[mutant.name]:8}  {mutant.name}", flush=True)
    return outcomes


def main() -> int:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names of mutants to try")
    parser.add_argument("--list", action="store_true", help="list all mutants and end")
    arguments = parser.parse_args()
    try:
        mutants = choose(load(), arguments.only)
        if arguments.list:
            for mutant in mutants:
                print(f"{mutant.name:36} {mutant.file}")
            return 0
        outcomes = list(try_all(mutants).values())
    except ValueError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    print(f"{outcomes.count(KILLED)} of {len(mutants)} killed")
    return 2 if BROKEN in outcomes else 1 if SURVIVED in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
