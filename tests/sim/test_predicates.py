"""Success on hand-made states."""

from __future__ import annotations

import numpy as np
import pytest

from beacon.sim.arrays import Array
from beacon.sim.tasks.base import TABLE_HEIGHT, Placement
from beacon.sim.tasks.mug_cleanup import MugCleanup
from beacon.sim.tasks.threading import SHAFT_CENTRE, Threading
from beacon.sim.world import Episode, World

from .conftest import MakeWorld


def put(world: World, qpos: Array, name: str, position: Array, quaternion: Array | None = None) -> None:
    start = world.joint_address(f"{name}_joint0")
    qpos[start : start + 3] = position
    qpos[start + 3 : start + 7] = [1, 0, 0, 0] if quaternion is None else quaternion


def criteria(world: World, qpos: Array, settle: int = 0) -> dict[str, bool]:
    episode = Episode(world)
    episode.restore(qpos)
    for _ in range(settle):
        idle = np.zeros(world.task.size.action_dim)
        episode.step(idle)
    return episode.criteria()


class TestStack:
    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        return make_world("stack")

    @pytest.fixture
    def apart(self, world: World) -> Array:
        return world.place({"cubeA": Placement(-0.08, -0.08, 0), "cubeB": Placement(0.08, 0.08, 0)})

    def test_apart(self, world: World, apart: Array) -> None:
        assert not any(criteria(world, apart).values())

    def test_stacked(self, world: World, apart: Array) -> None:
        put(world, apart, "cubeA", np.array([0.08, 0.08, TABLE_HEIGHT + 0.0695]))
        assert criteria(world, apart, settle=2)["stacked"]

    def test_held_above(self, world: World, apart: Array) -> None:
        put(world, apart, "cubeA", np.array([0.08, 0.08, TABLE_HEIGHT + 0.12]))
        found = criteria(world, apart)
        assert found["lifted"] and not found["touching"] and not found["stacked"]

    def test_stacked_but_held(self, world: World, apart: Array) -> None:
        # Bring the table to the hand: cubes between the closed pads, B right below A.
        episode = Episode(world)
        episode.restore(apart)
        x, y, z = episode.hand_position
        put(world, apart, "cubeA", np.array([x, y, z]))
        put(world, apart, "cubeB", np.array([x, y, z - 0.0445]))
        apart[7:9] = [0.0195, -0.0195]
        found = criteria(world, apart)
        assert found["grasped"] and found["touching"] and not found["stacked"]

    def test_fallen_beside(self, world: World, apart: Array) -> None:
        put(world, apart, "cubeA", np.array([0.08, 0.08 - 0.0445, TABLE_HEIGHT + 0.02]))
        found = criteria(world, apart, settle=2)
        assert not found["lifted"] and not found["stacked"]

    def test_r_and_s(self, world: World) -> None:
        def outcome(flags: list[int]) -> tuple[float, float]:
            found = world.task.outcomes({"stacked": np.array(flags, dtype=bool)})
            return found["R"], found["S"]

        assert outcome([0, 0, 0]) == (0, 0)
        assert outcome([0, 1, 1, 1, 1, 0, 0]) == (1, 0)
        assert outcome([0, 1, 1, 1, 1, 1, 0]) == (1, 1)
        assert outcome([1, 1, 1, 0, 1, 1, 0]) == (1, 0)  # five frames, but not in a row
        assert outcome([0, 0, 1]) == (1, 1)
        assert not world.task.settled({"stacked": np.array([False, True])})
        assert world.task.settled({"stacked": np.ones(5, dtype=bool)})


class TestMugCleanup:
    @pytest.fixture
    def world(self, make_world: MakeWorld) -> World:
        return make_world("mug-cleanup")

    def arrange(
        self, world: World, opening: float, tilt: float = 0.0, lift: float = 0.0, settle: int = 4
    ) -> dict[str, bool]:
        task = world.task
        assert isinstance(task, MugCleanup)
        f = task.furniture
        qpos = world.place({"mug": Placement(0, -0.1, 0)})
        qpos[world.joint_address("drawer_joint")] = -opening
        height = TABLE_HEIGHT + 0.0145 + (f.mug_radius if tilt else f.mug_height / 2) + lift
        middle = np.array([f.cabinet[0], f.cabinet[1] - opening, height])
        half = tilt / 2
        put(world, qpos, "mug", middle, np.array([np.cos(half), 0, np.sin(half), 0]))
        return criteria(world, qpos, settle)

    def score(self, world: World, last: dict[str, bool]) -> dict[str, float]:
        return world.task.outcomes({name: np.array([flag]) for name, flag in last.items()})

    def test_upright_in_the_closed_drawer(self, world: World) -> None:
        found = self.arrange(world, 0.0)
        assert found["tidy"] and found["on_floor"] and found["upright"] and found["closed"]
        assert self.score(world, found) == {"success": 1.0, "score": 1.0, "paper_score": 1.0}

    def test_drawer_ajar_is_half(self, world: World) -> None:
        found = self.arrange(world, 0.03)
        assert found["on_floor"] and not found["closed"] and found["nearly_closed"] and not found["tidy"]
        assert self.score(world, found) == {"success": 0.0, "score": 0.5, "paper_score": 0.5}

    def test_mug_tilted_is_half(self, world: World) -> None:
        found = self.arrange(world, 0.0, tilt=np.pi / 2)
        assert found["inside"] and not found["upright"] and found["closed"] and not found["tidy"]
        assert self.score(world, found) == {"success": 0.0, "score": 0.5, "paper_score": 0.5}

    def test_tilted_and_ajar_is_half_in_the_paper_alone(self, world: World) -> None:
        found = self.arrange(world, 0.03, tilt=np.pi / 2)
        assert self.score(world, found) == {"success": 0.0, "score": 0.0, "paper_score": 0.5}

    def test_drawer_open_is_half_in_the_paper_alone(self, world: World) -> None:
        found = self.arrange(world, 0.1)
        assert found["inside"] and found["opened"]
        assert self.score(world, found) == {"success": 0.0, "score": 0.0, "paper_score": 0.5}

    def test_mug_in_the_air_does_not_count(self, world: World) -> None:
        found = self.arrange(world, 0.11, lift=0.1, settle=0)
        assert not found["inside"] and not found["on_floor"]
        assert self.score(world, found) == {"success": 0.0, "score": 0.0, "paper_score": 0.0}

    def test_mug_on_the_table(self, world: World) -> None:
        found = criteria(world, world.place({"mug": Placement(0, -0.1, 0)}), settle=2)
        assert found["upright"] and found["closed"] and not found["inside"] and not found["tidy"]


class TestThreading:
    @pytest.fixture(params=["small", "full"])
    def world(self, request: pytest.FixtureRequest, make_world: MakeWorld) -> World:
        return make_world("threading", request.param)

    def arrange(self, world: World, along: float, aside: float = 0.0) -> dict[str, bool]:
        """The shaft's middle ``along`` metres before the ring's centre, pointing at -y."""
        task = world.task
        assert isinstance(task, Threading)
        episode = Episode(world)
        qpos = world.place({"needle": Placement(0, 0.15, -np.pi / 2)})
        episode.restore(qpos)
        centre = episode.data.site_xpos[world.site("ring_centre")]
        place = centre + np.array([aside, SHAFT_CENTRE + along, 0.0])
        put(world, qpos, "needle", place, np.array([np.sqrt(0.5), 0, 0, -np.sqrt(0.5)]))
        return criteria(world, qpos)

    def test_on_the_table(self, world: World) -> None:
        found = criteria(world, world.place({"needle": Placement(0, 0.15, -np.pi / 2)}))
        assert not any(found.values())

    def test_tip_before_the_ring(self, world: World) -> None:
        found = self.arrange(world, 0.06)
        assert not found["through"] and not found["threaded"]

    def test_tip_just_through(self, world: World) -> None:
        task = world.task
        assert isinstance(task, Threading)
        found = self.arrange(world, 0.036)
        assert found["through"]
        assert found["threaded"] == (task.ring.radius > 0.036)

    def test_through(self, world: World) -> None:
        found = self.arrange(world, 0.0)
        assert found["through"] and found["threaded"]

    def test_past_the_ring_but_beside_it(self, world: World) -> None:
        found = self.arrange(world, 0.0, aside=0.06)
        assert not found["through"] and not found["threaded"]


def test_lift(make_world: MakeWorld) -> None:
    world = make_world("lift")
    qpos = world.place({"cube": Placement(0, 0, 0)})
    assert not criteria(world, qpos)["lifted"]
    put(world, qpos, "cube", np.array([0, 0, TABLE_HEIGHT + 0.05]))
    assert criteria(world, qpos)["lifted"]
