"""What a policy sees, and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from beacon.errors import UserError
from beacon.plain import OMIT_DEFAULT, from_plain, to_plain
from beacon.ranges import Range, check_ranges

# Limits of what a description of a policy may ask for, far beyond any that was ever trained: a damaged or
# hostile file is refused at once, instead of filling the memory.
WIDEST = 65_536  # channels or features of a layer
LARGEST_POLICY = 4e9  # parameters, roughly


@dataclass(frozen=True)
class DomainLabel:
    """The domain as a condition of the policy, with classifier-free guidance (Ho and Salimans 2022)."""

    dropout: float  # share of the training samples whose label is left out
    guidance: float  # s; when acting: without label + s (with the target's label - without); 1 is no guidance

    def __post_init__(self) -> None:
        _require(0 <= self.dropout < 1, "domain label dropout: at least 0 and below 1")
        _require(0 <= self.guidance < float("inf"), "domain label guidance: at least 0, and finite")


@dataclass(frozen=True)
class ObservationSpec:
    """Names and shapes of everything that enters and leaves a policy."""

    cameras: dict[str, tuple[int, int, int]]  # camera name -> (height, width, channels) of its uint8 images
    proprio: dict[str, int]  # proprioception name -> number of values
    action_dim: int  # values per action
    # Whether source or target is a condition, too.
    domain_label: DomainLabel | None = field(default=None, metadata=OMIT_DEFAULT)

    def __post_init__(self) -> None:
        if not self.cameras and not self.proprio:
            raise UserError("a policy needs at least one camera or one proprioception key")
        if twice := sorted(set(self.cameras) & set(self.proprio)):
            raise UserError(f"{', '.join(twice)}: used both as a camera and as proprioception")
        for name, shape in self.cameras.items():
            if len(shape) != 3 or min(shape) < 1:
                raise UserError(
                    f"camera {name!r}: its shape should be (height, width, channels), not {shape}"
                )
        for name, size in self.proprio.items():
            if size < 1:
                raise UserError(f"proprioception {name!r}: its size should be positive, not {size}")
        if self.action_dim < 1:
            raise UserError(f"the action dimension should be positive, not {self.action_dim}")

    @property
    def camera_names(self) -> list[str]:
        """Cameras in the order in which the policy reads them, whatever the order of the dictionary."""
        return sorted(self.cameras)

    @property
    def proprio_names(self) -> list[str]:
        """Proprioception in the order in which the policy reads it, whatever the order of the dictionary."""
        return sorted(self.proprio)

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ObservationSpec:
        """The inverse of ``to_dict``."""
        spec: ObservationSpec = from_plain(cls, data, "observations")
        return spec


@dataclass(frozen=True)
class EncoderConfig:
    """From the images of one camera to a feature vector per observation step."""

    # Channels of the four stages; paper: ResNet-18.
    widths: Annotated[tuple[int, int, int, int], Range(1, WIDEST)] = (64, 128, 256, 512)
    output_stride: int = 32  # pixels per cell of the last feature map: 4, 8, 16 or 32; paper: ResNet-18's 32
    # Channels per GroupNorm group, at least one group; Diffusion Policy: 16.
    group_channels: Annotated[int, Range(1, WIDEST)] = 16
    # How features become a vector; the paper is silent, robomimic has a spatial softmax.
    pooling: Literal["spatial-softmax", "average"] = "spatial-softmax"
    # Of the spatial softmax, two coordinates each; robomimic's.
    keypoints: Annotated[int, Range(1, WIDEST)] = 32
    learn_temperature: bool = False  # of the spatial softmax; robomimic's is fixed at one
    # A last linear layer to so many features (None: no such layer); robomimic's.
    feature_dim: Annotated[int | None, Range(1, WIDEST)] = 64
    # Side of the crop as a share of the image's; 1 is no crop; the paper is silent: 86 of 96 pixels.
    crop: Annotated[float, Range(0, 1, above=True)] = 86 / 96
    share: bool = False  # one encoder for all cameras instead of one each; paper: a single camera
    # Mean and deviation of intensities in [0, 1]; the paper is silent, these are ImageNet's.
    image_mean: Annotated[tuple[float, float, float], Range(-100, 100)] = (0.485, 0.456, 0.406)
    image_std: Annotated[tuple[float, float, float], Range(0, 100, above=True)] = (0.229, 0.224, 0.225)
    # Learn by which projective map of the image, eight numbers, the cameras of the target differ from those
    # of the source; paper: no
    adapt_view: bool = False
    # With adapt_view: strength of the map's squared stretch, shear, scaling and tilt, which are added to the
    # loss. Demonstrations of a part of the table hardly tell them, and a little of them moves the other part
    # far.
    view_prior: Annotated[float, Range(0, 1e6)] = field(default=0.0, metadata=OMIT_DEFAULT)
    whiten: bool = False  # make the three colours uncorrelated: hue counts like brightness; paper: no

    def __post_init__(self) -> None:
        check_ranges(self, _encoder_option)
        _require(len(self.widths) == 4, "encoder widths: four positive numbers")
        _require(self.output_stride in (4, 8, 16, 32), "encoder output_stride: 4, 8, 16 or 32")
        for width in self.widths:
            groups = max(1, width // self.group_channels)
            _require(width % groups == 0, f"encoder width {width} does not divide into {groups} groups")
        _require(
            self.pooling in ("spatial-softmax", "average"), "encoder pooling: spatial-softmax or average"
        )
        if self.adapt_view and self.pooling != "spatial-softmax":
            raise UserError("encoder adapt_view moves keypoints; it needs pooling spatial-softmax")
        if self.learn_temperature and self.pooling != "spatial-softmax":
            raise UserError("encoder learn_temperature needs pooling=spatial-softmax")

    @property
    def features(self) -> int:
        """Features of one image."""
        if self.feature_dim is not None:
            return self.feature_dim
        return 2 * self.keypoints if self.pooling == "spatial-softmax" else self.widths[-1]

    def crop_size(self, height: int, width: int) -> tuple[int, int]:
        """The crop of an image of this size, in proportion: 96 -> 86, 84 -> 75."""
        return max(1, round(height * self.crop)), max(1, round(width * self.crop))


@dataclass(frozen=True)
class PolicyConfig:
    """A diffusion policy: history in, chunk of actions out (Chi et al. 2023).

    The paper follows the public Diffusion Policy and states no sizes of its own; where its two public forms
    differ, the defaults are robomimic's.
    """

    obs_steps: Annotated[int, Range(1, 1000)] = 2  # observation steps the policy sees; Diffusion Policy: 2
    # Actions in a chunk, which starts at the current step; Diffusion Policy: 16.
    horizon: Annotated[int, Range(1, 10_000)] = 16
    action_steps: int = 8  # of which the first so many are executed before the next look; Diffusion Policy: 8
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    denoiser: Literal["unet", "mlp"] = "unet"  # Diffusion Policy: 1-D U-Net
    # Of the U-Net's levels; the paper is silent, these are robomimic's (see VARIANTS).
    channels: Annotated[tuple[int, ...], Range(1, WIDEST)] = (256, 512, 1024)
    # Of the U-Net's convolutions over time; the paper is silent.
    kernel_size: Annotated[int, Range(1, 99)] = 5
    groups: Annotated[int, Range(1, WIDEST)] = 8  # of the U-Net's GroupNorm; the paper is silent
    mlp_width: Annotated[int, Range(1, WIDEST)] = 256  # of the MLP denoiser, unused by the U-Net
    mlp_blocks: Annotated[int, Range(1, 1000)] = 3  # residual blocks of the MLP, unused by the U-Net
    # Embedding of the diffusion step; the paper is silent, this is robomimic's (see VARIANTS).
    step_dim: Annotated[int, Range(4, WIDEST)] = 256
    # Diffusion steps in training; Diffusion Policy: 100.
    train_timesteps: Annotated[int, Range(2, 10_000)] = 100
    schedule: Literal["squaredcos_cap_v2", "linear"] = (
        "squaredcos_cap_v2"  # of the noise; Diffusion Policy: squared cosine
    )
    prediction: Literal["epsilon", "sample"] = "epsilon"  # what the denoiser predicts; paper: the noise
    clip_sample: bool = True  # clip predicted actions to [-1, 1] while sampling; Diffusion Policy: yes
    sampler: Literal["ddpm", "ddim"] = "ddpm"  # Diffusion Policy: DDPM
    sampling_steps: int = 100  # denoising steps per action chunk; Diffusion Policy: 100
    # Noise draws per encoded observation and gradient step; Diffusion Policy: 1.
    draws: Annotated[int, Range(1)] = 1
    stratified: bool = True  # spread a sample's draws over the diffusion steps; the same as not with one draw

    def __post_init__(self) -> None:
        check_ranges(self, _policy_option)
        if not 1 <= self.action_steps <= self.horizon:
            raise UserError(f"action_steps={self.action_steps}: between 1 and horizon={self.horizon}")
        if not 1 <= self.sampling_steps <= self.train_timesteps:
            raise UserError(
                f"sampling_steps={self.sampling_steps}: between 1 and train_timesteps={self.train_timesteps}"
            )
        if self.sampler == "ddim" and self.train_timesteps % self.sampling_steps:
            raise UserError(
                f"sampling_steps={self.sampling_steps}: DDIM needs a divisor of "
                f"train_timesteps={self.train_timesteps}"
            )
        _require(self.draws <= self.train_timesteps, "draws: between 1 and train_timesteps")
        _require(self.step_dim % 2 == 0, "step_dim: even and at least 4")
        _require(self.schedule in ("squaredcos_cap_v2", "linear"), "schedule: squaredcos_cap_v2 or linear")
        _require(self.prediction in ("epsilon", "sample"), "prediction: epsilon or sample")
        _require(self.sampler in ("ddpm", "ddim"), "sampler: ddpm or ddim")
        _require(self.denoiser in ("unet", "mlp"), "denoiser: unet or mlp")
        if self.denoiser == "unet":
            self._check_unet()
        if (size := self._rough_size()) > LARGEST_POLICY:
            raise UserError(
                f"a policy of about {size / 1e9:.0f} billion parameters; at most {LARGEST_POLICY / 1e9:.0f}"
            )

    def _check_unet(self) -> None:
        _require(1 <= len(self.channels) <= 16, "channels: one positive number per level, at most 16 levels")
        _require(self.kernel_size % 2 == 1, "kernel_size: odd")
        halvings = 2 ** (len(self.channels) - 1)
        if self.horizon % halvings:
            raise UserError(
                f"horizon={self.horizon}: {len(self.channels)} U-Net levels need a multiple of {halvings}"
            )
        for width in self.channels:
            if width % self.groups:
                raise UserError(f"channels={width}: not a multiple of groups={self.groups}")

    def _rough_size(self) -> float:
        """Parameters to an order of magnitude: those of the encoder's and the denoiser's convolutions."""
        image = 9 * 5 * sum(width**2 for width in self.encoder.widths)
        if self.denoiser == "mlp":
            return float(image + self.mlp_blocks * 2 * self.mlp_width**2)
        return float(image + 10 * self.kernel_size * sum(width**2 for width in self.channels))

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolicyConfig:
        """The inverse of ``to_dict``; unknown fields are refused, missing ones take their defaults."""
        config: PolicyConfig = from_plain(cls, data, "policy")
        return config


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UserError(message)


def _encoder_option(field_name: str) -> str:
    return f"--policy.encoder.{field_name.replace('_', '-')}"


def _policy_option(field_name: str) -> str:
    return f"--policy.{field_name.replace('_', '-')}"
