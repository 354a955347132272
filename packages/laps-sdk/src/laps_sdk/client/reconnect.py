"""Keeps a session connected: the current link, the next one, and what moves from link to link.

::

    link up ----lost----> back off, dial, attach everything again ---> link up
       |
       '----GOAWAY------> dial the new address first, attach, then leave the old link

Tracks, subscriptions and announcements outlive a link. Each is a :class:`Durable`, which is
attached to every new link. If the relay refuses it for a temporary reason, :class:`Reconnector`
tries again; any other refusal ends it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol

from laps_sdk.client.dial import ConnectOptions, DialledLink, dial
from laps_sdk.client.link import Link, LinkCallbacks
from laps_sdk.errors import (
    ConnectError,
    ConnectionLostError,
    RequestRefusedError,
    RequestTimeoutError,
    SessionClosedError,
)
from laps_sdk.uri import RelayAddress, parse_address
from laps_wire.errors import LapsError, StateError, TextFormError
from laps_wire.moqt.codepoints import RequestErrorCode, SessionCode
from laps_wire.moqt.session import RequestReceived

__all__ = ["Durable", "Reconnector"]

_FINAL: Final = frozenset(
    {
        SessionCode.UNAUTHORIZED,
        SessionCode.PROTOCOL_VIOLATION,
        SessionCode.INVALID_PATH,
        SessionCode.MALFORMED_PATH,
        SessionCode.MALFORMED_AUTH_TOKEN,
        SessionCode.EXPIRED_AUTH_TOKEN,
        SessionCode.INVALID_AUTHORITY,
        SessionCode.MALFORMED_AUTHORITY,
        SessionCode.VERSION_NEGOTIATION_FAILED,
    }
)
"""Codes after which dialling again would fail in the same way."""

_PASSING: Final = frozenset(
    {
        RequestErrorCode.INTERNAL_ERROR,
        RequestErrorCode.TIMEOUT,
        RequestErrorCode.GOING_AWAY,
        RequestErrorCode.EXCESSIVE_LOAD,
        RequestErrorCode.DOES_NOT_EXIST,
        RequestErrorCode.DUPLICATE_SUBSCRIPTION,
    }
)
"""Temporary refusals: after a restart a publisher may reconnect later than its subscribers."""


_STABLE: Final = 10.0
"""Seconds after which a link counts as stable; the next back-off then starts from the beginning."""


class Durable(Protocol):
    """Something that outlives a link: a track, a subscription, an announcement."""

    async def attach(self, link: Link) -> None:
        """Send its request on a link, the first or a later one."""

    def detach(self, link: Link) -> None:
        """Forget a link that is gone; another one may follow."""

    def fail(self, error: Exception) -> None:
        """End: there will be no other link, or the relay refuses the request for good."""


class Reconnector:
    """Dials the relay, dials again after a loss, and follows GOAWAY.

    ``request_received`` answers the requests that the relay makes.
    """

    __slots__ = (
        "_callbacks",
        "_changed",
        "_dialled",
        "_durables",
        "_expired",
        "_started",
        "_supervisor",
        "_tasks",
        "address",
        "error",
        "options",
        "reconnects",
    )

    def __init__(
        self,
        address: RelayAddress,
        options: ConnectOptions,
        request_received: Callable[[Link, RequestReceived], None],
    ) -> None:
        self.address = address
        self.options = options
        self.error: SessionClosedError | None = None
        """Why the session ended; None while it runs."""
        self.reconnects = 0
        """How many links followed the first one."""
        self._started = False
        self._dialled: DialledLink | None = None
        self._durables: dict[Durable, None] = {}
        self._expired: bytes | None = None
        self._changed = asyncio.Event()
        self._callbacks = LinkCallbacks(request_received, self._changed.set)
        self._supervisor: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # Life

    async def start(self) -> None:
        """Dial the first link; raises ``ConnectError`` without trying again."""
        if self._started:
            raise StateError("a session is entered once: call connect again")
        self._started = True
        self._dialled = await dial(self.address, self.options, self._callbacks)
        self._supervisor = asyncio.create_task(self._supervise(), name="laps session")
        self._supervisor.add_done_callback(self._supervised)

    def _supervised(self, task: asyncio.Task[None]) -> None:
        """Close the session if the supervisor failed: there will be no other link."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            code = error.code or 0 if isinstance(error, ConnectError) else 0
            words = f"no connection to {self.address} again: {error}"
            over = SessionClosedError(words, code=code, by_peer=bool(code))
            over.__cause__ = error
            self._finish(over)

    async def close(self, *, drain: bool) -> None:
        """End the session; unless ``drain`` is False, written data is sent first."""
        supervisor, self._supervisor = self._supervisor, None
        dialled, self._dialled = self._dialled, None
        self._finish(SessionClosedError("the session was closed"))
        tasks = [*self._tasks, *([supervisor] if supervisor is not None else [])]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            if drain and dialled is not None:
                await self._drain(dialled.link)
        finally:
            if dialled is not None:
                await dialled.close(SessionCode.NO_ERROR, "done")

    def _finish(self, error: SessionClosedError) -> None:
        if self.error is None:
            self.error = error
        self._changed.set()
        durables, self._durables = self._durables, {}
        for durable in durables:
            durable.fail(self.error)

    async def _drain(self, link: Link) -> None:
        """Wait until the relay has acknowledged all written data, for ``drain_timeout`` at most."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.options.drain_timeout
        while link.error is None and loop.time() < deadline:
            stats = link.connection.stats()
            if not stats.queued_bytes and not stats.bytes_in_flight:
                return
            # QUIC has no event for "everything is acknowledged".
            await asyncio.sleep(0.005)

    # The current link

    @property
    def link(self) -> Link | None:
        """The current link; None while there is none that accepts requests."""
        dialled = self._dialled
        return dialled.link if dialled is not None and dialled.link.usable else None

    async def wait_for_link(self) -> Link:
        """Return the current link or the next one; raises the reason if there will be none."""
        if not self._started:
            raise StateError("the session is not connected: use it inside 'async with'")
        while True:
            if self.error is not None:
                raise self.error
            link = self.link
            if link is not None:
                return link
            self._changed.clear()
            await self._changed.wait()

    async def join(self, durable: Durable) -> None:
        """Attach something for the first time; raises the relay's refusal.

        It is registered for later links only then, so that nothing attaches it twice.
        """
        while True:
            link = await self.link_in_time()
            try:
                await durable.attach(link)
            except ConnectionLostError:
                if not self.options.reconnect:
                    raise
                continue
            if self.error is not None:
                raise self.error
            if link is self.link:
                self._durables[durable] = None
                return
            # The link was lost or left in the meantime: attach to the next one as well.

    async def link_in_time(self) -> Link:
        """Return the current link, or the next one if it comes within ``options.timeout``.

        Raises ``RequestTimeoutError`` if it does not.
        """
        seconds = self.options.timeout
        try:
            async with asyncio.timeout(seconds):
                return await self.wait_for_link()
        except TimeoutError:
            raise RequestTimeoutError(
                f"{self.address}: no connection in {seconds:g} s; it is still being tried"
            ) from None

    def attach_again(self, durable: Durable) -> None:
        """Attach something to the current link again, in the background."""
        link = self.link
        if link is not None and durable in self._durables:
            self.spawn(asyncio.create_task(self._attach(durable, link)))

    def leave(self, durable: Durable) -> None:
        """Attach it to no further link."""
        self._durables.pop(durable, None)

    def spawn(self, task: asyncio.Task[None]) -> None:
        """Keep a task until it ends; closing the session cancels it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Moving

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        attempt = -1
        since = loop.time()
        while True:
            await self._until_unusable()
            old = self._dialled
            if old is None:
                return
            # A link that was closed soon after its start does not reset the back-off.
            attempt = attempt + 1 if loop.time() - since < _STABLE else 0
            lost = old.link.error
            if lost is not None:
                await self._replace(old, lost, attempt)
                if self.error is not None:
                    return
            else:
                await self._move(old, attempt)
            since = loop.time()

    async def _replace(self, old: DialledLink, lost: SessionClosedError, attempt: int) -> None:
        """Dial again after a link was lost."""
        for durable in list(self._durables):
            durable.detach(old.link)
        await old.endpoint.close()
        if not self.options.reconnect or self._is_final(lost.code):
            self._finish(lost)
            return
        self._dialled = await self._redial(self.address, attempt)
        await self._arrived(self._dialled)

    async def _move(self, old: DialledLink, attempt: int) -> None:
        """Follow GOAWAY: the old link stays until everything is attached to the new one."""
        self._dialled = await self._follow(old.link, attempt)
        try:
            await self._arrived(self._dialled)
            await self._drain(old.link)
            for durable in list(self._durables):
                durable.detach(old.link)
        finally:
            await old.close(SessionCode.NO_ERROR, "moved")

    async def _arrived(self, dialled: DialledLink) -> None:
        self.reconnects += 1
        self._changed.set()
        await self._attach_all(dialled.link)

    def _is_final(self, code: int | None) -> bool:
        """Whether dialling again would fail with the same code."""
        if code == SessionCode.EXPIRED_AUTH_TOKEN and callable(self.options.token):
            before, self._expired = self._expired, self.options.token_value()
            return self._expired == before  # a fresh token is worth another attempt
        return code in _FINAL

    async def _until_unusable(self) -> None:
        """Wait until the link is lost or has received GOAWAY."""
        while self._dialled is not None and self._dialled.link.usable:
            self._changed.clear()
            await self._changed.wait()

    async def _redial(
        self, address: RelayAddress, attempt: int = 0, *, attempts: int | None = None
    ) -> DialledLink:
        """Dial until the relay answers; raises ``ConnectError`` if the failure is final."""
        tried = 0
        while True:
            jitter = random.random()  # noqa: S311 - spreads clients, hides nothing
            await asyncio.sleep(self.options.backoff.delay(attempt + tried, jitter))
            try:
                return await dial(address, self.options, self._callbacks)
            except ConnectError as error:
                tried += 1
                if self._is_final(error.code) or (attempts is not None and tried >= attempts):
                    raise

    async def _follow(self, link: Link, attempt: int) -> DialledLink:
        """Dial the address that GOAWAY names; if that fails, the previous one."""
        goaway = link.goaway
        if goaway is not None and goaway.new_session_uri:
            try:
                address = parse_address(goaway.new_session_uri)
                dialled = await self._redial(address, attempt, attempts=3)
            except (ConnectError, TextFormError):
                pass
            else:
                self.address = address
                return dialled
        return await self._redial(self.address, attempt)

    async def _attach_all(self, link: Link) -> None:
        tasks = [
            asyncio.create_task(self._attach(durable, link)) for durable in list(self._durables)
        ]
        for task in tasks:
            self.spawn(task)
        if tasks:
            # A durable that has to be attached later must not delay the others.
            await asyncio.wait(tasks, timeout=self.options.timeout)

    async def _attach(self, durable: Durable, link: Link) -> None:
        attempt = 0
        while link.usable and durable in self._durables:
            delay = self.options.backoff.delay(attempt, random.random())  # noqa: S311
            attempt += 1
            try:
                await durable.attach(link)
            except RequestRefusedError as error:
                if error.code not in _PASSING and error.retry_after is None:
                    self._give_up(durable, error)
                    return
                delay = max(delay, error.retry_after or 0.0)
            except RequestTimeoutError:
                pass
            except ConnectionLostError:
                return  # the supervisor attaches it to the next link
            except LapsError as error:
                self._give_up(durable, error)
                return
            else:
                return
            await asyncio.sleep(delay)

    def _give_up(self, durable: Durable, error: LapsError) -> None:
        self._durables.pop(durable, None)
        durable.fail(error)
