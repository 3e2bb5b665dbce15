"""The paper's experiments, and ours, as grids of runs: resumable, keyed by what decides them.

A suite is data (`grids`, of `rows`), a cell is one run with its evaluations (`cell`), `runner` does cells,
and `results` keeps what came of them.
"""
