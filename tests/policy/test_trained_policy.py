"""Saving, loading and acting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from beacon.errors import RunError, UserError
from beacon.policy import (
    DiffusionPolicy,
    ModelEma,
    ObservationSpec,
    PolicyConfig,
    TrainedPolicy,
    load_policy,
    save_policy,
)

NORMALIZATION = {
    "actions": {"offset": [0.0, 1.0, -2.0, 0.5], "scale": [1.0, 0.5, 3.0, 0.0]},
    "proprio": {
        "pose": {"offset": [0.1, 0.2, 0.3], "scale": [2.0, 1.0, 0.0]},
        "gripper": {"offset": [0.04], "scale": [0.04]},
    },
}


def observation(spec: ObservationSpec, *lead: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    images = {k: rng.integers(0, 256, (*lead, *s), dtype=np.uint8) for k, s in spec.cameras.items()}
    return images | {k: rng.uniform(-1, 1, (*lead, n)) for k, n in spec.proprio.items()}


@pytest.fixture
def saved(
    tmp_path: Path, spec: ObservationSpec, config: PolicyConfig
) -> tuple[Path, DiffusionPolicy, ModelEma]:
    """A run folder with one checkpoint, whose raw and averaged weights differ."""
    policy = DiffusionPolicy(spec, config, seed=1)
    ema = ModelEma(DiffusionPolicy(spec, config, seed=2))
    save(tmp_path / "run" / "checkpoints" / "100", policy, ema)
    (tmp_path / "run" / "checkpoints" / "last").symlink_to("100")
    return tmp_path / "run", policy, ema


def save(folder: Path, policy: DiffusionPolicy, ema: ModelEma | None) -> None:
    save_policy(
        folder,
        state=policy.state_dict(),
        ema_state=None if ema is None else ema.state_dict(),
        spec=policy.spec,
        config=policy.config,
        normalization=NORMALIZATION,
        preset="cpu",
    )


def weights(policy: DiffusionPolicy) -> dict[str, torch.Tensor]:
    return dict(policy.named_parameters())


def test_what_is_saved_is_what_is_loaded(saved: tuple[Path, DiffusionPolicy, ModelEma]) -> None:
    run, policy, ema = saved
    step = run / "checkpoints" / "100"
    assert sorted(p.name for p in step.iterdir()) == ["ema.safetensors", "policy.json", "policy.safetensors"]
    for path in (run, run / "checkpoints", run / "checkpoints" / "last", step):
        loaded = load_policy(path)
        assert loaded.spec == policy.spec and loaded.policy.config == policy.config
        assert all(torch.equal(w, ema.state_dict()[n]) for n, w in weights(loaded.policy).items())
    raw = load_policy(run, ema=False)
    assert all(torch.equal(w, weights(policy)[n]) for n, w in weights(raw.policy).items())
    (step / "ema.safetensors").unlink()
    assert all(torch.equal(w, weights(policy)[n]) for n, w in weights(load_policy(run).policy).items())

    last = run / "checkpoints" / "last"
    last.unlink()
    last.write_text("100\n")
    assert load_policy(run).spec == policy.spec


def test_a_loaded_policy_acts_as_the_one_that_was_saved(
    saved: tuple[Path, DiffusionPolicy, ModelEma], spec: ObservationSpec
) -> None:
    run, policy, _ = saved
    loaded = load_policy(run, ema=False)
    seen = observation(spec, 2, 2)
    got = loaded.act(seen)
    assert got.shape == (2, 4, 4) and got.dtype == np.float32
    affine = NORMALIZATION["proprio"]
    proprio = {}
    for name, values in affine.items():
        scale = np.array(values["scale"])
        x = (seen[name] - values["offset"]) / np.where(scale == 0, 1, scale) * (scale != 0)
        proprio[name] = torch.tensor(x, dtype=torch.float32)
    with torch.no_grad():
        images = {name: torch.from_numpy(seen[name]) for name in spec.cameras}
        condition = policy.encode(images, proprio).observation
    generators = [torch.Generator().manual_seed(row) for row in range(2)]
    chunk = policy.sample(condition, generators)[:, :4].numpy()
    want = chunk * NORMALIZATION["actions"]["scale"] + NORMALIZATION["actions"]["offset"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(got[..., 3], 0.5)  # a constant of the training data stays one


def test_batched_and_unbatched_and_seeds(
    saved: tuple[Path, DiffusionPolicy, ModelEma], spec: ObservationSpec
) -> None:
    policy = load_policy(saved[0])
    seen = observation(spec, 3, 2)
    policy.reset(7)
    together = policy.act(seen)
    second = policy.act(seen)
    assert not np.array_equal(together, second)  # the next look has fresh noise
    for row in range(3):
        policy.reset([7 + row])
        alone = policy.act({k: v[row] for k, v in seen.items()})
        assert alone.shape == (4, 4)
        np.testing.assert_allclose(alone, together[row], rtol=1e-3, atol=1e-4)
    policy.reset(7)
    np.testing.assert_array_equal(policy.act(seen), together)
    policy.reset(7)
    some = policy.act({k: v[[0, 2]] for k, v in seen.items()}, rows=[0, 2])
    np.testing.assert_allclose(some, together[[0, 2]], rtol=1e-3, atol=1e-4)
    policy.reset([1, 2])
    with pytest.raises(UserError, match="given 2 seeds"):
        policy.act(seen)


def test_histories_of_any_length_and_images_of_any_size(
    saved: tuple[Path, DiffusionPolicy, ModelEma], spec: ObservationSpec
) -> None:
    policy = load_policy(saved[0])

    def act(seen: dict[str, Any]) -> Any:
        policy.reset(0)
        return policy.act(seen)

    one = observation(spec, 1)
    twice = {k: np.concatenate([v, v]) for k, v in one.items()}
    longer = {k: np.concatenate([255 - v if v.dtype == np.uint8 else -v, v, v]) for k, v in one.items()}
    want = act(twice)
    np.testing.assert_array_equal(act(one), want)  # padded with its first step
    np.testing.assert_array_equal(act(longer), want)  # the last steps count
    np.testing.assert_array_equal(act({k: v[0] for k, v in one.items()}), want)  # a step without history
    np.testing.assert_array_equal(act({**one, "unused": np.zeros(3)}), want)
    doubled = {k: v.repeat(2, 1).repeat(2, 2) if k in spec.cameras else v for k, v in one.items()}
    assert act(doubled).shape == want.shape
    assert sorted(policy.observation_keys) == sorted(one)
    assert (policy.obs_steps, policy.action_steps, policy.horizon) == (2, 4, 8)


def test_wrong_observations_get_one_clear_line(
    saved: tuple[Path, DiffusionPolicy, ModelEma], spec: ObservationSpec
) -> None:
    policy = load_policy(saved[0])
    good = observation(spec, 2, 2)
    for change, message in [
        ({"front": good["front"] / 255}, "front: uint8 images"),
        ({"front": good["front"][..., :1]}, "front: uint8 images"),
        ({"pose": good["pose"][..., :2]}, "pose: values"),
        ({"pose": good["pose"][:, :1]}, "disagree"),
        ({k: v[:0] for k, v in good.items()}, "empty"),
    ]:
        with pytest.raises(UserError, match=message):
            policy.act(good | change)
    with pytest.raises(UserError, match="lacks gripper"):
        policy.act({k: v for k, v in good.items() if k != "gripper"})


def test_missing_and_damaged_files_get_one_clear_line(saved: tuple[Path, DiffusionPolicy, ModelEma]) -> None:
    run = saved[0]
    step = run / "checkpoints" / "100"
    with pytest.raises(UserError, match="no such folder"):
        load_policy(run / "nowhere")
    with pytest.raises(UserError, match="neither a checkpoint"):
        load_policy(run.parent)

    averaged = (step / "ema.safetensors").read_bytes()
    (step / "ema.safetensors").write_bytes(averaged[: len(averaged) // 2])
    with pytest.raises(UserError, match=r"ema\.safetensors: damaged"):
        load_policy(run)
    torch_free = {"nothing": torch.zeros(1)}
    from safetensors.torch import save_file

    save_file(torch_free, step / "ema.safetensors")
    with pytest.raises(UserError, match="parameters are missing"):
        load_policy(run)
    (step / "ema.safetensors").unlink()
    (step / "policy.safetensors").unlink()
    with pytest.raises(UserError, match=r"policy\.safetensors: there is no such file"):
        load_policy(run)

    description = json.loads((step / "policy.json").read_text())
    for content, message in [
        ("{", "not JSON"),
        ("[]", "not a description"),
        ("{}", "spec, config, normalization is missing"),
        (json.dumps(description | {"format": 99}), "format 99"),
        (json.dumps(description | {"config": {"colour": 1}}), "there is no such option"),
        (json.dumps(description | {"normalization": {"actions": {}}}), "normalisation"),
        (json.dumps(description | {"spec": {"cameras": 3}}), "observations.cameras: a mapping expected"),
    ]:
        (step / "policy.json").write_text(content)
        with pytest.raises(UserError, match=message):
            load_policy(run)
    (step / "policy.json").unlink()
    with pytest.raises(UserError, match=r"points to 100, where there is no policy\.json"):
        load_policy(run)


def test_weights_of_another_shape_are_refused(
    saved: tuple[Path, DiffusionPolicy, ModelEma], spec: ObservationSpec
) -> None:
    step = saved[0] / "checkpoints" / "100"
    description = json.loads((step / "policy.json").read_text())
    description["config"]["step_dim"] = 8
    (step / "policy.json").write_text(json.dumps(description))
    with pytest.raises(UserError, match="has shape"):
        load_policy(saved[0])


def test_normalisation_must_fit(tmp_path: Path, spec: ObservationSpec, config: PolicyConfig) -> None:
    policy = DiffusionPolicy(spec, config)
    short = NORMALIZATION | {"actions": {"offset": [0.0], "scale": [1.0]}}
    with pytest.raises(UserError, match="normalisation of actions: 4 offsets"):
        save_policy(tmp_path, state={}, ema_state=None, spec=spec, config=policy.config, normalization=short)


def test_a_folder_that_cannot_be_written_is_a_failure_not_a_traceback(
    tmp_path: Path, spec: ObservationSpec, config: PolicyConfig
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="could not save the policy"):
        save(tmp_path / "file" / "100", DiffusionPolicy(spec, config), None)
    (tmp_path / "200" / "policy.safetensors").mkdir(parents=True)
    with pytest.raises(RunError, match="could not save the policy"):
        save(tmp_path / "200", DiffusionPolicy(spec, config), None)


def test_gradients_are_off(saved: tuple[Path, DiffusionPolicy, ModelEma]) -> None:
    policy = load_policy(saved[0])
    assert isinstance(policy, TrainedPolicy)
    assert not any(p.requires_grad for p in policy.policy.parameters())
