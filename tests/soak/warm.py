"""Everything that a command imports or looks up when it is first asked, once for all processes to come."""

from __future__ import annotations

from importlib import import_module

from beacon.cli.train_options import choose, parse_new
from beacon.methods import METHODS
from soak.jobs import FEW_STEPS, TRAINING

LATE = (
    "beacon.cli.main",
    "beacon.data.card_writing",
    "beacon.data.curation",
    "beacon.data.formats.lerobot",
    "beacon.data.formats.lerobot_writer",
    "beacon.data.formats.robomimic_copy",
    "beacon.data.formats.robosuite_actions",
    "beacon.data.weights_export",
    "beacon.methods.networks",
    "beacon.runs.demonstrations",
    "beacon.weighting.discrepancy.neighbors",
    "beacon.weighting.reweighter",
    "dateutil.parser",
    "ot",
)
for _name in LATE:
    import_module(_name)
# The texts of options are read from the source the first time, which takes longer than a tiny training.
for _method in METHODS:
    parse_new(choose(["--method", _method, "--out", "run", *TRAINING, *FEW_STEPS.get(_method, ())]))
