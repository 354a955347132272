"""One request on one link: waits for its answer, then hands later events to its owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from laps_sdk.errors import RequestRefusedError, RequestTimeoutError
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES
from laps_wire.moqt.session import Event, Kind, RequestAccepted, RequestCancelled, RequestRejected
from laps_wire.moqt.session.events import OkMessage

if TYPE_CHECKING:
    from laps_sdk.client.link import Link

__all__ = ["Request"]


class Request:
    """A request of ours, from the moment it is sent on a link."""

    __slots__ = ("_answer", "_listener", "id", "link", "what")

    def __init__(
        self, link: Link, request_id: int, what: str, listener: Callable[[Event], None]
    ) -> None:
        self.link = link
        self.id = request_id
        self.what = what
        """For errors: ``SUBSCRIBE demo--video``."""
        self._listener = listener
        self._answer: asyncio.Future[OkMessage] = asyncio.get_running_loop().create_future()

    @property
    def open(self) -> bool:
        """Whether the session still knows it."""
        return self.link.peer.session.request_kind(self.id) is not None

    @property
    def has_answer(self) -> bool:
        """Whether the relay has answered, or will not any more."""
        return self._answer.done()

    def handle(self, event: Event) -> None:
        """The link has news about this request."""
        answer = self._answer
        if isinstance(event, RequestAccepted):
            # The owner first: objects may follow the answer in the same turn.
            self._listener(event)
            if not answer.done():
                answer.set_result(event.message)
        elif isinstance(event, RequestRejected):
            self.link.forget(self.id)
            self._fail(RequestRefusedError(self.what, event.message))
        elif isinstance(event, RequestCancelled) and not answer.done():
            self.link.forget(self.id)
            words = event.reason or "its stream was closed"
            self._fail(RequestTimeoutError(f"{self.what}: the relay gave it up: {words}"))
        else:
            self._listener(event)

    def lost(self, error: Exception, event: Event) -> None:
        """The link is gone: who waits for the answer is told, or else the owner."""
        if self._answer.done():
            self._listener(event)
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
            # Nobody may be waiting any more; that is no mistake of anybody.
            self._answer.exception()

    async def answered(self, seconds: float) -> OkMessage:
        """Wait for the answer; without one in time, or if cancelled, the request is given up."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._answer)
        except TimeoutError:
            self.give_up()
            raise RequestTimeoutError(
                f"{self.what}: no answer from {self.link.address} in {seconds:g} s"
            ) from None
        except asyncio.CancelledError:
            self.give_up()
            raise

    def give_up(self) -> None:
        """End the request, if it is not over."""
        link, session = self.link, self.link.peer.session
        link.forget(self.id)
        if session.closed:
            return
        kind = session.request_kind(self.id)
        if kind is None:
            return
        try:
            if kind is Kind.PUBLISH and self.id % 2 == session.role.first_request_id:
                done = PUBLISH_DONE_CODES[session.draft].SUBSCRIPTION_ENDED
                session.publish_done(self.id, done, 0)
            else:
                session.cancel(self.id)
        except StateError:
            return  # it ended by itself in the meantime
        link.peer.settle()
