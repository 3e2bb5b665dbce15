"""What commands that compare source sets with a target refuse before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beacon.errors import UserError


def check_sets(
    verb: str, source: Sequence[Path], target: Sequence[Path], image_size: int | None, out: Path | None
) -> None:
    """Refuse options that no data could make right.

    Args:
        verb: of the command, for the message.
        source: the source sets.
        target: the datasets of the target.
        image_size: that images are resized to; None: as they are.
        out: folder of the results; None: nothing is written.
    """
    for name, datasets in (("source", source), ("target", target)):
        if not datasets:
            raise UserError(f"beacon {verb}: name at least one --{name}; see beacon {verb} --help")
    if image_size is not None and image_size < 1:
        raise UserError(f"--image-size {image_size}: must be at least 1")
    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: is a file; name a folder")
