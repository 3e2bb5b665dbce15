from __future__ import annotations

import numpy as np
import pytest

from beacon.errors import UserError
from beacon.sim.regions import REGIONS
from beacon.sim.tasks import SIZES, TASKS, make_task


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", TASKS)
def test_target_and_ood_are_disjoint_parts_of_train(name: str, size: str) -> None:
    task = make_task(name, size)
    rng = np.random.default_rng(0)
    for region, other in (("target", "ood"), ("ood", "target")):
        for _ in range(500):
            for thing, placement in task.sample(region, rng).items():
                where = task.size.regions[thing]
                assert where[region].contains(placement.x, placement.y)
                assert where["train"].contains(placement.x, placement.y)
                assert not where[other].contains(placement.x, placement.y)


@pytest.mark.parametrize("name", TASKS)
def test_ood_and_target_differ_for_every_task(name: str) -> None:
    task = make_task(name, "small")
    assert any(where["ood"] != where["target"] for where in task.size.regions.values())


def test_train_region_covers_both_halves() -> None:
    task = make_task("stack", "small")
    rng = np.random.default_rng(1)
    drawn = [task.sample("train", rng)["cubeA"] for _ in range(200)]
    assert {placement.y > 0 for placement in drawn} == {True, False}


def test_objects_never_overlap() -> None:
    task = make_task("stack", "small")
    rng = np.random.default_rng(2)
    for region in REGIONS:
        for _ in range(100):
            assert task.valid(task.sample(region, rng))


def test_unknown_names_are_the_users_errors() -> None:
    with pytest.raises(UserError, match="no region 'nowhere'"):
        make_task("stack", "small").sample("nowhere", np.random.default_rng(0))
    with pytest.raises(UserError, match="no task 'juggle'"):
        make_task("juggle")
    with pytest.raises(UserError, match="no size 'huge'"):
        make_task("stack", "huge")
