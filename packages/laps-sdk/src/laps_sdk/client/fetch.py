"""Past objects: one FETCH and its stream.

A fetch is over when its answer has arrived and its stream has ended, in either order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from laps_sdk.client.core.objects import Object, decode_object_extensions, to_object
from laps_sdk.client.core.subscribe_options import WindowLimits
from laps_sdk.client.iteration import ItemIterator, ReceiveQueue
from laps_sdk.client.link import InStream, Link, Request
from laps_sdk.client.reconnect import Reconnector
from laps_sdk.errors import ConnectionLostError, RequestError
from laps_wire.errors import LapsError, RemoteError
from laps_wire.moqt.codepoints import GroupOrder, ObjectStatus
from laps_wire.moqt.data import MoqObject, RangeEnd
from laps_wire.moqt.messages import FetchOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import Event, Terminated
from laps_wire.moqt.structures import FetchTarget, Location, StandaloneFetch
from laps_wire.names import FullTrackName

__all__ = ["Fetch", "FetchRun"]


class FetchRun:
    """One FETCH on one link: a ``Sink``.

    It passes objects to ``take`` and its end to ``over``: None, or an error.
    """

    __slots__ = ("_absent", "_done", "_over", "_request", "_take", "_what", "link", "order")

    def __init__(
        self,
        link: Link,
        what: str,
        *,
        take: Callable[[MoqObject, float], None],
        over: Callable[[Exception | None], None],
        absent: Callable[[RangeEnd], None] | None = None,
        order: GroupOrder = GroupOrder.ASCENDING,
    ) -> None:
        self.link = link
        self._what = what
        self._take = take
        self._over = over
        self._absent = absent
        self.order = order
        self._request: Request | None = None
        self._done = False

    async def start(self, target: FetchTarget, parameters: Parameters, seconds: float) -> FetchOk:
        """Send FETCH and return the answer; objects may arrive before it."""
        link = self.link
        request = self._request = await link.ask(
            self._what, lambda session: session.fetch(target, parameters), self._received
        )
        link.incoming.expect_fetch(request.id, self)
        try:
            answer = await request.answered(seconds)
        except BaseException:
            self._done = True
            link.incoming.forget_fetch(request.id, self)
            raise
        if self._done:
            link.forget(request.id)  # its stream ended before the answer arrived
        if not isinstance(answer, FetchOk):
            raise RequestError(f"{self._what}: the relay answered {type(answer).__name__}")
        return answer

    def cancel(self) -> None:
        """Cancel the fetch; does nothing if it is over."""
        if self._request is not None and not self._done:
            self._done = True
            self.link.incoming.forget_fetch(self._request.id, self)
            self._request.give_up()

    def _received(self, event: Event) -> None:
        if isinstance(event, Terminated):
            self._end(self.link.error)

    def _end(self, error: Exception | None) -> None:
        if not self._done:
            self._done = True
            self._over(error)

    # Sink

    def stream_opened(self, stream: InStream) -> None:
        """See ``Sink``."""

    def arrived(self, stream: InStream | None, item: MoqObject, received_at: float) -> None:  # noqa: ARG002 - the interface
        """See ``Sink``."""
        if not self._done:
            self._take(item, received_at)

    def absent(self, item: RangeEnd) -> None:
        """See ``Sink``."""
        if self._absent is not None:
            self._absent(item)

    def stream_closed(self, stream: InStream, code: int | None) -> None:  # noqa: ARG002 - the interface
        """See ``Sink``."""
        link = self.link
        if self._request is not None:
            link.incoming.forget_fetch(self._request.id, self)
            if self._request.has_answer:
                link.forget(self._request.id)
            if link.error is None:
                link.peer.session.fetch_ended(self._request.id)
                link.peer.settle()
        if code is None:
            self._end(None)
        else:
            self._end(RequestError(f"{self._what}: the relay reset its stream with {code:#x}"))

    def malformed(self, error: RemoteError) -> None:
        """See ``Sink``."""
        fault = RequestError(f"{self._what}: {error}")
        if not self._done:
            self.cancel()
            self._over(fault)


class Fetch(ItemIterator[Object]):
    """The objects of a range, in order; :meth:`laps_sdk.Session.fetch` makes it.

    Use ``async for obj in session.fetch(...)``, or ``async with`` to stop early. After a lost
    connection the rest is fetched on the next one.
    """

    __slots__ = (
        "_last",
        "_next",
        "_parameters",
        "_reconnector",
        "_run",
        "_track",
        "answer",
    )

    def __init__(
        self,
        reconnector: Reconnector,
        track: FullTrackName,
        start: Location,
        end: Location,
        *,
        parameters: Parameters,
        limits: WindowLimits,
    ) -> None:
        super().__init__(ReceiveQueue(limits, self._resume))
        self._reconnector = reconnector
        self._track = track
        self._next = start
        self._last = end
        self._parameters = parameters
        self._run: FetchRun | None = None
        self.answer: FetchOk | None = None
        """The relay's answer; None until it arrives."""

    def _finish(self) -> None:
        if self._run is not None:
            self._run.cancel()

    async def _begin(self) -> None:
        await self._ask(await self._reconnector.link_in_time())

    async def _ask(self, link: Link) -> None:
        """Fetch the objects that have not arrived yet."""
        order = self._parameters.group_order or GroupOrder.ASCENDING
        self._run = FetchRun(
            link, f"FETCH {self._track}", take=self._arrived, over=self._over, order=order
        )
        target = StandaloneFetch(self._track, self._next, self._last)
        self.answer = await self._run.start(
            target, self._parameters, self._reconnector.options.timeout
        )
        if self._queue.over:
            self._run.cancel()  # the fetch was closed in the meantime

    async def _again(self) -> None:
        try:
            await self._ask(await self._reconnector.wait_for_link())
        except LapsError as error:
            self._queue.end(error)

    def _arrived(self, item: MoqObject, received_at: float) -> None:
        run = self._run
        if run is None:
            return
        try:
            opened = decode_object_extensions(item, run.link.draft)
        except RemoteError as error:
            run.malformed(error)
            return
        self._next = Location(item.header.group_id, item.header.object_id + 1)
        if item.header.status is ObjectStatus.NORMAL:
            if not self._queue.put(to_object(item, opened, received_at), len(item.payload)):
                # The transport could not hold the relay back; a fetch must not skip objects.
                run.cancel()
                words = f"FETCH {self._track}: {item.header.location} came and was not taken"
                self._queue.end(
                    RequestError(f"{words} fast enough: read faster, or raise max_objects")
                )
            elif self._queue.window.paused:
                run.link.incoming.pause(run)

    def _resume(self) -> None:
        if self._run is not None:
            self._run.link.incoming.resume(self._run)

    def _over(self, error: Exception | None) -> None:
        ascending = self._parameters.group_order is not GroupOrder.DESCENDING
        lost = isinstance(error, ConnectionLostError)
        if lost and ascending and self._last.object and self._next >= self._last:
            self._queue.end()  # only the end of the stream is missing
        elif (
            lost
            and ascending
            and self._reconnector.options.reconnect
            and self._reconnector.error is None
        ):
            self._reconnector.spawn(asyncio.get_running_loop().create_task(self._again()))
        else:
            self._queue.end(error)
