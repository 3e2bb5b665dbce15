"""How long experiments will take, by what the done ones took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from beacon.errors import UserError
from beacon.suites.experiment import Experiment
from beacon.suites.presets import SuitePreset
from beacon.suites.results import Folders, read_result
from beacon.suites.run_experiment import EVALUATE, TRAIN, is_trained


class Estimate:
    """Seconds a step and an episode, measured where possible."""

    def __init__(self, preset: SuitePreset, results: Path) -> None:
        self.preset = preset
        self._steps: list[tuple[str, float]] = []  # method, seconds a step
        self._episodes: list[tuple[str, float]] = []  # task, seconds an episode
        for file in sorted((results / "cells").glob("*.json")):
            try:
                self._learn(read_result(file))
            except (UserError, KeyError, TypeError, ZeroDivisionError):
                continue  # whoever shows results complains about it

    @property
    def measured(self) -> bool:
        """Whether there was anything to go by."""
        return bool(self._steps)

    def seconds(self, experiment: Experiment) -> tuple[float, float]:
        """Of training and of evaluating an experiment, on one worker."""
        step = _mean(self._steps, experiment.method) or self.preset.seconds_per_step
        episode = _mean(self._episodes, experiment.task) or self.preset.seconds_per_episode
        return experiment.steps() * step, experiment.episodes * episode

    def left(self, experiments: Sequence[Experiment], folders: Folders, workers: int) -> float:
        """Seconds for all experiments that are not done; a run that several share is trained once."""
        trained: set[str] = set()
        total = 0.0
        for experiment in experiments:
            if folders.is_done(experiment):
                continue
            training, evaluating = self.seconds(experiment)
            ready = experiment.training_key in trained or is_trained(experiment, folders.run(experiment))
            total += evaluating + (0.0 if ready else training)
            trained.add(experiment.training_key)
        return total / max(1, workers)

    def _learn(self, result: dict[str, Any]) -> None:
        configuration, seconds = result["configuration"], result["seconds"]
        size = configuration["evaluations"][0]["size"] if configuration["evaluations"] else None
        if configuration["preset"] != self.preset.train_preset or size != self.preset.size:
            return
        steps = int(configuration["optimization"]["steps"])
        if steps != self.preset.steps:
            return
        if TRAIN in seconds:
            self._steps.append((configuration["method"], seconds[TRAIN] / steps))
        if EVALUATE in seconds:
            episodes = sum(spec["episodes"] for spec in configuration["evaluations"])
            self._episodes.append((configuration["task"], seconds[EVALUATE] / episodes))


def in_words(seconds: float) -> str:
    """As people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def _mean(known: Iterable[tuple[str, float]], name: str) -> float | None:
    """Of those with the name, else of all."""
    known = list(known)
    same = [value for label, value in known if label == name] or [value for _, value in known]
    return mean(same) if same else None
