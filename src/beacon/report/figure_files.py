"""Every figure of a report as SVG and PDF: those of the page, the maps, the galleries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from beacon.files import replacing
from beacon.report.build import Report
from beacon.report.matplotlib_figures import COLOURS, canvas, drawn
from beacon.report.page_data import PoolAssets, gallery
from beacon.report.pictures import steps_shown
from beacon.report.run_view import RunView

FORMATS = ("svg", "pdf")
STRIP_FRAMES = 8
ROWS = 5  # demonstrations at each end of the gallery's figure


def write_figures(report: Report, folder: Path) -> list[Path]:
    """Write all of them; the names are those of the figures on the page."""
    written: list[Path] = []
    for key, draw in _all(report):
        with draw as sheet:
            sheet.draw_without_rendering()
            sheet.set_layout_engine("none")  # arranged once is enough for all formats
            for file_format in FORMATS:
                path = folder / f"{key}.{file_format}"
                # Without a date, so that the same figure is the same file.
                metadata = {"Date": None} if file_format == "svg" else {"CreationDate": None}
                with replacing(path) as temporary:
                    sheet.savefig(temporary, format=file_format, metadata=metadata, bbox_inches="tight")
                written.append(path)
    return written


def _all(report: Report) -> Iterator[tuple[str, Any]]:
    for figure in report.figures:
        yield figure.key, drawn(figure)
    for view in report.views:
        if view.pool_index is None:
            continue
        assets = report.assets[view.pool_index]
        if view.map is not None and view.map.planes:
            yield f"map-{view.index}", _map(view, assets)
        if assets.pool.camera is not None and any(gallery(view).values()):
            yield f"gallery-{view.index}", _gallery(view)


@contextmanager
def _map(view: RunView, assets: PoolAssets) -> Iterator[Any]:
    """Rows: features. Columns: before and after by domain, after by weight."""
    assert view.map is not None and view.pool is not None
    pool, planes = view.pool, view.map.planes
    domain = pool.domain[assets.demos]
    weights = _weights(view, assets)
    columns = ["before", "after", *(["weight"] if weights is not None else [])]
    with canvas(len(columns), len(planes), 2.6, 2.6) as (sheet, axes):
        for row, (space, by_time) in zip(axes, planes.items(), strict=True):
            for axis, column in zip(row, columns, strict=True):
                plane = by_time["after" if column == "weight" else column]
                if column == "weight":
                    assert weights is not None
                    known = np.isfinite(weights)
                    source = weights[known & (domain != pool.target)]
                    top = np.quantile(source, 0.98) if len(source) else None  # the target is above
                    dots = axis.scatter(
                        *plane[known].T, c=weights[known], s=3, linewidths=0, cmap="viridis", vmin=0, vmax=top
                    )
                    sheet.colorbar(dots, ax=axis, label="weight q")
                else:
                    for number, name in enumerate(pool.domains):
                        members = domain == number
                        colour = "target" if number == pool.target else f"source{number % 6}"
                        axis.scatter(*plane[members].T, s=3, linewidths=0, color=COLOURS[colour], label=name)
                axis.set(xticks=[], yticks=[], title=f"{space}, {column}")
        axes[0][0].legend(markerscale=3)
        yield sheet


def _weights(view: RunView, assets: PoolAssets) -> Any:
    """Of the points of the map, NaN where the run has none."""
    table = view.record.windows
    if table is None or view.pool_numbers is None:
        return None
    start = dict(zip(view.pool_numbers.tolist(), table.starts.tolist(), strict=True))
    return np.array(
        [
            table.weight[start[d] + t] if d in start else np.nan
            for d, t in zip(assets.demos.tolist(), assets.times.tolist(), strict=True)
        ]
    )


@contextmanager
def _gallery(view: RunView) -> Iterator[Any]:
    """Filmstrips of the demonstrations at both ends, with the weight along time."""
    assert view.pool is not None
    pool, table = view.pool, view.record.windows
    ends = {end: demos[:ROWS] for end, demos in gallery(view).items() if demos}
    titles = {"kept": "largest weights", "faded": "smallest weights", "some": "demonstrations"}
    rows = max(map(len, ends.values()))
    own = (
        {}
        if view.pool_numbers is None
        else {int(demo): number for number, demo in enumerate(view.pool_numbers)}
    )
    top = 1e-9 if table is None else float(table.weight[view.source_windows].max(initial=1e-9))
    with canvas(len(ends), rows * 2, 4.2, 0.52) as (sheet, axes):
        for column, (end, demos) in enumerate(ends.items()):
            for row in range(rows):
                picture, curve = axes[2 * row][column], axes[2 * row + 1][column]
                picture.axis("off")
                curve.axis("off")
                if row >= len(demos):
                    continue
                demo = demos[row]
                frames = pool.frames(demo, steps_shown(int(pool.lengths[demo]), STRIP_FRAMES))
                picture.imshow(np.concatenate([frame[..., :3] for frame in frames], axis=1), aspect="equal")
                label = f"{titles[end]}: {pool.names[demo]}" if row == 0 else pool.names[demo]
                if table is not None and demo in own:
                    start, length = table.starts[own[demo]], table.lengths[own[demo]]
                    weight = table.weight[start : start + length]
                    curve.fill_between(
                        np.arange(length), weight, color=COLOURS["source0"], alpha=0.4, linewidth=0
                    )
                    curve.set_ylim(0, top)
                    label += f", mean weight {weight.mean():.2f}"
                corruption = pool.corruption[demo]
                title = f"{label} ({corruption})" if corruption else label
                picture.set_title(title, loc="left", fontsize=6, pad=2)
        yield sheet
