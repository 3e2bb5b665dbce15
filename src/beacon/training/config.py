"""Everything that decides a training run, as plain typed data that config.yaml holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from beacon.data.decisions import DatasetDecisions
from beacon.errors import UserError, meant
from beacon.methods.auxiliary import AuxiliaryLoss
from beacon.plain import OMIT_DEFAULT, changed, from_plain, to_plain
from beacon.policy.config import PolicyConfig
from beacon.policy.presets import preset_policy
from beacon.ranges import Range, check_ranges
from beacon.training.early_looks import LookOptions
from beacon.yaml_files import read_yaml

Preset = Literal["cpu", "gpu", "paper"]
LARGEST_SEED = 2**63 - 1  # torch takes a signed number
MANY = 10**12  # more steps, epochs or demonstrations than there will ever be


@dataclass(frozen=True)
class DataOptions:
    """Which demonstrations, and how they are read."""

    # Source demonstrations; repeat the option for several source domains.
    source: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction] = ()
    # Target demonstrations; repeat the option for several datasets of the one target domain.
    target: Path | None = None
    # Only the demonstrations under mask/<key> of the source files.
    source_mask: str | None = None
    # Only the demonstrations under mask/<key> of the target file.
    target_mask: str | None = None
    # Only the first so many demonstrations of every source file.
    source_demos: Annotated[int | None, Range(1, MANY)] = None
    # Only the first so many demonstrations of the target file.
    target_demos: Annotated[int | None, Range(1, MANY)] = None
    # Target demonstrations for the held-out loss alone: a dataset, or a share of the target's, such as 0.1.
    validation: Path | None = None
    # Cameras to use; default: all that the domains share.
    cameras: tuple[str, ...] | None = None
    # Proprioception to use; default: the end-effector's position, orientation and gripper.
    proprio: tuple[str, ...] | None = None
    # Observations that are called otherwise somewhere, as OLD=NEW; repeat for several.
    rename: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    # Resize all images to this height and width.
    image_size: Annotated[int | None, Range(1, 10_000)] = None
    # What actions and proprioception are scaled by: ranges of all data, of the target's, or each domain's.
    statistics: Literal["pooled", "target", "per-domain"] = "pooled"
    # Take this quantile and its opposite for the range instead of the extremes, for example 0.01.
    quantile: Annotated[float | None, Range(0, 0.5, above=True)] = None
    # Where the target's sensors are noisier than the source's (proprioception, pixels), add as much noise to
    # the source's in training: a policy that learns from exact readings trusts them too much.
    match_noise: bool = field(default=False, metadata=OMIT_DEFAULT)
    # Leave out episodes of LeRobot folders whose files are missing.
    skip_incomplete: bool = field(default=False, metadata=OMIT_DEFAULT)
    # Images beyond this many GiB are memory-mapped; default: half of the free memory.
    memory_limit: Annotated[float | None, Range(0, 1e9)] = None
    # What --decisions F said of these data when the run was started.
    decisions: Annotated[tuple[DatasetDecisions, ...], tyro.conf.Fixed, tyro.conf.Suppress] = field(
        default=(), metadata=OMIT_DEFAULT
    )
    # With --decisions: kept demonstrations weigh at least so many times the mean weight of their domain.
    kept_floor: Annotated[float, Range(0, 1e6)] = field(default=1.0, metadata=OMIT_DEFAULT)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class OptimizationOptions:
    """How the policy is optimised, the same for all methods."""

    # Gradient steps in all. Paper: 600 epochs; steps of an epoch unstated.
    steps: Annotated[int, Range(1, MANY)] = 180_000
    # Gradient steps between two refreshes of the weights, S_h. Paper: unstated.
    steps_per_epoch: Annotated[int, Range(1, MANY)] = 300
    # Windows per mini-batch. Paper: unstated; the public Diffusion Policy has 64.
    batch_size: Annotated[int, Range(1, 1_000_000)] = 128
    # AdamW's learning rate. Diffusion Policy: 1e-4.
    learning_rate: Annotated[float, Range(0, 1e6, above=True)] = 1e-4
    # Steps of linear warm-up before the cosine decay. Diffusion Policy: 500.
    warmup_steps: Annotated[int, Range(0, MANY)] = 500
    # Gradients longer than this, times the mean weight of a window, are shortened to it; None: never
    # (the paper names none).
    gradient_clip: Annotated[float | None, Range(0, above=True)] = None
    # AdamW's weight decay; methods may scale it, as BEACON does by its largest weight.
    # Diffusion Policy: 1e-6.
    weight_decay: Annotated[float, Range(0, 1e6)] = 1e-6
    # Power and maximum of the parameters' moving average. Diffusion Policy: 0.75 and 0.9999.
    ema_power: Annotated[float, Range(0, 1e6)] = 0.75
    ema_max: Annotated[float, Range(0, 1)] = 0.9999
    # Decides the initial parameters, the data order and all noise.
    seed: Annotated[int, Range(0, LARGEST_SEED)] = 0
    # AdamW's betas. Paper: unstated; these are torch's and robomimic's, the public Diffusion Policy has 0.95
    # and 0.999. The default is left out of config.yaml, because runs and results are older than the option.
    betas: Annotated[tuple[float, float], Range(0, 0.999999)] = field(
        default=(0.9, 0.999), metadata=OMIT_DEFAULT
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.steps % self.steps_per_epoch:
            raise UserError(
                f"--steps {self.steps}: must be a multiple of --steps-per-epoch {self.steps_per_epoch}, "
                "because weights are refreshed and checkpoints written between epochs"
            )

    @property
    def epochs(self) -> int:
        """How many epochs the run has."""
        return self.steps // self.steps_per_epoch


@dataclass(frozen=True)
class RunOptions:
    """What may differ between two machines without changing the result's meaning."""

    # Where to compute: "auto" takes a GPU when there is one.
    device: str = "auto"
    # Numbers of the forward and backward pass: bf16 on a GPU and float32 on the CPU ("auto"), or as said. On
    # a CPU, bf16 pays for large policies where the processor has it. Refreshes compute in float32.
    precision: Literal["auto", "float32", "bf16"] = "auto"
    # CPU threads; default: as torch chooses.
    threads: Annotated[int | None, Range(1, 100_000)] = None
    # torch.compile the networks: slower to start, faster on a GPU.
    compile: bool = False
    # Epochs between two checkpoints; default: about ten in a run.
    checkpoint_every: Annotated[int | None, Range(1, MANY)] = None
    # Also write a checkpoint at the end of an epoch when the last one is this many minutes old.
    checkpoint_minutes: Annotated[float | None, Range(0, 1e6, above=True)] = None
    # Stop at a checkpoint before this many hours have passed; --resume goes on, for as long again.
    max_hours: Annotated[float | None, Range(0, 1e6, above=True)] = None
    # Checkpoints to keep, the newest ones.
    keep: Annotated[int, Range(1, MANY)] = 2
    # Steps between two lines of metrics.
    log_every: Annotated[int, Range(1, MANY)] = 20
    # Epochs between two evaluations of the held-out loss (with --validation).
    validate_every: Annotated[int, Range(1, MANY)] = 1
    # Also write TensorBoard files.
    tensorboard: bool = True
    # Also log to this Weights & Biases project (needs the package wandb).
    wandb: str | None = None
    # Early looks at success.
    looks: Annotated[LookOptions, tyro.conf.arg(name="")] = field(
        default=LookOptions(), metadata=OMIT_DEFAULT
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class TrainConfig:
    """A whole run: data, method with its options, policy, optimisation."""

    method: str
    options: Any  # the method's own Options
    preset: Preset = "cpu"
    auxiliary: tuple[AuxiliaryLoss, ...] = ()  # losses that are added to the policy's, whatever the method
    data: DataOptions = field(default_factory=DataOptions)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    optimization: OptimizationOptions = field(default_factory=OptimizationOptions)
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        from beacon.methods import METHODS

        if self.method not in METHODS:
            near = meant(self.method, METHODS)
            raise UserError(f"--method {self.method}: {near}choose one of {', '.join(METHODS)}")
        method = METHODS[self.method]
        if not isinstance(self.options, method.Options):
            raise UserError(f"the options of {self.method} must be {method.Options.__name__}")
        if method.needs_source and not self.data.source:
            raise UserError(f"--method {self.method} needs source demonstrations; say --source FILE")
        if method.needs_target and self.data.target is None:
            raise UserError(f"--method {self.method} needs target demonstrations; say --target FILE")
        if self.data.target is None and self.data.statistics == "target":
            raise UserError("--statistics target needs target demonstrations; say --target FILE")
        method.check(self.options, epochs=self.optimization.epochs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for YAML."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def decisive(self) -> dict[str, Any]:
        """The part of `to_dict` that decides the result; how it is run may change on the way."""
        return {name: value for name, value in self.to_dict().items() if name != "run"}

    def digest(self) -> str:
        """A short name of what is decisive, by which a checkpoint knows whose it is."""
        text = json.dumps(self.decisive(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """The inverse of ``to_dict``: name, type and range of every field are checked."""
        from beacon.methods import METHODS

        missing = [name for name in ("method", "options", "preset", *SECTIONS) if name not in values]
        if missing:
            raise UserError(f"not a configuration of this version of beacon: {missing[0]} is missing")
        method = from_plain(str, values["method"], "method")
        if method not in METHODS:
            near = meant(str(method), METHODS)
            raise UserError(f"method: there is no '{method}'; {near}choose one of {', '.join(METHODS)}")
        known = ("method", "options", "preset", "auxiliary", *SECTIONS)
        unknown = [str(name) for name in values if name not in known]
        if unknown:
            raise UserError(f"{unknown[0][:80]}: there is no such part of a configuration")
        values = {**values, "run": _present_run(values["run"])}
        return cls(
            method=method,
            options=_method_options(method, values["options"]),
            preset=from_plain(Preset, values["preset"], "preset"),
            auxiliary=from_plain(tuple[AuxiliaryLoss, ...], values.get("auxiliary", ()), "auxiliary"),
            **{name: from_plain(section, values[name], name) for name, section in SECTIONS.items()},
        )


def _present_run(values: Any) -> Any:
    """Options of a run as this version says them: "bfloat16" was the old name of "auto"."""
    if isinstance(values, Mapping) and values.get("precision") == "bfloat16":
        return {**values, "precision": "auto"}
    return values


def _method_options(method: str, values: Any) -> Any:
    """The options of a method from plain values; those that are missing are the method's own defaults."""
    from beacon.methods import METHODS

    if not isinstance(values, Mapping):
        raise UserError("options: a mapping of options expected")
    return changed(METHODS[method].default_options(), values, "options")


SECTIONS: dict[str, type[Any]] = {
    "data": DataOptions,
    "policy": PolicyConfig,
    "optimization": OptimizationOptions,
    "run": RunOptions,
}


def read_config(file: Path) -> TrainConfig:
    """The configuration that a run was started with, from its config.yaml.

    Args:
        file: the config.yaml of a run folder; what is wrong with it is one line that begins with its path.
    """
    values = read_yaml(file)
    if not isinstance(values, Mapping):
        raise UserError(f"{file}: damaged, not a configuration")
    try:
        return TrainConfig.from_dict(values)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def preset_config(preset: str, variant: str | None = None) -> tuple[PolicyConfig, OptimizationOptions]:
    """Policy and optimisation of a preset: ``cpu`` for minutes on one core, ``gpu`` and ``paper`` for a GPU.

    Args:
        preset: a name of `beacon.policy.presets.PRESETS`.
        variant: ``robomimic`` or ``diffusion-policy``, for ``paper`` alone; None: robomimic's sizes.
    """
    policy = preset_policy(preset, variant)
    optimization = OptimizationOptions()
    if preset == "cpu":
        optimization = replace(
            optimization,
            steps=10_000,  # with 2,500 the order of methods is another one, see docs/findings.md
            steps_per_epoch=250,
            batch_size=16,  # the same time in fewer and larger steps teaches less, see docs/lab-notes.md
            learning_rate=1e-3,
            warmup_steps=50,
            gradient_clip=1.0,  # in a short run, Adam does not get over the first large gradients otherwise
        )
    if preset == "gpu":
        # For one card with 24 GB; 600 refreshes, as in the paper.
        optimization = replace(
            optimization,
            steps=60_000,
            steps_per_epoch=100,
            batch_size=64,
            learning_rate=3e-4,
            gradient_clip=1.0,
        )
    if variant == "diffusion-policy":
        optimization = replace(optimization, betas=(0.95, 0.999), batch_size=64)
    return policy, optimization


def preset_data(preset: str) -> DataOptions:
    """How a preset reads demonstrations by default.

    The paper's images have 96 pixels a side, and its readings stay as they were recorded.
    """
    if preset == "cpu":
        return DataOptions(match_noise=True)
    return DataOptions(image_size=96, match_noise=preset == "gpu")
