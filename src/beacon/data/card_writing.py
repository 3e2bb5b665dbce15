"""A card for a dataset, with what is in it, ready to be edited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from beacon.data.card import ActionCard, Card, card_text
from beacon.data.errors import listing, printable
from beacon.data.formats.base import OBSERVATION, DatasetReader
from beacon.data.images import looks_like_camera
from beacon.data.loading import default_proprio
from beacon.errors import UserError
from beacon.files import write_bytes, writing

WIDEST = 64  # dimensions: wider vectors are not proposed as proprioception


def propose_card(reader: DatasetReader, path: Path | None = None) -> Card:
    """What is in a dataset, spelled out.

    Args:
        reader: the dataset.
        path: what the card says for it, default: where it is.
    """
    if not reader.episode_names:
        raise UserError(f"{reader.path} holds no demonstrations")
    episode = reader.episode_names[0]
    keys = reader.observation_keys(episode)
    cameras = {_short(key): key for key, info in keys.items() if looks_like_camera(key, info)}
    if len(cameras) < sum(looks_like_camera(k, i) for k, i in keys.items()):  # two would share a name
        cameras = {key: key for key, info in keys.items() if looks_like_camera(key, info)}
    vectors = default_proprio(reader, {key: key for key in keys})
    return Card(
        path=path or reader.path.resolve(),
        cameras=cameras,
        proprio={_short(key): key for key in vectors},
        actions=ActionCard(keys=("actions",)),
        fps=reader.fps,
        episodes=f"0:{len(reader.episode_names)}",
    )


def card_with_comments(reader: DatasetReader, path: Path | None = None) -> str:
    """The proposed card as YAML, with the ranges of every dimension as comments."""
    card = propose_card(reader, path)
    episode = reader.episode_names[0]
    text = card_text(card).rstrip()
    # In quotes, because YAML takes 1:50, to which it may be edited, for minutes and seconds.
    text = text.replace(f"\nepisodes: {card.episodes}", f'\nepisodes: "{card.episodes}"')
    vectors = _vectors(reader, episode)
    if vectors and not card.proprio:
        known = _line(f"no known name; name what the robot can measure of {listing(vectors)}")
        text = text.replace("\nproprio: {}", f"\nproprio: {{}}  # {known}")
    lines = [f"# {reader.format_name}, {len(reader.episode_names)} episodes", text]
    if card.actions == ActionCard():
        lines.append("actions: {keys: [actions]}  # also: scale, offset, clip, resample, convert and pose")
    if card.fps is None:
        lines.append("# recorded_fps: 10     # the dataset does not say its control rate")
    lines.append("# image_size: 96         # and image_fit: stretch, pad or crop")
    lines.append("#")
    lines.append(f"# What there is, with the ranges in {_line(episode)}:")
    for name, info in reader.arrays(episode).items():
        shape = "×".join(map(str, info.shape[1:])) or "1"
        lines.append(f"#   {_line(name.removeprefix(OBSERVATION))}: {shape} {info.dtype}")
        width = int(np.prod(info.shape[1:], dtype=np.int64))
        if len(info.shape) not in (1, 2) or 0 in info.shape:
            continue
        if info.dtype.kind not in "biuf" or width > WIDEST:
            continue
        values = reader.read(episode, name).reshape(info.shape[0], -1)
        names = reader.dimension_names(name) or [""] * width
        lines += [
            f"#     [{d}] {values[:, d].min():.4g} .. {values[:, d].max():.4g} {_line(names[d])}".rstrip()
            for d in range(width)
        ]
    return "\n".join(lines) + "\n"


def _vectors(reader: DatasetReader, episode: str) -> list[str]:
    """Observations that may be proprioception."""
    return [
        key
        for key, info in reader.observation_keys(episode).items()
        if len(info.shape) == 2 and info.shape[1] <= WIDEST and info.dtype.kind in "iuf"
    ]


def write_joint_card(file: Path, datasets: Sequence[Path]) -> None:
    """A card that joins datasets, or cards of them, to one domain.

    Args:
        file: to write; one that says something else is not replaced.
        datasets: each exists.
    """
    for dataset in datasets:
        if not dataset.exists():
            raise UserError(f"{dataset} does not exist")
    text = card_text(Card(path=tuple(dataset.resolve() for dataset in datasets)))
    if file.exists() and file.read_text() != text:
        raise UserError(f"{file} exists already and joins other datasets; choose another folder")
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, text.encode())


def _line(text: str) -> str:
    """Others' names in a comment, which a line break would end."""
    return printable(text).replace("\n", "\\n")


def _short(key: str) -> str:
    """``observation.images.front`` is called front; other names stay."""
    for prefix in ("observation.images.", "observation.image."):
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key.removeprefix("observation.")
