"""Parameters, memory and time a step of every preset of ``beacon train`` on this machine.

python benchmarks/presets.py SOURCE TARGET

prints a Markdown table. Each preset is rehearsed as ``beacon train --dry-run`` does it, with the default
method on the given demonstrations.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from beacon.methods import DEFAULT_METHOD, METHODS
from beacon.policy.config import PRESETS
from beacon.training.config import TrainConfig, preset_config, preset_data
from beacon.training.rehearsal import rehearse


def main(source: str, target: str) -> None:
    """Print the table."""
    print("| preset | parameters | images | batch × draws | steps | memory, GiB | s a step | whole run, h |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for preset in PRESETS:
        policy, optimization = preset_config(preset)
        data = replace(preset_data(preset), source=(Path(source),), target=Path(target))
        config = TrainConfig(
            method=DEFAULT_METHOD,
            options=METHODS[DEFAULT_METHOD].default_options(),
            preset=preset,  # type: ignore[arg-type]
            data=data,
            policy=policy,
            optimization=optimization,
        )
        expected = rehearse(config)
        print(
            f"| `{preset}` | {expected.parameters / 1e6:.1f} M | {data.image_size or 'as recorded'} | "
            f"{optimization.batch_size} × {policy.draws} | {optimization.steps:,} | "
            f"{expected.memory_bytes / 2**30:.1f} | {expected.seconds_per_step:.2g} | "
            f"{expected.seconds / 3600:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
