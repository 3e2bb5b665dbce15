"""``beacon export RUN OUT``: a policy alone, in one folder to hand on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from beacon.cli.parsing import parse

DESCRIPTION = """Write a policy alone into a folder: parameters, description, provenance and a card.

Examples:
  beacon export runs/beacon policies/reach --license apache-2.0
  beacon export runs/beacon policies/reach --onnx"""


@dataclass(frozen=True)
class ExportCommand:
    """Options of the command line."""

    # A run folder, or a checkpoint.
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    # The folder to write; it must not exist.
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
    # Licence of the parameters, as an SPDX name such as apache-2.0 or cc-by-4.0.
    license: str | None = None
    # Also write the policy as one ONNX graph, compared with the original.
    onnx: bool = False
    # Also write it by torch.export, compared likewise.
    torch_export: bool = False


def main(arguments: list[str]) -> int:
    """Parse and run."""
    try:
        command: ExportCommand = parse(
            ExportCommand, arguments, prog="beacon export", description=DESCRIPTION
        )
    except SystemExit:  # help was printed
        return 0
    from beacon.serving.export import ExportOptions, export_policy

    options = ExportOptions(command.license, command.onnx, command.torch_export)
    report = export_policy(command.run, command.out, options)
    print(f"the policy is in {command.out} (SHA-256 {report['sha256'][:16]}); loaded again, it does the same")
    for file, difference in report["differences"].items():
        print(f"{file}: actions differ by at most {difference:.1e} of their range")
    return 0
