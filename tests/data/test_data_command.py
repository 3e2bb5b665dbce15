"""``beacon data inspect`` and ``beacon data check``, by their output and exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from raw_datasets import Edit, MakeFile

from beacon.cli.data import main
from beacon.data import check_files
from beacon.errors import UserError


def replace_array(name: str, array: np.ndarray) -> Callable[[h5py.File], None]:
    def spoil(file: h5py.File) -> None:
        del file["data/demo_1"][name]
        file["data/demo_1"][name] = array

    return spoil


def set_nan(name: str) -> Callable[[h5py.File], None]:
    def spoil(file: h5py.File) -> None:
        file[f"data/demo_1/{name}"][1] = np.nan

    return spoil


def all_black(file: h5py.File) -> None:
    for demo in file["data"].values():
        demo["obs/agentview_image"][...] = 1


def constant_dimension(file: h5py.File) -> None:
    for demo in file["data"].values():
        demo["actions"][:, 3] = 0.5


def constant_actions(file: h5py.File) -> None:
    for demo in file["data"].values():
        demo["actions"][...] = 0


def duplicate(file: h5py.File) -> None:
    del file["data/demo_2"]
    file.copy("data/demo_0", file["data"], name="demo_2")
    file["data"].attrs["total"] = 13


def overlapping(file: h5py.File) -> None:
    file["mask/train"] = np.array([b"demo_0", b"demo_1"])
    file["mask/valid"] = np.array([b"demo_1"])


def stutter(file: h5py.File) -> None:
    images = file["data/demo_0/obs/agentview_image"]
    for t in (1, 2, 3):
        images[t] = images[0]


# what is spoilt -> (how, severity, text, demonstration named)
CASES: dict[str, tuple[Callable[[h5py.File], None], str, str, str]] = {
    "nan actions": (set_nan("actions"), "error", "'actions' is NaN or infinite in 1 of 3 steps", "demo_1"),
    "nan proprio": (set_nan("obs/robot0_eef_pos"), "error", "'obs/robot0_eef_pos' is NaN", "demo_1"),
    "nan unused": (set_nan("obs/object"), "warning", "'obs/object' is NaN", "demo_1"),
    "no actions": (lambda f: f["data/demo_1"].__delitem__("actions"), "error", "no 'actions'", "demo_1"),
    "no steps": (replace_array("actions", np.zeros((0, 7))), "error", "has no time steps", "demo_1"),
    "flat actions": (replace_array("actions", np.zeros(3)), "error", "'actions' must be numbers", "demo_1"),
    "missing key": (
        lambda f: f["data/demo_1/obs"].__delitem__("agentview_image"),
        "error",
        "no 'obs/agentview_image', which other demonstrations have",
        "demo_1",
    ),
    "lengths": (
        replace_array("obs/robot0_eef_pos", np.zeros((9, 3))),
        "error",
        "'obs/robot0_eef_pos' has 9 steps but 'actions' has 3",
        "demo_1",
    ),
    "image size": (
        replace_array(
            "obs/agentview_image", np.random.default_rng(0).integers(0, 255, (3, 5, 5, 3)).astype("u1")
        ),
        "error",
        "(5, 5, 3) a step, elsewhere (6, 8, 3)",
        "demo_1",
    ),
    "float images": (
        replace_array("obs/agentview_image", np.zeros((3, 6, 8, 3), np.float32)),
        "error",
        "store images as uint8",
        "demo_1",
    ),
    "num_samples": (
        lambda f: f["data/demo_1"].attrs.__setitem__("num_samples", 8),
        "error",
        "'num_samples' is 8 but there are 3 actions",
        "demo_1",
    ),
    "no num_samples": (
        lambda f: f["data/demo_1"].attrs.__delitem__("num_samples"),
        "warning",
        "no attribute 'num_samples'",
        "demo_1",
    ),
    "total": (
        lambda f: f["data"].attrs.__setitem__("total", 99),
        "warning",
        "'total' is 99 but there are 12 frames",
        "",
    ),
    "env_args": (lambda f: f["data"].attrs.__setitem__("env_args", "{oops"), "warning", "is not JSON", ""),
    "constant dimension": (constant_dimension, "warning", "action dimension 3 is always 0.5", ""),
    "constant demo": (
        replace_array("actions", np.ones((3, 7))),
        "warning",
        "the same action in every step",
        "demo_1",
    ),
    "constant actions": (constant_actions, "error", "the actions never change", ""),
    "outside": (replace_array("actions", np.eye(3, 7) * 2.5), "warning", "largest 2.5", "demo_1"),
    "duplicate": (duplicate, "warning", "the same demonstration as demo_0", "demo_2"),
    "black": (
        replace_array("obs/agentview_image", np.zeros((3, 6, 8, 3), np.uint8)),
        "warning",
        "'agentview_image' is black in every frame",
        "demo_1",
    ),
    "all black": (all_black, "error", "the camera shows nothing", ""),
    "frozen": (
        replace_array("obs/agentview_image", np.full((3, 6, 8, 3), 77, np.uint8)),
        "warning",
        "'agentview_image' never changes",
        "demo_1",
    ),
    "stutter": (stutter, "warning", "same picture in most steps", "demo_0"),
    "unknown in mask": (
        lambda f: f.__setitem__("mask/train", np.array([b"demo_8"])),
        "error",
        "mask 'train' names demo_8, not in the file",
        "",
    ),
    "overlapping masks": (overlapping, "warning", "'train' and 'valid' share demo_1", ""),
    "odd name": (
        lambda f: f["data"].move("demo_2", "episode_2"),
        "warning",
        "not called demo_<number>",
        "episode_2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_check_finds(make_file: MakeFile, edit: Edit, capsys: pytest.CaptureFixture[str], case: str) -> None:
    spoil, severity, text, episode = CASES[case]
    path = make_file(lengths=(5, 3, 4))
    with edit(path) as file:
        spoil(file)
    findings = [f for f in check_files([path]) if text in f.text]
    assert len(findings) == 1, [str(f) for f in check_files([path])]
    assert findings[0].severity == severity
    assert findings[0].episodes == ((episode,) if episode else ())
    assert main(["check", str(path)]) == (2 if severity == "error" else 0)
    out = capsys.readouterr().out
    assert text in out and str(path) in out and severity in out


def test_check_sound(make_file: MakeFile, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [make_file("robomimic.hdf5"), make_file("mimicgen.hdf5", mimicgen=True, seed=1)]
    assert main(["check", *map(str, paths)]) == 0
    assert capsys.readouterr().out.startswith("sound: ")


def test_check_groups_equal_lines(make_file: MakeFile) -> None:
    path = make_file(lengths=(2,) * 9, scale=3.0)
    (finding,) = check_files([path])
    assert len(finding.episodes) == 9 and "demo_3 and 5 more" in str(finding)


def test_check_goes_on_after_a_file_that_cannot_be_read(make_file: MakeFile, tmp_path: Path) -> None:
    (tmp_path / "bad.hdf5").write_text("no")
    findings = check_files([tmp_path / "bad.hdf5", tmp_path / "gone.hdf5", make_file(scale=2.0)])
    assert [f.severity for f in findings] == ["error", "error", "warning"]
    assert str(findings[0]) == f"{tmp_path / 'bad.hdf5'}: is not an HDF5 file"


def test_check_compares_files(make_file: MakeFile) -> None:
    sim = make_file("sim.hdf5")
    texts = "\n".join(map(str, check_files([sim, make_file("same.hdf5")])))
    assert "same.hdf5, demo_0, demo_1, demo_2: also in" in texts
    texts = "\n".join(
        map(str, check_files([sim, make_file("short.hdf5", action_dim=4, size=(9, 9), seed=1)]))
    )
    assert "actions differ" in texts and "--image-size" in texts
    texts = "\n".join(map(str, check_files([sim, make_file("other.hdf5", cameras=("front",), seed=2)])))
    assert "no camera is common" in texts
    slow = make_file("slow.hdf5", seed=3)
    with h5py.File(slow, "r+") as file:
        file["data"].attrs["env_args"] = '{"env_kwargs": {"control_freq": 10}}'
    assert any("sim.hdf5 20 Hz, slow.hdf5 10 Hz" in f.text for f in check_files([sim, slow]))


def test_inspect(make_file: MakeFile, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = make_file(lengths=(5, 3, 4, 9), masks={"train": ["demo_0", "demo_1"]}, mimicgen=True)
    sheet = tmp_path / "sheet.png"
    assert main(["inspect", str(path), "--contact-sheet", str(sheet)]) == 0
    out = capsys.readouterr().out
    for text in (
        "shortest 3, median 4.5, longest 9",
        "train (2)",
        "Stack_D0, robosuite, version 1.5.2",
        "obs/agentview_image",
        "6×8×3",
        "uint8",
        "datagen_info/eef_pose",
        "4×4",
    ):
        assert text in out, out
    with Image.open(sheet) as picture:
        tile = round(128 * 8 / 6)
        assert picture.size == (8 * (tile + 4) + 4, 4 * (128 + 14 + 4) + 4)
        with h5py.File(path) as file:
            first = file["data/demo_0/obs/agentview_image"][0]
        assert picture.getpixel((4 + tile // 16, 4 + 14 + 128 // 12)) == tuple(first[0, 0].tolist())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demos.hdf5", "sheet.png"]
    assert main(["inspect", str(path), "--mask", "train"]) == 0
    out = capsys.readouterr().out
    assert "2 in mask 'train'" in out and "longest 5" in out


def test_inspect_shows_odd_files_instead_of_refusing(
    make_file: MakeFile, edit: Edit, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_file(lengths=(5, 3, 4))
    with edit(path) as file:
        set_nan("actions")(file)
        replace_array("obs/agentview_image", np.zeros((3, 2, 2, 3), np.float32))(file)
        file["data/demo_2/note"] = "text"
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "6×8×3 or 2×2×3" in out and "uint8 or float32" in out


def test_inspect_refuses(make_file: MakeFile, tmp_path: Path) -> None:
    path = make_file(cameras=())
    for arguments, message in (
        ([str(tmp_path / "no.hdf5")], "no such file"),
        ([str(path), "--mask", "x"], "no mask 'x'"),
        ([str(path), "--contact-sheet", str(tmp_path / "a.gif")], r"\.png or \.jpg"),
        ([str(path), "--contact-sheet", str(tmp_path / "a.png")], "no camera images"),
    ):
        with pytest.raises(UserError, match=message):
            main(["inspect", *arguments])


def test_command_line_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0 and "examples:" in capsys.readouterr().out
    assert main(["check", "--help"]) == 0 and "Exit code: 2" in capsys.readouterr().out
    with pytest.raises(UserError, match="see beacon data inspect --help"):
        main(["inspect", "--colour", "x"])
    with pytest.raises(UserError, match="at least one dataset"):
        main(["check"])
    with pytest.raises(UserError, match="no 'beacon data convertt'"):
        main(["convertt"])


def test_help_and_check_do_not_wait_for_torch(make_file: MakeFile) -> None:
    code = (
        "import sys; from beacon.cli.data import main; code = main(sys.argv[1:]);"
        "sys.exit(code or 'torch' in sys.modules)"
    )
    for arguments in (["--help"], ["check", str(make_file())], ["inspect", str(make_file())]):
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)
