"""The admin's HTTP server: uvicorn in the relay's own loop, without signals and log set-up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp

from laps_relay.admin.live import LiveFeed

__all__ = ["AdminServer"]


class _Quiet(uvicorn.Server):
    """A server that leaves signals to the relay, and tells when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture no signal."""
        yield


class AdminServer:
    """The admin on a TCP port."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        feed: LiveFeed | None = None,
        sock: socket.socket | None = None,
    ) -> None:
        """``sock`` is a bound TCP socket to use instead of host and port."""
        self._app = app
        self._host = host
        self._port = port
        self._feed = feed
        self._socket = sock
        self._server: _Quiet | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address that it answers at."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def start(self) -> None:
        """Bind and serve. Raises ``OSError`` if the port is taken."""
        # Bound here and not by uvicorn, which would end the process if it cannot.
        if self._socket is None:
            self._socket = socket.create_server(
                (self._host, self._port),
                family=socket.AF_INET6 if ":" in self._host else socket.AF_INET,
            )
        self._host, self._port = self._socket.getsockname()[:2]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=10,
            timeout_keep_alive=5,
            limit_concurrency=256,
        )
        self._server = _Quiet(config)
        self._task = asyncio.create_task(
            self._server.serve(sockets=[self._socket]), name="laps-admin"
        )
        await self._server.up.wait()

    async def stop(self) -> None:
        """Answer requests under way, then close."""
        if self._feed is not None:
            self._feed.stop()
        if self._server is not None:
            self._server.should_exit = True
        if self._task is not None:
            await self._task
            self._task = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
