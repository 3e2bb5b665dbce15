"""A picture of a dataset: demonstrations downwards, time to the right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

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


def write_contact_sheet(
    reader: DatasetReader, episodes: list[str], path: Path, *, rows: int = 6, columns: int = 8
) -> None:
    """Draw ``columns`` frames, evenly over time, of ``rows`` demonstrations; one line for each camera."""
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise UserError(f"{path}: a contact sheet is a .png or .jpg file")
    lines: list[tuple[str, list[Image.Image]]] = []
    for episode in spread(episodes, rows):
        for camera in cameras_of(reader, episode):
            frames = reader.read(episode, OBSERVATION + camera)
            if len(frames) == 0:
                continue
            steps = np.linspace(0, len(frames) - 1, min(columns, len(frames))).round().astype(int)
            width = max(1, round(TILE * frames.shape[2] / frames.shape[1]))
            # Nearest neighbour: a 96-pixel image should look like what the policy sees.
            tiles = [
                to_picture(frames[t]).convert("RGB").resize((width, TILE), Image.Resampling.NEAREST)
                for t in steps
            ]
            lines.append((f"{episode}  {camera}  steps 0-{len(frames) - 1}", tiles))
    if not lines:
        raise UserError(f"{reader.path}: no frames to show")
    across = max(sum(tile.width + GAP for tile in tiles) for _, tiles in lines)
    sheet = Image.new("RGB", (across + GAP, len(lines) * (TILE + LABEL + GAP) + GAP), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    top = GAP
    for label, tiles in lines:
        draw.text((GAP, top), label, fill=INK)
        left = GAP
        for tile in tiles:
            sheet.paste(tile, (left, top + LABEL))
            left += tile.width + GAP
        top += TILE + LABEL + GAP
    with replacing(path) as temporary:
        sheet.save(temporary, format="PNG" if path.suffix.lower() == ".png" else "JPEG")
