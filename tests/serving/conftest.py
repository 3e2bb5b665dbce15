"""Small real policies, trained or made, for the server's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving_inputs import NORMALIZATION, SPEC, TINY, save_sim_policy
from tiny_runs import one_thread, source, target

from beacon.policy import DiffusionPolicy, save_policy
from beacon.policy.deployment import DeploymentInfo

__all__ = ["one_thread", "source", "target"]


@pytest.fixture(scope="session")
def policy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy with one camera, a history of two steps and a renamed key."""
    folder = tmp_path_factory.mktemp("policy") / "tiny"
    save_policy(
        folder,
        state=DiffusionPolicy(SPEC, TINY, seed=1).state_dict(),
        ema_state=None,
        spec=SPEC,
        config=TINY,
        normalization=NORMALIZATION,
        deployment=DeploymentInfo(rename={"observation/state": "pose"}, control_rate=20.0),
    )
    return folder


@pytest.fixture(scope="session")
def sim_policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that the simulator can run; nobody has taught it anything."""
    return save_sim_policy(tmp_path_factory.mktemp("policy") / "sim")
