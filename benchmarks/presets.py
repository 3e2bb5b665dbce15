"""Parameters, memory and time a step of every preset of ``beacon train`` on this machine.

python benchmarks/presets.py SOURCE TARGET

prints a Markdown table. Each preset is rehearsed as ``beacon train --dry-run`` does it, with the default
method on the given demonstrations; ``tiny`` is the preset of ``beacon suite`` of that name. Memory is what
the process had at its peak, so every preset has a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from beacon.methods import DEFAULT_METHOD, METHODS
from beacon.plain import changed
from beacon.progress_display import in_words
from beacon.suites.presets import PRESETS as SUITES
from beacon.training.config import TrainConfig, preset_config, preset_data
from beacon.training.rehearsal import rehearse

ORDER = ("cpu", "gpu", "paper")
TARGET_DEMOS = 10


def configurations(source: Path, target: Path) -> Iterator[tuple[str, TrainConfig]]:
    """Name and configuration of every preset, the smallest first.

    Args:
        source: demonstrations.
        target: demonstrations of the other domain.
    """
    for preset in ORDER:
        policy, optimization = preset_config(preset)
        config = TrainConfig(
            method=DEFAULT_METHOD,
            options=METHODS[DEFAULT_METHOD].default_options(),
            auxiliary=METHODS[DEFAULT_METHOD].default_auxiliary(),
            preset=preset,  # type: ignore[arg-type]
            data=replace(preset_data(preset), source=(source,), target=target, target_demos=TARGET_DEMOS),
            policy=policy,
            optimization=optimization,
        )
        if preset == "cpu":
            tiny = SUITES["tiny"]
            yield (
                "tiny",
                replace(
                    config,
                    data=replace(config.data, image_size=tiny.image_size),
                    policy=changed(policy, tiny.policy),
                    optimization=replace(optimization, **tiny.optimization),
                ),
            )
        yield preset, config


def row(name: str, config: TrainConfig) -> str:
    """A line of the table.

    Args:
        name: of the preset.
        config: its configuration.
    """
    expected, optimization = rehearse(config), config.optimization
    return (
        f"| `{name}` | {expected.parameters / 1e6:.2f} M | {config.data.image_size or 'as recorded'} | "
        f"{optimization.batch_size} × {config.policy.draws} | {optimization.steps:,} | "
        f"{expected.memory_bytes / 2**30:.1f} | {expected.seconds_per_step:.2g} | "
        f"{expected.seconds_per_refresh:.2g} | {in_words(expected.seconds)} |"
    )


def main(source: str, target: str) -> None:
    """Print the table."""
    print(
        "| preset | parameters | images | batch × draws | steps | memory, GiB | s a step | s a refresh | "
        "whole run |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, config in configurations(Path(source), Path(target)):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            print(pool.submit(row, name, config).result(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
