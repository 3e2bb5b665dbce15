"""Write small datasets with BEACON, and read every frame of them with LeRobot. See check_with_lerobot.sh."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

LENGTHS = (23, 11, 30)
SIZE = 96
FPS = 20


def pictures(episode: int, steps: int) -> Any:
    """A square that moves over a gradient."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    frames = np.stack([rows * 2, columns * 2, np.full_like(rows, 40 * episode)], -1).astype(np.uint8)
    movie = np.repeat(frames[None], steps, 0)
    for step in range(steps):
        movie[step, 20 + step : 36 + step, 30 + step : 46 + step] = 255 - 4 * step
    return movie


def write(folder: Path) -> None:
    """The same demonstrations as HDF5, and converted with video and with embedded pictures; RA-BC weights."""
    from beacon.data import Episode, write_robomimic
    from beacon.data.converting import ConvertOptions, convert
    from beacon.data.sample_weights import write_lerobot_weights, write_rabc_progress

    rng = np.random.default_rng(0)
    episodes = [
        Episode(
            f"demo_{e}",
            rng.uniform(-1, 1, (n, 7)).astype(np.float32),
            {
                "agentview_image": pictures(e, n),
                "robot0_eef_pos": rng.normal(size=(n, 3)).astype(np.float32),
                "robot0_eef_quat": rng.normal(size=(n, 4)).astype(np.float32),
                "object": rng.normal(size=(n, 10)),
            },
            rewards=np.zeros(n),
            dones=np.eye(1, n, n - 1)[0],
            attributes={"task": "stack the cubes" if e else "lift the cube"},
        )
        for e, n in enumerate(LENGTHS)
    ]
    env_args = {"env_name": "Stack", "type": 1, "env_kwargs": {"control_freq": FPS, "robots": "Panda"}}
    write_robomimic(folder / "demos.hdf5", episodes, env_args=env_args)
    for name, video in (("video", True), ("images", False)):
        convert(folder / "demos.hdf5", folder / name, ConvertOptions(video=video))
        weights = np.random.default_rng(1).uniform(0, 1, sum(LENGTHS))
        index = np.arange(sum(LENGTHS))
        write_lerobot_weights(folder / name / "sample_weights.parquet", index, weights)
        write_rabc_progress(folder / name / "sarm_progress.parquet", index, weights, chunk_size=8)
    np.savez(
        folder / "expected.npz",
        actions=np.concatenate([e.actions for e in episodes]),
        state=np.concatenate(
            [np.concatenate([e.obs["robot0_eef_pos"], e.obs["robot0_eef_quat"]], 1) for e in episodes]
        ),
        images=np.concatenate([e.obs["agentview_image"] for e in episodes]),
        weights=weights,
    )


def read(folder: Path) -> None:
    """Load both with LeRobot, without a network, and compare."""
    import lerobot
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    expected = np.load(folder / "expected.npz")
    for name in ("video", "images"):
        # torchcodec needs FFmpeg's libraries on the machine; PyAV brings its own.
        dataset = LeRobotDataset("beacon/check", root=folder / name, video_backend="pyav")
        worst = {"action": 0.0, "state": 0.0, "time": 0.0, "image": 0.0}
        starts = np.cumsum([0, *LENGTHS])
        for i in range(len(dataset)):
            item = dataset[i]
            episode = int(np.searchsorted(starts, i, side="right") - 1)
            image = item["observation.images.agentview_image"].numpy().transpose(1, 2, 0) * 255
            differences = {
                "action": np.abs(item["action"].numpy() - expected["actions"][i]).max(),
                "state": np.abs(item["observation.state"].numpy() - expected["state"][i]).max(),
                "time": abs(float(item["timestamp"]) - (i - starts[episode]) / FPS),
                "image": np.abs(image - expected["images"][i].astype(float)).mean(),
            }
            worst = {key: max(worst[key], float(differences[key])) for key in worst}
            assert item["task"] == ("stack the cubes" if episode else "lift the cube"), item["task"]
            assert int(item["episode_index"]) == episode
        assert len(dataset) == sum(LENGTHS)
        assert worst["action"] == 0 and worst["state"] == 0 and worst["time"] < 1e-4, worst
        assert worst["image"] < (4.0 if name == "video" else 0.01), worst
        rounded = ", ".join(f"{key} {value:.3g}" for key, value in worst.items())
        print(f"LeRobot {lerobot.__version__}, {name}: {len(dataset)} frames, errors up to: {rounded}")
    _read_weights(folder, expected["weights"])


def _read_weights(folder: Path, expected: Any) -> None:
    """LeRobot's own reward-aware weights give ours back (0.6 and later)."""
    try:
        import torch
        from lerobot.rewards.sarm.rabc import RABCWeights
    except ImportError:
        print("this LeRobot has no lerobot.rewards.sarm.rabc: weights not compared")
        return
    weighter = RABCWeights(
        progress_path=str(folder / "video" / "sarm_progress.parquet"),
        chunk_size=8,
        head_mode="sparse",
        kappa=1e9,
        device=torch.device("cpu"),
    )
    weights, _ = weighter.compute_batch_weights({"index": torch.arange(len(expected))})
    values = weights.numpy()
    # LeRobot divides a batch by its mean; so are ours for the comparison.
    difference = np.abs(values / values.sum() - expected / expected.sum()).max() * expected.sum()
    assert difference < 1e-5, difference
    print(f"reward-aware weights: largest difference {difference:.2g}")
    _use_plugin(folder, expected)


def _use_plugin(folder: Path, expected: Any) -> None:
    """LeRobot's factory, after `install`, gives our weighter, and passes other types on."""
    import torch
    from lerobot.utils import sample_weighting

    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
    from beacon.integrations.lerobot import install

    install()
    path = str(folder / "video" / "sample_weights.parquet")
    config = sample_weighting.SampleWeightingConfig(type="beacon", extra_params={"weights_path": path})
    weighter = sample_weighting.make_sample_weighter(config, None, torch.device("cpu"))
    assert isinstance(weighter, sample_weighting.SampleWeighter)
    weights, _ = weighter.compute_batch_weights({"index": torch.arange(len(expected))})
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-6)
    uniform = sample_weighting.SampleWeightingConfig(type="uniform")
    assert sample_weighting.make_sample_weighter(uniform, None, torch.device("cpu")) is not weighter
    print("sample weighter 'beacon': found by LeRobot's factory, weights equal")


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
