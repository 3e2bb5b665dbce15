"""The one training loop. Methods plug in; nothing here depends on which one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from beacon.data import WindowBatch, Windows
from beacon.methods import METHODS, Measurements, MethodContext
from beacon.methods.base import Indices, Method, ReferencePolicy, join_states, split_states
from beacon.methods.kept import KeptDemonstrations
from beacon.policy import DiffusionPolicy, Encoding, ModelEma
from beacon.randomness import generator
from beacon.runs import RunFolder, WeightHistory, describe
from beacon.runs.provenance import note_session
from beacon.training.batch_loader import BatchLoader
from beacon.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from beacon.training.checkpoint_schedule import CheckpointSchedule
from beacon.training.config import TrainConfig
from beacon.training.devices import choose_device
from beacon.training.loading import (
    deployment_info,
    kept_windows,
    load_training_data,
    load_validation_set,
)
from beacon.training.metrics import Metrics, RunningMeans, check_loggers
from beacon.training.optimization import diverged, half_squared_norm, learning_rate, make_optimizer
from beacon.training.reference import TrainedReference, fit_reference
from beacon.training.stored_config import check_same
from beacon.training.summary import summarize_run
from beacon.training.window_measurer import WindowMeasurer, normalise, of_source

# Streams of randomness that must not meet.
STEP, REFRESH, VALIDATION, REFERENCE = 0, 1, 2, 3


@dataclass(frozen=True)
class StepEvent:
    """What a listener, such as a progress bar, hears after every step."""

    step: int
    steps: int
    loss: Callable[[], float]  # only when asked, because a GPU would have to be waited for


def train(
    config: TrainConfig,
    out: Path,
    *,
    resume: bool = False,
    listener: Callable[[StepEvent], None] | None = None,
    started: Callable[[str], None] | None = None,
) -> Path:
    """Train a policy into a run folder; return the last checkpoint.

    Args:
        config: everything that decides the run.
        out: the run folder, which is made.
        resume: go on with the run in it, if there is one.
        listener: called after every step.
        started: called with two lines about the run when it begins.
    """
    folder = RunFolder(out)
    goes_on = resume and folder.exists
    if goes_on:
        check_same(out, config)
    else:
        folder.check_free()
    check_loggers(config)
    trainer = Trainer(config, folder)
    data = describe(trainer.windows.sets, has_target=trainer.domains.target is not None)
    with folder.locked():
        if goes_on:
            folder.take_up(data)
        else:
            folder.start(config.to_dict(), data, config.data.decisions)
        return trainer.run(resume=goes_on, listener=listener, started=started)


class Trainer:
    """Data, policy, optimiser and method of one run."""

    def __init__(self, config: TrainConfig, folder: RunFolder) -> None:
        self.config, self.folder = config, folder
        optimization = config.optimization
        self.device = choose_device(config.run.device)
        data = load_training_data(config.data, config.policy)
        self.domains, self.windows, self.normalizer = data.domains, data.windows, data.normalizer
        spec = METHODS[config.method].observation(config.options, data.spec)
        self.policy = DiffusionPolicy(spec, config.policy, seed=optimization.seed).to(self.device)
        if config.run.compile:
            self.policy.compile()
        self.ema = ModelEma(self.policy, power=optimization.ema_power, max_decay=optimization.ema_max)
        self.optimizer = make_optimizer(self.policy.parameters(), optimization)
        self.measurer = self._measurer(self.policy, self.windows)
        self.context = MethodContext(
            windows=self.windows,
            domains=self.domains,
            seed=optimization.seed,
            epochs=optimization.epochs,
            steps_per_epoch=optimization.steps_per_epoch,
            batch_size=optimization.batch_size,
            weight_decay=optimization.weight_decay,
            measure=self._measure,
            capacity=lambda: half_squared_norm(self.policy),
            fit_reference=self._fit_reference,
            present_policy=lambda: TrainedReference(self.policy, self._measure, self.measurer.actions),
        )
        self.method = self._make_method()
        self.auxiliary = {
            f"{number}-{loss.part_name}": built
            for number, loss in enumerate(config.auxiliary)
            if (built := loss.build(self.context)) is not None
        }
        self.validation = self._load_validation()
        self.loader = BatchLoader(self.windows, optimization.batch_size, self.device)
        self.progress = Progress(0, 0)

    def _make_method(self) -> Method:
        """The method; with a least weight for demonstrations that somebody decided to keep."""
        method = METHODS[self.config.method](self.config.options, self.context)
        kept = kept_windows(self.windows, self.config.data.decisions)
        return KeptDemonstrations(method, kept, self.config.data.kept_floor) if kept.any() else method

    def run(
        self,
        *,
        resume: bool = False,
        listener: Callable[[StepEvent], None] | None = None,
        started: Callable[[str], None] | None = None,
    ) -> Path:
        """Train to the end or as long as the run may; return the last checkpoint.

        Args:
            resume: start from the newest checkpoint.
            listener: called after every step.
            started: called with two lines about the run when it begins.
        """
        config, folder = self.config, self.folder
        history = WeightHistory(folder.weights, self.windows, self.domains.names)
        if resume and folder.has_checkpoint():
            self.progress, state = load_checkpoint(
                folder.path, config.digest(), self.policy, self.ema, self.optimizer
            )
            split_states({"method": self.method, **self.auxiliary}, state)
            history.restore(self.progress.epoch, self.progress.step)
        if self.progress.epoch < config.optimization.epochs:
            note_session(folder.path, self.device.type)
        folder.rewind_metrics(self.progress.step)
        if started is not None:
            run = (config, self.windows, self.domains, self.device, self.policy)
            started(summarize_run(*run, self.progress.step))
        epochs = config.optimization.epochs
        schedule = CheckpointSchedule(config.run, epochs)
        checkpoint = folder.checkpoints / f"{self.progress.step:08d}"
        metrics = Metrics(folder, config, self.progress.step)
        members = {name: self.windows.domain == d for d, name in enumerate(self.domains.names)}
        try:
            for epoch in range(self.progress.epoch, epochs):
                report = self.method.between_epochs(epoch)
                if report is not None:
                    metrics.write_refresh(epoch, self.progress.step, report, members)
                    history.add(epoch, self.progress.step, report)
                self._run_epoch(epoch, metrics, listener)
                self.progress = Progress(epoch + 1, (epoch + 1) * config.optimization.steps_per_epoch)
                if self.validation is not None and (epoch + 1) % config.run.validate_every == 0:
                    metrics.write("validation", self.progress.step, {"loss": self._validate()})
                saves, stops = schedule.after(epoch)
                if saves:
                    history.save(self.progress.step)
                    folder.sync_metrics()
                    checkpoint = self._save()
                if stops:
                    break
        finally:
            metrics.close()
        return checkpoint

    def _run_epoch(self, epoch: int, metrics: Metrics, listener: Callable[[StepEvent], None] | None) -> None:
        options, run = self.config.optimization, self.config.run
        self.policy.train()
        for group in self.optimizer.param_groups:
            group["weight_decay"] = self.method.weight_decay
        means = RunningMeans(self.domains.names, self.device)
        started, since = time.perf_counter(), 0
        batches = self.method.batches(epoch)
        for offset, batch in enumerate(self.loader(batches)):
            step = epoch * options.steps_per_epoch + offset
            losses, loss = self._step(batch, batches[offset], step)
            means.add(losses.float(), batch.domain, loss=loss)
            since += 1
            if listener is not None:
                listener(StepEvent(step + 1, options.steps, loss.detach().item))
            if (step + 1) % run.log_every == 0 or offset + 1 == options.steps_per_epoch:
                values = means.take()
                if not np.isfinite(values["loss"]):
                    raise diverged(step + 1, options)
                speed = since / (time.perf_counter() - started)
                values |= {"learning_rate": learning_rate(step, options), "steps_per_second": speed}
                metrics.write("train", step + 1, {"epoch": epoch, **values})
                started, since = time.perf_counter(), 0

    def _step(self, batch: WindowBatch, index: Indices, step: int) -> tuple[Tensor, Tensor]:
        """One gradient step on a mini-batch of the windows ``index``: all losses, and what was minimised."""
        options = self.config.optimization
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        losses, encoding, loss = self._loss(batch, step)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if options.gradient_clip is not None:
            bound = options.gradient_clip * self.method.mean_weight
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), bound)
        self.optimizer.step()
        self.ema.update(self.policy, step)
        seen = Encoding(encoding.vision.detach(), encoding.observation.detach())
        self.method.observe(index, seen, losses.detach())
        return losses, loss

    def _loss(self, batch: WindowBatch, step: int) -> tuple[Tensor, Encoding, Tensor]:
        """Per-sample losses, the encoding, and the scalar to minimise."""
        draw = generator(self.config.optimization.seed, STEP, step)
        by_draw, timesteps, encoding = self._sample_losses(self.policy, batch, draw)
        losses = by_draw.mean(dim=0)
        at_noise = self.method.noise_weights(batch.index, timesteps)
        counted = losses if at_noise is None else (at_noise * by_draw).mean(dim=0)
        weights = self.method.weights(batch.index)
        loss = counted.mean() if weights is None else (weights * counted).mean()
        extra = self.method.extra_loss(batch, encoding, losses)
        loss = loss if extra is None else loss + extra
        for auxiliary in self.auxiliary.values():
            loss = loss + auxiliary.loss(batch, encoding)
        return losses, encoding, loss

    def _sample_losses(
        self, policy: DiffusionPolicy, batch: WindowBatch, draw: torch.Generator
    ) -> tuple[Tensor, Tensor, Encoding]:
        """Losses and timesteps (draws, B), with crops and noise as ``draw`` says, and the encoding."""
        config = self.config.policy
        actions, proprio = normalise(self.normalizer, batch, self.device)
        with self._autocast():
            source = of_source(batch.domain, self.domains.target_index)
            encoding = policy.encode(batch.images, proprio, crop_generator=draw, of_source=source)
            noise, timesteps = policy.draw_noise(len(batch), config.draws, draw, stratified=config.stratified)
            losses = policy.per_sample_loss(encoding.observation, actions, noise, timesteps)
        return losses, timesteps, encoding

    def _autocast(self) -> torch.autocast:
        enabled = self.device.type == "cuda" and self.config.run.precision == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)

    def _measure(self, index: Indices, draws: int, number: int) -> Measurements:
        seed = (self.config.optimization.seed, REFRESH, number)
        measured = self._measured(self.measurer, index, draws, seed)
        if not bool(torch.isfinite(measured.losses).all()):
            raise diverged(self.progress.step, self.config.optimization)
        return measured

    def _measured(
        self, measurer: WindowMeasurer, index: Indices, draws: int, seed: tuple[int, ...]
    ) -> Measurements:
        with self._autocast():
            return measurer(index, draws, seed)

    def _fit_reference(self, name: str, members: Indices, steps: int) -> ReferencePolicy:
        """Train a policy on some windows alone, or take it from the run folder."""
        options = self.config.optimization
        policy = DiffusionPolicy(self.policy.spec, self.config.policy, seed=options.seed).to(self.device)

        def losses(batch: WindowBatch, step: int) -> Tensor:
            by_draw, _, _ = self._sample_losses(policy, batch, generator(options.seed, REFERENCE, step))
            return by_draw.mean(dim=0)

        fit_reference(policy, losses, self.loader, members, steps, options, self.folder.reference(name))
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
        with self.ema.applied(self.policy):
            measured = self._measured(self.validation, self.validation.everything, 4, seed)
        return float(measured.losses.mean())

    def _save(self) -> Path:
        return save_checkpoint(
            self.folder.checkpoints,
            self.progress,
            self.policy,
            self.ema,
            self.optimizer,
            join_states({"method": self.method, **self.auxiliary}),
            normalization=self.normalizer.affine(),
            preset=self.config.preset,
            configuration=self.config.digest(),
            keep=self.config.run.keep,
            deployment=deployment_info(self.config.data, self.windows.sets[self.domains.target_index or 0]),
        )
