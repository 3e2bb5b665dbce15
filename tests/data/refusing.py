"""What every dataset that is damaged, or was made to harm, must meet with."""

from __future__ import annotations

from pathlib import Path

import pytest

from beacon.cli.main import main
from beacon.data import EpisodeSet
from beacon.errors import UserError


def refuse(path: Path, *pieces: str) -> str:
    """Opening or loading must fail with one line; check must exit with 2 and say it, too."""
    before = sorted(p for p in path.parent.rglob("*"))
    with pytest.raises(UserError) as caught:
        EpisodeSet.load(path)
    message = str(caught.value)
    assert "\n" not in message and "\x1b" not in message
    for piece in pieces:
        assert piece in message, message
    assert main(["data", "check", str(path)]) == 2
    assert main(["data", "inspect", str(path)]) in (0, 2)
    out = path.parent / "converted.hdf5"
    assert main(["data", "convert", str(path), str(out)]) == 2
    assert sorted(p for p in path.parent.rglob("*")) == before, "nothing is written"
    return message
