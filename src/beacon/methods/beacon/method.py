"""BEACON: a weight for every window, learned beside the policy (Zhang, Qi and Yang, 2026).

This file wires the parts: what is measured (`measurement`), what of the loss counts (`loss_signal`), how far
a window is from the target (`beacon.weighting.discrepancy`), checks that multiply it
(`beacon.weighting.checks`), the weights (`beacon.weighting.Reweighter`) and how they depend on the noise
level (`noise`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.scratch_tables import scratch_table
from beacon.errors import UserError
from beacon.methods.auxiliary import AuxiliaryLoss, FutureState
from beacon.methods.base import (
    EpochReport,
    Indices,
    Method,
    MethodContext,
    State,
    join_states,
    split_states,
)
from beacon.methods.beacon.noise.base import NoiseEvidence
from beacon.methods.beacon.options import PAPER, RECOMMENDED, BeaconOptions
from beacon.methods.beacon.target_share import known_target_factor
from beacon.methods.sampling import proportional, shuffled

PART = 65_536  # windows whose action chunks are gathered together

if TYPE_CHECKING:
    from torch import Tensor

    from beacon.policy import Encoding
    from beacon.weighting import BuiltCheck, RefreshReport, Reweighter


class Beacon(Method):
    """Weigh every window by how learnable it is and how much it looks like the target."""

    revision = 3  # both checks compare whole demonstrations, and leave more of a sound source alone
    several_sources_revision = 2  # the minimiser compares domains by the cost of the mass that they keep
    Options = BeaconOptions

    def __init__(self, options: BeaconOptions, context: MethodContext) -> None:
        super().__init__(options, context)
        self.check(options, epochs=context.epochs)
        if options.features == "vision" and not context.windows.sets[0].images:
            raise UserError("there are no cameras, so no embeddings of images; say --features obs")
        self._measurement = options.measurement.build(context, options.features)
        self._pace = min(options.measurement.pace(context), context.epochs - options.first_epoch)
        self._signal = options.loss_signal.build(context)
        checks = [built for check in options.checks if (built := check.build(context)) is not None]
        self._noise = options.noise_levels.build(context, checks)
        priors = [check.prior for check in checks if check.prior is not None]
        # The minimiser needs no earlier weights: a run may start from what the data alone say.
        start_is_known = options.weighting.solver.is_exact and options.first_epoch > 0
        self._prior = reduce(np.multiply, priors) if priors and start_is_known else None
        self.reweighter = self._make_reweighter(checks)
        self._epoch = 0
        self._chunks: Tensor | None = None

    @classmethod
    def default_options(cls) -> BeaconOptions:
        """What we recommend."""
        return RECOMMENDED

    @classmethod
    def default_auxiliary(cls) -> tuple[AuxiliaryLoss, ...]:
        """The future-state loss."""
        return (FutureState(),)

    @classmethod
    def check(cls, options: BeaconOptions, *, epochs: int) -> None:
        """Weights must be refreshed at all."""
        if options.refresh_count(epochs) == 0:
            first = options.first_epoch
            other = ", --measurement sweep-all" if first > options.warmup_epochs else ""
            raise UserError(
                f"no refresh in {epochs} epochs with {first} to warm up; take more --steps{other}, "
                "or fewer --steps-per-epoch"
            )

    def _make_reweighter(self, checks: list[BuiltCheck]) -> Reweighter:
        from beacon.weighting import Reweighter

        options, context = self.options, self.context
        weighting, strength = options.weighting, options.discrepancy.default_strength
        if context.domains.target is None:
            raise UserError("BEACON needs target demonstrations; say --target FILE")
        try:
            return Reweighter(
                domains=np.array(context.domains.names)[context.windows.domain],
                target=context.domains.target,
                episodes=context.windows.episode,
                config=replace(
                    weighting,
                    target_factor=known_target_factor(options, context),
                    gamma=context.weight_decay if weighting.gamma is None else weighting.gamma,
                    lambda_d=strength if weighting.lambda_d is None else weighting.lambda_d,
                ),
                planned_refreshes=options.refresh_count(context.epochs, self._pace)
                + (self._prior is not None),
                seed=context.seed,
                shard=context.shard,
                discrepancy=options.discrepancy.build(context),
                checks=checks,
            )
        except ValueError as error:
            raise UserError(str(error)) from None

    def batches(self, epoch: int) -> Indices:
        """All windows shuffled, or drawn as often as they weigh."""
        context = self.context
        shape = (context.steps_per_epoch, context.batch_size)
        count = shape[0] * shape[1]
        if self.options.sampling == "proportional" and self.reweighter.refresh_count:
            drawn = proportional(self.reweighter.weights, count, context.seed, epoch)
        else:
            drawn = shuffled(np.arange(len(context.windows)), epoch * count, count, context.seed)
        return drawn.reshape(shape)

    def weights(self, index: Tensor) -> Tensor | None:
        """q; one for all where windows are drawn by weight."""
        return None if self.options.sampling == "proportional" else self.reweighter[index]

    def noise_weights(self, index: Tensor, timesteps: Tensor) -> Tensor | None:
        """g, whose mean over all noise levels is one."""
        return None if self._noise is None else self._noise.weights(index, timesteps)

    @property
    def wants_noise_losses(self) -> bool:
        """Whether g is learned from losses."""
        return self._noise is not None and self._noise.wants_losses

    def observe_noise(self, index: Indices, timesteps: Tensor, losses: Tensor) -> None:
        """Passed on to g."""
        if self._noise is not None:
            self._noise.observe(index, timesteps, losses)

    @property
    def mean_weight(self) -> float:
        """(n + αm)/(n + m) where losses are weighted by q; one where windows are drawn by it."""
        if self.options.sampling == "proportional":
            return 1.0
        return self.reweighter.budget / len(self.reweighter)

    @property
    def weight_decay(self) -> float:
        """γ‖q‖_∞."""
        return self.reweighter.weight_decay

    def observe(self, index: Indices, encoding: Encoding, losses: Tensor) -> None:
        """Let the measurement see what a gradient step has computed anyway."""
        self._measurement.observe(index, encoding, losses, self._epoch)

    def between_epochs(self, epoch: int) -> EpochReport | None:
        """Refresh the weights when it is time."""
        self._epoch = epoch
        if epoch == 0 and self._prior is not None:
            return self._start()
        if not self.options.refreshes_before(epoch, self._pace):
            return None
        measured = self._measurement.at(epoch)
        losses = self.context.shard.gather(measured.losses).double().cpu().numpy()
        report = self.reweighter.refresh(
            losses=self._signal(losses),
            embeddings=measured.embeddings,
            actions=self._action_chunks(),
            capacity=self.context.capacity(),
        )
        scalars = self._scalars(report) | {"swept_windows": float(measured.swept)}
        if self._noise is not None:
            everything = self.context.shard.gather(measured.embeddings)  # noise levels look at all windows
            scalars |= self._noise.update(NoiseEvidence(epoch, everything))
        return EpochReport(
            scalars=scalars,
            weights=self.reweighter.weights,
            losses=losses,
            discrepancies=self.reweighter.discrepancies,
        )

    def _start(self) -> EpochReport:
        """The first weights, from what the checks know of the data."""
        known = np.zeros(len(self.context.windows))
        known[self.context.source_windows] = self._prior
        report = self.reweighter.refresh(losses=np.zeros(len(known)), discrepancies=known)
        return EpochReport(
            scalars=self._scalars(report) | {"swept_windows": 0.0},
            weights=self.reweighter.weights,
            discrepancies=self.reweighter.discrepancies,
        )

    def _action_chunks(self) -> Tensor | None:
        """The action chunks of this process's shard, (N, horizon · A), where a part looks at labels."""
        options: BeaconOptions = self.options
        needs = options.discrepancy.needs.union(*(check.needs for check in options.checks))
        if "actions" not in needs:
            return None
        if self._chunks is None:
            self._chunks = self._gather_chunks()
        return self._chunks

    def _gather_chunks(self) -> Tensor:
        """They do not change, and may be in a file: chunks of millions of windows are larger than memory."""
        import torch

        windows = self.context.windows
        own = range(len(windows))[self.context.shard.rows]
        chunks = scratch_table(
            len(own), windows.horizon * windows.sets[0].actions.shape[1], torch.device("cpu")
        )
        for start in range(0, len(own), PART):
            part = np.array(own[start : start + PART])
            chunks[start : start + PART] = windows.gather(part, images=False).actions.flatten(1)
        return chunks

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
            of_domain = q[context.windows.domain == context.domains.names.index(str(label))]
            scalars[f"mass/{label}"] = mass
            scalars[f"q/mean/{label}"] = float(of_domain.mean())
            scalars[f"q/std/{label}"] = float(of_domain.std())
        source_d = d[context.source_windows]
        scalars["discrepancy/mean"] = report.discrepancy_mean
        for level in (0.1, 0.5, 0.9):
            scalars[f"discrepancy/quantile_{level}"] = float(np.quantile(source_d, level))
        scalars |= {f"discrepancy/{name}": value for name, value in report.diagnostics.items()}
        if len(context.domains.sources) > 1:
            scalars |= {f"domain_weight/{label}": w for label, w in rw.domain_weights.items()}
        return scalars

    def _parts(self) -> dict[str, Any]:
        """Everything that changes, by the name of its part in a checkpoint."""
        parts = {
            "reweighter": _AsArrays(self.reweighter),
            "measurement": self._measurement,
            "loss_signal": self._signal,
        }
        return parts if self._noise is None else {**parts, "noise_levels": self._noise}

    def state_dict(self) -> State:
        """The weights, and what the parts remember."""
        return join_states(self._parts())

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state of `state_dict`, to the bit."""
        split_states(self._parts(), state)


class PaperBeacon(Beacon):
    """BEACON with the paper's options throughout."""

    revision = 2  # the bound on gradients is in units of the mean weight

    @classmethod
    def default_options(cls) -> BeaconOptions:
        """The paper's."""
        return PAPER

    @classmethod
    def default_auxiliary(cls) -> tuple[AuxiliaryLoss, ...]:
        """None."""
        return ()


class _AsArrays:
    """The state of a `Reweighter` as arrays, which checkpoints hold."""

    def __init__(self, reweighter: Reweighter) -> None:
        self._reweighter = reweighter

    def state_dict(self) -> State:
        return {name: tensor.numpy() for name, tensor in self._reweighter.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, NDArray[Any]]) -> None:
        try:
            self._reweighter.load_state_dict(state)
        except ValueError as error:
            raise UserError(f"the checkpoint belongs to other data or another method: {error}") from None
