from __future__ import annotations

import numpy as np
import pytest

from beacon.sim.tasks import TASKS

from .conftest import MakeWorld, expert_recording


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize("task", TASKS)
def test_experts_solve_their_task_smoothly(task: str, size: str, make_world: MakeWorld) -> None:
    world = make_world(task, size)
    solved = 0
    for seed in range(2):
        recording = expert_recording(task, size, seed)
        actions = np.stack(recording.actions)
        assert actions.dtype == np.float32
        assert np.abs(actions).max() <= 1.0
        assert actions.shape[1] == world.task.size.action_dim
        # Smooth but for the noise: no component jumps across its range in one step.
        assert np.abs(np.diff(actions[:, :3], axis=0)).max() < 1.6
        assert set(np.unique(actions[:, -1])) <= {-1.0, 1.0}
        assert len(recording) < world.task.size.horizon
        solved += world.task.outcomes(recording.frames())["success"] == 1.0
    assert solved >= 1


def test_demonstrators_differ() -> None:
    lengths = {len(expert_recording("lift", "small", seed)) for seed in range(4)}
    assert len(lengths) > 1
