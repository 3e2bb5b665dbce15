"""Which native libraries must be loaded before OpenGL."""

from __future__ import annotations

import contextlib
from functools import cache
from importlib import import_module


@cache
def load_before_opengl() -> None:
    """Load Triton, where torch brought it, before OpenGL.

    Mesa and Triton each have a copy of LLVM. With Mesa's loaded first, the process crashes as soon as torch
    imports Triton, which it does when an optimiser is made. Builds of torch for the CPU have no Triton.
    """
    with contextlib.suppress(ImportError):
        import_module("triton")
