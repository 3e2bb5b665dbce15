"""How noisy readings are is known from the recordings themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from beacon.data.episodes import EpisodeSet
from beacon.data.sensor_noise import camera_noise, missing_noise, sensor_noise, with_noise

LENGTHS = np.array([60, 41, 1, 2, 80])
STARTS = np.cumsum(LENGTHS) - LENGTHS


def recorded(noise: float, seed: int = 0) -> EpisodeSet:
    """Demonstrations of a hand that moves smoothly and begins each elsewhere, and of a gripper that closes
    once; ``noise`` is that of both.
    """
    rng = np.random.default_rng(seed)
    hand, gripper = [], []
    for length in LENGTHS:
        phase = np.linspace(0, 1, length)[:, None]
        way = rng.normal(size=3) * 0.3
        hand.append(rng.normal(size=3) + way * (1 - np.cos(np.pi * phase)) / 2)
        gripper.append((phase > 0.5).astype(float) * 0.04)
    moved = {"hand": np.concatenate(hand), "gripper": np.concatenate(gripper)}
    proprio = {
        key: (values + noise * rng.normal(size=values.shape)).astype(np.float32)
        for key, values in moved.items()
    }
    frames = int(LENGTHS.sum())
    return EpisodeSet(
        name="recorded",
        path=None,  # type: ignore[arg-type]
        episode_names=[f"demo_{number}" for number in range(len(LENGTHS))],
        lengths=LENGTHS,
        actions=np.zeros((frames, 2), np.float32),
        proprio=proprio,
        images={},
        env_args={},
        episode_attributes=[{} for _ in LENGTHS],
        image_starts=STARTS,
    )


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.1])
def test_noise_is_told_from_motion(noise: float) -> None:
    for values in sensor_noise(recorded(noise)).values():
        assert values == pytest.approx(noise, rel=0.25)


def test_exact_readings_have_hardly_any_and_borders_do_not_count() -> None:
    estimated = sensor_noise(recorded(0.0))
    assert estimated["hand"].max() < 5e-4  # demonstrations begin a metre apart
    assert estimated["gripper"].max() < 1e-6  # the one jump of its closing is no noise


def test_a_source_lacks_what_the_target_has_more() -> None:
    sets = [recorded(0.0), recorded(0.01, 1), recorded(0.01, 2)]
    lacking = missing_noise(sets, target=2)
    assert lacking is not None and set(lacking.proprio) == {"hand", "gripper"}
    assert lacking.proprio["hand"].shape == (3, 3)
    assert lacking.proprio["hand"][0] == pytest.approx(0.01, rel=0.25)
    assert lacking.proprio["gripper"][0] == pytest.approx(0.01, rel=0.25)
    assert not lacking.proprio["hand"][1:].any() and not lacking.proprio["gripper"][1:].any()


@pytest.mark.parametrize("of_source", [0.01, 0.1])
def test_nothing_is_lacking_where_the_target_is_as_exact(of_source: float) -> None:
    assert missing_noise([recorded(of_source), recorded(0.01, 1)], target=1) is None


def test_added_noise_is_what_was_lacking() -> None:
    exact, noisy = recorded(0.0), recorded(0.01, 1)
    lacking = missing_noise([exact, noisy], target=1)
    assert lacking is not None
    filled = with_noise(exact, lacking.of(0))
    assert missing_noise([filled, noisy], target=1) is None
    assert filled.actions is exact.actions
    assert not np.array_equal(filled.proprio["hand"], exact.proprio["hand"])
    again = with_noise(exact, lacking.of(0))
    assert np.array_equal(filled.proprio["hand"], again.proprio["hand"])


def test_demonstrations_of_two_steps_say_nothing() -> None:
    short = recorded(0.01)
    rows = slice(int(STARTS[3]), int(STARTS[3]) + 2)
    two = replace(
        short,
        lengths=np.array([2]),
        episode_names=["demo_3"],
        actions=short.actions[rows],
        proprio={key: values[rows] for key, values in short.proprio.items()},
        episode_attributes=[{}],
        image_starts=np.array([0]),
    )
    assert not any(values.any() for values in sensor_noise(two).values())


def filmed(noise: float, seed: int, *, flicker: float = 0.0) -> EpisodeSet:
    """A square that moves over a picture that stands still, in light that may flicker."""
    rng = np.random.default_rng(seed)
    frames = int(LENGTHS.sum())
    images = np.full((frames, 20, 20, 3), 100.0) + flicker * rng.normal(size=(frames, 1, 1, 1))
    for frame in range(frames):
        images[frame, frame % 15 : frame % 15 + 5, 4:9] = 220
    images += noise * rng.normal(size=images.shape)
    return replace(recorded(0.0), images={"camera": images.round().clip(0, 255).astype(np.uint8)})


@pytest.mark.parametrize("noise", [2.0, 6.0])
@pytest.mark.parametrize("flicker", [0.0, 10.0])
def test_grain_is_told_from_motion_and_light(noise: float, flicker: float) -> None:
    assert camera_noise(filmed(noise, 0, flicker=flicker))["camera"] == pytest.approx(noise, rel=0.15)


def test_a_clean_camera_lacks_the_grain_of_the_target() -> None:
    clean, grainy = filmed(0.0, 0), filmed(5.0, 1)
    lacking = missing_noise([clean, grainy], target=1)
    assert lacking is not None and not lacking.proprio
    assert lacking.images["camera"][0] == pytest.approx(5, rel=0.15) and not lacking.images["camera"][1].any()
    assert missing_noise([grainy, clean], target=1) is None
    assert missing_noise([clean, filmed(0.5, 1)], target=1) is None  # below what rounding hides


def test_rough_motion_is_no_noise() -> None:
    """A robot whose velocity changes at random at every step, read exactly."""
    rng = np.random.default_rng(3)
    smooth = recorded(0.0)
    velocity = np.cumsum(rng.normal(size=(int(LENGTHS.sum()), 3)), axis=0)
    rough = replace(
        smooth, proprio={**smooth.proprio, "hand": np.cumsum(velocity, axis=0).astype(np.float32)}
    )
    assert not sensor_noise(rough)["hand"].any()
    assert missing_noise([smooth, rough], target=1) is None
