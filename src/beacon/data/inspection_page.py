"""A page about a dataset that needs no other file: pictures over time, and a plot of every dimension."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beacon.data.contact_sheet import draw_contact_sheet
from beacon.data.errors import printable
from beacon.data.formats.base import DatasetReader
from beacon.data.inspection import DatasetSummary
from beacon.errors import UserError
from beacon.files import write_bytes

BINS = 40
WIDTH, HEIGHT = 240, 48  # pixels of a plot

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
body { color: #222; } img { max-width: 100%; } svg rect { fill: #3b6ea5; }
table { border-collapse: collapse; }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: middle; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } svg rect { fill: #7fb2e5; } }
"""


def write_page(reader: DatasetReader, summary: DatasetSummary, path: Path) -> None:
    """Write the page.

    Args:
        reader: the dataset.
        summary: of it.
        path: of the page, .html.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{path}: a page is an .html file")
    lengths = summary.lengths
    facts = [
        ("format", summary.format_name),
        ("demonstrations", f"{len(summary.episodes)}"),
        ("steps", f"{int(lengths.sum())} in all, {int(lengths.min())} to {int(lengths.max())} each"),
        ("rate", "not said" if summary.fps is None else f"{summary.fps:g} steps a second"),
        ("environment", summary.environment),
        ("tasks", "; ".join(summary.tasks[:8]) or "not said"),
    ]
    rows = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in facts)
    parts = [f"<table>{rows}</table>", _pictures(reader, summary), _plots(summary)]
    title = _safe(summary.path.name)
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
        f"<h1>{title}</h1>{''.join(parts)}</html>\n"
    )
    write_bytes(path, page.encode())


def _pictures(reader: DatasetReader, summary: DatasetSummary) -> str:
    try:
        sheet = draw_contact_sheet(reader, summary.episodes)
    except UserError as error:
        return f"<p>{_safe(str(error))}</p>"
    buffer = io.BytesIO()
    sheet.save(buffer, "JPEG", quality=85)
    content = base64.b64encode(buffer.getvalue()).decode()
    return f'<h2>Frames over time</h2><img alt="contact sheet" src="data:image/jpeg;base64,{content}">'


def _plots(summary: DatasetSummary) -> str:
    parts = []
    for name, array in summary.arrays.items():
        values = array.values
        if values is None:
            continue
        names = array.names or [""] * values.shape[1]
        rows = "".join(_row(d, names[d], values[:, d]) for d in range(values.shape[1]))
        head = "<tr><th></th><th>name</th><th>smallest</th><th></th><th>largest</th></tr>"
        parts.append(f"<h2>{_safe(name)}</h2><table>{head}{rows}</table>")
    return "".join(parts)


def _row(dimension: int, name: str, values: NDArray[np.float64]) -> str:
    finite = values[np.isfinite(values)]
    low, high = (f"{finite.min():.4g}", f"{finite.max():.4g}") if finite.size else ("-", "-")
    return (
        f'<tr><td>[{dimension}]</td><td>{_safe(name)}</td><td class="n">{low}</td>'
        f'<td>{_histogram(finite)}</td><td class="n">{high}</td></tr>'
    )


def _histogram(values: NDArray[np.float64]) -> str:
    if not values.size or values.min() == values.max():
        return "never changes" if values.size else ""
    counts, _ = np.histogram(values, BINS)
    bar = WIDTH / BINS
    bars = "".join(
        f'<rect x="{i * bar:.1f}" y="{HEIGHT - h:.1f}" width="{bar - 0.5:.1f}" height="{h:.1f}"/>'
        for i, h in enumerate(HEIGHT * counts / counts.max())
        if h
    )
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="distribution">{bars}</svg>'


def _safe(text: str) -> str:
    return escape(printable(text))
