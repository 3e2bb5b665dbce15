"""Demonstrations of a dataset, as something to run again."""

from __future__ import annotations

import json
from functools import lru_cache

import h5py

from beacon.errors import UserError
from beacon.sim.arrays import Array
from beacon.sim.simulation import InitialState, SimulatedWorld
from beacon.sim.tasks import Placement


@lru_cache(maxsize=8)
def demonstration_names(path: str) -> tuple[str, ...]:
    """The demonstrations of a robomimic file, in order."""
    try:
        with h5py.File(path, "r") as file:
            names = list(file["data"])
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}") from error
    except (OSError, KeyError) as error:
        raise UserError(f"{path} is not a robomimic HDF5 file") from error
    return tuple(sorted(names, key=lambda name: int(name.rpartition("_")[2])))


def check_same_task(path: str, world: SimulatedWorld) -> None:
    """A dataset can be replayed or expanded only in the task and size that it was made in."""
    names = demonstration_names(path)
    if not names:
        raise UserError(f"{path} holds no demonstration")
    with h5py.File(path, "r") as file:
        data = file["data"]
        first = data[names[0]]
        if "states" not in first:
            raise UserError(f"{path} has no 'states', so its demonstrations cannot be put into the simulator")
        expected = world.state_size
        size, dims = first["states"].shape[1], first["actions"].shape[1]
        arguments = json.loads(data.attrs.get("env_args", "{}"))
        recorded = arguments.get("env_kwargs", {})
        about = f"{recorded.get('size', 'another')} {arguments.get('env_name', 'task')}"
    wanted = world.task.size
    if size != expected or dims != wanted.action_dim or recorded.get("size", wanted.name) != wanted.name:
        raise UserError(
            f"{path} holds demonstrations of {about} ({size} state numbers, {dims} actions), "
            f"not of {world.task.name} {wanted.name} ({expected} and {wanted.action_dim}); "
            f"check task and --size"
        )


def load_demonstration(path: str, index: int, world: SimulatedWorld) -> tuple[str, InitialState, Array]:
    """The ``index``-th demonstration's name, initial state and actions."""
    name = demonstration_names(path)[index]
    with h5py.File(path, "r") as file:
        group = file["data"][name]
        start = world.start_of(group["states"][0])
        actions = group["actions"][:]
        seed = int(group.attrs.get("seed", index))
        recorded = json.loads(group.attrs.get("placements", "{}"))
    placements = {key: Placement(*value) for key, value in recorded.items()}
    return name, InitialState(start, seed, placements), actions
