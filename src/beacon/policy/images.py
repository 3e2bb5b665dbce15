"""Cropping and resizing batches of uint8 images, without a loop over them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from beacon.data.formats.base import Fit
from beacon.data.images import fitting
from beacon.devices import upload
from beacon.randomness import Share, drawn_rows


def crop(
    images: Tensor, size: tuple[int, int], generator: torch.Generator | None, share: Share | None = None
) -> Tensor:
    """Crop (B, T, H, W, C) to (B, T, h, w, C): at random with a generator, in the centre without one.

    A sample's steps share one crop, so that motion between them stays what it was. ``share`` says which rows
    of the mini-batch these are.
    """
    batch, _, height, width, _ = images.shape
    rows, columns = height - size[0], width - size[1]
    if generator is None:
        top, left = rows // 2, columns // 2
        return images[:, :, top : top + size[0], left : left + size[1]]
    if rows == 0 and columns == 0:
        return images
    drawn = (drawn_rows(share, batch),)
    tops = torch.randint(rows + 1, drawn, generator=generator, device=generator.device)
    lefts = torch.randint(columns + 1, drawn, generator=generator, device=generator.device)
    if share is not None:
        tops, lefts = share.of(tops), share.of(lefts)
    return crop_at(images, upload(tops, images.device), upload(lefts, images.device), size)


def crop_at(images: Tensor, tops: Tensor, lefts: Tensor, size: tuple[int, int]) -> Tensor:
    """Crop (B, T, H, W, C) to (B, T, h, w, C), sample b at row ``tops[b]`` and column ``lefts[b]``."""
    batch, steps, height, width, channels = images.shape
    images = images.contiguous()
    # Row y of a crop is a run of w * C values in memory. Seen as a matrix of all such runs, one per pixel at
    # which a run can start, a batch of crops is a selection of that matrix's rows, each one plain copy.
    runs = images.as_strided(
        (batch * steps * height * width - size[1] + 1, size[1] * channels), (channels, 1)
    )
    device = images.device
    frames = torch.arange(batch * steps, device=device).view(batch, steps, 1)
    lines = frames * height + tops.view(batch, 1, 1) + torch.arange(size[0], device=device)  # (B, T, h)
    starts = lines * width + lefts.view(batch, 1, 1)
    return runs.index_select(0, starts.flatten()).view(batch, steps, *size, channels)


def resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize uint8 (N, H, W, C) to (N, h, w, C): bilinear with antialiasing, as Pillow's ``BILINEAR``."""
    if tuple(images.shape[1:3]) == size:
        return images
    planes = images.permute(0, 3, 1, 2).float()
    planes = F.interpolate(planes, size, mode="bilinear", antialias=True, align_corners=False)
    return planes.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)


def fit_images(images: Tensor, size: tuple[int, int], fit: Fit) -> Tensor:
    """Bring uint8 (N, H, W, C) to (N, h, w, C), as a dataset card says it.

    Args:
        images: pictures.
        size: height and width that they get.
        fit: stretch, pad or crop, see `beacon.data.images.fit_images`.
    """
    height, width = images.shape[1:3]
    (top, left, tall, wide), (inner_top, inner_left, *inner) = fitting((height, width), size, fit)
    small = resize(images[:, top : top + tall, left : left + wide], (inner[0], inner[1]))
    if (inner[0], inner[1]) == size:
        return small
    out = images.new_zeros((len(images), *size, images.shape[3]))
    out[:, inner_top : inner_top + inner[0], inner_left : inner_left + inner[1]] = small
    return out
