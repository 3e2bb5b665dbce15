"""For MkDocs: links to files that are no pages (sources, examples, results) become their paths."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Called by MkDocs with the text of every page before it is rendered.

    Args:
        markdown: text of the page.
        page: the page, whose file knows where it is.
        others: what else MkDocs passes.
    """
    folder = posixpath.dirname(page.file.src_uri)

    def plain(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, link[2]))
        if path.startswith("docs/"):
            return link[0]
        text = link[1].strip("`")
        return f"`{path}`" if path.endswith(text.rstrip("/")) else f"{link[1]} (`{path}`)"

    return LINK.sub(plain, markdown)
