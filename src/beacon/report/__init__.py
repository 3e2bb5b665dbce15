"""Figures and the HTML report of one run or several.

What others may use of it is named here; all else is the report's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beacon.report.audit_page import draw_audit
    from beacon.report.build import Report, ReportBuilder, write_report
    from beacon.report.coverage_page import draw_coverage, first_pictures
    from beacon.report.demonstration_pool import DemonstrationPool
    from beacon.report.embedding_map import Mapper, Projection
    from beacon.report.figure_spec import Axis, Figure, Interval, Line, Mark, Panel, line
    from beacon.report.live import serve, watching
    from beacon.report.matplotlib_figures import COLOURS, canvas, drawn
    from beacon.report.reproduce import train_command
    from beacon.report.run_record import read_run
    from beacon.report.success import collect_settings
    from beacon.report.summary import verdict
    from beacon.report.weight_analysis import view_bias

__all__ = [
    "COLOURS",
    "Axis",
    "DemonstrationPool",
    "Figure",
    "Interval",
    "Line",
    "Mapper",
    "Mark",
    "Panel",
    "Projection",
    "Report",
    "ReportBuilder",
    "canvas",
    "collect_settings",
    "draw_audit",
    "draw_coverage",
    "drawn",
    "first_pictures",
    "line",
    "read_run",
    "serve",
    "train_command",
    "verdict",
    "view_bias",
    "watching",
    "write_report",
]

_HOMES = {
    "Axis": "figure_spec",
    "COLOURS": "matplotlib_figures",
    "DemonstrationPool": "demonstration_pool",
    "Figure": "figure_spec",
    "Interval": "figure_spec",
    "Line": "figure_spec",
    "Mapper": "embedding_map",
    "Mark": "figure_spec",
    "Panel": "figure_spec",
    "Projection": "embedding_map",
    "Report": "build",
    "ReportBuilder": "build",
    "canvas": "matplotlib_figures",
    "collect_settings": "success",
    "draw_audit": "audit_page",
    "draw_coverage": "coverage_page",
    "drawn": "matplotlib_figures",
    "first_pictures": "coverage_page",
    "line": "figure_spec",
    "read_run": "run_record",
    "serve": "live",
    "train_command": "reproduce",
    "verdict": "summary",
    "view_bias": "weight_analysis",
    "watching": "live",
    "write_report": "build",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"beacon.report.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'beacon.report' has no attribute {name!r}")
