"""``beacon export``: what is handed on does what the original does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from demonstrations import make_dataset
from running_servers import serving, url
from serving_inputs import observation
from tiny_runs import TINY, tiny_config

from beacon import load_policy
from beacon.cli.main import main
from beacon.errors import UserError
from beacon.serving import Client
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
        "rates": {"success": {"rate": 0.75, "episodes": 4, "wilson_95": [0.3, 0.95]}},
        "initial_states": {"sha256": "abc"},
    }
    (folder / "eval").mkdir()
    (folder / "eval" / "stack.json").write_text(json.dumps(result))
    (folder / "eval" / "broken.json").write_text("{")
    return folder


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
    provenance = json.loads((tmp_path / "p" / "provenance.json").read_text())
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
        ([run, tmp_path / "out", "--onnx"], 2, "DDIM with up to 50 steps"),
        ([run], 2, "see beacon export --help"),
    ]:
        assert main(["export", *map(str, arguments)]) == code
        captured = capsys.readouterr()
        assert message in captured.err and captured.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]


def test_the_graph_does_what_the_policy_does(policy_folder: Path, tmp_path: Path) -> None:
    import onnxruntime
    import torch

    report = export_policy(policy_folder, tmp_path / "p", ExportOptions(onnx=True))
    assert report["onnx_difference"] < 1e-4
    session = onnxruntime.InferenceSession(str(tmp_path / "p" / "policy.onnx"))
    policy = load_policy(policy_folder)
    for seed in range(3):
        history = observation(seed, 2)
        noise = torch.randn((1, 8, 2), generator=torch.Generator().manual_seed(seed)).numpy()
        feeds = {
            "front": history["front"][None],
            "pose": history["pose"][None].astype(np.float32),
            "noise": noise,
        }
        policy.reset(seed)
        want = policy.predict(history, axes="history")
        np.testing.assert_allclose(session.run(None, feeds)[0][0], want, rtol=1e-4, atol=1e-5)


def test_a_policy_of_the_paper_cannot_be_one_graph(tmp_path: Path) -> None:
    source = make_dataset(tmp_path / "a.hdf5", 2, steps=9)
    train(tiny_config("source-only", source, None, policy=TINY), tmp_path / "run")
    with pytest.raises(UserError, match="samples by ddpm in 10 steps"):
        export_policy(tmp_path / "run", tmp_path / "out", ExportOptions(onnx=True))
    assert not (tmp_path / "out").exists()


def test_what_a_killed_export_left_is_removed(run: Path, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    left = tmp_path / f".exported.{ended.pid}.partial"
    left.mkdir()
    (left / "policy.safetensors").write_bytes(b"half")
    export_policy(run, tmp_path / "exported", ExportOptions())
    assert [path.name for path in tmp_path.iterdir()] == ["exported"]
