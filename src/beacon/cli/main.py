"""``beacon VERB ...``: finds the verb, runs it, turns errors into one line and an exit code."""

from __future__ import annotations

import re
import sys
import warnings
from importlib import import_module
from typing import Any

from beacon import __version__
from beacon.errors import RunError, UserError, meant

# verb -> what it does. The code of a verb is beacon.cli.<verb>, imported only when it is called.
VERBS = {
    "data": "inspect, check, map and convert datasets",
    "audit": "find demonstrations that cannot be trusted, and why, without training",
    "desk": "look through demonstrations on a local page, and decide about them",
    "coverage": "say what the target does not cover yet, and which demonstrations to record next",
    "generate": "make demonstrations in simulation",
    "train": "train a policy on source and target demonstrations",
    "evaluate": "measure the success rate of a policy in simulation",
    "compare": "compare results of evaluations: is one worse?",
    "serve": "serve a policy to robots by openpi's websocket protocol",
    "export": "write a policy alone into one folder",
    "weights": "show and export the weights of a run; select demonstrations by weight",
    "verify": "check a run folder: checksums, data, weights",
    "report": "write an HTML page about one run or several",
    "suite": "run the paper's experiments as grids of runs, and print their tables",
    "demo": "compare three methods in simulation, with a report",
    "doctor": "check this machine: what works, what is missing, how to install it",
    "completion": "print a completion script for bash or zsh",
}

# What is said to an interrupt of verbs whose work is kept; demo, suite and train say it themselves.
GOES_ON = {"generate": "; the same command goes on where it stopped"}

EXAMPLES = """\
  beacon doctor                   what works on this machine
  beacon demo                     three methods in simulation, with a report
  beacon VERB --help              the options of a verb"""


def usage() -> str:
    """The text of ``beacon --help``."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        "usage: beacon VERB [options]\n\n"
        "Train a robot policy on many source demonstrations and few target demonstrations.\n"
        "BEACON learns the policy and a weight for every training sample together.\n\n"
        f"verbs:\n{verbs}\n\nexamples:\n{EXAMPLES}\n\n"
        "exit codes: 0 done, 1 failed, 2 the input is wrong"
    )


def main(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"beacon {__version__}")
        return 0
    from beacon.plain import path_complaint  # imports much: see entry

    for word in arguments:
        if reason := path_complaint(word.partition("=")[2] or word):
            return _complain(f"'{printable(word)}': {reason}", 2)
    verb, *rest = arguments
    if verb.startswith("-"):
        name = next((name for name in VERBS if name in verb), "")  # --install-completion, --doctor
        near = f"did you mean beacon {name}? " if name else meant(verb, ("--help", "--version"))
        return _complain(
            f"there is no option {verb}; {near}usage: beacon VERB [options]; see beacon --help", 2
        )
    if verb not in VERBS:
        near = meant(verb, VERBS)
        return _complain(f"there is no verb '{verb}'; {near}the verbs are {', '.join(VERBS)}", 2)
    with warnings.catch_warnings():
        warnings.showwarning = _Warnings()
        try:
            return int(import_module(f"beacon.cli.{verb}").main(rest))
        except UserError as error:
            return _complain(str(error), 2)
        except RunError as error:
            return _complain(str(error), 1)
        except KeyboardInterrupt:
            return _complain(f"interrupted{GOES_ON.get(verb, '')}", 130)
        except BrokenPipeError:  # the reader went away, as in `beacon ... | head`
            sys.stderr.close()
            return 1


def _complain(message: str, code: int) -> int:
    message = re.sub(r"^beacon( [a-z]+)+: ", "", message)  # the name of the command is said once
    print(f"beacon: {_one_line(message)}", file=sys.stderr)
    return code


def printable(text: str) -> str:
    """The beginning of a text, without what a terminal would obey or cannot show."""
    shown = text.encode(errors="backslashreplace").decode()[:60]
    return "".join(letter if letter.isprintable() else "?" for letter in shown)


class _Warnings:
    """Shows warnings as lines for the user, each kind of them once, without the place in the code."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def __call__(self, message: Warning | str, category: type[Warning], *position: Any, **more: Any) -> None:
        if issubclass(category, DeprecationWarning):  # of a library about another: nothing for the user
            return
        text = _one_line(str(message))
        # The same with other numbers, as at every refresh, says nothing new.
        message_type = category.__name__ + "".join(letter for letter in text if not letter.isdigit())
        if message_type not in self._shown:
            self._shown.add(message_type)
            print(f"beacon: warning: {text}", file=sys.stderr)


def _one_line(text: str) -> str:
    from beacon.data.errors import printable  # names in messages come from files of others

    return printable(" ".join(text.split()))


def entry() -> None:
    """The console script."""
    # Little is imported before this line, so that an interrupt is heard here and not while modules load.
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = _complain("interrupted", 130)
    if sys.argv[1:2] == ["train"]:
        from beacon.cli.train_processes import is_one_of_several
        from beacon.processes import leave

        if is_one_of_several():  # started by torchrun
            leave(code)
    sys.exit(code)
