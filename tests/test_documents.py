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
    ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))],
)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (ROOT / document).parent.joinpath(link).exists(), link
