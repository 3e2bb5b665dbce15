"""Writes the notebook on the Reweighter, its page and its pictures: python docs/notebooks/make_reweighter.py.

The cells below are executed here, in this process; what they print and draw becomes their output.
"""

from __future__ import annotations

import base64
import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).parent
NOTEBOOK, PAGE = FOLDER / "reweighter.ipynb", FOLDER / "reweighter.md"
PICTURES = FOLDER / "pictures"

CELLS: list[tuple[str, str]] = [
    (
        "markdown",
        """\
# The Reweighter, with pictures

A toy co-training problem in two dimensions. A hand must move to a goal. The *target* domain has 5
demonstrations. The *source* has 40: their observations are shifted a little, and 12 of them are **mirrored**,
so that their actions move the hand away from the goal. No method is told which. The `Reweighter` learns a
weight for every demonstration beside a small policy.""",
    ),
    (
        "code",
        """\
import numpy as np
import torch
from torch import nn

from beacon import Reweighter

torch.manual_seed(0)
torch.set_num_threads(1)
rng = np.random.default_rng(0)


def demonstrations(count, first, shift, mirrored=0):
    observations, actions, episodes = [], [], []
    for number in range(count):
        goal, hand = rng.uniform(-1, 1, (2, 2))
        for _ in range(15):
            motion = np.clip(goal - hand, -0.3, 0.3)
            observations.append([*(hand + shift), *(goal + shift)])
            actions.append(motion * (-1 if number < mirrored else 1) + 0.02 * rng.normal(size=2))
            episodes.append(first + number)
            hand = hand + 0.4 * motion
    return np.array(observations, np.float32), np.array(actions, np.float32), np.array(episodes)


source = demonstrations(40, 0, shift=0.15, mirrored=12)
target = demonstrations(5, 40, shift=0.0)
observations, actions, episodes = (np.concatenate(pair) for pair in zip(source, target, strict=True))
domains = np.where(episodes < 40, "sim", "real")
print(len(episodes), "samples,", np.sum(domains == "real"), "of them target")""",
    ),
    (
        "markdown",
        """\
## Training with weights

The only lines that BEACON adds are `Reweighter.recommended`, `refresh` and the factor `rw[index]`.""",
    ),
    (
        "code",
        """\
EPOCHS = 30
x, y = torch.from_numpy(observations), torch.from_numpy(actions)


def train(reweight):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
    policy = nn.Sequential(encoder, nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    rw = Reweighter.recommended(domains, target="real", episodes=episodes, planned_refreshes=EPOCHS)
    history = []
    for _ in range(EPOCHS):
        if reweight:
            with torch.no_grad():
                losses = (policy(x) - y).square().mean(1)
                rw.refresh(losses=losses, embeddings=encoder(x), actions=actions)
        history.append([rw.episode_weights()[i] for i in range(45)])
        for index in torch.randperm(len(x)).split(64):
            loss = (rw[index] * (policy(x[index]) - y[index]).square().mean(1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return policy, rw, np.array(history)


uniform, _, _ = train(reweight=False)
weighted, rw, history = train(reweight=True)
print(rw)""",
    ),
    (
        "markdown",
        """\
## What the weights did

Each line is the weight of one demonstration over the refreshes.""",
    ),
    (
        "code",
        """\
import matplotlib.pyplot as plt

groups = {"mirrored source": range(12), "sound source": range(12, 40), "target": range(40, 45)}
colours = {"mirrored source": "#c0392b", "sound source": "#2471a3", "target": "#1e8449"}
figure, axis = plt.subplots(figsize=(6.4, 3.2))
for name, members in groups.items():
    axis.plot(history[:, list(members)], color=colours[name], linewidth=0.7)
    axis.plot([], [], color=colours[name], label=name)
axis.set(xlabel="refresh", ylabel="weight of a demonstration", ylim=(0, None))
axis.legend(frameon=False)
figure.tight_layout()
figure""",
    ),
    (
        "code",
        """\
final = history[-1]
sound, mirrored = final[12:40], final[:12]
auc = np.mean(sound[:, None] > mirrored) + 0.5 * np.mean(sound[:, None] == mirrored)
print(f"a sound demonstration outweighs a mirrored one in {auc:.0%} of pairs")
print({name: round(float(final[list(members)].mean()), 2) for name, members in groups.items()})""",
    ),
    (
        "markdown",
        """\
## What it was good for

The error of both policies on new demonstrations of the target domain.""",
    ),
    (
        "code",
        """\
new_x, new_y, _ = demonstrations(200, 0, shift=0.0)
errors = {}
for name, policy in (("uniform weights", uniform), ("BEACON's weights", weighted)):
    with torch.no_grad():
        errors[name] = float((policy(torch.from_numpy(new_x)) - torch.from_numpy(new_y)).square().mean())
    print(f"{name:17s} mean squared error {errors[name]:.4f}")""",
    ),
    (
        "code",
        """\
figure, axis = plt.subplots(figsize=(6.4, 3.2))
order = np.argsort(-final)
labels = np.repeat(list(groups), [len(members) for members in groups.values()])
axis.bar(range(45), final[order], color=[colours[labels[i]] for i in order])
axis.set(xlabel="demonstrations by weight", ylabel="final weight", xticks=[])
figure.tight_layout()
figure""",
    ),
    (
        "markdown",
        """\
## Limits of this toy

The mirrored demonstrations contradict a sound majority, which is what the check of actions needs. One seed, a
toy. The [findings](../findings.md) have the measurements, the [limits](../limits.md) what was not tried.""",
    ),
]


def execute(source: str, names: dict[str, Any]) -> tuple[str, bytes | None]:
    """What a cell prints, and the picture that its last line gives.

    Args:
        source: code of the cell.
        names: what the cells before have defined; the cell adds to it.
    """
    *_, last = source.splitlines()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "cell", "exec"), names)
    if last != "figure":
        return printed.getvalue(), None
    picture = io.BytesIO()
    names["figure"].savefig(picture, format="png", dpi=90, metadata={"Software": None})
    return printed.getvalue(), picture.getvalue()


def notebook_and_page() -> tuple[nbformat.NotebookNode, str, dict[str, bytes], dict[str, Any]]:
    """The executed notebook, the same as a page, its pictures by name, and what the cells defined."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {}
    pictures: dict[str, bytes] = {}
    cells, page, count = [], [], 0
    for number, (cell_type, source) in enumerate(CELLS):
        identity = {"id": f"cell-{number}"}
        if cell_type == "markdown":
            cells.append(nbformat.v4.new_markdown_cell(source, **identity))
            page.append(source)
            continue
        count += 1
        printed, picture = execute(source, names)
        cell = nbformat.v4.new_code_cell(source, execution_count=count, **identity)
        page.append(f"```python\n{source}\n```")
        if printed:
            cell.outputs.append(nbformat.v4.new_output("stream", name="stdout", text=printed))
            page.append(f"```text\n{printed}```")
        if picture:
            data = {"image/png": base64.b64encode(picture).decode(), "text/plain": "<Figure>"}
            cell.outputs.append(
                nbformat.v4.new_output("execute_result", data=data, execution_count=count, metadata={})
            )
            name = f"reweighter-{len(pictures) + 1}.png"
            pictures[name] = picture
            page.append(f"![the figure of the cell above](pictures/{name})")
        cells.append(cell)
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=kernel), "\n\n".join(page) + "\n", pictures, names


def animation(history: Any, groups: dict[str, Any], colours: dict[str, str], file: Path) -> None:
    """The weights of all demonstrations, refresh by refresh, as a GIF.

    Args:
        history: weights, (refreshes, demonstrations).
        groups: numbers of demonstrations by group.
        colours: of the groups.
        file: to write.
    """
    import matplotlib.pyplot as plt
    from PIL import Image

    frames = []
    figure, axis = plt.subplots(figsize=(6.4, 2.6))
    for refresh, weights in enumerate(history, 1):
        axis.clear()
        for name, members in groups.items():
            axis.bar(list(members), weights[list(members)], color=colours[name], label=name)
        axis.set(ylim=(0, history.max() * 1.05), xlabel="demonstration", ylabel="weight")
        axis.set_title(f"refresh {refresh} of {len(history)}", fontsize=10)
        axis.legend(frameon=False, loc="upper left", fontsize=8)
        figure.tight_layout()
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=90)
        frames.append(Image.open(picture).convert("P", palette=Image.Palette.ADAPTIVE, colors=32))
    durations = [150] * (len(frames) - 1) + [2000]
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)


def main() -> int:
    """Write the notebook, the page, the pictures and the animation."""
    notebook, page, pictures, names = notebook_and_page()
    nbformat.validate(notebook)
    nbformat.write(notebook, NOTEBOOK)
    PAGE.write_text(page)
    PICTURES.mkdir(exist_ok=True)
    for name, picture in pictures.items():
        (PICTURES / name).write_bytes(picture)
    animation(names["history"], names["groups"], names["colours"], PICTURES / "reweighter.gif")
    print(f"wrote {NOTEBOOK}, {PAGE} and {len(pictures) + 1} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
