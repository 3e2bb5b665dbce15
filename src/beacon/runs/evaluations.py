"""eval/*.json: results of ``beacon evaluate``, how they are called and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon.errors import UserError
from beacon.runs.layout import EVALUATIONS
from beacon.runs.reading import damaged, read_json


def evaluation_name(
    *, task: str, size: str, domain: str, region: str, seed: int, episodes: int | None = None
) -> str:
    """The name of the file with the result of an evaluation.

    Args:
        task: task of the simulator.
        size: of its images and episodes.
        domain: name of the domain, or the YAML file that describes it.
        region: where objects start.
        seed: of the initial states.
        episodes: their number, where results with several numbers of them are kept.
    """
    parts = [task, size, Path(domain).stem, region, str(seed), *([] if episodes is None else [str(episodes)])]
    return f"{'-'.join(parts)}.json"


def evaluation_file(run: Path, **setting: Any) -> Path:
    """Where a run keeps the result of an evaluation.

    Args:
        run: the run folder.
        setting: arguments of `evaluation_name`.
    """
    return run / EVALUATIONS / evaluation_name(**setting)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One result file."""

    path: Path
    result: Mapping[str, Any]  # as JSON has it; checked by `read_evaluation`

    @property
    def setting(self) -> tuple[str, str, str, str]:
        """Task, size, domain and region."""
        task, size, domain, region = (
            str(self.result.get(key, "?")) for key in ("task", "size", "domain", "region")
        )
        return task, size, domain, region

    @property
    def states(self) -> str:
        """Identifies the initial states: results with the same ones can be paired."""
        return str(self.result.get("initial_states", {}).get("sha256", self.path))

    @property
    def versions(self) -> dict[str, str]:
        """Software that the evaluation ran with."""
        return {str(name): str(version) for name, version in self.result.get("versions", {}).items()}

    def films(self, outcome: str) -> list[Path]:
        """Films of episodes, in a folder beside the file.

        Args:
            outcome: success or failure.
        """
        return sorted(self.path.with_suffix("").glob(f"{outcome}-*.mp4"))

    def outcomes(self, criterion: str) -> list[float]:
        """One number an episode."""
        return [float(episode.get(criterion, 0.0)) for episode in self.result["episodes"]]

    @property
    def criteria(self) -> list[str]:
        """What was measured, ``success`` first; names that say the same as another are left out."""
        names: list[str] = []
        for name in self.result["rates"]:
            if all(self.outcomes(name) != self.outcomes(other) for other in names):
                names.append(name)
        return names


def read_evaluation(file: Path) -> Evaluation:
    """A result file; a UserError where it is damaged.

    Args:
        file: as ``beacon evaluate`` wrote it.
    """
    try:
        result = read_json(file)
    except FileNotFoundError:
        raise UserError(f"{file}: there is no such file") from None
    if not isinstance(result, dict):
        raise damaged(file, "not a result of beacon evaluate")
    episodes, rates = result.get("episodes"), result.get("rates")
    if not isinstance(episodes, list) or not episodes or not all(isinstance(e, dict) for e in episodes):
        raise damaged(file, "it has no episodes")
    if not isinstance(rates, dict) or not rates:
        raise damaged(file, "it has no success rates")
    for name in ("initial_states", "versions"):
        if not isinstance(result.get(name, {}), dict):
            raise damaged(file, f"'{name}' is not a mapping")
    for criterion in rates:
        for episode in episodes:
            if not _is_outcome(episode.get(criterion, 0.0)):
                raise damaged(file, f"'{criterion}' of an episode is not a number from 0 to 1")
    return Evaluation(file, result)


def _is_outcome(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1  # also no for NaN
