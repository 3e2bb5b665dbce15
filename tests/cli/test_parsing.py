"""One parser for all verbs: dataclasses and functions, and one line for whatever is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import tyro

from beacon.cli.parsing import option_names, parse
from beacon.errors import UserError


def serve(
    run: Annotated[str, tyro.conf.Positional],
    /,
    port: int,
    rate: float = 1.0,
    size: Literal["small", "full"] = "small",
    out: Path | None = None,
    video: bool = False,
) -> tuple[Any, ...]:
    """Serve a policy.

    Args:
        run: the run folder.
        port: where to listen.
        rate: of the control loop.
        size: of the task.
        out: a file.
        video: also film it.
    """
    if port == 1:
        raise ValueError("a mistake in the program")
    return run, port, rate, size, out, video


@dataclass(frozen=True)
class Files:
    """Some files."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    # How many.
    count: int = 3

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"--count {self.count}: must be at least 1")


def test_functions_are_called() -> None:
    line = "runs/a --port 80 --rate 2 --video --size=full --out x"
    assert parse(serve, line.split(), prog="toy") == ("runs/a", 80, 2.0, "full", Path("x"), True)
    assert parse(Files, ["a", "b", "--count", "2"], prog="toy") == Files((Path("a"), Path("b")), 2)


def test_underscores_are_hyphens() -> None:
    @dataclass(frozen=True)
    class Timing:
        """Times."""

        log_every: int = 1

    assert parse(Timing, ["--log_every=4"], prog="toy").log_every == 4
    assert option_names(Timing) == ["--log-every", "--help"]


@pytest.mark.parametrize(
    ("target", "line", "says"),
    [
        (serve, "runs/a", "toy: --port is missing; see toy --help"),
        (serve, "runs/a --prot 80", "there is no option --prot; did you mean --port? see toy --help"),
        (serve, "--prot 80", "there is no option --prot; did you mean --port?"),
        (serve, "runs/a --port 80 --nothing-like-it", "there is no option --nothing-like-it; see toy --help"),
        (serve, "runs/a --port eighty", "--port eighty: a whole number expected; see toy --help"),
        (serve, "runs/a --port " + "8" * 23, "a whole number of at most 9223372036854775807 expected"),
        (serve, "runs/a --port", "--port: needs a whole number"),
        (serve, "runs/a --port 80 --rate nan", "--rate nan: a number expected"),
        (serve, "runs/a --port 80 --size huge", "--size huge: choose one of small, full"),
        (serve, "runs/a runs/b --port 80", "toy: 'runs/b' belongs to no option"),
        (Files, "a --count 0", "--count 0: must be at least 1"),
        (Files, "a --count=x", "--count x: a whole number expected"),
    ],
)
def test_what_is_wrong_is_one_line(
    target: Callable[..., Any], line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError) as error:
        parse(target, line.split(), prog="toy")
    assert says in str(error.value) and "\n" not in str(error.value)
    assert "Files" not in str(error.value)  # names of classes are nobody's business
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_mistakes_of_a_command_are_not_the_users() -> None:
    with pytest.raises(ValueError, match="a mistake in the program") as error:
        parse(serve, ["runs/a", "--port", "1"], prog="toy")
    assert not isinstance(error.value, UserError)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(serve, ["--help"], prog="toy")
    assert not stop.value.code
    assert "where to listen." in capsys.readouterr().out


@dataclass(frozen=True)
class Bounded:
    """A bound."""

    # Largest weight.
    q_max: float = 1.0

    def __post_init__(self) -> None:
        if self.q_max <= 0:
            raise ValueError(f"q_max: must be above 0, got {self.q_max}")


def test_complaints_about_fields_name_the_option() -> None:
    with pytest.raises(UserError, match=r"^--q-max: must be above 0, got -1\.0$"):
        parse(Bounded, ["--q-max", "-1"], prog="toy")


def test_help_is_as_wide_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    long = "Weights that " + "sum to a budget " * 9 + "are found.\n\nExamples:\n  toy " + "--q-max 1 " * 9
    with pytest.raises(SystemExit):
        parse(Bounded, ["--help"], prog="toy", description=long)
    lines = capsys.readouterr().out.splitlines()
    example = [line for line in lines if line.startswith("  toy")]
    assert [line.count("--q-max 1") for line in example] == [9]  # stays one line, to be copied
    assert max(len(line) for line in lines if line not in example) <= 60
