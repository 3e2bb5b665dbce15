"""The last section: what the runs are, in what they differ, and the commands that repeat them."""

from __future__ import annotations

from pathlib import Path

import yaml

from beacon.report.markup import Content, Markup, join, table, tag
from beacon.report.reproduce import evaluate_command, flat, report_command, train_command
from beacon.report.run_record import Missing
from beacon.report.run_view import RunView
from beacon.report.sections import plain, run_label, section

SESSIONS = 3  # the newest that are shown
MANY = 12  # differing options to show before the rest is folded away


def configuration_section(
    views: list[RunView], missing: list[tuple[str, Missing]], out: Path | None
) -> Markup:
    """Facts, differences, commands, and every configuration in full."""
    parts: list[Content] = [_facts(views), _provenance(views)]
    if len(views) > 1:
        parts.append(_differences(views))
    commands = []
    for view in views:
        record = view.record
        if record.train_config is not None:
            commands.append(train_command(record.train_config, record.path))
        commands += [evaluate_command(record.path, e) for e in record.evaluations]
    commands.append(report_command([view.record for view in views], out))
    parts += [tag("h3", "Commands to reproduce"), tag("pre", "\n".join(commands))]
    for view in views:
        text = yaml.safe_dump(dict(view.record.config), sort_keys=False, allow_unicode=True)
        parts.append(
            tag(
                "details", tag("summary", f"Configuration of {view.title}"), tag("pre", text), class_="config"
            )
        )
    return section("configuration", "Configuration", parts, missing=missing)


def _facts(views: list[RunView]) -> Markup:
    rows: list[list[Content]] = []
    for view in views:
        record = view.record
        versions = dict(record.versions)
        for evaluation in record.evaluations[:1]:
            versions |= evaluation.versions
        planned = record.planned_steps
        rows.append(
            [
                run_label(view),
                record.method,
                plain(record.option("optimization", "seed")),
                f"{record.last_step:,} of {planned:,}" if planned else f"{record.last_step:,}",
                record.checkpoint.name if record.checkpoint else "none",
                ", ".join(f"{name} {version}" for name, version in versions.items()) or "unknown",
                tag("code", str(record.path)),
            ]
        )
    heads = ["Run", "Method", "Seed", "Steps", "Checkpoint", "Versions", "Folder"]
    return table(heads, rows, numeric=(2, 3))


def _provenance(views: list[RunView]) -> Markup:
    """Which data, code and machine made the runs."""
    rows: list[list[Content]] = []
    for view in views:
        record = view.record
        data = [f"{one.name} {one.actions[:12]} {one.frames[:12]}" for one in record.domains]
        sessions = [
            f"{plain(one.get('started'))}: beacon {plain(one.get('beacon'))}, "
            f"commit {str(one.get('commit') or 'unknown')[:12]}, {plain(one.get('cores'))} cores of "
            f"{plain(one.get('processor'))}, {plain(one.get('system'))}, {plain(one.get('device'))}"
            for one in record.sessions
        ]
        rows.append(
            [run_label(view), "; ".join(data) or "unknown", "; ".join(sessions[-SESSIONS:]) or "unknown"]
        )
    heads = ["Run", "Data (hashes of actions and first frames)", "Trained by"]
    return join([tag("h3", "Provenance"), table(heads, rows)])


def _differences(views: list[RunView]) -> Markup:
    """Options that all runs have with different values; a method's own are in its configuration."""
    options = [dict(flat(view.record.config)) for view in views]
    shared = [n for n in options[0] if all(n in values for values in options) and not n.startswith("run.")]
    differing = [n for n in shared if len({str(values[n]) for values in options}) > 1]
    rows: list[list[Content]] = [
        [tag("code", name), *(plain(values[name]) for values in options)] for name in differing
    ]
    if not rows:
        return tag("p", "All runs have the same configuration.", class_="note")
    differences = table(["Option", *(view.title for view in views)], rows)
    if len(rows) > MANY:
        differences = tag("details", tag("summary", f"{len(rows)} options differ"), differences)
    return join([tag("h3", "Where the runs differ"), differences])
