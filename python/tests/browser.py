"""A headless Chromium, driven over two pipes: pages are looked at as a person would see them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

#: What the browser is called on different systems.
NAMES = ("chromium", "chromium-browser", "google-chrome")


#: It asks its maker for things of its own otherwise.
SILENT = (
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
)


class Browser:
    """One page at a time."""

    def __init__(self, profile: Path) -> None:
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        assert program is not None, "there is no Chromium; tools/setup browser installs it"
        self._read, out = os.pipe()
        into, self._write = os.pipe()
        # Chromium reads commands from descriptor 3 and writes to 4.
        script = f'exec "$@" 3<&{into} 4>&{out}'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", *SILENT]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *options, f"--user-data-dir={profile}"],
            pass_fds=(into, out),
            stderr=subprocess.DEVNULL,
        )
        os.close(into)
        os.close(out)
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    _session: str | None = None

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            some = os.read(self._read, 1 << 16)
            assert some, "Chromium has ended"
            self._rest += some
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, page: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Show a page in a window of that size."""
        self.events.clear()
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """What is seen, as a PNG file."""
        return base64.b64decode(self._ask("Page.captureScreenshot")["data"])

    def complaints(self) -> list[str]:
        """Errors and warnings of the page's console."""
        methods = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in methods]

    def requests(self) -> list[str]:
        """What the page has asked for."""
        asked = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in asked]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
