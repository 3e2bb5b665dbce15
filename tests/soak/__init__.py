"""A campaign that tries to break BEACON, with numbers: `make soak`, `make soak MINUTES=60`.

    campaign.py        what a campaign is; tries its attempts until they or the time are used up
    ledger.py          what was tried so far, in a JSON file per campaign and seed (ledgers/): a soak goes on
    page.py            docs/reliability.md from these files
    sandbox.py         processes with limits, forked from one that has imported everything
    warm.py            what it imports and looks up
    detached.py        processes to be killed
    faults.py, .c      a file layer whose n-th write, fsync, rename or creation fails
    jobs.py            what is killed and starved: training, generation, conversion, suites, saving
    kills.py           SIGKILL at random moments
    storage.py         failing calls, full disks, read-only folders, torn lines, flipped bits
    data.py            damaged and hostile datasets (mutations.py, hdf5_mutations.py, hostile_values.py)
    configurations.py  hostile command lines (command_lines.py), config.yaml files and run folders
    servers.py         hostile names in pages (hostile_pages.py), hostile clients of the servers
    numbers.py         weights under extreme losses, embeddings and budgets
    long_run.py        hundreds of thousands of steps: memory, file handles, logs

A sample of each campaign runs in `make test` (test_samples.py).
"""

import sys
from pathlib import Path

# The campaigns use the helpers of the tests: tiny datasets and runs, a browser, a server in a thread.
for _name in ("data", "report", "serving", "suites", "training"):
    if (_folder := str(Path(__file__).resolve().parents[1] / _name)) not in sys.path:
        sys.path.append(_folder)
