"""Options ⇄ plain values: round trips, and one line about what is wrong."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from beacon.errors import UserError
from beacon.methods import METHODS, PAPER, RECOMMENDED, BeaconOptions
from beacon.plain import Part, changed, differences, from_plain, to_plain
from beacon.registry import Registry
from beacon.weighting import (
    CHECKS,
    DISCREPANCIES,
    KNN,
    SOLVERS,
    KNNRelative,
    Minimiser,
    NeighborActionCheck,
    Steps,
    WeightingConfig,
)

SHAPES: Registry[type[Shape]] = Registry("shape")


class Shape(Part, registry=SHAPES):
    """A kind of parts with parts in them."""


@SHAPES.register("circle")
@dataclass(frozen=True)
class Circle(Shape):
    radius: float = 1.0

    def __post_init__(self) -> None:
        if not self.radius > 0:
            raise ValueError(f"radius: must be above 0, got {self.radius}")


@SHAPES.register("group")
@dataclass(frozen=True)
class Group(Shape):
    members: tuple[Shape, ...] = ()
    name: str | None = None


@dataclass(frozen=True)
class Drawing:
    shape: Shape = field(default_factory=Circle)
    background: Shape | None = None
    size: tuple[int, int] = (4, 3)
    scale: float | Literal["auto"] = "auto"
    style: Literal["line", "fill"] = "line"
    file: Path = Path("drawing.png")
    layers: Mapping[str, float] = field(default_factory=dict)
    notes: Any = None
    visible: bool = True


NESTED = Drawing(
    shape=Group((Circle(2.0), Group((Circle(0.5),), name="inner"))),
    background=Circle(9.0),
    size=(1, 2),
    scale=0.5,
    style="fill",
    file=Path("a/b"),
    layers={"top": 1.0},
    notes={"free": [1, "two", None]},
    visible=False,
)


DEEP: Any = 1
for _ in range(10_000):
    DEEP = [DEEP]


def through_json(plain: Any) -> Any:
    return json.loads(json.dumps(plain))


def through_yaml(plain: Any) -> Any:
    return yaml.safe_load(yaml.safe_dump(plain))


@pytest.mark.parametrize("carry", [through_json, through_yaml])
@pytest.mark.parametrize(
    "options",
    [
        Drawing(),
        NESTED,
        WeightingConfig(alpha=0.4, solver=Steps(eta_q=0.3, cap="box")),
        WeightingConfig(solver=Minimiser(normalize_cost=True)),
        PAPER,
        RECOMMENDED,
        BeaconOptions(checks=(NeighborActionCheck(k=3, prior="none"),)),
    ],
    ids=["defaults", "nested", "steps", "minimiser", "paper", "recommended", "check"],
)
def test_there_and_back(options, carry) -> None:
    assert from_plain(type(options), carry(to_plain(options))) == options


@pytest.mark.parametrize("registry", [DISCREPANCIES, SOLVERS, CHECKS], ids=lambda registry: registry.what)
def test_every_part_goes_there_and_back_under_its_name(registry: Registry[Any]) -> None:
    assert len(registry) >= 2
    for name, part in registry.items():
        plain = through_json(to_plain(part()))
        assert plain["part"] == name == part().part_name
        assert from_plain(part.__mro__[-3], plain) == part()  # the base of its kind, before Part and object


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_options_of_every_method_go_there_and_back(method: str) -> None:
    options = METHODS[method].Options()
    assert from_plain(type(options), through_json(to_plain(options))) == options


def test_plain_values_name_the_parts() -> None:
    assert to_plain(NESTED)["shape"] == {
        "part": "group",
        "members": [
            {"part": "circle", "radius": 2.0},
            {"part": "group", "members": [{"part": "circle", "radius": 0.5}], "name": "inner"},
        ],
        "name": None,
    }
    assert to_plain(Drawing())["file"] == "drawing.png" and to_plain(Drawing())["size"] == [4, 3]


def test_what_is_missing_keeps_its_default_and_a_name_alone_is_a_part() -> None:
    assert from_plain(Drawing, {}) == Drawing()
    assert from_plain(Drawing, {"shape": "group"}) == Drawing(shape=Group())
    assert from_plain(Drawing, {"scale": 2}) == Drawing(scale=2.0)
    assert type(from_plain(Drawing, {"scale": 2}).scale) is float


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "value: a mapping of options expected, not None"),
        ([1], "value: a mapping of options expected, not [1]"),
        ({"shap": 1}, "shap: there is no such option; did you mean shape? there are shape, background"),
        ({1: 2}, "1: there is no such option"),
        ({"shape": None}, "shape: a shape with its name under 'part' expected, not None"),
        ({"shape": {"radius": 1.0}}, "shape: a shape with its name under 'part' expected"),
        ({"shape": {"part": 3}}, "shape: a shape with its name under 'part' expected"),
        ({"shape": "circel"}, "shape circel: there is no shape 'circel'; did you mean circle?"),
        ({"shape": {"part": "circle", "size": 1}}, "shape.size: there is no such option; there are radius"),
        ({"shape": {"part": "circle", "radius": -1}}, "shape: radius: must be above 0, got -1.0"),
        ({"shape": {"part": "circle", "radius": math.nan}}, "shape.radius: a number expected, not nan"),
        ({"shape": {"part": "circle", "radius": "2"}}, "shape.radius: a number expected, not '2'"),
        ({"shape": {"part": "circle", "radius": True}}, "shape.radius: a number expected, not True"),
        (
            {"shape": {"part": "group", "members": [{"part": "circle"}, {"part": "circle", "radius": []}]}},
            "shape.members[1].radius: a number expected, not []",
        ),
        ({"shape": {"part": "group", "members": "circle"}}, "shape.members: a list expected, not 'circle'"),
        ({"background": 3}, "background: a shape with its name under 'part' expected, not 3"),
        ({"size": [1, 2, 3]}, "size: a list of 2 expected, not [1, 2, 3]"),
        ({"size": [1, 2.5]}, "size[1]: a whole number expected, not 2.5"),
        ({"size": [1, True]}, "size[1]: a whole number expected, not True"),
        ({"scale": "automatic"}, "scale: "),
        ({"style": "dots"}, "style: one of 'line', 'fill' expected, not 'dots'"),
        ({"style": ["line"]}, "style: one of 'line', 'fill' expected, not ['line']"),
        ({"file": 3}, "file: a path expected, not 3"),
        ({"file": "a\0b"}, "file: a path cannot have a NUL character"),
        ({"layers": [1]}, "layers: a mapping expected, not [1]"),
        ({"layers": {"top": None}}, "layers.top: a number expected, not None"),
        ({"visible": "yes"}, "visible: true or false expected, not 'yes'"),
        ({"visible": 1}, "visible: true or false expected, not 1"),
        ({"shape": {"part": "circle", "radius": 10**400}}, "shape.radius: a number expected, not 1000"),
        ({"shape": {"part": "circle", "radius": DEEP}}, "shape.radius: a number expected, not [[["),
        ({"shape": DEEP}, "shape: a shape with its name under 'part' expected, not [[["),
        ({"sha\npe": 1}, r"sha\npe: there is no such option"),
        ({"s" * 9999: 1}, "sssss"),
        ({"shape": "cir\ncle"}, r"shape cir\ncle: there is no shape 'cir\ncle'; did you mean circle?"),
        ({"size": ["line\nbreak", 1]}, "size[0]: a whole number expected, not 'line\\nbreak'"),
        ({"size": ["x" * 100_000, 1]}, "size[0]: a whole number expected, not 'xxx"),
    ],
    ids=lambda part: reprlib.repr(part),
)
def test_what_is_wrong_is_one_short_line_with_its_path(value, message: str) -> None:
    with pytest.raises(UserError) as refusal:
        from_plain(Drawing, value)
    line = str(refusal.value)
    assert line.startswith(message) and "\n" not in line and len(line) < 250


def test_parts_nested_too_deeply_are_refused() -> None:
    shape: dict[str, Any] = {"part": "circle"}
    for _ in range(50):
        shape = {"part": "group", "members": [shape]}
    with pytest.raises(UserError, match="nested too deeply"):
        from_plain(Drawing, {"shape": shape})


def test_a_part_under_the_name_of_another_is_refused() -> None:
    assert from_plain(Circle, {"part": "circle", "radius": 2}) == Circle(2.0)
    with pytest.raises(UserError, match="part: 'circle' expected, not 'group'"):
        from_plain(Circle, {"part": "group"})


# changed


def test_changing_nested_options_keeps_the_others() -> None:
    new = changed(NESTED, {"size": [7, 8], "background": {"radius": 3}})
    assert new == Drawing(**{**vars(NESTED), "size": (7, 8), "background": Circle(3.0)})
    assert NESTED.background == Circle(9.0)


def test_another_name_replaces_a_part_the_same_name_changes_it() -> None:
    config = WeightingConfig(solver=Steps(eta_q=0.3))
    assert changed(config, {"solver": {"eta_w": 0.2}}).solver == Steps(eta_q=0.3, eta_w=0.2)
    same = changed(config, {"solver": {"part": "steps", "eta_w": 0.2}})
    assert same.solver == Steps(eta_q=0.3, eta_w=0.2)
    other = changed(config, {"solver": {"part": "minimiser", "normalize_cost": True}})
    assert other.solver == Minimiser(normalize_cost=True)
    assert changed(config, {"solver": "minimiser"}).solver == Minimiser()
    assert changed(config, {"solver": Minimiser()}).solver == Minimiser()


def test_what_all_of_a_run_is_made_of_can_be_changed() -> None:
    new = changed(RECOMMENDED, {"weighting": {"solver": {"part": "steps"}, "alpha": 0.3}, "checks": []})
    assert new.weighting.solver == Steps() and new.weighting.alpha == 0.3 and new.checks == ()
    assert new.weighting.lambda_2 == RECOMMENDED.weighting.lambda_2
    assert new.discrepancy == KNNRelative(outlier_tolerance=4.0)
    assert changed(new, {"discrepancy": "knn"}).discrepancy == KNN()
    back = changed(new, through_json(to_plain(RECOMMENDED)))
    assert back == RECOMMENDED


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"shap": 1}, "shap: there is no such option; did you mean shape? there are background, file"),
        ({"background": {"colour": 1}}, "background.colour: there is no such option; there are radius"),
        ({"background": {"radius": "big"}}, "background.radius: a number expected, not 'big'"),
        ({"background": {"part": "square"}}, "background square: there is no shape 'square'"),
        ({"shape": {"part": "circle", "members": []}}, "shape.members: there is no such option"),
        ({"background": {"radius": -1}}, "background: radius: must be above 0, got -1.0"),
        ({"size": DEEP}, "the options are nested too deeply"),
        ({"size": 3}, "size: a list expected, not 3"),
        ({"shape": 3}, "shape: a shape with its name under 'part' expected, not 3"),
    ],
    ids=lambda part: reprlib.repr(part),
)
def test_a_change_that_cannot_be_is_one_line_with_its_path(overrides, message: str) -> None:
    with pytest.raises(UserError) as refusal:
        changed(NESTED, overrides)
    assert str(refusal.value).startswith(message) and "\n" not in str(refusal.value)


def test_differences_name_the_path() -> None:
    first, second = to_plain(PAPER), to_plain(changed(PAPER, {"weighting": {"solver": {"eta_w": 0.2}}}))
    assert differences(first, second) == ["weighting.solver.eta_w: 0.05 and 0.2"]
    assert differences(first, first) == []
    assert differences({"a": 1}, {"b": 2}) == ["a: 1 and None", "b: None and 2"]
