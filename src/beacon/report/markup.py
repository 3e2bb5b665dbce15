"""HTML that cannot be injected into: every string is escaped unless it was made here."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

from beacon.plain import finite

VOID = ("img", "input", "meta")  # elements without content


class Markup(str):
    """Text that is HTML already."""


Content = str | Markup | None | Iterable["Content"]


def tag(name: str, *content: Content, **attributes: str | int | bool | None) -> Markup:
    """An element; ``class_`` is class, underscores inside names are hyphens.

    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    parts = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(attribute)
        elif value is not None and value is not False:
            parts.append(f'{attribute}="{html.escape(str(value))}"')
    if name in VOID:
        return Markup(f"<{' '.join(parts)}>")
    return Markup(f"<{' '.join(parts)}>{join(content)}</{name}>")


def join(content: Content) -> Markup:
    """Everything, escaped where it is not markup."""
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(html.escape(content))
    return Markup("".join(join(part) for part in content))


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Content]],
    *,
    numeric: Iterable[int] = (),
    class_: str | None = None,
) -> Markup:
    """A table with one line of headings; ``numeric`` columns are set to the right."""
    right = set(numeric)

    def cells(name: str, values: Sequence[Content]) -> list[Markup]:
        return [tag(name, value, class_="number" if i in right else None) for i, value in enumerate(values)]

    head = tag("thead", tag("tr", cells("th", headings)))
    body = tag("tbody", [tag("tr", cells("td", row)) for row in rows])
    return tag("div", tag("table", head, body, class_=class_), class_="scroll")


def script_data(value: Any) -> Markup:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment."""
    try:
        text = _json(value)
    except ValueError:  # numbers that are not finite, which JSON does not have
        text = _json(finite(value))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
