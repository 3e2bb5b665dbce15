"""Run folders that are damaged in ways that a reader of files would not expect: there is always a page."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from report_runs import build, write_evaluation

from beacon.report import ReportBuilder, live, write_report
from beacon.report.live import LivePage, LiveServer
from beacon.report.markup import script_data


def change_json(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def change_column(file: Path, column: str, values: Callable[[np.ndarray], Any]) -> None:
    table = pq.read_table(file)
    columns = {name: table[name] for name in table.column_names}
    columns[column] = values(np.array(columns[column].to_pylist()))
    pq.write_table(pa.table(columns), file)


def append_metrics(run: Path) -> None:
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(
            b'{"kind": ["train"], "step": 3}\n{"kind": {}, "step": 3}\n\xff\n' + b"[" * 100_000 + b"\n"
        )
        file.write(b'{"kind": "train", "step": 16, "loss": ' + b"9" * 400 + b', "loss/real": "low"}\n')
        file.write(b'{"kind": "refresh", "step": 14, "mass/sim": 1.0}\n')  # and none for the target


def nan_weights(run: Path) -> None:
    change_column(run / "weights" / "windows-00000016.parquet", "weight", lambda w: np.full(len(w), np.nan))


def nan_losses(run: Path) -> None:
    file = run / "weights" / "windows-00000016.parquet"
    change_column(file, "loss", lambda values: np.where(np.arange(len(values)) % 2, values, np.nan))


def nan_outcomes(run: Path) -> None:
    file = write_evaluation(run, [0, 1, 1])
    file.write_text(file.read_text().replace('"success": 1.0', '"success": NaN'))


def other_domains(run: Path) -> None:
    records = json.loads((run / "data.json").read_text())
    records[0]["name"] = "another"
    (run / "data.json").write_text(json.dumps(records))


def other_domains_in_the_history(run: Path) -> None:
    change_column(run / "weights" / "episodes.parquet", "domain", lambda names: ["x"] * len(names))
    (run / "data.json").unlink()


def odd_versions(run: Path) -> None:
    change_json(run / "checkpoints" / "00000016" / "policy.json", versions=7)
    change_json(next((run / "eval").glob("*.json")), versions=["python"])


def change_option(section: str, name: str, value: Any) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        config = yaml.safe_load((run / "config.yaml").read_text())
        config[section][name] = value
        (run / "config.yaml").write_text(yaml.safe_dump(config))

    return change


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (append_metrics, "4 line(s) of metrics.jsonl were cut off or damaged"),
        (nan_weights, "&#x27;weight&#x27; has numbers that are not finite"),
        (nan_losses, "Commands to reproduce"),
        (nan_outcomes, "of an episode is not a number from 0 to 1"),
        (other_domains, "they are of other domains than the rest of the run"),
        (other_domains_in_the_history, "they are of other domains than the rest of the run"),
        (odd_versions, "&#x27;versions&#x27; is not a mapping"),
        (change_option("data", "cameras", 5), "config.yaml could not be read in full"),
        (change_option("data", "cameras", {"a": 1}), "config.yaml could not be read in full"),
        (change_option("data", "source", 5), "config.yaml could not be read in full"),
        (change_option("run", "keep", 1.5), "config.yaml could not be read in full"),
        (change_option("run", "device", None), "config.yaml could not be read in full"),
        (change_option("optimization", "steps", "many"), "config.yaml could not be read in full"),
        (change_option("optimization", "seed", [1]), "config.yaml could not be read in full"),
    ],
)
def test_there_is_always_a_page(
    damage: Callable[[Path], None], says: str, copy_run: Callable[..., Path]
) -> None:
    run = copy_run()
    damage(run)
    html = build(run).html
    assert says in html
    for section in (
        "summary",
        "success",
        "training",
        "weights",
        "weight-analysis",
        "gallery",
        "configuration",
    ):
        assert f'id="{section}"' in html


def test_numbers_that_are_not_finite_are_null_in_the_page() -> None:
    text = script_data({"a": [1.5, float("nan"), (float("inf"),)], "b": {"c": -float("inf"), "d": "NaN"}})
    assert json.loads(text) == {"a": [1.5, None, [None]], "b": {"c": None, "d": "NaN"}}


def test_figures_of_runs_with_dollars_in_their_names(trained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained / "beacon", tmp_path / "$beacon_{$^ \\frac"))
    figures = tmp_path / "figures"
    write_report([run], tmp_path / "page.html", figures=figures, projection="none")
    assert "$beacon_{$^ \\frac" in (figures / "success.svg").read_text()


def test_the_live_page_survives_what_nobody_thought_of(
    copy_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ReportBuilder) -> None:
        raise KeyError("unthought <of>")

    page = LivePage([copy_run()])
    monkeypatch.setattr(ReportBuilder, "build", fail)
    text = page.page().decode()
    assert "The page could not be made: KeyError" in text and "unthought &lt;of&gt;" in text
    assert 'http-equiv="refresh"' in text  # it asks again


def test_idle_connections_are_closed(copy_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live._Handler, "timeout", 0.2)
    with LiveServer(LivePage([copy_run()]), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        for said in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: local"):  # nothing, or no end
            with socket.create_connection(server.server_address[:2], timeout=60) as connection:  # type: ignore[arg-type]
                connection.sendall(said)
                assert connection.recv(100) == b""
        server.shutdown()
