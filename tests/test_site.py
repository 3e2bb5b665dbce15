"""The documentation builds strictly, and its pages ask the network for nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
# What a browser fetches by itself, unlike a link that somebody follows.
FETCHED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\"\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make site` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_no_page_needs_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    assert {str(page): seen for page in pages if (seen := FETCHED.findall(page.read_text()))} == {}


def test_what_a_browser_would_fetch_is_seen() -> None:
    assert FETCHED.findall('<script async src="https://x.org/a.js"></script><link rel="x" href="//y.org/z">')
    assert not FETCHED.findall('<a href="https://x.org">x</a><script src="assets/a.js"></script>')


def test_docstrings_are_on_the_page_of_the_api(site: Path) -> None:
    page = (site / "reference" / "python-api.html").read_text()
    for name in ("Reweighter", "planned_refreshes", "TrainedPolicy", "DatasetReader", "episode_weights"):
        assert name in page


def test_the_menu_lists_pages_that_exist() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r": (\S+\.md)$", text, re.MULTILINE))
    assert all((ROOT / "docs" / name).exists() for name in listed)
    assert yaml.safe_load(text)["theme"]["font"] is False
