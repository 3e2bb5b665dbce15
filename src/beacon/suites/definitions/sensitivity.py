"""Greedy sweeps of the weights' hyper-parameters: one after the other takes its best value.

Selection looks at initial states of their own; the test states decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beacon.methods import METHODS
from beacon.plain import to_plain
from beacon.sim.domains import REAL_PROXY, TEXTURE
from beacon.suites.experiment import EvaluationSpec, Experiment
from beacon.suites.presets import STATES
from beacon.suites.setting import Setting, TableEntry
from beacon.suites.suite import Lookup, Scope, Suite
from beacon.suites.variants import MethodVariant

SELECTION_SEED = STATES["validation"]
INERT = "lambda_1"


@dataclass(frozen=True)
class Sweep:
    """A method and the values of its weights' options that are tried, in order.

    Args:
        method: whose defaults are the start.
        values: option of the weights -> values.
        inert: the two ends of an option that changes nothing: one seed of each shows it, in one gap.
    """

    method: str
    values: Mapping[str, tuple[float, ...]]
    inert: tuple[float, ...] = ()

    def entries(self, scope: Scope, lookup: Lookup) -> list[TableEntry]:
        """All entries as far as results tell where to go next."""
        entries: list[TableEntry] = []
        if scope.gap == TEXTURE.name:
            for value in self.inert:
                experiment = self.experiment(scope, scope.seeds[0], {INERT: value})
                entries += _both_states(f"{INERT}={value:g}", experiment, scope, f"{INERT} (inert)")
        chosen: dict[str, Any] = {}
        for name, values in self.values.items():
            tried = {
                value: [self.experiment(scope, seed, {**chosen, name: value}) for seed in scope.seeds]
                for value in values
            }
            for number in range(len(scope.seeds)):
                for value, experiments in tried.items():
                    entries += _both_states(f"{name}={value:g}", experiments[number], scope, name)
            rates = {value: _selection_rate(experiments, lookup) for value, experiments in tried.items()}
            known = [(rate, value) for value, rate in rates.items() if rate is not None]
            if len(known) < len(values):
                return entries
            best = max(rate for rate, _ in known)
            chosen[name] = next(value for rate, value in known if rate == best)
        for seed in scope.seeds:
            entries += _both_states("start", self.experiment(scope, seed, {}), scope, "chosen")
            entries += _both_states("chosen", self.experiment(scope, seed, chosen), scope, "chosen")
        return entries

    def experiment(self, scope: Scope, seed: int, values: Mapping[str, Any]) -> Experiment:
        """The method with these values, evaluated on selection and test states."""
        preset = scope.preset
        real = scope.gap == REAL_PROXY.name
        episodes = preset.real_episodes if real else preset.episodes
        setting = Setting(
            preset,
            scope.task,
            scope.gap,
            seed,
            tuple(
                EvaluationSpec(scope.gap, "train", episodes, seed_of_states)
                for seed_of_states in (SELECTION_SEED, preset.states_seed)
            ),
            target_demos=preset.real_demos if real else None,
        )
        usual = METHODS[self.method].default_auxiliary()
        auxiliary = tuple(to_plain(loss) for loss in usual)
        return setting.experiment(MethodVariant("", "", self.method, {"weighting": values}, auxiliary))


def _both_states(name: str, experiment: Experiment, scope: Scope, group: str) -> list[TableEntry]:
    return [
        TableEntry(name, name, scope.task, scope.gap, experiment, number, f"{group}, {states} states")
        for number, states in enumerate(("selection", "test"))
    ]


def _selection_rate(experiments: Sequence[Experiment], lookup: Lookup) -> float | None:
    """Over all seeds; None while one is missing."""
    rates = []
    for experiment in experiments:
        result = lookup(experiment)
        if result is None:
            return None
        rates.append(float(result["evaluations"][0]["rates"]["success"]["rate"]))
    return sum(rates) / len(rates)


# The paper states the order, not the values. λ1 is inert with its reference weights (docs/method.md).
PAPER_SWEEP = Sweep(
    "beacon-paper",
    {
        "lambda_2": (0.001, 0.01, 0.1),
        "lambda_d": (0.01, 0.02, 0.05, 0.1),
        "alpha": (0.2, 0.3, 0.4, 0.5, 0.6),
    },
    inert=(0.001, 0.1),
)
RECOMMENDED_SWEEP = Sweep(
    "beacon",
    {
        "lambda_1": (0.001, 0.01, 0.1),
        "lambda_2": (0.001, 0.01, 0.1),
        "lambda_d": (0.05, 0.1, 0.4, 1.0),
        "alpha": (0.2, 0.3, 0.4, 0.5, 0.6),
    },
)
SENSITIVITY = Suite(
    "sensitivity",
    "the paper's method: greedy sweep of λ2, λ_d and α, and λ1, which is inert",
    ("stack",),
    (TEXTURE.name, REAL_PROXY.name),
    grow=PAPER_SWEEP.entries,
)
SENSITIVITY_RECOMMENDED = Suite(
    "sensitivity-recommended",
    "our method: greedy sweep of λ1, λ2, λ_d and α",
    ("stack",),
    (TEXTURE.name,),
    grow=RECOMMENDED_SWEEP.entries,
)
