"""Everything that decides a training run, as plain typed data that config.yaml holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from beacon.errors import UserError
from beacon.policy.config import PRESETS, PolicyConfig

Preset = Literal["cpu", "paper"]
LARGEST_SEED = 2**63 - 1  # torch takes a signed number


@dataclass(frozen=True)
class DataOptions:
    """Which demonstrations, and how they are read."""

    # Source demonstrations; repeat the option for several source domains.
    source: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction] = ()
    # Target demonstrations.
    target: Path | None = None
    # Only the demonstrations under mask/<key> of the source files.
    source_mask: str | None = None
    # Only the demonstrations under mask/<key> of the target file.
    target_mask: str | None = None
    # Only the first so many demonstrations of every source file.
    source_demos: int | None = None
    # Only the first so many demonstrations of the target file.
    target_demos: int | None = None
    # Target demonstrations for the held-out loss alone: a dataset, or a share of the target's, such as 0.1.
    validation: Path | None = None
    # Cameras to use; default: all that the domains share.
    cameras: tuple[str, ...] | None = None
    # Proprioception to use; default: the end-effector's position, orientation and gripper.
    proprio: tuple[str, ...] | None = None
    # Observations that are called otherwise somewhere, as OLD=NEW; repeat for several.
    rename: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    # Resize all images to this height and width.
    image_size: int | None = None
    # What actions and proprioception are scaled by: ranges of all data, of the target's, or each domain's.
    statistics: Literal["pooled", "target", "per-domain"] = "pooled"
    # Take this quantile and its opposite for the range instead of the extremes, for example 0.01.
    quantile: float | None = None
    # Images beyond this many GiB are memory-mapped; default: half of the free memory.
    memory_limit: float | None = None


@dataclass(frozen=True)
class OptimizationOptions:
    """How the policy is optimised, the same for all methods."""

    # Gradient steps in all. Paper: 600 epochs of 300.
    steps: int = 180_000
    # Gradient steps between two refreshes of the weights, S_h. Paper: unstated; 300.
    steps_per_epoch: int = 300
    # Windows per mini-batch. Paper: unstated; 128.
    batch_size: int = 128
    # AdamW's learning rate. Paper: 1e-4.
    learning_rate: float = 1e-4
    # Steps of linear warm-up before the cosine decay. Paper: 500.
    warmup_steps: int = 500
    # Gradients longer than this, times the mean weight of a window, are shortened to it; None: never (paper).
    gradient_clip: float | None = None
    # AdamW's weight decay; BEACON scales it by its largest weight. Paper: 1e-6.
    weight_decay: float = 1e-6
    # Power and maximum of the parameters' moving average. Paper: 0.75 and 0.9999.
    ema_power: float = 0.75
    ema_max: float = 0.9999
    # Decides the initial parameters, the data order and all noise.
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "steps_per_epoch", "batch_size"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be at least 1")
        if self.steps % self.steps_per_epoch:
            raise UserError(
                f"--steps {self.steps}: must be a multiple of --steps-per-epoch {self.steps_per_epoch}, "
                "because weights are refreshed and checkpoints written between epochs"
            )
        if not self.learning_rate > 0:
            raise UserError(f"--learning-rate {self.learning_rate}: must be above 0")
        if self.gradient_clip is not None and not self.gradient_clip > 0:
            raise UserError(f"--gradient-clip {self.gradient_clip}: must be above 0, or None")
        for name in ("warmup_steps", "weight_decay", "seed"):
            if getattr(self, name) < 0:
                raise UserError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be at least 0")
        if self.seed > LARGEST_SEED:
            raise UserError(f"--seed {self.seed}: must be at most {LARGEST_SEED}")
        if not 0 <= self.ema_max <= 1 or self.ema_power < 0:
            raise UserError("--ema-max must be from 0 to 1, and --ema-power at least 0")

    @property
    def epochs(self) -> int:
        """How many epochs the run has."""
        return self.steps // self.steps_per_epoch


@dataclass(frozen=True)
class RunOptions:
    """What may differ between two machines without changing the result's meaning."""

    # Where to compute: "auto" takes a GPU when there is one.
    device: str = "auto"
    # Numbers of the forward and backward pass on a GPU; the CPU always computes in float32.
    precision: Literal["float32", "bfloat16"] = "bfloat16"
    # CPU threads; default: as torch chooses.
    threads: int | None = None
    # torch.compile the networks: slower to start, faster on a GPU.
    compile: bool = False
    # Epochs between two checkpoints; default: about ten in a run.
    checkpoint_every: int | None = None
    # Checkpoints to keep, the newest ones.
    keep: int = 2
    # Steps between two lines of metrics.
    log_every: int = 20
    # Epochs between two evaluations of the held-out loss (with --validation).
    validate_every: int = 1
    # Also write TensorBoard files.
    tensorboard: bool = True
    # Also log to this Weights & Biases project (needs the package wandb).
    wandb: str | None = None

    def __post_init__(self) -> None:
        for name in ("keep", "log_every", "validate_every"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be at least 1")
        for name in ("threads", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"--{name.replace('_', '-')} {value}: must be at least 1")


@dataclass(frozen=True)
class TrainConfig:
    """A whole run: data, method with its options, policy, optimisation."""

    method: str
    options: Any  # the method's own Options
    preset: Preset = "cpu"
    data: DataOptions = field(default_factory=DataOptions)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    optimization: OptimizationOptions = field(default_factory=OptimizationOptions)
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        from beacon.methods import METHODS

        if self.method not in METHODS:
            raise UserError(f"--method {self.method}: choose one of {', '.join(METHODS)}")
        kind = METHODS[self.method]
        if not isinstance(self.options, kind.Options):
            raise UserError(f"the options of {self.method} must be {kind.Options.__name__}")
        if kind.needs_source and not self.data.source:
            raise UserError(f"--method {self.method} needs source demonstrations; say --source FILE")
        if kind.needs_target and self.data.target is None:
            raise UserError(f"--method {self.method} needs target demonstrations; say --target FILE")
        if self.data.target is None and self.data.statistics == "target":
            raise UserError("--statistics target needs target demonstrations; say --target FILE")
        kind.check(self.options, epochs=self.optimization.epochs)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for YAML."""
        return _plain(asdict(self))  # type: ignore[no-any-return]

    def decisive(self) -> dict[str, Any]:
        """The part of `to_dict` that decides the result; how it is run may change on the way."""
        return {name: value for name, value in self.to_dict().items() if name != "run"}

    def digest(self) -> str:
        """A short name of what is decisive, by which a checkpoint knows whose it is."""
        text = json.dumps(self.decisive(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """The inverse of ``to_dict``."""
        from beacon.methods import METHODS

        try:
            kind = METHODS[values["method"]]
            return cls(
                method=values["method"],
                options=_build(kind.Options, values["options"]),
                preset=values["preset"],
                data=_build(DataOptions, values["data"]),
                policy=PolicyConfig.from_dict(values["policy"]),
                optimization=_build(OptimizationOptions, values["optimization"]),
                run=_build(RunOptions, values["run"]),
            )
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"not a configuration of this version of beacon: {error!r}") from None


def preset_config(preset: str) -> tuple[PolicyConfig, OptimizationOptions]:
    """Policy and optimisation of a preset: ``paper`` for a GPU, ``cpu`` for minutes on one core."""
    if preset not in PRESETS:
        raise UserError(f"--preset {preset}: choose one of {', '.join(PRESETS)}")
    optimization = OptimizationOptions()
    if preset == "cpu":
        optimization = replace(
            optimization,
            steps=2500,
            steps_per_epoch=250,
            batch_size=16,  # the same time in fewer and larger steps teaches less, see docs/findings.md
            learning_rate=1e-3,
            warmup_steps=50,
            gradient_clip=1.0,  # in a short run, Adam does not get over the first large gradients otherwise
        )
    return PRESETS[preset], optimization


def differences(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Where two plain configurations differ, as ``optimization.seed: 0 and 1``."""
    found = []
    for name in sorted({*first, *second}):
        a, b = first.get(name), second.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{prefix}{name}.")
        elif a != b:
            found.append(f"{prefix}{name}: {a} and {b}")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _build(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """A dataclass from plain values; nested dataclasses, paths and tuples come back as such."""
    hints = get_type_hints(kind)
    unknown = sorted(set(values) - {entry.name for entry in fields(kind)})
    if unknown:
        raise UserError(f"not a configuration of this version of beacon: {kind.__name__} has no {unknown[0]}")
    built: dict[str, Any] = {}
    for name, value in values.items():
        hint = hints[name]
        if is_dataclass(hint) and isinstance(hint, type):
            built[name] = _build(hint, value)
        elif value is not None and "Path" in str(hint):
            built[name] = tuple(Path(item) for item in value) if isinstance(value, list) else Path(value)
        else:
            built[name] = tuple(value) if isinstance(value, list) else value
    return kind(**built)
