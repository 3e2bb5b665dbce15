"""Which initial states a suite is judged from."""

from __future__ import annotations

import pytest

from beacon.errors import UserError
from beacon.suites.presets import STATES, find_preset
from beacon.suites.suite import SUITES, Choice, select_entries

CHOICE = Choice((0,), ("cotrain",), ("stack",))


@pytest.mark.parametrize("suite", ["sim2sim", "sim2real", "contaminated"])
@pytest.mark.parametrize("states", STATES)
def test_the_policy_is_the_same_and_only_the_states_differ(suite: str, states: str) -> None:
    first = select_entries(SUITES[suite], find_preset("cpu"), CHOICE)
    other = select_entries(SUITES[suite], find_preset("cpu", states), CHOICE)
    for a, b in zip(first, other, strict=True):
        assert a.experiment.training_key == b.experiment.training_key
        assert (a.experiment.key == b.experiment.key) == (states == "first")
        assert {spec.seed for spec in b.experiment.evaluations} == {STATES[states]}


def test_unknown_states_are_refused() -> None:
    with pytest.raises(UserError, match="--states last: choose one of first, validation, test"):
        find_preset("cpu", "last")
