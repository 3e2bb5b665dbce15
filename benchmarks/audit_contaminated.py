"""Whom the audit accuses in the suites' stack: python benchmarks/audit_contaminated.py FOLDER.

Training weights depend on it, and stored results on the weights: whoever changes the audit looks here before
and after. The source has 200 demonstrations, all sound, or 30% of them corrupted in five kinds; ten target
demonstrations are those of a training seed, with another table. All are made in FOLDER where they are not
there, and seen at 64 pixels, as training sees them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from beacon.audit.recordings import Recording, read_recordings
from beacon.audit.run import AuditOptions, judge_recordings
from beacon.data import EpisodeSet
from beacon.data.corruption import NONE, corruption_of
from beacon.data.mapping import ObservationMapping
from beacon.sim.generate import GenerateConfig, generate
from beacon.suites.datasets import equal_corruptions, provide
from beacon.suites.experiment import DatasetSpec
from beacon.suites.setting import TARGET_SEED

SEEDS = (101, 102, 103, 10, 11, 12)  # of training
DEMOS, TARGET_DEMOS, SHARE, PIXELS = 200, 10, 0.3, 64


def look(path: Path) -> tuple[list[Recording], list[str]]:
    """What the audit sees of a dataset, and the corruption of each demonstration."""
    episodes = EpisodeSet.load(path, mapping=ObservationMapping(image_size=PIXELS))
    corruptions = [corruption_of(attributes) for attributes in episodes.episode_attributes]
    return read_recordings(episodes), corruptions


def target_of(seed: int, folder: Path) -> list[Recording]:
    """Target demonstrations of a training seed."""
    path = folder / f"stack-texture-{seed}.hdf5"
    if not path.exists():
        generate(GenerateConfig("stack", path, TARGET_DEMOS, domain="texture", seed=TARGET_SEED + seed))
    return look(path)[0]


def main() -> None:
    """Print a line for each source and training seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    spec = DatasetSpec("stack", "source", DEMOS, corruptions=equal_corruptions("stack", SHARE))
    sources = {
        "contaminated": look(provide(spec, asked.folder)),
        "clean": look(provide(spec.sound(), asked.folder)),
    }
    for seed in asked.seeds:
        target = target_of(seed, asked.folder)
        for name, (recordings, corruptions) in sources.items():
            accused = Counter(
                corruptions[n] for n in judge_recordings(recordings, target, AuditOptions()).accused
            )
            counts = [
                f"{kind} {accused[kind]} of {count}" for kind, count in sorted(Counter(corruptions).items())
            ]
            said = ", ".join(text.replace(f"{NONE} ", "sound ") for text in counts)
            print(f"{name:<12} target of seed {seed:<4} accused: {said}", flush=True)


if __name__ == "__main__":
    main()
