"""What counts as a camera image, and changing its size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from beacon.data.formats.base import ArrayInfo, Fit

CHANNELS = (1, 3, 4)
Box = tuple[int, int, int, int]  # top, left, height, width
# Arrays shaped like pictures that are not what a camera sees; used only when asked for by name.
_NOT_APPEARANCE = ("depth", "segmentation")


def image_fault(info: ArrayInfo) -> str | None:
    """Why an array is not a sequence of images (T, H, W, C) of dtype uint8; None when it is."""
    if len(info.shape) != 4:
        return f"is not a sequence of images (T, H, W, C) but has shape {info.shape}"
    if info.shape[3] not in CHANNELS:
        if info.shape[1] in CHANNELS:
            return f"has channels first, {info.shape}; store images as (T, H, W, C)"
        return f"has {info.shape[3]} channels, {info.shape}; store images as (T, H, W, C) with 1, 3 or 4"
    if 0 in info.shape[1:]:
        return f"has pictures without pixels, {info.shape}"
    if info.dtype != np.uint8:
        return f"has dtype {info.dtype}; store images as uint8 in 0..255"
    return None


def looks_like_camera(key: str, info: ArrayInfo) -> bool:
    """Whether a key is taken for a camera when none is chosen by name."""
    if len(info.shape) != 4 or any(word in key for word in _NOT_APPEARANCE):
        return False
    # A float array called ..._image was meant as a camera: it is taken, and then refused with a clear line.
    return info.dtype == np.uint8 or "image" in key or "rgb" in key


def resize(frames: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Resize (T, H, W, C) to (T, *size, C): bilinear, averaging over the source pixels when shrinking."""
    if frames.shape[1:3] == size:
        return frames
    if frames.shape[3] == 4:  # apart, because PIL would weigh the colours by their opacity
        return np.concatenate([resize(frames[..., :3], size), resize(frames[..., 3:], size)], axis=3)
    height, width = size
    out: NDArray[np.uint8] = np.empty((len(frames), height, width, frames.shape[3]), np.uint8)
    for frame, small in zip(frames, out, strict=True):
        picture = to_picture(frame).resize((width, height), Image.Resampling.BILINEAR)
        small[...] = np.asarray(picture).reshape(small.shape)
    return out


def fit_images(frames: NDArray[np.uint8], size: tuple[int, int], fit: Fit) -> NDArray[np.uint8]:
    """Bring (T, H, W, C) to (T, *size, C).

    Args:
        frames: pictures.
        size: height and width.
        fit: stretch; pad, which keeps the aspect and leaves black borders; or crop, which keeps it and cuts
            off what is too much at the sides.
    """
    height, width = frames.shape[1:3]
    (top, left, tall, wide), (inner_top, inner_left, *inner) = fitting((height, width), size, fit)
    part = frames[:, top : top + tall, left : left + wide]
    small = resize(part if part.shape == frames.shape else np.ascontiguousarray(part), (inner[0], inner[1]))
    if (inner[0], inner[1]) == size:
        return small
    out: NDArray[np.uint8] = np.zeros((len(frames), *size, frames.shape[3]), np.uint8)
    out[:, inner_top : inner_top + inner[0], inner_left : inner_left + inner[1]] = small
    return out


def fitting(shape: tuple[int, int], size: tuple[int, int], fit: Fit) -> tuple[Box, Box]:
    """Which part of a picture is used, and where it goes in one of another size: (top, left, height, width).

    Args:
        shape: height and width of the picture.
        size: height and width that it gets.
        fit: see `fit_images`.
    """
    (height, width), (new_height, new_width) = shape, size
    whole, everywhere = (0, 0, height, width), (0, 0, new_height, new_width)
    if fit == "stretch" or height * new_width == width * new_height:
        return whole, everywhere
    scales = (new_height / height, new_width / width)
    if fit == "crop":
        tall = max(1, min(height, round(new_height / max(scales))))
        wide = max(1, min(width, round(new_width / max(scales))))
        return ((height - tall) // 2, (width - wide) // 2, tall, wide), everywhere
    tall = max(1, min(new_height, round(height * min(scales))))
    wide = max(1, min(new_width, round(width * min(scales))))
    return whole, ((new_height - tall) // 2, (new_width - wide) // 2, tall, wide)


def to_picture(frame: NDArray[np.uint8]) -> Image.Image:
    """One frame (H, W, C) as a PIL image, without its opacity."""
    return Image.fromarray(np.ascontiguousarray(frame[..., 0] if frame.shape[2] == 1 else frame[..., :3]))


def value_range(array: NDArray[Any]) -> tuple[float, float]:
    """Smallest and largest finite value; NaN, NaN when there is none."""
    finite = array[np.isfinite(array)] if np.issubdtype(array.dtype, np.floating) else array
    return (float(finite.min()), float(finite.max())) if finite.size else (float("nan"), float("nan"))
