"""A page that needs no other file and runs no script, in the report's style."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from beacon.data.errors import printable
from beacon.report.markup import Content, Markup, join, tag

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
DARK = "@media (prefers-color-scheme: dark) {{ :root {{ {} }} }}"


def static_page(title: str, note: str, sections: Content) -> str:
    """The page.

    Args:
        title: its heading.
        note: a sentence under it.
        sections: what follows.
    """
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        tag("style", Markup(_style())),
    ]
    header = tag("header", tag("div", tag("h1", title), tag("p", printable(note), class_="note")))
    body = tag("body", header, tag("main", sections))
    return "<!DOCTYPE html>\n" + tag("html", tag("head", head), body, lang="en") + "\n"


def facts(named_values: Sequence[tuple[str, str]]) -> Markup:
    """Numbers with their names, side by side.

    Args:
        named_values: names and values.
    """
    return tag(
        "div",
        [
            tag("div", tag("span", name, class_="label"), tag("span", value, class_="value"), class_="fact")
            for name, value in named_values
        ],
        class_="facts",
    )


def percent(value: float | None) -> str:
    """A share in per cent, a dash for none."""
    return "–" if value is None else f"{100 * value:.0f}%"


def _style() -> str:
    """The report's style; without its script, dark is as the reader's system says."""
    style = (resources.files("beacon.report") / "page" / "style.css").read_text(encoding="utf-8")
    start = style.index(':root[data-theme="dark"]')
    dark = style[style.index("{", start) + 1 : style.index("}", start)]
    return join([Markup(style), Markup(DARK.format(dark))])
