"""Messages: msgpack with NumPy arrays, as openpi writes them. No pickle; checked before anything is built.

An array is ``{b"__ndarray__": True, b"data": bytes, b"dtype": "<f4", b"shape": [2, 3]}``, a NumPy scalar
``{b"__npgeneric__": True, b"data": value, b"dtype": "<f4"}``. Keys may be text instead of bytes.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from beacon.errors import UserError
from beacon.serving.options import Limits

_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")
_LARGEST_NDIM = 8
# First byte of a value -> bytes of the number that follows, for values that end with it.
_SCALARS = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8}
_SCALARS |= {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
# First byte -> (bytes of the length, what it is), for values whose length follows.
_LENGTHS = {0xC4: (1, "bin"), 0xC5: (2, "bin"), 0xC6: (4, "bin")}
_LENGTHS |= {0xD9: (1, "text"), 0xDA: (2, "text"), 0xDB: (4, "text")}
_LENGTHS |= {0xDC: (2, "list"), 0xDD: (4, "list"), 0xDE: (2, "map"), 0xDF: (4, "map")}


def pack(message: Any) -> bytes:
    """A message as bytes."""
    packed: bytes = msgpack.packb(message, default=_pack_array)
    return packed


def unpack(data: bytes, limits: Limits) -> Any:
    """The message in ``data``; arrays are read-only views of it.

    Raises:
        UserError: it is not msgpack, or more than the limits allow, or has an array that is none.
    """
    check_structure(data, limits)
    try:
        return msgpack.unpackb(data, object_hook=_unpack_array, strict_map_key=True)
    except UserError:
        raise
    except (ValueError, TypeError, UnicodeDecodeError, msgpack.UnpackException) as error:
        raise UserError(f"the message is not msgpack of text keys and values ({_short(error)})") from None


def check_structure(data: bytes, limits: Limits) -> None:
    """Walk over the headers of a message without building anything: depth, number of values, lengths.

    A byte of msgpack may cost 64 bytes once it is a Python object, so this comes before.
    """
    position, items, open_counts = 0, 0, [1]
    while open_counts:
        if open_counts[-1] == 0:
            open_counts.pop()
            continue
        open_counts[-1] -= 1
        items += 1
        if items > limits.items:
            raise UserError(f"the message has more than {limits.items} values; send arrays as arrays")
        kind, length, position = _header(data, position)
        if kind in ("bin", "text"):
            position += length
            if kind == "text" and length > limits.text_bytes:
                raise UserError(f"the message has a text of {length} bytes; {limits.text_bytes} are allowed")
        elif kind in ("list", "map"):
            open_counts.append(length if kind == "list" else 2 * length)
            if len(open_counts) > limits.depth + 1:
                raise UserError(f"the message is nested deeper than {limits.depth}")
        if position > len(data):
            raise UserError("the message is cut off")
    if position != len(data):
        raise UserError(f"the message has {len(data) - position} bytes too many")


def _header(data: bytes, position: int) -> tuple[str, int, int]:
    """What begins at ``position``, its length, and where its content or the next value begins."""
    if position >= len(data):
        raise UserError("the message is cut off" if data else "the message is empty")
    first = data[position]
    position += 1
    if first <= 0x7F or first >= 0xE0:
        return "number", 0, position
    if first <= 0x8F:
        return "map", first & 0x0F, position
    if first <= 0x9F:
        return "list", first & 0x0F, position
    if first <= 0xBF:
        return "text", first & 0x1F, position
    if first in _SCALARS:
        return "number", 0, position + _SCALARS[first]
    if first in _LENGTHS:
        size, kind = _LENGTHS[first]
        end = position + size
        return kind, int.from_bytes(data[position:end], "big"), end
    raise UserError(f"the message has a value of a kind that is not allowed (0x{first:02x})")


def _pack_array(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "biuf":
        raise UserError(f"arrays of {value.dtype} cannot be sent; send numbers")
    if isinstance(value, np.ndarray):
        # A contiguous array is handed over as it is, without a copy of its bytes.
        data = value.data.cast("B") if value.flags.c_contiguous and value.size else value.tobytes()
        return {b"__ndarray__": True, b"data": data, b"dtype": value.dtype.str, b"shape": value.shape}
    if isinstance(value, np.generic):
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    raise UserError(f"{type(value).__name__} cannot be sent; send NumPy arrays, numbers and text")


def _unpack_array(value: dict[Any, Any]) -> Any:
    if b"__ndarray__" in value or "__ndarray__" in value:
        return _array(*(_field(value, name) for name in ("data", "dtype", "shape")))
    if b"__npgeneric__" in value or "__npgeneric__" in value:
        return _scalar(_dtype(_field(value, "dtype")), _field(value, "data"))
    return value


def _scalar(dtype: np.dtype[Any], data: Any) -> Any:
    if not isinstance(data, bool | int | float):
        raise UserError("the message has a NumPy scalar that is no number")
    whole = dtype.kind in "iu"
    if whole and (isinstance(data, float) or not np.iinfo(dtype).min <= data <= np.iinfo(dtype).max):
        raise UserError(f"the message has a number that is no {dtype}")
    return np.array(data, np.float64 if isinstance(data, float) else None).astype(dtype)[()]


def _field(value: dict[Any, Any], name: str) -> Any:
    return value.get(name.encode(), value.get(name))


def _dtype(name: Any) -> np.dtype[Any]:
    text = name.decode("ascii", "replace") if isinstance(name, bytes) else name
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise UserError(
            f"the message has an array of dtype {_short(name)}; allowed are booleans, integers and floats"
        )
    return np.dtype(text)


def _array(data: Any, dtype_name: Any, shape: Any) -> NDArray[Any]:
    dtype = _dtype(dtype_name)
    sizes = shape if isinstance(shape, list) else None
    if sizes is None or len(sizes) > _LARGEST_NDIM or not all(type(n) is int and n >= 0 for n in sizes):
        raise UserError(f"the message has an array of shape {_short(shape)}")
    if not isinstance(data, bytes) or math.prod(sizes) * dtype.itemsize != len(data):
        held = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise UserError(f"the message has an array of {dtype} and shape {sizes} with {held} of data")
    if not data:
        raise UserError(f"the message has an empty array of shape {_short(sizes)}")
    return np.frombuffer(data, dtype).reshape(sizes)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split()) if not isinstance(value, Exception) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
