"""The public demonstrations of PushT by people, brought to the form that suites train on.

They are not part of the project: BEACON_PUSHT names the folder with the two files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from beacon.errors import UserError

FOLDER = "BEACON_PUSHT"  # environment variable
FILES = {
    "pusht": "pusht_cchi_v7_replay.zarr.zip",
    "pusht-moved": "pusht_keypoint_x356_y356.zarr.zip",
}
PUBLIC = "github.com/humanoid-collective/diffusion_policy_soup"


def recording_file(task: str) -> Path:
    """The file with a task's demonstrations; one line about how to get it where it is missing.

    Args:
        task: "pusht" or "pusht-moved".
    """
    folder = os.environ.get(FOLDER)
    how = f"get {FILES[task]} from {PUBLIC} (MIT), and set {FOLDER} to its folder"
    if not folder:
        raise UserError(f"{task} needs demonstrations by people, which are not part of beacon: {how}")
    path = Path(folder) / FILES[task]
    if not path.exists():
        raise UserError(f"{path}: there is no such file; {how}")
    return path


def write_recordings(
    task: str, out: Path, demos: int, seed: int, tell: Callable[[int, int], None] | None = None
) -> None:
    """Write some of the demonstrations as robomimic HDF5: pictures, the pusher's position, actions.

    Args:
        task: "pusht" or "pusht-moved".
        out: the file.
        demos: how many.
        seed: decides which; the same seed with fewer demonstrations gives the first of them.
        tell: is told how many are done, and of how many.
    """
    from beacon.data import RobomimicWriter, open_dataset

    path = recording_file(task)
    with open_dataset(path) as reader:
        names = reader.episode_names
        if demos > len(names):
            raise UserError(f"{path} has {len(names)} demonstrations, {demos} are asked for")
        chosen = np.random.default_rng([seed, 42]).permutation(len(names))[:demos]
        arguments = {"env_name": "gym_pusht/PushT-v0", "type": 2, "env_kwargs": {"control_freq": 10}}
        with RobomimicWriter(out, env_args=arguments, resumable=False) as writer:
            for number, index in enumerate(chosen):
                name = names[index]
                state = reader.read(name, "obs/state")
                writer.add_episode(
                    f"demo_{number}",
                    reader.read(name, "actions"),
                    {"pixels": reader.read(name, "obs/img"), "agent_pos": state[:, :2]},
                    attributes={"recorded_as": name, "seed": int(index)},
                    states=state,
                )
                if tell is not None:
                    tell(number + 1, demos)
