"""Figures and the HTML report of one run or several."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.report.build import Report, ReportBuilder, write_report
    from beacon.report.live import serve, watching

__all__ = ["Report", "ReportBuilder", "serve", "watching", "write_report"]

_HOMES = {
    "Report": "build",
    "ReportBuilder": "build",
    "write_report": "build",
    "serve": "live",
    "watching": "live",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.report.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.report' has no attribute {name!r}")
