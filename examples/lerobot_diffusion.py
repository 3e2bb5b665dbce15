"""Train LeRobot's own diffusion policy for a few steps on frames drawn by BEACON's weights.

    beacon data convert sim.hdf5 sim_lerobot
    beacon weights runs/beacon --export for_lerobot --format lerobot
    python examples/lerobot_diffusion.py sim_lerobot for_lerobot/sim/sample_weights.parquet

Needs LeRobot 0.6 with its extras ``dataset`` and ``diffusion``, in an environment where beacon is installed.
That policy gives one loss for a batch, so frames are drawn in proportion to their weights; a policy that
gives a loss for every frame (pi0, SmolVLA) takes `beacon.integrations.lerobot.FrameWeights` as its weighter.
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

from beacon.integrations.lerobot import FrameWeights


def main(root: str, weights_path: str, steps: int = 5) -> None:
    """Train, printing the loss."""
    from lerobot.configs.types import FeatureType
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
    from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
    from lerobot.policies.factory import make_pre_post_processors
    from lerobot.utils.feature_utils import dataset_to_policy_features

    plain = LeRobotDataset("beacon/example", root=root, video_backend="pyav")
    features = dataset_to_policy_features(plain.meta.features)
    outputs = {name: f for name, f in features.items() if f.type is FeatureType.ACTION}
    inputs = {
        name: f for name, f in features.items() if name not in outputs and name.startswith("observation.")
    }
    config = DiffusionConfig(
        input_features=inputs,
        output_features=outputs,
        down_dims=(32, 64),
        crop_shape=None,
        pretrained_backbone_weights=None,  # no network
        push_to_hub=False,
        device="cpu",
    )
    step = 1 / plain.fps
    deltas = {name: [i * step for i in config.observation_delta_indices] for name in inputs}
    deltas |= {name: [i * step for i in config.action_delta_indices] for name in outputs}
    dataset = LeRobotDataset("beacon/example", root=root, video_backend="pyav", delta_timestamps=deltas)

    weights = FrameWeights.from_file(weights_path, fallback=0.0)
    chances = torch.as_tensor(weights.weights_of(range(len(dataset))))
    loader = DataLoader(dataset, batch_size=8, sampler=WeightedRandomSampler(chances.tolist(), 8 * steps))
    policy = DiffusionPolicy(config)
    preprocess, _ = make_pre_post_processors(config, dataset_stats=plain.meta.stats)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
    policy.train()
    for number, batch in enumerate(loader):
        loss, _ = policy.forward(preprocess(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {number + 1}, loss {float(loss.detach()):.3f}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
