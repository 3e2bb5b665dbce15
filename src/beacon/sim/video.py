"""Films of episodes, drawn afterwards from the recorded states."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from beacon.errors import RunError
from beacon.sim.arrays import Array
from beacon.sim.batch import EpisodeResult
from beacon.sim.rollout import pictures
from beacon.sim.simulation import SimulatedWorld


def film(world: SimulatedWorld, results: Sequence[EpisodeResult], count: int, folder: Path) -> list[Path]:
    """An mp4 of each of the first ``count`` successes and failures."""
    written: list[Path] = []
    for label, good in (("success", True), ("failure", False)):
        chosen = [i for i, result in enumerate(results) if (result.outcomes["success"] >= 1) == good]
        for index in chosen[:count]:
            frames = pictures(world, results[index].states, results[index].initial.seed)
            path = folder / f"{label}-{index:03d}.mp4"
            write_mp4(path, frames, world.control_rate)
            written.append(path)
    return written


def write_mp4(path: Path, frames: Array, rate: int) -> None:
    """(T, H, W, 3) uint8 to H.264; the file appears when it is complete."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}")
    try:
        with av.open(str(temporary), mode="w", format="mp4") as container:
            stream = container.add_stream("libx264", rate=Fraction(rate))
            stream.height, stream.width = frames.shape[1:3]
            stream.pix_fmt = "yuv420p"
            for frame in frames:
                for packet in stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")):
                    container.mux(packet)
            for packet in stream.encode():
                container.mux(packet)
        temporary.replace(path)
    except (OSError, av.FFmpegError) as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write the video {path}: {error}") from error
