"""The answer to a FETCH from the cache: made while it is sent, never more than a window ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from laps_sdk.forwarding.coding import INTERNAL_ERROR, drop_code, translate_extensions
from laps_sdk.forwarding.fetch_plan import Item
from laps_sdk.forwarding.interfaces import FetchEnded, FetchRange, OutStream, Subscription
from laps_sdk.forwarding.priority import stream_priority
from laps_sdk.forwarding.state import Session
from laps_wire.errors import EncodeError
from laps_wire.moqt.data.fetch import FetchWriter
from laps_wire.moqt.data.types import FetchHeader, ObjectHeader, RangeEnd
from laps_wire.moqt.versions import Draft

__all__ = ["FetchAnswer", "FetchOut"]

_WRITE: Final = 32 * 1024
"""Objects are joined to writes of about this size; a larger piece goes as it is."""
_REST: Final = 0.25
"""Seconds between two looks at an answer of which nothing is taken."""


class FetchOut:
    """The stream of one answer, opened when the answer begins: an ``Owner``."""

    __slots__ = (
        "_over",
        "_parts",
        "_priority",
        "_size",
        "_stream",
        "ended",
        "session",
        "subscription",
        "writer",
    )

    def __init__(
        self,
        session: Session,
        subscription: Subscription,
        wanted: FetchRange,
        over: Callable[[Subscription], None],
    ) -> None:
        self._over = over
        self.session = session
        self.subscription = subscription
        draft = session.draft
        self.writer = FetchWriter(FetchHeader(subscription.request_id), draft, wanted.order)
        # Fetches compete with each other by the subscriber's priority alone.
        self._priority = stream_priority(wanted.priority, 128, wanted.order, wanted.start.group, 0)
        self._stream: OutStream | None = None
        self.ended = False
        self._parts: list[bytes | memoryview] = [self.writer.start]
        self._size = 0

    @property
    def queued(self) -> int:
        """Bytes that wait to be sent."""
        return 0 if self._stream is None else self._stream.queued

    def open(self) -> OutStream:
        """Open the stream, if it is not open; from now on an end is seen by the receiver."""
        stream = self._stream
        if stream is None:
            session = self.session
            stream = self._stream = session.egress.open_unidirectional(
                priority=self._priority, droppable=True, drop_code=drop_code(session.draft)
            )
            session.outs[stream] = self
        return stream

    def object(self, head: ObjectHeader, draft: Draft) -> None:
        """Begin an object; its payload follows."""
        target = self.session.draft
        if head.extensions and draft is not target:
            translated = translate_extensions(head.extensions, draft, target)
            head = head._replace(extensions=translated)
        self._add(self.writer.object_header(head))

    def range_end(self, item: RangeEnd) -> None:
        """A range without objects."""
        self._add(self.writer.range_end(item))

    def payload(self, piece: memoryview) -> None:
        """A piece of a payload; a chunk that is nothing else is not copied."""
        source = piece.obj
        if len(piece) >= _WRITE and isinstance(source, bytes) and len(source) == len(piece):
            self.flush()
            self.open().write(source)
        else:
            self._add(piece)

    def _add(self, data: bytes | memoryview) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what was joined."""
        if self._parts:
            self.open().write(b"".join(self._parts))
            self._parts.clear()
            self._size = 0

    # Ends

    def finish(self) -> None:
        """That was all."""
        if not self.ended:
            self.flush()
            stream = self.open()
            stream.write(b"", True)
            self.session.finish_out(stream)
            self._end(complete=True)

    def reset(self, code: int, *, tell: bool = True) -> None:
        """Abandon it."""
        if not self.ended:
            if self._stream is not None:
                self._stream.reset(code)
                self.session.outs.pop(self._stream, None)
            self._end(complete=False, tell=tell)

    def gone(self, now: float, stream: OutStream, lost: int) -> None:  # noqa: ARG002 - Owner
        """The receiver stopped it, or was too slow."""
        if not self.ended:
            self._end(complete=False)

    def _end(self, *, complete: bool, tell: bool = True) -> None:
        self.ended = True
        self._parts.clear()
        self._over(self.subscription)
        if tell:
            self.session.state.notices.append(FetchEnded(self.subscription, complete))


class FetchAnswer:
    """An answer that is being made."""

    __slots__ = ("_interval", "_items", "_queued", "out")

    def __init__(self, out: FetchOut, items: Iterator[Item]) -> None:
        self.out = out
        self._items = items
        self._queued = 0
        self._interval = 0.0

    def _wait(self, now: float, queued: int) -> None:
        """Look again later; ever more rarely at a receiver that takes nothing."""
        state = self.out.session.state
        if queued != self._queued:
            self._interval = state.limits.fetch_interval
        else:
            self._interval = min(2 * self._interval, _REST)
        self._queued = queued
        state.timers.set(self.pump, now + self._interval)

    def pump(self, now: float) -> None:
        """Make more, as far as there is room; come back later for the rest."""
        out = self.out
        state = out.session.state
        window, figures = state.limits.fetch_window, state.cache.figures
        if not out.ended:
            out.open()
        try:
            while not out.ended:
                if out.queued >= window:
                    self._wait(now, out.queued)
                    return
                item = next(self._items, None)
                if item is None:
                    out.finish()
                elif isinstance(item, RangeEnd):
                    out.range_end(item)
                else:
                    out.object(item.head, item.draft)
                    figures.hit(now - item.born, sum(map(len, item.pieces)))
                    for piece in item.pieces:
                        out.payload(piece)
        except EncodeError:
            # Ids or values that the receiver's draft has no integers for.
            out.reset(INTERNAL_ERROR)
