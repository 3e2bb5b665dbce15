"""The loop of the weights on given losses ends where the paper's does, and where it does not is said."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from beacon import Reweighter
from beacon.weighting import Minimiser, Solver, Steps

ROOT = Path(__file__).parents[2]
SHARE = 0.03  # of the paper's windows


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("weight_evolution")


def test_600_refreshes_end_at_the_weights_of_appendix_f(example: ModuleType) -> None:
    """Reported: target 1.93 ± 0.07, source 0.46 ± 0.30, of which some are near zero."""
    end = example.Loop(draws=1).end(SHARE)
    assert end.target_mean == pytest.approx(1.90, abs=0.06) and end.target_std == pytest.approx(
        0.06, abs=0.02
    )
    assert end.source_mean == pytest.approx(0.46, abs=0.01) and end.source_std == pytest.approx(
        0.30, abs=0.03
    )
    assert 0.04 < end.near_zero < 0.12


def test_ten_refreshes_on_fixed_losses_end_where_600_do(example: ModuleType) -> None:
    many, few = (example.Loop(refreshes=count).end(SHARE) for count in (600, 10))
    assert few.target_mean == pytest.approx(many.target_mean, abs=0.01)
    assert few.source_mean == pytest.approx(many.source_mean, abs=0.001)
    assert few.source_std == pytest.approx(many.source_std, abs=0.005)
    assert few.near_zero == pytest.approx(many.near_zero, abs=0.02)


def test_with_one_noise_draw_ten_refreshes_spread_further_and_more_draws_mend_it(example: ModuleType) -> None:
    many, few, averaged = (
        example.Loop(refreshes=count, draws=draws).end(SHARE)
        for count, draws in ((600, 1), (10, 1), (10, 16))
    )
    assert few.target_std > 4 * many.target_std and few.source_std > many.source_std + 0.07
    assert averaged.source_std == pytest.approx(many.source_std, abs=0.03)
    assert averaged.target_mean == pytest.approx(many.target_mean, abs=0.05)


@pytest.mark.parametrize(("loss", "target"), [(0.27, 0.05), (0.10, 0.41), (0.05, 0.61), (0.02, 0.74)])
def test_two_sources_as_written_hardly_move(example: ModuleType, loss: float, target: float) -> None:
    end = example.Loop(sources=2, loss=loss).end(SHARE)
    assert end.target_mean == pytest.approx(target, abs=0.02)
    assert end.source_std == pytest.approx(0.08, abs=0.01)


def test_dividing_by_the_square_of_w_gives_what_one_source_has(example: ModuleType) -> None:
    one, two = example.Loop().end(SHARE), example.Loop(sources=2, precondition=True).end(SHARE)
    assert two.target_mean == pytest.approx(one.target_mean, abs=0.02)
    assert two.source_std == pytest.approx(one.source_std, abs=0.01)


def test_the_documents_have_every_loop_of_the_example(example: ModuleType) -> None:
    """Rows, not numbers: those are of more windows."""
    document = (ROOT / "docs" / "methods.md").read_text()
    rows = [line for line in example.table(0.003).splitlines() if line.startswith(("| 1", "| 2"))]
    for row in rows:
        assert row.rsplit("|", 4)[0] in document


# λ1


def ends(lambda_1: float, solver: Solver, p0: str) -> np.ndarray:
    """Weights of 500 source and 40 target samples after 60 refreshes."""
    rng = np.random.default_rng(0)
    d = np.r_[rng.normal(2.5, 0.55, 500), np.zeros(40)]
    rw = Reweighter(
        domains=[0] * 500 + [1] * 40,
        target=1,
        planned_refreshes=60,
        lambda_1=lambda_1,
        lambda_2=0.1 if solver.is_exact else 0.01,
        solver=solver,
        p0=p0,
    )
    for _ in range(60):
        rw.refresh(np.full(540, 0.1), discrepancies=d)
    return rw.weights


@pytest.mark.parametrize("solver", [Steps(), Minimiser()], ids=["steps", "minimiser"])
def test_lambda_1_is_inert_with_the_papers_reference_weights(solver: Solver) -> None:
    """All weights are above p0 = 1/n or 0: its gradient is one constant, and the budget removes constants."""
    without, usual, large = (ends(value, solver, "target") for value in (0.0, 0.01, 0.1))
    assert without.std() > 0.2
    np.testing.assert_allclose(usual, without, atol=1e-3)
    np.testing.assert_allclose(large, without, atol=5e-3)


@pytest.mark.parametrize("solver", [Steps(), Minimiser()], ids=["steps", "minimiser"])
def test_lambda_1_acts_with_other_reference_weights(solver: Solver) -> None:
    assert np.abs(ends(0.1, solver, "ones") - ends(0.0, solver, "ones")).max() > 0.05
