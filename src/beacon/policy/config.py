"""What a policy sees, what it is made of, and the two presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar, get_type_hints

from beacon.errors import UserError

T = TypeVar("T")


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
    domain_label: DomainLabel | None = None  # whether source or target is a condition, too

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
        return {
            "cameras": {name: list(shape) for name, shape in self.cameras.items()},
            "proprio": dict(self.proprio),
            "action_dim": self.action_dim,
            **({} if self.domain_label is None else {"domain_label": asdict(self.domain_label)}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ObservationSpec:
        """The inverse of ``to_dict``."""
        try:
            return cls(
                cameras={str(name): _triple(shape) for name, shape in data["cameras"].items()},
                proprio={str(name): int(size) for name, size in data["proprio"].items()},
                action_dim=int(data["action_dim"]),
                domain_label=DomainLabel(**data["domain_label"]) if data.get("domain_label") else None,
            )
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise UserError(f"not a description of observations: {error!r}") from error


@dataclass(frozen=True)
class EncoderConfig:
    """From the images of one camera to a feature vector per observation step."""

    widths: tuple[int, int, int, int] = (64, 128, 256, 512)  # channels of the four stages; paper: ResNet-18
    output_stride: int = 32  # pixels per cell of the last feature map: 4, 8, 16 or 32; paper: 32
    group_channels: int = 16  # channels per GroupNorm group, at least one group; paper: 16
    pooling: Literal["spatial-softmax", "average"] = "spatial-softmax"  # paper: spatial softmax (robomimic)
    keypoints: int = 32  # of the spatial softmax, two coordinates each; paper: 32
    learn_temperature: bool = False  # of the spatial softmax; paper: fixed at one
    feature_dim: int | None = 64  # a last linear layer to so many features (None: no such layer); paper: 64
    crop: float = 86 / 96  # side of the crop as a share of the image's; 1 is no crop; paper: 96 -> 86
    share: bool = False  # one encoder for all cameras instead of one each; paper: a single camera
    image_mean: tuple[float, float, float] = (
        0.485,
        0.456,
        0.406,
    )  # of intensities in [0, 1]; paper: ImageNet's
    image_std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    # Learn by which projective map of the image, eight numbers, the cameras of the target differ from those
    # of the source; paper: no
    adapt_view: bool = False
    whiten: bool = False  # make the three colours uncorrelated: hue counts like brightness; paper: no

    def __post_init__(self) -> None:
        _require(len(self.widths) == 4 and min(self.widths) >= 1, "encoder widths: four positive numbers")
        _require(self.output_stride in (4, 8, 16, 32), "encoder output_stride: 4, 8, 16 or 32")
        _require(self.group_channels >= 1, "encoder group_channels: at least 1")
        for width in self.widths:
            groups = max(1, width // self.group_channels)
            _require(width % groups == 0, f"encoder width {width} does not divide into {groups} groups")
        _require(
            self.pooling in ("spatial-softmax", "average"), "encoder pooling: spatial-softmax or average"
        )
        _require(self.keypoints >= 1, "encoder keypoints: at least 1")
        _require(
            self.feature_dim is None or self.feature_dim >= 1, "encoder feature_dim: at least 1, or none"
        )
        _require(0 < self.crop <= 1, "encoder crop: a share of the image side, in (0, 1]")
        _require(min(self.image_std) > 0, "encoder image_std: positive")
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
    """A diffusion policy: history in, chunk of actions out (Chi et al. 2023)."""

    obs_steps: int = 2  # observation steps the policy sees; paper: 2
    horizon: int = 16  # actions in a chunk, which starts at the current step; paper: 16
    action_steps: int = 8  # of which the first so many are executed before the next look; paper: 8
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    denoiser: Literal["unet", "mlp"] = "unet"  # paper: 1-D U-Net
    channels: tuple[int, ...] = (256, 512, 1024)  # of the U-Net's levels; paper: robomimic's 256/512/1024
    kernel_size: int = 5  # of the U-Net's convolutions over time; paper: 5
    groups: int = 8  # of the U-Net's GroupNorm; paper: 8
    mlp_width: int = 256  # of the MLP denoiser, unused by the U-Net
    mlp_blocks: int = 3  # residual blocks of the MLP denoiser, unused by the U-Net
    step_dim: int = 256  # embedding of the diffusion step; paper: 256
    train_timesteps: int = 100  # diffusion steps in training; paper: 100
    schedule: Literal["squaredcos_cap_v2", "linear"] = (
        "squaredcos_cap_v2"  # of the noise; paper: squared cosine
    )
    prediction: Literal["epsilon", "sample"] = "epsilon"  # what the denoiser predicts; paper: the noise
    clip_sample: bool = True  # clip predicted actions to [-1, 1] while sampling; paper: yes
    sampler: Literal["ddpm", "ddim"] = "ddpm"  # paper: DDPM
    sampling_steps: int = 100  # denoising steps per action chunk; paper: 100
    draws: int = 1  # noise draws per encoded observation and gradient step; paper: 1
    stratified: bool = True  # spread a sample's draws over the diffusion steps; the same as not with one draw

    def __post_init__(self) -> None:
        _require(self.obs_steps >= 1, "obs_steps: at least 1")
        _require(self.horizon >= 1, "horizon: at least 1")
        if not 1 <= self.action_steps <= self.horizon:
            raise UserError(f"action_steps={self.action_steps}: between 1 and horizon={self.horizon}")
        _require(self.train_timesteps >= 2, "train_timesteps: at least 2")
        if not 1 <= self.sampling_steps <= self.train_timesteps:
            raise UserError(
                f"sampling_steps={self.sampling_steps}: between 1 and train_timesteps={self.train_timesteps}"
            )
        if self.sampler == "ddim" and self.train_timesteps % self.sampling_steps:
            raise UserError(
                f"sampling_steps={self.sampling_steps}: DDIM needs a divisor of "
                f"train_timesteps={self.train_timesteps}"
            )
        _require(1 <= self.draws <= self.train_timesteps, "draws: between 1 and train_timesteps")
        _require(self.step_dim >= 4 and self.step_dim % 2 == 0, "step_dim: even and at least 4")
        _require(self.schedule in ("squaredcos_cap_v2", "linear"), "schedule: squaredcos_cap_v2 or linear")
        _require(self.prediction in ("epsilon", "sample"), "prediction: epsilon or sample")
        _require(self.sampler in ("ddpm", "ddim"), "sampler: ddpm or ddim")
        _require(self.denoiser in ("unet", "mlp"), "denoiser: unet or mlp")
        if self.denoiser == "unet":
            self._check_unet()
        else:
            _require(self.mlp_width >= 1 and self.mlp_blocks >= 1, "mlp_width and mlp_blocks: at least 1")

    def _check_unet(self) -> None:
        _require(
            len(self.channels) >= 1 and min(self.channels) >= 1, "channels: one positive number per level"
        )
        _require(self.kernel_size >= 1 and self.kernel_size % 2 == 1, "kernel_size: odd")
        halvings = 2 ** (len(self.channels) - 1)
        if self.horizon % halvings:
            raise UserError(
                f"horizon={self.horizon}: {len(self.channels)} U-Net levels need a multiple of {halvings}"
            )
        for width in self.channels:
            if self.groups < 1 or width % self.groups:
                raise UserError(f"channels={width}: not a multiple of groups={self.groups}")

    def to_dict(self) -> dict[str, Any]:
        """A form that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolicyConfig:
        """The inverse of ``to_dict``; unknown fields are refused, missing ones take their defaults."""
        values = dict(data)
        if "encoder" in values:
            values["encoder"] = _build(EncoderConfig, values["encoder"])
        return _build(cls, values)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise UserError(message)


def _triple(shape: Any) -> tuple[int, int, int]:
    height, width, channels = (int(size) for size in shape)
    return height, width, channels


def _build(kind: type[T], data: Mapping[str, Any]) -> T:
    """A dataclass from its JSON form, in which tuples have become lists."""
    names = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - names):
        raise UserError(f"{kind.__name__} has no field {', '.join(unknown)}")
    hints = get_type_hints(kind)
    values = {}
    for name, value in data.items():
        is_tuple = "tuple" in str(hints[name]) and isinstance(value, list)
        values[name] = tuple(value) if is_tuple else value
    try:
        return kind(**values)
    except TypeError as error:
        raise UserError(f"{kind.__name__}: {error}") from error


# "paper" is robomimic's variant of the public Diffusion Policy. "cpu" is the same method, sized so that a run
# of a simulated task takes minutes on one core: an encoder that keeps positions (narrow, stride 8, no random
# crop, which moves them), a small U-Net, and several noise draws for each encoded image, because encoding is
# what costs. It predicts the actions and not the noise: the error of a predicted noise hardly depends on what
# the policy sees where there is much noise, which is where it decides what to do. In a short run that is
# the difference between half and nearly all of the stacks (docs/simulation.md). It whitens the colours:
# brightness varies most in any image, and a short run may end before the policy sees what differs in hue. And
# it learns how the target's camera is turned, which a few demonstrations tell (docs/findings.md).
PRESETS: dict[str, PolicyConfig] = {
    "paper": PolicyConfig(),
    "cpu": PolicyConfig(
        obs_steps=1,
        encoder=EncoderConfig(
            widths=(16, 32, 32, 32),
            output_stride=8,
            learn_temperature=True,
            feature_dim=None,
            crop=1.0,
            adapt_view=True,
            whiten=True,
        ),
        channels=(32, 64),
        step_dim=64,
        prediction="sample",
        sampler="ddim",
        sampling_steps=10,
        draws=4,
    ),
}
