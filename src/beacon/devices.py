"""Where to compute, and how numbers get there without anybody waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beacon.errors import UserError

if TYPE_CHECKING:
    import torch

SUPPORTED = ("cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is a GPU when there is one.

    Args:
        name: ``auto``, ``cpu``, ``cuda`` or ``cuda:1``; what cannot be used here is refused in one line.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise _unusable(name, error) from None
    if device.type not in SUPPORTED:  # whether or not it is there: mps and xpu cannot train
        raise UserError(f"--device {name}: beacon computes on cpu or cuda; try --device cpu")
    try:
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise _unusable(name, error) from None
    return device


def _unusable(name: str, error: Exception) -> UserError:
    reason = str(error).splitlines()[0]
    return UserError(f"--device {name}: cannot be used here ({reason}); try --device cpu")


def upload(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor on a device. From the CPU to a GPU it goes through pinned memory, and nobody waits.

    Args:
        tensor: must not change afterwards, because on its own device it is not copied.
        device: where it is needed.
    """
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
