"""A BEACON policy as LeRobot runs one."""

from __future__ import annotations

from typing import Any

import torch
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor

from lerobot_policy_beacon.bridge import ChunkPlayer, build, to_input
from lerobot_policy_beacon.configuration_beacon import BeaconConfig


class BeaconPolicy(PreTrainedPolicy):
    """Histories in, chunks of actions in the robot's units out."""

    config_class = BeaconConfig
    name = "beacon"

    def __init__(self, config: BeaconConfig, **kwargs: Any) -> None:
        """Build the network.

        Args:
            config: what ``beacon-to-lerobot`` wrote.
            kwargs: what LeRobot passes besides, such as ``dataset_stats``; not needed.
        """
        super().__init__(config)
        self._trained = build(config.description)
        self.network = self._trained.policy.requires_grad_(True)
        self._player = ChunkPlayer(self._trained)
        self._noise = torch.Generator().manual_seed(0)

    def get_optim_params(self) -> Any:
        """All parameters."""
        return self.parameters()

    def reset(self) -> None:
        """Begin an episode."""
        self._trained.parameters_changed()
        self._trained.reset(0)
        self._player.reset()

    def train(self, mode: bool = True) -> BeaconPolicy:
        """Switch between training and acting; what was prepared for acting is prepared again."""
        self._trained.parameters_changed()
        super().train(mode)
        return self

    def forward(
        self, batch: dict[str, Tensor], reduction: str = "mean"
    ) -> tuple[Tensor, dict[str, Any] | None]:
        """The denoising loss; ``reduction="none"``: of every sample, (B,)."""
        inputs = to_input(batch, self._trained)
        affine = self._trained.normalization.actions
        actions = affine.normalise(batch["action"].double().cpu()).float().to(self.network.device)
        condition = self.network.encode(inputs.images, inputs.proprio).observation
        noise, timesteps = self.network.draw_noise(len(actions), self.network.config.draws, self._noise)
        losses = self.network.per_sample_loss(condition, actions, noise, timesteps).mean(dim=0)
        return (losses if reduction == "none" else losses.mean()), None

    @torch.no_grad()
    def predict_action_chunk(self, batch: dict[str, Tensor], **kwargs: Any) -> Tensor:
        """Actions (B, horizon, A)."""
        return self._player.chunk(batch)

    @torch.no_grad()
    def select_action(self, batch: dict[str, Tensor], **kwargs: Any) -> Tensor:
        """The action (B, A) of this step."""
        return self._player.next_action(batch)
