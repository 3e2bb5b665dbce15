"""``python -m soak``: try all campaigns for so many minutes, print a table, write docs/reliability.md.

Exit code: 0 if everything held, 1 if something failed, 2 if the soak itself could not be run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from beacon.errors import UserError
from soak.campaign import Campaign, run
from soak.ledger import LEDGERS, ROOT, Ledger, Origin
from soak.page import format_line, write_page

# One thread each: results are compared to the bit, and several soaks may share a machine.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("MUJOCO_GL", "egl")


def campaigns() -> list[type[Campaign]]:
    """All of them, in the order of the table."""
    from soak.configurations import Configurations
    from soak.data import Data
    from soak.kills import Kills
    from soak.long_run import LongRun
    from soak.numbers import Numbers
    from soak.servers import Servers
    from soak.storage import Storage

    return [Kills, Storage, Data, Configurations, Servers, Numbers, LongRun]


def parse(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0, help="in all; default 20")
    parser.add_argument("--seed", type=int, default=0, help="makes the attempts; the page adds up all seeds")
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1, help="attempts side by side")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="campaigns to try")
    parser.add_argument("--attempts", type=int, default=None, help="at most so many of each campaign")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "soak", help="folder for its files")
    parser.add_argument("--ledgers", type=Path, default=LEDGERS, help="folder of what was tried so far")
    parser.add_argument("--page", type=Path, default=None, help="the page to write from all ledgers")
    parser.add_argument("--small", action="store_true", help="only the sample of `make test`")
    parser.add_argument("--again", action="store_true", help="forget what was tried so far")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """See the head of this file."""
    asked = parse(words)
    known = {campaign.name: campaign for campaign in campaigns()}
    if unknown := [name for name in asked.only if name not in known]:
        raise UserError(f"--only {unknown[0]}: choose of {', '.join(known)}")
    chosen = [known[name] for name in asked.only] or list(known.values())
    if asked.small:
        chosen = [campaign for campaign in chosen if campaign.sample]
    origin = Origin.here(asked.seed)
    work: Path = asked.work.resolve()
    ledger_folder: Path = asked.ledgers.resolve()
    ledgers = []
    end = time.monotonic() + 60 * asked.minutes
    shares = sum(campaign.share for campaign in chosen)
    for campaign in chosen:
        ledger = Ledger.load(ledger_folder / f"{campaign.name}-{asked.seed}.json", origin)
        if asked.again:
            ledger = Ledger(ledger.file, origin)
        # What a campaign does not need of its share is left to those after it.
        until = time.monotonic() + (end - time.monotonic()) * campaign.share / shares
        shares -= campaign.share
        _try(campaign, ledger, work, until, asked)
        ledgers.append(ledger)
        print(format_line(campaign, ledger), flush=True)
    if asked.page is not None:
        write_page(asked.page, ledger_folder, list(known.values()))
    return 1 if any(ledger.failed for ledger in ledgers) else 0


def _try(
    campaign: type[Campaign], ledger: Ledger, work: Path, until: float, asked: argparse.Namespace
) -> None:
    attempts = campaign.sample if asked.small else asked.attempts
    said: set[tuple[int, str]] = set()

    def notify(now: Ledger) -> None:
        for failure in now.failures:
            if failure.commit == now.origin.commit and (failure.attempt, failure.commit) not in said:
                said.add((failure.attempt, failure.commit))
                line = f"{campaign.name}: attempt {failure.attempt}: {failure.problem}"
                print(line, file=sys.stderr, flush=True)

    # Where nobody else works: soaks with several seeds may run side by side.
    folder = work / f"{campaign.name}-{ledger.origin.seed}"
    made_with = folder / "commit"
    if not made_with.exists() or made_with.read_text() != ledger.origin.commit:
        shutil.rmtree(folder, ignore_errors=True)  # results of other code are none to compare with
        folder.mkdir(parents=True)
        made_with.write_text(ledger.origin.commit)
    if not ledger.complete or ledger.failures:
        with campaign(folder, small=asked.small) as prepared:
            run(prepared, ledger, until=until, at_most=attempts, lanes=asked.lanes, notify=notify)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"soak: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("soak: interrupted; the same command goes on", file=sys.stderr)
        sys.exit(130)
