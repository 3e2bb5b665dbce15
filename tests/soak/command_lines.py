"""Hostile command lines of every verb, such that a sound one does little work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tiny_runs import TINY_OPTIONS

from beacon.cli.parsing import option_names
from soak.campaign import Randomness
from soak.hostile_values import TEXTS

# Placeholders: {data} a folder of datasets, {run} a finished run, {out} a folder of the attempt.
PATHS = (
    *("{data}/sim.hdf5", "{data}", "{run}", "{run}/config.yaml", "{run}/checkpoints", "{out}"),
    *("{out}/new", "{pipe}"),
    *("/dev/null", "/dev/zero", "/proc/self/mem", "/nowhere/at/all", "{data}/sim.hdf5/inside", ".", ""),
    *("~", "a" * 5000),
    *("{out}/new.hdf5", "{out}/new.json", "{out}/new.yaml", "{out}/\udcff", "/proc/new", "x" * 300 + ".hdf5"),
)  # fmt: skip
VALUES = (
    *TEXTS,
    *("0", "-1", "1", "2", "0.5", "-0.5", "1e-400", "1e30", "inf", "-inf", "9" * 23, "-" + "9" * 30),
    *("0x10", "1_000"),
    *("１", "true", "null", "[]", "{}", "--help", "-", "--", "@x", "0,1", "1 2", "auto", "cpu", "meta"),
    *("cuda:99", "mps"),
    *("module:Class", "os:system", "beacon", "beacon.sim.policies:random_small", "\udcff", "a=b", "="),
    *("lift", "source"),
    *("64", "100000", "2147483648", "1e9", "none", "target", "minimiser", "knn", "neighbor-actions"),
    *("future-state",),
)  # fmt: skip


@dataclass(frozen=True)
class Template:
    """A command line to which hostile options are added.

    Args:
        words: of a sound one.
        options: names of the options that there are.
        without: options that would start long work.
    """

    words: tuple[str, ...]
    options: Callable[[], list[str]]
    without: frozenset[str] = frozenset()

    def draw(self, rng: Randomness) -> list[str]:
        """A command line."""
        names = [name for name in self.options() if name not in self.without]
        words = list(self.words)
        for _ in range(int(rng.choice([1, 1, 2, 3]))):
            name = names[int(rng.integers(len(names)))]
            pool = PATHS if rng.random() < 0.25 else VALUES
            values = [pool[int(rng.integers(len(pool)))] for _ in range(int(rng.choice([0, 1, 1, 1, 1, 2])))]
            if rng.random() < 0.03:  # misspelt
                name = name[:-1] + str(rng.choice(["", "x", "-"]))
            if len(values) == 1 and rng.random() < 0.2:
                words.append(f"{name}={values[0]}")
            else:
                words += [name, *values]
        if rng.random() < 0.05:
            words.insert(int(rng.integers(len(words))), VALUES[int(rng.integers(len(VALUES)))])
        return words


def _dataclass(module: str, name: str) -> Callable[[], list[str]]:
    """Option names of a verb's dataclass or function, which is imported when it is asked for."""

    @cache
    def names() -> list[str]:
        from importlib import import_module

        return option_names(getattr(import_module(f"beacon.cli.{module}"), name))

    return names


@cache
def _train_options(method: str) -> list[str]:
    from beacon.cli.train_options import choose, defaults

    default: Any = defaults(choose(["--method", method]))
    return option_names(type(default), default)


def templates(*, simulation: bool) -> list[Template]:
    """All command lines.

    Args:
        simulation: also those that import the simulator.
    """
    from beacon.methods import METHODS

    data, started = (
        ("--source", "{data}/sim.hdf5", "--target", "{data}/real.hdf5"),
        frozenset({"--watch", "--wandb", "--threads", "--compile", "--resume", "--no-dry-run"}),
    )
    chosen = [
        Template(
            ("train", *data, "--out", "{out}/run", "--dry-run", "--method", method, *TINY_OPTIONS),
            lambda method=method: _train_options(method),  # type: ignore[misc]
            started,
        )
        for method in METHODS
    ]
    again = ("train", "--resume", "--out", "{run}")
    chosen += [Template(again, _dataclass("train_options", "RunArguments"), started)] * 2
    file = "{data}/sim.hdf5"
    exported, page = ("export", "{run}", "{out}/exported"), ("report", "{run}", "--map", "none")
    chosen += [
        Template(("data", "inspect", file), _dataclass("data", "Inspect")),
        Template(("data", "check", file), _dataclass("data", "Check")),
        Template(("data", "card", file), _dataclass("data", "WriteCard")),
        Template(("data", "convert", file, "{out}/copy.hdf5"), _dataclass("data", "Convert")),
        Template(("weights", "{run}"), _dataclass("weights", "WeightsArguments")),
        Template(exported, _dataclass("export", "ExportCommand"), frozenset({"--onnx"})),
        Template(("verify", "{run}"), _dataclass("verify", "VerifyArguments")),
        Template(("compare", "{run}", "{run}"), _dataclass("compare", "CompareArguments")),
        Template(("audit", *data), _dataclass("audit", "AuditArguments")),
        Template(("completion", "bash"), _dataclass("completion", "CompletionOptions")),
        Template(page, _dataclass("report", "ReportOptions"), frozenset({"--live", "--map"})),
        # There is no such policy, so that nothing is served.
        Template(("serve", "/nowhere"), _dataclass("serve", "ServeCommand")),
        Template(("suite", "list"), _dataclass("suite_options", "Selection")),
    ]
    if simulation:
        # One demonstration and one episode; how many is not for hostile options to say.
        few = frozenset({"--demos", "--episodes", "--workers", "--video", "--size"})
        generate = ("generate", "lift", "--demos", "1", "--out", "{out}/lift.hdf5")
        chosen += [Template(generate, _dataclass("generate", "command"), few)] * 2
        policy = ("evaluate", "beacon.sim.policies:random_small", "--out", "{out}/result.json")
        evaluate = (*policy, "--task", "lift", "--episodes", "1")
        chosen += [Template(evaluate, _dataclass("evaluate", "command"), few)] * 2
    return chosen
