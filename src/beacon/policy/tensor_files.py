"""Tensors on disk: safetensors files, checked before anything is allocated, readable by whom umask allows."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from beacon.errors import UserError

HEADER_BASE, HEADER_PER_TENSOR = 65_536, 1_024  # bytes that names and shapes of expected tensors may take


def save_tensors(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors; a full disk is an ``OSError`` like any other."""
    plain = {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}
    # The library makes files that only their owner can read; one that we make has the mode that umask says.
    file.touch()
    mode = stat.S_IMODE(file.stat().st_mode)
    try:
        save_file(plain, file)
    except SafetensorError as error:
        if system := re.search(r"os error (\d+)", str(error)):  # as "No space left on device (os error 28)"
            number = int(system[1])
            raise OSError(number, os.strerror(number)) from error
        raise OSError(str(error)) from error
    file.chmod(mode)


def load_tensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file, with one clear line when it is missing or damaged."""
    try:
        return load_file(file)
    except FileNotFoundError as error:
        raise UserError(f"{file}: there is no such file") from error
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file}: damaged, not a readable safetensors file ({error})") from error


def load_parameters(file: Path, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Read the parameters of a policy.

    Names, shapes and dtypes are compared with the file's header before any value is read, and values must be
    finite.

    Args:
        file: a safetensors file.
        wanted: name -> a tensor of the shape and dtype that is wanted, which may be on the meta device.
    """
    check_header(file, wanted)
    tensors = load_tensors(file)
    for name, value in tensors.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise UserError(f"{file}: {name} has values that are not finite (NaN or infinite)")
    return tensors


def check_header(file: Path, wanted: Mapping[str, Tensor]) -> None:
    """Refuse a file that does not hold exactly the wanted names and shapes, from its header alone."""
    try:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
        limit = HEADER_BASE + HEADER_PER_TENSOR * len(wanted)
        if size > limit:
            raise UserError(f"{file}: damaged, its header says {size} bytes where {limit} are enough")
        with safe_open(file, "pt") as opened:
            shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise UserError(f"{file}: there is no such file") from error
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file}: damaged, not a readable safetensors file ({error})") from error
    if missing := sorted(set(wanted) - set(shapes)):
        raise UserError(f"{file}: {len(missing)} parameters are missing, such as {missing[0]}")
    if unknown := sorted(set(shapes) - set(wanted)):
        raise UserError(f"{file}: {len(unknown)} parameters are not this policy's, such as {unknown[0]}")
    for name, value in wanted.items():
        if shapes[name] != tuple(value.shape):
            raise UserError(f"{file}: {name} has shape {shapes[name]}, not {tuple(value.shape)}")
