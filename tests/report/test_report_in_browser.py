"""The page as a reader sees it: drawn, without complaint, and doing what it says."""

from __future__ import annotations

import base64
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser
from PIL import Image
from report_runs import make_demonstrations, train_run, write_evaluation

from beacon.report import Report, write_report
from beacon.report.figure_spec import Bars, Figure, Interval, Line, Points


@pytest.fixture
def opened(browser: Browser, page: tuple[Path, Report]) -> tuple[Browser, Report]:
    browser.complaints.clear()
    browser.requests.clear()
    browser.prefer("light")
    browser.resize(1280, 900)
    browser.open(page[0])
    return browser, page[1]


def test_it_opens_without_complaint_and_without_the_network(opened: tuple[Browser, Report]) -> None:
    browser, _ = opened
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


def test_every_figure_has_drawn_all_of_its_marks(opened: tuple[Browser, Report]) -> None:
    browser, report = opened
    drawn = browser.run(
        "Object.fromEntries([...document.querySelectorAll('figure[data-figure]')].map((figure) =>"
        "[figure.dataset.figure, [...figure.querySelectorAll('svg')].map((svg) =>"
        "[...svg.querySelectorAll('.mark')].filter((mark) => { const b = mark.getBBox();"
        "return b.width + b.height > 0; }).length)]))"
    )
    expected = {figure.key: [_mark_count(panel) for panel in figure.panels] for figure in report.figures}
    assert drawn == expected
    assert {"success", "learning", "objective", "weight-evolution", "weight-distribution", "mass"} <= set(
        drawn
    )
    assert {"phase", "coverage", "causes", "corruption", "rank-2"} <= set(drawn)


def _mark_count(panel: Any) -> int:
    sizes = {Line: lambda m: 1, Bars: lambda m: 1, Points: lambda m: len(m.x), Interval: lambda m: 2}
    return sum(sizes[type(mark)](mark) for mark in panel.marks)


def test_the_map_has_pixels_of_every_domain_in_both_pictures(opened: tuple[Browser, Report]) -> None:
    browser, _ = opened
    for space in ("vision", "observation"):
        for colour, least in (("domain", 2), ("weight", 5), ("phase", 5), ("corruption", 3)):
            browser.run(
                f"(() => {{ for (const [id, v] of [['map-space', '{space}'], ['map-colour', '{colour}']]) "
                f"{{const e = document.getElementById(id); e.value = v; e.dispatchEvent(new "
                "Event('change')); } })()"
            )
            for place in range(2):
                pixels = _canvas(browser, place)
                solid = pixels[pixels[..., 3] > 180][:, :3]
                assert len(np.unique(solid // 16, axis=0)) >= least
                assert 300 < len(solid) < pixels.shape[0] * pixels.shape[1] / 2
    assert browser.complaints == []


def _canvas(browser: Browser, place: int) -> np.ndarray:
    uri = browser.run(f"document.querySelectorAll('.map-panel canvas')[{place}].toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).convert("RGBA"))


def test_positions_on_the_page_are_the_numbers(opened: tuple[Browser, Report]) -> None:
    browser, report = opened
    figures = {figure.key: figure for figure in report.figures}
    points = figures["coverage"].panels[0]
    x, y = _axes(browser, "coverage")
    found = browser.run(
        "[...document.querySelectorAll('#figure-coverage .dotmark')].map((dot) => {"
        "const m = dot.transform.baseVal[0].matrix; return [m.e, m.f]; })"
    )
    values = [pair for mark in points.marks for pair in zip(mark.x, mark.y, strict=True)]  # type: ignore[union-attr]
    for (px, py), (vx, vy) in zip(found, values, strict=True):
        assert x(px) == pytest.approx(vx, abs=0.003 * (x(600) - x(0)))
        assert y(py) == pytest.approx(vy, abs=0.003 * abs(y(300) - y(0)))

    evolution = figures["weight-evolution"].panels[0]
    x, y = _axes(browser, "weight-evolution")
    paths = browser.run(
        "[...document.querySelectorAll('#figure-weight-evolution .line')].map((p) => p.getAttribute('d'))"
    )
    for text, mark in zip(paths, evolution.marks, strict=True):
        pairs = [tuple(map(float, part.split())) for part in text[1:].split("L")]
        np.testing.assert_allclose([x(a) for a, _ in pairs], mark.x, atol=0.3)  # type: ignore[union-attr]
        np.testing.assert_allclose([y(b) for _, b in pairs], mark.y, atol=0.01)  # type: ignore[union-attr]


def _axes(browser: Browser, key: str) -> tuple[Any, Any]:
    """From pixels to values, by the tick labels that a reader goes by."""
    texts = browser.run(
        f"[...document.querySelectorAll('#figure-{key} svg:first-of-type text')].filter((t) => "
        "!t.hasAttribute('transform') && !isNaN(Number(t.textContent))).map((t) => "
        "[t.getAttribute('text-anchor'), +t.getAttribute('x'), +t.getAttribute('y'), +t.textContent])"
    )
    across = np.array([(px, value) for anchor, px, _, value in texts if anchor == "middle"])
    up = np.array([(py - 4, value) for anchor, _, py, value in texts if anchor == "end"])
    return (
        np.poly1d(np.polyfit(across[:, 0], across[:, 1], 1)),
        np.poly1d(np.polyfit(up[:, 0], up[:, 1], 1)),
    )


def test_rates_and_intervals_stand_where_they_should(opened: tuple[Browser, Report]) -> None:
    browser, report = opened
    figure = next(figure for figure in report.figures if figure.key == "success")
    ticks = browser.run(
        "[...document.querySelectorAll('#figure-success .gridline')].map((l) => +l.getAttribute('x1'))"
    )
    zero, one = min(ticks), max(ticks)
    rows = browser.run(
        "[...document.querySelectorAll('#figure-success circle.mark')].map((c) => +c.getAttribute('cx'))"
    )
    bars = browser.run(
        "[...document.querySelectorAll('#figure-success line.mark')].map((l) =>"
        "[+l.getAttribute('x1'), +l.getAttribute('x2')])"
    )
    for mark, centre, bar in zip(figure.panels[0].marks, rows, bars, strict=True):
        assert isinstance(mark, Interval)
        seen = [(value - zero) / (one - zero) for value in (bar[0], centre, bar[1])]
        assert seen == pytest.approx([mark.low, mark.value, mark.high], abs=1e-6)


def test_selecting_a_demonstration_shows_its_frames(opened: tuple[Browser, Report]) -> None:
    browser, report = opened
    assert browser.run("document.getElementById('viewer').hidden")
    browser.click(*browser.place_of("[data-kind=kept] .demo"))
    assert not browser.run("document.getElementById('viewer').hidden")
    name = browser.run("document.querySelector('[data-kind=kept] .demo b').textContent")
    text = browser.run("document.getElementById('viewer').textContent")
    assert name in text and "rank 1 of 14" in text
    frames = browser.run("document.querySelectorAll('#viewer .strip .frame').length")
    demo = int(browser.run("document.querySelector('[data-kind=kept] .demo').dataset.demo").split(":")[1])
    pool = report.assets[0].pool
    assert frames == len(np.unique(np.linspace(0, pool.lengths[demo] - 1, 10).round()))
    # The picture on the screen is the demonstration's own first frame.
    box = browser.run(
        "(() => { const b = document.querySelector('#viewer .frame.large').getBoundingClientRect();"
        "return [b.left, b.top, b.right, b.bottom]; })()"
    )
    screen = Image.open(io.BytesIO(browser.screenshot())).convert("RGB").crop([round(v) for v in box])
    true = Image.fromarray(pool.frames(demo, [0])[0]).resize(screen.size, Image.Resampling.BILINEAR)
    difference = np.abs(np.asarray(screen, float) - np.asarray(true, float))[8:-8, 8:-8]
    assert difference.mean() < 12
    # The slider goes through time, and Escape closes.
    browser.run(
        "(() => { const s = document.querySelector('#viewer input'); s.value = s.max;"
        "s.dispatchEvent(new Event('input')); })()"
    )
    assert f"step {pool.lengths[demo] - 1} of" in browser.run("document.getElementById('viewer').textContent")
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert browser.run("document.getElementById('viewer').hidden")
    assert browser.complaints == []


def test_points_lead_to_their_demonstrations(opened: tuple[Browser, Report]) -> None:
    browser, report = opened
    browser.place_of(".map-panel:nth-child(2) canvas")
    place = browser.run(
        "(() => { const b = document.querySelectorAll('.map-panel canvas')[1].getBoundingClientRect();"
        "const [x, y] = mapState.places.after[3]; return [b.left + x, b.top + y]; })()"
    )
    browser.hover(*place)
    point = browser.run("mapState.hover")
    assets = report.assets[0]
    shown = browser.run("document.getElementById('map-card').textContent")
    assert assets.pool.names[assets.demos[point]] in shown
    assert f"step {assets.times[point]} of" in shown
    assert browser.run("Boolean(document.querySelector('#map-card .frame').style.backgroundImage)")
    browser.click(*place)
    assert assets.pool.names[assets.demos[point]] in browser.run(
        "document.querySelector('#viewer h4').textContent"
    )
    browser.run("closeViewer()")
    browser.click(*browser.place_of("#figure-rank-2 .dotmark"))
    assert not browser.run("document.getElementById('viewer').hidden")
    assert browser.run("document.querySelectorAll('svg .dotmark.chosen').length") >= 2  # in every scatter
    browser.run("closeViewer()")
    assert browser.complaints == []


def test_light_dark_narrow_and_printed(opened: tuple[Browser, Report]) -> None:
    browser, _ = opened

    def background() -> str:
        return str(browser.run("getComputedStyle(document.body).backgroundColor"))

    light = background()
    browser.run("document.getElementById('theme').click()")
    dark = background()
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
    browser.run("document.getElementById('theme').click()")
    assert background() == light
    browser.resize(420, 800)
    browser.wait("document.querySelector('#figure-phase svg').viewBox.baseVal.width < 400")
    assert browser.run("document.documentElement.scrollWidth") <= 420
    browser.resize(1280, 900)
    browser.wait("document.querySelector('#figure-weight-evolution svg').viewBox.baseVal.width > 400")
    printed = browser.pdf()
    assert printed.startswith(b"%PDF") and len(printed) > 50_000
    assert browser.complaints == []


def test_a_telephone_shows_all_of_it(opened: tuple[Browser, Report]) -> None:
    """400 points wide: nothing but tables scrolls sideways, and a touch does what a mouse does by moving."""
    browser, _ = opened
    browser.resize(400, 800)
    browser.wait("document.querySelector('#figure-phase svg').viewBox.baseVal.width < 400")
    wide = browser.run(
        "[...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll') && !e.closest('svg')"
        "&& e.getBoundingClientRect().right > 401).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    text = browser.run("document.body.textContent")
    assert "Hover" not in text and "target (target)" not in text
    place = browser.place_of("#figure-learning svg")
    browser.touch(*place)
    browser.wait("!document.getElementById('tooltip').hidden")
    box = browser.run("(() => { const b = tooltip.getBoundingClientRect(); return [b.left, b.right]; })()")
    assert box[0] >= 0 and box[1] <= 400
    browser.resize(1280, 900)
    assert browser.complaints == []


def test_a_large_page_draws_its_parts_when_they_are_near(
    browser: Browser, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beacon.report.build.LAZY_BYTES", 1)
    out = tmp_path / "report.html"
    write_report([trained / "cotrain", trained / "beacon"], out, projection="pca")
    browser.complaints.clear()
    browser.resize(1280, 900)
    browser.open(out)
    waiting = "[...document.querySelectorAll('figure[data-figure] .panels:empty')].length"
    assert browser.run(waiting) > 3
    assert browser.run("document.querySelectorAll('#gallery .demo').length") == 0
    browser.place_of("#gallery")
    browser.wait("document.querySelectorAll('#gallery .demo .frame').length > 3")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(waiting) == 0
    assert len(np.unique(_canvas(browser, 1).reshape(-1, 4), axis=0)) > 3
    assert browser.complaints == []


EVIL = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2>"


def test_text_from_datasets_stays_text(browser: Browser, tmp_path: Path) -> None:
    """Names of runs, files and corruptions, settings of evaluations: none may become markup."""
    name = "<b onmouseover=hacked=3>&\"'`${1}`"  # what a folder may be called
    source = make_demonstrations(tmp_path / f"{name}.hdf5", 6, corrupted=2, corruption=EVIL)
    target = make_demonstrations(tmp_path / "real.hdf5", 3, seed=1)
    run = train_run(tmp_path / f"run {name}", "beacon", [source], target, epochs=2, steps_per_epoch=2)
    file = write_evaluation(run, [1, 0, 1])
    result = json.loads(file.read_text())
    result |= {"task": EVIL, "domain": EVIL, "versions": {EVIL: EVIL}}
    file.write_text(json.dumps(result))
    with (run / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps({"kind": "train", "step": 4, f"loss/{EVIL}": 1.0, "loss": 0.5}) + "\n")
    out = tmp_path / "report.html"
    write_report([run], out, projection="pca")
    browser.complaints.clear()
    browser.open(out)
    browser.click(*browser.place_of("[data-kind=faded] .demo"))
    assert browser.run("typeof window.hacked") == "undefined"
    assert browser.run("document.querySelectorAll('img:not([src^=data])').length") == 0
    assert browser.run("document.querySelectorAll('[onerror],[onmouseover]').length") == 0
    runs = "[...document.scripts].filter((script) => script.type !== 'application/json').length"
    assert browser.run(runs) == 1
    body = browser.run("document.body.textContent")
    assert EVIL in body and name in body
    assert browser.run("document.title").endswith(f"run {name}")
    browser.run("closeViewer()")
    assert browser.complaints == []


def test_a_page_of_six_runs_in_two_sources(browser: Browser, trained: Path, tmp_path: Path) -> None:
    other = make_demonstrations(tmp_path / "other.hdf5", 5, seed=2, background=(20, 80, 40))
    both = [trained / "sim.hdf5", other]
    runs = [trained / "target-only", trained / "cotrain", trained / "beacon"]
    target = trained / "real.hdf5"
    runs.append(Path(shutil.copytree(trained / "beacon", tmp_path / "again" / "beacon")))  # of the same name
    for method in ("beacon", "cotrain"):
        out = tmp_path / f"two-sources-{method}"
        runs.append(train_run(out, method, both, target, epochs=3, steps_per_epoch=2))
    report = write_report(runs, tmp_path / "report.html", projection="pca")
    figures: dict[str, Figure] = {figure.key: figure for figure in report.figures}
    weights = figures["domain-weights"]
    assert len(weights.panels) == 1
    for panel in weights.panels:
        assert {mark.name for mark in panel.marks} == {"sim", "other"}
        sums = np.sum([mark.y for mark in panel.marks], axis=0)  # type: ignore[union-attr]
        np.testing.assert_allclose(sums, 1.0, atol=1e-4)
    browser.complaints.clear()
    browser.open(tmp_path / "report.html")
    assert browser.complaints == []
    options = browser.run("[...document.querySelectorAll('#map-run option')].map((o) => o.value)")
    assert options == [str(place) for place in range(6)]
    for place in options:
        browser.run(
            f"(() => {{ const e = document.getElementById('map-run'); e.value = '{place}';"
            "e.dispatchEvent(new Event('change')); })()"
        )
        assert len(np.unique(_canvas(browser, 1).reshape(-1, 4), axis=0)) > 3
    assert browser.complaints == []
