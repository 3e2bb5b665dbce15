"""Where to compute."""

from __future__ import annotations

import torch

from beacon.errors import UserError


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is a GPU when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()  # "meta", for example, holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--device {name}: cannot be used here ({reason}); try --device cpu") from None
    return device
