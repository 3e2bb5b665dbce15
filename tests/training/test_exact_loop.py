"""The loop of the paper (its algorithm 1), written out once more as plainly as possible: the same run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import OPTIMIZATION, TINY, metrics, tiny_config

from beacon.data import Normalizer, Windows, load_domains
from beacon.methods import PAPER
from beacon.methods.sampling import shuffled
from beacon.policy import DiffusionPolicy, ObservationSpec
from beacon.randomness import generator
from beacon.training import train
from beacon.weighting import KNN, Steps, WeightingConfig

EPOCHS, STEPS, BATCH = 3, 4, 16
LAMBDA_1, LAMBDA_2, LAMBDA_D, GAMMA, Q_MAX, FLOOR, ALPHA, ETA, K = (
    0.02,
    0.03,
    0.2,
    1e-2,
    5.0,
    0.1,
    0.4,
    0.05,
    3,
)


def discrepancies(features: np.ndarray, on_target: np.ndarray) -> np.ndarray:
    """Mean distance to the K nearest targets, over the mean such distance among targets."""

    def nearest(point: np.ndarray, others: np.ndarray) -> float:
        return float(np.sort(np.linalg.norm(others - point, axis=1))[:K].mean())

    targets = features[on_target]
    spread = np.mean([nearest(t, np.delete(targets, i, axis=0)) for i, t in enumerate(targets)])
    d = np.zeros(len(features))
    for i in np.flatnonzero(~on_target):
        d[i] = nearest(features[i], targets) / spread
    return d


def bisect(q: np.ndarray, lower: np.ndarray, budget: float) -> np.ndarray:
    """clip(q − ν) with ν by bisection, so that it sums to the budget."""
    low, high = float((q - Q_MAX).min()) - 1, float((q - lower).max()) + 1
    for _ in range(200):
        middle = (low + high) / 2
        if np.clip(q - middle, lower, Q_MAX).sum() > budget:
            low = middle
        else:
            high = middle
    return np.clip(q - (low + high) / 2, lower, Q_MAX)


def test_it_is_the_papers_loop(source: Path, target: Path, tmp_path: Path) -> None:
    weighting = WeightingConfig(
        lambda_1=LAMBDA_1,
        lambda_2=LAMBDA_2,
        lambda_d=LAMBDA_D,
        gamma=GAMMA,
        q_max=Q_MAX,
        q_target_min=FLOOR,
        alpha=ALPHA,
        p0="target_one",
        solver=Steps(eta_q=ETA),
    )
    config = tiny_config(
        "beacon-paper",
        source,
        target,
        options=replace(PAPER, weighting=weighting, discrepancy=KNN(k=K)),
        steps=EPOCHS * STEPS,
        steps_per_epoch=STEPS,
        batch_size=BATCH,
        seed=5,
    )
    train(config, tmp_path / "run")

    sets = load_domains([source, target])
    windows = Windows(sets, TINY.obs_steps, TINY.horizon)
    scaling = Normalizer.fit(sets, target=1)
    spec = ObservationSpec({"agentview_image": (24, 24, 3)}, {"robot0_eef_pos": 3}, 3)
    policy = DiffusionPolicy(spec, TINY, seed=5)
    optimizer = torch.optim.AdamW(policy.parameters(), fused=True)
    average = [p.detach().clone() for p in policy.parameters()]

    size, on_target = len(windows), windows.domain == 1
    n, m = int(on_target.sum()), int((~on_target).sum())
    lower, budget = np.where(on_target, FLOOR, 0.0), n + ALPHA * m
    p0 = np.where(on_target, 1.0, 0.0)
    q = p0.copy()
    refreshes, train_losses, domain_losses, decays = [], [], [], []
    for epoch in range(EPOCHS):
        # The weights' phase: raw parameters, centre crop, one draw of noise, all windows in order.
        batch = windows.gather(np.arange(size))
        with torch.no_grad():
            proprio = {k: scaling.normalize_proprio(k, v) for k, v in batch.proprio.items()}
            encoding = policy.encode(batch.images, proprio)
            noise, steps = policy.draw_noise(size, 1, generator(5, 1, epoch))
            actions = scaling.normalize_actions(batch.actions)
            losses = policy.per_sample_loss(encoding.observation, actions, noise, steps)[0].double().numpy()
        d = discrepancies(encoding.vision.double().numpy(), on_target)
        capacity = 0.5 * sum(float(p.detach().double().square().sum()) for p in policy.parameters())
        g = losses + LAMBDA_D * d + LAMBDA_1 * np.sign(q - p0) + 2 * LAMBDA_2 * q
        largest = q == q.max()
        g[largest] += GAMMA * capacity / largest.sum()
        q = bisect(np.clip(q - ETA * g, lower, Q_MAX), lower, budget)
        refreshes.append((q, losses, d))
        # The policy's phase.
        decays.append(GAMMA * q.max())
        for group in optimizer.param_groups:
            group["weight_decay"] = decays[-1]
        for step in range(epoch * STEPS, (epoch + 1) * STEPS):
            index = shuffled(np.arange(size), step * BATCH, BATCH, 5)
            batch = windows.gather(index)
            warm = (step + 1) / OPTIMIZATION.warmup_steps
            done = (step - OPTIMIZATION.warmup_steps) / (EPOCHS * STEPS - OPTIMIZATION.warmup_steps)
            rate = OPTIMIZATION.learning_rate * (
                warm if step < OPTIMIZATION.warmup_steps else 0.5 * (1 + math.cos(math.pi * done))
            )
            for group in optimizer.param_groups:
                group["lr"] = rate
            draw = generator(5, 0, step)
            proprio = {k: scaling.normalize_proprio(k, v) for k, v in batch.proprio.items()}
            encoding = policy.encode(batch.images, proprio, crop_generator=draw)
            noise, steps = policy.draw_noise(BATCH, TINY.draws, draw)
            actions = scaling.normalize_actions(batch.actions)
            sample_losses = policy.per_sample_loss(encoding.observation, actions, noise, steps).mean(dim=0)
            loss = (torch.tensor(q[index], dtype=torch.float32) * sample_losses).sum() / BATCH
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            decay = 1 - (1 + step) ** -0.75
            for mean, parameter in zip(average, policy.parameters(), strict=True):
                mean.mul_(decay).add_(parameter.detach(), alpha=1 - decay)
            train_losses.append(loss.item())
            domain_losses.append(
                [sample_losses.detach()[batch.domain == number].mean().item() for number in (0, 1)]
            )

    # The weights, losses and discrepancies of every refresh.
    table = pq.read_table(tmp_path / "run" / "weights" / "episodes.parquet")
    when = table["epoch"].to_numpy()
    for epoch, (weights, losses, d) in enumerate(refreshes):
        for name, values in (("weight", weights), ("loss", losses), ("discrepancy", d)):
            means = [values[windows.episode == e].mean() for e in range(7)]
            assert table[name].to_numpy()[when == epoch] == pytest.approx(means, rel=2e-5), (epoch, name)
    last = pq.read_table(tmp_path / "run" / "weights" / f"windows-{EPOCHS * STEPS:08d}.parquet")
    assert last["weight"].to_numpy() == pytest.approx(refreshes[-1][0], rel=1e-5)
    assert refreshes[-1][0].sum() == pytest.approx(budget)

    # The policy.
    lines = metrics(tmp_path / "run", "train")
    assert [line["loss"] for line in lines] == pytest.approx(train_losses, rel=1e-4)
    for name, column in (("sim", 0), ("real", 1)):
        found = [line.get(f"loss/{name}", math.nan) for line in lines]
        assert found == pytest.approx([row[column] for row in domain_losses], rel=1e-4, nan_ok=True)
    folder = tmp_path / "run" / "checkpoints" / f"{EPOCHS * STEPS:08d}"
    raw, averaged = load_file(folder / "policy.safetensors"), load_file(folder / "ema.safetensors")
    for (name, parameter), mean in zip(policy.named_parameters(), average, strict=True):
        assert torch.allclose(raw[name], parameter, rtol=1e-3, atol=2e-5), name
        assert torch.allclose(averaged[name], mean, rtol=1e-3, atol=2e-5), name
    assert all(later != decays[0] for later in decays[1:])  # γ‖q‖∞ moved, and the run with it
