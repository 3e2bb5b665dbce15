"""What a moved camera sees is mapped to where the source's camera would see it."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from policy_inputs import random_batch
from torch import Tensor

from beacon.errors import UserError
from beacon.policy import DiffusionPolicy, EncoderConfig, ObservationSpec, PolicyConfig
from beacon.policy.camera_homography import LEARNING_RATE_SCALE, CameraHomography

CONFIG = PolicyConfig(
    encoder=EncoderConfig(widths=(8, 8, 8, 8), group_channels=8, keypoints=4, adapt_view=True),
    denoiser="mlp",
    mlp_width=16,
    mlp_blocks=1,
)
SPEC = ObservationSpec(cameras={"front": (24, 24, 3), "side": (24, 24, 3)}, proprio={"pos": 3}, action_dim=2)


def seen_from(angle: float, table: Tensor) -> Tensor:
    """Points (N, 2) of a table as a camera sees them that stands at this angle and looks at its middle."""
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    across, away = (table @ turn.T).unbind(dim=1)
    depth = 1.35 - 0.5 * away
    return torch.stack([across / depth, (0.35 + 0.8 * away) / depth], dim=1)


def test_a_camera_at_another_angle_is_learned_from_few_points() -> None:
    table = torch.rand(500, 2, generator=torch.Generator().manual_seed(0)) - 0.5
    here, there = seen_from(0.0, table), seen_from(math.pi / 4, table)
    view = CameraHomography()
    optimizer = torch.optim.Adam(view.parameters(), lr=1e-2)
    before = (there - here).norm(dim=1).mean()
    for _ in range(2000):
        optimizer.zero_grad()
        (view(there[:10]) - here[:10]).square().mean().backward()
        optimizer.step()
    assert (view(there[10:]) - here[10:]).norm(dim=1).mean() < 0.02 * before


def test_it_is_what_it_says() -> None:
    view = CameraHomography()
    departure = torch.tensor([0.1, -0.2, 0.3, 0.4, 0.05, -0.06, 0.2, 0.1])
    view.departure.data = departure / LEARNING_RATE_SCALE
    x, y = 0.5, -0.25
    scale = 1 + 0.2 * x + 0.1 * y
    expected = [(1.1 * x - 0.2 * y + 0.05) / scale, (0.3 * x + 1.4 * y - 0.06) / scale]
    assert view(torch.tensor([[x, y, 0.0, 0.0]]))[0].tolist() == pytest.approx([*expected, 0.05, -0.06])


def test_points_do_not_pass_behind_the_camera() -> None:
    view = CameraHomography()
    view.departure.data[6] = 5.0
    assert view(torch.tensor([[-1.0, 0.5]])).abs().max() <= 5.0


def test_nothing_changes_at_first_and_for_the_source_never() -> None:
    plain = dataclasses.replace(CONFIG, encoder=dataclasses.replace(CONFIG.encoder, adapt_view=False))
    adapted, as_is = DiffusionPolicy(SPEC, CONFIG, seed=3), DiffusionPolicy(SPEC, plain, seed=3)
    images, proprio = random_batch(SPEC, CONFIG, 4)[:2]
    expected = as_is.encode(images, proprio).vision
    assert torch.equal(adapted.encode(images, proprio).vision, expected)
    with torch.no_grad():
        adapted.encoder.views[0].departure[4] = 0.1
    of_source = torch.tensor([True, False, False, True])
    mixed = adapted.encode(images, proprio, of_source=of_source).vision
    assert torch.equal(mixed[of_source], expected[of_source])
    assert not torch.isclose(mixed[~of_source], expected[~of_source]).all(dim=1).any()
    assert torch.equal(adapted.encode(images, proprio).vision[~of_source], mixed[~of_source])


@pytest.mark.parametrize("share", [False, True])
def test_every_camera_has_its_own(share: bool) -> None:
    encoder = dataclasses.replace(CONFIG.encoder, share=share, feature_dim=None)
    policy = DiffusionPolicy(SPEC, dataclasses.replace(CONFIG, encoder=encoder, obs_steps=1))
    images, proprio = random_batch(SPEC, policy.config, 2)[:2]
    before = policy.encode(images, proprio).vision.view(2, 2, -1)
    with torch.no_grad():
        policy.encoder.views[1].departure[4:6] = 0.1
    moved = policy.encode(images, proprio).vision.view(2, 2, -1)
    assert torch.equal(moved[:, 0], before[:, 0])
    assert torch.allclose(moved[:, 1], before[:, 1] + 0.1 * LEARNING_RATE_SCALE)


def test_it_needs_keypoints() -> None:
    with pytest.raises(UserError, match="adapt_view moves keypoints"):
        EncoderConfig(adapt_view=True, pooling="average")


def offset(*values: float) -> CameraHomography:
    view = CameraHomography()
    view.departure.data = torch.tensor(values) / LEARNING_RATE_SCALE
    return view


def test_a_camera_that_is_moved_or_turned_is_not_bent_and_a_nearer_one_a_little() -> None:
    for scale, expected in ((1.0, 0.0), (1.3, 0.36), (0.7, 0.36)):
        cosine, sine = scale * math.cos(0.8), scale * math.sin(0.8)
        similar = offset(cosine - 1, -sine, sine, cosine - 1, 0.3, -0.2, 0.0, 0.0)
        assert similar.distortion().item() == pytest.approx(expected, abs=1e-6)
    for number, expected in ((0, 0.02), (1, 0.01), (6, 0.01), (7, 0.01), (4, 0.0)):
        bent = offset(*(0.1 if number == index else 0.0 for index in range(8)))
        assert bent.distortion().item() == pytest.approx(expected, rel=1e-3)


def error_in_the_other_half(strength: float, seed: int) -> float:
    """Of a map that is learned from noisy points of one half of a table, seen by a camera that was moved."""
    draw = torch.Generator().manual_seed(seed)
    here = torch.rand(30, 2, generator=draw) - torch.tensor([0.5, 1.0])  # y below 0
    shift = torch.tensor([0.08, -0.03])
    noisy = here + shift + 0.03 * torch.randn(here.shape, generator=draw)
    view = CameraHomography()
    optimizer = torch.optim.LBFGS(view.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = (view(noisy) - here).square().mean() + strength * view.distortion()
        value.backward()
        return value

    optimizer.step(loss)
    with torch.no_grad():
        return float((view(shift - here) + here).norm(dim=1).mean())


def test_what_half_of_a_table_does_not_tell_stays_unbent() -> None:
    free, held = (
        sum(error_in_the_other_half(strength, seed) for seed in range(8)) for strength in (0.0, 0.02)
    )
    assert held < 0.6 * free


def test_the_penalty_is_of_all_cameras_and_off_without_strength() -> None:
    encoder = dataclasses.replace(CONFIG.encoder, view_prior=2.0)
    policy = DiffusionPolicy(SPEC, dataclasses.replace(CONFIG, encoder=encoder))
    penalty = policy.encoder.view_penalty()
    assert penalty is not None and penalty.item() == 0
    with torch.no_grad():
        for view in policy.encoder.views:
            view.departure[6] = 0.1
    assert policy.encoder.view_penalty().item() == pytest.approx(2 * 2 * (0.1 * LEARNING_RATE_SCALE) ** 2)
    assert DiffusionPolicy(SPEC, CONFIG).encoder.view_penalty() is None
    blind = dataclasses.replace(SPEC, cameras={})
    assert DiffusionPolicy(blind, dataclasses.replace(CONFIG, encoder=encoder)).encoder.view_penalty() is None
    plain = dataclasses.replace(encoder, adapt_view=False)
    assert DiffusionPolicy(SPEC, dataclasses.replace(CONFIG, encoder=plain)).encoder.view_penalty() is None
