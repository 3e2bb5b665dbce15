from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from beacon.errors import RunError
from beacon.sim import rendering
from beacon.sim.meshes import simplify
from beacon.sim.rendering import Renderer
from beacon.sim.world import Episode

from .conftest import MakeWorld, expert_recording


@pytest.mark.parametrize("camera", ["agentview", "robot0_eye_in_hand"])
def test_fast_pictures_look_like_robosuites(camera: str, make_world: MakeWorld) -> None:
    world = make_world("stack")
    stock = Renderer(world.model, fast=False, camera=camera)
    recording = expert_recording("stack", "small", 0)
    episode = Episode(world)
    nq = world.model.nq
    for state in recording.states[:: len(recording) // 4]:
        episode.restore(state[1 : 1 + nq])
        fast = world.draw(episode.data, f"{camera}_image").astype(int)
        full = stock(episode.data).astype(int)
        difference = np.abs(fast - full)
        assert difference.mean() < 2.5  # of 255
        assert (difference.max(axis=2) > 60).mean() < 0.02
    stock.close()


def test_leaving_out_what_is_out_of_sight_changes_no_pixel(make_world: MakeWorld) -> None:
    world = make_world("stack")
    recording = expert_recording("stack", "small", 0)
    episode = Episode(world)
    culled = Renderer(world.model)
    whole = Renderer(world.model)
    whole._cull = False
    whole.model.geom_group[whole.model.geom_group == rendering.HIDDEN_GROUP] = 1
    for state in recording.states[::20]:
        episode.restore(state[1 : 1 + world.model.nq])
        assert np.array_equal(culled(episode.data), whole(episode.data))
    assert (culled.model.geom_group == rendering.HIDDEN_GROUP).sum() > 20
    culled.close()
    whole.close()


def test_domains_look_different(make_world: MakeWorld) -> None:
    pictures = {}
    for domain in ("source", "texture", "texture-view", "real-proxy"):
        world = make_world("stack", "small", domain)
        episode = Episode(world)
        episode.reset(world.initial_state("train", 0))
        pictures[domain] = episode.observe()["agentview_image"].astype(int)
    names = list(pictures)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            assert np.abs(pictures[one] - pictures[other]).mean() > 15


def test_sensor_noise_repeats_with_the_seed(make_world: MakeWorld) -> None:
    world = make_world("lift", "small", "real-proxy")
    seen = []
    for seed in (5, 5, 6):
        episode = Episode(world)
        episode.reset(world.initial_state("train", seed))
        seen.append(episode.observe())
    assert all(np.array_equal(seen[0][key], seen[1][key]) for key in seen[0])
    assert not np.array_equal(seen[0]["robot0_eef_pos"], seen[2]["robot0_eef_pos"])


def test_simplified_sphere_is_still_a_sphere() -> None:
    angle, height = np.meshgrid(np.linspace(0, 2 * np.pi, 81)[:-1], np.linspace(-0.99, 0.99, 60))
    ring = np.sqrt(1 - height**2)
    vertices = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=-1).reshape(-1, 3)
    index = np.arange(60 * 80).reshape(60, 80)
    a, b, c, d = index[:-1], np.roll(index, -1, 1)[:-1], index[1:], np.roll(index, -1, 1)[1:]
    faces = np.concatenate([np.stack(t, -1).reshape(-1, 3) for t in ((a, b, c), (b, d, c))])
    points, kept, owners = simplify(vertices, faces, 0.2)
    assert len(kept) < len(faces) / 4
    assert len(owners) == len(kept)
    assert np.abs(np.linalg.norm(points[np.unique(kept)], axis=1) - 1).max() < 0.05


def test_missing_opengl_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setitem(__import__("sys").modules, "mujoco.osmesa", None)
    with pytest.raises(RunError, match="apt-get install"):
        rendering.gl_context.__wrapped__()


def test_a_process_that_has_rendered_can_make_an_optimiser() -> None:
    """Mesa's LLVM and that of Triton, which comes with torch's CUDA builds, crash in the wrong order."""
    code = """
from beacon.sim import make_world
from beacon.sim.world import Episode
world = make_world("stack", size="small")
world.draw(Episode(world).data, "agentview_image")
import torch
torch.optim.AdamW([torch.zeros(1, requires_grad=True)])
import torch._dynamo
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
