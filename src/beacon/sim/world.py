"""A task in a domain, compiled once, and episodes that run in it side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from beacon.errors import UserError
from beacon.sim import control
from beacon.sim.arrays import Array
from beacon.sim.domains import Domain, resolve_domain
from beacon.sim.model_names import ModelNames
from beacon.sim.rendering import IMAGE_SIZE
from beacon.sim.scene import WRIST_CAMERA, portable, scene_xml
from beacon.sim.sensors import Sensors
from beacon.sim.simulation import IMAGE, InitialState, MuJoCoWorld, SimulatedEpisode
from beacon.sim.tasks import Placement, Task, make_task
from beacon.sim.tasks.base import TABLE_HEIGHT
from beacon.sim.versions import software

CONTROL_RATE = 20
PHYSICS_STEPS = 25  # 500 Hz
STIFFNESS = 150.0
STEP = np.array([0.05, 0.05, 0.05, 0.5, 0.5, 0.5])  # metres and radians of an action of one
FINGERS_OPEN = (0.04, -0.04)
PADS = {
    "left_pad": ("gripper0_right_finger1_pad_collision",),
    "right_pad": ("gripper0_right_finger2_pad_collision",),
}


class World(ModelNames, MuJoCoWorld):
    """The compiled model of (task, size, domain), with everything that episodes share."""

    control_rate = CONTROL_RATE
    other_cameras: ClassVar[Mapping[str, str]] = {f"{WRIST_CAMERA}{IMAGE}": WRIST_CAMERA}

    def __init__(
        self,
        task: str | Task,
        domain: str | Path | Domain = "source",
        size: str = "full",
        image_size: int = IMAGE_SIZE,
    ) -> None:
        import mujoco

        made = make_task(task, size) if isinstance(task, str) else task
        if made.world != Task.world:
            raise UserError(
                f"{made.name} runs in another simulator and has no expert; train on recordings of people"
            )
        known = resolve_domain(domain)
        self.xml = scene_xml(made, known)
        # robosuite reserves 1.3 GB of addresses a state, for 5000 contacts; our scenes have a few dozen.
        compact = self.xml.replace('<size nconmax="5000" njmax="5000"', '<size memory="32M"')
        self._set_up(made, known, mujoco.MjModel.from_xml_string(compact), image_size)

    @classmethod
    def around(cls, task: Task, domain: Domain, model: Any) -> World:
        """A world about a model that somebody else compiled from the same scene."""
        world = cls.__new__(cls)
        world.xml = ""
        world._set_up(task, domain, model, IMAGE_SIZE)
        return world

    def _set_up(self, task: Task, domain: Domain, model: Any, image_size: int) -> None:
        import mujoco

        self.task, self.domain, self.model, self.image_size = task, domain, model, image_size
        self.mujoco = mujoco
        self.hand_site = self._id("SITE", "gripper0_right_grip_site")
        self.hand_body = self._id("BODY", "robot0_right_hand")
        self.stiffness = STIFFNESS * self.domain.physics.stiffness
        self.damping = 2 * np.sqrt(self.stiffness) * self.domain.physics.damping_ratio
        groups = {**PADS, **self.task.contact_groups}
        self._members = {name: self._geoms(prefixes) for name, prefixes in groups.items()}
        # Where the hand points at the nominal start: the orientation that 4-D actions hold.
        data = mujoco.MjData(self.model)
        data.qpos[: control.JOINTS] = self.task.size.arm
        mujoco.mj_forward(self.model, data)
        self.nominal_rotation = data.site_xmat[self.hand_site].reshape(3, 3).copy()

    def episode(self) -> Episode:
        """A new episode."""
        return Episode(self)

    def start_of(self, state: Array) -> tuple[float, ...]:
        """The joint positions of a recorded state."""
        return tuple(state[1 : 1 + self.model.nq])

    def posed(self, states: Sequence[Array]) -> Iterator[Any]:
        """MuJoCo's data in each of the states."""
        data = self.mujoco.MjData(self.model)
        for state in states:
            data.qpos[:] = state[1 : 1 + self.model.nq]
            self.mujoco.mj_kinematics(self.model, data)
            self.mujoco.mj_camlight(self.model, data)
            yield data

    @property
    def state_size(self) -> int:
        """Time, positions and velocities."""
        return int(1 + self.model.nq + self.model.nv)

    def environment(self, region: str) -> dict[str, Any]:
        """What robosuite needs to build it."""
        return {
            "env_name": f"Beacon{self.task.title}",
            "env_version": software()["robosuite"],
            "type": 1,
            "env_kwargs": {
                "robots": "Panda",
                "size": self.task.size.name,
                "domain": self.domain.as_dict(),
                "region": region,
                "control_freq": CONTROL_RATE,
                "camera_names": "agentview",
                "camera_heights": self.image_size,
                "camera_widths": self.image_size,
            },
        }

    def model_file(self) -> str:
        """The scene, with robosuite's paths as its loader finds them anywhere."""
        return portable(self.xml)

    def touching(self, data: Any, first: str, second: str) -> bool:
        """Whether any geom of one contact group touches any of another."""
        pairs = data.contact.geom
        if not len(pairs):
            return False
        a, b = self._members[first], self._members[second]
        first, second = pairs[:, 0], pairs[:, 1]
        return bool(((a[first] & b[second]) | (b[first] & a[second])).any())

    def grasping(self, data: Any, group: str) -> bool:
        """Whether both finger pads touch the object."""
        return self.touching(data, "left_pad", group) and self.touching(data, "right_pad", group)

    def initial_state(self, region: str, seed: int) -> InitialState:
        """The start that belongs to a seed: the same in every domain, on every machine."""
        rng = np.random.default_rng(seed)
        placements = self.task.sample(region, rng)
        noise = self.task.size.joint_noise * rng.standard_normal(control.JOINTS)
        return InitialState(tuple(self.place(placements, noise)), seed, placements)

    def place(self, placements: Mapping[str, Placement], joint_noise: Array | None = None) -> Array:
        """The joint positions of the whole model with the objects placed thus, (nq,)."""
        qpos = self.model.qpos0.copy()
        qpos[: control.JOINTS] = self.task.size.arm
        if joint_noise is not None:
            qpos[: control.JOINTS] += joint_noise
        qpos[control.JOINTS : control.JOINTS + 2] = FINGERS_OPEN
        for name, where in placements.items():
            start = self.joint_address(f"{name}_joint0")
            height = TABLE_HEIGHT + self.task.heights[name]
            half = where.yaw / 2
            qpos[start : start + 7] = [where.x, where.y, height, np.cos(half), 0.0, 0.0, np.sin(half)]
        return np.asarray(qpos)


class Episode(SimulatedEpisode):
    """One run of a world: MuJoCo's state, the controller's goal, delays and sensor noise."""

    def __init__(self, world: World, data: Any = None) -> None:
        self._world = world
        self.data = world.mujoco.MjData(world.model) if data is None else data
        self._torques = control.compiled_torques()
        nv = world.model.nv
        self._jacobian = np.zeros((2, 3, nv))
        self._mass = np.zeros((nv, nv))
        limits = world.model.actuator_ctrlrange
        self._low, self._high = limits[: control.JOINTS, 0].copy(), limits[: control.JOINTS, 1].copy()
        fingers = limits[control.JOINTS : control.JOINTS + 2]
        self._finger_middle, self._finger_half = fingers.mean(axis=1), np.ptp(fingers, axis=1) / 2
        self._torque = np.zeros(control.JOINTS)

    @property
    def world(self) -> World:
        """Where it runs."""
        return self._world

    @classmethod
    def adopt(cls, world: World, data: Any) -> Episode:
        """An episode that goes on from the state which ``data`` is in."""
        episode = cls(world, data)
        episode.sensors = Sensors(world.domain, 0)
        episode._forget()
        return episode

    def reset(self, initial: InitialState) -> None:
        """Start again from an initial state."""
        self.initial = initial
        self.restore(np.asarray(initial.qpos))
        self.sensors = Sensors(self.world.domain, initial.seed)

    def restore(self, qpos: Array, qvel: Array | None = None, time: float = 0.0) -> None:
        """Put the physics into a state and forget everything else."""
        mujoco, world = self.world.mujoco, self.world
        mujoco.mj_resetData(world.model, self.data)
        self.data.qpos[:] = qpos
        if qvel is not None:
            self.data.qvel[:] = qvel
        self.data.time = time
        mujoco.mj_forward(world.model, self.data)
        self._forget()

    def _forget(self) -> None:
        """The controller as it is at the start of an episode."""
        world = self.world
        self.steps = 0
        self._grip = np.array([0.0, 0.0])
        # 4-D actions hold one orientation, so the arm is pulled to the nominal joints, not to noisy ones.
        fixed = world.task.size.action_dim == 4
        self._rest = np.array(world.task.size.arm) if fixed else self.data.qpos[: control.JOINTS].copy()
        idle = np.zeros(world.task.size.action_dim)
        self._waiting: deque[Array] = deque([idle] * world.domain.physics.action_delay)

    def step(self, action: Array) -> None:
        """One control step (50 ms) of an action in [-1, 1]."""
        mujoco, model, data = self.world.mujoco, self.world.model, self.data
        self._waiting.append(np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0))
        now = self._waiting.popleft()
        self._grip = np.clip(
            self._grip + np.array([-1.0, 1.0]) * self.world.task.size.gripper_speed * np.sign(now[-1]),
            -1.0,
            1.0,
        )
        ctrl = data.ctrl
        ctrl[control.JOINTS : control.JOINTS + 2] = self._finger_middle + self._finger_half * self._grip
        site = self.world.hand_site
        position, rotation = data.site_xpos[site], data.site_xmat[site]
        jacp, jacr = self._jacobian
        goal_position = goal_rotation = np.empty(0)
        for substep in range(PHYSICS_STEPS):
            mujoco.mj_step1(model, data)
            if substep == 0:
                goal_position, goal_rotation = self._goal(now, position, rotation.reshape(3, 3))
            mujoco.mj_jacSite(model, data, jacp, jacr, site)
            mujoco.mj_fullM(model, self._mass, data.qM)
            self._torques(
                self._mass, jacp, jacr, data.qpos, data.qvel, data.qfrc_bias, position, rotation,
                goal_position, goal_rotation, self._rest, self.world.stiffness, self.world.damping,
                self._torque,
            )  # fmt: skip
            np.clip(self._torque, self._low, self._high, out=ctrl[: control.JOINTS])
            mujoco.mj_step2(model, data)
        # Positions and contacts of the new state, for criteria, sensors and pictures.
        mujoco.mj_step1(model, data)
        self.steps += 1

    def _goal(self, action: Array, position: Array, rotation: Array) -> tuple[Array, Array]:
        """The pose that an action asks for, relative to the pose reached so far."""
        goal_position = position + STEP[:3] * action[:3]
        if len(action) == 4:
            return goal_position, self.world.nominal_rotation
        return goal_position, control.rotation_matrix(STEP[3:] * action[3:6]) @ rotation

    @property
    def hand_position(self) -> Array:
        """Between the finger tips, (3,)."""
        return np.asarray(self.data.site_xpos[self.world.hand_site].copy())

    @property
    def hand_rotation(self) -> Array:
        """Of the grip site, (3, 3)."""
        return np.asarray(self.data.site_xmat[self.world.hand_site].reshape(3, 3).copy())

    def criteria(self) -> dict[str, bool]:
        """The task's criteria now."""
        return self.world.task.criteria(self.world, self.data)

    def state(self) -> Array:
        """The flattened state of robosuite: time, qpos, qvel."""
        return np.concatenate([[self.data.time], self.data.qpos, self.data.qvel])

    def observe(self, image: bool = True, cameras: Sequence[str] = ()) -> dict[str, Array]:
        """What the policy sees, in robomimic's names; call once a control step (noise advances)."""
        data, world = self.data, self.world
        w, x, y, z = data.xquat[world.hand_body]
        observation = self.sensors.read(
            position=data.site_xpos[world.hand_site].copy(),
            quaternion=np.array([x, y, z, w]),
            gripper=data.qpos[control.JOINTS : control.JOINTS + 2].copy(),
        )
        for key in cameras or world.image_keys[:1] if image else ():
            number = world.image_keys.index(key)
            observation[key] = self.sensors.picture(world.draw(data, key), self.steps, number)
        return observation

    def privileged(self) -> dict[str, Array]:
        """Exact poses of the task's objects, (4, 4) each."""
        return {name: self.world.pose(self.data, name) for name in self.world.task.bodies}
