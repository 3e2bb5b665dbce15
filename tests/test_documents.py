"""Documents and examples say what is true now."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_example_is_sixty_lines_and_beacon_beats_uniform_weights() -> None:
    file = ROOT / "examples" / "plain_pytorch_loop.py"
    assert len(file.read_text().splitlines()) <= 60
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    errors = dict(re.findall(r"^(\S+)\s+target error (\d\.\d+)", done.stdout, re.MULTILINE))
    assert float(errors["beacon"]) < 0.6 * float(errors["uniform"])
    assert float(errors["beacon"]) < 0.6 * float(errors["target-only"])


@pytest.mark.parametrize(
    "document",
    [
        *("README.md", "CONTRIBUTING.md", "SECURITY.md"),
        *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
    ],
)
def test_links_lead_somewhere(document: str) -> None:
    file = ROOT / document
    for link in re.findall(r"\]\(([^)\s]+)\)", file.read_text()):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        linked = file if not path else file.parent / path
        assert linked.exists(), link
        if anchor:
            assert linked.suffix == ".md" and anchor in anchors(linked), link


def anchors(file: Path) -> set[str]:
    """What links may point to in a Markdown file: its headings, as GitHub and MkDocs name them."""
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *#*$", text, re.MULTILINE)
    plain = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).lower() for heading in headings]
    explicit = re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)
    return {*explicit, *(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain)}


def test_anchors_are_made_as_pages_make_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# The `beacon` run, part 2\n\n```\n# not a heading\n```\n## [Links](x.md) too\n")
    assert anchors(page) == {"the-beacon-run-part-2", "links-too"}
