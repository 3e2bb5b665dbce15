"""``beacon train`` from the command line: what is wrong with the input is said in one line."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest
from demonstrations import make_dataset
from safetensors.torch import load_file, save_file
from tiny_runs import TINY_OPTIONS, assert_same_runs, metrics, start_cli

from beacon import load_policy
from beacon.cli.main import main

STEPS = ["--steps", "6", "--steps-per-epoch", "2", "--batch-size", "8", "--device", "cpu", "--log-every", "1"]
SMALL = [*STEPS, "--checkpoint-every", "1", "--keep", "9", "--no-tensorboard", *TINY_OPTIONS]
Refuse = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Run a command line that must be refused: exit code, one line, nothing left behind."""

    def refuse(*arguments: object, out: Path | None = None, code: int = 2) -> str:
        where = tmp_path / "run" if out is None else out
        before = {path: path.stat().st_mtime_ns for path in where.rglob("*")}
        capsys.readouterr()
        assert main(["train", *map(str, arguments), "--out", str(where)]) == code
        captured = capsys.readouterr()
        error = captured.err
        assert captured.out == ""
        assert error.startswith("beacon: ") and error.count("\n") == 1, error
        assert "Traceback" not in error
        after = {path: path.stat().st_mtime_ns for path in where.rglob("*") if path.name != ".lock"}
        assert after == {path: when for path, when in before.items() if path.name != ".lock"}
        return error

    return refuse


@pytest.fixture(scope="module")
def finished(source: Path, target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    run = tmp_path_factory.mktemp("runs") / "finished"
    assert main(["train", "--source", str(source), "--target", str(target), "--out", str(run), *SMALL]) == 0
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of a run that was cut off after its second checkpoint of three."""
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    shutil.rmtree(copy / "checkpoints" / "00000006")
    (copy / "checkpoints" / "last").write_text("00000004\n")
    return copy


def spoiled(path: Path, copy: Path, spoil: Callable[[h5py.File], None]) -> Path:
    shutil.copy(path, copy)
    with h5py.File(copy, "r+") as file:
        spoil(file)
    return copy


def test_it_trains_and_says_where(
    source: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--source", str(source), "--target", str(target), "--out", str(tmp_path / "run"), *SMALL]
    assert main(["train", *arguments]) == 0
    captured = capsys.readouterr()
    assert f"the policy is in {tmp_path / 'run' / 'checkpoints' / '00000006'}" in captured.out
    assert captured.err == ""
    assert load_policy(tmp_path / "run").act(observation()).shape == (4, 3)
    # --resume on a finished run, with everything said or nothing, is no mistake.
    assert main(["train", *arguments, "--resume"]) == 0
    assert main(["train", "--out", str(tmp_path / "run"), "--resume"]) == 0
    assert len(metrics(tmp_path / "run", "train")) == 6


def observation() -> dict[str, np.ndarray]:
    return {"agentview_image": np.zeros((24, 24, 3), np.uint8), "robot0_eef_pos": np.zeros(3)}


def test_one_target_demonstration_is_a_warning(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = make_dataset(tmp_path / "one.hdf5", 1, steps=1, seed=9)
    arguments = ["--source", str(source), "--target", str(one), *SMALL]
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 0
    (alone,) = capsys.readouterr().err.splitlines()
    assert main(["train", *arguments, "--method", "beacon-paper", "--out", str(tmp_path / "paper")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0] == alone
    assert "the target is a single demonstration" in lines[0] and "less certain" in lines[0]
    # Raised at every refresh, shown once.
    assert "no spread of their own" in lines[1]
    assert all(line.startswith("beacon: warning: ") for line in lines)


def test_files_that_cannot_be_read(refused: Refuse, source: Path, target: Path, tmp_path: Path) -> None:
    assert "absent.hdf5" in refused("--source", tmp_path / "absent.hdf5", "--target", target, *SMALL)
    truncated = tmp_path / "truncated.hdf5"
    truncated.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    assert "truncated.hdf5 is truncated" in refused("--source", truncated, "--target", target, *SMALL)
    other = tmp_path / "text.hdf5"
    other.write_text("not a dataset")
    assert "is not an HDF5 file" in refused("--source", source, "--target", other, *SMALL)


def test_missing_key(refused: Refuse, source: Path, target: Path, tmp_path: Path) -> None:
    copy = spoiled(source, tmp_path / "copy.hdf5", lambda f: f.__delitem__("data/demo_1/obs/agentview_image"))
    assert "demo_1: no 'obs/agentview_image'" in refused("--source", copy, "--target", target, *SMALL)
    error = refused("--source", source, "--target", target, "--cameras", "wrist", *SMALL)
    assert "no observation 'wrist'" in error


def test_mismatched_shapes(refused: Refuse, source: Path, tmp_path: Path) -> None:
    larger = make_dataset(tmp_path / "larger.hdf5", 2, size=32)
    error = refused("--source", source, "--target", larger, *SMALL)
    assert "24×24×3" in error and "32×32×3" in error and "--image-size" in error
    wider = make_dataset(tmp_path / "wider.hdf5", 2, action_dim=7)
    error = refused("--source", source, "--target", wider, *SMALL)
    assert "has 3 dimensions" in error and "has 7" in error


@pytest.mark.parametrize("side", ["--source", "--target"])
def test_empty_side(side: str, refused: Refuse, source: Path, target: Path, tmp_path: Path) -> None:
    def empty(file: h5py.File) -> None:
        for name in list(file["data"]):
            del file["data"][name]

    copy = spoiled(source, tmp_path / "empty.hdf5", empty)
    other = ("--target", target) if side == "--source" else ("--source", source)
    assert "empty.hdf5 holds no demonstrations" in refused(side, copy, *other, *SMALL)
    assert f"say {side} FILE" in refused(*other, *SMALL)


def test_run_folder_exists(
    refused: Refuse, finished: Path, source: Path, target: Path, tmp_path: Path
) -> None:
    data = ["--source", source, "--target", target, *SMALL]
    assert "already exists; say --resume" in refused(*data, out=finished)
    # Said before anything is read.
    assert "already exists" in refused(
        "--source", tmp_path / "absent.hdf5", "--target", target, *SMALL, out=finished
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    assert "already exists; choose another --out" in refused(*data, out=tmp_path / "mine")
    assert "already exists; choose another --out" in refused(*data, "--resume", out=tmp_path / "mine")
    assert "is not a run" in refused("--resume", out=tmp_path / "mine")


def test_resume_with_another_configuration(refused: Refuse, run: Path, source: Path, target: Path) -> None:
    data = ["--source", source, "--target", target, *SMALL, "--resume"]
    error = refused(*data, "--seed", "1")
    assert "was started with another configuration (optimization.seed: 0 and 1)" in error
    assert "another configuration" in refused(*data, "--alpha", "0.4", "--method", "beacon")
    assert "another configuration (method: beacon and cotrain" in refused(*data, "--method", "cotrain")
    # With --out alone, only how it is run may be said anew.
    assert "there is no option --alpha of a resumed run" in refused("--resume", "--alpha", "0.4")
    assert "start a new run with another --out" in refused("--resume", "--steps", "8")
    assert "there is no option --thread; did you mean --threads?" in refused("--resume", "--thread", "8")


def test_resume_with_other_data(source: Path, target: Path, tmp_path: Path, refused: Refuse) -> None:
    mine = tmp_path / "mine.hdf5"
    shutil.copy(source, mine)
    data = ["--source", str(mine), "--target", str(target), *SMALL]
    assert main(["train", *data, "--out", str(tmp_path / "run")]) == 0

    def change(file: h5py.File) -> None:
        file["data/demo_0/obs/agentview_image"][0] = 7

    with h5py.File(mine, "r+") as file:
        change(file)
    assert "has changed since" in refused("--resume") and "images differ" in refused("--resume")
    make_dataset(mine.with_name("new.hdf5"), 5, steps=9, seed=5).replace(mine)
    assert "its actions differ" in refused(*data, "--resume")
    make_dataset(mine.with_name("new.hdf5"), 4, steps=9, seed=5).replace(mine)
    assert "it has other demonstrations" in refused(*data, "--resume")


def damage_json(folder: Path) -> None:
    (folder / "trainer.json").write_text('{"epoch": 2, "st')


def damage_tensors(folder: Path) -> None:
    file = folder / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def other_shapes(folder: Path) -> None:
    tensors = load_file(folder / "ema.safetensors")
    first = sorted(tensors)[0]
    save_file(tensors | {first: tensors[first][:1].clone()}, folder / "ema.safetensors")


def missing_moments(folder: Path) -> None:
    tensors = load_file(folder / "optimizer.safetensors")
    tensors.pop(next(name for name in tensors if name.startswith("exp_avg/")))
    save_file(tensors, folder / "optimizer.safetensors")


def other_run(folder: Path) -> None:
    where = json.loads((folder / "trainer.json").read_text())
    (folder / "trainer.json").write_text(json.dumps(where | {"configuration": "of somebody else"}))


def other_method(folder: Path) -> None:
    save_file({}, folder / "method.safetensors")


def other_samples(folder: Path) -> None:
    tensors = load_file(folder / "method.safetensors")
    weights = "method/reweighter/q"
    save_file(tensors | {weights: tensors[weights][:-1].clone()}, folder / "method.safetensors")


def other_loss(folder: Path) -> None:
    tensors = load_file(folder / "method.safetensors")
    steps = tensors["method/reweighter/refresh_count"].clone()
    save_file(tensors | {"1-feature-distance/steps": steps}, folder / "method.safetensors")


def no_policy(folder: Path) -> None:
    (folder / "policy.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (damage_json, "trainer.json: missing or damaged"),
        (damage_tensors, "optimizer.safetensors: damaged"),
        (other_shapes, "ema.safetensors: denoiser.down.0.0.first.conv.bias has shape"),
        (missing_moments, "optimizer.safetensors: belongs to a policy with other parameters"),
        (other_run, "is of a run with another configuration"),
        (other_method, "the checkpoint belongs to other data or another method"),
        (other_samples, "the checkpoint belongs to other data or another method"),
        (other_loss, "it has '1-feature-distance'"),
        (no_policy, "points to 00000004, where there is no policy.json"),
    ],
)
def test_spoiled_checkpoint(spoil: Callable[[Path], None], says: str, run: Path, refused: Refuse) -> None:
    spoil(run / "checkpoints" / "00000004")
    # As of an earlier version: otherwise the checksums would notice first.
    (run / "checkpoints" / "00000004" / "checksums.json").unlink()
    assert says in refused("--resume")


def test_spoiled_run_folder(run: Path, refused: Refuse) -> None:
    good = (run / "config.yaml").read_text()
    for content, says in (
        ("a: [", "config.yaml: damaged"),
        ("just text", "config.yaml: damaged"),
        (good.replace("alpha: 0.5", "alpha: -1"), "config.yaml: options.weighting: alpha: must be"),
        (good.replace("method: beacon", "method: magic"), "config.yaml: method: there is no 'magic'"),
        (good.replace("alpha: 0.5", "alpha: 0.5\n    beta: 2"), "options.weighting.beta: "),
        (good.replace("part: knn-relative", "part: nearest"), "there is no discrepancy 'nearest'"),
        (good.replace("outlier_tolerance:", "tolerance:"), "options.discrepancy.tolerance: "),
    ):
        (run / "config.yaml").write_text(content)
        assert says in refused("--resume")
    (run / "config.yaml").write_text(good)
    (run / "weights" / "windows-00000004.parquet").write_bytes(b"PAR1 but no more")
    assert "windows-00000004.parquet: damaged" in refused("--resume")


def test_full_disk(
    tiny_disk: Path, finished: Path, source: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tiny_disk / "run"
    arguments = ["--source", str(source), "--target", str(target), "--out", str(run), *SMALL]
    assert main(["train", *arguments]) == 1
    error = capsys.readouterr().err
    assert "the disk is full; the previous checkpoint is intact" in error and error.count("\n") == 1
    last = (run / "checkpoints" / "last").read_text().strip()
    assert last in ("00000002", "00000004")
    assert load_policy(run).act(observation()).shape == (4, 3)
    assert not list(run.rglob(".*.partial")) and not list(run.rglob(".*.tmp"))
    assert main(["train", "--out", str(run), "--resume"]) == 1
    assert "the disk is full" in capsys.readouterr().err
    # With more room it goes on, and ends as if nothing had been.
    subprocess.run(["mount", "-o", "remount,size=20m", str(tiny_disk)], check=True)
    assert main(["train", "--out", str(run), "--resume"]) == 0
    assert_same_runs(finished, run)


def test_a_limit_on_file_sizes(run: Path, finished: Path) -> None:
    """The same where nothing may be mounted: the checkpoint's files may not be as large as they are."""
    size = (run / "checkpoints" / "00000004" / "policy.safetensors").stat().st_size
    limit = (size - 1000, size - 1000)
    process = start_cli(
        "train", "--resume", "--out", run, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    )
    _, error = process.communicate()
    assert process.returncode == 1
    assert "the previous checkpoint is intact" in error and error.count("\n") == 1, error
    assert (run / "checkpoints" / "last").read_text() == "00000004\n"
    assert load_policy(run).act(observation()).shape == (4, 3)
    assert main(["train", "--resume", "--out", str(run)]) == 0
    assert_same_runs(finished, run)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--alpah", "0.3"], "there is no option --alpah; did you mean --alpha? see beacon train --help"),
        (["--ratio", "0.4"], "--ratio is no option of --method beacon; it is one of cotrain, mmd"),
        (["--method", "cotrain", "--ratio", "1.5"], "--ratio 1.5: must be"),
        (["--method", "cotrain", "--ratio", "half"], "--ratio half: a number or natural, auto"),
        (
            ["--steps", "100", "--steps-per-epoch", "30"],
            "--steps 100: must be a multiple of --steps-per-epoch",
        ),
        (["--steps", "many"], "--steps many: a whole number expected"),
        (["--alpha", "-1"], "alpha: must be a number of at least 0"),
        (["--lambda-2", "0"], "--lambda-2: must be above 0 for the minimiser"),
        (["--method", "magic"], "--method magic: choose one of target-only, source-only"),
        (["--preset", "huge"], "--preset huge: choose one of"),
        (["--statistics", "some"], "--statistics some: choose one of pooled, target, per-domain"),
        (["--warmup-epochs", "99"], "no refresh in 40 epochs with 99 to warm up"),
        (["--seed", "9" * 23], f"--seed {'9' * 23}: a whole number of at most 9223372036854775807 expected"),
        (["--weight-decay", "nan"], "--weight-decay nan: a number expected"),
        (["--weight-decay", "inf"], "--weight-decay inf: must be at most"),
        (["--memory-limit", "nan"], "--memory-limit nan: a number expected"),
        (["--memory-limit", "-1"], "--memory-limit -1.0: must be at least 0"),
        (["--policy.mlp-blocks", "10000000"], "--policy.mlp-blocks 10000000: must be at most 1000"),
        (
            ["--policy.encoder.widths", "8", "8"],
            "widths: needs 4 values, each a whole number",
        ),
        (["--steps"], "--steps: needs a whole number"),
        (["--method"], "--method: needs a value"),
        (["--max-hours", "0"], "--max-hours 0.0: must be above 0"),
        (["--policy.variant", "robomimic"], "--policy.variant robomimic: is of --preset paper, not of cpu"),
        (["--preset", "paper", "--policy.variant", "huge"], "--policy.variant huge: choose one of robomimic"),
        (["--policy.varian", "robomimic"], "did you mean --policy.variant?"),
        (["stray"], "'stray' belongs to no option"),
        (["--policy.horizon", "7"], "horizon=7"),
        (["--keep", "0"], "--keep 0: must be at least 1"),
        (["--wandb", "project"], "the package wandb is not installed"),
        (["--watch", "--watch-port", "70000"], "--watch-port 70000: must be from 0 to 65535"),
    ],
)
def test_options_are_refused_before_data_is_read(
    arguments: list[str], says: str, refused: Refuse, tmp_path: Path
) -> None:
    if "--wandb" in arguments and find_spec("wandb") is not None:
        pytest.skip("wandb is installed here")
    absent = tmp_path / "absent.hdf5"
    assert says in refused("--source", absent, "--target", absent, *arguments)


def test_options_without_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--source", "a", "--target", "b"]) == 2
    assert "beacon: --out is missing" in capsys.readouterr().err
    assert main(["train", "--source", "a", "--target", "b", "--stpes", "4"]) == 2
    assert "there is no option --stpes; did you mean --steps?" in capsys.readouterr().err
    assert main(["train", "--source", "a", "--target", "b", "--steps", "few"]) == 2
    assert "--steps few: a whole number expected" in capsys.readouterr().err
    assert main(["train", "--resume"]) == 2
    assert "--resume needs --out" in capsys.readouterr().err


def test_device_that_is_not_there(refused: Refuse, source: Path, target: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    options = ["--source", source, "--target", target, *SMALL]
    assert "--device cuda: cannot be used here" in refused(*options, "--device", "cuda")
    assert "--device abacus: cannot be used here" in refused(*options, "--device", "abacus")
    for device in ("meta", "mps", "xpu"):
        refusal = f"--device {device}: beacon computes on cpu or cuda; try --device cpu"
        assert refusal in refused(*options, "--device", device)
