"""A robot's control loop at a fixed rate, with a served policy: python examples/robot_loop.py ws://127.0.0.1:8000

The next chunk of actions is asked for while the last one runs. Press q and Enter to stop. The robot here is a
simulated one; for yours, write a class with what SimulatedRobot has.
"""

import math
import select
import sys
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
import tyro

import beacon.sim  # noqa: F401 - tells Gymnasium about the robot
from beacon.serving import Client


@dataclass
class Options:
    url: tyro.conf.Positional[str] = "ws://127.0.0.1:8000"
    task: str = "Stack"
    rate: float = 20.0  # actions per second
    steps: int = 400
    late: Literal["hold", "continue"] = "hold"  # when an answer is late: hold, or go on with the old chunk
    ensemble: float = 0.0  # above 0: average all chunks of a step, weighted by exp(-ensemble * age in steps)


class SimulatedRobot:
    def __init__(self, task: str) -> None:
        self.env = gymnasium.make(f"beacon/{task}-v0")
        self.observation, _ = self.env.reset(seed=0)
        self.still = np.zeros(self.env.action_space.shape or (1,), np.float32)

    def execute(self, action: Any) -> bool:
        self.still[-1] = action[-1]  # the gripper stays as it is while the arm holds
        self.observation, _, solved, over, _ = self.env.step(np.clip(action, -1, 1))
        return bool(solved or over)


def control(robot: Any, client: Client, options: Options) -> dict[str, int]:
    horizon, run = client.metadata["action_horizon"], client.metadata["action_steps"]
    chunks: list[tuple[int, Any]] = []  # (step that its first action is for, actions)
    asked: tuple[int, float, Future[Any]] | None = None
    counts = {"steps": 0, "chunks": 0, "held": 0, "overrun": 0}
    lead, tick, holding = 1, time.monotonic(), True
    for step in range(options.steps):
        if select.select([sys.stdin], [], [], 0)[0] and sys.stdin.readline().strip() == "q":
            break
        client.observe(robot.observation)
        if asked and asked[2].done():
            chunks.append((step if holding else asked[0], asked[2].result()))
            lead = math.ceil((time.monotonic() - asked[1]) * options.rate)  # steps that an answer takes
            counts["chunks"], asked = counts["chunks"] + 1, None
        chunks = [(start, actions) for start, actions in chunks if step - start < horizon]
        if asked is None and (not chunks or options.ensemble > 0 or step - chunks[-1][0] >= run - lead):
            asked = (step, time.monotonic(), client.act_later())
        usable = [(start, a) for start, a in chunks if step - start < run or options.late == "continue"]
        usable = usable if options.ensemble > 0 else usable[-1:]
        weights = [math.exp(-options.ensemble * (step - start)) for start, _ in usable]
        actions = [chunk[step - start] for start, chunk in usable]
        holding = not actions
        counts["steps"], counts["held"] = counts["steps"] + 1, counts["held"] + holding
        if robot.execute(robot.still if holding else np.average(actions, axis=0, weights=weights)):
            break
        tick = max(tick + 1 / options.rate, time.monotonic() - 1 / options.rate)  # no burst after a stall
        counts["overrun"] += time.monotonic() > tick
        time.sleep(max(0.0, tick - time.monotonic()))
    return counts


if __name__ == "__main__":
    chosen = tyro.cli(Options)
    with Client(chosen.url, seed=0) as connected:
        print(control(SimulatedRobot(chosen.task), connected, chosen))
