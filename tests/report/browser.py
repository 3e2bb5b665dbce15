"""Headless Chromium over the DevTools protocol, through a pipe: no driver, no further package."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 120.0  # seconds; a busy machine takes long to start a browser


def find_browser() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One page in one browser. What it complains about is in ``complaints``."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        program = find_browser()
        assert program, "no Chromium; Debian: apt-get install chromium"
        self._home = tempfile.mkdtemp(prefix="beacon-browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4; first move ours out of the way.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]
        for end in (to_read, to_write):
            os.close(end)

        def place() -> None:
            for end, number in zip(ends, (3, 4), strict=True):
                os.dup2(end, number)

        self._process = subprocess.Popen(
            [
                program,
                *FLAGS,
                f"--window-size={width},{height}",
                f"--user-data-dir={self._home}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place,
        )
        for end in ends:
            os.close(end)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self._session = None
            self._send("Browser.close")
            self._process.wait(10)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(10)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._home, ignore_errors=True)

    def resize(self, width: int, height: int) -> None:
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str | Path) -> float:
        """Open a page, wait until its script has drawn everything, and say how many seconds that took."""
        url = address.resolve().as_uri() if isinstance(address, Path) else address
        began = time.monotonic()
        self._call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset?.drawn === 'yes'")
        return time.monotonic() - began

    def leave(self) -> None:
        """Leave the page: what it still asks for is no longer of interest."""
        self._call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def busy(self) -> float:
        """Seconds of a processor that the page's main thread has used since this was asked first."""
        self._call("Performance.enable", timeDomain="threadTicks")
        metrics = {
            each["name"]: float(each["value"]) for each in self._call("Performance.getMetrics")["metrics"]
        }
        return metrics["TaskDuration"]

    def wait(self, condition: str, patience: float = PATIENCE) -> None:
        until = time.monotonic() + patience
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < until, f"in vain: {condition}; {self.complaints}"
            time.sleep(0.05)

    def hover(self, x: float, y: float) -> None:
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        self.hover(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def touch(self, x: float, y: float) -> None:
        """Put a finger down and lift it."""
        self._call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str, **modifiers: int) -> None:
        """Press and release a key by its name in JavaScript: "k", "ArrowDown", " ", "Enter"."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38}
        codes |= {"ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        code = codes.get(key, ord(key[0].upper()))
        options: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code, **modifiers}
        self._call("Input.dispatchKeyEvent", type="keyDown", **options, **({"text": text} if text else {}))
        self._call("Input.dispatchKeyEvent", type="keyUp", **options)

    def type(self, text: str) -> None:
        """Insert text where the cursor is."""
        self._call("Input.insertText", text=text)

    def place_of(self, selector: str) -> tuple[float, float]:
        """The middle of an element, after it was scrolled into view."""
        found = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        return found[0], found[1]

    def screenshot(self, path: Path | None = None, *, whole: bool = False) -> bytes:
        options: dict[str, Any] = {"captureBeyondViewport": whole}
        if whole:
            width, height = self.run(
                "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
            )
            options["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        picture = base64.b64decode(self._call("Page.captureScreenshot", format="png", **options)["data"])
        if path is not None:
            path.write_bytes(picture)
        return picture

    def pdf(self) -> bytes:
        return base64.b64decode(self._call("Page.printToPDF", printBackground=True)["data"])

    # The protocol: JSON messages that end with a zero byte.

    def _send(self, method: str, **parameters: Any) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        return self._number

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = self._send(method, **parameters)
        until = time.monotonic() + PATIENCE
        while True:
            message = self._receive(until)
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message.get('error')}"
                result: dict[str, Any] = message["result"]
                return result
            self._notice(message)

    def _receive(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _notice(self, message: dict[str, Any]) -> None:
        handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "Runtime.exceptionThrown": lambda p: self.complaints.append(
                p["exceptionDetails"].get("exception", {}).get("description") or p["exceptionDetails"]["text"]
            ),
            "Runtime.consoleAPICalled": lambda p: (
                self.complaints.append(str([a.get("value") for a in p["args"]]))
                if p["type"] in ("error", "warning", "assert")
                else None
            ),
            "Log.entryAdded": lambda p: (
                self.complaints.append(p["entry"]["text"]) if p["entry"]["level"] == "error" else None
            ),
            "Network.requestWillBeSent": lambda p: self.requests.append(p["request"]["url"]),
        }
        handler = handlers.get(message.get("method", ""))
        if handler is not None:
            handler(message["params"])
