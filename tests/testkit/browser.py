"""Headless Chromium for tests: a page from an address, JavaScript in it, values back.

It is driven over a pair of pipes (``--remote-debugging-pipe``: JSON messages that end in a zero
byte), so no port and no other package is needed::

    with chromium() as browser:
        page = browser.open(f"http://127.0.0.1:{port}/")
        page.wait_for("document.title === 'ready'")
        assert page.evaluate("1 + 1") == 2

All calls block: inside a running loop use ``asyncio.to_thread``.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

__all__ = ["Browser", "BrowserError", "Page", "chromium", "serve_pages"]

LIMIT = 90.0
"""Seconds after which something that should have happened did not."""

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, in containers without user namespaces
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class BrowserError(AssertionError):
    """The browser did not do what it was asked, or the page threw."""


class Browser:
    """One Chromium with its own empty profile."""

    def __init__(self, pid: int, to_browser: int, from_browser: int) -> None:
        self.pid = pid
        self._to = to_browser
        self._from = from_browser
        self._buffer = b""
        self._last_id = 0
        self._events: list[dict[str, Any]] = []

    def open(self, url: str) -> Page:
        """Load a page and wait until it has loaded."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable", session=page.session)
        navigated = self.call("Page.navigate", {"url": url}, session=page.session)
        if "errorText" in navigated:
            raise BrowserError(f"{url}: {navigated['errorText']}")
        self.wait_event("Page.loadEventFired", page.session)
        return page

    def call(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
        limit: float = LIMIT,
    ) -> dict[str, Any]:
        """One command of the DevTools protocol, and its result."""
        self._last_id += 1
        message: dict[str, object] = {"id": self._last_id, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        deadline = time.monotonic() + limit
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def wait_event(self, method: str, session: str) -> None:
        """Wait until an event has come, or take one that came already."""
        deadline = time.monotonic() + LIMIT
        while True:
            for event in self._events:
                if event.get("method") == method and event.get("sessionId") == session:
                    self._events.remove(event)
                    return
            self._events.append(self._read(deadline, method))

    def said(self, session: str) -> list[str]:
        """What the page wrote to its console, and what went wrong in it."""
        lines = []
        for event in self._events:
            if event.get("sessionId") != session:
                continue
            params = event.get("params", {})
            match event.get("method"):
                case "Runtime.consoleAPICalled":
                    values = [
                        str(arg.get("value", arg.get("description"))) for arg in params["args"]
                    ]
                    lines.append(f"{params['type']}: {' '.join(values)}")
                case "Runtime.exceptionThrown":
                    details = params["exceptionDetails"]
                    thrown = details.get("exception", {}).get("description", details["text"])
                    lines.append(f"exception: {thrown}")
                case "Log.entryAdded":
                    entry = params["entry"]
                    lines.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
        return lines

    def _read(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise BrowserError(f"{what}: no answer from the browser")
            data = os.read(self._from, 1 << 16)
            if not data:
                raise BrowserError(f"{what}: the browser has ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


class Page:
    """One page of a browser."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self.session = session

    def evaluate(self, expression: str, *, limit: float = LIMIT) -> Any:
        """The value of an expression, which may be a promise."""
        answer = self._browser.call(
            "Runtime.evaluate",
            {"expression": expression, "awaitPromise": True, "returnByValue": True},
            session=self.session,
            limit=limit,
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details["text"])
            raise BrowserError(f"{thrown}\n" + "\n".join(self.said))
        return answer["result"].get("value")

    def wait_for(self, condition: str, *, limit: float = LIMIT) -> Any:
        """Wait until an expression is true in the page; its value."""
        waiting = """
            new Promise((resolve) => {
              const look = () => {
                let value = false;
                try { value = CONDITION; } catch (error) { console.debug(String(error)); }
                if (value) resolve(value); else setTimeout(look, 20);
              };
              look();
            })
        """.replace("CONDITION", condition)
        try:
            return self.evaluate(waiting, limit=limit)
        except BrowserError as error:
            text = self.evaluate("document.body.innerText")
            said = "\n".join(self.said[-20:])
            raise BrowserError(f"{condition}: {error}\n{text}\n{said}") from None

    @property
    def said(self) -> list[str]:
        """What the page wrote to its console, and what went wrong in it."""
        return self._browser.said(self.session)


@contextmanager
def chromium(*flags: str) -> Generator[Browser]:
    """A browser, for as long as the block lasts; skips the test where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    # It reads commands from its descriptor 3 and writes answers to its descriptor 4.
    read_commands, to_browser = os.pipe()
    from_browser, write_answers = os.pipe()
    profile = tempfile.mkdtemp(prefix="laps-chromium-")
    silence = os.open(os.devnull, os.O_RDWR)
    # Above 4, so that setting 3 and 4 overwrites neither.
    ends = [_above(fd, 10) for fd in (read_commands, write_answers, silence)]
    pid = os.posix_spawn(
        path,
        [path, *FLAGS, f"--user-data-dir={profile}", *flags, "about:blank"],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, ends[2], 0),
            (os.POSIX_SPAWN_DUP2, ends[2], 1),
            (os.POSIX_SPAWN_DUP2, ends[2], 2),
            (os.POSIX_SPAWN_DUP2, ends[0], 3),
            (os.POSIX_SPAWN_DUP2, ends[1], 4),
        ],
        setpgroup=0,  # its helpers end with it
    )
    for fd in ends:
        os.close(fd)
    try:
        yield Browser(pid, to_browser, from_browser)
    finally:
        _kill(pid)
        os.close(to_browser)
        os.close(from_browser)
        shutil.rmtree(profile, ignore_errors=True)


def _kill(group: int) -> None:
    """End the browser and its helpers, which are not our children, and wait until they are gone."""
    os.killpg(group, signal.SIGKILL)
    os.waitpid(group, 0)
    deadline = time.monotonic() + LIMIT
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, signal.SIGKILL)
            time.sleep(0.01)


def _above(fd: int, lowest: int) -> int:
    import fcntl  # noqa: PLC0415 - not everywhere, as Chromium from a package is not

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
    os.close(fd)
    return moved


class _PageHandler(BaseHTTPRequestHandler):
    def __init__(self, pages: Mapping[str, tuple[str, bytes]], *args: Any) -> None:
        self._pages = pages
        super().__init__(*args)

    def do_GET(self) -> None:
        kind, body = self._pages.get(self.path.partition("?")[0], ("text/plain", b""))
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        pass


@contextmanager
def serve_pages(pages: Mapping[str, tuple[str, bytes]]) -> Generator[str]:
    """Serve pages (path -> content type and body) on loopback; gives ``http://127.0.0.1:port``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_PageHandler, pages)) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
