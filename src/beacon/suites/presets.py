"""The sizes at which a suite can be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from beacon.errors import UserError, meant
from beacon.training.config import preset_config

# Seeds of the initial states that policies are judged from. Options are chosen on the validation states;
# test states are looked at once, when nothing is chosen any more (docs/findings.md says when). The first
# ones were test states until a hundred runs had been seen on them.
STATES = {"first": 1000, "validation": 2000, "test": 5000}


@dataclass(frozen=True)
class SuitePreset:
    """How much of everything."""

    name: str
    train_preset: str  # of `beacon train`
    size: str  # of the tasks
    source_demos: int
    target_demos: int
    real_demos: int  # target demonstrations in the real-proxy domain
    scaling: tuple[int, ...]  # target demonstrations of the scaling suite
    episodes: int
    real_episodes: int
    seconds_per_step: float  # of training, roughly, for the first estimate of the time
    seconds_per_episode: float
    workers: int  # experiments side by side, by default
    optimization: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    image_size: int | None = None
    states: str = "first"  # which initial states, a name of STATES

    @property
    def states_seed(self) -> int:
        """Seed of the initial states that results are about."""
        return STATES[self.states]

    @property
    def steps(self) -> int:
        """Gradient steps of a run."""
        return int(self.optimization.get("steps", preset_config(self.train_preset)[1].steps))


TINY_POLICY = {
    "encoder": {"widths": [8, 8, 8, 8], "group_channels": 8, "keypoints": 8},
    "denoiser": "mlp",
    "mlp_width": 32,
    "mlp_blocks": 1,
    "draws": 2,
}

# On two cores. Images are smaller and draws fewer than in the preset of `beacon train`: half of the time,
# for 88 instead of 93 of 100 stacks in the own domain with 1,000 steps of batch 64 (docs/lab-notes.md).
_CPU = SuitePreset(
    "cpu",
    train_preset="cpu",
    size="small",
    source_demos=200,
    target_demos=10,
    real_demos=10,
    scaling=(3, 5, 10, 20),
    episodes=100,
    real_episodes=100,
    seconds_per_step=0.05,
    seconds_per_episode=0.4,
    workers=2,
    optimization={"steps": 10_000},
    policy={"draws": 2},
    image_size=64,
)
# With a camera map that may bend freely, as all results had it before it was held (docs/findings.md).
_FREE_VIEW = replace(_CPU, name="free-view", policy={**_CPU.policy, "encoder": {"view_prior": 0.0}})
# With a quarter and four times the gradient steps, and so of the refreshes; the short one is older.
_QUICK = replace(_FREE_VIEW, name="quick", optimization={"steps": 2_500})
_LONG = replace(_CPU, name="long", optimization={"steps": 40_000})


PRESETS = {
    preset.name: preset
    for preset in (
        # The paper's sizes, for one GPU with 48 GB. Times: an estimate, see docs/suites.md.
        SuitePreset(
            "paper",
            train_preset="paper",
            size="full",
            source_demos=500,
            target_demos=20,
            real_demos=40,
            scaling=(20, 40, 60, 80),
            episodes=100,
            real_episodes=20,
            seconds_per_step=0.08,
            seconds_per_episode=6.0,
            workers=1,
        ),
        _CPU,
        _FREE_VIEW,
        _QUICK,
        _LONG,
        # Shows in minutes that everything works, and teaches nothing.
        SuitePreset(
            "tiny",
            train_preset="cpu",
            size="small",
            source_demos=10,
            target_demos=2,
            real_demos=2,
            scaling=(2, 3),
            episodes=2,
            real_episodes=2,
            seconds_per_step=0.05,
            seconds_per_episode=3.0,
            workers=2,
            optimization={"steps": 20, "steps_per_epoch": 5, "batch_size": 16},
            policy=TINY_POLICY,
            image_size=32,
        ),
    )
}


def find_preset(name: str, states: str = "first") -> SuitePreset:
    """A preset by name.

    Args:
        name: of PRESETS.
        states: of STATES: from which initial states policies are judged.
    """
    if name not in PRESETS:
        raise UserError(f"--preset {name}: {meant(name, PRESETS)}choose one of {', '.join(PRESETS)}")
    if states not in STATES:
        raise UserError(f"--states {states}: {meant(states, STATES)}choose one of {', '.join(STATES)}")
    return replace(PRESETS[name], states=states)
