"""A flipped bit in a checkpoint is refused with one line, and the one before is offered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from tiny_runs import tiny_config

from beacon.cli.main import main
from beacon.errors import UserError
from beacon.runs import RunFolder
from beacon.runs.checksums import CHECKSUMS, find_damage
from beacon.runs.provenance import describe_run
from beacon.training import train

Array = NDArray[np.float64]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(source: Path, target: Path, tmp_path: Path) -> Path:
    train(tiny_config("cotrain", source, target), tmp_path / "run")
    return tmp_path / "run"


def flip(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("name", ["policy", "ema", "optimizer"])
def test_a_flipped_bit_is_refused_and_the_one_before_is_offered(
    name: str, run: Path, source: Path, target: Path
) -> None:
    last = run / "checkpoints" / "00000006"
    flip(last / f"{name}.safetensors", -5)
    longer = tiny_config("cotrain", source, target)
    with pytest.raises(UserError, match=rf"{name}\.safetensors: damaged .*write 00000004 into .*last$"):
        train(longer, run, resume=True)
    (run / "checkpoints" / "last").write_text("00000004\n")
    assert train(longer, run, resume=True).name == "00000006"
    assert not find_damage(last)  # written anew


def test_a_flipped_bit_in_a_listed_name_is_refused(run: Path, source: Path, target: Path) -> None:
    sums = run / "checkpoints" / "00000006" / CHECKSUMS
    sums.write_text(sums.read_text().replace('"policy.safetensors"', '"policy.safetensorr"'))
    with pytest.raises(UserError, match=r"it does not list policy\.safetensors.*write 00000004 into"):
        train(tiny_config("cotrain", source, target), run, resume=True)


def test_a_run_says_with_what_it_was_trained(run: Path, source: Path, target: Path) -> None:
    (run / "checkpoints" / "last").write_text("00000004\n")
    train(tiny_config("cotrain", source, target), run, resume=True)
    sessions = json.loads((run / "provenance.json").read_text())
    assert len(sessions) == 2
    for session in sessions:
        assert session["device"] == "cpu" and session["packages"]["torch"] and session["python"]
        assert not {"host", "user", "node"} & session.keys()
    said = describe_run(run)
    assert said["sessions"] == sessions and str(source.parent) not in json.dumps(said)
    assert said["config_sha256"] == sha256((run / "config.yaml").read_bytes()).hexdigest()
    hashes = {one["name"]: one["actions"] for one in json.loads((run / "data.json").read_text())}
    assert {one["name"]: one["actions_sha256"] for one in said["data"]} == hashes and len(hashes) == 2
    (run / "provenance.json").write_bytes(b"\xff")
    assert "sessions" not in describe_run(run)


def test_verify_says_what_does_not_fit(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(run)]) == 0 and "everything fits" in capsys.readouterr().out
    flip(run / "checkpoints" / "00000002" / "policy.safetensors", -1)
    (run / "config.yaml").write_text("method: magic\n")
    assert main(["verify", str(run)]) == 1
    said = capsys.readouterr().out
    assert "00000002/policy.safetensors: damaged" in said and "config.yaml" in said
    assert "2 things do not fit" in said
    assert main(["verify", str(run / "checkpoints")]) == 2


@pytest.mark.parametrize("table", ["episodes.parquet", "windows-*.parquet"])
def test_a_flipped_bit_of_a_table_of_weights_does_not_fit(
    table: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "beacon"
    shutil.copytree(finished, run)
    file = sorted((run / "weights").glob(table))[-1]
    pages = pq.ParquetFile(file).metadata.row_group(0).column(0)
    start = pages.dictionary_page_offset if pages.has_dictionary_page else pages.data_page_offset
    flip(file, start + pages.total_compressed_size - 1)  # the last byte of values of a column
    assert main(["verify", str(run)]) == 1
    assert f"{file.name}: damaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda q: np.where(np.arange(len(q)) == 3, q + 1e-6, q), "its weights sum to"),
        (lambda q: q * 0.999, "its weights sum to"),
        (lambda q: np.where(np.arange(len(q)) == 3, 7.0, q), "that of window 3 is 7, not from 0 to 5"),
    ],
)
def test_weights_that_break_their_constraints_do_not_fit(
    change: Callable[[Array], Array], says: str, finished: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = Path(shutil.copytree(finished, tmp_path / "beacon"))
    assert main(["verify", str(run)]) == 0
    file = run / "weights" / "windows-00000006.parquet"
    table = pq.read_table(file)
    weights = change(table["weight"].to_numpy())
    pq.write_table(
        table.set_column(table.column_names.index("weight"), "weight", pa.array(weights)),
        file,
        write_page_checksum=True,
    )
    assert main(["verify", str(run)]) == 1
    assert says in capsys.readouterr().out


def test_a_pointer_to_no_checkpoint_does_not_fit(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "checkpoints" / "last").write_bytes(b"0000\x000006\n")
    assert main(["verify", str(run)]) == 1
    assert "1 thing does not fit" in capsys.readouterr().out


def test_files_that_were_removed_on_purpose_are_not_damage(run: Path) -> None:
    last = run / "checkpoints" / "00000006"
    (last / "optimizer.safetensors").unlink()
    assert not find_damage(last)
    (last / CHECKSUMS).write_text("[")
    assert len(find_damage(last)) == 1
    (last / CHECKSUMS).unlink()
    assert not find_damage(last)
    assert RunFolder(run).exists
