"""The desk as its user sees it: open, play, mark, undo, reload; with the keyboard alone and on 400 pixels."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import point_robot as robot
import pytest
from browser import Browser
from desk_servers import DEMOS, OpenDesk

from beacon.data.decisions import Decision, append_decision, read_decisions, read_lines
from beacon.desk.annotations import Sources

CHOSEN = "document.querySelector('.cell[aria-selected=true] .label').textContent"
DECISION = "document.getElementById('decision').textContent"
SHOWN = "document.getElementById('viewer').dataset.demo"
STEP = "Number(document.getElementById('time').value)"
HOSTILE = "<img src=x onerror='window.broken=1'>"


def view_first(browser: Browser, address: str) -> None:
    browser.open(address)
    browser.press("Enter")
    browser.wait(f"{SHOWN} !== undefined")
    browser.wait("document.querySelector('#own canvas').dataset.step === '0'")


def test_it_opens_sorted_by_score_without_complaint_and_without_the_network(
    browser: Browser, open_desk: OpenDesk
) -> None:
    server = open_desk()
    browser.open(server.address)

    assert (
        browser.run("document.getElementById('count').textContent")
        == f"{DEMOS + 6} of {DEMOS + 6} shown, 0 decided"
    )
    scores = browser.run("[...document.querySelectorAll('.cell .numbers')].map((e) => e.textContent)")
    values = [float(text.rpartition("score ")[2]) for text in scores if "score" in text]
    assert len(values) > 10 and values == sorted(values, reverse=True)
    browser.wait(
        "[...document.querySelectorAll('.cell img')].every((i) => i.complete && i.naturalWidth === 32)"
    )
    assert browser.complaints == []
    assert {url[: len(server.address)] for url in browser.requests} == {server.address}


def test_one_is_shown_with_cameras_curves_reasons_and_its_neighbour(
    browser: Browser, open_desk: OpenDesk
) -> None:
    view_first(browser, open_desk().address)

    titles = browser.run("[...document.querySelectorAll('.panel h3')].map((e) => e.textContent)")
    assert titles[:3] == ["actions", "robot0_eef_pos", "robot0_gripper_qpos"]
    assert {"weight", "loss"} <= set(titles)
    counts = browser.run(
        "[...document.querySelectorAll('.panel')].map((e) => e.querySelectorAll('path').length)"
    )
    assert counts[0] == 8  # four actions, and those of the neighbour
    assert "nearest target by proprioception: real.hdf5" in browser.run(
        "document.querySelector('#other h3').textContent"
    )
    browser.wait("document.querySelector('#other canvas').dataset.step === '0'")
    assert "accused" in browser.run("document.getElementById('facts').textContent")
    assert browser.run("document.querySelectorAll('#reasons li.fault').length") > 0


def test_reasons_are_marked_where_they_are(browser: Browser, open_desk: OpenDesk) -> None:
    server = open_desk()
    frozen = DEMOS - 1
    view_first(browser, server.address)
    browser.run(
        "(document.getElementById('search').value = 'same picture', "
        "document.getElementById('search').dispatchEvent(new Event('input')))"
    )
    browser.press("Escape")
    browser.run("document.getElementById('grid').focus()")
    browser.press("Enter")
    browser.wait(f"{SHOWN} === '{frozen}'")

    evidence = server.desk.demo(frozen)["evidence"]
    first, last = next(item["frames"] for item in evidence if item["kind"] == "frozen frames")
    length = server.desk.collection.demos[frozen].length
    left, width = browser.run(
        "(() => { const m = document.querySelector('#marks span').getBoundingClientRect(),"
        "b = document.getElementById('marks').getBoundingClientRect();"
        "return [(m.left - b.left) / b.width, m.width / b.width]; })()"
    )
    assert left == pytest.approx(first / (length - 1), abs=0.01)
    assert width == pytest.approx((last - first) / (length - 1), abs=0.01)
    browser.run("document.querySelector('#reasons button').click()")
    assert browser.run(STEP) == first


def test_it_plays_both_in_step_with_the_curves(browser: Browser, open_desk: OpenDesk) -> None:
    view_first(browser, open_desk().address)

    browser.press(" ")
    browser.wait(f"{STEP} > 5")
    browser.press(" ")
    step = browser.run(STEP)
    last = browser.run("Number(document.getElementById('time').max)")
    browser.wait(f"document.querySelector('#own canvas').dataset.step === '{step}'")
    other_last = browser.run(
        "document.querySelectorAll('.panel path.other')[0].getAttribute('d').split('L').length - 1"
    )
    beside = f"String(Math.round({step / last} * {other_last}))"
    browser.wait(f"document.querySelector('#other canvas').dataset.step === {beside}")
    cursors = browser.run("[...document.querySelectorAll('.cursor')].map((e) => parseFloat(e.style.left))")
    assert cursors == pytest.approx([100 * step / last] * len(cursors), abs=0.01)

    browser.press("ArrowRight")
    assert browser.run(STEP) == step + 1
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert browser.run(STEP) == step - 1
    assert browser.complaints == []


def test_every_step_is_painted_also_where_frames_are_fetched_ahead(
    browser: Browser, open_desk: OpenDesk
) -> None:
    view_first(browser, open_desk().address)
    for step in range(1, 35):
        browser.press("ArrowRight")
        assert browser.run(STEP) == step
    browser.wait("document.querySelector('#own canvas').dataset.step === '34'")


def test_decisions_are_written_undone_and_survive_a_reload(
    browser: Browser, open_desk: OpenDesk, tmp_path: Path
) -> None:
    server = open_desk()
    view_first(browser, server.address)
    name = browser.run(CHOSEN)

    browser.press("d")
    browser.wait(f"{DECISION}.startsWith('drop by anna')")
    browser.press("ArrowDown")
    browser.wait(f"{DECISION} === 'undecided'")
    browser.press("k")
    browser.wait(f"{DECISION}.startsWith('keep by anna')")
    browser.press("f")
    browser.wait(f"{DECISION}.startsWith('repair by anna')")
    decided = {
        item.demonstration: item.decision for item in read_decisions(tmp_path / "decisions.jsonl").decided
    }
    assert decided[name] == "drop" and sorted(decided.values()) == ["drop", "repair"]  # type: ignore[type-var]

    browser.press("u")
    browser.wait(f"{DECISION}.startsWith('keep by anna')")
    browser.open(server.address)
    assert browser.run("document.getElementById('count').textContent").endswith("2 decided")
    badges = browser.run(
        "[...document.querySelectorAll('.badge')].map((e) => e.textContent.trim()).filter(Boolean)"
    )
    assert badges == ["dropped", "kept"]
    browser.press("u")  # what was decided before the reload
    browser.wait("document.getElementById('count').textContent.endsWith('1 decided')")
    browser.press("u")
    browser.wait("document.getElementById('count').textContent.endsWith('0 decided')")
    browser.press("u")
    browser.wait("document.getElementById('message').textContent.includes('no decision of this window')")
    lines = read_lines(tmp_path / "decisions.jsonl")
    assert [line.decision for line in lines] == ["drop", "keep", "repair", "undo", "undo", "undo"]
    assert all(line.who == "anna" and line.when for line in lines)


def test_what_another_window_decides_appears(browser: Browser, open_desk: OpenDesk, tmp_path: Path) -> None:
    browser.open(open_desk().address)
    append_decision(tmp_path / "decisions.jsonl", Decision("sim.hdf5", "demo_0", "drop", who="ben"))
    browser.wait("document.getElementById('count').textContent.endsWith('1 decided')")


def test_a_note_is_written(browser: Browser, open_desk: OpenDesk, tmp_path: Path) -> None:
    view_first(browser, open_desk().address)
    browser.press("n")
    browser.wait("document.getElementById('note-dialog').open")
    browser.type(f"slips {HOSTILE}")
    browser.run("document.getElementById('note-save').click()")
    browser.wait(f"{DECISION}.includes('note: slips <img')")
    assert read_decisions(tmp_path / "decisions.jsonl").decided[0].note == f"slips {HOSTILE}"
    assert browser.run("window.broken") is None


def test_the_keyboard_is_enough(browser: Browser, open_desk: OpenDesk) -> None:
    browser.open(open_desk().address)
    assert browser.run("document.activeElement.id") == "grid"
    columns = browser.run("Math.floor(document.getElementById('grid').clientWidth / 150)")
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft"):
        browser.press(key)
    assert (
        browser.run("document.getElementById('grid').getAttribute('aria-activedescendant')")
        == f"cell-{columns}"
    )
    browser.press("End")
    assert browser.run("document.querySelector('.cell[aria-selected=true]').dataset.place") == str(DEMOS + 5)
    browser.press("/")
    assert browser.run("document.activeElement.id") == "search"
    browser.type("demo_7")
    browser.wait("document.querySelectorAll('.cell').length === 1")
    browser.press("Enter")
    browser.press("Enter")
    browser.wait(f"{SHOWN} === '7'")
    browser.press("Escape")
    assert browser.run("document.getElementById('viewer').hidden") is True
    assert browser.run("document.activeElement.id") == "grid"
    browser.press("Tab")
    assert browser.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_works_on_400_pixels(scheme: str, browser: Browser, open_desk: OpenDesk) -> None:
    browser.prefer(scheme)
    browser.resize(400, 800)
    view_first(browser, open_desk().address)
    wide = "document.documentElement.scrollWidth > 400 || document.getElementById('viewer').scrollWidth > 400"
    assert browser.run(wide) is False
    assert browser.run("getComputedStyle(document.getElementById('grid')).display") == "none"
    ink, paper = browser.run(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    light_ink = sum(json.loads(f"[{ink[4:-1]}]")) > sum(json.loads(f"[{paper[4:-1]}]"))
    assert light_ink == (scheme == "dark")
    browser.press("Escape")
    assert browser.run("document.documentElement.scrollWidth > 400") is False
    assert browser.run("document.querySelectorAll('.cell').length") > 4


def test_hostile_names_run_no_script(browser: Browser, open_desk: OpenDesk, tmp_path: Path) -> None:
    demos = robot.demonstrations(3, seed=5)
    demos[0]["attributes"] = {HOSTILE: HOSTILE, "task": "</script><script>window.broken=1</script>"}
    file = robot.write(tmp_path / f"{HOSTILE.replace('/', '')}.hdf5", demos)
    with h5py.File(file, "r+") as opened:
        opened["data"].move("demo_0", HOSTILE)
        group = opened["data"][HOSTILE]["obs"]
        group.move("agentview_image", f"{HOSTILE}_image")
        group.move("robot0_eef_pos", HOSTILE)
    server = open_desk(Sources((file,)))
    browser.open(server.address)
    browser.press("End")
    for _ in range(3):
        browser.press("Enter")
        browser.wait(f"{SHOWN} !== undefined")
        browser.press("ArrowUp")
    browser.wait("document.querySelector('#own figcaption')")
    assert HOSTILE in browser.run("document.body.textContent")
    assert browser.run("window.broken") is None
    assert browser.run("document.querySelectorAll('img[src=x]').length") == 0
    assert browser.run("document.getElementById('message').textContent") == ""
    assert browser.complaints == []


def test_only_what_is_in_view_exists(browser: Browser, open_desk: OpenDesk) -> None:
    browser.resize(400, 500)
    browser.open(open_desk().address)
    assert browser.run("document.querySelectorAll('.cell').length") < DEMOS
    browser.press("End")
    browser.wait(f"document.querySelector('.cell[aria-selected=true]')?.dataset.place === '{DEMOS + 5}'")
    assert browser.run("document.querySelectorAll('.cell').length") < DEMOS
