"""Columns, tables and descriptions as LeRobot's files have them; for the writer."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.formats.base import WriteOptions
from beacon.data.formats.video_writer import NAMES, VideoWriter

if TYPE_CHECKING:
    import pyarrow as pa


def to_column(values: NDArray[Any]) -> pa.Array:
    """Numbers (T,) as they are, (T, n) as lists of a fixed size, more dimensions as nested lists."""
    import pyarrow as pa

    if values.ndim == 1 or values.shape[1:] == (1,):
        return pa.array(values.reshape(-1))
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    return pa.array(values.tolist())


def to_png(frame: NDArray[np.uint8]) -> bytes:
    """A picture (H, W, 3) as a file."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "PNG")
    return buffer.getvalue()


def task_table(tasks: list[str]) -> pa.Table:
    """``task_index`` with the task as pandas' index, which LeRobot looks tasks up by."""
    import pyarrow as pa

    table = pa.table(
        {"task_index": pa.array(range(len(tasks)), pa.int64()), "task": pa.array(tasks, pa.string())}
    )
    columns = [
        {"name": n, "field_name": n, "pandas_type": p, "numpy_type": d, "metadata": None}
        for n, p, d in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ]
    pandas = {"index_columns": ["task"], "column_indexes": [], "columns": columns, "pandas_version": "2.0.0"}
    return table.replace_schema_metadata({"pandas": json.dumps(pandas)})


def video_info(feature: dict[str, Any], video: VideoWriter, fps: float) -> dict[str, Any]:
    """What info.json says of a camera's video."""
    height, width, channels = feature["shape"]
    return {
        "video.height": height,
        "video.width": width,
        "video.codec": NAMES[video.codec],
        "video.pix_fmt": "yuv420p",
        "video.is_depth_map": False,
        "video.fps": fps,
        "video.channels": channels,
        "has_audio": False,
    }


def robot_name(options: WriteOptions) -> str | None:
    """The robot, as the environment's description names it."""
    kwargs = (options.env_args or {}).get("env_kwargs")
    robots = kwargs.get("robots") if isinstance(kwargs, dict) else None
    if isinstance(robots, list) and robots:
        robots = robots[0]
    return robots if isinstance(robots, str) else None


def plain_value(value: Any) -> Any:
    """What JSON does not know, as something that it does."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
