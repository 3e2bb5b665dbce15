"""The policies that have a name: the paper's, ours for a GPU, ours for a processor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from beacon.errors import UserError, meant
from beacon.policy.config import EncoderConfig, PolicyConfig

# "paper" has the sizes that the paper states, and robomimic's where it is silent. "cpu" is the same method,
# sized so that a run of a simulated task takes minutes on one core: an encoder that keeps positions (narrow,
# stride 8, no random crop, which moves them), a small U-Net, and several noise draws for each encoded image,
# because encoding is what costs. It predicts the actions and not the noise: the error of a predicted noise
# hardly depends on what the policy sees where there is much noise, which is where it decides what to do. In a
# short run that is the difference between half and nearly all of the stacks (docs/simulation.md). It whitens
# the colours: brightness varies most in any image, and a short run may end before the policy sees what
# differs in hue. And it learns how the target's camera is turned, which a few demonstrations tell
# (docs/lab-notes.md), but not how its picture is bent where they do not go: that is held small.
PRESETS: dict[str, PolicyConfig] = {
    "paper": PolicyConfig(),
    "cpu": PolicyConfig(
        obs_steps=1,
        encoder=EncoderConfig(
            widths=(16, 32, 32, 32),
            output_stride=8,
            learn_temperature=True,
            feature_dim=None,
            crop=1.0,
            adapt_view=True,
            view_prior=0.02,
            whiten=True,
        ),
        channels=(32, 64),
        step_dim=64,
        prediction="sample",
        sampler="ddim",
        sampling_steps=10,
        draws=4,
    ),
    # Our recipe at the paper's sizes: what "cpu" has for its method, with networks of full width. Stride 16
    # keeps positions where images are larger.
    "gpu": PolicyConfig(
        encoder=EncoderConfig(
            output_stride=16,
            learn_temperature=True,
            feature_dim=None,
            crop=1.0,
            adapt_view=True,
            view_prior=0.02,
            whiten=True,
        ),
        prediction="sample",
        sampler="ddim",
        sampling_steps=10,
        draws=4,
    ),
}

# The paper names the public Diffusion Policy; the authors' code builds on robomimic's. They differ in sizes
# that the paper does not state, and neither is the paper's beyond doubt. What differs in the optimisation
# is in `beacon.training.config`.
VARIANTS: dict[str, dict[str, Any]] = {
    "robomimic": {"channels": (256, 512, 1024), "step_dim": 256},
    "diffusion-policy": {"channels": (512, 1024, 2048), "step_dim": 128},
}


def preset_policy(preset: str, variant: str | None = None) -> PolicyConfig:
    """The policy of a preset.

    Args:
        preset: a name of PRESETS.
        variant: a name of VARIANTS, only of the preset ``paper``; None: its default, robomimic's.
    """
    if preset not in PRESETS:
        raise UserError(f"--preset {preset}: {meant(preset, PRESETS)}choose one of {', '.join(PRESETS)}")
    if variant is None:
        return PRESETS[preset]
    if variant not in VARIANTS:
        raise UserError(f"--policy.variant {variant}: choose one of {', '.join(VARIANTS)}")
    if preset != "paper":
        raise UserError(f"--policy.variant {variant}: is of --preset paper, not of {preset}")
    return replace(PRESETS[preset], **VARIANTS[variant])
