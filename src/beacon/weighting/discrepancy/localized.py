"""The localized labeled discrepancy: how much worse the target can get than the source, near a reference.

    d̂ = max over ‖θ − θ_ref‖₂ ≤ r of  L_target(θ) − L_source(θ),   at least 0       (paper, appendix C)

found by projected ascent on the same with a penalty β‖θ − θ_ref‖². One number per source domain; it
moves mass between domains and leaves the ranking of samples to their losses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from beacon.weighting.inputs import Label, PerSample, RefreshInputs
from beacon.weighting.validation import Vector

if TYPE_CHECKING:
    import torch

# Parameters θ are flat: NumPy's where the reference is, or tensors of float64 on the reference's device.
Parameters = Any
Loss = Callable[[Any, Label], Any]  # mean loss over all samples of a domain, at θ
Gradient = Callable[[Any, Label], Any]  # its gradient over θ; may be an estimate from a mini-batch

RELATIVE_RADIUS = 0.05  # of ‖θ_ref‖₂, when no radius is given


@dataclass(frozen=True)
class LocalizedResult:
    """d̂ and how it was found."""

    value: float  # d̂
    radius: float
    gaps: Vector  # the loss gap at every evaluation, the first at the reference itself
    best: Parameters  # the parameters at which it was largest


def localized_discrepancy(
    loss: Loss,
    gradient: Gradient,
    reference: Parameters,
    source: Label,
    target: Label,
    *,
    radius: float | None = None,
    beta: float = 1e-3,
    learning_rate: float = 1e-4,
    steps: int = 500,
    evaluate_every: int = 25,
    progress: Callable[[int], None] | None = None,
) -> LocalizedResult:
    """Ascend the loss gap in the ball around ``reference`` with Adam; keep the largest gap seen.

    Args:
        loss: ``loss(θ, domain)``, the mean loss of a domain. Use the same noise at every call: the
            largest of several noisy values would be biased upwards.
        gradient: ``gradient(θ, domain)``, its gradient.
        reference: θ_ref, flat, for example a policy trained on the target alone. Of a tensor the ascent is
            computed on its device, and ``loss`` and ``gradient`` are given and give tensors.
        source: label of the source domain, passed on to ``loss`` and ``gradient``.
        target: label of the target domain.
        radius: r; by default 0.05 ‖θ_ref‖₂.
        beta: strength of the pull towards the reference.
        learning_rate: Adam's.
        steps: of the ascent.
        evaluate_every: how often the gap, without the penalty, is looked at.
        progress: called after every step with its number.
    """
    import torch

    if not isinstance(reference, torch.Tensor):
        result = localized_discrepancy(
            lambda theta, domain: loss(theta.numpy(), domain),
            lambda theta, domain: torch.from_numpy(np.asarray(gradient(theta.numpy(), domain), np.float64)),
            torch.from_numpy(np.array(reference, dtype=np.float64)),
            source,
            target,
            radius=radius,
            beta=beta,
            learning_rate=learning_rate,
            steps=steps,
            evaluate_every=evaluate_every,
            progress=progress,
        )
        return replace(result, best=result.best.numpy())
    if reference.ndim != 1 or reference.numel() == 0 or not bool(torch.isfinite(reference).all()):
        raise ValueError("reference: must be a flat vector of finite parameters")
    if radius is None:
        radius = RELATIVE_RADIUS * vector_length(reference)
    if not radius > 0:
        raise ValueError(f"radius: must be above 0, got {radius}")
    if steps < 1 or evaluate_every < 1:
        raise ValueError(f"steps, evaluate_every: must be at least 1, got {steps} and {evaluate_every}")

    def gap(theta: torch.Tensor) -> float:
        value = float(loss(theta, target)) - float(loss(theta, source))
        if not np.isfinite(value):
            raise ValueError(f"loss: the gap between {target!r} and {source!r} is not finite")
        return value

    offset = torch.zeros_like(reference)
    ascent = _Adam(reference, learning_rate)
    gaps, best = [gap(reference)], reference
    for step in range(1, steps + 1):
        theta = reference + offset
        direction = gradient(theta, target) - gradient(theta, source) - 2.0 * beta * offset
        offset = _into_ball(offset + ascent.step(direction), radius)
        if step % evaluate_every == 0 or step == steps:
            gaps.append(gap(reference + offset))
            if gaps[-1] >= max(gaps):
                best = reference + offset
        if progress is not None:
            progress(step)
    return LocalizedResult(max(0.0, *gaps), radius, np.array(gaps), best)


@dataclass(frozen=True, eq=False)
class LocalizedEstimator:
    """The localized discrepancy of every source domain, computed once: an estimator for a loop of one's own.

    Args:
        loss: as for `localized_discrepancy`.
        gradient: likewise.
        reference: likewise.
        radius: likewise.
        beta: likewise.
        learning_rate: likewise.
        steps: likewise.
        evaluate_every: likewise.
    """

    loss: Loss
    gradient: Gradient
    reference: Parameters
    radius: float | None = None
    beta: float = 1e-3
    learning_rate: float = 1e-4
    steps: int = 500
    evaluate_every: int = 25

    once: ClassVar[bool] = True
    default_strength: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.radius is not None and not self.radius > 0:
            raise ValueError(f"radius: must be above 0, got {self.radius}")

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        """The same number for all samples of a source domain."""
        values = [self._ascend(label, inputs.target_label) for label in inputs.source_labels]
        diagnostics = {f"localized/{k}": v for k, v in zip(inputs.source_labels, values, strict=True)}
        return PerSample(np.array(values)[inputs.source_domains], diagnostics)

    def _ascend(self, source: Label, target: Label) -> float:
        result = localized_discrepancy(
            self.loss,
            self.gradient,
            self.reference,
            source,
            target,
            radius=self.radius,
            beta=self.beta,
            learning_rate=self.learning_rate,
            steps=self.steps,
            evaluate_every=self.evaluate_every,
        )
        return result.value


class _Adam:
    """Adam on a flat vector, for ascent."""

    def __init__(self, like: torch.Tensor, rate: float, decay: tuple[float, float] = (0.9, 0.999)) -> None:
        import torch

        self.rate, self.decay, self.count = rate, decay, 0
        self.mean, self.square = torch.zeros_like(like), torch.zeros_like(like)

    def step(self, direction: torch.Tensor) -> torch.Tensor:
        self.count += 1
        first, second = self.decay
        self.mean = first * self.mean + (1 - first) * direction
        self.square = second * self.square + (1 - second) * direction**2
        mean = self.mean / (1 - first**self.count)
        square = self.square / (1 - second**self.count)
        return self.rate * mean / (square.sqrt() + 1e-8)


def _into_ball(offset: torch.Tensor, radius: float) -> torch.Tensor:
    if offset.device.type == "cpu":
        length = vector_length(offset)
        return offset if length <= radius else offset * (radius / length)
    # On a GPU no step waits for the length.
    inside: torch.Tensor = offset * (radius / offset.norm().clamp_min(radius))
    return inside


def vector_length(vector: torch.Tensor) -> float:
    """‖v‖₂; of a vector on the CPU by NumPy, so that results are those of earlier versions."""
    if vector.device.type == "cpu":
        return float(np.linalg.norm(vector.numpy()))
    return float(vector.norm())
