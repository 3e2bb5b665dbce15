"""HDF5 files that were made to harm: nothing outside is read, nothing large is made, one line."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from raw_datasets import Edit, MakeFile

from beacon.cli.main import main
from beacon.data import EpisodeSet, check_files, copy_episodes
from beacon.errors import UserError

SECRET = b"the secret of another file" * 40


def everything(path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What inspect, check, contact sheet, loading and copying say; none may end in a traceback."""
    texts = []
    for arguments in (["inspect"], ["check"], ["inspect", "--contact-sheet", str(out / "sheet.png")]):
        code = main(["data", arguments[0], str(path), *arguments[1:]])
        output = capsys.readouterr()
        assert code in (0, 2), output
        assert "Traceback" not in output.out + output.err
        assert "\x1b" not in output.out + output.err
        texts.append(output.out + output.err)
    try:
        EpisodeSet.load(path)
    except UserError as error:
        texts.append(str(error))
        assert "\n" not in str(error)
    try:
        copy_episodes(path, out / "copy.hdf5", ["demo_1"])
    except UserError as error:
        texts.append(str(error))
    copy = out / "copy.hdf5"
    assert not copy.exists() or SECRET[:26] not in copy.read_bytes()
    assert SECRET[:26].decode() not in "".join(texts)
    return "\n".join(texts)


def external_storage(file: h5py.File, folder: Path) -> None:
    shape = (3, 6, 8, 3)
    del file["data/demo_1/obs/agentview_image"]
    file["data/demo_1/obs"].create_dataset(
        "agentview_image", shape, "u1", external=[(str(folder / "secret"), 0, int(np.prod(shape)))]
    )


def external_link(file: h5py.File, folder: Path) -> None:
    del file["data/demo_1/obs/agentview_image"]
    file["data/demo_1/obs/agentview_image"] = h5py.ExternalLink(str(folder / "other.hdf5"), "/secret")


def external_group(file: h5py.File, folder: Path) -> None:
    del file["data/demo_1/obs"]
    file["data/demo_1/obs"] = h5py.ExternalLink(str(folder / "other.hdf5"), "/")


def soft_through_external(file: h5py.File, folder: Path) -> None:
    file["elsewhere"] = h5py.ExternalLink(str(folder / "other.hdf5"), "/")
    del file["data/demo_1/obs/agentview_image"]
    file["data/demo_1/obs/agentview_image"] = h5py.SoftLink("/elsewhere/secret")


def virtual(file: h5py.File, folder: Path) -> None:
    layout = h5py.VirtualLayout((3, 6, 8, 3), "u1")
    layout[...] = h5py.VirtualSource(str(folder / "other.hdf5"), "secret", (3, 6, 8, 3))
    del file["data/demo_1/obs/agentview_image"]
    file["data/demo_1/obs"].create_virtual_dataset("agentview_image", layout)


def virtual_self(file: h5py.File, folder: Path) -> None:
    layout = h5py.VirtualLayout((3, 6, 8, 3), "u1")
    layout[...] = h5py.VirtualSource(".", "data/demo_1/obs/agentview_image", (3, 6, 8, 3))
    del file["data/demo_1/obs/agentview_image"]
    file["data/demo_1/obs"].create_virtual_dataset("agentview_image", layout)


def pipe(file: h5py.File, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    del file["data/demo_1/actions"]
    file["data/demo_1"].create_dataset("actions", (3, 7), "f8", external=[(str(folder / "pipe"), 0, 168)])


CASES: dict[str, tuple[Callable[[h5py.File, Path], None], str]] = {
    "external storage": (external_storage, "stored in another file"),
    "external link": (external_link, "link to another file"),
    "external group": (external_group, "link to another file"),
    "soft link through an external one": (soft_through_external, "link to another file"),
    "virtual": (virtual, "virtual dataset"),
    "virtual of itself": (virtual_self, "virtual dataset"),
    "pipe": (pipe, "stored in another file"),
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_outside_of_the_file_is_read(
    make_file: MakeFile, edit: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    spoil, text = CASES[case]
    (tmp_path / "secret").write_bytes(SECRET)
    with h5py.File(tmp_path / "other.hdf5", "w") as other:
        other["secret"] = np.frombuffer(SECRET[: 3 * 6 * 8 * 3], np.uint8).reshape(3, 6, 8, 3)
    path = make_file()
    with edit(path) as file:
        spoil(file, tmp_path)
    said = everything(path, tmp_path, capsys)
    assert text in said and "demo_1" in said
    assert not (tmp_path / "copy.hdf5").exists()
    with pytest.raises(UserError, match=text):
        EpisodeSet.load(path)


def huge_images(file: h5py.File) -> None:
    del file["data/demo_1/obs/agentview_image"]
    file["data/demo_1/obs"].create_dataset(
        "agentview_image", (3, 40000, 40000, 3), "u1", chunks=(1, 100, 100, 3)
    )


def huge_actions(file: h5py.File) -> None:
    for demo in file["data"].values():
        del demo["actions"]
        demo.create_dataset("actions", (4, 700_000_000), "f4", chunks=(1, 100_000))


def huge_mask(file: h5py.File) -> None:
    file.create_dataset("mask/train", (10**10,), "S16", chunks=(1000,))


def countless_chunks(file: h5py.File) -> None:
    for demo in file["data"].values():
        demo.create_dataset("obs/spots", (4, 1, 1_000_000), "u1", chunks=(1, 1, 1))
        del demo["actions"]
        demo.create_dataset("actions", (4, 250_000), "f4", chunks=(1, 1))


def countless_steps(file: h5py.File) -> None:
    for demo in file["data"].values():
        del demo["actions"]
        demo.create_dataset("actions", (1_000_000, 1), "u1", chunks=(1, 1))


@pytest.mark.parametrize("spoil", [huge_images, huge_actions, huge_mask, countless_chunks, countless_steps])
def test_declared_sizes_are_bounded_by_what_is_stored(
    make_file: MakeFile, edit: Edit, spoil: Callable[[h5py.File], None]
) -> None:
    path = make_file()
    with edit(path) as file:
        spoil(file)
    assert path.stat().st_size < 1 << 20
    code = (
        "import sys, resource; from beacon.cli.main import main;"
        "resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30));"
        "sys.exit(main(['data', sys.argv[1], sys.argv[2]]))"
    )
    for verb in ("check", "inspect"):
        done = subprocess.run([sys.executable, "-c", code, verb, str(path)], capture_output=True, text=True)
        assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
        assert "declares" in done.stdout + done.stderr
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match="declares"):
        EpisodeSet.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def test_circles_of_links_and_groups(
    make_file: MakeFile, edit: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_file()
    with edit(path) as file:
        obs = file["data/demo_1/obs"]
        for number in range(25):
            obs[f"again_{number}"] = obs
    assert check_files([path]) == []
    main(["data", "inspect", str(path)])
    assert len(capsys.readouterr().out.splitlines()) < 60
    with edit(path) as file:
        file["data/demo_1/obs/a"] = h5py.SoftLink("/data/demo_1/obs/b")
        file["data/demo_1/obs/b"] = h5py.SoftLink("/data/demo_1/obs/a")
    assert "circle of links" in everything(path, tmp_path, capsys)


def test_soft_links_inside_of_the_file_are_followed(make_file: MakeFile, edit: Edit) -> None:
    path = make_file()
    with edit(path) as file:
        file.move("data/demo_1/obs/agentview_image", "pictures")
        file["data/demo_1/obs/agentview_image"] = h5py.SoftLink("/pictures")
        file["data/demo_7"] = h5py.SoftLink("demo_0")
        stored = file["pictures"][()]
        file["data"].attrs["total"] = 17
    episodes = EpisodeSet.load(path)
    np.testing.assert_array_equal(episodes.episode(1).obs["agentview_image"], stored)
    assert episodes.episode_names == ["demo_0", "demo_1", "demo_2", "demo_7"]


def test_names_that_are_not_text_and_names_with_escapes(
    make_file: MakeFile, edit: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_file("bytes.hdf5")
    with edit(path) as file:
        file["data"].move("demo_1", b"demo_\xff\xfe")
    assert "not a UTF-8 name" in everything(path, tmp_path, capsys)
    path = make_file("escapes.hdf5")
    with edit(path) as file:
        file["data"].move("demo_2", "\x1b[31mdemo\x1b]0;title\x07_2")
        file["data/demo_1/obs/\x1b[2J[bold red]x[/]"] = np.zeros((3, 2))
        file["data/demo_1/obs/[link=http://x]y"] = np.zeros((3, 2))
        file["mask/[/red]\x1b[31m"] = np.array([b"\x1b[31mdemo_9"])
        file["data"].attrs["env_args"] = json.dumps({"env_name": "\x1b[31m[bold]"})
    said = everything(path, tmp_path, capsys)
    assert "[bold red]x[/]" in said and "\\x1b[2J" in said


ODD_ATTRIBUTES: dict[str, Callable[[h5py.File], None]] = {
    "num_samples text": lambda f: f["data/demo_1"].attrs.__setitem__("num_samples", "many"),
    "num_samples list": lambda f: f["data/demo_1"].attrs.__setitem__("num_samples", [1, 2]),
    "num_samples nan": lambda f: f["data/demo_1"].attrs.__setitem__("num_samples", np.nan),
    "total text": lambda f: f["data"].attrs.__setitem__("total", "all"),
    "total empty": lambda f: f["data"].attrs.__setitem__("total", h5py.Empty("f")),
    "env_kwargs list": lambda f: f["data"].attrs.__setitem__("env_args", '{"env_kwargs": [1]}'),
    "env_kwargs text": lambda f: f["data"].attrs.__setitem__("env_args", '{"env_kwargs": "x"}'),
    "env_args bytes": lambda f: f["data"].attrs.__setitem__("env_args", np.void(b"\xff\x00")),
    "control_freq text": lambda f: f["data"].attrs.__setitem__(
        "env_args", '{"env_kwargs": {"control_freq": "fast", "robots": {"a": 1}}, "type": [1]}'
    ),
    "boolean actions": lambda f: (
        f["data/demo_1"].__delitem__("actions"),
        f["data/demo_1"].__setitem__("actions", np.ones((3, 7), bool)),
    )[0],
    "scalar image": lambda f: (
        f["data/demo_1/obs"].__delitem__("agentview_image"),
        f["data/demo_1/obs"].__setitem__("agentview_image", 5),
    )[0],
    "empty image": lambda f: (
        f["data/demo_1/obs"].__delitem__("agentview_image"),
        f["data/demo_1/obs"].__setitem__("agentview_image", np.zeros((3, 0, 8, 3), "u1")),
    )[0],
    "compound": lambda f: f["data/demo_1/obs"].__setitem__("c", np.zeros(3, [("a", "f4"), ("b", "i4")])),
    "complex": lambda f: f["data/demo_1/obs"].__setitem__("z", np.zeros((3, 2), complex)),
    "null space": lambda f: f["data/demo_1/obs"].__setitem__("n", h5py.Empty("f")),
}


@pytest.mark.parametrize("case", ODD_ATTRIBUTES)
def test_odd_values_are_diagnosed(
    make_file: MakeFile, edit: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    path = make_file()
    with edit(path) as file:
        ODD_ATTRIBUTES[case](file)
    everything(path, tmp_path, capsys)
    assert main(["data", "check", str(path), str(make_file("second.hdf5", seed=9))]) in (0, 2)


def test_a_linked_lock_does_not_empty_its_target(tmp_path: Path) -> None:
    from beacon.data import RobomimicWriter
    from beacon.errors import RunError

    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "out.hdf5.partial").mkdir()
    (tmp_path / "out.hdf5.partial" / "lock").symlink_to(precious)
    with pytest.raises((RunError, UserError)):
        RobomimicWriter(tmp_path / "out.hdf5", env_args={})
    assert precious.read_text() == "mine"


def test_an_attribute_of_a_damaged_type_is_an_error(
    make_file: MakeFile, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_file()
    content = bytearray(path.read_bytes())
    name = content.index(b"total\0\0\0")  # the type of its value comes next, its version in the upper half
    assert content[name + 8] == 0x10
    content[name + 8] = 0xF0
    path.write_bytes(content)
    assert main(["data", "check", str(path)]) == 2
    assert "attribute 'total' cannot be read" in " ".join(capsys.readouterr().out.split())


def test_names_of_actions_of_a_damaged_type_are_an_error(
    make_file: MakeFile, edit: Edit, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_file()
    with edit(path) as file:
        file["data"].attrs["action_names"] = 5
    content = bytearray(path.read_bytes())
    name = content.index(b"action_names\0")
    content[name + 16] = 0xF0  # the version of its type
    path.write_bytes(content)
    assert main(["data", "inspect", str(path)]) == 2
    error = capsys.readouterr().err
    assert "attribute 'action_names' cannot be read, the file is damaged" in error and error.count("\n") == 1
