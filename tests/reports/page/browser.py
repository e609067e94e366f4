"""Headless Chromium, controlled through a pipe with the DevTools protocol: no port and no driver program."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update"),
)


class Browser:
    """A running Chromium with one page; ``events`` has the events on the page since it was opened.

    ``profile`` is a folder for Chromium's files.
    """

    def __init__(self, profile: Path) -> None:
        self.events: list[Mapping[str, Any]] = []
        assert CHROMIUM is not None
        chromium_reads, self._write_end = os.pipe()
        self._read_end, chromium_writes = os.pipe()

        def connect() -> None:
            """Move the pipes to descriptor 3, which Chromium reads, and 4, to which it writes."""
            ends = [fcntl(end, F_DUPFD, 10) for end in (chromium_reads, chromium_writes)]
            for place, end in enumerate(ends, 3):
                os.dup2(end, place)
                os.close(end)

        self._process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"],
            preexec_fn=connect,
            close_fds=False,  # closing would close those two; Python's other descriptors are not inherited
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(chromium_reads)
        os.close(chromium_writes)
        self._unread, self._number, self._session = b"", 0, None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> Any:
        while b"\0" not in self._unread:
            part = os.read(self._read_end, 1 << 16)
            assert part, "Chromium is gone"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def open(self, address: str, width: int = 1280, height: int = 900, **media: str) -> None:
        """Open a page and wait until it has loaded; ``media`` are features such as ``prefers_color_scheme``."""
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.ask("Emulation.setEmulatedMedia", features=features)
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        for each in (
            "about:blank",
            address,
        ):  # without the blank page, another fragment of the same page would load nothing
            self._load("Page.navigate", url=each)

    def back(self) -> None:
        """Go back to the page that was open before this one."""
        history = self.ask("Page.getNavigationHistory")
        entry = history["entries"][history["currentIndex"] - 2]  # the entry between them is the blank page
        self._load("Page.navigateToHistoryEntry", entryId=entry["id"])

    def _load(self, method: str, **parameters: Any) -> None:
        self.events.clear()
        self.ask(method, **parameters)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript on the page and return its value, also that of a promise."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, **text)

    def tap(self, element: str, across: float = 0.5, down: float = 0.5) -> None:
        """Tap with a finger on an element, given as an expression, at these fractions of its width and height."""
        self.run(f"{element}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        inside = f"[b.left + {across} * b.width, b.top + {down} * b.height]"
        x, y = self.run(f"(() => {{ const b = {element}.getBoundingClientRect(); return {inside}; }})()")
        self.ask("Emulation.setTouchEmulationEnabled", enabled=True)
        self.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.ask("Emulation.setTouchEmulationEnabled", enabled=False)

    @property
    def console_messages(self) -> list[str]:
        """Messages logged to the console or thrown since the page was opened."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in kinds]

    @property
    def requested(self) -> list[str]:
        """Addresses of all requests since the page was opened."""
        sent = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [parameters["request"]["url"] for parameters in sent]

    def close(self) -> None:
        """End the browser."""
        os.close(self._write_end)  # Chromium ends when its pipe is closed
        os.close(self._read_end)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def column(browser: Browser, table: str, number: int) -> list[str]:
    """Return the texts of a column in the visible rows; ``table`` is an expression in JavaScript."""
    cells = (
        f"[...{table}.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[{number}].textContent.trim())"
    )
    return browser.run(cells)


def type_into(browser: Browser, selector: str, value: str) -> None:
    """Give a form field a value, with the events of a user's input."""
    browser.run(
        f"""(() => {{ const input = document.querySelector({json.dumps(selector)});
        input.value = {json.dumps(value)};
        for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind, {{ bubbles: true }})); }})()"""
    )
