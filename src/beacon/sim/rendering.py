"""Off-screen pictures, fast without a graphics card: light meshes, no hidden work, one context a process."""

from __future__ import annotations

import atexit
import contextlib
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from beacon.errors import RunError
from beacon.sim import meshes
from beacon.sim.arrays import Array
from beacon.sim.load_order import load_before_opengl
from beacon.sim.scene import CAMERA

if TYPE_CHECKING:
    import mujoco

IMAGE_SIZE = 96
HIDDEN_GROUP = 5
NEAREST, NEAREST_TO_HAND = 0.6, 0.05  # metres from a camera in the room, or on the hand, to what moves
ADVICE = (
    "no off-screen OpenGL here; install it with: apt-get install libegl1 libgl1 libgl1-mesa-dri "
    "(or libosmesa6, then set MUJOCO_GL=osmesa)"
)


@cache
def gl_context() -> Any:
    """The process's one OpenGL context, made current: EGL, or OSMesa where that is what there is."""
    load_before_opengl()
    # Mesa's software rasteriser would start a thread per core; ours is one process per core already.
    os.environ.setdefault("LP_NUM_THREADS", "0")
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    for backend in [wanted] if wanted in ("egl", "osmesa") else ["egl", "osmesa"]:
        try:
            if backend == "egl":
                from mujoco.egl import GLContext
            else:
                from mujoco.osmesa import GLContext
            context = GLContext(IMAGE_SIZE, IMAGE_SIZE)
            context.make_current()
            atexit.register(_release, context)
            return context
        except Exception:  # PyOpenGL raises ImportError, AttributeError or its own errors, by platform
            os.environ.pop("PYOPENGL_PLATFORM", None)
    raise RunError(ADVICE)


def _release(context: Any) -> None:
    """Free the context at exit; quietly, because robosuite may have closed the display already."""
    with contextlib.suppress(Exception):
        context.free()
    context._context = None


class Renderer:
    """Pictures of one model. ``fast=False`` is robosuite's way, for comparison."""

    def __init__(
        self,
        model: mujoco.MjModel,
        size: int = IMAGE_SIZE,
        *,
        shadows: bool = False,
        samples: int = 4,
        fast: bool = True,
        camera: str = CAMERA,
        fixed_scene: bool = True,
    ) -> None:
        import mujoco

        gl_context().make_current()
        self._mujoco = mujoco
        self.size = size
        self.fast = fast
        self._cull = fast and not shadows  # what is out of sight may still cast a shadow into it
        self.model = model
        self.camera_id = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera)
        # What a camera on the hand has before it, and how near, changes with every step.
        moves = model.body_weldid[model.cam_bodyid[self.camera_id]] != 0
        if fast:
            model = self.model = _copy(model)
            meshes.lighten(model, self._cells(NEAREST_TO_HAND if moves else NEAREST))
        model.vis.global_.offwidth = max(size, model.vis.global_.offwidth if not fast else size)
        model.vis.global_.offheight = max(size, model.vis.global_.offheight if not fast else size)
        if fast:
            model.vis.quality.offsamples = samples
        self._scene = mujoco.MjvScene(model, maxgeom=2000)
        self._options = mujoco.MjvOption()
        self._options.geomgroup[:] = 0
        self._options.geomgroup[meshes.VISUAL_GROUP] = 1
        self._options.sitegroup[:] = 0
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = self.camera_id
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        flags = self._scene.flags
        if fast:
            flags[mujoco.mjtRndFlag.mjRND_SHADOW] = int(shadows)
            flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
            flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = 0
        self._rectangle = mujoco.MjrRect(0, 0, size, size)
        self._pixels = np.empty((size, size, 3), dtype=np.uint8)
        self._visual = model.geom_group == meshes.VISUAL_GROUP
        # A plane's bounding radius is zero in MuJoCo and means infinite.
        self._radius = np.where(model.geom_rbound > 0, model.geom_rbound, np.inf)
        # Where a task moves bodies that have no joint, what covers what is not the same in every episode.
        if self._cull and fixed_scene and not moves:
            self._hide_covered()

    def __call__(self, data: mujoco.MjData) -> Array:
        """The camera's picture of the present state: (size, size, 3) uint8, upright."""
        if self._cull:
            self.model.geom_group[:] = np.where(
                self._visual & self._in_sight(data), meshes.VISUAL_GROUP, HIDDEN_GROUP
            )
        self._draw(data)
        return self._pixels[::-1].copy()

    def _draw(self, data: mujoco.MjData) -> None:
        mujoco = self._mujoco
        everything = mujoco.mjtCatBit.mjCAT_ALL
        # Several renderers share the process's OpenGL context, and robosuite may have made its own current.
        gl_context().make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        mujoco.mjv_updateScene(self.model, data, self._options, None, self._camera, everything, self._scene)
        mujoco.mjr_render(self._rectangle, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rectangle, self._context)

    def close(self) -> None:
        """Free the GPU side."""
        self._context.free()

    def _in_sight(self, data: mujoco.MjData) -> Array:
        """Which geoms' bounding spheres meet the camera's pyramid of view, (ngeom,)."""
        rotation = data.cam_xmat[self.camera_id].reshape(3, 3)
        local = (data.geom_xpos - data.cam_xpos[self.camera_id]) @ rotation
        slope = np.tan(np.radians(self.model.cam_fovy[self.camera_id]) / 2)
        depth = -local[:, 2]
        reach = self._radius * np.sqrt(1.0 + slope * slope)
        beside = np.abs(local[:, :2]).max(axis=1) - depth * slope
        seen: Array = (beside <= reach) & (depth >= -self._radius)
        return seen

    def _cells(self, nearest: float) -> Array:
        """A cell per geom: about one pixel where the geom is nearest to the camera, (ngeom,) metres."""
        model = self.model
        data = self._mujoco.MjData(model)
        self._mujoco.mj_forward(model, data)
        slope = np.tan(np.radians(model.cam_fovy[self.camera_id]) / 2)
        distance = np.linalg.norm(data.geom_xpos - data.cam_xpos[self.camera_id], axis=1)
        # The arm moves; what it carries comes at most this close in any of the tasks.
        moving = (model.body_weldid[model.geom_bodyid] != 0) | (nearest < NEAREST)
        distance = np.where(moving, nearest, np.maximum(distance - 0.3, nearest))
        pixel = 2 * slope * distance / self.size
        return np.asarray(pixel)

    def _hide_covered(self) -> None:
        """Drop static geoms that static geoms cover: no state can bring them into the picture."""
        mujoco, model = self._mujoco, self.model
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        static = self._visual & (model.body_weldid[model.geom_bodyid] == 0)
        groups = model.geom_group.copy()
        model.geom_group[:] = np.where(static, meshes.VISUAL_GROUP, HIDDEN_GROUP)
        flags = self._scene.flags
        saved = [int(flag) for flag in flags]
        flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = 1
        self._draw(data)
        for index, flag in enumerate(saved):
            flags[index] = flag
        codes = self._pixels.astype(np.int64) @ np.array([1, 1 << 8, 1 << 16])
        present = {int(code) - 1 for code in np.unique(codes)}
        seen = {
            int(geom.objid)
            for geom in self._scene.geoms[: self._scene.ngeom]
            if geom.segid in present and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM
        }
        model.geom_group[:] = groups
        covered = static & ~np.isin(np.arange(model.ngeom), list(seen))
        self._visual &= ~covered


def _copy(model: mujoco.MjModel) -> Any:
    """A model of its own for drawing, so that lighter meshes and hidden groups touch nothing else."""
    import copy

    return copy.copy(model)
