"""Prints the oldest versions that pyproject.toml allows, as constraints: minimal_versions.py EXTRA ..."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(.*)$")


def minimal_versions(project: dict[str, object], extras: list[str]) -> dict[str, str]:
    """Name and oldest version of every requirement that has one.

    Args:
        project: the table ``project`` of pyproject.toml.
        extras: whose requirements count beside the plain ones.
    """
    required = list(project["dependencies"])  # type: ignore[call-overload]
    for extra in extras:
        required += project["optional-dependencies"][extra]  # type: ignore[index]
    found: dict[str, str] = {}
    for requirement in required:
        match = REQUIREMENT.match(requirement)
        assert match is not None, requirement
        oldest = re.search(r"[>=]=\s*([0-9][^,;\s]*)", match[2])
        if oldest is not None:
            found[match[1]] = oldest[1]
    return found


if __name__ == "__main__":
    table = tomllib.loads(PROJECT.read_text())["project"]
    for name, version in minimal_versions(table, sys.argv[1:]).items():
        print(f"{name}=={version}")
