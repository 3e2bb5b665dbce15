"""`Registry`: built-in parts, parts by address, parts of other packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from beacon.errors import UserError
from beacon.registry import Registry
from beacon.weighting import DISCREPANCIES, SOLVERS, DomainClassifier, Minimiser, Steps

GROUP = "beacon.test_shapes"


def install(folder: Path, name: str, entries: dict[str, str], module: str) -> None:
    """A package as an installer leaves it: a module, and metadata with entry points."""
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{entry} = {address}" for entry, address in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]) + "\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder of installed packages; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_part_is_found_under_its_name_and_its_name_by_the_part() -> None:
    shapes: Registry[object] = Registry("shape")

    @shapes.register("circle")
    class Circle: ...

    square = object()
    assert shapes.register("square")(square) is square
    assert shapes["circle"] is Circle and shapes.find("circle") is Circle
    assert list(shapes) == ["circle", "square"] and len(shapes) == 2 and "circle" in shapes
    assert shapes.name_of(square) == "square"
    with pytest.raises(KeyError, match="Triangle"):
        shapes.name_of(type("Triangle", (), {}))
    with pytest.raises(KeyError):
        shapes["triangle"]


def test_a_name_is_taken_once() -> None:
    shapes: Registry[object] = Registry("shape")
    shapes.register("circle")(Minimiser)
    shapes.register("circle")(Minimiser)  # the same again, as by a module that is imported twice
    with pytest.raises(ValueError, match=r"there is a shape 'circle' already: beacon.*\.Minimiser"):
        shapes.register("circle")(Steps)
    assert shapes["circle"] is Minimiser


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("circel", None, "there is no shape 'circel'; did you mean circle? choose one of square, circle"),
        ("a\nb", None, r"there is no shape 'a\nb'; choose one of square, circle"),
        ("z" * 9999, "--shape", "--shape zzz"),
        ("zzz", None, "there is no shape 'zzz'; choose one of square, circle"),
        ("sqare", "--shape", "--shape sqare: there is no shape 'sqare'; did you mean square? choose one of"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, option: str | None, message: str) -> None:
    shapes: Registry[object] = Registry("shape")
    shapes.register("circle")(Minimiser)
    shapes.register_lazily("square", "beacon.weighting:Steps")
    with pytest.raises(UserError) as refusal:
        shapes.find(name, option)
    line = str(refusal.value)
    assert line.startswith(message) and "\n" not in line and len(line) < 300


def test_an_address_is_imported_when_it_is_asked_for(site: Path) -> None:
    (site / "lazy_shapes.py").write_text("class Circle: ...\n")
    shapes: Registry[object] = Registry("shape")
    shapes.register_lazily("circle", "lazy_shapes:Circle")
    assert list(shapes) == ["circle"] and "circle" in shapes and "square" not in shapes
    with pytest.raises(UserError, match="did you mean circle"):
        shapes.find("circl")
    assert "lazy_shapes" not in sys.modules
    circle = shapes["circle"]
    assert circle.__name__ == "Circle" and shapes["circle"] is circle
    assert "lazy_shapes" in sys.modules and shapes.name_of(circle) == "circle"


def test_the_home_of_built_in_parts_is_imported_for_whoever_asks(site: Path) -> None:
    (site / "shape_home.py").write_text(
        "import shape_registry\nshape_registry.SHAPES.register('circle')(object())\n"
    )
    (site / "shape_registry.py").write_text(
        "from beacon.registry import Registry\nSHAPES = Registry('shape', home='shape_home')\n"
    )
    from shape_registry import SHAPES

    assert "shape_home" not in sys.modules
    assert list(SHAPES) == ["circle"]


def test_parts_of_installed_packages_join(site: Path) -> None:
    entries = {"star": "star_shapes:Star", "comet": "star_shapes:Comet"}
    install(site, "star_shapes", entries, "class Star: ...\nclass Comet: ...\n")
    shapes: Registry[object] = Registry("shape", GROUP)
    shapes.register("circle")(Minimiser)
    assert list(shapes) == ["circle", "star", "comet"]
    assert shapes.find("star").__module__ == "star_shapes"
    assert list(Registry("shape")) == []  # without a group nobody joins


@pytest.mark.parametrize(
    ("address", "module", "why"),
    [
        ("broken_shapes:Star", "raise RuntimeError('out of paper')\n", "out of paper"),
        ("broken_shapes:Star", "", "Star"),
        ("no_such_module:Star", "", "no_such_module"),
    ],
)
def test_a_broken_package_is_told_and_keeps_nobody_from_working(site: Path, address, module, why) -> None:
    install(site, "broken_shapes", {"star": address}, module)
    shapes: Registry[object] = Registry("shape", GROUP)
    shapes.register("circle")(Minimiser)
    with pytest.warns(UserWarning, match=f"the shape 'star' .* is left out: .*{why}"):
        assert list(shapes) == ["circle"]
    assert list(shapes) == ["circle"]  # told once


@pytest.mark.parametrize("lazily", [False, True])
def test_another_package_cannot_take_the_name_of_a_built_in_part(site: Path, lazily: bool) -> None:
    install(site, "rival_shapes", {"circle": "rival_shapes:Circle"}, "class Circle: ...\n")
    shapes: Registry[object] = Registry("shape", GROUP)
    if lazily:
        shapes.register_lazily("circle", "beacon.weighting:Minimiser")
    else:
        shapes.register("circle")(Minimiser)
    assert shapes["circle"] is Minimiser  # without asking other packages
    with pytest.warns(UserWarning, match="there is a shape 'circle' already"):
        assert list(shapes) == ["circle"]
    assert shapes["circle"] is Minimiser


def test_the_real_registries() -> None:
    assert SOLVERS["steps"] is Steps and SOLVERS["minimiser"] is Minimiser
    assert DISCREPANCIES.name_of(DomainClassifier) == "classifier"
    with pytest.raises(UserError, match="there is no discrepancy 'knn-realtive'; did you mean knn-relative"):
        DISCREPANCIES.find("knn-realtive")
