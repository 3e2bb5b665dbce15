"""`Reweighter`: the reweighting as one object, for any training loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from beacon.weighting.asking import ask, build_check, choose_estimator
from beacon.weighting.bounds import reference_weights, update_upper_bounds, weight_bounds, weight_budget
from beacon.weighting.checks import BuiltCheck, Check, NeighborActionCheck
from beacon.weighting.config import RECOMMENDED_WEIGHTING, WeightingConfig
from beacon.weighting.discrepancy import Discrepancy, Estimator, KNNRelative
from beacon.weighting.inputs import Label, PerSample
from beacon.weighting.legacy import configure, translate_legacy_options
from beacon.weighting.objective import ObjectiveTerms, Strengths, objective_terms
from beacon.weighting.problem import WeightProblem, Weights
from beacon.weighting.samples import Samples
from beacon.weighting.shard import WHOLE, Shard
from beacon.weighting.state import WeightState
from beacon.weighting.validation import Vector, finite_matrix, finite_vector, non_negative_vector
from beacon.weighting.view import WeightView
from beacon.weighting.warning import RefreshWarnings


@dataclass(frozen=True)
class RefreshReport:
    """What a refresh did, for the log."""

    refresh: int  # its number, from 1
    terms: ObjectiveTerms  # at the new weights
    shift: float  # ν of the last projection
    discrepancy_mean: float  # over the source samples
    diagnostics: Mapping[str, float]  # of the discrepancy estimator and the checks


class Reweighter(WeightView):
    """A weight for every training sample, learned beside the policy.

    Before the first refresh all samples weigh the same, budget/N.

    >>> import numpy as np
    >>> from beacon.weighting import KNN
    >>> domains = ["sim"] * 6 + ["real"] * 2
    >>> rw = Reweighter(domains=domains, target="real", planned_refreshes=10, discrepancy=KNN(k=1))
    >>> features = np.array([[0.0], [0.1], [0.2], [5.0], [6.0], [7.0], [0.0], [0.3]])
    >>> for epoch in range(10):
    ...     report = rw.refresh(losses=np.ones(8), embeddings=features)
    >>> bool(rw[0] > rw[5]), round(sum(rw.mass.values()), 6)  # near ones keep more; n + alpha * m in all
    (True, 5.0)

    Args:
        domains: one label (int or str) per sample; every label but the target's is a source domain.
        target: the label of the target domain.
        episodes: demonstration id of every sample; ``granularity="demo"`` and most checks need it.
        config: objective, bounds and solver; see `WeightingConfig`. The defaults are the paper's.
        discrepancy: an estimator such as ``KNN(k=4)``, its name, or a callable.
        checks: checks whose factors multiply the discrepancies, in this order.
        p0: reference weights, one per sample, in place of the config's by name.
        planned_refreshes: how many there will be in the run (paper: 600). ``Steps(eta_q="auto")`` scales its
            steps by it, and what is known beforehand gives way to what is learned.
        seed: makes everything that is drawn at random repeatable.
        shard: where several processes refresh together: the samples whose embeddings and action chunks this
            one has; by default all.
        options: single fields of the config, such as ``alpha=0.4``.
    """

    def __init__(
        self,
        domains: Any,
        target: Label,
        *,
        episodes: Any = None,
        config: WeightingConfig | None = None,
        discrepancy: str | Discrepancy | Estimator | None = None,
        checks: Sequence[Check | BuiltCheck] = (),
        p0: Any = None,
        planned_refreshes: int = 600,
        seed: int = 0,
        shard: Shard | None = None,
        **options: Any,
    ) -> None:
        options, discrepancy, planned_refreshes = translate_legacy_options(
            options, discrepancy, planned_refreshes
        )
        if isinstance(p0, str):
            options["p0"], p0 = p0, None
        self.config = configure(config or WeightingConfig(), options)
        self._estimator, self._strength = choose_estimator(discrepancy)
        self._checks = [built for check in checks if (built := build_check(check)) is not None]
        if not isinstance(planned_refreshes, int | np.integer) or planned_refreshes < 1:
            raise ValueError(
                f"planned_refreshes: must be a whole number of at least 1, got {planned_refreshes!r}"
            )
        self.planned_refreshes, self._seed = planned_refreshes, seed
        self._shard = shard or WHOLE
        self._samples = Samples.read(domains, target, episodes)
        self._on_target = self._samples.on_target
        if self.config.granularity == "demo" and self._samples.episodes is None:
            raise ValueError("episodes: granularity='demo' needs the demonstration id of every sample")
        self._strengths = self._read_strengths()
        self._lower, self._upper = weight_bounds(self.config, self._samples)
        self.budget = weight_budget(self.config, self._samples)
        reference = reference_weights(self.config, self._samples, p0)
        self._state = WeightState.start(reference, self._samples)
        self._warnings = RefreshWarnings()

    @classmethod
    def recommended(
        cls, domains: Any, target: Label, *, episodes: Any, checks: Sequence[Check] | None = None, **more: Any
    ) -> Reweighter:
        """What we recommend in place of the paper's options; ``beacon train`` uses the same.

        A weight per demonstration, the minimiser, a discrepancy that does not punish what the target does not
        cover, and a check of actions. Give `refresh` the action chunks then, or say ``checks=()``.

        Args:
            domains: as for the class.
            target: as for the class.
            episodes: demonstration id of every sample.
            checks: by default a `NeighborActionCheck`.
            more: further arguments of the class; single fields of the config among them.
        """
        more.setdefault("config", RECOMMENDED_WEIGHTING)
        more.setdefault("discrepancy", KNNRelative(outlier_tolerance=4.0))
        chosen = (NeighborActionCheck(prior="none"),) if checks is None else checks
        return cls(domains, target, episodes=episodes, checks=chosen, **more)

    # The refresh

    def refresh(
        self,
        losses: Any,
        embeddings: Any = None,
        *,
        actions: Any = None,
        discrepancies: Any = None,
        capacity: float = 0.0,
    ) -> RefreshReport:
        """Update all weights; on bad input nothing changes.

        Args:
            losses: ℓ, one finite number per sample, at the present policy, between 0 and about 1.
            embeddings: one row of features per sample, for the discrepancy estimators that look at them; of
                the own shard alone, where there are several.
            actions: one action chunk per sample, for those that look at labels; of the own shard alone.
            discrepancies: d, one number per sample (of target samples ignored), in place of estimator and
                checks.
            capacity: R(θ) = ½‖θ‖² over the policy's parameters.
        """
        new_losses = finite_vector("losses", losses, len(self)) / self.config.loss_scale
        if not np.isfinite(capacity) or capacity < 0:
            raise ValueError(f"capacity: must be a finite number of at least 0, got {capacity}")
        if self.config.loss_ema and self.refresh_count:
            share = self.config.loss_ema
            new_losses = share * self._state.losses + (1.0 - share) * new_losses
        base, d, diagnostics = self._discrepancies(embeddings, actions, discrepancies)
        seen_losses, seen_d = new_losses, d
        if self.config.granularity == "demo":
            seen_losses, seen_d = self._samples.demo_means(new_losses), self._samples.demo_means(d)
        with np.errstate(over="ignore"):
            costs = seen_losses + self._strengths.lambda_d * seen_d
        if not np.isfinite(costs).all():
            raise ValueError(
                f"losses: of up to {np.abs(seen_losses).max():.3g}, with discrepancies of up to "
                f"{seen_d.max():.3g}, they overflow; divide them (loss_scale=...)"
            )
        problem = self._problem(costs, float(capacity))
        weights = self._solve(problem)
        w = weights.w if self._two_level else None
        logged = replace(self._strengths, gamma=self._gamma)
        terms = objective_terms(weights.q, seen_losses, seen_d, problem.p0, logged, float(capacity), w)
        self._state = WeightState(weights, problem.p0, base, d, new_losses, self.refresh_count + 1)
        floor = self.config.q_target_min
        self._warnings.look(
            seen_losses, self._q[self._on_target], floor, self.refresh_count, self.planned_refreshes
        )
        mean = float(d[~self._on_target].mean())
        return RefreshReport(self.refresh_count, terms, weights.shift, mean, diagnostics)

    def _solve(self, problem: WeightProblem) -> Weights:
        """New weights; several processes find those of their own samples each, where the solver can."""
        solver, now, shard = self.config.solver, self._state.weights, self._shard
        planned = (self.refresh_count, self.planned_refreshes)
        if shard.is_whole or not solver.shards or self._two_level:
            return solver.solve(problem, now, *planned)
        own = replace(now, q=now.q[shard.rows], q_tilde=now.q_tilde[shard.rows])
        found = solver.solve(problem.part(shard), own, *planned)
        return replace(now, q=shard.gather_array(found.q), shift=found.shift)

    def _problem(self, costs: Vector, capacity: float) -> WeightProblem:
        update_upper_bounds(self.config, self._samples, self._upper, self._q if self.refresh_count else None)
        return WeightProblem(
            costs,
            self._state.p0,
            self._lower,
            self._upper,
            self.budget,
            self._strengths,
            capacity,
            source=self._samples.source if self._two_level else None,
            domains=len(self.source_labels),
            w_min=self.config.w_min / len(self.source_labels),
        )

    def _discrepancies(
        self, embeddings: Any, actions: Any, given: Any
    ) -> tuple[Vector | None, Vector, dict[str, float]]:
        """What an estimator that is asked once has answered, the discrepancies, and what to log."""
        size, on_target = len(self), self._on_target
        if given is not None:
            d = non_negative_vector("discrepancies", given, size).copy()
            d[on_target] = 0.0
            return self._state.base, d, {}
        own = len(range(size)[self._shard.rows])
        features = None if embeddings is None else finite_matrix("embeddings", embeddings, own)
        chunks = None if actions is None else finite_matrix("actions", actions, own)
        if features is not None and chunks is not None:
            chunks = chunks.to(features.device)  # where what looks at both is computed
        seed = self._seed * 1_000_003 + self.refresh_count
        inputs = self._samples.split(features, chunks, seed, self._progress, self._shard)
        base = self._state.base
        diagnostics: dict[str, float] = {}
        if base is None:
            answer = PerSample.of(ask(self._estimator, inputs))
            values = non_negative_vector("discrepancy", answer.values, int((~on_target).sum()))
            diagnostics |= answer.diagnostics
            if getattr(self._estimator, "once", False):
                base = values.copy()
        else:
            values = base
        for check in self._checks:
            factors = PerSample.of(ask(check, inputs))
            values = values * non_negative_vector("factors of a check", factors.values, len(values))
            diagnostics |= factors.diagnostics
        d = np.zeros(size)
        d[~on_target] = values
        return base, d, diagnostics

    # State

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Everything that changes, as tensors; restores to the bit."""
        return self._state.to_tensors(self._samples)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a state of `state_dict`; it must be of the same samples. On bad input nothing changes."""
        self._state = WeightState.from_tensors(state, self._state, self._samples)

    # Construction

    @property
    def _progress(self) -> float:
        """How far the refresh to come is in the run."""
        return min(1.0, self.refresh_count / max(1, self.planned_refreshes - 1))

    def _read_strengths(self) -> Strengths:
        config = self.config
        return Strengths(
            lambda_d=self._strength if config.lambda_d is None else config.lambda_d,
            lambda_1=config.lambda_1,
            lambda_2=config.lambda_2,
            gamma=0.0 if self._two_level else self._gamma,  # the two-level gradients have no capacity term
            rho_1=config.rho_1,
            rho_2=config.rho_2,
        )
