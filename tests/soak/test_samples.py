"""A sample of every campaign of `make soak`, another one with every commit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from soak.campaign import Attempt, Campaign, Randomness, run
from soak.configurations import Configurations
from soak.data import Data
from soak.kills import Kills
from soak.ledger import Ledger, Origin
from soak.numbers import Numbers
from soak.page import format_line, write_page
from soak.servers import Servers
from soak.storage import Storage


@pytest.fixture(scope="session")
def origin() -> Origin:
    here = Origin.here(0)
    return Origin(zlib.crc32(here.commit.encode()), here.commit, here.machine)


def test_a_sample_of_every_campaign(origin: Origin, tmp_path: Path) -> None:
    # In a process of its own, because the one that the others are forked from is started once.
    command = [sys.executable, "-m", "soak", "--small", "--minutes", "60", "--work", str(tmp_path)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    done = subprocess.run(
        [*command, "--seed", str(origin.seed)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for campaign in (Kills, Storage, Data, Configurations, Servers, Numbers):
        assert f"{campaign.name:<15} tried" in done.stdout
        ledger = Ledger.load(tmp_path / f"{campaign.name}.json", origin)
        assert ledger.next == campaign.sample and ledger.tried > 0


class Coin(Campaign):
    """Fails where a coin says so; every attempt is two faults."""

    name, what, unit, share, planned = "coin", "coins", "coins", 1.0, 20

    def prepare(self) -> None:
        self.seen: list[float] = []

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        self.seen.append(float(rng.random()))
        return Attempt(2, "tails" if self.seen[-1] < 0.5 else None, {"largest": self.seen[-1]})


def test_an_interrupted_campaign_goes_on_as_if_it_had_not_been(origin: Origin, tmp_path: Path) -> None:
    whole, parts = Ledger(tmp_path / "whole.json", origin), tmp_path / "coin.json"
    with Coin(tmp_path) as campaign:
        run(campaign, whole, until=float("inf"))
        everything = campaign.seen
    seen = []
    for at_most in (7, 7, 20):
        with Coin(tmp_path) as campaign:
            run(campaign, Ledger.load(parts, origin), until=float("inf"), at_most=at_most)
            seen += campaign.seen
    assert seen == everything and len(seen) == 20
    ledger = Ledger.load(parts, origin)
    assert (ledger.tried, ledger.failed) == (40, whole.failed) and ledger.problems == whole.problems
    assert 0 < ledger.failed < 40 and ledger.complete and ledger.measured == {"largest": max(everything)}
    assert Ledger.load(parts, Origin(1, origin.commit, origin.machine)).next == 0  # another seed begins anew
    with Coin(tmp_path) as campaign:
        run(campaign, Ledger(tmp_path / "late.json", origin), until=time.monotonic() - 1)
        assert campaign.seen == []


def test_the_page_has_a_row_for_every_campaign_that_was_tried(origin: Origin, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "coin.json", origin)
    ledger.add(1200, None, {"largest": 0.25}, 90.0)
    ledger.add(34, "tails", {}, 30.0)
    ledger.save()
    write_page(tmp_path / "page.md", tmp_path, [Coin, Numbers])
    page = (tmp_path / "page.md").read_text()
    assert "| coin | coins | coins | 1,234 | 1,200 | 34 | 2.0 |" in page
    assert "| numbers |" not in page
    assert "coin: largest 0.25" in page and "Not all attempts were made yet of: coin (2 made)." in page
    for said in (origin.commit, f"seed {origin.seed}", origin.machine):
        assert said in page
    assert "tried   1234 coins, survived   1200, failed  34" in format_line(Coin, ledger)
