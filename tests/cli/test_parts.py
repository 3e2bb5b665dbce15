"""Parts are chosen by name on the command line, and then have options of their own."""

from __future__ import annotations

import pytest
from toy_parts import (
    Constant,
    Euclidean,
    Inner,
    Minkowski,
    Nearest,
    SpeedCheck,
    StillCheck,
    ToyOptions,
)

from beacon.cli.parsing import parse
from beacon.errors import UserError
from beacon.option_words import option_words
from beacon.plain import from_plain, to_plain


def parsed(line: str) -> ToyOptions:
    options: ToyOptions = parse(ToyOptions, line.split(), prog="toy", default=ToyOptions())
    return options


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", ToyOptions()),
        ("--distance.k 7", ToyOptions(Inner(Nearest(k=7)))),
        ("--distance constant", ToyOptions(Inner(Constant()))),
        ("--distance=constant --distance.value 2", ToyOptions(Inner(Constant(2.0)))),
        # In any order: the choice is made first.
        ("--distance.value -2 --alpha 1 --distance constant", ToyOptions(Inner(Constant(-2.0)), alpha=1.0)),
        ("--checks", ToyOptions(checks=())),
        ("--checks none --alpha 1", ToyOptions(checks=(), alpha=1.0)),
        ("--checks still speed", ToyOptions(checks=(StillCheck(), SpeedCheck()))),
        ("--checks speed speed --checks.1.limit 3", ToyOptions(checks=(SpeedCheck(), SpeedCheck(3.0)))),
        ("--checks.0.limit 3", ToyOptions(checks=(SpeedCheck(3.0),))),
        # Parts of parts.
        ("--distance.metric minkowski", ToyOptions(Inner(Nearest(metric=Minkowski())))),
        (
            "--distance nearest --distance.metric minkowski --distance.metric.power 1 --distance.k 2",
            ToyOptions(Inner(Nearest(2, Minkowski(1.0)))),
        ),
        # The last choice counts.
        ("--distance constant --distance nearest", ToyOptions(Inner(Nearest()))),
    ],
)
def test_parts_are_chosen(line: str, expected: ToyOptions) -> None:
    options = parsed(line)
    assert options == expected
    assert from_plain(ToyOptions, to_plain(options)) == options  # as config.yaml keeps it
    assert parsed(" ".join(option_words(options, ToyOptions()))) == options  # as a report repeats it


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--distance nearst", "--distance nearst: there is no distance 'nearst'; did you mean nearest?"),
        ("--distance", "--distance: needs a value"),
        ("--checks speed spede", "--checks spede: there is no check 'spede'; did you mean speed?"),
        ("--distance constant --distance.k 3", "there is no option --distance.k; "),
        ("--distance constant --distance.metric minkowski", "there is no option --distance.metric; "),
        ("--checks.1.limit 3", "there is no option --checks.1.limit; did you mean --checks.0.limit?"),
        ("--distanse constant", "there is no option --distanse; did you mean --distance?"),
        ("--distance.k 0", "k=0: must be at least 1"),
        ("--distance.k few", "--distance.k few: a whole number expected"),
        ("--checks.0.limit nan", "--checks.0.limit nan: a number expected"),
    ],
)
def test_what_is_wrong_is_one_line(line: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        parsed(line)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_help_has_the_choices_and_the_options_of_the_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--help")
    out = capsys.readouterr().out
    assert "--distance NAME         one of nearest, constant; chosen: nearest" in out
    assert "--distance.metric NAME  one of euclidean, minkowski; chosen: euclidean" in out
    assert "--checks [NAME ...]     any of speed, still, or none; chosen: speed" in out
    assert "--distance.k INT" in out and "Neighbours to ask." in out and "--distance.value" not in out
    with pytest.raises(SystemExit):
        parsed("--distance constant --checks --help")
    out = capsys.readouterr().out
    assert "chosen: constant" in out and "chosen: none" in out
    assert "--distance.value FLOAT" in out and "--distance.k" not in out and "--checks.0" not in out


def test_a_default_that_is_not_the_parts_own() -> None:
    default = ToyOptions(Inner(Nearest(k=9)), checks=(StillCheck(3),))
    assert parse(ToyOptions, [], prog="toy", default=default) == default
    chosen = parse(ToyOptions, ["--distance", "nearest"], prog="toy", default=default)
    assert chosen.inner.distance == Nearest(k=5, metric=Euclidean())
