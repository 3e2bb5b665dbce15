"""Command lines into dataclasses; what is wrong with them as one line instead of a box."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr
from typing import Any

import tyro

from beacon.errors import UserError

EDGE = re.compile(r"^\s*[│|]|[│|]\s*$")
RULE = re.compile(r"\W{8,}$")  # also of a terminal that has no line characters


def parse(kind: Any, arguments: list[str], *, prog: str, description: str, default: Any = None) -> Any:
    """An instance of ``kind`` from its command line. ``--help`` prints and raises SystemExit."""
    complaint = io.StringIO()
    options: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with redirect_stderr(complaint):
            return tyro.cli(kind, prog=prog, description=description, args=arguments, **options)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(one_line(complaint.getvalue(), prog)) from None
    except UserError:
        raise
    except ValueError as error:  # a value of the right type that makes no sense, as alpha=-1
        raise UserError(str(error)) from None


def one_line(box: str, prog: str) -> str:
    """What tyro says in a box of several lines, as one: its first paragraph, and what was probably meant."""
    title, *rest = box.strip().splitlines() or [""]
    lines = [EDGE.sub("", line).strip() for line in rest]
    meant = re.search(r"Perhaps you meant:\s*(--\S+)", " ".join(lines))
    said: list[str] = []
    for line in lines:
        if RULE.match(line) and not said:  # under the title, where it is not part of the frame
            continue
        if RULE.match(line) or line.startswith(("Got errors", "Perhaps you meant")):
            break
        said.append(line)
    message = " ".join(" ".join(said or [title]).split()).rstrip(".") or "the options are wrong"
    advice = f"did you mean {meant[1]}? " if meant else ""
    return f"{message[0].lower()}{message[1:]}; {advice}see {prog} --help"
