"""``beacon demo``: the reweighting at work on real images of handwritten digits, in about a minute.

The target is 50 correctly labelled digits. The source is 1,000 others, photographed differently (blurred
and washed out), and an annotator who confused some of them: three in ten carry the label of another digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import nn

from beacon.errors import RunError, UserError
from beacon.weighting import Reweighter

SOURCE, TARGET, EPOCHS, BATCH = 1000, 50, 30, 64
METHODS = ("target-only", "co-training", "beacon")


@dataclass(frozen=True)
class DemoOptions:
    """See the reweighting at work: recognise digits from 50 good images and 1,000 of mixed quality.

    Trains the same small network three ways on the same number of gradient steps, prints how many held-out
    target images each gets right, and draws what became of the weights.
    """

    out: Path = Path("runs/demo")
    """Folder for weights.png."""
    seeds: int = 3
    """Training runs per method."""


@dataclass(frozen=True)
class Digits:
    """Training images of both domains, source first, and held-out target images."""

    images: torch.Tensor  # (N, 1, 8, 8)
    labels: torch.Tensor  # (N,)
    wrong: NDArray[np.bool_]  # (N,) known here, hidden from every method
    test_images: torch.Tensor
    test_labels: torch.Tensor


def main(arguments: list[str]) -> int:
    """Run the verb."""
    options = tyro.cli(DemoOptions, prog="beacon demo", args=arguments)
    if options.seeds < 1:
        raise UserError(f"--seeds: at least 1 is needed, got {options.seeds}")
    from rich.progress import Progress

    # A few small matrix products gain nothing from threads.
    torch.set_num_threads(1)
    correct: dict[str, int] = dict.fromkeys(METHODS, 0)
    histories: list[NDArray[np.float64]] = []
    tests = 0
    with Progress() as progress:
        task = progress.add_task("training", total=options.seeds * len(METHODS) * EPOCHS)
        for seed in range(options.seeds):
            digits = load_digits(seed)
            tests += len(digits.test_labels)
            for method in METHODS:
                right, history = train(digits, method, seed, advance=lambda: progress.advance(task))
                correct[method] += right
                if method == "beacon":
                    histories.append(history)
    _print_table(correct, tests, options.seeds, histories, digits)
    picture = draw(digits, histories[-1], options.out)
    print(f"the last run's weights over time, and the images most kept and most faded: {picture}")
    return 0


def load_digits(seed: int) -> Digits:
    """The digits that scikit-learn ships, split and spoiled by ``seed``."""
    from scipy.ndimage import gaussian_filter
    from sklearn.datasets import load_digits as load

    data: Any = load()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.target))
    images, labels = data.images[order] / 16.0, data.target[order]
    test = slice(SOURCE + TARGET, None)
    test_images, test_labels = images[test].copy(), labels[test].copy()
    images, labels = images[: SOURCE + TARGET].copy(), labels[: SOURCE + TARGET].copy()
    images[:SOURCE] = 0.3 + 0.5 * gaussian_filter(images[:SOURCE], sigma=(0, 0.5, 0.5))
    wrong = np.arange(SOURCE + TARGET) < 0.3 * SOURCE
    labels[wrong] = (labels[wrong] + 3) % 10
    return Digits(
        torch.tensor(images, dtype=torch.float32)[:, None],
        torch.tensor(labels),
        wrong,
        torch.tensor(test_images, dtype=torch.float32)[:, None],
        torch.tensor(test_labels),
    )


def train(digits: Digits, method: str, seed: int, advance: Any) -> tuple[int, NDArray[np.float64]]:
    """Train one network; return how many test images it gets right, and the weights after every refresh."""
    torch.manual_seed(seed)
    encoder = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten()
    )
    model = nn.Sequential(encoder, nn.Linear(288, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-6)
    on_target = np.arange(SOURCE + TARGET) >= SOURCE
    rw = Reweighter(domains=on_target.astype(int), target=1, refreshes=EPOCHS)
    history = []
    for _ in range(EPOCHS):
        if method == "beacon":
            with torch.no_grad():
                features = encoder(digits.images)
                truth = nn.functional.one_hot(digits.labels, 10)
                # The bound is about losses in [0, 1], so the weights see the Brier score, not the entropy.
                losses = (model(digits.images).softmax(1) - truth).square().sum(1) / 2
            rw.refresh(losses=losses, embeddings=features)
            optimizer.param_groups[0]["weight_decay"] = rw.weight_decay
        history.append(rw.weights)
        order = torch.randperm(SOURCE + TARGET)
        if method == "target-only":
            order = SOURCE + order % TARGET
        for index in order.split(BATCH):
            loss = nn.functional.cross_entropy(
                model(digits.images[index]), digits.labels[index], reduction="none"
            )
            if method == "beacon":
                loss = rw[index] * loss
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
        advance()
    with torch.no_grad():
        right = (model(digits.test_images).argmax(1) == digits.test_labels).sum()
    return int(right), np.array(history)


def _print_table(
    correct: dict[str, int], tests: int, seeds: int, histories: list[NDArray[np.float64]], digits: Digits
) -> None:
    from rich.console import Console
    from rich.table import Table
    from sklearn.metrics import roc_auc_score

    from beacon.sim.statistics import wilson

    table = Table(title=f"Held-out target digits, {seeds} run(s) of each method, {tests} images in all")
    for heading in ("method", "correct", "accuracy", "95% interval"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for method, right in correct.items():
        low, high = wilson(right, tests)
        table.add_row(method, f"{right}", f"{right / tests:.1%}", f"{low:.1%} to {high:.1%}")
    console = Console()
    console.print(table)
    last = histories[-1][-1]
    area = roc_auc_score(~digits.wrong[:SOURCE], last[:SOURCE])
    console.print(
        f"mean weight: target {last[SOURCE:].mean():.2f}, source with the right label "
        f"{last[:SOURCE][~digits.wrong[:SOURCE]].mean():.2f}, with a wrong label "
        f"{last[digits.wrong].mean():.2f}; a right label outweighs a wrong one in {area:.0%} of pairs"
    )


def draw(digits: Digits, history: NDArray[np.float64], folder: Path) -> Path:
    """Weights over time by group, and the source images with the largest and smallest weights."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    on_target = np.arange(SOURCE + TARGET) >= SOURCE
    groups = {
        "target": on_target,
        "source, right label": ~on_target & ~digits.wrong,
        "source, wrong label": digits.wrong,
    }
    figure = plt.figure(figsize=(11, 4.2), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=[1, 1.1])
    left, right = parts
    axes = left.subplots()
    for (name, members), color in zip(groups.items(), ("#0072B2", "#009E73", "#D55E00"), strict=True):
        low, middle, high = np.quantile(history[:, members], [0.1, 0.5, 0.9], axis=1)
        axes.plot(np.arange(1, EPOCHS + 1), middle, color=color, label=name)
        axes.fill_between(np.arange(1, EPOCHS + 1), low, high, color=color, alpha=0.2, linewidth=0)
    axes.set(xlabel="epoch", ylabel="weight (median, 10% to 90%)", title="What became of the weights")
    axes.legend(frameon=False)
    order = np.argsort(history[-1][:SOURCE])
    panels = right.subplots(2, 8)
    for row, (name, chosen) in enumerate((("most kept", order[::-1][:8]), ("most faded", order[:8]))):
        for axis, index in zip(panels[row], chosen, strict=True):
            axis.imshow(digits.images[index, 0], cmap="gray", vmin=0, vmax=1)
            wrong = bool(digits.wrong[index])
            axis.set_title(
                f"“{int(digits.labels[index])}”", color="#D55E00" if wrong else "black", fontsize=10
            )
            axis.axis("off")
        panels[row][0].text(-0.1, 1.6, name, transform=panels[row][0].transAxes, fontsize=11)
    right.suptitle("Source images and their given labels (orange: wrong)", fontsize=11)
    path = folder / "weights.png"
    temporary = folder / ".weights.png.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(temporary, dpi=130, format="png")
        temporary.replace(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; choose another --out") from None
    finally:
        plt.close(figure)
    return path
