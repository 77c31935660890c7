"""A real Chromium without a window, driven by its DevTools protocol.

    async with opened(program, folder) as tab:
        await tab.show("http://…/#/topics", width=390, dark=True)
        await tab.until("document.querySelector('h1')")
        assert tab.errors == []

Source: chromedevtools.github.io/devtools-protocol, the domains Page, Runtime, Network, Emulation.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.waiting import eventually, limit

ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--disable-dev-shm-usage", "--remote-debugging-port=0"),
)
ANSWER_SECONDS_MAX = 30.0
HEIGHT = 900


class Tab:
    """One page.

    Attributes:
        errors: of scripts, of the console, and of what could not be loaded, since `show`.
        received: bytes over the network since `show`, compressed as they came, with headers.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self.received = 0
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.ensure_future(self._read())

    async def show(self, address: str, *, width: int = 1280, dark: bool = False) -> None:
        """Load a page anew."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=HEIGHT,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url="about:blank")
        self.errors, self.received = [], 0
        found = await self.call("Page.navigate", url=address)
        assert "errorText" not in found, found

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression, of its promise where it is one. Raises AssertionError."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true."""

        async def holds() -> bool:
            return bool(await self.evaluate(f"Boolean({expression})"))

        await eventually(holds, expression)

    async def picture(self) -> bytes:
        """The page as PNG."""
        found = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    async def call(self, method: str, **values: Any) -> dict[str, Any]:
        """The answer of the browser. Raises TimeoutError."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": values})
        found = await asyncio.wait_for(answer, limit(ANSWER_SECONDS_MAX))
        assert "error" not in found, found
        result: dict[str, Any] = found["result"]
        return result

    async def close(self) -> None:
        self._reading.cancel()
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            found = json.loads(message.data)
            if "id" in found:
                self._answers.pop(found["id"]).set_result(found)
            else:
                self._heard(found["method"], found["params"])

    def _heard(self, method: str, values: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.errors.append(str(details.get("exception", details).get("description", details)))
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.errors.append(f"{values['entry']['text']} {values['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "assert"):
            self.errors.append(str(values["args"]))
        elif method == "Network.loadingFinished":
            self.received += int(values["encodedDataLength"])


@contextlib.asynccontextmanager
async def opened(program: str, folder: Path) -> AsyncIterator[Tab]:
    """A browser that keeps its profile in `folder`, and its tab."""
    process = await asyncio.create_subprocess_exec(
        *(program, *ARGUMENTS, f"--user-data-dir={folder}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        written = folder / "DevToolsActivePort"
        await eventually(lambda: written.exists() and b"\n" in written.read_bytes(), "a browser")
        port = int(written.read_text("utf-8").split()[0])
        async with aiohttp.ClientSession() as http:

            async def pages() -> list[dict[str, str]]:
                async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    return [row for row in await answer.json() if row["type"] == "page"]

            first, *_ = await eventually(pages, "a tab")
            socket = await http.ws_connect(first["webSocketDebuggerUrl"], max_msg_size=1 << 28)
            tab = Tab(socket)
            try:
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await tab.call(f"{domain}.enable")
                yield tab
            finally:
                await tab.close()
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended: the test's error counts
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), limit(ANSWER_SECONDS_MAX))
        except TimeoutError:
            process.kill()
            await process.wait()
