"""The one training loop. Methods plug in; nothing here depends on which one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from beacon.data import WindowBatch
from beacon.data.sensor_noise import missing_noise
from beacon.methods import METHODS, MethodContext
from beacon.methods.base import Indices, Method, join_states, split_states
from beacon.methods.kept import KeptDemonstrations
from beacon.policy import DiffusionPolicy, Encoding, FlatParameters, ModelEma
from beacon.randomness import generator
from beacon.runs import RunFolder
from beacon.runs.layout import step_name
from beacon.runs.provenance import note_session
from beacon.training.batch_loader import BatchLoader
from beacon.training.checkpoint import Progress, load_checkpoint, save_checkpoint
from beacon.training.checkpoint_schedule import CheckpointSchedule
from beacon.training.config import TrainConfig
from beacon.training.early_looks import EarlyLooks
from beacon.training.loading import deployment_info, kept_windows, load_training_data
from beacon.training.loss_pass import check_precision
from beacon.training.measuring import STEP, Measuring
from beacon.training.metrics import RunningMeans
from beacon.training.optimization import diverged, half_squared_norm, learning_rate, make_optimizer
from beacon.training.ranks import Ranks
from beacon.training.record import NoRecord, RunRecord
from beacon.training.reference import TrainedReference
from beacon.training.sensor_noise import SensorNoise
from beacon.training.summary import summarize_run


@dataclass(frozen=True)
class StepEvent:
    """What a listener, such as a progress bar, hears after every step."""

    step: int
    steps: int
    loss: Callable[[], float]  # only when asked, because a GPU would have to be waited for


class Trainer(Measuring):
    """Data, policy, optimiser and method of one run."""

    def __init__(self, config: TrainConfig, folder: RunFolder, ranks: Ranks | None = None) -> None:
        """Load the data and make the policy.

        Args:
            config: everything that decides the run.
            folder: of the run.
            ranks: the processes of the run; None: this one alone.
        """
        self.config, self.folder, self.ranks = config, folder, ranks or Ranks()
        self.began = time.monotonic()  # reading data counts for --max-hours
        optimization = config.optimization
        self.device = self.ranks.device(config.run.device)
        check_precision(self.device, config.run.precision)
        self.share = self.ranks.share(optimization.batch_size)
        data_options = config.data
        if not self.ranks.is_alone and data_options.memory_limit is None:
            data_options = replace(data_options, memory_limit=0)  # mapped: processes share the frames
        with self.ranks.first_goes_first(on_machine=True):
            data = load_training_data(data_options, config.policy)
        self.domains, self.windows, self.normalizer = data.domains, data.windows, data.normalizer
        target, lacking = self.domains.target_index, None
        if data_options.match_noise and target is not None:
            lacking = missing_noise(self.windows.sets, target)
        self.noise = None if lacking is None else SensorNoise(lacking, self.device)
        spec = METHODS[config.method].observation(config.options, data.spec)
        self.policy = DiffusionPolicy(spec, config.policy, seed=optimization.seed).to(self.device)
        if config.run.compile:
            self.policy.compile()
        self.parameters = FlatParameters(self.policy)
        self.ema = ModelEma(self.parameters, power=optimization.ema_power, max_decay=optimization.ema_max)
        self.optimizer = make_optimizer([self.parameters.values], optimization)
        self.loss_pass = self.ranks.parallel(self._loss_pass(self.policy), self.device)
        self.measurer = self._measurer(self.policy, self.windows)
        self.remarks: list[str] = []  # said when the run begins
        if lacking is not None:
            self.remarks.append(
                f"noise is added to the source's readings, as the target's are noisier: {lacking}"
            )
        self.context = MethodContext(
            windows=self.windows,
            domains=self.domains,
            seed=optimization.seed,
            device=self.device.type,
            epochs=optimization.epochs,
            steps_per_epoch=optimization.steps_per_epoch,
            batch_size=optimization.batch_size,
            weight_decay=optimization.weight_decay,
            measure=self._measure,
            measure_part=self._measure_part,
            shard=self.ranks.shard(len(self.windows), self.device),
            capacity=lambda: half_squared_norm(self.policy),
            fit_reference=self._fit_reference,
            present_policy=lambda: TrainedReference(self.policy, self._measure, self.measurer.actions),
            missing_noise=lacking,
            remark=self.remarks.append,
        )
        self.method = self._make_method()
        self.auxiliary = {
            f"{number}-{loss.part_name}": built
            for number, loss in enumerate(config.auxiliary)
            if (built := loss.build(self.context)) is not None
        }
        self.validation = self._load_validation()
        rows = optimization.batch_size if self.share is None else self.share.count
        self.loader = BatchLoader(self.windows, rows, self.device)
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
        looks: EarlyLooks | None = None,
    ) -> Path:
        """Train to the end or as long as the run may; return the last checkpoint.

        Args:
            resume: start from the newest checkpoint.
            listener: called after every step.
            started: called with two lines about the run when it begins.
            looks: as for `train`.
        """
        config, folder = self.config, self.folder
        if resume and folder.has_checkpoint():
            self.progress, state = load_checkpoint(
                folder.path, config.digest(), self.policy, self.parameters, self.ema, self.optimizer
            )
            split_states({"method": self.method, **self.auxiliary}, state)
        record = NoRecord()
        if self.ranks.is_first:
            record = RunRecord(folder, config, self.windows, self.domains, self.progress, looks)
        if self.ranks.is_first and self.progress.epoch < config.optimization.epochs:
            note_session(folder.path, self.device.type)
        epochs = config.optimization.epochs
        schedule = CheckpointSchedule(config.run, epochs, began=self.began)
        checkpoint = folder.checkpoints / f"{self.progress.step:08d}"
        try:
            if started is not None and self.ranks.is_first:
                run = (config, self.windows, self.domains, self.device, self.policy)
                started("\n".join([summarize_run(*run, self.progress.step), *self.remarks]))
            for epoch in range(self.progress.epoch, epochs):
                report = self.method.between_epochs(epoch)
                if report is not None:
                    record.refresh(epoch, self.progress.step, report)
                self._run_epoch(epoch, record, listener)
                self.progress = Progress(epoch + 1, (epoch + 1) * config.optimization.steps_per_epoch)
                if self.validation is not None and (epoch + 1) % config.run.validate_every == 0:
                    record.write("validation", self.progress.step, {"loss": self._validate()})
                saves, stops = self.ranks.agree(schedule.after(epoch))
                if saves:
                    record.sync(self.progress.step)
                    checkpoint = self._save()
                    record.saved(self.progress, checkpoint)
                if stops:
                    break
            else:
                record.finish()
        finally:
            record.close()
        return checkpoint

    def _run_epoch(self, epoch: int, record: NoRecord, listener: Callable[[StepEvent], None] | None) -> None:
        options, run = self.config.optimization, self.config.run
        self.policy.train()
        for group in self.optimizer.param_groups:
            group["weight_decay"] = self.method.weight_decay
        means = RunningMeans(self.domains.names, self.device)
        started, since = time.perf_counter(), 0
        batches = self.ranks.agree_on_batches(self.method.batches(epoch), self.device)
        own = batches if self.share is None else batches[:, self.share.rows]
        for offset, batch in enumerate(self.loader(own)):
            step = epoch * options.steps_per_epoch + offset
            losses, loss = self._step(batch, batches[offset], step)
            domain = batch.domain if self.share is None else self._domain(batches[offset])
            means.add(losses.float(), domain, loss=loss)
            since += 1
            if listener is not None and self.ranks.is_first:
                listener(StepEvent(step + 1, options.steps, loss.detach().item))
            if (step + 1) % run.log_every == 0 or offset + 1 == options.steps_per_epoch:
                values = means.take()
                if not np.isfinite(values["loss"]):
                    raise diverged(step + 1, options)
                speed = since / (time.perf_counter() - started)
                values |= {"learning_rate": learning_rate(step, options), "steps_per_second": speed}
                record.write("train", step + 1, {"epoch": epoch, **values})
                started, since = time.perf_counter(), 0

    def _step(self, batch: WindowBatch, index: Indices, step: int) -> tuple[Tensor, Tensor]:
        """One gradient step on a mini-batch of the windows ``index``: all losses, and what was minimised."""
        options = self.config.optimization
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        losses, encoding, loss = self._loss(batch, step, index)
        # Gradients are averaged over the processes, each of which has those of its rows: their sum is wanted.
        (loss if self.ranks.is_alone else self.ranks.size * loss).backward()
        self.parameters.take_gradients()
        if options.gradient_clip is not None:
            bound = options.gradient_clip * self.method.mean_weight
            torch.nn.utils.clip_grad_norm_(self.parameters.values, bound)
        self.optimizer.step()
        self.ema.update(step)
        seen = Encoding(encoding.vision.detach(), encoding.observation.detach())
        self.method.observe(index, seen, losses.detach())
        return losses, loss

    def _loss(
        self, batch: WindowBatch, step: int, index: Indices | None = None
    ) -> tuple[Tensor, Encoding, Tensor]:
        """Per-sample losses, the encoding, and the scalar to minimise, of the whole mini-batch.

        Args:
            batch: the rows that this process computes.
            step: decides crops and noise.
            index: windows of the whole mini-batch, where it is a gradient step.
        """
        draw = generator(self.config.optimization.seed, STEP, step)
        by_draw, timesteps, encoding = self.loss_pass(batch, draw, self.share)
        if index is not None:
            self._show_noise(index, timesteps, by_draw)
        losses = by_draw.mean(dim=0)
        at_noise = self.method.noise_weights(batch.index, timesteps)
        counted = losses if at_noise is None else (at_noise * by_draw).mean(dim=0)
        if self.share is not None and index is not None:
            encoding, (losses, counted) = self.ranks.whole_batch(encoding, losses, counted)
            batch = self.windows.gather(index, images=False).to(self.device)
        weights = self.method.weights(batch.index)
        loss = counted.mean() if weights is None else (weights * counted).mean()
        extra = self.method.extra_loss(batch, encoding, losses)
        loss = loss if extra is None else loss + extra
        for auxiliary in self.auxiliary.values():
            loss = loss + auxiliary.loss(batch, encoding)
        penalty = self.policy.encoder.view_penalty()
        if penalty is not None:
            loss = loss + penalty / self.ranks.size  # every process adds its part
        return losses, encoding, loss

    def _save(self) -> Path:
        state = join_states({"method": self.method, **self.auxiliary})  # each process has a part of it
        if not self.ranks.is_first:
            self.ranks.wait()
            return self.folder.checkpoints / step_name(self.progress.step)
        checkpoint = save_checkpoint(
            self.folder.checkpoints,
            self.progress,
            self.policy,
            self.parameters,
            self.ema,
            self.optimizer,
            state,
            normalization=self.normalizer.affine(),
            preset=self.config.preset,
            configuration=self.config.digest(),
            keep=self.config.run.keep,
            deployment=deployment_info(self.config.data, self.windows.sets[self.domains.target_index or 0]),
        )
        self.ranks.wait()
        return checkpoint
