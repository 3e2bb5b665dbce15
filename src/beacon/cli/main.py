"""``beacon VERB ...``: finds the verb, runs it, turns errors into one line and an exit code."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

from beacon import __version__
from beacon.errors import RunError, UserError
from beacon.plain import path_complaint

# verb -> what it does. The code of a verb is beacon.cli.<verb>, imported only when it is called.
VERBS = {
    "data": "what is in a dataset, and is it sound",
    "audit": "which demonstrations can be trusted, and why not, without training",
    "generate": "demonstrations in simulation",
    "train": "a policy from source and target demonstrations",
    "evaluate": "success rates of a policy in simulation",
    "compare": "results of evaluations beside each other: is one worse?",
    "serve": "a policy for robots' programs, by openpi's websocket protocol",
    "export": "a policy alone, in one folder to hand on",
    "weights": "which demonstrations a run kept, which it let fade; choose by them",
    "report": "one page that shows what runs did: success, weights, demonstrations",
    "suite": "the paper's experiments as grids of runs, and their tables",
    "demo": "see it work in simulation: demonstrations, three methods, their success, a report",
}

EXAMPLES = """\
  beacon demo                     see it work, in ten minutes
  beacon VERB --help              every option of a verb"""


def usage() -> str:
    """The text of ``beacon --help``."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        "usage: beacon VERB [options]\n\n"
        "Train a robot policy from many demonstrations of the wrong domain and few of the right one:\n"
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
    for word in arguments:
        if reason := path_complaint(word.partition("=")[2] or word):
            return _complain(f"'{printable(word)}': {reason}", 2)
    verb, *rest = arguments
    if verb not in VERBS:
        return _complain(f"there is no verb '{verb}'; the verbs are {', '.join(VERBS)}", 2)
    with warnings.catch_warnings():
        warnings.showwarning = _Warnings()
        try:
            return int(import_module(f"beacon.cli.{verb}").main(rest))
        except UserError as error:
            return _complain(str(error), 2)
        except RunError as error:
            return _complain(str(error), 1)
        except KeyboardInterrupt:
            return _complain("interrupted", 130)
        except BrokenPipeError:  # the reader went away, as in `beacon ... | head`
            sys.stderr.close()
            return 1


def _complain(message: str, code: int) -> int:
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
    sys.exit(main(sys.argv[1:]))
