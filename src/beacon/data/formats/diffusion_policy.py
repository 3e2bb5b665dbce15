"""Reading diffusion_policy's zarr: ``data/<key>`` over all steps, ``meta/episode_ends``; folder or .zip."""

from __future__ import annotations

import json
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beacon.data.errors import listing, printable
from beacon.data.formats.base import ACTIONS, OBSERVATION, ArrayInfo, DatasetReader, Format, ReadOptions
from beacon.errors import UserError

LARGEST_CHUNK = 1 << 30  # bytes of a chunk when it is unpacked
LARGEST_EXPANSION = 20_000  # times: what is stored may grow so much; pictures of one colour do
ALWAYS_ALLOWED = 1 << 24  # bytes of a chunk that may be unpacked from however little
LARGEST_ZIP_EXPANSION = 1100  # deflate cannot do more
CHANNELS = (1, 3, 4)
# What the zipfile module says of damaged archives; RuntimeError covers what it has not implemented, too.
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, LookupError, RuntimeError)


def probe(path: Path) -> bool:
    """A zarr folder, or a .zip file with one in it."""
    if path.is_dir():
        return (path / ".zgroup").is_file() or (path / "data" / ".zgroup").is_file()
    return path.suffix == ".zip" and path.is_file()


def open_reader(path: Path, options: ReadOptions) -> DatasetReader:
    """Open a zarr dataset."""
    return ZarrReader(path)


FORMAT = Format("diffusion_policy zarr (a folder or .zip)", probe, open_reader)


class ZarrReader(DatasetReader):
    """Episodes of a zarr dataset, cut out of the long arrays."""

    format_name = "diffusion_policy zarr"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.env_args = {}
        self.masks = {}
        self._store: Any = None
        self._full_scale: dict[str, float] = {}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        stored = _check_zip(self.path) if self.path.is_file() else _check_folder(self.path)
        _check_codecs(self.path, stored)
        try:
            import zarr
        except ImportError:
            raise UserError(f"{self.path}: to read zarr, pip install 'beacon-cotraining[zarr]'") from None
        try:
            if self.path.is_file():
                self._store = zarr.storage.ZipStore(self.path, mode="r")
            else:
                self._store = zarr.storage.LocalStore(self.path, read_only=True)
            root: Any = zarr.open_group(self._store, mode="r", zarr_format=2)
            ends_array = root["meta/episode_ends"]
            if not isinstance(ends_array, zarr.Array):
                raise UserError(f"{self.path}: 'meta/episode_ends' is not an array")
            # One after the other: where zarr opens them all at once, every failure but the first is printed.
            opened = {name: root[f"data/{name}"] for name in _array_names(stored)}
            members = {name: item for name, item in opened.items() if isinstance(item, zarr.Array)}
        except UserError:
            raise
        except Exception as error:  # zarr raises whatever its parts raise
            raise self._damaged("its list of arrays", error) from error
        self._arrays: dict[str, Any] = {}
        for name, array in members.items():
            self._check_array(name, array, stored)
            key = (
                ACTIONS
                if name in ("action", "actions") and ACTIONS not in self._arrays
                else OBSERVATION + name
            )
            self._arrays[key] = array
        self._check_array("meta/episode_ends", ends_array, stored, "")
        ends = self._numbers("meta/episode_ends", ends_array)
        starts = np.concatenate([[0], ends[:-1]])
        if len(ends) == 0 or (ends < starts).any() or starts[0] < 0:
            raise UserError(f"{self.path}: 'meta/episode_ends' must count upwards, and does not")
        for key, array in self._arrays.items():
            if not array.shape or array.shape[0] != ends[-1]:
                raise UserError(
                    f"{self.path}: '{printable(key)}' has shape {tuple(array.shape)}, "
                    f"but 'meta/episode_ends' says {ends[-1]} steps"
                )
        self._spans = {
            f"episode_{e}": (int(start), int(end))
            for e, (start, end) in enumerate(zip(starts, ends, strict=True))
            if end > start
        }
        self.episode_names = list(self._spans)

    def close(self) -> None:
        if self._store is not None:
            with suppress(Exception):
                self._store.close()

    def arrays(self, episode: str) -> dict[str, ArrayInfo]:
        return {name: self.info(episode, name) for name in self._arrays}

    def info(self, episode: str, name: str) -> ArrayInfo:
        array, (start, stop) = self._array(name), self._span(episode)
        dtype = np.dtype(np.uint8) if _is_float_picture(array) else np.dtype(array.dtype)
        return ArrayInfo((stop - start, *map(int, array.shape[1:])), dtype)

    def read(self, episode: str, name: str) -> NDArray[Any]:
        first, last = self._span(episode)
        return self.frames(episode, name, 0, last - first)

    def frames(self, episode: str, name: str, start: int, stop: int) -> NDArray[Any]:
        array, (first, last) = self._array(name), self._span(episode)
        try:
            values = np.asarray(array[min(first + start, last) : min(first + stop, last)])
        except Exception as error:
            raise self._damaged(f"'{printable(name)}' of {episode}", error) from error
        return self._as_bytes(name, array, values) if _is_float_picture(array) else values

    def length(self, episode: str) -> int:
        start, stop = self._span(episode)
        return stop - start

    def attributes(self, episode: str) -> dict[str, Any]:
        return {"episode_index": int(episode.rpartition("_")[2])}

    def identity(self) -> list[Any]:
        files = [self.path] if self.path.is_file() else sorted(self.path.rglob(".z*"))
        stats = [(str(f), f.stat()) for f in files]
        return [str(self.path.resolve()), [(name, s.st_size, s.st_mtime_ns) for name, s in stats]]

    def dataset_index(self, episode: str) -> NDArray[np.int64]:
        return np.arange(*self._span(episode))

    def frame_count(self) -> int:
        return max(stop for _, stop in self._spans.values())

    def _as_bytes(self, name: str, array: Any, values: NDArray[Any]) -> NDArray[np.uint8]:
        """Pictures stored as floats, from 0 to 255 or from 0 to 1, as bytes."""
        if name not in self._full_scale:
            first = np.asarray(array[: min(8, array.shape[0])])
            self._full_scale[name] = 1.0 if np.nanmax(first, initial=0.0) > 1.0 else 255.0
        if not np.isfinite(values).all():
            raise UserError(f"{self.path}: '{printable(name)}' holds NaN or infinite pixels")
        pixels: NDArray[np.uint8] = np.clip(np.rint(values * self._full_scale[name]), 0, 255).astype(np.uint8)
        return pixels

    def _array(self, name: str) -> Any:
        if name not in self._arrays:
            raise UserError(f"{self.path}: no '{printable(name)}'; there are {listing(self._arrays, 40)}")
        return self._arrays[name]

    def _span(self, episode: str) -> tuple[int, int]:
        if episode not in self._spans:
            raise UserError(f"{self.path} has no episode '{printable(episode)}'")
        return self._spans[episode]

    def _numbers(self, name: str, array: Any) -> NDArray[np.int64]:
        if array.ndim != 1 or np.dtype(array.dtype).kind not in "iu":
            raise UserError(
                f"{self.path}: '{name}' must be whole numbers, not {array.dtype} of shape {array.shape}"
            )
        try:
            return np.asarray(array[:]).astype(np.int64)
        except Exception as error:
            raise self._damaged(f"'{name}'", error) from error

    def _check_array(self, name: str, array: Any, stored: dict[str, int], prefix: str = "data/") -> None:
        """Refuse what declares much more than is stored."""
        key = printable(prefix + name)
        chunk = int(np.prod(array.chunks)) * np.dtype(array.dtype).itemsize
        files = {
            k: size for k, size in stored.items() if k.rpartition("/")[0] == prefix + name and "/.z" not in k
        }
        needed = int(np.prod([-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]))
        if "/" in str(getattr(array.metadata, "dimension_separator", ".")):
            files = {k: s for k, s in stored.items() if k.startswith(f"{prefix}{name}/") and "/.z" not in k}
        if len(files) < needed:
            raise UserError(f"{self.path}: '{key}' has {len(files)} of {needed} chunks: it is incomplete")
        smallest = min(files.values(), default=1)
        if chunk > LARGEST_CHUNK or chunk > max(ALWAYS_ALLOWED, smallest * LARGEST_EXPANSION):
            raise UserError(
                f"{self.path}: a chunk of '{key}' would unpack {smallest:,} bytes to {chunk:,}: not read"
            )

    def _damaged(self, what: str, error: BaseException) -> UserError:
        reason = printable(" ".join(str(error).split()))[:160]
        return UserError(f"{self.path}: {what} cannot be read ({type(error).__name__}: {reason})")


def _is_float_picture(array: Any) -> bool:
    return array.ndim == 4 and array.shape[3] in CHANNELS and np.dtype(array.dtype).kind == "f"


def _check_zip(path: Path) -> dict[str, int]:
    """Sizes of the files in an archive, unless it could unpack to more than its bytes can mean."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except ZIP_ERRORS as error:
        raise UserError(f"{path} is not a zip file, or is damaged ({printable(str(error))})") from None
    size = path.stat().st_size
    # Entries that lie over each other make a small file unpack to a very large one.
    packed = sum(entry.compress_size for entry in entries)
    if packed > size or any(
        e.file_size > max(4096, e.compress_size * LARGEST_ZIP_EXPANSION) for e in entries
    ):
        raise UserError(f"{path} is a zip bomb: it would unpack to far more than it can hold")
    return {entry.filename.rstrip("/"): entry.compress_size for entry in entries if not entry.is_dir()}


def _check_folder(path: Path) -> dict[str, int]:
    """Sizes of the files in a folder; links are refused, they could lead anywhere."""
    sizes = {}
    for file in path.rglob("*"):
        if file.is_symlink():
            raise UserError(
                f"{path}: '{printable(str(file.relative_to(path)))}' is a link, and is not followed"
            )
        if file.is_file():
            sizes[file.relative_to(path).as_posix()] = file.stat().st_size
    return sizes


def _array_names(stored: dict[str, int]) -> list[str]:
    """What has files of its own in ``data``."""
    paths = [name.split("/") for name in stored]
    return sorted({path[1] for path in paths if len(path) > 2 and path[0] == "data"})


def _check_codecs(path: Path, stored: dict[str, int]) -> None:
    """Make the codecs known that the arrays use; arrays of Python objects are refused, they need pickle."""
    names = [name for name in stored if name.endswith(".zarray")]
    if not any(name.startswith("data/") for name in names):
        what = "there is no 'data' with arrays in it"
        if any(name.endswith("zarr.json") for name in stored):
            what = "it is zarr version 3, only version 2 is read"
        raise UserError(f"{path} is not a dataset of diffusion_policy: {what}")
    wanted = False
    for name in names:
        try:
            if path.is_file():
                with zipfile.ZipFile(path) as archive, archive.open(name) as file:
                    content = file.read(1 << 20)
            else:
                content = (path / name).read_bytes()[: 1 << 20]
            header = json.loads(content)
            codecs = [header.get("compressor") or {}, *(header.get("filters") or [])]
            ids = [str(codec.get("id")) for codec in codecs]
            is_object = "O" in str(header.get("dtype"))
        except (*ZIP_ERRORS, AttributeError, TypeError) as error:
            raise UserError(
                f"{path}: '{printable(name)}' is damaged ({printable(str(error))[:80]})"
            ) from None
        if is_object or "pickle" in ids:
            raise UserError(f"{path}: '{printable(name)}' holds Python objects, which are never unpickled")
        wanted |= any(codec.startswith("imagecodecs_") for codec in ids)
    if wanted:
        try:
            from imagecodecs.numcodecs import register_codecs
        except ImportError:
            raise UserError(
                f"{path}: its pictures are JPEG 2000 or JPEG XL; "
                "to read them, pip install 'beacon-cotraining[zarr]'"
            ) from None
        register_codecs(verbose=False)
