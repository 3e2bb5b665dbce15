"""Tiny LeRobot folders and zarr datasets, written with pyarrow, av and zarr alone, not with our code."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from beacon.processes import leave_real_time

SIZE = (32, 48)  # height, width
AV1_SIZE = (64, 96)  # SVT-AV1 of PyAV 14 encodes nothing smaller
CAMERA = "observation.images.front"


def brightness(episode: int, steps: int) -> NDArray[np.uint8]:
    """The grey of every frame: it tells frames, and episodes, apart after lossy coding, too."""
    return (20 + 40 * episode + 5 * np.arange(steps)).astype(np.uint8)


def pictures(episode: int, steps: int, size: tuple[int, int] = SIZE) -> NDArray[np.uint8]:
    """Grey frames (T, H, W, 3) with a red left half."""
    frames = np.repeat(brightness(episode, steps), size[0] * size[1] * 3).reshape(steps, *size, 3).copy()
    frames[:, :, : size[1] // 2, 0] = 255
    return frames


def write_video(
    path: Path,
    frames: NDArray[np.uint8],
    fps: float,
    *,
    codec: str = "libx264",
    gop: int = 12,
    b_frames: int = 2,
) -> None:
    """Encode at a constant rate."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=Fraction(fps).limit_denominator(1000))
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], "yuv420p"
        if codec != "mpeg4":
            stream.bit_rate = 0  # as beacon.data.formats.video_writer
        own = {"libx264": {"bf": str(b_frames)}, "mpeg4": {"qmax": "2"}}.get(codec, {})  # mpeg4 has no crf
        stream.options = {"g": str(gop), "crf": "5"} | own
        for picture in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    leave_real_time()  # which the AV1 encoder asks for where it may


def states(episode: int, steps: int) -> NDArray[np.float32]:
    """(T, 4) numbers."""
    return np.random.default_rng(100 + episode).uniform(-1, 1, (steps, 4)).astype(np.float32)


def actions(episode: int, steps: int) -> NDArray[np.float32]:
    """(T, 3) numbers."""
    return np.random.default_rng(200 + episode).uniform(-1, 1, (steps, 3)).astype(np.float32)


def table(
    episode: int, steps: int, first: int, fps: float, *, fixed: bool = True, images: bool = False
) -> pa.Table:
    """The rows of one episode."""

    def vectors(values: NDArray[np.float32]) -> pa.Array:
        kind = pa.list_(pa.float32(), values.shape[1]) if fixed else pa.list_(pa.float32())
        return pa.array(values.tolist(), kind)

    columns = {
        "observation.state": vectors(states(episode, steps)),
        "action": vectors(actions(episode, steps)),
        "timestamp": pa.array(np.arange(steps) / fps, pa.float32()),
        "frame_index": pa.array(np.arange(steps)),
        "episode_index": pa.array([episode] * steps),
        "index": pa.array(np.arange(first, first + steps)),
        "task_index": pa.array([0] * steps),
        "next.reward": pa.array([0.0] * steps, pa.float32()),
    }
    if images:
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        columns[CAMERA] = pa.array([{"bytes": png(f), "path": None} for f in pictures(episode, steps)], kind)
    return pa.table(columns)


def png(frame: NDArray[np.uint8]) -> bytes:
    """A frame as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "PNG")
    return buffer.getvalue()


def features(images: bool, size: tuple[int, int] = SIZE) -> dict[str, Any]:
    """As info.json has them; names of the state are a list in a list, as recorders write."""
    found: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": [4], "names": [["a", "b", "c", "d"]]},
        "action": {"dtype": "float32", "shape": [3], "names": {"motors": ["x", "y", "z"]}},
        CAMERA: {
            "dtype": "image" if images else "video",
            "shape": [*size, 3],
            "names": ["height", "width", "channel"],
        },
        "next.reward": {"dtype": "float32", "shape": [1], "names": None},
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    }
    for name in ("frame_index", "episode_index", "index", "task_index"):
        found[name] = {"dtype": "int64", "shape": [1], "names": None}
    return found


def write_info(root: Path, **changes: Any) -> None:
    """Write or change meta/info.json."""
    path = root / "meta" / "info.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    info = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(info | changes))


def write_v21(
    root: Path,
    lengths: Sequence[int] = (7, 5, 6),
    fps: float = 10,
    *,
    images: bool = False,
    fixed: bool = True,
) -> Path:
    """A dataset of version 2.1: a table and a video an episode."""
    write_info(
        root,
        codebase_version="v2.1",
        robot_type="arm",
        fps=fps,
        features=features(images),
        total_episodes=len(lengths),
        total_frames=sum(lengths),
        chunks_size=1000,
        splits={"train": f"0:{len(lengths)}"},
        data_path="data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        video_path="videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    )
    lines, first = [], 0
    for episode, steps in enumerate(lengths):
        lines.append(json.dumps({"episode_index": episode, "tasks": ["lift"], "length": steps}))
        path = root / f"data/chunk-000/episode_{episode:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(episode, steps, first, fps, fixed=fixed, images=images), path)
        if not images:
            video = root / f"videos/chunk-000/{CAMERA}/episode_{episode:06d}.mp4"
            write_video(video, pictures(episode, steps), fps)
        first += steps
    (root / "meta/episodes.jsonl").write_text("\n".join(lines) + "\n")
    (root / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "lift"}\n')
    return root


def write_v30(
    root: Path,
    lengths: Sequence[int] = (7, 5, 6),
    fps: float = 10,
    *,
    images: bool = False,
    fixed: bool = True,
    row_groups: bool = True,
    videos_of: Sequence[Sequence[int]] | None = None,
    codec: str = "libx264",
    size: tuple[int, int] = SIZE,
) -> Path:
    """A dataset of version 3.0: one table for all; ``videos_of``: which episodes share a video."""
    write_info(
        root,
        codebase_version="v3.0",
        robot_type="arm",
        fps=fps,
        features=features(images, size),
        total_episodes=len(lengths),
        total_frames=sum(lengths),
        total_tasks=1,
        splits={"train": f"0:{len(lengths)}"},
        data_path="data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        video_path=None if images else "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    )
    rows = []
    (root / "data/chunk-000").mkdir(parents=True, exist_ok=True)
    firsts = np.cumsum([0, *lengths])
    parts = [table(e, n, int(firsts[e]), fps, fixed=fixed, images=images) for e, n in enumerate(lengths)]
    with pq.ParquetWriter(root / "data/chunk-000/file-000.parquet", parts[0].schema) as writer:
        for part in parts if row_groups else [pa.concat_tables(parts)]:
            writer.write_table(part)
    groups = [list(range(len(lengths)))] if videos_of is None else videos_of
    for number, group in enumerate(groups):
        if not images:
            frames = np.concatenate([pictures(e, lengths[e], size) for e in group])
            write_video(root / f"videos/{CAMERA}/chunk-000/file-{number:03d}.mp4", frames, fps, codec=codec)
        before = 0
        for e in group:
            row: dict[str, Any] = {
                "episode_index": e,
                "tasks": ["lift"],
                "length": lengths[e],
                "dataset_from_index": int(firsts[e]),
                "dataset_to_index": int(firsts[e + 1]),
                "data/chunk_index": 0,
                "data/file_index": 0,
            }
            if not images:
                row |= {
                    f"videos/{CAMERA}/chunk_index": 0,
                    f"videos/{CAMERA}/file_index": number,
                    f"videos/{CAMERA}/from_timestamp": before / fps + 0.003,  # as stock writers drift
                    f"videos/{CAMERA}/to_timestamp": (before + lengths[e]) / fps,
                }
            before += lengths[e]
            rows.append(row)
    (root / "meta/episodes/chunk-000").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), root / "meta/episodes/chunk-000/file-000.parquet")
    pq.write_table(pa.table({"task_index": [0], "task": ["lift"]}), root / "meta/tasks.parquet")
    return root


def write_zarr(
    path: Path,
    lengths: Sequence[int] = (7, 5, 6),
    *,
    floats: float | None = None,
    codec: Any = "default",
    chunks: int = 4,
) -> Path:
    """A dataset of diffusion_policy, zarr version 2; ``floats``: white as a float."""
    import zarr

    frames = np.concatenate([pictures(e, n) for e, n in enumerate(lengths)])
    images: NDArray[Any] = frames if floats is None else (frames / 255 * floats).astype(np.float32)
    store = zarr.storage.ZipStore(path, mode="w") if path.suffix == ".zip" else zarr.storage.LocalStore(path)
    root = zarr.create_group(store, zarr_format=2)
    data, meta = root.create_group("data"), root.create_group("meta")
    compressors: Any = "auto" if codec == "default" else codec
    for name, array in (
        ("img", images),
        ("state", np.concatenate([states(e, n) for e, n in enumerate(lengths)])),
        ("action", np.concatenate([actions(e, n) for e, n in enumerate(lengths)])),
    ):
        data.create_array(
            name,
            shape=array.shape,
            dtype=array.dtype,
            chunks=(1 if name == "img" and codec != "default" else chunks, *array.shape[1:]),
            compressors=compressors if name == "img" else "auto",
        )[...] = array
    ends = np.cumsum(lengths)
    meta.create_array("episode_ends", shape=ends.shape, dtype=ends.dtype)[...] = ends
    store.close()
    return path
