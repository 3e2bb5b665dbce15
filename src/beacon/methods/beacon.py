"""BEACON: a weight for every window, learned beside the policy (Zhang, Qi and Yang, 2026)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.methods.base import EpochReport, Indices, Measurements, Method, MethodContext
from beacon.methods.beacon_options import BeaconOptions, PaperBeaconOptions
from beacon.methods.localized import REFERENCE, PolicyDiscrepancy
from beacon.methods.loss_signal import phase_baseline
from beacon.methods.memory import Memory
from beacon.methods.sampling import proportional, shuffled

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.data import WindowBatch
    from beacon.methods.foresight import Foresight
    from beacon.policy import Encoding
    from beacon.weighting import RefreshReport
    from beacon.weighting.discrepancy import Estimator

REFERENCE_DRAWS = 4  # noise draws per window of the reference, which is measured once


class Beacon(Method):
    """Weigh every window by how learnable it is and how much it looks like the target."""

    revision = 3  # both checks compare whole demonstrations, and leave more of a sound source alone
    several_sources_revision = 1  # the minimiser, and the tolerance of --gap-tolerance between sources
    Options = BeaconOptions

    def __init__(self, options: BeaconOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        self.check(options, epochs=context.epochs)
        if options.features == "vision" and not context.windows.sets[-1].images:
            raise UserError("there are no cameras, so no embeddings of images; say --features obs")
        if options.action_check == "motion" and not context.windows.sets[-1].proprio:
            raise UserError("there is no proprioception to check actions by; say --action-check none")
        from beacon.weighting import Reweighter

        names = np.array(context.domains)
        try:
            self.reweighter = Reweighter(
                domains=names[context.windows.domain],
                target=context.domains[-1],
                episodes=context.windows.episode,
                config=options.weighting,
                refreshes=_refreshes(options, context.epochs) + int(self._starts_from_what_is_known),
                seed=context.seed,
                discrepancy=self._estimator(),
            )
        except ValueError as error:
            raise UserError(str(error)) from None
        self._memory = Memory(len(context.windows))
        self._reference_losses: NDArray[np.float64] | None = None
        self._epoch = 0
        self._foresight = self._make_foresight()

    @classmethod
    def check(cls, options: BeaconOptions, *, epochs: int) -> None:
        """Weights must be refreshed at all."""
        if _refreshes(options, epochs) == 0:
            unasked = options.first_refresh > options.warmup_epochs
            other = ", --refresh exact" if unasked else ""
            raise UserError(
                f"no refresh in {epochs} epochs with {options.first_refresh} to warm up; take more --steps"
                f"{other}, or fewer --steps-per-epoch"
            )

    def batches(self, epoch: int) -> Indices:
        """All windows shuffled, or drawn as often as they weigh."""
        context = self.context
        shape = (context.steps_per_epoch, context.batch_size)
        count = shape[0] * shape[1]
        if self.options.sampling == "proportional" and self.reweighter.refreshes:
            drawn = proportional(self.reweighter.weights, count, context.seed, epoch)
        else:
            drawn = shuffled(np.arange(len(context.windows)), epoch * count, count, context.seed)
        return drawn.reshape(shape)

    def extra_loss(self, batch: WindowBatch, encoding: Encoding, losses: Tensor) -> Tensor | None:
        """Strength × error of the readout that both domains share."""
        if self._foresight is None:
            return None
        strength: float = self.options.foresight
        return strength * self._foresight.loss(batch, self._embedding(encoding))

    def weights(self, index: Tensor) -> Tensor | None:
        """q; one for all where windows are drawn by weight, the mean while there has been no refresh."""
        import torch

        if self.options.sampling == "proportional":
            return None
        if self.reweighter.refreshes == 0:
            mean = self.reweighter.budget / len(self.reweighter)
            return torch.full(index.shape, mean, device=index.device)
        return self.reweighter[index]

    @property
    def mean_weight(self) -> float:
        """(n + αm)/(n + m) where losses are weighted by q; one where windows are drawn by it."""
        if self.options.sampling == "proportional":
            return 1.0
        return self.reweighter.budget / len(self.reweighter)

    @property
    def weight_decay(self) -> float:
        """γ‖q‖_∞."""
        if self.reweighter.refreshes == 0:
            return float(self.options.weighting.gamma) * self.reweighter.budget / len(self.reweighter)
        return self.reweighter.weight_decay

    def observe(self, index: Indices, encoding: Encoding, losses: Tensor) -> None:
        """Remember what a gradient step has computed anyway."""
        if self.options.refresh == "amortized":
            self._memory.keep(index, losses, self._embedding(encoding), self._epoch)

    def between_epochs(self, epoch: int) -> EpochReport | None:
        """Refresh the weights when it is time."""
        import torch

        self._epoch = epoch
        if epoch == 0 and self._starts_from_what_is_known:
            return self._start()
        since_first = epoch - self.options.first_refresh
        if since_first < 0 or since_first % self.options.refresh_every:
            return None
        everything = np.arange(len(self.context.windows))
        if self.options.refresh == "exact":
            found = self.context.measure(everything, self.options.refresh_draws, epoch)
            losses, embeddings, swept = found.losses, self._embedding(found), len(everything)
        else:
            stale = self._memory.older_than(epoch - self.options.max_age)
            if len(stale):
                found = self.context.measure(stale, self.options.refresh_draws, epoch)
                self._memory.keep(stale, found.losses, self._embedding(found), epoch)
            memory = self._memory
            losses, embeddings, swept = (
                torch.from_numpy(memory.losses),
                torch.from_numpy(memory.embeddings),
                len(stale),
            )
        report = self.reweighter.refresh(
            losses=self._signal(losses.double().cpu().numpy()),
            embeddings=embeddings,
            actions=self._action_chunks(everything),
            capacity=self.context.capacity(),
        )
        return EpochReport(
            scalars=self._scalars(report) | {"swept_windows": float(swept)},
            weights=self.reweighter.weights,
            losses=losses.double().cpu().numpy(),
            discrepancies=self.reweighter.discrepancies,
        )

    @property
    def _starts_from_what_is_known(self) -> bool:
        """Whether the first weights come from the data alone: the minimiser needs no policy for that."""
        options: BeaconOptions = self.options
        return options.peer_check == "both" and options.weighting.minimises and options.first_refresh > 0

    def _start(self) -> EpochReport:
        known = np.zeros(len(self.context.windows))
        known[self.context.source_windows] = self._beforehand
        report = self.reweighter.refresh(losses=np.zeros(len(known)), discrepancies=known)
        return EpochReport(
            scalars=self._scalars(report) | {"swept_windows": 0.0},
            weights=self.reweighter.weights,
            discrepancies=self.reweighter.discrepancies,
        )

    def _estimator(self) -> Estimator:
        """The discrepancy that was chosen; the localized one needs a policy of its own."""
        from beacon.methods.looks import peer_factors
        from beacon.methods.motion import MotionChecked, misfit_factors
        from beacon.weighting.discrepancy import DiscrepancyWarning, PeerChecked, make_estimator

        options, context = self.options, self.context
        name = options.weighting.discrepancy
        estimator: Estimator
        if name == "localized":
            estimator = PolicyDiscrepancy(options.localized, context, self._reference_steps)
        else:
            estimator = make_estimator(name, **options.estimator_options())
        beforehand = np.ones(len(context.source_windows))
        if options.peer_check == "both":
            beforehand = peer_factors(context)
        if options.peer_check != "none":
            estimator = PeerChecked(estimator, beforehand)
        misfits = None if options.action_check == "none" else misfit_factors(context.windows, context.target)
        if misfits is not None:
            of_source = misfits[context.source_windows]
            estimator, beforehand = MotionChecked(estimator, of_source), beforehand * of_source
        elif options.action_check == "motion":
            warnings.warn(
                "the target's proprioception does not explain its actions (or there is but one "
                "demonstration); --action-check motion has no effect",
                DiscrepancyWarning,
                stacklevel=2,
            )
        self._beforehand = beforehand
        return estimator

    def _make_foresight(self) -> Foresight | None:
        """What the features have to tell, where that is asked for and there is something to tell."""
        from beacon.methods.foresight import Foresight

        if not self.options.foresight or not self.context.windows.sets[-1].proprio:
            return None
        return Foresight(self.context.windows, self.context.target)

    @property
    def _reference_steps(self) -> int:
        share: float = self.options.reference_share
        return max(1, round(share * self.context.epochs * self.context.steps_per_epoch))

    def _signal(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """What of the losses enters the weights, (N,)."""
        context, windows = self.context, self.context.windows
        if self.options.loss_signal == "raw":
            return losses
        if self.options.loss_signal == "phase":
            on_target = windows.domain == context.target
            return losses - phase_baseline(losses, windows.phase, on_target, self.options.phase_knots)
        if self._reference_losses is None:
            reference = context.fit_reference(REFERENCE, context.target_windows, self._reference_steps)
            found = reference.measure(np.arange(len(windows)), REFERENCE_DRAWS, 0)
            self._reference_losses = found.losses.double().cpu().numpy()
        return self._reference_losses - losses

    def _embedding(self, found: Measurements | Encoding) -> Tensor:
        return found.vision if self.options.features == "vision" else found.observation

    def _action_chunks(self, everything: Indices) -> Tensor | None:
        """All action chunks, (N, horizon, A), for the estimators that look at labels."""
        if self.options.weighting.discrepancy != "knn-joint" and self.options.peer_check == "none":
            return None
        return self.context.windows.gather(everything, images=False).actions

    def _scalars(self, report: RefreshReport) -> dict[str, float]:
        rw, context = self.reweighter, self.context
        q, d = rw.weights, rw.discrepancies
        scalars = {f"objective/{name}": value for name, value in asdict(report.terms).items()}
        scalars["objective/total"] = report.terms.total
        scalars |= {
            "q/max": rw.max,
            "q/effective_sample_size": rw.effective_sample_size,
            "q/shift": report.shift,
        }
        for label, mass in rw.mass.items():
            mine = q[context.windows.domain == context.domains.index(str(label))]
            scalars[f"mass/{label}"] = mass
            scalars[f"q/mean/{label}"] = float(mine.mean())
            scalars[f"q/std/{label}"] = float(mine.std())
        source_d = d[context.windows.domain != context.target]
        scalars["discrepancy/mean"] = report.discrepancy_mean
        for level in (0.1, 0.5, 0.9):
            scalars[f"discrepancy/quantile_{level}"] = float(np.quantile(source_d, level))
        scalars |= {f"discrepancy/{name}": value for name, value in report.diagnostics.items()}
        if len(context.domains) > 2:
            scalars |= {f"domain_weight/{label}": w for label, w in rw.domain_weights.items()}
        return scalars

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The weights, and what the gradient steps have left to remember."""
        state = {f"reweighter/{name}": value for name, value in self.reweighter.state_dict().items()}
        if self._reference_losses is not None:
            state["reference/losses"] = self._reference_losses.copy()
        if self._foresight is not None:
            state |= {f"foresight/{name}": value for name, value in self._foresight.state_dict().items()}
        return state | {f"memory/{name}": value for name, value in self._memory.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        parts: dict[str, dict[str, NDArray[Any]]] = {
            "reweighter": {},
            "memory": {},
            "reference": {},
            "foresight": {},
        }
        for name, value in state.items():
            part, _, rest = name.partition("/")
            if part not in parts:
                raise UserError("the checkpoint belongs to another method")
            parts[part][rest] = value
        try:
            self.reweighter.load_state_dict(parts["reweighter"])
        except ValueError as error:
            raise UserError(f"the checkpoint belongs to other data or another method: {error}") from None
        self._memory.load_state_dict(parts["memory"])
        if self._foresight is not None:
            self._foresight.load_state_dict(parts["foresight"])
        if parts["reference"]:
            self._reference_losses = np.array(parts["reference"]["losses"], np.float64)


class PaperBeacon(Beacon):
    """BEACON with the paper's options throughout."""

    revision = 2  # the bound on gradients is in units of the mean weight
    Options = PaperBeaconOptions


def _refreshes(options: BeaconOptions, epochs: int) -> int:
    """How many refreshes there are in a run."""
    return len(range(options.first_refresh, epochs, options.refresh_every))
