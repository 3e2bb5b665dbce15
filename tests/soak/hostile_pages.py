"""Runs and reports whose every name was made to harm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import h5py
from browser import Browser
from demonstrations import make_dataset
from report_runs import write_evaluation
from tiny_runs import tiny_config

from beacon.report import write_report
from beacon.training import train
from soak.campaign import Randomness

# Each would set window.owned, load something, or break out of its place.
NAMES = (
    "<script>window.owned=1</script>",
    '"><img src=x onerror="window.owned=1">',
    "'-window.owned=1-'",
    "</script><script>window.owned=1</script>",
    "<svg/onload=window.owned=1>",
    "javascript:window.owned=1",
    "${window.owned=1}",
    "{{window.owned=1}}",
    "<!--",
    "]]>",
    "<style>*{display:none}</style>",
    "\u2028window.owned=1\u2029",
    "\u202ereversed",
    "&lt;script&gt;window.owned=1&lt;/script&gt;",
    "<iframe src=//evil.example>",
    "a" * 200,
)


def train_named(
    folder: Path, names: Sequence[str], camera: str = "agentview_image", text: str = "none"
) -> Path:
    """A short run whose datasets have these names; one that is there is taken.

    Args:
        folder: the run.
        names: of the files of source and target.
        camera: name of the camera in them.
        text: of attributes of all demonstrations.
    """
    if (folder / "checkpoints" / "last").exists():
        return folder
    files = []
    for number, name in enumerate(names):
        file = folder.parent / "data" / f"{name}.hdf5"
        file.parent.mkdir(parents=True, exist_ok=True)
        make_dataset(file, 2, steps=5, seed=number, camera=camera)
        with h5py.File(file, "r+") as opened:
            opened["data"].attrs["env_args"] = json.dumps({"env_name": text, "type": 1, "env_kwargs": {}})
            for demo in opened["data"].values():
                demo.attrs["flaw"] = text
                demo.attrs["placements"] = json.dumps({text: [0.1, 0.2, 0.0]})
        files.append(file)
    train(tiny_config("beacon", files[0], files[1], steps=4), folder)
    return folder


def try_page(folder: Path, browser: Browser, rng: Randomness) -> str | None:
    """Train on hostile names, write the report and open it; what went wrong.

    Args:
        folder: for run and page.
        browser: opens the page.
        rng: chooses the names.
    """

    def draw() -> str:
        return NAMES[int(rng.integers(len(NAMES)))]

    names = [f"{draw()} {number}".replace("/", "∕")[:80] for number in range(2)]  # no file may have a slash
    text = draw()
    run = train_named(folder / draw().replace("/", "∕")[:80], names, draw().replace("/", "∕"), text)
    result = write_evaluation(run, [1, 0, 1])
    plain = json.loads(result.read_text()) | {"task": draw(), "domain": draw(), "size": draw()}
    plain["rates"] = {draw(): plain["rates"]["success"]}
    result.write_text(json.dumps(plain))
    page = folder / "report.html"
    write_report([run], page, projection="none")
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(page)
    if browser.run("window.owned"):
        return f"a script ran: files {names}, attribute {text!r}"
    if away := [
        address for address in browser.requests if not address.startswith(("file:", "data:", "blob:"))
    ]:
        return f"the page asks for {away[0][:200]}"
    if browser.complaints:
        return f"the page complains: {browser.complaints[0][:300]}"
    if not browser.run("document.body.innerText.length > 500"):
        return "the page shows nothing"
    return None
