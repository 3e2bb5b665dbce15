from __future__ import annotations

from pathlib import Path

import pytest

from beacon.errors import UserError
from beacon.sim.domains import DOMAINS, CameraResponse, domain_from_dict, read_domain, resolve_domain
from beacon.sim.scene import scene_xml
from beacon.sim.tasks import make_task


@pytest.mark.parametrize("name", DOMAINS)
def test_every_parameter_survives_json(name: str) -> None:
    import json

    domain = DOMAINS[name]
    assert domain_from_dict(json.loads(json.dumps(domain.as_dict()))) == domain


def test_a_domain_in_a_few_lines_of_yaml(tmp_path: Path) -> None:
    file = tmp_path / "evening.yaml"
    file.write_text("base: texture\nlook: {headlight: 0.1}\nphysics: {action_delay: 2}\n")
    domain = resolve_domain(file)
    assert domain.name == "evening"
    assert domain.look.table == DOMAINS["texture"].look.table
    assert domain.look.headlight == 0.1
    assert domain.physics.action_delay == 2
    assert domain.camera == CameraResponse()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("look: {tabel: x}", "look.tabel: there is no such option; did you mean table"),
        ("look: 3", "look: a mapping of options expected, not 3"),
        ("look: {light_colour: [1, 2]}", "look.light_colour: a list of 3 expected"),
        ("physics: {action_delay: often}", "physics.action_delay: a whole number expected, not 'often'"),
        ("physics: {mass: -1}", "must be positive"),
        ("base: moon", "base 'moon' is not a domain"),
        ("[1, 2]", "must hold a mapping"),
        ("a: [", "not valid YAML"),
    ],
)
def test_mistakes_in_yaml_are_told(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=message.replace("[", r"\[")):
        read_domain(file)


def test_unknown_domain_and_missing_file() -> None:
    with pytest.raises(UserError, match="no domain 'mars'; take one of source"):
        resolve_domain("mars")
    with pytest.raises(UserError, match="cannot read the domain file"):
        resolve_domain("absent.yaml")


def test_unknown_texture(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("look: {table: velvet}")
    with pytest.raises(UserError, match="no texture 'velvet'"):
        scene_xml(make_task("lift", "small"), read_domain(file))


def test_texture_gap_changes_the_table_and_nothing_else() -> None:
    task = make_task("stack", "small")
    source, texture = (scene_xml(task, DOMAINS[name]) for name in ("source", "texture"))
    assert texture.replace("wood-varnished-panels.png", "ceramic.png") == source
