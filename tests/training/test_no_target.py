"""A run without target demonstrations has no target domain: no source is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_runs import TINY, tiny_config

from beacon import load_policy
from beacon.data import EpisodeSet
from beacon.data.domains import Domains
from beacon.errors import UserError
from beacon.runs import RunFolder
from beacon.training import Trainer, train

ADAPTED = replace(TINY, encoder=replace(TINY.encoder, adapt_view=True))


def test_no_sources_camera_is_adapted(source: Path, other_source: Path, tmp_path: Path) -> None:
    config = tiny_config("source-only", (source, other_source), None, policy=ADAPTED)
    trainer = Trainer(config, RunFolder(tmp_path))
    assert trainer.domains == Domains(("sim", "other"), None)
    trainer.run()
    assert not trainer.policy.encoder.views[0].departure.any()


def test_the_targets_camera_is(source: Path, target: Path, tmp_path: Path) -> None:
    trainer = Trainer(tiny_config("cotrain", source, target, policy=ADAPTED), RunFolder(tmp_path))
    assert trainer.domains == Domains(("sim",), "real")
    trainer.run()
    assert trainer.policy.encoder.views[0].departure.any()


def test_ranges_of_no_single_source_are_the_policys(source: Path, other_source: Path, tmp_path: Path) -> None:
    sources, per_domain = (source, other_source), {"statistics": "per-domain"}
    with pytest.raises(UserError, match="per-domain needs target demonstrations where there are several"):
        Trainer(tiny_config("source-only", sources, None, data=per_domain), RunFolder(tmp_path / "refused"))
    with pytest.raises(UserError, match="--statistics target needs target demonstrations"):
        tiny_config("source-only", sources, None, data={"statistics": "target"})
    train(tiny_config("source-only", source, None, data=per_domain), tmp_path / "one")
    scale = load_policy(tmp_path / "one").normalization.actions
    actions = EpisodeSet.load(source).actions
    assert (scale.offset - scale.scale).tolist() == pytest.approx(actions.min(0).tolist(), abs=1e-6)


def test_no_record_is_the_targets(source: Path, other_source: Path, target: Path, tmp_path: Path) -> None:
    config = tiny_config("source-only", (source, other_source), None, data={"validation": target})
    train(config, tmp_path / "run")
    records = json.loads((tmp_path / "run" / "data.json").read_text())
    assert [record["is_target"] for record in records] == [False, False]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    held_out = [line["loss"] for line in lines if line["kind"] == "validation"]
    assert len(held_out) == 3 and np.isfinite(held_out).all()
