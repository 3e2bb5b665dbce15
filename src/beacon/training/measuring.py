"""What a run measures of windows: for refreshes, by reference policies, and of held-out demonstrations."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from beacon.data import Normalizer, WindowBatch, Windows
from beacon.data.domains import Domains
from beacon.devices import upload
from beacon.methods import Measurements
from beacon.methods.base import Indices, Method, ReferencePolicy
from beacon.policy import DiffusionPolicy, Encoding, FlatParameters, ModelEma
from beacon.randomness import Share, generator
from beacon.runs import RunFolder
from beacon.training.batch_loader import BatchLoader
from beacon.training.checkpoint import Progress
from beacon.training.config import TrainConfig
from beacon.training.loading import load_validation_set
from beacon.training.loss_pass import LossPass
from beacon.training.optimization import diverged
from beacon.training.ranks import Ranks
from beacon.training.reference import TrainedReference, fit_reference
from beacon.training.sensor_noise import SensorNoise
from beacon.training.window_measurer import WindowMeasurer

# Streams of randomness that must not meet.
STEP, REFRESH, VALIDATION, REFERENCE = 0, 1, 2, 3


class Measuring:
    """The part of a trainer that computes without changing the policy."""

    config: TrainConfig
    folder: RunFolder
    ranks: Ranks
    share: Share | None  # the rows of every mini-batch that this process computes; None: all
    device: torch.device
    domains: Domains
    windows: Windows
    normalizer: Normalizer
    noise: SensorNoise | None  # what is added to observations in training
    policy: DiffusionPolicy
    parameters: FlatParameters  # of the policy
    ema: ModelEma
    method: Method
    measurer: WindowMeasurer
    validation: WindowMeasurer | None
    loader: BatchLoader
    progress: Progress

    def _domain(self, index: Indices) -> Tensor:
        domain = torch.from_numpy(self.windows.domain[index].astype(np.int64))
        return upload(domain, self.device)

    def _loss_pass(self, policy: DiffusionPolicy) -> LossPass:
        return LossPass(
            policy, self.normalizer, self.domains.target_index, self.config.run.precision, self.noise
        )

    def _sample_losses(
        self, policy: DiffusionPolicy, batch: WindowBatch, draw: torch.Generator
    ) -> tuple[Tensor, Tensor, Encoding]:
        """Losses and timesteps (draws, B), with crops and noise as ``draw`` says, and the encoding."""
        losses: tuple[Tensor, Tensor, Encoding] = self._loss_pass(policy)(batch, draw)
        return losses

    def _show_noise(self, index: Indices, timesteps: Tensor, losses: Tensor) -> None:
        """Let the method see the losses of a mini-batch at each noise level, (draws, B), where it asks for
        them; of the rows of other processes, too.
        """
        if not self.method.wants_noise_losses:
            return
        seen = torch.stack([timesteps.float(), losses.detach().float()])
        if self.share is not None:
            seen = self.ranks.whole_rows(seen)
        self.method.observe_noise(index, seen[0].long(), seen[1])

    def _measure(self, index: Indices, draws: int, number: int) -> Measurements:
        seed = (self.config.optimization.seed, REFRESH, number)
        measured = self._measured(self.measurer, index, draws, seed)
        if not bool(torch.isfinite(measured.losses).all()):
            raise diverged(self.progress.step, self.config.optimization)
        return measured

    def _measure_part(self, index: Indices, rows: slice, draws: int, number: int) -> Measurements:
        """These rows of what `_measure` would say of all windows in ``index``; every process has its own."""
        seed = (self.config.optimization.seed, REFRESH, number)
        measured = self.measurer(index, draws, seed, rows=rows)
        not_finite = (~torch.isfinite(measured.losses)).sum()
        if int(self.ranks.shard(len(self.windows), self.device).sum(not_finite)):
            raise diverged(self.progress.step, self.config.optimization)
        return measured

    def _measured(
        self, measurer: WindowMeasurer, index: Indices, draws: int, seed: tuple[int, ...]
    ) -> Measurements:
        # In float32, whatever the steps compute in: losses and distances between embeddings decide weights.
        if self.ranks.is_alone:
            return measurer(index, draws, seed)
        rows = self.ranks.shard(len(index), self.device).rows
        own = measurer(index, draws, seed, rows=rows) if rows.start < rows.stop else None
        return self.ranks.assemble(own, rows, len(index), measurer.policy)

    def _fit_reference(self, name: str, members: Indices, steps: int) -> ReferencePolicy:
        """Train a policy on some windows alone, or take it from the run folder."""
        options = self.config.optimization
        policy = DiffusionPolicy(self.policy.spec, self.config.policy, seed=options.seed).to(self.device)

        loss_pass = self._loss_pass(policy)

        def losses(batch: WindowBatch, step: int) -> Tensor:
            by_draw: Tensor = loss_pass(batch, generator(options.seed, REFERENCE, step))[0]
            return by_draw.mean(dim=0)

        loader = self.loader
        if self.share is not None:
            loader = BatchLoader(self.windows, options.batch_size, self.device)
        with self.ranks.first_goes_first():  # the others load what it has kept
            fit_reference(policy, losses, loader, members, steps, options, self.folder.reference(name))
        measurer = self._measurer(policy, self.windows)

        def measure(index: Indices, draws: int, number: int) -> Measurements:
            return self._measured(measurer, index, draws, (options.seed, REFRESH, number))

        return TrainedReference(policy, measure, measurer.actions)

    def _load_validation(self) -> WindowMeasurer | None:
        path = self.config.data.validation
        if path is None:
            return None
        number = self.domains.target_index or 0  # without a target, the policy acts as on its only source
        held_out = load_validation_set(path, self.config.data, self.windows.sets[number])
        windows = Windows([held_out], self.config.policy.obs_steps, self.config.policy.horizon)
        return self._measurer(self.policy, windows, domain=number)

    def _measurer(
        self, policy: DiffusionPolicy, windows: Windows, domain: int | None = None
    ) -> WindowMeasurer:
        target = self.domains.target_index
        return WindowMeasurer(policy, windows, self.normalizer, self.device, target=target, domain=domain)

    def _validate(self) -> float:
        """Mean loss of the averaged parameters on held-out target windows, always with the same noise."""
        if self.validation is None:
            raise RuntimeError("no validation data")
        # Zeros at the end of a seed do not count, so one that is shorter could meet another stream.
        seed = (0, VALIDATION, 1)
        with self.ema.applied():
            measured = self._measured(self.validation, self.validation.everything, 4, seed)
        return float(measured.losses.mean())
