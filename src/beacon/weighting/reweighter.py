"""`Reweighter`: the reweighting as one object, for any training loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from beacon.analysis import effective_sample_size
from beacon.weighting.bound import BoundReport, bound_report
from beacon.weighting.checks import (
    Vector,
    finite_matrix,
    finite_vector,
    non_negative_vector,
    to_numpy,
)
from beacon.weighting.config import WeightingConfig
from beacon.weighting.convex import convex_update
from beacon.weighting.discrepancy import Discrepancy, Estimator, make_estimator
from beacon.weighting.discrepancy.base import Label
from beacon.weighting.multisource import (
    MultiSourceSteps,
    TwoLevelWeights,
    multisource_update,
    start_two_level,
)
from beacon.weighting.multisource_convex import multisource_convex_update
from beacon.weighting.objective import ObjectiveTerms, Strengths, objective_terms
from beacon.weighting.samples import Samples
from beacon.weighting.stochastic import stochastic_update


@dataclass(frozen=True)
class RefreshReport:
    """What a refresh did, for the log."""

    refresh: int  # its number, from 1
    terms: ObjectiveTerms  # at the new weights
    shift: float  # ν of the last projection
    discrepancy_mean: float  # over the source samples
    diagnostics: Mapping[str, float]  # of the discrepancy estimator


class Reweighter:
    """A weight for every training sample, learned beside the policy.

    >>> import numpy as np
    >>> domains = ["sim"] * 6 + ["real"] * 2
    >>> rw = Reweighter(domains=domains, target="real", refreshes=10, discrepancy_options={"k": 1})
    >>> features = np.array([[0.0], [0.1], [0.2], [5.0], [6.0], [7.0], [0.0], [0.3]])
    >>> for epoch in range(10):
    ...     report = rw.refresh(losses=np.ones(8), embeddings=features)
    >>> bool(rw[0] > rw[5]), round(sum(rw.mass.values()), 6)  # near ones keep more; n + alpha * m in all
    (True, 5.0)

    Args:
        domains: one label (int or str) per sample; every label but the target's is a source domain.
        target: the label of the target domain.
        episodes: demonstration id of every sample; ``granularity="demo"`` and some estimators need it.
        config: all knobs; see `WeightingConfig`.
        discrepancy: an estimator, in place of the config's by name.
        discrepancy_options: options of the estimator that the config names, such as ``{"k": 4}``.
        p0: reference weights, one per sample, in place of the config's by name.
        refreshes: how many there will be in the run (paper: 600); eta_q="auto" scales its steps by it,
            and what is known beforehand gives way to what is learned.
        seed: makes everything that is drawn at random repeatable.
        options: single fields of the config, such as ``alpha=0.4``.
    """

    def __init__(
        self,
        domains: Any,
        target: Label,
        *,
        episodes: Any = None,
        config: WeightingConfig | None = None,
        discrepancy: str | Estimator | None = None,
        discrepancy_options: Mapping[str, Any] | None = None,
        p0: Any = None,
        refreshes: int = 600,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if isinstance(discrepancy, str):
            options["discrepancy"] = discrepancy
        if isinstance(p0, str):
            options["p0"], p0 = p0, None
        self.config = replace(config or WeightingConfig(), **options)
        choice = discrepancy if discrepancy is not None and not isinstance(discrepancy, str) else None
        self._estimator = make_estimator(choice or self.config.discrepancy, **(discrepancy_options or {}))
        if refreshes < 1:
            raise ValueError(f"refreshes: must be at least 1, got {refreshes}")
        self._planned_refreshes, self._seed = refreshes, seed
        self._samples = Samples.read(domains, target, episodes)
        self._on_target = self._samples.on_target
        size = len(self._samples)
        if self.config.granularity == "demo" and self._samples.episodes is None:
            raise ValueError("episodes: granularity='demo' needs the demonstration id of every sample")
        self._strengths = self._read_strengths()
        self._lower: Vector = np.where(self._on_target, self.config.q_target_min, 0.0)
        self.budget = self._check_budget()
        self._p0 = self._reference(p0)
        self._levels = start_two_level(self._p0, self._samples.source, len(self.source_labels))
        self._q = self._p0.copy()
        self._discrepancies = np.zeros(size)
        self._discrepancies_known = False
        self._losses = np.zeros(size)
        self._shift = 0.0
        self.refreshes = 0

    # The weights

    def __len__(self) -> int:
        return self._q.size

    @overload
    def __getitem__(self, index: torch.Tensor) -> torch.Tensor: ...
    @overload
    def __getitem__(self, index: Any) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        """The weights at ``index``: a float32 tensor on its device for a tensor, otherwise as NumPy."""
        if isinstance(index, torch.Tensor):
            chosen = self._q[index.detach().cpu().numpy()]
            return torch.as_tensor(chosen, dtype=torch.float32, device=index.device)
        return self._q[index]

    @property
    def weights(self) -> Vector:
        """All weights, shape (N,), as a copy."""
        return self._q.copy()

    @property
    def discrepancies(self) -> Vector:
        """The discrepancies of the last refresh, shape (N,), as a copy; zero on the target."""
        return self._discrepancies.copy()

    @property
    def max(self) -> float:
        """‖q‖_∞. BEACON's weight decay is ``gamma * rw.max``."""
        return float(self._q.max())

    @property
    def weight_decay(self) -> float:
        """γ‖q‖_∞, the decoupled weight decay until the next refresh."""
        return self.config.gamma * self.max

    @property
    def mass(self) -> dict[Label, float]:
        """Sum of the weights of every domain."""
        return {label: float(self._q[self._samples.members(label)].sum()) for label in self.labels}

    @property
    def domain_weights(self) -> dict[Label, float]:
        """w: the weight of every source domain; one where there is a single source, or a pooled one."""
        if not self._two_level:
            return dict.fromkeys(self.source_labels, 1.0)
        return dict(zip(self.source_labels, self._levels.w.tolist(), strict=True))

    @property
    def labels(self) -> tuple[Label, ...]:
        """All domains, the target first."""
        return self._samples.labels

    @property
    def source_labels(self) -> tuple[Label, ...]:
        """The source domains, sorted."""
        return self._samples.source_labels

    @property
    def effective_sample_size(self) -> float:
        """(Σq)²/Σq²: with how many equally weighted samples these weights would be as noisy."""
        return effective_sample_size(self._q)

    def effective_sample_sizes(self) -> dict[Label, float]:
        """The effective sample size within every domain."""
        return {label: effective_sample_size(self._q[self._samples.members(label)]) for label in self.labels}

    def bound(self, losses: Any, **estimates: Any) -> BoundReport:
        """The generalization bound at the present weights; see `beacon.weighting.bound_report`."""
        return bound_report(self._q, losses, self._on_target, **estimates)

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
            losses: ℓ, one finite number per sample, at the present policy.
            embeddings: one row of features per sample, for the discrepancy estimators that look at them.
            actions: one action chunk per sample, for those that look at labels.
            discrepancies: d, one number per sample (of target samples ignored), in place of an estimator.
            capacity: R(θ) = ½‖θ‖² over the policy's parameters.
        """
        size = len(self)
        new_losses = finite_vector("losses", losses, size)
        if not np.isfinite(capacity) or capacity < 0:
            raise ValueError(f"capacity: must be a finite number of at least 0, got {capacity}")
        if self.config.loss_ema and self.refreshes:
            new_losses = self.config.loss_ema * self._losses + (1.0 - self.config.loss_ema) * new_losses
        d, diagnostics = self._find_discrepancies(embeddings, actions, discrepancies)
        seen_losses, seen_d = new_losses, d
        if self.config.granularity == "demo":
            seen_losses, seen_d = self._samples.demo_means(new_losses), self._samples.demo_means(d)
        q, levels, shift = self._update(seen_losses, seen_d, float(capacity))

        w = levels.w if self._two_level else None
        terms = objective_terms(q, seen_losses, seen_d, self._p0, self._strengths, float(capacity), w)
        self._q, self._levels, self._shift = q, levels, shift
        self._losses, self._discrepancies, self._discrepancies_known = new_losses.copy(), d, True
        self.refreshes += 1
        mean = float(d[~self._on_target].mean())
        return RefreshReport(self.refreshes, terms, shift, mean, diagnostics)

    def _update(self, losses: Vector, d: Vector, capacity: float) -> tuple[Vector, TwoLevelWeights, float]:
        config, strengths = self.config, self._strengths
        costs = losses + strengths.lambda_d * d
        upper = np.where(self._on_target, self._largest_on_target, config.q_max)
        w_min = config.w_min / len(self.source_labels)
        if config.minimises:
            if config.normalize_cost and costs.max() > 1.0:
                costs = costs / costs.max()
            if self._two_level:
                levels, solution = multisource_convex_update(
                    costs,
                    self._p0,
                    self._samples.source,
                    len(self.source_labels),
                    self._lower,
                    upper,
                    self.budget,
                    strengths,
                    w_min=w_min,
                )
                return solution.q, levels, solution.multiplier
            solution = convex_update(
                costs, self._p0, self._lower, upper, self.budget, strengths, capacity=capacity
            )
            return solution.q, self._levels, solution.multiplier
        steps, eta = config.steps(self.refreshes, self._planned_refreshes)
        if not self._two_level:
            q, shift = stochastic_update(
                self._q,
                costs,
                self._p0,
                self._lower,
                upper,
                self.budget,
                strengths,
                eta=eta,
                steps=steps,
                capacity=capacity,
                projection=config.projection,
            )
            return q, self._levels, shift
        choice = MultiSourceSteps(
            eta_q=eta,
            eta_t=eta if config.eta_t is None else config.eta_t,
            eta_w=config.eta_w,
            steps=steps,
            projection=config.projection,
            precondition=config.precondition,
            w_min=w_min,
        )
        levels, q, shift = multisource_update(
            self._levels,
            costs,
            self._p0,
            self._samples.source,
            self._lower,
            upper,
            self.budget,
            strengths,
            choice,
        )
        return q, levels, shift

    def _find_discrepancies(
        self, embeddings: Any, actions: Any, given: Any
    ) -> tuple[Vector, Mapping[str, float]]:
        size, on_target = len(self), self._on_target
        if given is not None:
            d = non_negative_vector("discrepancies", given, size).copy()
            d[on_target] = 0.0
            return d, {}
        if getattr(self._estimator, "constant", False) and self._discrepancies_known:
            return self._discrepancies, {}
        features = None if embeddings is None else finite_matrix("embeddings", embeddings, size)
        chunks = None if actions is None else finite_matrix("actions", actions, size)
        seed = self._seed * 1_000_003 + self.refreshes
        inputs = self._samples.split(features, chunks, seed, self._progress)
        found = self._estimator(inputs)
        result = found if isinstance(found, Discrepancy) else Discrepancy(np.asarray(to_numpy(found)))
        d = np.zeros(size)
        d[~on_target] = non_negative_vector("discrepancy", result.values, int((~on_target).sum()))
        return d, result.diagnostics

    # State

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, as arrays; restores to the bit."""
        return {
            "q": self._q.copy(),
            "q_tilde": self._levels.q_tilde.copy(),
            "w": self._levels.w.copy(),
            "p0": self._p0.copy(),
            "discrepancies": self._discrepancies.copy(),
            "discrepancies_known": np.array(self._discrepancies_known),
            "losses": self._losses.copy(),
            "shift": np.array(self._shift),
            "refreshes": np.array(self.refreshes),
            "layout": self._samples.fingerprint(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a state of `state_dict`; it must be of the same samples. On bad input nothing changes."""
        own = self.state_dict()
        missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or unknown:
            raise ValueError(f"state: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
        new = {}
        for name, value in own.items():
            array = np.asarray(state[name].numpy() if isinstance(state[name], torch.Tensor) else state[name])
            if array.shape != value.shape:
                raise ValueError(
                    f"state: {name!r} has shape {array.shape}, this Reweighter needs {value.shape}"
                )
            new[name] = array.astype(value.dtype)
        if not np.array_equal(new["layout"], own["layout"]):
            raise ValueError("state: it belongs to other samples (their domains or order differ)")
        self._q, self._p0 = new["q"], new["p0"]
        self._levels = TwoLevelWeights(new["w"], new["q_tilde"])
        self._discrepancies, self._losses = new["discrepancies"], new["losses"]
        self._discrepancies_known = bool(new["discrepancies_known"])
        self._shift, self.refreshes = float(new["shift"]), int(new["refreshes"])

    # Construction

    @property
    def _two_level(self) -> bool:
        return len(self.source_labels) > 1 and not self.config.pool_sources

    @property
    def _progress(self) -> float:
        """How far the refresh to come is in the run."""
        return min(1.0, self.refreshes / max(1, self._planned_refreshes - 1))

    @property
    def _largest_on_target(self) -> float:
        targets = int(np.count_nonzero(self._on_target))
        return self.config.largest_on_target(targets, len(self._samples) - targets)

    def _read_strengths(self) -> Strengths:
        config = self.config
        return Strengths(
            lambda_d=config.discrepancy_strength(),
            lambda_1=config.lambda_1,
            lambda_2=config.lambda_2,
            gamma=0.0 if self._two_level else config.gamma,  # the two-level gradients have no capacity term
            rho_1=config.rho_1,
            rho_2=config.rho_2,
        )

    def _check_budget(self) -> float:
        targets = int(np.count_nonzero(self._on_target))
        sources = len(self._samples) - targets
        budget = targets + self.config.alpha * sources
        # The steps for several sources have caps of w_k·q_max, and w starts at 1/K.
        several = self._two_level and not self.config.minimises
        cap = self.config.q_max / (len(self.source_labels) if several else 1)
        least = targets * self.config.q_target_min
        most = targets * self._largest_on_target + sources * cap
        if not least <= budget <= most:
            raise ValueError(
                f"alpha: the weights cannot sum to n + alpha·m = {budget:.6g}; q_target_min and q_max allow "
                f"{least:.6g} to {most:.6g}"
            )
        return budget

    def _reference(self, given: Any) -> Vector:
        if given is not None:
            return non_negative_vector("p0", given, len(self._samples)).copy()
        on_target, off_target = {
            "target": (1.0 / np.count_nonzero(self._on_target), 0.0),
            "ones": (1.0, 1.0),
            "target_one": (1.0, 0.0),
            "budget": (1.0, self.config.alpha),
        }[self.config.p0]
        return np.where(self._on_target, on_target, off_target)
