"""Demonstrations as a recording for the Rerun viewer (.rrd)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from beacon.desk.annotations import Annotations
from beacon.desk.collection import Collection, Demo
from beacon.desk.details import DEFAULT_RATE, vectors_of
from beacon.desk.pictures import LARGE, MOST_FRAMES, cameras_of, read_frames, to_jpeg
from beacon.errors import UserError
from beacon.files import replacing


def write_rerun(file: Path, collection: Collection, annotations: Annotations, most: int) -> int:
    """Write demonstrations with cameras, curves and reasons; gives their number.

    Args:
        file: the new .rrd.
        collection: the demonstrations.
        annotations: what an audit and a run say of them.
        most: how many at most, the worst by score or weight first.
    """
    try:
        import rerun
    except ImportError:
        raise UserError("--rerun needs the package rerun-sdk; install beacon-cotraining[rerun]") from None

    chosen = _worst_first(collection, annotations)[:most]
    with replacing(file) as temporary:
        recording = rerun.RecordingStream("beacon desk")
        recording.save(temporary)
        for number in chosen:
            _write_demo(rerun, recording, collection.demos[number], number, annotations)
        recording.flush()
        recording.disconnect()
    return len(chosen)


def _worst_first(collection: Collection, annotations: Annotations) -> list[int]:
    def order(number: int) -> tuple[float, float]:
        verdict = annotations.verdicts.get(number)
        weight = annotations.mean_weight(number)
        return -(verdict.score if verdict else 0.0), math.inf if weight is None else weight

    return sorted(range(len(collection.demos)), key=order)


def _write_demo(rerun: Any, recording: Any, demo: Demo, number: int, annotations: Annotations) -> None:
    rate = demo.dataset.reader.fps or DEFAULT_RATE

    def path(*parts: str) -> str:
        return str(rerun.new_entity_path([demo.dataset.name, demo.name, *parts]))

    def times(first: int, count: int) -> list[Any]:
        steps = np.arange(first, first + count)
        return [
            rerun.TimeColumn("step", sequence=steps),
            rerun.TimeColumn("time", duration=steps / rate),
        ]

    for camera in cameras_of(demo):
        for start in range(0, demo.length, MOST_FRAMES):
            frames = [to_jpeg(frame, LARGE) for frame in read_frames(demo, camera, start, MOST_FRAMES)]
            columns = rerun.EncodedImage.columns(blob=frames, media_type=["image/jpeg"] * len(frames))
            recording.send_columns(path("cameras", camera), times(start, len(frames)), columns)
    series = {**vectors_of(demo), **{k: v[:, None] for k, v in annotations.weights.get(number, {}).items()}}
    for title, values in series.items():
        columns = rerun.Scalars.columns(scalars=values.ravel())
        if values.shape[1] != 1:
            columns = columns.partition(np.full(len(values), values.shape[1]))
        recording.send_columns(path(title), times(0, len(values)), columns)
    verdict = annotations.verdicts.get(number)
    for item in () if verdict is None else verdict.evidence:
        recording.set_time("step", sequence=item.frames[0] if item.frames else 0)
        recording.log(path("reasons"), rerun.TextLog(item.text, level="WARN" if item.is_fault else "INFO"))
        recording.reset_time()
