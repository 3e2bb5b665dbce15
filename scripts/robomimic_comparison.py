"""Write demonstrations with BEACON, read them with robomimic. See check_with_robomimic.sh."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

LENGTHS = (13, 7, 20)
STEPS, STACK = 4, 2  # of a sequence, and of its history
KEYS = ("agentview_image", "robot0_eef_pos")


def write(folder: Path) -> None:
    """The same demonstrations by our writer, by way of LeRobot and back, and copied by `--curate`'s code."""
    from beacon.data import Episode, copy_episodes, write_robomimic
    from beacon.data.converting import ConvertOptions, convert

    rng = np.random.default_rng(0)
    episodes = [
        Episode(
            f"demo_{e}",
            rng.uniform(-1, 1, (n, 7)).astype(np.float32),
            {
                "agentview_image": rng.integers(0, 256, (n, 24, 24, 3), dtype=np.uint8),
                "robot0_eef_pos": rng.normal(size=(n, 3)).astype(np.float32),
            },
            states=rng.normal(size=(n, 5)),
            rewards=np.zeros(n),
            dones=np.eye(1, n, n - 1)[0],
        )
        for e, n in enumerate(LENGTHS)
    ]
    env_args = {"env_name": "Stack", "type": 1, "env_kwargs": {"control_freq": 20, "robots": "Panda"}}
    names = [f"demo_{e}" for e in range(len(LENGTHS))]
    masks = {"train": names[:2], "valid": names[2:]}
    write_robomimic(folder / "written.hdf5", episodes, env_args=env_args, masks=masks)
    convert(folder / "written.hdf5", folder / "lerobot", ConvertOptions(video=False))
    convert(folder / "lerobot", folder / "converted.hdf5")
    copy_episodes(folder / "written.hdf5", folder / "curated.hdf5", names)
    arrays = {f"{episode.name}/actions": episode.actions for episode in episodes}
    arrays |= {f"{episode.name}/{key}": episode.obs[key] for episode in episodes for key in KEYS}
    np.savez(folder / "expected.npz", **arrays)


def read(folder: Path) -> None:
    """Compare every sequence of every file."""
    from importlib.metadata import version

    import robomimic.utils.obs_utils as observations
    from robomimic.utils.dataset import SequenceDataset

    low, images = ["robot0_eef_pos"], ["agentview_image"]
    observations.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": low, "rgb": images}})
    expected = np.load(folder / "expected.npz")
    for name in ("written", "converted", "curated"):
        for mask, lengths in ((None, LENGTHS), ("train", LENGTHS[:2]), ("valid", LENGTHS[2:])):
            dataset = SequenceDataset(
                hdf5_path=str(folder / f"{name}.hdf5"),
                obs_keys=KEYS,
                dataset_keys=("actions", "rewards", "dones"),
                frame_stack=STACK,
                seq_length=STEPS,
                hdf5_cache_mode=None,
                hdf5_use_swmr=False,
                load_next_obs=False,  # as for imitation; we write no next_obs
                filter_by_attribute=mask,
            )
            assert len(dataset) == sum(lengths), (name, mask, len(dataset))
            _compare(dataset, expected, first=2 if mask == "valid" else 0, lengths=lengths)
        print(f"robomimic {version('robomimic')}, {name}.hdf5: {sum(LENGTHS)} sequences equal, masks too")


def _compare(dataset: Any, expected: Any, first: int, lengths: tuple[int, ...]) -> None:
    """Every sequence has the actions, positions and pictures of its demonstration."""
    places = [(e, t) for e, n in enumerate(lengths, first) for t in range(n)]
    for number, (episode, step) in enumerate(places):
        item = dataset[number]
        length = LENGTHS[episode]
        steps = np.clip(np.arange(step - STACK + 1, step + STEPS), 0, length - 1)
        for key, given in (("actions", item["actions"]), *((key, item["obs"][key]) for key in KEYS)):
            values = expected[f"demo_{episode}/{key}"]
            np.testing.assert_array_equal(np.asarray(given, np.float64), values[steps].astype(np.float64))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
