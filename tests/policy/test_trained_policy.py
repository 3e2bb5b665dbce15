"""Saving, loading and acting."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from beacon.errors import RunError, UserError
from beacon.policy import (
    DiffusionPolicy,
    FlatParameters,
    ModelEma,
    ObservationSpec,
    PolicyConfig,
    TrainedPolicy,
    load_policy,
    save_policy,
)
from beacon.policy.deployment import DeploymentInfo

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
    ema = ModelEma(FlatParameters(DiffusionPolicy(spec, config, seed=2)))
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
        alone = policy.act({k: v[row] for k, v in seen.items()}, axes="history")
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

    def act(seen: dict[str, Any], axes: Any = "history") -> Any:
        policy.reset(0)
        return policy.act(seen, axes=axes)

    one = observation(spec, 1)
    twice = {k: np.concatenate([v, v]) for k, v in one.items()}
    longer = {k: np.concatenate([255 - v if v.dtype == np.uint8 else -v, v, v]) for k, v in one.items()}
    want = act(twice)
    np.testing.assert_array_equal(act(one), want)  # padded with its first step
    np.testing.assert_array_equal(act(longer), want)  # the last steps count
    np.testing.assert_array_equal(act({k: v[0] for k, v in one.items()}, None), want)  # a single step
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
        (
            json.dumps(description | {"config": {"colour": 1}}),
            r"config\.colour: there is no such",
        ),
        (json.dumps(description | {"normalization": {"actions": {}}}), "normalisation"),
        (
            json.dumps(description | {"spec": {"cameras": 3}}),
            r"spec\.cameras: a mapping expected",
        ),
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
    with pytest.raises(RunError, match=r"cannot write .*; the policy is not saved"):
        save(tmp_path / "file" / "100", DiffusionPolicy(spec, config), None)
    (tmp_path / "200" / "policy.safetensors").mkdir(parents=True)
    with pytest.raises(RunError, match=r"cannot write .*; the policy is not saved"):
        save(tmp_path / "200", DiffusionPolicy(spec, config), None)


def test_gradients_are_off(saved: tuple[Path, DiffusionPolicy, ModelEma]) -> None:
    policy = load_policy(saved[0])
    assert isinstance(policy, TrainedPolicy)
    assert not any(p.requires_grad for p in policy.policy.parameters())


def test_a_batch_is_never_taken_for_a_history(
    saved: tuple[Path, DiffusionPolicy, ModelEma], spec: ObservationSpec
) -> None:
    policy = load_policy(saved[0])
    two = observation(spec, 2)
    with pytest.raises(UserError, match="may be a history or a batch: say axes='history'"):
        policy.act(two)
    policy.reset(3)
    batch = policy.act(two, axes="batch")
    assert batch.shape == (2, 4, 4)
    policy.reset(3)
    np.testing.assert_array_equal(policy.act({k: v[:, None] for k, v in two.items()}), batch)
    assert policy.act(two, axes="history").shape == (4, 4)
    assert policy.predict(two, axes="batch").shape == (2, 8, 4)
    policy.reset(3)
    np.testing.assert_array_equal(policy.predict(two, axes="batch")[:, :4], batch)
    for axes, message in [("step", "mean 0 leading axes"), ("batch-history", "mean 2"), ("rows", "choose")]:
        with pytest.raises(UserError, match=message):
            policy.act(two, axes=axes)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="3 rows for 2 observations"):
        policy.act(two, axes="batch", rows=[0, 1, 2])


def test_what_is_not_finite_or_not_a_number_is_refused_by_name(
    saved: tuple[Path, DiffusionPolicy, ModelEma], spec: ObservationSpec
) -> None:
    policy = load_policy(saved[0])
    good = observation(spec)
    for value, message in [
        ([0.0, np.nan, 0.0], "pose: has values that are not finite"),
        ([0.0, np.inf, 0.0], "pose: has values that are not finite"),
        ([1e300, 0.0, 0.0], "pose: has values too large"),
        (["a", "b", "c"], "pose: numbers expected"),
        ([1j, 0, 0], "pose: numbers expected, not complex128"),
        ([[1.0], [1.0, 2.0]], "pose: values"),
        (np.array([object()] * 3), "pose: numbers expected, not object"),
    ]:
        with pytest.raises(UserError, match=message):
            policy.act(good | {"pose": value})


def test_names_of_the_data_are_understood(
    tmp_path: Path, spec: ObservationSpec, config: PolicyConfig
) -> None:
    policy = DiffusionPolicy(spec, config, seed=1)
    deployment = DeploymentInfo(
        rename={"agentview_image": "front", "joint_pose": "pose", "eef_pose": "pose"}, control_rate=20.0
    )
    save_policy(
        tmp_path,
        state=policy.state_dict(),
        ema_state=None,
        spec=spec,
        config=config,
        normalization=NORMALIZATION,
        deployment=deployment,
    )
    loaded = load_policy(tmp_path)
    assert loaded.deployment == deployment
    seen = observation(spec)
    want = loaded.act(seen)
    renamed = dict(seen)
    renamed["agentview_image"], renamed["eef_pose"] = renamed.pop("front"), renamed.pop("pose")
    loaded.reset(0)
    np.testing.assert_array_equal(loaded.act(renamed), want)
    with pytest.raises(UserError, match="front and agentview_image are the same observation"):
        loaded.act(seen | {"agentview_image": seen["front"]})
    with pytest.raises(UserError, match="lacks pose or eef_pose or joint_pose"):
        loaded.act({key: value for key, value in seen.items() if key != "pose"})


def test_saved_files_have_the_mode_that_umask_says(
    tmp_path: Path, spec: ObservationSpec, config: PolicyConfig
) -> None:
    for mask, mode in [(0o022, 0o644), (0o007, 0o660)]:
        previous = os.umask(mask)
        try:
            save(
                tmp_path / str(mask),
                DiffusionPolicy(spec, config),
                ModelEma(FlatParameters(DiffusionPolicy(spec, config))),
            )
        finally:
            os.umask(previous)
        for file in (tmp_path / str(mask)).iterdir():
            assert file.stat().st_mode & 0o777 == mode, file


def test_nan_in_files_is_refused_at_loading(saved: tuple[Path, DiffusionPolicy, ModelEma]) -> None:
    step = saved[0] / "checkpoints" / "100"
    description = json.loads((step / "policy.json").read_text())
    for number in (float("nan"), float("inf")):
        bad = json.loads(json.dumps(description))
        bad["normalization"]["proprio"]["pose"]["scale"][1] = number
        (step / "policy.json").write_text(json.dumps(bad))
        with pytest.raises(UserError, match="normalisation of pose: has values that are not finite"):
            load_policy(saved[0])
    (step / "policy.json").write_text(json.dumps(description))
    tensors = load_file(step / "ema.safetensors")
    name = sorted(tensors)[3]
    tensors[name].view(-1)[0] = float("nan")
    save_file(tensors, step / "ema.safetensors")
    with pytest.raises(UserError, match=f"ema.safetensors: {name} has values that are not finite"):
        load_policy(saved[0])
    load_policy(saved[0], ema=False)


def test_a_header_that_is_too_large_is_refused_before_it_is_read(
    saved: tuple[Path, DiffusionPolicy, ModelEma],
) -> None:
    step = saved[0] / "checkpoints" / "100"
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"t{number}": entry for number in range(100_000)}).encode()
    (step / "ema.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(UserError, match=r"ema\.safetensors: damaged, its header says"):
        load_policy(saved[0])
    (step / "ema.safetensors").write_bytes(b"\xff" * 8)
    with pytest.raises(UserError, match=r"ema\.safetensors: damaged"):
        load_policy(saved[0])


DAMAGES: list[tuple[tuple[str, ...], Any]] = [
    (("config", "obs_steps"), 1.5),
    (("config", "obs_steps"), None),
    (("config", "horizon"), "8"),
    (("config", "train_timesteps"), 10**9),
    (("config", "mlp_blocks"), 10**7),
    (("config", "channels"), 5),
    (("config", "channels"), [[16], 24]),
    (("config", "channels"), [16, 10**9]),
    (("config", "encoder"), []),
    (("config", "encoder", "widths"), [8, 8, 8]),
    (("config", "encoder", "crop"), float("nan")),
    (("config", "sampler"), "pickle"),
    (("spec", "action_dim"), -1),
    (("spec", "action_dim"), 10**12),
    (("spec", "cameras", "front"), [24, 24]),
    (("spec", "cameras", "front"), [10**6, 10**6, 3]),
    (("spec", "proprio", "pose"), "3"),
    (("spec", "proprio"), None),
    (("normalization",), 3),
    (("normalization", "actions", "scale"), "abcd"),
    (("normalization", "actions", "scale"), [[1.0]]),
    (("normalization", "proprio"), []),
    (("deployment",), 7),
    (("deployment", "rename"), {"a": 3}),
    (("deployment", "control_rate"), -1.0),
    (
        ("deployment", "action_names"),
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
    ),
    (("deployment", "action_names"), "x"),
    (("format",), [1]),
]


@pytest.mark.parametrize(("path", "value"), DAMAGES)
def test_a_damaged_description_gets_one_line(
    saved: tuple[Path, DiffusionPolicy, ModelEma], path: tuple[str, ...], value: Any
) -> None:
    file = saved[0] / "checkpoints" / "100" / "policy.json"
    description = json.loads(file.read_text())
    inner = description
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    file.write_text(json.dumps(description))
    with pytest.raises(UserError, match=r"policy\.json") as raised:
        load_policy(saved[0])
    assert "\n" not in str(raised.value)


def test_deep_json_and_a_name_with_nul_get_one_line(saved: tuple[Path, DiffusionPolicy, ModelEma]) -> None:
    step = saved[0] / "checkpoints" / "100"
    (step / "policy.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"policy\.json: damaged"):
        load_policy(saved[0])
    last = saved[0] / "checkpoints" / "last"
    last.unlink()
    last.write_bytes(b"\0")
    with pytest.raises(UserError, match="is not the name of a checkpoint"):
        load_policy(saved[0])


def test_bfloat16_acts_nearly_the_same(
    saved: tuple[Path, DiffusionPolicy, ModelEma], spec: ObservationSpec
) -> None:
    exact, coarse = load_policy(saved[0]), load_policy(saved[0])
    coarse.use_precision("bfloat16")
    seen = observation(spec, 3, 2)
    difference = np.abs(exact.act(seen) - coarse.act(seen)) / np.array([1.0, 0.5, 3.0, 1.0])
    assert 0 < difference.max() < 0.15
    exact.reset(0)
    again = load_policy(saved[0])
    again.use_precision("float32")
    np.testing.assert_array_equal(again.act(seen), exact.act(seen))
    with pytest.raises(UserError, match="choose one of float32, bfloat16"):
        coarse.use_precision("int4")  # type: ignore[arg-type]
