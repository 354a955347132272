"""FETCHes of the Edge that other relays answer, and FETCHes of other relays for the Edge.

::

    Edge --FETCH-----> asked ------fetch--------> network        s-relay
         <-FETCH_OK--- answered <-fetch_answered-
    Plane <-stream---- stream_opened, ... <------ PeerPlane      its request ID is replaced
    Edge <-FETCH------ serve <-----serve_fetch--- network        o-relay
         --FETCH_OK--> event ------fetched------>
    Plane --stream---> FeedEgress --------------> PeerPlane

A FETCH has an answer and a stream, in any order. A FETCH without a stream fails after a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from laps_sdk.edge.codes import reset_code, shorten
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.timers import Timers
from laps_sdk.upstream.bodies import (
    error_data,
    fetch_data,
    fetch_ok_data,
    read_fetch,
    read_fetch_ok,
)
from laps_sdk.upstream.codes import request_error, subscribe_code
from laps_sdk.upstream.egress import FetchOutlet
from laps_sdk.upstream.interfaces import Feed, FetchHandle, FetchRefusal
from laps_sdk.upstream.seam import Seam
from laps_wire.errors import IncompleteError, LapsError, LocalError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.data.fetch import decode_fetch_header, encode_fetch_header
from laps_wire.moqt.data.types import FetchHeader, StreamKind
from laps_wire.moqt.messages import FetchOk, StandaloneFetch
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestRejected,
    UpdateReceived,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import DataHeader, SubscribeCode, SubscribeData

__all__ = ["PATIENCE", "FetchNetwork", "Fetching"]

PATIENCE: Final = 10.0
"""Seconds that an answer may wait for its stream, or a stream for its answer."""
_NO_STREAM: Final = "its stream did not come"
_RequestEvent: TypeAlias = (
    RequestAccepted | RequestRejected | PublishEnded | RequestCancelled | UpdateReceived
)


class FetchNetwork(Protocol):
    """The FETCH commands of the network core; ``NetworkRelay`` implements them."""

    def fetch(self, now: float, name: FullTrackName, data: SubscribeData) -> int | FetchRefusal:
        """Fetch a range of a track for our clients; return the id, or the refusal."""

    def unfetch(self, now: float, fetch_id: int) -> None:
        """Cancel a FETCH of ours."""

    def fetch_over(self, now: float, fetch_id: int) -> None:
        """Finish a FETCH of ours: its stream has ended."""

    def fetched(self, now: float, handle: FetchHandle, data: SubscribeData) -> None:
        """Accept a FETCH of another relay."""

    def fetch_refused(
        self, now: float, handle: FetchHandle, code: int, reason: str, data: SubscribeData
    ) -> None:
        """Refuse a FETCH of another relay."""

    def fetch_served(self, now: float, handle: FetchHandle) -> None:
        """Finish a FETCH of another relay: its stream has ended."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A FETCH of the Edge."""

    fetch_id: int
    request_id: int
    key: int
    answered: bool = False
    stream: int | None = None
    held: bytes | None = b""
    """The bytes of an incomplete stream header; None once the header is complete."""
    over: bool = False
    """Whether the stream of the FETCH has ended."""


@dataclass(slots=True, eq=False)
class _Served:
    """A FETCH of another relay."""

    handle: FetchHandle
    request_id: int
    answered: bool = False
    begun: bool = False
    over: bool = False


class Fetching:
    """Carries FETCHes between an Edge and the network, in both directions."""

    __slots__ = (
        "_asked",
        "_clock",
        "_draft",
        "_key_of",
        "_network",
        "_outlets",
        "_plane",
        "_requests",
        "_seam",
        "_served",
        "_timers",
        "strays",
        "streams",
    )

    def __init__(
        self,
        seam: Seam,
        draft: Draft,
        key_of: Callable[[FullTrackName], int],
        plane: ForwardingPlane,
        network: FetchNetwork,
        outlets: dict[int, FetchOutlet],
        clock: Callable[[], float],
    ) -> None:
        """``outlets`` maps request IDs to the outlets that the session's egress writes to."""
        self._seam = seam
        self._draft = draft
        self._key_of = key_of
        self._plane = plane
        self._network = network
        self._outlets = outlets
        self._clock = clock
        self._asked: dict[int, _Asked] = {}
        self._requests: dict[int, _Asked] = {}
        self.streams: dict[int, _Asked] = {}
        """The FETCHes whose streams are arriving, by the stream's number at the sink."""
        self._served: dict[FetchHandle, _Served] = {}
        self._timers: Timers[_Asked | _Served] = Timers()
        self.strays = 0
        """The number of streams that match no FETCH of ours, or have a bad header."""

    # s-relay: the Edge

    def asked(
        self, now: float, request_id: int, target: StandaloneFetch, parameters: Parameters
    ) -> None:
        """Send a FETCH of the Edge to the network; the Edge has resolved its range."""
        data = fetch_data(target, parameters, self._draft)
        asked = self._network.fetch(now, target.track, data)
        if isinstance(asked, FetchRefusal):
            code = request_error(asked.code, asked.data)
            self._seam.session.reject(request_id, code, shorten(asked.reason))
            return
        record = _Asked(asked, request_id, self._key_of(target.track))
        self._asked[asked] = self._requests[request_id] = record

    def event(
        self,
        now: float,
        event: _RequestEvent,
    ) -> bool:
        """Handle an event if it concerns a FETCH; return whether it does."""
        asked = self._requests.get(event.request_id)
        if asked is not None:
            if isinstance(event, RequestCancelled):
                self._forget(asked)
                self._network.unfetch(now, asked.fetch_id)
            return True
        outlet = self._outlets.get(event.request_id)
        served = None if outlet is None else self._served.get(outlet.handle)
        if served is None:
            return False
        self._edge_said(now, served, event)
        return True

    # s-relay: the network

    def answered(
        self, now: float, fetch_id: int, code: int, reason: str, data: SubscribeData
    ) -> None:
        """Pass the network's answer to a FETCH on to the Edge."""
        record = self._asked.get(fetch_id)
        if record is None:
            return
        ok = read_fetch_ok(data, self._draft) if code == SubscribeCode.ACCEPTED else None
        if ok is None:
            error = RequestErrorCode.INTERNAL_ERROR
            if code != SubscribeCode.ACCEPTED:
                error = request_error(code, data)
            self._fail(now, record, error, reason or "an answer that cannot be read")
            return
        record.answered = True
        end, end_of_track, properties = ok
        self._seam.session.accept_fetch(
            record.request_id, end, end_of_track=end_of_track, track_properties=properties
        )
        if record.over:
            self._forget(record)
            self._network.fetch_over(now, fetch_id)
        elif record.stream is None:
            self._timers.set(record, now + PATIENCE)

    def _fail(self, now: float, record: _Asked, code: RequestErrorCode, reason: str) -> None:
        """End a FETCH that cannot be answered: reject the request or reset its stream."""
        if record.answered and record.stream is not None:
            return  # the end of the stream reports the outcome
        self._forget(record)
        self._network.unfetch(now, record.fetch_id)
        session, request_id = self._seam.session, record.request_id
        if not record.answered:
            session.reject(request_id, code, shorten(reason))
            return
        # FETCH_OK is sent: only a reset of the stream can report the failure.
        stream, number = -request_id - 1, self._seam.number
        head = encode_fetch_header(FetchHeader(request_id), self._draft)
        self._plane.stream_opened(now, number, stream, StreamKind.FETCH, head, False)
        code_of_reset = reset_code(self._draft, "INTERNAL_ERROR")
        self._plane.stream_reset(now, number, stream, code_of_reset)
        session.fetch_ended(request_id)

    def _forget(self, record: _Asked) -> None:
        del self._asked[record.fetch_id], self._requests[record.request_id]
        self._timers.cancel(record)

    # s-relay: streams

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> bool:
        """Open the stream of an answer; return False if it matches no FETCH."""
        record = self._asked.get(header.context)
        if (
            record is None
            or record.key != header.track
            or record.stream is not None
            or header.payload_format != self._draft.value
        ):
            self.strays += 1
            return False
        record.stream = stream
        self.streams[stream] = record
        self._timers.cancel(record)
        self._data(now, record, stream, data, fin)
        return True

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        """Take the next chunk of the stream of an answer."""
        self._data(now, self.streams[stream], stream, data, fin)

    def _data(self, now: float, record: _Asked, stream: int, data: bytes, fin: bool) -> None:
        number, draft = self._seam.number, self._draft
        if record.held is None:
            self._plane.stream_data(now, number, stream, data, fin)
        else:
            record.held += data
            try:
                _, used = decode_fetch_header(record.held, draft)
            except IncompleteError:
                if fin:
                    self.stream_reset(now, stream, reset_code(draft, "INTERNAL_ERROR"))
                return
            except LapsError:
                self.strays += 1
                self.stream_reset(now, stream, reset_code(draft, "INTERNAL_ERROR"))
                return
            head = encode_fetch_header(FetchHeader(record.request_id), draft)
            rest, record.held = record.held[used:], None
            self._plane.stream_opened(now, number, stream, StreamKind.FETCH, head + rest, fin)
        if fin:
            self._ended(now, record, stream)

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """Reset the stream of an answer."""
        record = self.streams[stream]
        number = self._seam.number
        if record.held is not None:
            head = encode_fetch_header(FetchHeader(record.request_id), self._draft)
            self._plane.stream_opened(now, number, stream, StreamKind.FETCH, head, False)
        self._plane.stream_reset(now, number, stream, code)
        self._ended(now, record, stream)

    def _ended(self, now: float, record: _Asked, stream: int) -> None:
        del self.streams[stream]
        record.over = True
        if self._asked.get(record.fetch_id) is not record:
            return  # the FETCH was cancelled
        self._seam.session.fetch_ended(record.request_id)
        if record.answered:
            self._forget(record)
            self._network.fetch_over(now, record.fetch_id)
        else:
            self._timers.set(record, now + PATIENCE)

    # o-relay

    def serve(
        self, now: float, handle: FetchHandle, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Send a FETCH of another relay to the Edge; refuse it if that fails."""
        asked, session = read_fetch(data), self._seam.session
        code, reason = SubscribeCode.HASH_COLLISION, "a FETCH that cannot be read"
        if asked is not None and asked.target.track == name:
            try:
                request_id = session.fetch(asked.target, asked.parameters)
            except LocalError as error:
                code, reason = SubscribeCode.LIMIT, f"the Edge takes no FETCH: {error}"
            else:
                self._served[handle] = _Served(handle, request_id)
                self._outlets[request_id] = FetchOutlet(feed, handle, self._stream_over)
                return
        self._network.fetch_refused(now, handle, code, reason, SubscribeData())

    def _edge_said(
        self,
        now: float,
        served: _Served,
        event: _RequestEvent,
    ) -> None:
        handle, draft = served.handle, self._draft
        match event:
            case RequestAccepted(message=FetchOk() as ok):
                served.answered = True
                self._network.fetched(now, handle, fetch_ok_data(ok, draft))
                if served.over:
                    self._done(now, served)
                elif not served.begun:
                    self._timers.set(served, now + PATIENCE)
            case RequestRejected(message=error):
                self._remove(served)
                code, data = subscribe_code(error.error_code), error_data(error, draft)
                self._network.fetch_refused(now, handle, code, error.reason, data)
            case _:
                self._remove(served)
                code, reason = SubscribeCode.ENDED, "the Edge ended it"
                self._network.fetch_refused(now, handle, code, reason, SubscribeData())

    def _stream_over(self, handle: FetchHandle, begun: bool) -> None:
        """Note that the plane has begun the stream of an answer, or has ended it."""
        served = self._served.get(handle)
        if served is None:
            return
        self._timers.cancel(served)
        served.begun = True
        if begun:
            return
        served.over = True
        self._seam.session.fetch_ended(served.request_id)
        if served.answered:
            self._done(self._clock(), served)

    def _done(self, now: float, served: _Served) -> None:
        self._remove(served)
        self._network.fetch_served(now, served.handle)

    def _remove(self, served: _Served) -> None:
        del self._served[served.handle], self._outlets[served.request_id]
        self._timers.cancel(served)

    def drop(self, handle: FetchHandle) -> None:
        """Drop a FETCH of another relay, and cancel it at the Edge."""
        served = self._served.get(handle)
        if served is not None:
            self._remove(served)
            if self._seam.session.request_state(served.request_id) is not None:
                self._seam.session.cancel(served.request_id)

    # Time

    def poll_timeout(self) -> float | None:
        """Return when to call :meth:`handle_timeout`; None for never."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """End the FETCHes whose answer or stream did not arrive in time."""
        while (record := self._timers.pop(now)) is not None:
            if isinstance(record, _Asked):
                self._fail(now, record, RequestErrorCode.TIMEOUT, _NO_STREAM)
            else:
                handle = record.handle
                self.drop(handle)
                code = SubscribeCode.ENDED
                self._network.fetch_refused(now, handle, code, _NO_STREAM, SubscribeData())
