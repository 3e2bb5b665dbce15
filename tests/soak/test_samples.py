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
    folders = ["--work", str(tmp_path), "--ledgers", str(tmp_path)]
    command = [sys.executable, "-m", "soak", "--small", "--minutes", "60", *folders]
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
        ledger = Ledger.load(tmp_path / f"{campaign.name}-{origin.seed}.json", origin)
        assert ledger.next == campaign.sample and ledger.tried > 0


class Coin(Campaign):
    """Fails where a coin says so; every attempt is two faults."""

    name, what, unit, share, planned, parallel = "coin", "coins", "coins", 1.0, 20, True
    bad = 0.5

    def prepare(self) -> None:
        self.seen: dict[int, float] = {}
        self.lanes: set[Path] = set()

    def attempt(self, number: int, rng: Randomness) -> Attempt:
        self.lanes.add(self.lane)
        self.seen[number] = float(rng.random())
        return Attempt(2, "tails" if self.seen[number] < self.bad else None, {"largest": self.seen[number]})


class Mended(Coin):
    """The same attempts, with better code."""

    bad = 0.1


def test_an_interrupted_campaign_goes_on_as_if_it_had_not_been(origin: Origin, tmp_path: Path) -> None:
    whole, parts = Ledger(tmp_path / "whole.json", origin), tmp_path / "coin-0.json"
    with Coin(tmp_path) as campaign:
        run(campaign, whole, until=float("inf"))
        everything = campaign.seen
    seen: dict[int, float] = {}
    for at_most in (7, 7, 20):
        with Coin(tmp_path) as campaign:
            run(campaign, Ledger.load(parts, origin), until=float("inf"), at_most=at_most, lanes=3)
            assert not seen.keys() & campaign.seen.keys()
            seen |= campaign.seen
            assert campaign.lanes <= {tmp_path / f"lane-{lane}" for lane in range(3)}
    assert seen == everything and len(seen) == 20
    ledger = Ledger.load(parts, origin)
    assert (ledger.tried, ledger.failed) == (40, whole.failed) and ledger.failures == whole.failures
    assert (
        0 < ledger.failed < 40
        and ledger.complete
        and ledger.measured == {"largest": max(everything.values())}
    )
    assert Ledger.load(parts, Origin(origin.seed + 1, "", "")).next == 0  # another seed begins anew
    with Coin(tmp_path) as campaign:
        run(campaign, Ledger(tmp_path / "late.json", origin), until=time.monotonic() - 1)
        assert campaign.seen == {}


def test_what_failed_is_tried_again_with_the_next_commit_alone(origin: Origin, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "coin-0.json", origin)
    with Coin(tmp_path) as campaign:
        run(campaign, ledger, until=float("inf"))
        bad = sorted(number for number, value in campaign.seen.items() if value < Coin.bad)
        left = sorted(number for number, value in campaign.seen.items() if value < Mended.bad)
    for commit, again, failing in (("next", bad, left), ("next", [], left), ("other", left, left)):
        ledger = Ledger.load(ledger.file, Origin(origin.seed, commit, origin.machine))
        with Mended(tmp_path) as campaign:
            run(campaign, ledger, until=float("inf"))
            assert sorted(campaign.seen) == again
        assert [failure.attempt for failure in ledger.failures] == failing
        assert (ledger.tried, ledger.failed, ledger.mended) == (40, 2 * len(failing), len(bad) - len(left))


def test_a_campaign_whose_numbers_mean_other_attempts_begins_again(origin: Origin, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "coin-0.json", origin)
    for plan, anew in (("", True), ("more calls", True), ("more calls", False)):
        survived = ledger.survived
        ledger = Ledger.load(ledger.file, origin)
        with Coin(tmp_path) as campaign:
            campaign.plan = plan
            run(campaign, ledger, until=float("inf"))
            bad = [number for number, value in campaign.seen.items() if value < Coin.bad]
        assert (ledger.next, ledger.complete, ledger.plan) == (20, True, plan)
        assert sorted(campaign.seen) == (list(range(20)) if anew else [])
        if anew:
            assert (ledger.tried, ledger.failed) == (survived + 40, 2 * len(bad))
        else:
            assert ledger.survived == survived


def test_the_page_has_a_row_for_every_campaign_that_was_tried(origin: Origin, tmp_path: Path) -> None:
    for seed, tried in ((3, 1000), (12, 200)):
        ledger = Ledger(tmp_path / f"coin-{seed}.json", Origin(seed, "abc", "a machine"))
        ledger.add(tried, None, {"largest": tried / 4000}, 45.0)
        ledger.add(17, "tails", {}, 15.0)
        ledger.mended = 1
        ledger.save()
    write_page(tmp_path / "page.md", tmp_path, [Coin, Numbers])
    page = (tmp_path / "page.md").read_text()
    assert "| coin | coins | coins | 1,234 | 1,200 | 34 | 2.0 |" in page
    assert "| numbers |" not in page
    assert "coin: largest 0.25" in page and "Not all attempts were made yet of: coin (4 made)." in page
    assert "hold since code or campaign was mended: coin 2." in page
    for said in ("coin, seed 3: commit abc (2)", "coin, seed 12: commit abc (2)", "Machine: a machine."):
        assert said in page
    assert "tried    217 coins, survived    200, failed  17" in format_line(Coin, ledger)
