"""Films of evaluation episodes as filmstrips."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from beacon.report.pictures import Quality, data_uri, read_film, sprite
from beacon.report.run_view import RunView

STRIP = Quality(96, 12, 70)
MOST = 4  # of each outcome and run
MOST_BYTES = 2_500_000  # of all strips, before base64


@dataclass(frozen=True)
class Rollout:
    """One filmed episode."""

    run: str
    setting: str
    name: str
    success: bool
    picture: str  # data URI
    frames: int
    aspect: float


def collect_rollouts(views: list[RunView]) -> list[Rollout]:
    """Successes and failures of every run that were filmed; a film that cannot be read is noted."""
    rollouts: list[Rollout] = []
    room = MOST_BYTES
    for view in views:
        for evaluation in view.record.evaluations:
            for outcome in ("success", "failure"):
                for film in evaluation.films(outcome)[:MOST]:
                    rollout, size = _read(view, film, " ".join(evaluation.setting), outcome == "success")
                    if rollout is not None and size <= room:
                        rollouts.append(rollout)
                        room -= size
    return rollouts


def _read(view: RunView, film: Path, setting: str, success: bool) -> tuple[Rollout | None, int]:
    import av

    try:
        frames = read_film(str(film), STRIP.frames)
    except (OSError, ValueError, av.FFmpegError) as error:
        view.record.note("rollouts", f"The film {film.name} could not be read: {error}")
        return None, 0
    jpeg = sprite(frames, STRIP)
    height, width = frames[0].shape[:2]
    rollout = Rollout(view.title, setting, film.stem, success, data_uri(jpeg), len(frames), width / height)
    return rollout, len(jpeg)
