"""The terms of the generalization bound at a run's last weights."""

from __future__ import annotations

import numpy as np

from beacon.report.markup import Content, Markup, join, table, tag
from beacon.report.run_view import RunView
from beacon.weighting import BoundReport, bound_report

TERMS = (
    ("weighted_loss", "Weighted loss Σ q̄ᵢ ℓᵢ, losses scaled to [0, 1]"),
    ("source_mass", "Source mass q̄(S)"),
    ("source_discrepancy", "Source mass × dis(P, Q)"),
    ("sample_discrepancy", "dis(q̄, p₀), or its bound ‖q̄ − p₀‖₁"),
    ("complexity", "2 × Rademacher complexity"),
    ("distance", "‖q̄ − p₀‖₁; the theorem needs less than 1"),
    ("distance_penalty", "6 ‖q̄ − p₀‖₁"),
    ("confidence", "Confidence term (δ = 0.05)"),
    ("total", "Bound on the target loss"),
)


def run_bound(view: RunView) -> BoundReport | None:
    """The bound at the windows of the newest checkpoint; None without weights, losses or a target."""
    table_ = view.record.windows
    if table_ is None or table_.loss is None or view.target is None:
        return None
    loss = np.maximum(table_.loss, 0.0)
    if not np.isfinite(loss).all() or not table_.weight.sum() > 0:
        return None
    return bound_report(table_.weight, loss, ~view.source_windows)


def bound_table(views: list[RunView]) -> Markup | None:
    """A column a run; what is not known or does not apply is a word, never a number."""
    reports = [(view, report) for view in views if (report := run_bound(view)) is not None]
    if not reports:
        return None
    rows: list[list[Content]] = []
    for name, words in TERMS:
        rows.append([words, *(_value(report, name) for _, report in reports)])
    heads = ["Term", *(view.title for view, _ in reports)]
    notes = [
        tag("p", f"{view.title}: {report.reason}.", class_="note")
        for view, report in reports
        if report.reason
    ]
    return join([table(heads, rows, numeric=range(1, len(heads))), notes])


def _value(report: BoundReport, name: str) -> str:
    value = getattr(report, name)
    if value is None:
        if name in ("confidence", "total") and not report.applicable:
            return "does not apply"
        return "not estimated"
    return f"{value:.4g}"
