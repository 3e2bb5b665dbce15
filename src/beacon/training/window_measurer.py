"""What the present policy says of many windows: one pass over the images serves losses and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from beacon.data import Normalizer, WindowBatch, Windows
from beacon.devices import upload
from beacon.methods import Measurements
from beacon.policy import DiffusionPolicy
from beacon.randomness import Share, generator

Indices = NDArray[np.int64]
BATCH = 256


class WindowMeasurer:
    """Measures windows without gradients: raw parameters, centre crop.

    Neighbouring windows share frames. Each frame is encoded once, and a window's embedding is put together
    from its frames', so that a sweep costs as much with a history of many steps as with one. What was
    measured stays on the device.
    """

    def __init__(
        self,
        policy: DiffusionPolicy,
        windows: Windows,
        normalizer: Normalizer,
        device: torch.device,
        *,
        target: int | None,
        domain: int | None = None,
    ) -> None:
        """Measure ``windows`` with ``policy``.

        Args:
            policy: networks, on ``device``.
            windows: what is measured.
            normalizer: the run's scaling.
            device: where the policy computes.
            target: number of the target domain, whose cameras are adapted; None where there is none.
            domain: number of the domain that all windows count as, for windows that are not training data.
        """
        self._policy, self._windows, self._normalizer, self._device = policy, windows, normalizer, device
        self._target, self._domain = target, domain
        # Every window stands at one frame, so frames are numbered as windows are.
        self._frames = Windows(windows.sets, 1, windows.horizon)
        past = np.arange(1 - windows.obs_steps, 1)
        number = np.arange(len(windows))
        self._history = np.maximum(number[:, None] + past, (number - windows.step)[:, None])  # (N, To)

    @property
    def policy(self) -> DiffusionPolicy:
        """What is measured with."""
        return self._policy

    @property
    def everything(self) -> Indices:
        """All windows."""
        return np.arange(len(self._windows))

    def __call__(
        self,
        index: Indices,
        draws: int,
        seed: tuple[int, ...],
        *,
        shared: bool = False,
        rows: slice | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Measurements:
        """Measure these windows with ``draws`` noise draws each.

        Args:
            index: which windows.
            draws: noise draws per window.
            seed: decides the noise.
            shared: the same noise and timesteps for all windows.
            rows: measure these of ``index`` alone, with the noise that they have among all. Default: all.
            advance: called with the number of windows done.
        """
        policy = self._policy
        if rows is not None and rows.start >= rows.stop:
            nothing = torch.zeros(0, policy.condition_dim, device=self._device)
            return Measurements(nothing.sum(dim=1), nothing[:, : policy.vision_dim], nothing)
        was_training = policy.training
        policy.eval()
        draw = generator(*seed)
        total, first = len(index), 0 if rows is None else rows.start
        index = index if rows is None else index[rows]
        for _ in range(first // BATCH):
            policy.draw_on_host(1 if shared else BATCH, draws, draw)
        needed, position = np.unique(self._history[index], return_inverse=True)
        # (B, To), where each frame's features are
        frames = upload(torch.from_numpy(position.reshape(len(index), -1)), self._device)
        with torch.no_grad():
            vision = self._see(needed, advance)  # (F, V)
            losses, observations = [], []
            for part, share in _shares(first, len(index), total):
                batch = self._windows.gather(index[part], images=False)
                actions, proprio = normalise(self._normalizer, batch, self._device, self._domain)
                domain = batch.domain if self._domain is None else torch.full_like(batch.domain, self._domain)
                source = of_source(domain, self._target)
                encoding = policy.encoder.join(vision[frames[part]], proprio, source)
                if shared:
                    draw = generator(*seed)  # the same noise for every part
                noise, timesteps = policy.draw_noise(len(actions), draws, draw, shared=shared, share=share)
                loss = policy.per_sample_loss(encoding.observation, actions, noise, timesteps)
                losses.append(loss.mean(dim=0))
                observations.append(encoding.observation)
        policy.train(was_training)
        return Measurements(torch.cat(losses), vision[frames].flatten(1), torch.cat(observations))

    def actions(self, index: Indices) -> Tensor:
        """Normalised action chunks of these windows, (B, horizon, A)."""
        batch = self._windows.gather(index, images=False)
        return normalise(self._normalizer, batch, self._device, self._domain)[0]

    def _see(self, frames: Indices, advance: Callable[[int], None] | None) -> Tensor:
        """Vision features of every frame, (F, V)."""
        features = []
        for start in range(0, len(frames), BATCH):
            batch = self._frames.gather(frames[start : start + BATCH])
            images = {name: upload(image, self._device) for name, image in batch.images.items()}
            domain = batch.domain if self._domain is None else torch.full_like(batch.domain, self._domain)
            seen = self._policy.encoder.encode_images(images, None, of_source(domain, self._target))
            features.append(torch.zeros(len(batch), 0, device=self._device) if seen is None else seen[:, 0])
            if advance is not None:
                advance(len(batch))
        return torch.cat(features)


def _shares(first: int, count: int, total: int) -> Iterator[tuple[slice, Share]]:
    """The batches of ``count`` rows from row ``first`` of ``total`` on: which of the rows, and their place in
    the batch that they would have if all rows were measured.
    """
    start = first
    while start < first + count:
        block = start - start % BATCH
        end = min(block + BATCH, first + count)
        yield (
            slice(start - first, end - first),
            Share(start - block, end - start, min(BATCH, total - block)),
        )
        start = end


def of_source(domain: Tensor, target: int | None) -> Tensor:
    """Which samples of these domains (B,) are a source's: all of them where there is no target."""
    return torch.ones_like(domain, dtype=torch.bool) if target is None else domain != target


def normalise(
    normalizer: Normalizer, batch: WindowBatch, device: torch.device, domain: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Actions and proprioception in [-1, 1], on the device, by the batch's domains or ``domain``."""
    whose = batch.domain if domain is None else domain
    proprio = {
        name: upload(normalizer.normalize_proprio(name, value, whose), device)
        for name, value in batch.proprio.items()
    }
    return upload(normalizer.normalize_actions(batch.actions, whose), device), proprio
