"""A small dataset is learned by heart and comes back from sampling."""

from __future__ import annotations

import torch

from beacon.policy import DiffusionPolicy, EncoderConfig, ObservationSpec, PolicyConfig


def test_small_dataset_is_reproduced() -> None:
    config = PolicyConfig(
        obs_steps=1,
        horizon=8,
        action_steps=4,
        encoder=EncoderConfig(
            widths=(8, 16, 16, 16),
            output_stride=8,
            keypoints=8,
            learn_temperature=True,
            feature_dim=None,
            crop=1.0,
        ),
        channels=(48,),
        step_dim=32,
        train_timesteps=20,
        sampling_steps=20,
        draws=12,
    )
    count = 8
    g = torch.Generator().manual_seed(0)
    corners = torch.randint(0, 18, (count, 2), generator=g)
    image = torch.zeros(count, 1, 24, 24, 3, dtype=torch.uint8)
    for i, (y, x) in enumerate(corners.tolist()):
        image[i, 0, y : y + 6, x : x + 6] = 255
    images = {"camera": image}
    start = torch.rand(count, 1, 2, generator=g) * 2 - 1
    proprio = {"position": start}
    # A straight line from where the robot is (proprioception) to where the square is (image).
    along = torch.linspace(0, 1, 8)[:, None]
    actions = 0.9 * (start * (1 - along) + (corners / 9 - 1)[:, None] * along)

    policy = DiffusionPolicy(ObservationSpec({"camera": (24, 24, 3)}, {"position": 2}, 2), config)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 250)
    for _ in range(250):
        condition = policy.encode(images, proprio, crop_generator=g).observation
        noise, timesteps = policy.draw_noise(count, config.draws, g, stratified=config.stratified)
        loss = policy.per_sample_loss(condition, actions, noise, timesteps).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        condition = policy.encode(images, proprio).observation
    error = policy.sample(condition, torch.Generator().manual_seed(1)) - actions
    assert error.square().mean().sqrt() < 0.04
    assert error.abs().max() < 0.2
    # Two samples of one image are two samples of one plan, and the plan is that image's.
    again = policy.sample(condition.roll(1, 0), torch.Generator().manual_seed(2)) - actions.roll(1, 0)
    assert again.square().mean().sqrt() < 0.04
