"""Every kind of bad input gets one line that names the file, the demonstration and the key."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from raw_datasets import Edit, MakeFile

from beacon.data import EpisodeSet, ObservationMapping, check_compatible, load_domains, parse_rename
from beacon.errors import UserError


def refuse(path: Path, *pieces: str, **options: object) -> str:
    """Loading must fail with one line that names the path and contains the pieces."""
    with pytest.raises(UserError) as caught:
        EpisodeSet.load(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    for piece in pieces:
        assert piece in message, f"{piece!r} not in {message!r}"
    return message


def test_missing_file(tmp_path: Path) -> None:
    refuse(tmp_path / "no.hdf5", "there is no such file")


def test_folder(tmp_path: Path) -> None:
    refuse(tmp_path, "is a folder", "robomimic HDF5")


def test_unfinished_file(tmp_path: Path) -> None:
    (tmp_path / "gen.hdf5.partial").mkdir()
    refuse(tmp_path / "gen.hdf5", "is not finished yet")


def test_unknown_format(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello")
    refuse(tmp_path / "x.txt", "unknown format")


@pytest.mark.parametrize("content", [b"hello" * 1000, b"\x00" * 5000])
def test_not_hdf5(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.hdf5").write_bytes(content)
    refuse(tmp_path / "x.hdf5", "is not an HDF5 file")


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "x.hdf5").touch()
    refuse(tmp_path / "x.hdf5", "truncated")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_truncated(make_file: MakeFile, share: float) -> None:
    path = make_file()
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    refuse(path, "truncated", "again")


def test_damaged_inside(make_file: MakeFile, edit: Edit) -> None:
    path = make_file()
    with edit(path) as file:
        images = file["data/demo_1/obs/agentview_image"][()]
        del file["data/demo_1/obs/agentview_image"]
        stored = file["data/demo_1/obs"].create_dataset(
            "agentview_image", data=images, compression="gzip", chunks=True
        )
        chunk = stored.id.get_chunk_info(0)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = b"\x5a" * chunk.size
    path.write_bytes(content)
    refuse(path, "demo_1", "agentview_image", "damaged")


def test_no_data_group(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as file:
        file["episodes"] = [1]
    refuse(path, "no group 'data'", "episodes")


def test_no_demos(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as file:
        file.create_group("data")
    refuse(path, "holds no demonstrations")


def test_masks(make_file: MakeFile, edit: Edit) -> None:
    path = make_file(masks={"train": ["demo_0"], "valid": ["demo_1"], "odd": ["demo_9"]})
    with edit(path) as file:
        file["mask/none"] = np.array([], dtype="S6")
    refuse(path, "no mask 'test'", "train", "valid", mask="test")
    refuse(path, "'odd'", "demo_9", "not in the file", mask="odd")
    refuse(path, "'none' is empty", mask="none")
    refuse(make_file("plain.hdf5"), "the masks are: none", mask="train")


@pytest.mark.parametrize("limit", [0, -1, 4])
def test_limits(make_file: MakeFile, limit: int) -> None:
    refuse(make_file(), str(limit), limit=limit)


def replace_array(name: str, array: np.ndarray) -> Callable[[h5py.Group], None]:
    def spoil(demo: h5py.Group) -> None:
        del demo[name]
        demo[name] = array

    return spoil


def poison(demo: h5py.Group) -> None:
    demo["actions"][2, 4] = np.nan


CASES: dict[str, tuple[Callable[[h5py.Group], None], list[str]]] = {
    "no actions": (lambda demo: demo.__delitem__("actions"), ["no 'actions'", "states"]),
    "no steps": (replace_array("actions", np.zeros((0, 7))), ["no time steps"]),
    "one-dimensional actions": (replace_array("actions", np.zeros(4)), ["'actions'", "(4,)"]),
    "text actions": (replace_array("actions", np.array([[b"a"]] * 4)), ["'actions'", "numbers"]),
    "other action dimensions": (
        replace_array("actions", np.zeros((4, 6))),
        ["'actions'", "6 dimensions", "7"],
    ),
    "NaN": (poison, ["'actions'", "nan at step 2, dimension 4", "beacon data check"]),
    "infinite proprioception": (
        replace_array("obs/robot0_eef_pos", np.full((4, 3), np.inf)),
        ["'obs/robot0_eef_pos'", "inf at step 0"],
    ),
    "missing camera": (lambda demo: demo["obs"].__delitem__("agentview_image"), ["no 'obs/agentview_image'"]),
    "missing proprioception": (
        lambda demo: demo["obs"].__delitem__("robot0_eef_pos"),
        ["no 'obs/robot0_eef_pos'"],
    ),
    "no observations": (lambda demo: demo.__delitem__("obs"), ["no 'obs/"]),
    "images too short": (
        replace_array("obs/agentview_image", np.zeros((3, 6, 8, 3), np.uint8)),
        ["'obs/agentview_image' has 3 steps but 'actions' has 4"],
    ),
    "proprioception too long": (
        replace_array("obs/robot0_eef_pos", np.zeros((5, 3))),
        ["'obs/robot0_eef_pos' has 5 steps but 'actions' has 4"],
    ),
    "other image size": (
        replace_array("obs/agentview_image", np.zeros((4, 9, 9, 3), np.uint8)),
        ["'agentview_image'", "(9, 9, 3)", "(6, 8, 3)", "--image-size"],
    ),
    "other channels": (
        replace_array("obs/agentview_image", np.zeros((4, 6, 8, 4), np.uint8)),
        ["'agentview_image'", "(6, 8, 4)", "(6, 8, 3)"],
    ),
    "float images": (
        replace_array("obs/agentview_image", np.zeros((4, 6, 8, 3), np.float32)),
        ["'agentview_image'", "float32", "uint8"],
    ),
    "channels first": (
        replace_array("obs/agentview_image", np.zeros((4, 3, 6, 8), np.uint8)),
        ["'agentview_image'", "channels first", "(T, H, W, C)"],
    ),
    "flat images": (
        replace_array("obs/agentview_image", np.zeros((4, 144), np.uint8)),
        ["'agentview_image'", "(4, 144)"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_bad_demo(make_file: MakeFile, edit: Edit, case: str) -> None:
    spoil, pieces = CASES[case]
    path = make_file(lengths=(5, 3, 4))
    with edit(path) as file:
        spoil(file["data/demo_2"])
    refuse(path, "demo_2", *pieces)


@pytest.mark.parametrize("array", [np.zeros((5, 6, 8, 3), np.float32), np.zeros((5, 3, 6, 8), np.uint8)])
def test_odd_images_in_the_first_demo(make_file: MakeFile, edit: Edit, array: np.ndarray) -> None:
    path = make_file(lengths=(5,))
    with edit(path) as file:
        replace_array("obs/agentview_image", array)(file["data/demo_0"])
    refuse(path, "demo_0", "agentview_image", "store images as")


def test_sizes_that_differ_are_fine_with_a_common_size(make_file: MakeFile, edit: Edit) -> None:
    path = make_file(lengths=(5, 4))
    with edit(path) as file:
        replace_array("obs/agentview_image", np.zeros((4, 9, 9, 3), np.uint8))(file["data/demo_1"])
    episodes = EpisodeSet.load(path, mapping=ObservationMapping(image_size=(6, 8)))
    assert episodes.images["agentview_image"].shape == (9, 6, 8, 3)


def test_unknown_keys_are_listed(make_file: MakeFile) -> None:
    path = make_file()
    mapping = ObservationMapping(cameras=("front",))
    refuse(path, "no observation 'front'", "agentview_image", "--rename KEY=front", mapping=mapping)
    refuse(path, "no observation 'joints'", "object", mapping=ObservationMapping(proprio=("joints",)))
    refuse(
        path,
        "'agentview_image' is not proprioception",
        mapping=ObservationMapping(proprio=("agentview_image",)),
    )
    refuse(path, "'object' is not a sequence of images", mapping=ObservationMapping(cameras=("object",)))


def test_renaming_onto_each_other(make_file: MakeFile) -> None:
    path = make_file(cameras=("a_image", "b_image"))
    refuse(path, "'a_image' and 'b_image'", mapping=ObservationMapping(rename={"a_image": "b_image"}))


@pytest.mark.parametrize("item", ["front", "=front", "front=", "a=b=c"])
def test_bad_rename_options(item: str) -> None:
    with pytest.raises(UserError, match=f"--rename {re.escape(item)}: write KEY=NAME"):
        parse_rename([item])


def test_rename_twice() -> None:
    assert parse_rename(["a=b", "c=b", "a=b"]) == {"a": "b", "c": "b"}
    with pytest.raises(UserError, match="already renamed to 'b'"):
        parse_rename(["a=b", "a=c"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cameras": ("a", "a")}, "twice"),
        ({"cameras": "front"}, "is a list"),
        ({"cameras": ("a",), "proprio": ("a",)}, "both"),
        ({"image_size": 0}, "positive"),
        ({"image_size": (3, 4, 5)}, "height and width"),
    ],
)
def test_contradictory_mappings(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ObservationMapping(**options)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::beacon.data.errors.DataWarning")
def test_domains_that_do_not_fit(make_file: MakeFile) -> None:
    sim = make_file("sim.hdf5")

    def refuse_pair(message: str, **options: object) -> None:
        other = make_file("real.hdf5", **options)
        with pytest.raises(UserError, match=message):
            load_domains([sim, other])

    refuse_pair("actions differ: sim.hdf5 has 7 dimensions, real.hdf5 has 4", action_dim=4)
    refuse_pair(
        r"'agentview_image' differ: sim.hdf5 has 6×8×3, real.hdf5 has 5×5×3.*--image-size", size=(5, 5)
    )
    refuse_pair("'robot0_eef_pos' differs: sim.hdf5 has 3 .*real.hdf5 has 2", proprio={"robot0_eef_pos": 2})
    refuse_pair("no end-effector key is common", proprio={"joints": 2})
    resized = load_domains(
        [sim, make_file("real.hdf5", size=(5, 5))], mapping=ObservationMapping(image_size=4)
    )
    assert {s.images["agentview_image"].shape[1:] for s in resized} == {(4, 4, 3)}


def test_sets_loaded_apart_are_checked_too(make_file: MakeFile) -> None:
    sim = EpisodeSet.load(make_file("sim.hdf5"))
    real = EpisodeSet.load(make_file("real.hdf5", cameras=("front",)))
    with pytest.raises(
        UserError, match=r"cameras differ: sim.hdf5 has agentview_image, real.hdf5 has front.*--rename"
    ):
        check_compatible([sim, real])
    bare = EpisodeSet.load(make_file("bare.hdf5", proprio={}))
    with pytest.raises(UserError, match=r"proprioception differ.* bare.hdf5 has none"):
        check_compatible([sim, bare])
