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
TILE, EDGE, HEAD = 56, 2, 18  # points of a picture, of its frame and of a title
ACROSS = 12  # pictures in a line
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
    """The pictures of the film: some lines for each run, a place in them for each initial state.

    Args:
        films: by the run's method, what `roll_out` gives.
    """
    longest = max(len(film) for shown, _ in films.values() for film in shown)
    most = max(len(shown) for shown, _ in films.values())
    place = TILE + 2 * EDGE
    height = HEAD + -(-most // ACROSS) * place
    font = ImageFont.load_default(13)
    composed = []
    for time in range(longest):
        picture = Image.new("RGB", (min(most, ACROSS) * place, len(films) * height), "white")
        pen = ImageDraw.Draw(picture)
        for row, (method, (shown, solved)) in enumerate(films.items()):
            ended = [time >= len(film) - 1 for film in shown]
            count = sum(end and good for end, good in zip(ended, solved, strict=True))
            pen.text((EDGE, row * height + 1), f"{TITLES[method]}: {count} of {len(shown)}", "black", font)
            for number, film in enumerate(shown):
                left, top = number % ACROSS * place, row * height + HEAD + number // ACROSS * place
                colour = RUNNING if not ended[number] else SOLVED if solved[number] else FAILED
                pen.rectangle((left, top, left + place - 1, top + place - 1), fill=colour)
                frame = Image.fromarray(film[min(time, len(film) - 1)])
                picture.paste(frame, (left + EDGE, top + EDGE))
        composed.append(picture)
    return composed


def main() -> int:
    """Write the film."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("demo", type=Path, help="the folder of beacon demo")
    parser.add_argument("--states", type=int, default=24, help="initial states, from the first on")
    parser.add_argument("--out", type=Path, default=OUT, help="the film, an animated GIF")
    options = parser.parse_args()
    missing = [method for method in SHOWN if not (options.demo / method / "config.yaml").exists()]
    if missing:
        raise UserError(f"{options.demo} has no run of {', '.join(missing)}; beacon demo makes them")
    plan = DemoPlan()
    films = {method: roll_out(options.demo / method, plan, options.states) for method in SHOWN}
    composed = [picture.quantize(48, dither=Image.Dither.NONE) for picture in compose(films)]
    times = [round(1000 / RATE)] * (len(composed) - 1) + [round(1000 * HOLD)]
    composed[0].save(options.out, save_all=True, append_images=composed[1:], duration=times, loop=0)
    print(f"{options.out}: {len(composed)} pictures, {options.out.stat().st_size / 1e6:.1f} MB")
    for method, (_, solved) in films.items():
        print(f"{TITLES[method]}: {sum(solved)} of {len(solved)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
