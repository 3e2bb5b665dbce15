"""Makes the film of the README: python docs/make_film.py runs/demo (after beacon demo).

Every run of the demo is rolled out from the first initial states of its evaluation, and filmed side by side.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from beacon.demo.plan import SHOWN, DemoPlan
from beacon.errors import UserError
from beacon.sim.domains import resolve_domain
from beacon.sim.evaluate import EvaluateConfig, run_batches
from beacon.sim.rollout import pictures
from beacon.sim.simulation import make_world

OUT = Path(__file__).parent / "pictures" / "demo.gif"
TITLES = {"target-only": "target only", "cotrain": "co-training", "beacon": "BEACON"}
TILE, EDGE, HEAD = 96, 3, 18  # points of a picture, of its frame and of a title
EVERY = 5  # steps of the simulation between two pictures
RATE = 12  # pictures a second
HOLD = 1.5  # seconds that the last picture stays
RUNNING, SOLVED, FAILED = (90, 96, 106), (0, 150, 90), (200, 70, 50)


def roll_out(run: Path, plan: DemoPlan, states: int) -> tuple[list[np.ndarray], list[bool]]:
    """Pictures (T, TILE, TILE, 3) of every episode of a run, and whether it was solved.

    Args:
        run: its folder.
        plan: of the demo.
        states: how many initial states, from the first on.
    """
    config = EvaluateConfig(task=plan.task, domain=plan.target_domain, episodes=states, videos=1)
    domain = resolve_domain(config.domain)
    results = [result for batch in run_batches(run, config, domain) for result in batch]
    world = make_world(plan.task, domain, config.size, image_size=TILE)
    films = [pictures(world, result.states[::EVERY], result.initial.seed) for result in results]
    world.close()
    return films, [result.outcomes["success"] >= 1 for result in results]


def compose(films: dict[str, tuple[list[np.ndarray], list[bool]]]) -> list[Image.Image]:
    """The pictures of the film: a row for each run, a column for each initial state.

    Args:
        films: by the run's method, what `roll_out` gives.
    """
    longest = max(len(film) for rows, _ in films.values() for film in rows)
    columns = max(len(rows) for rows, _ in films.values())
    size = (columns * (TILE + 2 * EDGE), len(films) * (HEAD + TILE + 2 * EDGE))
    font = ImageFont.load_default(13)
    composed = []
    for time in range(longest):
        picture = Image.new("RGB", size, "white")
        pen = ImageDraw.Draw(picture)
        for row, (method, (rows, solved)) in enumerate(films.items()):
            top = row * (HEAD + TILE + 2 * EDGE)
            ended = [time >= len(film) - 1 for film in rows]
            count = sum(end and good for end, good in zip(ended, solved, strict=True))
            pen.text((EDGE, top + 1), f"{TITLES[method]}: {count} of {len(rows)}", "black", font)
            for column, film in enumerate(rows):
                left = column * (TILE + 2 * EDGE)
                colour = RUNNING if not ended[column] else SOLVED if solved[column] else FAILED
                box = (left, top + HEAD, left + TILE + 2 * EDGE - 1, top + HEAD + TILE + 2 * EDGE - 1)
                pen.rectangle(box, fill=colour)
                frame = Image.fromarray(film[min(time, len(film) - 1)])
                picture.paste(frame, (left + EDGE, top + HEAD + EDGE))
        composed.append(picture)
    return composed


def main() -> int:
    """Write the film."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("demo", type=Path, help="the folder of beacon demo")
    parser.add_argument("--states", type=int, default=6, help="initial states, from the first on")
    parser.add_argument("--out", type=Path, default=OUT, help="the film, an animated GIF")
    options = parser.parse_args()
    missing = [method for method in SHOWN if not (options.demo / method / "config.yaml").exists()]
    if missing:
        raise UserError(f"{options.demo} has no run of {', '.join(missing)}; beacon demo makes them")
    plan = DemoPlan()
    films = {method: roll_out(options.demo / method, plan, options.states) for method in SHOWN}
    composed = [picture.quantize(96, dither=Image.Dither.NONE) for picture in compose(films)]
    times = [round(1000 / RATE)] * (len(composed) - 1) + [round(1000 * HOLD)]
    composed[0].save(options.out, save_all=True, append_images=composed[1:], duration=times, loop=0)
    print(f"{options.out}: {len(composed)} pictures, {options.out.stat().st_size / 1e6:.1f} MB")
    for method, (_, solved) in films.items():
        print(f"{TITLES[method]}: {sum(solved)} of {len(solved)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
