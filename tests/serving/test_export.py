"""``beacon export``: what is handed on does what the original does."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import yaml
from running_servers import serving, url
from serving_inputs import observation
from tiny_runs import tiny_config

from beacon import load_policy
from beacon.cli.main import main
from beacon.errors import RunError
from beacon.policy import DiffusionPolicy, ObservationSpec, PolicyConfig, save_policy
from beacon.policy.config import DomainLabel
from beacon.policy.trained import TrainedPolicy
from beacon.serving import Client, policy_graph
from beacon.serving.card import write_card
from beacon.serving.export import ExportOptions, export_policy
from beacon.serving.protocol import fingerprint
from beacon.training import train


@pytest.fixture(scope="module")
def run(source: Path, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run with an evaluation beside it, whose names are hostile."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    train(tiny_config("cotrain", source, target), folder)
    result = {
        "task": "stack|<script>",
        "size": "small",
        "domain": "texture",
        "region": "train",
        "episodes": [{"success": 1.0}, {"success": 1.0}, {"success": 1.0}, {"success": 0.0}],
        "rates": {"success": {"rate": 0.75, "episodes": 4, "wilson_95": [0.3, 0.95]}},
        "initial_states": {"sha256": "abc"},
    }
    (folder / "eval").mkdir()
    (folder / "eval" / "stack.json").write_text(json.dumps(result))
    (folder / "eval" / "broken.json").write_text("{")
    return folder


def test_a_disk_that_is_too_small_is_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert main(["export", str(run), str(tmp_path / "out")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    error = capsys.readouterr().err
    assert error.startswith(f"beacon: cannot write {tmp_path / 'out'}: ") and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_everything_takes_the_folder(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "policy"
    assert main(["export", str(run), str(out), "--license", "apache-2.0"]) == 0
    assert f"the policy is in {out}" in capsys.readouterr().out
    names = {path.name for path in out.iterdir()}
    assert names == {"README.md", "policy.json", "policy.safetensors", "provenance.json"}
    original, copy = load_policy(run), load_policy(out)
    assert fingerprint(original) == fingerprint(copy)
    seen = {"agentview_image": np.full((24, 24, 3), 7, np.uint8), "robot0_eef_pos": np.zeros(3)}
    np.testing.assert_array_equal(original.act(seen), copy.act(seen))
    with serving(out) as server, Client(url(server)) as client:
        copy.reset(0)
        np.testing.assert_array_equal(client.act(seen), copy.predict(seen))
    # A copy of the copy knows as much.
    export_policy(out, tmp_path / "again", ExportOptions())
    first, again = (json.loads((f / "provenance.json").read_text()) for f in (out, tmp_path / "again"))
    assert first["data"] == again["data"] and first["success"] == again["success"]


def test_the_card_says_what_a_hub_and_a_reader_want(run: Path, tmp_path: Path) -> None:
    export_policy(run, tmp_path / "p", ExportOptions(license="CC-BY-4.0"))
    card = (tmp_path / "p" / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert header["license"] == "cc-by-4.0" and header["pipeline_tag"] == "robotics"
    records = json.loads((run / "data.json").read_text())
    assert len(records) == 2
    for record in records:
        assert record["actions"][:16] in card and record["file"] not in card
    assert "75.0%" in card and "30.0 to 95.0%" in card and "Method cotrain" in card
    assert "<script>" not in card and re.search(r"stack\\\|\\<script\\>", card)
    assert "24 × 24 × 3" in card
    assert "others are stretched" in card and "beacon evaluate" not in card  # by a name that is no word
    provenance = json.loads((tmp_path / "p" / "provenance.json").read_text())
    provenance["success"][0]["task"] = "stack"
    policy = load_policy(tmp_path / "p")
    before = fingerprint(policy)
    policy.deployment = replace(policy.deployment, image_fit="pad")
    again = write_card("p", policy, provenance, {})
    assert "beacon evaluate p --task stack --domain texture\n" in again and "others are padded" in again
    assert fingerprint(policy) != before
    assert "beacon evaluate" not in write_card("p", policy, provenance | {"success": []}, {})
    assert [entry["role"] for entry in provenance["data"]] == ["source", "target"]
    export_policy(run, tmp_path / "q", ExportOptions())
    assert "license: other" in (tmp_path / "q" / "README.md").read_text()


def test_what_is_wrong_is_one_line(
    run: Path, policy_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    for arguments, code, message in [
        ([run, tmp_path / "there"], 2, "exists already"),
        ([tmp_path / "there", tmp_path / "out"], 2, "neither a checkpoint"),
        ([run, tmp_path / "file" / "out"], 1, "cannot write"),
        ([run], 2, "see beacon export --help"),
    ]:
        assert main(["export", *map(str, arguments)]) == code
        captured = capsys.readouterr()
        assert message in captured.err and captured.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]


SAMPLERS: dict[str, dict[str, Any]] = {
    "DDIM": {},
    "DDIM, chunks predicted": {"prediction": "sample"},
    "DDPM": {"sampler": "ddpm", "sampling_steps": 10},
    "DDPM of fewer steps, chunks predicted": {
        "sampler": "ddpm",
        "sampling_steps": 5,
        "prediction": "sample",
    },
    "without clipping": {"clip_sample": False},
    "MLP": {"denoiser": "mlp"},
}


@pytest.mark.parametrize("case", SAMPLERS)
def test_graphs_do_what_the_policy_does(policy_folder: Path, tmp_path: Path, case: str) -> None:
    policy = load_policy(policy_folder)
    config = replace(policy.policy.config, **SAMPLERS[case])
    _save(tmp_path / "other", policy, config, policy.spec)
    policy = load_policy(tmp_path / "other")
    report = export_policy(tmp_path / "other", tmp_path / "p", ExportOptions(onnx=True, torch_export=True))
    assert set(report["differences"]) == {"policy.onnx", "policy.pt2"}
    assert max(report["differences"].values()) < 1e-4
    session = onnxruntime.InferenceSession(str(tmp_path / "p" / "policy.onnx"))
    module = torch.export.load(tmp_path / "p" / "policy.pt2").module()
    for seed in range(2):
        history = observation(seed, 2)
        # As whoever has the file alone: its inputs say what noise it wants.
        shape = next(node.shape for node in session.get_inputs() if node.name == "noise")
        generator = torch.Generator().manual_seed(seed)
        draws = [torch.randn((1, *shape[-2:]), generator=generator) for _ in range(np.prod(shape[:-2]))]
        noise = torch.stack(draws, 1).reshape(shape)
        front, pose = history["front"][None], history["pose"][None].astype(np.float32)
        policy.reset(seed)
        wanted = policy.predict(history, axes="history")
        by_onnx = session.run(None, {"front": front, "pose": pose, "noise": noise.numpy()})[0][0]
        by_torch = module(torch.from_numpy(front), torch.from_numpy(pose), noise)[0].detach().numpy()
        np.testing.assert_allclose(by_onnx, wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(by_torch, wanted, rtol=1e-4, atol=1e-5)
    card = (tmp_path / "p" / "README.md").read_text()
    assert "`policy.onnx`" in card and "`policy.pt2`" in card


def test_a_graph_is_guided_by_the_domain_label_as_the_policy_is(policy_folder: Path, tmp_path: Path) -> None:
    policy = load_policy(policy_folder)
    spec = replace(policy.spec, domain_label=DomainLabel(dropout=0.2, guidance=3.0))
    _save(tmp_path / "labelled", policy, policy.policy.config, spec)
    report = export_policy(tmp_path / "labelled", tmp_path / "p", ExportOptions(onnx=True))
    assert report["differences"]["policy.onnx"] < 1e-4


def test_a_graph_that_does_something_else_is_not_handed_on(
    policy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = policy_graph.ddim_constants
    monkeypatch.setattr(policy_graph, "ddim_constants", lambda *a: list(reversed(right(*a))))
    with pytest.raises(RunError, match="of their range from the original's"):
        export_policy(policy_folder, tmp_path / "p", ExportOptions(torch_export=True))
    assert list(tmp_path.iterdir()) == []


def _save(folder: Path, policy: TrainedPolicy, config: PolicyConfig, spec: ObservationSpec) -> None:
    """An untrained policy of another kind, with the same normalisation."""
    scales = policy.normalization
    save_policy(
        folder,
        state=DiffusionPolicy(spec, config, seed=3).state_dict(),
        ema_state=None,
        spec=spec,
        config=config,
        normalization={
            "actions": {"offset": scales.actions.offset.tolist(), "scale": scales.actions.scale.tolist()},
            "proprio": {
                name: {"offset": affine.offset.tolist(), "scale": affine.scale.tolist()}
                for name, affine in scales.proprio.items()
            },
        },
    )


def test_what_a_killed_export_left_is_removed(run: Path, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    left = tmp_path / f".exported.{ended.pid}.partial"
    left.mkdir()
    (left / "policy.safetensors").write_bytes(b"half")
    export_policy(run, tmp_path / "exported", ExportOptions())
    assert [path.name for path in tmp_path.iterdir()] == ["exported"]
