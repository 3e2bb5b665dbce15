"""`Run`: every part as it was written, and one line where it is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beacon.errors import UserError
from beacon.runs import Run, evaluation_name
from beacon.runs.demonstration_weights import load_demonstration_weights
from beacon.runs.evaluations import evaluation_file, read_evaluation
from beacon.training.stored_config import read_config


def test_a_run_is_what_training_wrote(finished: Path) -> None:
    run = Run(finished)
    assert run.exists and run.config == read_config(finished).to_dict()
    assert [(record.name, record.is_target) for record in run.domains] == [("sim", False), ("real", True)]
    assert [len(record.demos) for record in run.domains] == [5, 2]
    assert [entry["step"] for entry in run.metrics.train] == [1, 2, 3, 4, 5, 6]
    assert run.checkpoints.last == 6 and run.checkpoint == finished / "checkpoints" / "00000006"
    assert run.option("optimization", "steps") == 6 and run.option("nothing", "steps") is None
    table, history = run.windows, run.episodes
    assert table is not None and history is not None
    stored = pq.read_table(finished / "weights" / "windows-00000006.parquet").to_pydict()
    assert table.step == 6 and table.weight.tolist() == stored["weight"]
    assert table.lengths.tolist() == [9] * 5 + [7] * 2
    assert history.epoch.tolist() == [0, 1, 2] and history.step.tolist() == [0, 2, 4]
    np.testing.assert_allclose(history.weight[-1], table.episode_means(table.weight), rtol=1e-6)
    assert history.members("real").tolist() == [False] * 5 + [True] * 2
    weights = np.array(stored["weight"])
    share = weights[np.array(stored["domain"]) == "real"].sum() / weights.sum()
    assert run.mass_shares(["real", "sim"]).tolist() == pytest.approx([share, 1 - share])


def test_after_a_kill_the_table_is_that_of_the_checkpoint(half: Callable[[], Path]) -> None:
    table = Run(half()).windows
    assert table is not None and table.step == 4


def test_a_run_without_weights(run: Path) -> None:
    for file in (run / "weights").iterdir():
        file.unlink()
    assert Run(run).windows is None and Run(run).episodes is None
    with pytest.raises(UserError, match="not a run that has weights"):
        Run(run).mass_shares(["sim", "real"])


def test_nothing_is_a_run(tmp_path: Path) -> None:
    assert not Run(tmp_path).exists
    with pytest.raises(UserError, match=r"is not a run: it has no config\.yaml"):
        assert Run(tmp_path).config
    with pytest.raises(UserError, match="nobody knows what the run was trained on"):
        assert Run(tmp_path).domains


STEPS = zip("abcdefghij", "bcdefghijk", strict=True)
BOMB = "a: &a [x, x]\n" + "".join(f"{new}: &{new} [*{old}, *{old}]\n" for old, new in STEPS)


@pytest.mark.parametrize(
    "content",
    [b"a: [", b"just text", b"\xff\xfe\xfd", b"- 1", b"", BOMB.encode(), b"[" * 20_000, b"#" * (2**20 + 1)],
    ids=["open", "text", "bytes", "list", "empty", "aliases", "deep", "large"],
)
def test_a_damaged_configuration_is_one_line(content: bytes, run: Path) -> None:
    (run / "config.yaml").write_bytes(content)
    with pytest.raises(UserError, match=r"config\.yaml: damaged") as refused:
        assert Run(run).config
    assert "\n" not in str(refused.value)


def test_a_pipe_is_not_waited_for(run: Path) -> None:
    import os

    (run / "config.yaml").unlink()
    os.mkfifo(run / "config.yaml")
    with pytest.raises(UserError, match="not a file"):
        assert Run(run).config


@pytest.mark.parametrize(
    "change",
    [
        lambda records: "text",
        lambda records: {"a": 1},
        lambda records: [1],
        lambda records: [{**records[0], "lengths": ["nine"]}],
        lambda records: [{**records[0], "demos": 5}],
        lambda records: [{**records[0], "is_target": "yes"}],
        lambda records: [{**records[0], "more": 1}],
        lambda records: [{"name": "sim"}],
    ],
)
def test_damaged_data_records_are_one_line(change: Callable[[Any], Any], run: Path) -> None:
    records = json.loads((run / "data.json").read_text())
    (run / "data.json").write_text(json.dumps(change(records)))
    with pytest.raises(UserError, match=r"data\.json: damaged") as refused:
        assert Run(run).domains
    assert "\n" not in str(refused.value)


def damage(file: Path, column: str, values: Any) -> None:
    table = pq.read_table(file)
    columns = {name: table[name] for name in table.column_names}
    columns.pop(column)
    pq.write_table(pa.table(columns if values is None else {**columns, column: values}), file)


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("weight", None, "no column 'weight'"),
        ("weight", np.full(59, np.nan), "'weight' has numbers that are not finite"),
        ("weight", ["heavy"] * 59, "'weight' is not a column of numbers"),
        ("loss", ["large"] * 59, "'loss' is not a column of numbers"),
        ("episode", np.arange(59)[::-1], "windows are not in order"),
        ("episode", np.r_[np.zeros(58, int), 2**60], "windows are not in order"),
        ("episode", np.arange(59) * 0.5, "'episode' is not a column of whole numbers"),
        ("time", np.full(59, -1), "'time' is below 0"),
        ("phase", np.full(59, 2.0), "'phase' is not from 0 to 1"),
    ],
)
def test_damaged_tables_are_one_line(column: str, values: Any, says: str, run: Path) -> None:
    damage(run / "weights" / "windows-00000006.parquet", column, values)
    with pytest.raises(UserError, match=says) as refused:
        assert Run(run).windows
    assert "windows-00000006.parquet: damaged" in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(UserError, match=says):
        load_demonstration_weights(run)


def test_a_damaged_history_is_one_line(run: Path) -> None:
    file = run / "weights" / "episodes.parquet"
    pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(UserError, match=r"episodes\.parquet: damaged .demonstrations are missing"):
        assert Run(run).episodes
    file.write_bytes(b"PAR1 but no more")
    with pytest.raises(UserError, match=r"episodes\.parquet: damaged"):
        assert Run(run).episodes


def test_weights_of_other_demonstrations_are_refused(run: Path) -> None:
    records = json.loads((run / "data.json").read_text())
    records[0]["lengths"][:2] = [8, 10]  # as many windows, of other demonstrations
    (run / "data.json").write_text(json.dumps(records))
    with pytest.raises(UserError, match=r"does not fit .*which tells of 59 windows of 7 demonstrations"):
        load_demonstration_weights(run)


# Evaluations


def result(**changes: Any) -> dict[str, Any]:
    return {
        "task": "stack",
        "rates": {"R": {}, "success": {}},
        "episodes": [{"R": 1.0, "success": 1.0}, {"R": 0.5, "success": 1.0}],
        "initial_states": {"sha256": "ab"},
        **changes,
    }


def test_evaluations_have_one_name(tmp_path: Path) -> None:
    name = evaluation_name(task="stack", size="small", domain="looks/dark.yaml", region="train", seed=1000)
    assert name == "stack-small-dark-train-1000.json"
    file = evaluation_file(
        tmp_path, task="stack", size="full", domain="texture", region="ood", seed=7, episodes=50
    )
    assert file == tmp_path / "eval" / "stack-full-texture-ood-7-50.json"


def test_an_evaluation_as_it_was_written(run: Path) -> None:
    (run / "eval").mkdir()
    (run / "eval" / "a.json").write_text(json.dumps(result(versions={"python": 3.11})))
    (evaluation,) = Run(run).evaluations
    assert evaluation.setting == ("stack", "?", "?", "?") and evaluation.states == "ab"
    assert evaluation.criteria == ["R", "success"] and evaluation.outcomes("R") == [1.0, 0.5]
    assert evaluation.versions == {"python": "3.11"}


@pytest.mark.parametrize(
    "content",
    [
        "[",
        "[]",
        json.dumps(result(episodes=[])),
        json.dumps(result(episodes=[1])),
        json.dumps(result(episodes={"R": 1})),
        json.dumps(result(rates=[])),
        json.dumps(result(episodes=[{"R": float("nan")}])),
        json.dumps(result(episodes=[{"R": "yes"}])),
        json.dumps(result(episodes=[{"R": 10**400}])),
        json.dumps(result(initial_states="ab")),
        json.dumps(result(versions=[1])),
        "[" * 100_000,
    ],
)
def test_a_damaged_evaluation_is_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match=r"a\.json: damaged") as refused:
        read_evaluation(tmp_path / "a.json")
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match="there is no such file"):
        read_evaluation(tmp_path / "b.json")


def test_importing_runs_is_quick() -> None:
    import subprocess
    import sys

    code = "import sys, beacon.runs.run; print([m for m in ('torch', 'pyarrow', 'h5py') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout
