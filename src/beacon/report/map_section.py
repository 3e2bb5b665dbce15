"""The section with the map of embeddings."""

from __future__ import annotations

from beacon.report.markup import Content, Markup, join, table, tag
from beacon.report.run_record import Missing
from beacon.report.run_view import RunView
from beacon.report.sections import choice, plain, run_label, section

MEANING = {
    "PCA": "The axes are the two directions of the largest variance: windows that are far apart differ, "
    "windows that are near may differ in other directions. With --map umap neighbourhoods are shown instead.",
    "UMAP": "Axes have no unit: near means similar.",
}


def map_section(views: list[RunView], missing: list[tuple[str, Missing]]) -> Markup:
    """The map's controls and canvases, and the numbers of alignment."""
    shown = [view for view in views if view.map is not None and view.map.planes]
    if not shown:
        return section("map", "Embedding map", missing=missing)
    first = shown[0].map
    assert first is not None
    intro = (
        f"Windows of all domains in the policy's feature space, {first.projection} to the plane, before and "
        f"after training. {MEANING.get(first.projection, '')} Point at a window, or tap it, to see its "
        "frame; select it to open its demonstration."
    )
    controls = tag(
        "div",
        choice("map-run", "Run", [(str(view.index), view.title) for view in shown]),
        choice("map-space", "Features", [(s, _space(s)) for s in first.planes]),
        choice(
            "map-colour",
            "Colour",
            [
                ("domain", "domain"),
                ("weight", "weight"),
                ("phase", "phase"),
                ("corruption", "known corruption"),
            ],
        ),
        tag("span", id="map-legend", class_="legend"),
        class_="controls",
    )
    canvases = [
        tag(
            "div",
            tag("h4", f"{when.capitalize()} training"),
            tag("canvas", role="img", aria_label=f"Embedding map {when} training", data_when=when),
            class_="map-panel",
        )
        for when in ("before", "after")
    ]
    card = tag(
        "div",
        tag("p", "The frame of the window that you point at is shown here.", class_="note"),
        id="map-card",
    )
    return section(
        "map",
        "Embedding map",
        tag("figure", controls, tag("div", canvases, card, class_="maps"), id="figure-map"),
        tag("h3", "How well the domains mix"),
        _alignment(shown),
        missing=missing,
        intro=intro,
    )


def _alignment(shown: list[RunView]) -> Markup:
    rows: list[list[Content]] = []
    for view in shown:
        assert view.map is not None
        for space, numbers in view.map.alignment.items():
            before, after = numbers["before"], numbers["after"]
            rows.append(
                [
                    run_label(view),
                    _space(space),
                    *(_before_after(before[key], after[key]) for key in ("auc", "neighbours", "discrepancy")),
                    plain(after["mixed"]),
                ]
            )
    heads = [
        "Run",
        "Features",
        "Classifier AUC",
        "Cross-domain neighbours",
        "Mean d",
        "Neighbours if mixed",
    ]
    note = (
        "Before → after training, on the windows of the map. AUC of a cross-fitted domain classifier: 0.5 "
        "cannot tell source from target, 1 always can. Neighbours: share of a window's 10 nearest, of "
        "other demonstrations, that are of the other side, in a pool with as many of either. Mean d: k-NN "
        "discrepancy of the source, 1 when as near as targets are to each other."
    )
    return join([table(heads, rows, numeric=range(2, 6)), tag("p", note, class_="note")])


def _space(space: str) -> str:
    return {"vision": "vision", "observation": "full observation"}.get(space, space)


def _before_after(before: float | None, after: float | None) -> str:
    return f"{plain(before)} → {plain(after)}"
