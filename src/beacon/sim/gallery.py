"""The pictures of the documentation: ``python -m beacon.sim.gallery docs/pictures``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from beacon.sim.arrays import Array
from beacon.sim.domains import DOMAINS
from beacon.sim.experts import make_expert
from beacon.sim.regions import REGIONS
from beacon.sim.rendering import Renderer
from beacon.sim.rollout import Actor, record
from beacon.sim.tasks import SIZES, TASKS, make_task
from beacon.sim.world import Episode, World

SCALE = 2
MARGIN = 18
COLOURS = {"train": (150, 150, 150), "target": (40, 90, 200), "ood": (210, 90, 20)}


def sheet(rows: Sequence[Sequence[Array]], columns: Sequence[str], labels: Sequence[str]) -> Image.Image:
    """Pictures in a grid with a heading per column and per row."""
    tile = rows[0][0].shape[0] * SCALE
    width, height = 90 + len(columns) * (tile + 4), MARGIN + len(rows) * (tile + 4)
    canvas = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(canvas)
    for column, name in enumerate(columns):
        draw.text((94 + column * (tile + 4), 3), name, fill="black")
    for row, pictures in enumerate(rows):
        top = MARGIN + row * (tile + 4)
        draw.text((4, top + tile // 2), labels[row], fill="black")
        for column, picture in enumerate(pictures):
            big = Image.fromarray(picture).resize((tile, tile), Image.Resampling.NEAREST)
            canvas.paste(big, (92 + column * (tile + 4), top))
    return canvas


def domains(size: str) -> Image.Image:
    """Every task in every domain, a moment after the start."""
    rows = []
    for task in TASKS:
        row = []
        for domain in DOMAINS.values():
            world = World(task, domain, size)
            episode = Episode(world)
            episode.reset(world.initial_state("train", 3))
            for _ in range(8):
                action = np.zeros(world.task.size.action_dim)
                action[0], action[2], action[-1] = 0.6, -0.8, -1.0
                episode.step(action)
            row.append(episode.observe()["agentview_image"])
            world.close()
        rows.append(row)
    return sheet(rows, list(DOMAINS), list(TASKS))


def stories(size: str, frames: int = 8) -> Image.Image:
    """A demonstration of every task."""
    rows = []
    for task in TASKS:
        world = World(task, "source", size)
        episode = Episode(world)
        rng = np.random.default_rng(0)
        recording = record(episode, world.initial_state("train", 1), _actor(episode, rng))
        chosen = np.linspace(0, len(recording) - 1, frames).astype(int)
        row = []
        for index in chosen:
            episode.restore(recording.states[index][1 : 1 + world.model.nq])
            row.append(world.renderer(episode.data))
        rows.append(row)
        world.close()
    return sheet(rows, [f"{100 * i // (frames - 1)}%" for i in range(frames)], list(TASKS))


def rendering(size: str) -> Image.Image:
    """Robosuite's own picture, ours, and four times their difference."""
    rows = []
    for task in TASKS:
        world = World(task, "source", size)
        episode = Episode(world)
        rng = np.random.default_rng(0)
        recording = record(episode, world.initial_state("train", 1), _actor(episode, rng))
        episode.restore(recording.states[len(recording) // 3][1 : 1 + world.model.nq])
        stock = Renderer(world.model, fast=False)
        full, fast = stock(episode.data), world.renderer(episode.data)
        difference = np.clip(4 * np.abs(full.astype(int) - fast), 0, 255).astype(np.uint8)
        rows.append([full, fast, difference])
        stock.close()
        world.close()
    return sheet(rows, ["robosuite", "here", "difference x 4"], list(TASKS))


def regions(size: str, draws: int = 250) -> Image.Image:
    """Where objects start: grey train, blue target, orange ood; seen from above, robot on the left."""
    side, reach = 260, 0.34
    canvas = Image.new("RGB", (len(TASKS) * (side + 8), side + 2 * MARGIN), "white")
    draw = ImageDraw.Draw(canvas)
    for column, name in enumerate(TASKS):
        task = make_task(name, size)
        left = column * (side + 8) + 4
        draw.rectangle((left, MARGIN, left + side, MARGIN + side), fill=(246, 246, 242), outline="black")
        draw.text((left, 3), name, fill="black")
        for region in REGIONS:
            rng = np.random.default_rng(0)
            for _ in range(draws):
                for placement in task.sample(region, rng).values():
                    x = left + side * (placement.x + reach) / (2 * reach)
                    y = MARGIN + side * (placement.y + reach) / (2 * reach)
                    draw.ellipse((x - 1.5, y - 1.5, x + 1.5, y + 1.5), fill=COLOURS[region])
    for index, region in enumerate(REGIONS):
        draw.text((4 + 60 * index, side + MARGIN + 3), region, fill=COLOURS[region])
    return canvas


def _actor(episode: Episode, rng: np.random.Generator) -> Callable[[], Actor]:
    return lambda: make_expert(episode, rng).act


def main(arguments: Sequence[str]) -> int:
    """Draw everything into a folder."""
    folder = Path(arguments[0] if arguments else "docs/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    for size in SIZES:
        for name, draw in (
            ("domains", domains),
            ("stories", stories),
            ("rendering", rendering),
            ("regions", regions),
        ):
            path = folder / f"sim-{name}-{size}.png"
            draw(size).save(path, optimize=True)
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
