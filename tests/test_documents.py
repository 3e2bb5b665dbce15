"""Documents and examples say what is true now."""

from __future__ import annotations

import ast
import importlib
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


# The paper, statement by statement

PAPER_PAGE = ROOT / "docs" / "paper.md"


def test_every_name_and_test_of_the_papers_page_exists() -> None:
    text = PAPER_PAGE.read_text()
    names = re.findall(r"\[`(\w+)`\]\(\.\./(src/[\w/]+\.py)\)", text)
    tests = re.findall(r"\[(tests/[\w/]+\.py)::([\w:]+)\]\(\.\./(tests/[\w/]+\.py)\)", text)
    assert len(names) > 50 and len(tests) > 50
    assert len(names) + len(tests) == len(re.findall(r"\]\(\.\./(?:src|tests)/", text))  # no other form
    for name, file in names:
        assert name in defined(ROOT / file), f"{file} has no {name}"
    for shown, test, file in tests:
        assert shown == file and test in defined(ROOT / file), f"{file} has no {test}"


def test_every_row_of_the_papers_page_has_code_a_test_and_a_verdict() -> None:
    rows = [line for line in PAPER_PAGE.read_text().splitlines() if line.startswith("| ")]
    statements = [row.strip("| ").split(" | ") for row in rows if not row.startswith("| paper |")]
    assert len(statements) > 50
    for statement in statements:
        assert len(statement) == 5, statement
        _, code, test, literal, note = statement
        assert "](../src/" in code and "](../tests/" in test, statement
        assert literal == "yes" or note != "–", statement  # what is not literal has a reason


def defined(file: Path) -> set[str]:
    """Functions, classes and names of a module, methods as Class::method."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


# Mutants


def test_mutants_can_be_made_and_their_tests_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    mutants = importlib.import_module("mutants").load()
    assert len(mutants) >= 60 and len({mutant.name for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        ast.parse(mutant.apply((ROOT / mutant.file).read_text()))  # its pattern occurs exactly once
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert (ROOT / file).exists() and (not name or name in defined(ROOT / file)), test
