"""The paper's experiments, and ours, as tables of runs: resumable, keyed by what decides them.

An `experiment` is one training run with its evaluations, as data. A `setting` gives every method variant
(`variants`) its experiment; a `suite` is settings and variants; `definitions` has those of this package.
`runner` runs experiments (`run_experiment`), `results` keeps what came of them, `tables`, `sections`,
`figures` and `page` show it.
"""
