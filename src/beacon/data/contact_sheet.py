"""A picture of a dataset: demonstrations downwards, time to the right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from beacon.data.errors import printable
from beacon.data.formats.base import OBSERVATION, DatasetReader
from beacon.data.images import to_picture
from beacon.data.inspection import cameras_of, spread
from beacon.errors import UserError
from beacon.files import replacing

TILE = 128  # pixels, the height of a frame
GAP = 4
LABEL = 14
BACKGROUND = (24, 24, 24)
INK = (230, 230, 230)
WIDEST_TILE = 8 * TILE  # a picture of 1 × 10,000 pixels is shown narrower than it is


def write_contact_sheet(
    reader: DatasetReader, episodes: list[str], path: Path, *, rows: int = 6, columns: int = 8
) -> None:
    """Draw ``columns`` frames, evenly over time, of ``rows`` demonstrations; one line for each camera."""
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise UserError(f"{path}: a contact sheet is a .png or .jpg file")
    sheet = draw_contact_sheet(reader, episodes, rows=rows, columns=columns)
    with replacing(path) as temporary:
        sheet.save(temporary, format="PNG" if path.suffix.lower() == ".png" else "JPEG")


def draw_contact_sheet(
    reader: DatasetReader, episodes: list[str], *, rows: int = 6, columns: int = 8
) -> Image.Image:
    """The contact sheet as a picture."""
    lines: list[tuple[str, list[Image.Image]]] = []
    for episode in spread(episodes, rows):
        for camera in cameras_of(reader, episode):
            length = reader.info(episode, OBSERVATION + camera).shape[0]
            if length == 0:
                continue
            frames = _frames_over_time(reader, episode, OBSERVATION + camera, length, columns)
            width = min(WIDEST_TILE, max(1, round(TILE * frames[0].shape[1] / frames[0].shape[0])))
            # Nearest neighbour: a 96-pixel image should look like what the policy sees.
            tiles = [
                to_picture(frame).convert("RGB").resize((width, TILE), Image.Resampling.NEAREST)
                for frame in frames
            ]
            lines.append((f"{printable(episode)}  {printable(camera)}  steps 0-{length - 1}", tiles))
    if not lines:
        raise UserError(f"{reader.path}: no frames to show")
    across = max(sum(tile.width + GAP for tile in tiles) for _, tiles in lines)
    sheet = Image.new("RGB", (across + GAP, len(lines) * (TILE + LABEL + GAP) + GAP), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    top = GAP
    for label, tiles in lines:
        # The built-in font knows Latin letters only.
        draw.text((GAP, top), label.encode("latin-1", "replace").decode("latin-1"), fill=INK)
        left = GAP
        for tile in tiles:
            sheet.paste(tile, (left, top + LABEL))
            left += tile.width + GAP
        top += TILE + LABEL + GAP
    return sheet


def _frames_over_time(
    reader: DatasetReader, episode: str, name: str, length: int, most: int
) -> list[NDArray[np.uint8]]:
    """Frames evenly from the first to the last step; no more than a block of them is in memory."""
    steps = np.linspace(0, length - 1, min(most, length)).round().astype(int)
    frames, first = [], 0
    for block in reader.blocks(episode, name):
        frames += [block[t - first].copy() for t in steps if first <= t < first + len(block)]
        first += len(block)
    return frames
