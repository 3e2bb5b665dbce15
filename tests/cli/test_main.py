"""``beacon`` itself: finding verbs, exit codes, fast help, one line for every error and warning."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from beacon import __version__
from beacon.cli import main as command
from beacon.cli.main import VERBS, main
from beacon.cli.train_help import ESSENTIAL
from beacon.methods import METHODS, Beacon


def imports(*arguments: str) -> set[str]:
    """The modules that a command line imports."""
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from beacon.cli.main import entry; entry()", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.split("|")[-1].strip() for line in process.stderr.splitlines()}


def test_help_needs_nothing_heavy() -> None:
    assert not imports("--help") & {"torch", "numpy", "tyro", "rich", "h5py", "robosuite"}


def test_help_of_train_does_not_wait_for_torch() -> None:
    assert not imports("train", "--help") & {"torch", "diffusers", "h5py", "pyarrow", "scipy", "sklearn"}


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["help"], ["-h"]):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert all(f"  {verb} " in out for verb in VERBS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"beacon {__version__}\n"


@pytest.mark.parametrize("method", METHODS)
def test_help_of_every_method(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ("--help", "--help-all"):
        assert main(["train", "--method", method, asked]) == 0
        out = capsys.readouterr().out
        assert "--steps " in out and ("--policy.variant" in out) == (asked == "--help-all")
        assert ("--steps-per-epoch" in out) == ("--policy.encoder.widths" in out) == (asked == "--help-all")
        assert ("--lambda-d" in out) == issubclass(METHODS[method], Beacon)


def test_the_short_help_names_options_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    options = [name.split()[0] for group in ESSENTIAL.values() for name in group]
    assert len(options) < 20
    assert main(["train", "--help-all"]) == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"^\W*{option}\b", out, re.MULTILINE) for option in options)
    assert "policy options" in out and "The policy: what it sees, what it is made of." in out
    assert main(["train", "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) < 60


def test_it_is_a_module_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "beacon", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"beacon {__version__}\n"


@pytest.mark.parametrize("verb", ["train", "evaluate", "generate", "data", "weights", "report", "suite"])
@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("x" * 300, "a name in the path is longer than 255 bytes"),
        ("--out=" + "x" * 300, "a name in the path is longer than 255 bytes"),
        ("a\udcff.hdf5", "a path must be UTF-8 text; rename the file"),
    ],
)
def test_words_that_can_be_no_file(
    verb: str, word: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, word]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1 and len(error) < 200


def test_help_of_train_names_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Methods: {', '.join(METHODS)}." in said and "beacon-paper as the paper has it" in said


def test_unknown_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fly"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("beacon: there is no verb 'fly'; the verbs are data, ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "near"),
    [
        ("--install-completion", "did you mean beacon completion? "),
        ("--doctor", "did you mean beacon doctor? "),
        ("--hlep", "did you mean --help? "),
        ("--flying", ""),
    ],
)
def test_options_that_are_none_lead_to_what_is_near(
    option: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([option]) == 2
    assert (
        capsys.readouterr().err
        == f"beacon: there is no option {option}; {near}usage: beacon VERB [options]; see beacon --help\n"
    )


def test_every_verb_is_there() -> None:
    folder = Path(command.__file__).parent
    assert all((folder / f"{verb}.py").exists() for verb in VERBS)


def test_warnings_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind once, whatever numbers are in it, without the place in the code."""
    show = command._Warnings()
    for number in (1, 2):
        show(UserWarning(f"refresh {number}:\n  too far"), UserWarning, "file.py", 3)
    show(UserWarning("another"), UserWarning, "file.py", 3)
    # numcodecs shows this one whatever Python's filters say.
    show(DeprecationWarning("crc32c is deprecated"), DeprecationWarning, "numcodecs/__init__.py", 106)
    assert capsys.readouterr().err == "beacon: warning: refresh 1: too far\nbeacon: warning: another\n"
    before = warnings.showwarning
    main(["data", "--help"])
    assert warnings.showwarning is before  # nothing is left behind for others


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["trian"], "train"),
        (["--verison"], "--version"),
        (["suite", "rnu"], "run"),
        (["data", "inspct"], "inspect"),
        (["train", "--method", "beacn", "--out", "x"], "beacon"),
        (["train", "--preset", "gpuu", "--out", "x"], "gpu"),
        (["report", "x", "--map", "umapp"], "umap"),
    ],
)
def test_the_nearest_name_is_offered(words: list[str], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert f"did you mean {near}?" in capsys.readouterr().err


def test_the_command_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weights"]) == 2
    assert capsys.readouterr().err == "beacon: RUN is missing; see beacon weights --help\n"
    assert main(["export"]) == 2
    assert capsys.readouterr().err == "beacon: RUN, OUT are missing; see beacon export --help\n"
    assert main(["data", "check"]) == 2
    assert capsys.readouterr().err.startswith("beacon: name at least one dataset")


def test_options_that_may_be_left_out_are_shown_as_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help-all"]) == 0
    out = capsys.readouterr().out
    assert "--threads INT" in out and "{None}" not in out
