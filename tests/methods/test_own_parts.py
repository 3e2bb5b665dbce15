"""A check, an estimator and an auxiliary loss of a user's own, chosen by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from safetensors.torch import load_file
from tiny_runs import assert_same_runs, metrics, tiny_config, train_with_stops

from beacon.data.context import DataContext
from beacon.errors import UserError
from beacon.methods import AUXILIARY_LOSSES, PAPER, RECOMMENDED, AuxiliaryLoss, MethodContext
from beacon.methods.auxiliary import BuiltAuxiliaryLoss
from beacon.plain import changed, from_plain
from beacon.runs import RunFolder
from beacon.training import Trainer, train
from beacon.training.stored_config import read_config
from beacon.weighting import CHECKS, DISCREPANCIES, BuiltCheck, Check, Discrepancy, PerSample, RefreshInputs

if TYPE_CHECKING:
    from torch import Tensor


@DISCREPANCIES.register("test-far-from-mean")
@dataclass(frozen=True)
class FarFromMean(Discrepancy):
    """Distance to the target's mean embedding."""

    scale: float = 1.0

    default_strength: ClassVar[float] = 0.25

    def __call__(self, inputs: RefreshInputs) -> NDArray[np.float64]:
        """One plain number per source sample."""
        source, target = inputs.embeddings()
        return (self.scale * (source - target.mean(dim=0)).norm(dim=1)).double().numpy()


@CHECKS.register("test-first-demo")
@dataclass(frozen=True)
class FirstDemoCheck(Check):
    """The first demonstration is in doubt."""

    factor: float = 2.0

    def __post_init__(self) -> None:
        if self.factor < 1:
            raise ValueError(f"factor: must be at least 1, got {self.factor}")

    def build(self, context: DataContext) -> BuiltCheck:
        """Needs no more than the demonstrations."""
        return _FirstDemo(np.where(context.windows.episode[context.source_windows] == 0, self.factor, 1.0))


class _FirstDemo(BuiltCheck):
    def __init__(self, prior: NDArray[np.float64]) -> None:
        self.prior = prior

    def __call__(self, inputs: RefreshInputs) -> PerSample:
        return PerSample(self.prior, {"first_demo": float(self.prior.mean())})


@AUXILIARY_LOSSES.register("test-growing-norm")
@dataclass(frozen=True)
class GrowingNorm(AuxiliaryLoss):
    """A penalty of large features that grows with every gradient step."""

    strength: float = 0.1

    def build(self, context: MethodContext) -> BuiltAuxiliaryLoss | None:
        """None without strength."""
        return _GrowingNorm(self.strength) if self.strength else None


class _GrowingNorm(BuiltAuxiliaryLoss):
    def __init__(self, strength: float) -> None:
        self._strength, self._steps = strength, 0

    def loss(self, batch: Any, encoding: Any) -> Tensor:
        self._steps += 1
        value: Tensor = self._strength * self._steps * encoding.vision.float().square().mean()
        return value

    def state_dict(self) -> dict[str, NDArray[Any]]:
        return {"steps": np.array(self._steps)}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._steps = int(state["steps"])


CHOSEN = {
    "discrepancy": {"part": "test-far-from-mean", "scale": 0.5},
    "checks": ["inverse-dynamics", {"part": "test-first-demo", "factor": 3.0}],
}


def test_a_run_of_own_parts_trains_resumes_and_is_written_down(
    source: Path, target: Path, tmp_path: Path
) -> None:
    options = changed(RECOMMENDED, CHOSEN)
    assert options.discrepancy == FarFromMean(scale=0.5) and options.checks[1] == FirstDemoCheck(factor=3.0)
    auxiliary = from_plain(tuple[AuxiliaryLoss, ...], ["test-growing-norm"])
    assert auxiliary == (GrowingNorm(),)
    config = tiny_config("beacon", source, target, options=options, auxiliary=auxiliary, steps=8)
    train(config, tmp_path / "whole")
    train_with_stops(config, tmp_path / "parts", 3, 5)
    assert_same_runs(tmp_path / "whole", tmp_path / "parts")

    lines = metrics(tmp_path / "whole", "refresh")
    assert lines[0]["step"] == 0  # weights start from what the check knows
    assert lines[-1]["discrepancy/first_demo"] == (9 * 3.0 + 36) / 45
    state = load_file(tmp_path / "whole" / "checkpoints" / "00000008" / "method.safetensors")
    assert int(state["0-test-growing-norm/steps"]) == 8

    stored = yaml.safe_load((tmp_path / "whole" / "config.yaml").read_text())
    assert stored["options"]["discrepancy"] == CHOSEN["discrepancy"]
    assert stored["options"]["checks"][1] == CHOSEN["checks"][1]
    assert stored["auxiliary"] == [{"part": "test-growing-norm", "strength": 0.1}]
    assert read_config(tmp_path / "whole") == config


def test_own_parts_decide_the_weights(source: Path, target: Path, tmp_path: Path) -> None:
    """Checks multiply in any order; the discrepancy counts with its own strength where none is said."""

    def discrepancies(checks: list[Any], scale: float = 0.5) -> NDArray[np.float64]:
        chosen = {"discrepancy": {**CHOSEN["discrepancy"], "scale": scale}, "checks": checks}
        config = tiny_config("beacon-paper", source, target, options=changed(PAPER, chosen))
        trainer = Trainer(config, RunFolder(tmp_path / "run"))
        report = trainer.method.between_epochs(0)
        assert report is not None and report.discrepancies is not None
        assert trainer.method.reweighter.config.lambda_d == 0.25
        return report.discrepancies

    plain, first = discrepancies([]), discrepancies(["test-first-demo"])
    np.testing.assert_allclose(first[:9], 2 * plain[:9])
    np.testing.assert_array_equal(first[9:], plain[9:])
    np.testing.assert_allclose(discrepancies([], scale=1.0), 2 * plain)
    twice = discrepancies(["test-first-demo", {"part": "test-first-demo", "factor": 1.5}])
    np.testing.assert_allclose(twice[:9], 3 * plain[:9])
    assert (plain[:45] > 0).all() and not plain[45:].any()


def test_a_run_starts_from_the_product_of_what_checks_know(
    source: Path, target: Path, tmp_path: Path
) -> None:
    twice = ["test-first-demo", {"part": "test-first-demo", "factor": 1.5}]
    options = changed(RECOMMENDED, {"checks": twice})
    trainer = Trainer(tiny_config("beacon", source, target, options=options), RunFolder(tmp_path / "run"))
    report = trainer.method.between_epochs(0)
    assert report is not None and report.scalars["swept_windows"] == 0
    np.testing.assert_allclose(report.discrepancies, np.repeat([3.0, 1.0, 0.0], [9, 36, 14]))
    assert report.weights[:9].max() < report.weights[9:45].min()


def test_own_parts_are_refused_like_all_others() -> None:
    for overrides, message in (
        (
            {"checks": [{"part": "test-first-demo", "factor": 0.5}]},
            r"checks\[0\]: factor: must be at least 1",
        ),
        (
            {"checks": [{"part": "test-first-demo", "share": 1}]},
            r"checks\[0\].share: there is no such option",
        ),
        ({"checks": ["test-first-demos"]}, "did you mean test-first-demo?"),
        ({"discrepancy": "test-first-demo"}, "there is no discrepancy 'test-first-demo'"),
    ):
        with pytest.raises(UserError, match=message) as refusal:
            changed(RECOMMENDED, overrides)
        assert len(str(refusal.value).splitlines()) == 1
    with pytest.raises(ValueError, match="there is a check 'test-first-demo' already"):
        CHECKS.register("test-first-demo")(replace)
