"""From camera images and proprioception to one vector per observation history."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from beacon.devices import upload
from beacon.errors import UserError
from beacon.policy.camera_homography import CameraHomography
from beacon.policy.config import DomainLabel, EncoderConfig, ObservationSpec
from beacon.policy.images import crop
from beacon.policy.resnet import ResNet18
from beacon.randomness import Share, drawn_rows


class Encoding(NamedTuple):
    """What the encoder says of a batch of observation histories."""

    vision: Tensor  # (B, obs_steps * image features): images only
    observation: Tensor  # (B, condition): images and proprioception, what the denoiser is conditioned on


class SpatialSoftmax(nn.Module):
    """Expected image coordinates of learned keypoints (Levine et al. 2016).

    Maps f become logits a_k(p) = w_k · f(p) + b_k at positions p in [-1, 1]^2; keypoint k is at
    sum_p softmax_p(a_k(p) / temperature) p.

    >>> SpatialSoftmax(channels=8, keypoints=4)(torch.zeros(2, 8, 5, 5)).shape
    torch.Size([2, 8])
    """

    def __init__(self, channels: int, keypoints: int, *, learn_temperature: bool = False) -> None:
        super().__init__()
        self.keypoints = nn.Linear(channels, keypoints)
        # The logarithm, so that a gradient step cannot make the temperature negative.
        self.log_temperature = nn.Parameter(torch.zeros(())) if learn_temperature else None

    def forward(self, maps: Tensor) -> Tensor:
        """(N, C, h, w) -> (N, 2 * keypoints), as x, y of the first keypoint, x, y of the second, ..."""
        _, _, height, width = maps.shape
        logits = self.keypoints(maps.flatten(2).transpose(1, 2)).float()  # (N, h * w, K)
        if self.log_temperature is not None:
            logits = logits * torch.exp(-self.log_temperature)
        attention = F.softmax(logits.transpose(1, 2).contiguous(), dim=-1)  # (N, K, h * w)
        y = torch.linspace(-1, 1, height, device=maps.device)
        x = torch.linspace(-1, 1, width, device=maps.device)
        positions = torch.stack([x.repeat(height), y.repeat_interleave(width)], dim=-1)  # (h * w, 2)
        if torch.is_autocast_enabled(maps.device.type):  # in bfloat16 a keypoint would be a pixel off
            with torch.autocast(maps.device.type, enabled=False):
                return (attention @ positions).flatten(1)
        return (attention @ positions).flatten(1)


# The principal axes of red, green and blue in ImageNet's photographs (columns), and the variances along them
# up to a factor (Krizhevsky et al. 2012): brightness, blue against red, green against both.
_COLOUR_AXES = torch.tensor(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)
_COLOUR_VARIANCES = torch.tensor([0.2175, 0.0188, 0.0045])


def colour_whitening(std: Tensor) -> Tensor:
    """The matrix (3, 3) by which colours (x - mean) / std become uncorrelated and of unit variance.

    diag(std) U diag(v)^-1/2 U^T with the axes U and variances v of photographs, these scaled to the sum of
    std^2: of all matrices that whiten, the one that moves colours least.
    """
    variances = _COLOUR_VARIANCES * (std.square().sum() / _COLOUR_VARIANCES.sum())
    return std.diag() @ _COLOUR_AXES @ variances.rsqrt().diag() @ _COLOUR_AXES.T


class ImageEncoder(nn.Module):
    """uint8 images of one size to features: normalisation, ResNet, pooling."""

    image_scale: Tensor
    image_shift: Tensor
    whitening: Tensor | None

    def __init__(self, config: EncoderConfig, channels: int) -> None:
        super().__init__()
        mean, std = torch.tensor(config.image_mean), torch.tensor(config.image_std)
        if channels != 3:  # the statistics are those of red, green and blue
            mean, std = mean.mean().expand(channels), std.mean().expand(channels)
        # (x / 255 - mean) / std as one multiplication and one addition
        self.register_buffer("image_scale", 1 / (255 * std), persistent=False)
        self.register_buffer("image_shift", -mean / std, persistent=False)
        whitening = colour_whitening(std) if config.whiten and channels == 3 else None
        self.register_buffer("whitening", whitening, persistent=False)
        self.resnet = ResNet18(
            config.widths,
            channels=channels,
            output_stride=config.output_stride,
            group_channels=config.group_channels,
        )
        width = config.widths[-1]
        self.pool: SpatialSoftmax | None = None
        if config.pooling == "spatial-softmax":
            self.pool = SpatialSoftmax(width, config.keypoints, learn_temperature=config.learn_temperature)
            width = 2 * config.keypoints
        self.project = None if config.feature_dim is None else nn.Linear(width, config.feature_dim)

    def forward(
        self, images: Tensor, view: CameraHomography | None = None, of_source: Tensor | None = None
    ) -> Tensor:
        """uint8 (N, h, w, C) -> (N, features); keypoints that are not ``of_source`` are moved by ``view``."""
        pixels = torch.addcmul(self.image_shift, images.to(self.image_scale.dtype), self.image_scale)
        if self.whitening is not None:
            pixels = pixels @ self.whitening
        maps = self.resnet(pixels.permute(0, 3, 1, 2))  # (N, C, h, w), channels_last in memory already
        pooled: Tensor = maps.mean(dim=(2, 3)) if self.pool is None else self.pool(maps)
        if view is not None:
            pooled = view(pooled, of_source)
        return pooled if self.project is None else self.project(pooled)


class ObservationEncoder(nn.Module):
    """All cameras and all proprioception of an observation history."""

    def __init__(self, spec: ObservationSpec, config: EncoderConfig) -> None:
        super().__init__()
        self.camera_names, self.proprio_names = spec.camera_names, spec.proprio_names
        self.crop_sizes = {name: config.crop_size(*shape[:2]) for name, shape in spec.cameras.items()}
        channels = [spec.cameras[name][2] for name in self.camera_names]
        if config.share and len(set(channels)) > 1:
            raise UserError(f"one encoder for all cameras, but their channels differ: {channels}")
        # A list, because camera names may hold dots, which module names must not.
        self.cameras = nn.ModuleList(
            ImageEncoder(config, count) for count in (channels[:1] if config.share else channels)
        )
        self.views: nn.ModuleList | None = None
        self.view_prior = config.view_prior
        if config.adapt_view:
            self.views = nn.ModuleList(CameraHomography() for _ in self.camera_names)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.share = config.share
        self.vision_dim = config.features * len(self.camera_names)  # per observation step
        self.proprio_dim = sum(spec.proprio.values())
        self.domain_label = spec.domain_label

    def view_penalty(self) -> Tensor | None:
        """What is added to the loss for how the views of the target are bent; None where nothing is."""
        if not self.views or not self.view_prior:  # an empty list without cameras
            return None
        bent: list[Tensor] = [view.distortion() for view in self.views]  # type: ignore[operator]
        return self.view_prior * torch.stack(bent).sum()

    @property
    def label_dim(self) -> int:
        """Values of the domain label per sample, the last of ``Encoding.observation``: source, target."""
        return 0 if self.domain_label is None else 2

    @property
    def guidance(self) -> float:
        """How far actions are guided by the domain label; one is not at all."""
        return 1.0 if self.domain_label is None else self.domain_label.guidance

    def forward(
        self,
        images: dict[str, Tensor],
        proprio: dict[str, Tensor],
        crop_generator: torch.Generator | None,
        of_source: Tensor | None = None,
        share: Share | None = None,
    ) -> Encoding:
        """Images (B, T, H, W, C) and proprioception (B, T, d) -> Encoding; ``of_source`` as for images alone.

        With a generator, domain labels are left out at random, too, where there are any. ``share`` says which
        rows of the mini-batch these are.
        """
        vision = self.encode_images(images, crop_generator, of_source, share)
        return self.join(vision, proprio, of_source, crop_generator, share)

    def encode_images(
        self,
        images: dict[str, Tensor],
        crop_generator: torch.Generator | None,
        of_source: Tensor | None = None,
        share: Share | None = None,
    ) -> Tensor | None:
        """Features of every image, (B, T, vision_dim), camera by camera; None without cameras.

        of_source: (B,), which samples are of the source, whose views are not adapted; by default none is.
        """
        if not self.camera_names:
            return None
        crops = [
            crop(images[name], self.crop_sizes[name], crop_generator, share) for name in self.camera_names
        ]
        batch, steps = crops[0].shape[:2]
        if of_source is not None:
            of_source = upload(of_source, crops[0].device).repeat_interleave(steps)  # (B * T,)
        features = self._features([part.flatten(0, 1) for part in crops], of_source)  # each (B * T, F)
        return torch.stack(features, dim=1).view(batch, steps, -1)

    def join(
        self,
        vision: Tensor | None,
        proprio: dict[str, Tensor],
        of_source: Tensor | None = None,
        label_generator: torch.Generator | None = None,
        share: Share | None = None,
    ) -> Encoding:
        """What `encode_images` gave and proprioception (B, T, d) -> Encoding.

        of_source: as for `encode_images`, for the domain label; label_generator: says whose label is left
        out.
        """
        if vision is None:
            first = proprio[self.proprio_names[0]]
            vision = first.new_zeros(len(first), first.shape[1], 0)
        flat = vision.flatten(1)  # step by step, camera by camera
        parts = [flat, *(proprio[name].reshape(len(flat), -1) for name in self.proprio_names)]
        if self.domain_label is not None:
            parts.append(self._labels(self.domain_label, flat, of_source, label_generator, share))
        return Encoding(flat, torch.cat(parts, dim=-1))

    def _labels(
        self,
        label: DomainLabel,
        like: Tensor,
        of_source: Tensor | None,
        generator: torch.Generator | None,
        share: Share | None,
    ) -> Tensor:
        """(1, 0) for the source, (0, 1) for the target, (0, 0) where it is left out: (B, 2)."""
        if of_source is None:
            of_source = torch.zeros(len(like), dtype=torch.bool, device=like.device)
        labels = upload(torch.stack([of_source, ~of_source], dim=1), like.device).to(like.dtype)
        if generator is not None:
            drawn = torch.rand(drawn_rows(share, len(like)), 1, generator=generator, device=generator.device)
            kept = (drawn if share is None else share.of(drawn)) >= label.dropout
            labels = labels * upload(kept, like.device).to(like.dtype)
        return labels

    def _features(self, crops: list[Tensor], of_source: Tensor | None) -> list[Tensor]:
        encoders = list(self.cameras) * (len(crops) if self.share else 1)
        if self.views is not None:
            parts = zip(encoders, crops, self.views, strict=True)
            return [encoder(part, view, of_source) for encoder, part, view in parts]
        if self.share and len({part.shape for part in crops}) == 1:  # one pass for all cameras
            return list(self.cameras[0](torch.cat(crops)).chunk(len(crops)))
        return [encoder(part) for encoder, part in zip(encoders, crops, strict=True)]
