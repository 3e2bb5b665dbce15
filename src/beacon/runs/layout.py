"""Names of the files and folders of a run.

config.yaml                      everything that decides the run, as plain values
target.yaml                      card that joins several targets to one domain, where there are several
data.json                        which demonstrations it was trained on
decisions.jsonl                  which of them people had dropped or kept, if any
provenance.json                  software and machine of every session that trained it
metrics.jsonl                    a line for every logged step, refresh, validation and early look
checkpoints/<step>/              policy, optimiser, method's state
checkpoints/last                 the name of the newest step folder
weights/episodes.parquet         means over every demonstration, one block of rows a refresh
weights/windows-<step>.parquet   every window, at the checkpoint of that step
references/<name>.safetensors    policies that a method compares with
eval/*.json                      results of `beacon evaluate`
eval/partial/*.json              results of `beacon evaluate --until-decided` that stopped early
report/                          what `beacon report` computes once
.lock                            held by the process that trains
"""

from __future__ import annotations

CONFIG, DATA, METRICS, LOCK = "config.yaml", "data.json", "metrics.jsonl", ".lock"
DECISIONS = "decisions.jsonl"
CHECKPOINTS, WEIGHTS, EVALUATIONS, REFERENCES, REPORT = (
    "checkpoints",
    "weights",
    "eval",
    "references",
    "report",
)
JOINT_TARGET = "target.yaml"
LAST = "last"  # in CHECKPOINTS
PARTIAL = "partial"  # in EVALUATIONS
DESCRIPTION = "policy.json"  # in a checkpoint
EPISODES = "episodes.parquet"  # in WEIGHTS


def step_name(step: int) -> str:
    """A step in names of files and folders."""
    return f"{step:08d}"


def window_file(step: int) -> str:
    """The table of all windows at the checkpoint of that step."""
    return f"windows-{step_name(step)}.parquet"
