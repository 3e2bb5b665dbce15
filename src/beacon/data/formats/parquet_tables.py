"""Columns of Parquet files that others wrote, read a row group at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import listing, printable
from beacon.data.formats.folder_paths import file_fault
from beacon.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

MOST_CACHED = 1 << 26  # bytes of row groups that are kept for the next episode
MOST_GROUPS = 64  # of them, however small
MOST_OPEN = 16  # files


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What pyarrow complains about becomes one line."""
    import pyarrow as pa

    try:
        yield
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        reason = printable(" ".join(str(error).split()))[:200]
        raise UserError(f"{path} cannot be read, it is damaged or no Parquet file ({reason})") from error


def open_file(path: Path) -> pq.ParquetFile:
    """Open a file, reading its footer."""
    import pyarrow.parquet as pq

    fault = file_fault(path)
    if fault is not None:
        raise UserError(f"{path} {fault}")
    with reading(path):  # absolute: pyarrow takes a relative "scheme:name" for an address
        return pq.ParquetFile(path.absolute(), memory_map=True)


def read_rows(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Rows with these columns as plain values; columns that must be there are named where they are not."""
    with reading(path), open_file(path) as file:
        there = file.schema_arrow.names
        missing = [name for name in columns if name not in there]
        if missing:
            raise UserError(f"{path}: no column {listing(missing)}; there are {listing(there)}")
        wanted = [*columns, *(name for name in optional if name in there)]
        for batch in file.iter_batches(columns=wanted, batch_size=4096):
            yield from batch.to_pylist()


@dataclass(frozen=True)
class _Opened:
    """An open file, and what is asked of it again and again."""

    file: pq.ParquetFile
    names: list[str]  # of its columns
    starts: NDArray[np.int64]  # first row of each row group, and the number of rows (G + 1,)


class ColumnReader:
    """Rows of columns of many files; keeps a few files open and the last row groups at hand."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, _Opened] = OrderedDict()
        self._groups: OrderedDict[tuple[Path, int, str], pa.ChunkedArray] = OrderedDict()
        self._cached = 0  # bytes of them
        self._episodes: dict[Path, dict[int, slice | None]] = {}

    def names(self, path: Path) -> list[str]:
        """Names of the columns."""
        return self._open(path).names

    def rows(self, path: Path) -> int:
        """Number of rows."""
        return int(self._open(path).starts[-1])

    def rows_of_episode(self, path: Path, episode: int) -> slice:
        """Where the rows of one episode are in a file that holds several; they must stand together."""
        if path not in self._episodes:
            if len(self._episodes) >= MOST_OPEN:
                self._episodes.pop(next(iter(self._episodes)))
            self._episodes[path] = _runs(self._whole_numbers(path, "episode_index"))
        if episode not in self._episodes[path]:
            raise UserError(f"{path} holds no rows of episode {episode}")
        rows = self._episodes[path][episode]
        if rows is None:
            raise UserError(f"{path}: the rows of episode {episode} do not stand together")
        return rows

    def _whole_numbers(self, path: Path, name: str) -> NDArray[np.int64]:
        where = f"{path}: '{name}'"
        values = to_array(self.read(path, name, slice(0, self.rows(path))), where)
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise UserError(f"{where} is not a column of whole numbers")
        return values.astype(np.int64)

    def read(self, path: Path, name: str, rows: slice) -> pa.ChunkedArray:
        """Some rows of one column."""
        import pyarrow as pa

        opened = self._open(path)
        if name not in opened.names:
            raise UserError(f"{path}: no column '{printable(name)}'; there are {listing(opened.names)}")
        starts, pieces = opened.starts, []
        group = max(0, int(np.searchsorted(starts, rows.start, side="right")) - 1)
        while group < len(starts) - 1 and starts[group] < rows.stop:
            first = int(starts[group])
            start, stop = max(rows.start - first, 0), min(rows.stop, int(starts[group + 1])) - first
            if start < stop:
                pieces += self._group(path, group, name).slice(start, stop - start).chunks
            group += 1
        if not pieces:
            return pa.chunked_array([], opened.file.schema_arrow.field(name).type)
        return pa.chunked_array(pieces)

    def _open(self, path: Path) -> _Opened:
        if path not in self._files:
            while len(self._files) >= MOST_OPEN:
                self._files.popitem(last=False)[1].file.close()
            file = open_file(path)
            with reading(path):
                groups = range(file.metadata.num_row_groups)
                rows = [int(file.metadata.row_group(group).num_rows) for group in groups]
                starts = np.cumsum([0, *rows], dtype=np.int64)
                self._files[path] = _Opened(file, list(file.schema_arrow.names), starts)
        self._files.move_to_end(path)
        return self._files[path]

    def _group(self, path: Path, group: int, name: str) -> pa.ChunkedArray:
        key = (path, group, name)
        if key not in self._groups:
            with reading(path):
                column = self._open(path).file.read_row_group(group, columns=[name]).column(0)
            self._groups[key] = column
            self._cached += column.nbytes
            while len(self._groups) > (1 if self._cached > MOST_CACHED else MOST_GROUPS):
                self._cached -= self._groups.popitem(last=False)[1].nbytes
        self._groups.move_to_end(key)
        return self._groups[key]

    def close(self) -> None:
        """Let go of the files."""
        for opened in self._files.values():
            opened.file.close()
        self._files.clear()
        self._groups.clear()
        self._cached = 0
        self._episodes.clear()


def _runs(episodes: NDArray[np.int64]) -> dict[int, slice | None]:
    """Episode -> its rows; None where they do not stand together."""
    cuts = np.flatnonzero(np.diff(episodes)) + 1
    slices: dict[int, slice | None] = {}
    for start, stop in pairwise([0, *cuts.tolist(), len(episodes)]):
        if start < stop:
            episode = int(episodes[start])
            slices[episode] = None if episode in slices else slice(start, stop)
    return slices


def to_array(column: pa.ChunkedArray, where: str) -> NDArray[Any]:
    """(T,) or (T, ...) numbers of a column of numbers or of nested lists of them."""
    import pyarrow as pa

    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # pyarrow gives back one chunk, or none
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    shape = [len(array)]
    # pyarrow 15 takes lists of a fixed size for flat.
    while pa.types.is_nested(array.type) or _is_list(array.type):
        if not _is_list(array.type):
            raise UserError(f"{where} is not made of numbers but of {printable(str(array.type))[:60]}")
        if array.null_count:
            raise UserError(f"{where} has no value in {array.null_count} rows")
        shape.append(_list_length(array, where))
        array = array.flatten()
    if array.null_count:
        raise UserError(f"{where} has no value in {array.null_count} places")
    if not (
        pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type)
    ):
        raise UserError(f"{where} is not made of numbers but of {printable(str(array.type))[:60]}")
    values = array.to_numpy(zero_copy_only=False)
    return np.asarray(values).reshape(shape)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _list_length(array: Any, where: str) -> int:
    """The length that all lists of an array have."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(array.type):
        return int(array.type.list_size)
    if not len(array):
        return 0
    lengths = np.diff(array.offsets.to_numpy())
    if lengths.min() != lengths.max():
        raise UserError(f"{where} has {lengths.min()} to {lengths.max()} dimensions; they must not change")
    return int(lengths.max())
