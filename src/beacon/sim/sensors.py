"""What the robot reads: proprioception and pictures with the domain's imperfections."""

from __future__ import annotations

import numpy as np

from beacon.sim.arrays import Array
from beacon.sim.domains import CameraResponse, Domain


class Sensors:
    """Sensor noise of one episode, a pure function of the episode's seed."""

    def __init__(self, domain: Domain, seed: int) -> None:
        self._sensing = domain.sensing
        self._camera = domain.camera
        self._seed = seed
        self._rng = np.random.default_rng([seed, 1])
        self._bias = self._sensing.position_bias * self._rng.standard_normal(3)
        self._exposure = float(np.exp(self._camera.exposure * self._rng.standard_normal()))

    def read(self, position: Array, quaternion: Array, gripper: Array) -> dict[str, Array]:
        """Proprioception in robomimic's names, float32; quaternions are xyzw."""
        if not self._sensing.neutral:
            from scipy.spatial.transform import Rotation

            draw = self._rng.standard_normal(8)
            position = position + self._bias + self._sensing.position * draw[:3]
            turn = Rotation.from_rotvec(self._sensing.rotation * draw[3:6])
            noisy = (turn * Rotation.from_quat(quaternion)).as_quat()
            quaternion = noisy if noisy @ quaternion >= 0 else -noisy
            gripper = gripper + self._sensing.gripper * draw[6:8]
        return {
            "robot0_eef_pos": position.astype(np.float32),
            "robot0_eef_quat": quaternion.astype(np.float32),
            "robot0_gripper_qpos": gripper.astype(np.float32),
        }

    def picture(self, image: Array, step: int, camera: int = 0) -> Array:
        """A rendered picture as the camera delivers it, (H, W, 3) uint8.

        Pixel noise depends on the step and the camera's number alone, so a policy that looks less often sees
        the same pictures.
        """
        if self._camera.neutral:
            return image
        rng = np.random.default_rng([self._seed, 2, step, *([camera] if camera else [])])
        return respond(image, self._camera, self._exposure, rng)


def respond(image: Array, camera: CameraResponse, exposure: float, rng: np.random.Generator) -> Array:
    """Blur, colour gain and exposure, gamma, noise, in that order."""
    picture = image.astype(np.float32) / 255.0
    if camera.blur > 0:
        from scipy.ndimage import gaussian_filter

        picture = gaussian_filter(picture, sigma=(camera.blur, camera.blur, 0), mode="nearest")
    picture = picture * (np.asarray(camera.gain, dtype=np.float32) * exposure)
    picture = np.clip(picture, 0.0, 1.0) ** np.float32(camera.gamma) * 255.0
    if camera.noise > 0:
        picture = picture + camera.noise * rng.standard_normal(picture.shape, dtype=np.float32)
    delivered: Array = np.clip(np.rint(picture), 0, 255).astype(np.uint8)
    return delivered
