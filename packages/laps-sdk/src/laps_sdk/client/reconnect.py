"""What keeps a session alive: the present link, the next one, and what moves from link to link.

::

    link up ----lost----> back off, dial, attach everything again ---> link up
       |
       '----GOAWAY------> dial the new address first, attach, then leave the old link

Things that outlive a link (:class:`Durable`) are attached to each new one. A request that the relay
refuses for a reason that may pass is tried again; one that will not pass ends its owner.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, Protocol

from laps_sdk.client.dial import Line, dial
from laps_sdk.client.link import Link, Offer
from laps_sdk.client.options import ConnectOptions
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
from laps_wire.moqt.messages import (
    Fetch,
    Publish,
    StandaloneFetch,
    Subscribe,
    TrackStatus,
)
from laps_wire.moqt.session import RequestReceived
from laps_wire.names import FullTrackName

__all__ = ["Durable", "Hub", "OfferTaker", "Responder"]

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
"""Codes that another try would only meet again."""

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
"""Refusals that may pass: after a restart the publisher may come back later than we do."""


_STABLE: Final = 10.0
"""Seconds after which a link counts as one that works: the next back-off begins anew."""


class Durable(Protocol):
    """Something that outlives a link."""

    async def attach(self, link: Link) -> None:
        """Ask for it on a link, the first or a later one."""

    def detach(self, link: Link) -> None:
        """That link is gone; another one may follow."""

    def fail(self, error: Exception) -> None:
        """There will be no other link, or the relay does not want it any more."""


class Responder(Protocol):
    """Who answers the relay's requests about a track of ours."""

    def asked(self, link: Link, event: RequestReceived) -> None:
        """Accept or reject it."""


class OfferTaker(Protocol):
    """Who wants to hear of tracks that the relay publishes to us."""

    def offered(self, link: Link, event: RequestReceived, message: Publish) -> bool:
        """Take it; False if it is none of ours."""

    def offer_of(self, link: Link, track: FullTrackName) -> Offer | None:
        """A PUBLISH that was taken for this track, if there is one."""


class Hub:
    """The links of one session."""

    __slots__ = (
        "_changed",
        "_durables",
        "_expired",
        "_line",
        "_started",
        "_supervisor",
        "_tasks",
        "address",
        "error",
        "offered",
        "options",
        "reconnects",
        "responders",
    )

    def __init__(self, address: RelayAddress, options: ConnectOptions) -> None:
        self.address = address
        self.options = options
        self.error: SessionClosedError | None = None
        """Why the session is over, once it is for good."""
        self.reconnects = 0
        """How many links followed the first one."""
        self.responders: dict[FullTrackName, Responder] = {}
        self.offered: dict[OfferTaker, None] = {}
        """Who may want a PUBLISH of the relay."""
        self._started = False
        self._line: Line | None = None
        self._durables: dict[Durable, None] = {}
        self._expired: bytes | None = None
        self._changed = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # Life

    async def start(self) -> None:
        """Dial the first link; it is not retried."""
        if self._started:
            raise StateError("a session is entered once: call connect again")
        self._started = True
        self._line = await dial(self.address, self.options, self)
        self._supervisor = asyncio.create_task(self._supervise(), name="laps session")
        self._supervisor.add_done_callback(self._supervised)

    def _supervised(self, task: asyncio.Task[None]) -> None:
        """Without a supervisor there is no next link: say so instead of waiting for it."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            code = error.code or 0 if isinstance(error, ConnectError) else 0
            words = f"no connection to {self.address} again: {error}"
            over = SessionClosedError(words, code=code, by_peer=bool(code))
            over.__cause__ = error
            self._finish(over)

    async def close(self, *, drain: bool) -> None:
        """End the session: what was written goes out first, unless ``drain`` is False."""
        supervisor, self._supervisor = self._supervisor, None
        line, self._line = self._line, None
        self._finish(SessionClosedError("the session was closed"))
        tasks = [*self._tasks, *([supervisor] if supervisor is not None else [])]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            if drain and line is not None:
                await self._drain(line.link)
        finally:
            if line is not None:
                await line.close(SessionCode.NO_ERROR, "done")

    def _finish(self, error: SessionClosedError) -> None:
        if self.error is None:
            self.error = error
        self._changed.set()
        durables, self._durables = self._durables, {}
        for durable in durables:
            durable.fail(self.error)

    async def _drain(self, link: Link) -> None:
        """Wait until the relay has acknowledged what was written, within reason."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.options.drain_timeout
        while link.error is None and loop.time() < deadline:
            stats = link.connection.stats()
            if not stats.queued_bytes and not stats.bytes_in_flight:
                return
            # QUIC tells nobody that all was acknowledged.
            await asyncio.sleep(0.005)

    # The present link

    @property
    def link(self) -> Link | None:
        """The link, if there is one that takes requests."""
        line = self._line
        return line.link if line is not None and line.link.usable else None

    async def current(self) -> Link:
        """Wait for a link that takes requests; raises why there will be none."""
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
        """Attach something for the first time: what the relay refuses is raised.

        The supervisor hears of it when it is attached, so that only one of the two tries.
        """
        while True:
            link = await self.soon()
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
            # The relay was lost or left in the meantime: the next one has to know as well.

    async def soon(self) -> Link:
        """The present link, or the next one if it comes soon."""
        seconds = self.options.timeout
        try:
            async with asyncio.timeout(seconds):
                return await self.current()
        except TimeoutError:
            raise RequestTimeoutError(
                f"{self.address}: no connection in {seconds:g} s; it is still being tried"
            ) from None

    def again(self, durable: Durable) -> None:
        """Attach something to the present link again; on the next one the supervisor does it."""
        link = self.link
        if link is not None and durable in self._durables:
            self.spawn(asyncio.create_task(self._attach(durable, link)))

    def leave(self, durable: Durable) -> None:
        """It is attached no more."""
        self._durables.pop(durable, None)

    def offer(self, link: Link, track: FullTrackName) -> Offer | None:
        """A PUBLISH of the relay that stands for a track on a link."""
        for taker in self.offered:
            offer = taker.offer_of(link, track)
            if offer is not None:
                return offer
        return None

    def spawn(self, task: asyncio.Task[None]) -> None:
        """Keep a task until it ends; the session's end cancels it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # LinkOwner

    def link_leaving(self, link: Link) -> None:  # noqa: ARG002 - the interface
        """GOAWAY: the supervisor moves."""
        self._changed.set()

    def link_closed(self, link: Link) -> None:  # noqa: ARG002 - the interface
        """The supervisor looks after it."""
        self._changed.set()

    def request_received(self, link: Link, event: RequestReceived) -> None:
        """Find who answers, or say that there is nobody."""
        message = event.message
        match message:
            case Subscribe() | TrackStatus():
                track = message.track
            case Fetch(target=StandaloneFetch(track=track)):
                pass
            case Publish():
                if not any(taker.offered(link, event, message) for taker in self.offered):
                    self._reject(link, event, RequestErrorCode.UNINTERESTED, "nobody asked for it")
                return
            case _:
                self._reject(link, event, RequestErrorCode.NOT_SUPPORTED, "this is a client")
                return
        responder = self.responders.get(track)
        if responder is None:
            self._reject(link, event, RequestErrorCode.DOES_NOT_EXIST, "no such track here")
        else:
            responder.asked(link, event)

    def _reject(
        self, link: Link, event: RequestReceived, code: RequestErrorCode, reason: str
    ) -> None:
        # Called from inside MoqtPeer.settle, which carries the answer out.
        link.peer.session.reject(event.request_id, code, reason)

    # Moving

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        attempt = -1
        since = loop.time()
        while True:
            await self._trouble()
            old = self._line
            if old is None:
                return
            # Who is thrown out as soon as it has come does not come back at once for ever.
            attempt = attempt + 1 if loop.time() - since < _STABLE else 0
            lost = old.link.error
            if lost is not None:
                await self._replace(old, lost, attempt)
                if self.error is not None:
                    return
            else:
                await self._move(old, attempt)
            since = loop.time()

    async def _replace(self, old: Line, lost: SessionClosedError, attempt: int) -> None:
        """A link was lost."""
        for durable in list(self._durables):
            durable.detach(old.link)
        await old.endpoint.close()
        if not self.options.reconnect or self._is_final(lost.code):
            self._finish(lost)
            return
        self._line = await self._redial(self.address, attempt)
        await self._arrived(self._line)

    async def _move(self, old: Line, attempt: int) -> None:
        """The relay wants us to go: the old link stays until the new one has everything."""
        self._line = await self._follow(old.link, attempt)
        try:
            await self._arrived(self._line)
            await self._drain(old.link)
            for durable in list(self._durables):
                durable.detach(old.link)
        finally:
            await old.close(SessionCode.NO_ERROR, "moved")

    async def _arrived(self, line: Line) -> None:
        self.reconnects += 1
        self._changed.set()
        await self._attach_all(line.link)

    def _is_final(self, code: int | None) -> bool:
        """Whether another try would only meet this code again."""
        if code == SessionCode.EXPIRED_AUTH_TOKEN and callable(self.options.token):
            before, self._expired = self._expired, self.options.token_value()
            return self._expired == before  # unless there is a fresh token
        return code in _FINAL

    async def _trouble(self) -> None:
        """Wait until the link is lost or leaves."""
        while self._line is not None and self._line.link.usable:
            self._changed.clear()
            await self._changed.wait()

    async def _redial(
        self, address: RelayAddress, attempt: int = 0, *, attempts: int | None = None
    ) -> Line:
        """Dial until somebody answers; ``ConnectError`` if another try would only fail again."""
        tried = 0
        while True:
            jitter = random.random()  # noqa: S311 - spreads clients, hides nothing
            await asyncio.sleep(self.options.backoff.delay(attempt + tried, jitter))
            try:
                return await dial(address, self.options, self)
            except ConnectError as error:
                tried += 1
                if self._is_final(error.code) or (attempts is not None and tried >= attempts):
                    raise

    async def _follow(self, link: Link, attempt: int) -> Line:
        """Where GOAWAY points to; if nobody is there, where we came from."""
        goaway = link.goaway
        if goaway is not None and goaway.new_session_uri:
            try:
                address = parse_address(goaway.new_session_uri)
                line = await self._redial(address, attempt, attempts=3)
            except (ConnectError, TextFormError):
                pass
            else:
                self.address = address
                return line
        return await self._redial(self.address, attempt)

    async def _attach_all(self, link: Link) -> None:
        tasks = [
            asyncio.create_task(self._attach(durable, link)) for durable in list(self._durables)
        ]
        for task in tasks:
            self.spawn(task)
        if tasks:
            # One that has to be tried again later must not hold up the rest.
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
                return  # the supervisor sees it too
            except LapsError as error:
                self._give_up(durable, error)
                return
            else:
                return
            await asyncio.sleep(delay)

    def _give_up(self, durable: Durable, error: LapsError) -> None:
        self._durables.pop(durable, None)
        durable.fail(error)
