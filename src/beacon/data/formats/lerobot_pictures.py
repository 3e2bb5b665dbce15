"""Pictures that are embedded in the tables of a LeRobot dataset."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import printable
from beacon.data.formats.lerobot_metadata import Feature
from beacon.errors import UserError


def embedded_pictures(column: Any, feature: Feature, where: str) -> Iterator[NDArray[np.uint8]]:
    """The pictures of a column, each (H, W, 3).

    Args:
        column: pyarrow's.
        feature: of the camera.
        where: for messages.
    """
    for chunk in column.chunks:
        for scalar in chunk:
            value = scalar.as_py()
            content = value.get("bytes") if isinstance(value, dict) else value
            if not isinstance(content, bytes):
                raise UserError(f"{where} holds no embedded picture; pictures in other files are not read")
            yield _picture(content, feature, where)


def _picture(content: bytes, feature: Feature, where: str) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            # Before it is unpacked: a small file can declare a very large picture.
            if image.height * image.width * 3 > 4 * max(1, int(np.prod(feature.shape))):
                raise UserError(f"{where} has a picture of {image.size}, info.json says {feature.shape}")
            return np.asarray(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{where} holds a picture that cannot be decoded ({printable(str(error))[:80]})"
        ) from error
