"""Noise schedule, per-sample losses, draws, sampling, presets."""

from __future__ import annotations

import copy
import dataclasses
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from policy_inputs import random_batch

from beacon.errors import UserError
from beacon.policy import (
    PRESETS,
    DiffusionPolicy,
    FlatParameters,
    ModelEma,
    ObservationSpec,
    PolicyConfig,
)
from beacon.policy.noise import ddim_updates, draw_timesteps, make_scheduler


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def losses(
    policy: DiffusionPolicy, batch: int, draws: int, seed: int = 0, crop_seed: int | None = None
) -> torch.Tensor:
    """Losses (draws, batch) of random data."""
    images, proprio, actions = random_batch(policy.spec, policy.config, batch)
    crops = None if crop_seed is None else seeded(crop_seed)
    condition = policy.encode(images, proprio, crop_generator=crops).observation
    return policy.per_sample_loss(condition, actions, *policy.draw_noise(batch, draws, seeded(seed)))


def squared_cosine(steps: int) -> list[float]:
    """Cumulative products of 1 - beta (Nichol & Dhariwal 2021), beta_t = min(1 - f(t + 1) / f(t), 0.999)."""

    def f(x: float) -> float:
        return math.cos((x + 0.008) / 1.008 * math.pi / 2) ** 2

    products, product = [], 1.0
    for t in range(steps):
        product *= 1 - min(1 - f((t + 1) / steps) / f(t / steps), 0.999)
        products.append(product)
    return products


def test_noise_schedule(spec: ObservationSpec) -> None:
    policy = DiffusionPolicy(spec, dataclasses.replace(PRESETS["cpu"], channels=(8,)))
    want = torch.tensor(squared_cosine(100), dtype=torch.float64)
    torch.testing.assert_close(policy.signal.double() ** 2, want, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(policy.noise.double() ** 2, 1 - want, rtol=1e-4, atol=1e-7)
    for name in ("ddpm", "ddim"):
        scheduler = make_scheduler(policy.config, name)  # type: ignore[arg-type]
        torch.testing.assert_close(scheduler.alphas_cumprod.double(), want, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("prediction", ["epsilon", "sample"])
def test_loss_is_the_textbook_one(spec: ObservationSpec, config: PolicyConfig, prediction: str) -> None:
    config = dataclasses.replace(config, prediction=prediction)  # type: ignore[arg-type]
    policy = DiffusionPolicy(spec, config)
    images, proprio, actions = random_batch(spec, config, 3)
    condition = policy.encode(images, proprio).observation
    noise, timesteps = policy.draw_noise(3, 2, seeded(1))
    got = policy.per_sample_loss(condition, actions, noise, timesteps)
    assert got.shape == (2, 3) and got.dtype == torch.float32
    scheduler = make_scheduler(config)
    for d in range(2):
        for b in range(3):
            t = timesteps[d, b][None]
            noisy = scheduler.add_noise(actions[b][None], noise[d, b][None], t)
            predicted = policy.denoiser(noisy[None], t[None], policy.denoiser.project(condition[b][None]))[
                0, 0
            ]
            target = noise[d, b] if prediction == "epsilon" else actions[b]
            assert got[d, b].item() == pytest.approx((predicted - target).square().mean().item(), rel=1e-4)


def test_average_of_per_sample_losses_is_the_batch_loss(spec: ObservationSpec, config: PolicyConfig) -> None:
    policy = DiffusionPolicy(spec, config)
    images, proprio, actions = random_batch(spec, config, 5)
    condition = policy.encode(images, proprio).observation
    noise, timesteps = policy.draw_noise(5, 3, seeded(2))
    per_sample = policy.per_sample_loss(condition, actions, noise, timesteps)
    noisy = policy.signal[timesteps][..., None, None] * actions
    noisy = noisy + policy.noise[timesteps][..., None, None] * noise
    predicted = policy.denoiser(noisy, timesteps, policy.denoiser.project(condition))
    batch_loss = torch.nn.functional.mse_loss(predicted, noise)
    torch.testing.assert_close(per_sample.mean(), batch_loss)
    ours = torch.autograd.grad(per_sample.mean(), list(policy.parameters()), retain_graph=True)
    theirs = torch.autograd.grad(batch_loss, list(policy.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)


def test_several_draws_with_one_encoding_are_separate_evaluations(
    spec: ObservationSpec, config: PolicyConfig
) -> None:
    policy = DiffusionPolicy(spec, config)
    images, proprio, actions = random_batch(spec, config, 4)
    noise, timesteps = policy.draw_noise(4, 3, seeded(3))
    condition = policy.encode(images, proprio).observation
    together = policy.per_sample_loss(condition, actions, noise, timesteps)
    for d in range(3):
        again = policy.encode(images, proprio).observation
        alone = policy.per_sample_loss(again, actions, noise[d : d + 1], timesteps[d : d + 1])
        torch.testing.assert_close(together[d], alone[0], rtol=1e-4, atol=1e-5)


def test_one_call_for_encoding_and_losses(spec: ObservationSpec, config: PolicyConfig) -> None:
    policy = DiffusionPolicy(spec, config)
    images, proprio, actions = random_batch(spec, config, 3)
    noise, timesteps = policy.draw_noise(3, 2, seeded(3))
    got, encoding = policy(images, proprio, actions, noise, timesteps, crop_generator=seeded(1))
    want = policy.encode(images, proprio, crop_generator=seeded(1))
    assert torch.equal(encoding.vision, want.vision)
    assert torch.equal(got, policy.per_sample_loss(want.observation, actions, noise, timesteps))


def test_shared_noise(spec: ObservationSpec, config: PolicyConfig) -> None:
    policy = DiffusionPolicy(spec, config)
    noise, timesteps = policy.draw_noise(5, 3, seeded(4), shared=True)
    assert noise.shape == (3, 5, 8, 4) and timesteps.shape == (3, 5)
    assert (noise == noise[:, :1]).all() and (timesteps == timesteps[:, :1]).all()
    assert not torch.equal(noise[0], noise[1])
    own, own_steps = policy.draw_noise(5, 3, seeded(4))
    assert not torch.equal(own[:, 0], own[:, 1]) and own_steps.shape == (3, 5)
    images, proprio, actions = random_batch(spec, config, 1)
    same = {k: v.expand(5, *v.shape[1:]) for k, v in images.items()}
    same_proprio = {k: v.expand(5, *v.shape[1:]) for k, v in proprio.items()}
    condition = policy.encode(same, same_proprio).observation
    got = policy.per_sample_loss(condition, actions.expand(5, -1, -1), noise, timesteps)
    torch.testing.assert_close(got, got[:, :1].expand(3, 5))  # the same sample has the same loss


def test_timesteps_are_uniform_and_stratified() -> None:
    for stratified in (False, True):
        t = draw_timesteps(100, 4, 20_000, seeded(0), stratified=stratified)
        counts = torch.bincount(t.flatten(), minlength=100)
        assert len(counts) == 100
        assert (counts - 800).abs().max() < 6 * math.sqrt(800)
        if stratified:
            assert torch.equal(t // 25, torch.arange(4)[:, None].expand_as(t))
    t = draw_timesteps(10, 3, 30_000, seeded(0), stratified=True)  # parts that are not whole numbers of steps
    assert (torch.bincount(t.flatten()) - 9000).abs().max() < 6 * math.sqrt(9000)
    assert t.min() == 0 and t.max() == 9


def test_everything_repeats_with_its_seed_and_leaves_the_global_state_alone(
    spec: ObservationSpec, config: PolicyConfig
) -> None:
    before = torch.get_rng_state()
    policy, twin = DiffusionPolicy(spec, config, seed=3), DiffusionPolicy(spec, config, seed=3)
    other = DiffusionPolicy(spec, config, seed=4)
    for a, b in zip(policy.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b)
    assert any(not torch.equal(a, b) for a, b in zip(policy.parameters(), other.parameters(), strict=True))
    assert torch.equal(losses(policy, 3, 2, crop_seed=1), losses(twin, 3, 2, crop_seed=1))
    assert not torch.equal(losses(policy, 3, 2, crop_seed=1), losses(policy, 3, 2, crop_seed=2))
    condition = torch.randn(2, policy.condition_dim, generator=seeded(0))
    assert torch.equal(policy.sample(condition, seeded(5)), twin.sample(condition, seeded(5)))
    assert not torch.equal(policy.sample(condition, seeded(5)), policy.sample(condition, seeded(6)))
    assert torch.equal(torch.get_rng_state(), before)


def test_ddim_with_all_steps_is_deterministic_and_follows_its_equation(
    spec: ObservationSpec, config: PolicyConfig
) -> None:
    policy = DiffusionPolicy(spec, config)
    condition = torch.randn(2, policy.condition_dim, generator=seeded(0))
    got = policy.sample(condition, seeded(1), sampler="ddim")
    alphas = squared_cosine(20)
    x = torch.randn(2, 8, 4, generator=seeded(1))
    with torch.no_grad():
        for t in range(19, -1, -1):
            now, then = alphas[t], alphas[t - 1] if t else 1.0
            eps = policy.denoiser(x[None], torch.tensor([[t]]), policy.denoiser.project(condition))[0]
            clean = ((x - math.sqrt(1 - now) * eps) / math.sqrt(now)).clamp(-1, 1)
            x = math.sqrt(then) * clean + math.sqrt(1 - then) * eps  # eta = 0 (Song et al. 2021, eq. 12)
    torch.testing.assert_close(got, x, rtol=1e-3, atol=1e-3)
    assert torch.equal(got, policy.sample(condition, seeded(1), sampler="ddim"))


@pytest.mark.parametrize("sampler, steps", [("ddpm", None), ("ddpm", 5), ("ddim", 5)])
def test_a_sample_does_not_depend_on_its_batch(
    spec: ObservationSpec, config: PolicyConfig, sampler: str, steps: int | None
) -> None:
    policy = DiffusionPolicy(spec, config)
    condition = torch.randn(3, policy.condition_dim, generator=seeded(0))

    def sample(rows: list[int]) -> torch.Tensor:
        generators = [seeded(row) for row in rows]
        return policy.sample(condition[rows], generators, steps=steps, sampler=sampler)  # type: ignore[arg-type]

    together = sample([0, 1, 2])
    assert together.shape == (3, 8, 4) and together.abs().max() <= 1
    for row in range(3):
        torch.testing.assert_close(together[row], sample([row])[0], rtol=1e-3, atol=1e-4)
    with pytest.raises(UserError, match="2 random generators for 3"):
        policy.sample(condition, [seeded(0), seeded(1)])


@pytest.mark.parametrize("preset, denoiser", [("paper", "unet"), ("cpu", "unet"), ("cpu", "mlp")])
def test_presets_train_and_sample(preset: str, denoiser: str) -> None:
    config = dataclasses.replace(PRESETS[preset], denoiser=denoiser)  # type: ignore[arg-type]
    spec = ObservationSpec(
        {"agentview_image": (96, 96, 3)}, {"robot0_eef_pos": 3, "robot0_gripper_qpos": 2}, 7
    )
    policy = DiffusionPolicy(spec, config)
    loss = losses(policy, 2, config.draws, crop_seed=0)
    assert loss.shape == (config.draws, 2)
    loss.mean().backward()
    for name, parameter in policy.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name
    condition = torch.zeros(2, policy.condition_dim)
    actions = policy.sample(condition, seeded(0), steps=4)
    assert actions.shape == (2, 16, 7) and actions.isfinite().all()
    assert policy.vision_dim == 64 * config.obs_steps


def test_a_copy_and_float_losses_under_bfloat16(spec: ObservationSpec, config: PolicyConfig) -> None:
    policy = DiffusionPolicy(spec, config)
    twin = copy.deepcopy(policy)
    assert torch.equal(losses(policy, 2, 1), losses(twin, 2, 1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = losses(policy, 2, 1)
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, losses(policy, 2, 1), rtol=0.1, atol=0.05)
    low.mean().backward()


def test_ema_follows_its_formula(spec: ObservationSpec, config: PolicyConfig) -> None:
    policy = DiffusionPolicy(spec, config)
    parameters = FlatParameters(policy)
    ema = ModelEma(parameters)
    expected = {name: p.detach().double().clone() for name, p in policy.named_parameters()}
    g = seeded(0)
    for step in range(5):
        with torch.no_grad():
            for p in policy.parameters():
                p.add_(torch.randn(p.shape, generator=g), alpha=0.1)
        ema.update(step)
        decay = min(max(1 - (1 + step) ** -0.75, 0), 0.9999)
        for name, p in policy.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * p.detach().double()
        if step == 0:
            assert all(torch.equal(ema.state_dict()[n], p) for n, p in policy.named_parameters())
    for name, average in ema.state_dict().items():
        torch.testing.assert_close(average.double(), expected[name], rtol=1e-5, atol=1e-6)
    assert ema.decay(10**9) == 0.9999

    own = {name: p.detach().clone() for name, p in policy.named_parameters()}
    with ema.applied():
        assert all(torch.equal(p, ema.state_dict()[n]) for n, p in policy.named_parameters())
    assert all(torch.equal(p, own[n]) for n, p in policy.named_parameters())

    second = ModelEma(parameters)
    second.load_state_dict(ema.state_dict())
    ema.update(9)
    second.update(9)
    assert all(torch.equal(ema.state_dict()[n], a) for n, a in second.state_dict().items())
    with pytest.raises(UserError, match="other parameters"):
        second.load_state_dict({})


def test_compiled_networks_agree(spec: ObservationSpec, config: PolicyConfig) -> None:
    policy = DiffusionPolicy(spec, dataclasses.replace(config, channels=(16,)))
    names, want = list(policy.state_dict()), losses(policy, 2, 2)
    policy.compile(backend="eager")  # tracing is ours to get right; generating code takes minutes
    torch.testing.assert_close(losses(policy, 2, 2), want, rtol=1e-4, atol=1e-5)
    assert list(policy.state_dict()) == names


@pytest.mark.parametrize("sampler", ["ddim", "ddpm"])
def test_compiled_sampling_agrees(spec: ObservationSpec, config: PolicyConfig, sampler: Any) -> None:
    policy = DiffusionPolicy(spec, dataclasses.replace(config, channels=(16,))).eval()
    condition = torch.randn(3, policy.condition_dim, generator=torch.Generator().manual_seed(0))

    def sample() -> torch.Tensor:
        return policy.sample(condition, torch.Generator().manual_seed(1), steps=4, sampler=sampler)

    want = sample()
    compiled: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    policy.compile_sampling(backend=backend)
    torch.testing.assert_close(sample(), want, rtol=1e-4, atol=1e-5)
    assert len(compiled) == 1  # one graph, without a break, serves all steps


@pytest.mark.parametrize("prediction", ["epsilon", "sample"])
@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("schedule", ["squaredcos_cap_v2", "linear"])
def test_our_ddim_steps_have_the_bits_of_diffusers(prediction: Any, clip: bool, schedule: Any) -> None:
    config = replace(
        PRESETS["cpu"], prediction=prediction, clip_sample=clip, schedule=schedule, train_timesteps=100
    )
    scheduler = make_scheduler(config, "ddim")
    for steps in (1, 5, 10, 100):
        scheduler.set_timesteps(steps)
        generator = torch.Generator().manual_seed(steps)
        actions = torch.randn(3, 16, 4, generator=generator)
        for step, update in zip(scheduler.timesteps.tolist(), ddim_updates(scheduler), strict=True):
            predicted = torch.randn(3, 16, 4, generator=generator) * 2
            want = scheduler.step(predicted, step, actions, return_dict=False)[0]
            actions = update(predicted, actions, config)
            assert torch.equal(actions, want)


@pytest.mark.parametrize("sampler", ["ddim", "ddpm"])
def test_a_plan_changes_no_bit(spec: ObservationSpec, config: PolicyConfig, sampler: Any) -> None:
    policy = DiffusionPolicy(spec, replace(config, sampler=sampler), seed=1)
    condition = torch.randn(3, policy.condition_dim, generator=torch.Generator().manual_seed(0))
    plan = policy.plan_sampling()
    for _ in range(2):  # it can be used again
        with_plan = policy.sample(condition, torch.Generator().manual_seed(5), plan=plan)
        assert torch.equal(with_plan, policy.sample(condition, torch.Generator().manual_seed(5)))
