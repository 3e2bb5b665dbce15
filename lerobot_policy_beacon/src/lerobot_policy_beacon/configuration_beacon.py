"""How LeRobot's config.json describes a BEACON policy."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import NormalizationMode
from lerobot.optim.optimizers import AdamWConfig


@PreTrainedConfig.register_subclass("beacon")
@dataclass
class BeaconConfig(PreTrainedConfig):
    """A BEACON policy; made by ``beacon-to-lerobot``, not by hand."""

    # policy.json of the BEACON policy, as one JSON text.
    description: str = ""
    # LeRobot's own normalisation does nothing: the policy has that of its training inside.
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: dict.fromkeys(
            ("VISUAL", "STATE", "ENV", "ACTION"), NormalizationMode.IDENTITY
        )
    )
    # What the values of an action are called in the training data; lerobot-rollout sends them to the motors
    # of these names, in whatever order the robot has them.
    action_feature_names: list[str] | None = None
    optimizer_lr: float = 1e-4
    push_to_hub: bool = False

    @property
    def network(self) -> dict[str, int]:
        """The BEACON policy's configuration."""
        if not self.description:
            raise ValueError(
                "a BEACON policy comes from a folder: say --policy.path=FOLDER (beacon-to-lerobot)"
            )
        configuration: dict[str, int] = json.loads(self.description)["config"]
        return configuration

    @property
    def chunk_size(self) -> int:
        """Actions that are predicted."""
        return self.network["horizon"]

    @property
    def n_action_steps(self) -> int:
        """Actions that are executed before the next look."""
        return self.network["action_steps"]

    @property
    def observation_delta_indices(self) -> list[int]:
        """Steps of a history, as offsets."""
        return list(range(1 - self.network["obs_steps"], 1))

    @property
    def action_delta_indices(self) -> list[int]:
        """Steps of a chunk, as offsets."""
        return list(range(self.network["horizon"]))

    @property
    def reward_delta_indices(self) -> None:
        """Rewards are not used."""

    def get_optimizer_preset(self) -> AdamWConfig:
        """AdamW as in BEACON's training."""
        return AdamWConfig(lr=self.optimizer_lr, weight_decay=1e-6)

    def get_scheduler_preset(self) -> None:
        """A constant learning rate."""

    def validate_features(self) -> None:
        """The policy itself checks observations, by name and shape, and says what is wrong."""
