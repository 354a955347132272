"""The state machines of a MoQT session, as tables, and its request IDs.

Theory of operation
===================

A session is a set of small, independent machines::

    one Control machine        what the peer may still send on its control stream
    one request machine        for each SUBSCRIBE, PUBLISH, FETCH, TRACK_STATUS,
                               PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE, SUBSCRIBE_TRACKS
    one Migration machine      for each place where GOAWAY may stand: at most one GOAWAY each

Two rules:

1. Every change of a request's state is in this file. Other modules turn messages and stream ends
   into signals, call :func:`advance`, and act on its result.
2. The tables do not depend on the side. A row names the *requester* (the sender of the request) or
   the *responder* (its receiver), not us or the peer, client or server. Nor do they depend on
   messages: the same signal is UNSUBSCRIBE in draft 16 and STOP_SENDING in draft 18. The session
   shapes translate (:mod:`laps_wire.moqt.session.shapes`).

A row is ``(state, actor, signal) -> state``. A signal without a row is forbidden: from the peer it
is a protocol violation, from our application a :class:`~laps_wire.errors.StateError`.

A subscription, started by either side (S subscriber, P publisher)::

      SUBSCRIBE by S                                 PUBLISH by P
            |                                              |
        PENDING --ERROR by P--> TERMINATED <--ERROR by S-- PENDING
            |   --CANCEL by S-->    ^      <--DONE by P--     |
       OK by P                      |                      OK by S
            +--------> ESTABLISHED -+- DONE by P, CANCEL by S
                           |        |
              UPDATE_ERROR |        |
                           v        |
                        FAILING ----+   a failed update ends the subscription:
                                        only DONE (UPDATE_FAILED) can follow

FETCH has a reply and a data stream, and they may end in any order::

        PENDING --OK--> ESTABLISHED --DATA_END--> TERMINATED
           |                                          ^
           +--DATA_END--> DATA_ENDED --OK, ERROR------+       CANCEL ends all three

TRACK_STATUS ends with its reply. Namespace requests stay ESTABLISHED until one side cancels.

Races
-----

Each side acts on what it has received. Messages that cross on the wire must not be a fault, so:

- Signals that do not end a request commute: both sides reach the same state in any order. A
  property test checks every table.
- When *we* end a request, the peer does not know it yet, and its signals still follow the state
  before our end. So an ended request keeps that state as its *shadow*. The peer's signals advance
  the shadow and have no other effect. A signal that the shadow's table forbids is a violation: a
  second SUBSCRIBE_OK is one, whether or not we have unsubscribed.

Request IDs
-----------

Each side numbers its own requests; an ID is never used twice (moq-transport-16, 9.1, 9.5)::

    client   0  2  4  6 ...
    server   1  3  5  7 ...

Both drafts close the session with INVALID_REQUEST_ID for a wrong parity or a used ID. The order
differs:

- Draft 18 gives every request its own stream, and streams overtake each other: any new ID is valid.
- Draft 16 requires "the next in sequence", but puts SUBSCRIBE_NAMESPACE on its own stream, which
  can overtake the control stream or be overtaken. The strict rule would end sessions of correct
  peers at random. So IDs on the control stream must ascend, and a gap is tolerated while
  SUBSCRIBE_NAMESPACE streams in flight can explain it.

Draft 16 also limits the number of requests: MAX_REQUEST_ID is one above the largest usable ID.
:class:`RequestCredit` keeps a window of it open, as QUIC does with MAX_STREAMS.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from laps_wire.errors import StateError
from laps_wire.moqt.errors import InvalidRequestId, TooManyRequests
from laps_wire.moqt.versions import Draft

__all__ = [
    "CONTROL",
    "MAX_GAPS",
    "MIGRATION",
    "TABLES",
    "UNANSWERED",
    "Actor",
    "Control",
    "ControlSignal",
    "Kind",
    "Migration",
    "OwnRequestIds",
    "PeerRequestIds",
    "RequestCredit",
    "RequestsBlockedError",
    "Signal",
    "State",
    "Table",
    "advance",
]


class Kind(Enum):
    """What was requested; the value is the message's name in the drafts."""

    SUBSCRIBE = "SUBSCRIBE"
    PUBLISH = "PUBLISH"
    FETCH = "FETCH"
    TRACK_STATUS = "TRACK_STATUS"
    PUBLISH_NAMESPACE = "PUBLISH_NAMESPACE"
    SUBSCRIBE_NAMESPACE = "SUBSCRIBE_NAMESPACE"
    SUBSCRIBE_TRACKS = "SUBSCRIBE_TRACKS"


class Actor(Enum):
    """Who acts, seen from the request."""

    REQUESTER = "requester"
    RESPONDER = "responder"

    @property
    def other(self) -> Actor:
        """The other one."""
        return Actor.RESPONDER if self is Actor.REQUESTER else Actor.REQUESTER


class State(Enum):
    """The state of a request. There is no IDLE: a request exists from its message on."""

    PENDING = "pending"
    """Sent and not answered; the drafts' "Pending (Subscriber)" and "Pending (Publisher)"."""
    ESTABLISHED = "established"
    FAILING = "failing"
    """An update of a subscription failed: PUBLISH_DONE with UPDATE_FAILED must follow."""
    DATA_ENDED = "data ended"
    """The data stream of a FETCH is over, its reply has not arrived yet."""
    TERMINATED = "terminated"


UNANSWERED: Final = (State.PENDING, State.DATA_ENDED)
"""The states of a request that has no reply yet."""


class Signal(Enum):
    """An event in the life of a request."""

    OK = "ok"
    """SUBSCRIBE_OK, PUBLISH_OK, FETCH_OK, or REQUEST_OK to the request itself."""
    ERROR = "error"
    """REQUEST_ERROR to the request itself."""
    UPDATE = "update"
    """REQUEST_UPDATE."""
    UPDATE_OK = "update ok"
    """REQUEST_OK to an update; the actor is who answers it."""
    UPDATE_ERROR = "update error"
    """REQUEST_ERROR to an update."""
    DONE = "done"
    """PUBLISH_DONE."""
    CANCEL = "cancel"
    """Cancelled: draft 16's UNSUBSCRIBE, FETCH_CANCEL, PUBLISH_NAMESPACE_DONE and
    PUBLISH_NAMESPACE_CANCEL; RESET_STREAM or STOP_SENDING where the request has its own stream."""
    NAMESPACE = "namespace"
    """NAMESPACE or NAMESPACE_DONE."""
    BLOCKED = "blocked"
    """PUBLISH_BLOCKED."""
    DATA_END = "data end"
    """The data stream of a FETCH was closed or reset; each side observes it independently."""
    FIN = "fin"
    """The actor closed its half of the request's own stream with FIN."""


Table: TypeAlias = Mapping[tuple[State, Actor, Signal], State]
"""One machine: (state, actor, signal) to the next state."""

_P, _E, _F, _D, _T = (
    State.PENDING,
    State.ESTABLISHED,
    State.FAILING,
    State.DATA_ENDED,
    State.TERMINATED,
)
_REQ, _RESP = Actor.REQUESTER, Actor.RESPONDER
_S: Final = Signal


def _reply() -> dict[tuple[State, Actor, Signal], State]:
    """Return the rows of exactly one reply, OK or ERROR (moq-transport-16, 5.1)."""
    return {(_P, _RESP, _S.OK): _E, (_P, _RESP, _S.ERROR): _T}


def _updates(
    sender: Actor, states: tuple[State, ...], *, on_error: State
) -> dict[tuple[State, Actor, Signal], State]:
    """Return the rows of updates by ``sender`` in ``states``, and of their answers."""
    rows = {(state, sender, _S.UPDATE): state for state in states}
    for state in states:
        if state is not _P:
            rows[state, sender.other, _S.UPDATE_OK] = state
            rows[state, sender.other, _S.UPDATE_ERROR] = on_error if state is _E else state
    return rows


_SUBSCRIBE: Final[Table] = {
    **_reply(),
    **_updates(_REQ, (_P, _E, _F), on_error=_F),
    (_P, _REQ, _S.CANCEL): _T,
    (_E, _REQ, _S.CANCEL): _T,
    (_F, _REQ, _S.CANCEL): _T,
    (_E, _RESP, _S.DONE): _T,
    (_F, _RESP, _S.DONE): _T,
}

_PUBLISH: Final[Table] = {
    **_reply(),
    **_updates(_REQ, (_P, _E, _F), on_error=_F),
    # The subscriber may update what it accepted (moq-transport-16, 9.11).
    **_updates(_RESP, (_E, _F), on_error=_F),
    (_P, _REQ, _S.DONE): _T,
    (_E, _REQ, _S.DONE): _T,
    (_F, _REQ, _S.DONE): _T,
    (_E, _RESP, _S.CANCEL): _T,
    (_F, _RESP, _S.CANCEL): _T,
}

_FETCH: Final[Table] = {
    **_reply(),
    # A failed update of a FETCH resets its data stream: DATA_END, observed by each side.
    **_updates(_REQ, (_P, _E), on_error=_E),
    (_D, _REQ, _S.UPDATE): _D,
    (_P, _REQ, _S.CANCEL): _T,
    (_E, _REQ, _S.CANCEL): _T,
    (_D, _REQ, _S.CANCEL): _T,
    (_P, _REQ, _S.DATA_END): _D,
    (_P, _RESP, _S.DATA_END): _D,
    (_E, _REQ, _S.DATA_END): _T,
    (_E, _RESP, _S.DATA_END): _T,
    (_D, _RESP, _S.OK): _T,
    (_D, _RESP, _S.ERROR): _T,
}

_TRACK_STATUS: Final[Table] = {
    (_P, _RESP, _S.OK): _T,
    (_P, _RESP, _S.ERROR): _T,
    # Draft 16 has no message for this: the requester ignores the reply.
    (_P, _REQ, _S.CANCEL): _T,
}


def _namespace_request(*signals: Signal, update_error: State) -> Table:
    """Return the table of a namespace request; ``signals``: those of an accepting responder."""
    return {
        **_reply(),
        **_updates(_REQ, (_P, _E), on_error=update_error),
        **{(_E, _RESP, signal): _E for signal in signals},
        (_P, _REQ, _S.CANCEL): _T,
        (_E, _REQ, _S.CANCEL): _T,
        (_E, _RESP, _S.CANCEL): _T,
    }


def _with_stream(
    table: Table, *, requester_fin_ends: bool, responder_fin_ends: bool, states: tuple[State, ...]
) -> Table:
    """Return the table of a request that has its own stream (moq-transport-18, 3.3.2).

    Either side may end the request by RESET_STREAM or STOP_SENDING at any time. A FIN means that
    the actor sends no more messages, which ends some requests. A FIN of a responder that has not
    replied ends every request.
    """
    rows = dict(table)
    for state in states:
        rows[state, _REQ, _S.CANCEL] = _T
        rows[state, _RESP, _S.CANCEL] = _T
        rows[state, _REQ, _S.FIN] = _T if requester_fin_ends else state
        unanswered = state in (_P, _D)
        rows[state, _RESP, _S.FIN] = _T if responder_fin_ends or unanswered else state
    return rows


TABLES: Final[Mapping[Draft, Mapping[Kind, Table]]] = MappingProxyType(
    {
        Draft.D16: MappingProxyType(
            {
                Kind.SUBSCRIBE: _SUBSCRIBE,
                Kind.PUBLISH: _PUBLISH,
                Kind.FETCH: _FETCH,
                Kind.TRACK_STATUS: _TRACK_STATUS,
                Kind.PUBLISH_NAMESPACE: _namespace_request(update_error=_E),
                # The one request of draft 16 with its own stream (moq-transport-16, 6.1).
                Kind.SUBSCRIBE_NAMESPACE: _with_stream(
                    _namespace_request(_S.NAMESPACE, update_error=_E),
                    requester_fin_ends=True,
                    responder_fin_ends=True,
                    states=(_P, _E),
                ),
            }
        ),
        Draft.D18: MappingProxyType(
            {
                # A publisher that closes without PUBLISH_DONE ends the subscription too.
                Kind.SUBSCRIBE: _with_stream(
                    _SUBSCRIBE,
                    requester_fin_ends=False,
                    responder_fin_ends=True,
                    states=(_P, _E, _F),
                ),
                Kind.PUBLISH: _with_stream(
                    _PUBLISH,
                    requester_fin_ends=True,
                    responder_fin_ends=False,
                    states=(_P, _E, _F),
                ),
                # The data stream may outlive both halves of the request stream.
                Kind.FETCH: _with_stream(
                    _FETCH,
                    requester_fin_ends=False,
                    responder_fin_ends=False,
                    states=(_P, _E, _D),
                ),
                Kind.TRACK_STATUS: _with_stream(
                    _TRACK_STATUS,
                    requester_fin_ends=False,
                    responder_fin_ends=True,
                    states=(_P,),
                ),
                # A FIN of a responder that has accepted revokes nothing.
                Kind.PUBLISH_NAMESPACE: _with_stream(
                    _namespace_request(update_error=_T),
                    requester_fin_ends=True,
                    responder_fin_ends=False,
                    states=(_P, _E),
                ),
                Kind.SUBSCRIBE_NAMESPACE: _with_stream(
                    _namespace_request(_S.NAMESPACE, update_error=_T),
                    requester_fin_ends=True,
                    responder_fin_ends=True,
                    states=(_P, _E),
                ),
                Kind.SUBSCRIBE_TRACKS: _with_stream(
                    _namespace_request(_S.BLOCKED, update_error=_T),
                    requester_fin_ends=True,
                    responder_fin_ends=True,
                    states=(_P, _E),
                ),
            }
        ),
    }
)
"""The machine of every kind of request, by draft."""


def advance(draft: Draft, kind: Kind, state: State, actor: Actor, signal: Signal) -> State | None:
    """Return the next state after ``signal`` by ``actor``; None if no row allows it."""
    return TABLES[draft][kind].get((state, actor, signal))


# The control stream


class Control(Enum):
    """The state of the peer's control stream."""

    AWAITING_SETUP = "awaiting setup"
    OPEN = "open"
    LEAVING = "leaving"
    """The peer has sent GOAWAY."""


class ControlSignal(Enum):
    """A message on a control stream."""

    SETUP = "setup"
    GOAWAY = "goaway"
    MESSAGE = "message"
    """Any other message that the draft puts on the control stream."""


CONTROL: Final[Mapping[tuple[Control, ControlSignal], Control]] = MappingProxyType(
    {
        (Control.AWAITING_SETUP, ControlSignal.SETUP): Control.OPEN,
        (Control.OPEN, ControlSignal.MESSAGE): Control.OPEN,
        (Control.OPEN, ControlSignal.GOAWAY): Control.LEAVING,
        (Control.LEAVING, ControlSignal.MESSAGE): Control.LEAVING,
    }
)
"""SETUP first and once, GOAWAY at most once (moq-transport-16, 3.3 and 9.4)."""


class Migration(Enum):
    """Whether GOAWAY was sent on one request stream (draft 18 only)."""

    STAYING = "staying"
    LEAVING = "leaving"


MIGRATION: Final[Mapping[Migration, Migration]] = MappingProxyType(
    {Migration.STAYING: Migration.LEAVING}
)
"""The effect of GOAWAY: at most one on each request stream (moq-transport-18, 10.4)."""


# Request IDs

MAX_GAPS: Final[dict[Draft, int]] = {Draft.D16: 64, Draft.D18: 1024}
"""The most IDs below the largest received one that may be missing at a time, by draft."""


class RequestsBlockedError(StateError):
    """A request that must wait for the peer's MAX_REQUEST_ID (draft 16 only)."""

    def __init__(self, request_id: int, maximum: int) -> None:
        super().__init__(
            f"request {request_id} must wait: the peer allows ids below {maximum};"
            " retry after RequestsAllowed"
        )
        self.request_id = request_id
        self.maximum = maximum


class OwnRequestIds:
    """The IDs of our requests."""

    __slots__ = ("_next", "blocked_at", "maximum")

    def __init__(self, first: int, maximum: int | None) -> None:
        self._next = first
        self.maximum = maximum
        """The peer's MAX_REQUEST_ID; None if the draft has no such limit."""
        self.blocked_at: int | None = None
        """The maximum for which REQUESTS_BLOCKED was sent; it is sent once for each maximum."""

    @property
    def next(self) -> int:
        """The ID of the next request."""
        return self._next

    def check(self) -> None:
        """Raise :class:`RequestsBlockedError` if the next id may not be used yet."""
        if self.maximum is not None and self._next >= self.maximum:
            raise RequestsBlockedError(self._next, self.maximum)

    def take(self) -> int:
        """Return the next ID and mark it as used."""
        self.check()
        request_id = self._next
        self._next += 2
        return request_id

    def used(self, request_id: int) -> bool:
        """Return whether we have used ``request_id``."""
        return request_id % 2 == self._next % 2 and request_id < self._next


class PeerRequestIds:
    """The IDs that the peer has used."""

    __slots__ = ("_draft", "_first", "_missing", "_next", "_ordered")

    def __init__(self, first: int, draft: Draft) -> None:
        self._first = first
        self._draft = draft
        self._next = first
        """One step above the largest id used."""
        self._ordered = -1
        """The largest ID received on draft 16's control stream."""
        self._missing: dict[int, None] = {}
        """IDs below ``_next`` that were not used yet, in ascending order."""

    @property
    def next(self) -> int:
        """One step above the largest id that the peer has used."""
        return self._next

    @property
    def count(self) -> int:
        """The number of IDs below :attr:`next`."""
        return (self._next - self._first) // 2

    def used(self, request_id: int) -> bool:
        """Return whether the peer has used ``request_id``."""
        return self._is_peers(request_id) and (
            request_id < self._next and request_id not in self._missing
        )

    def _is_peers(self, request_id: int) -> bool:
        return request_id % 2 == self._first

    def use(self, request_id: int, *, ordered: bool) -> None:
        """Record a new request; ``ordered``: it arrived on draft 16's control stream."""
        if not self._is_peers(request_id):
            parity = "odd" if self._first else "even"
            raise InvalidRequestId(f"request id {request_id}: the peer's ids are {parity}")
        if ordered:
            if request_id <= self._ordered:
                raise InvalidRequestId(
                    f"request id {request_id} after {self._ordered}: ids must ascend"
                )
            self._ordered = request_id
        if request_id < self._next:
            if request_id not in self._missing:
                raise InvalidRequestId(f"request id {request_id} was used before")
            del self._missing[request_id]
            return
        limit = MAX_GAPS[self._draft]
        skipped = (request_id - self._next) // 2
        if skipped > limit or (self._draft is Draft.D16 and skipped + len(self._missing) > limit):
            raise InvalidRequestId(
                f"request id {request_id} where {self._next} is next: too many ids were left out"
            )
        self._missing.update(dict.fromkeys(range(self._next, request_id, 2)))
        # Draft 18: the ID of a stream that was reset at once never arrives. Old gaps count as used.
        while len(self._missing) > limit:
            del self._missing[next(iter(self._missing))]
        self._next = request_id + 2


class RequestCredit:
    """The number of requests that the peer may make: a window that moves (draft 16)."""

    __slots__ = ("_busy", "_window", "maximum")

    def __init__(self, window: int) -> None:
        self._window = window
        self._busy = 0
        self.maximum = 2 * window
        """The last Maximum Request ID sent to the peer: IDs below it may be used."""

    @property
    def busy(self) -> int:
        """The number of the peer's requests and updates that are not over."""
        return self._busy

    def spend(self, request_id: int) -> None:
        """Record a request; raise :class:`TooManyRequests` if its ID is not below the maximum."""
        if request_id >= self.maximum:
            raise TooManyRequests(f"request id {request_id} is not below {self.maximum}")
        self._busy += 1

    def release(self) -> None:
        """Record that a request or an update is over."""
        self._busy -= 1

    def grant(self, used: int) -> int | None:
        """Return a new maximum to send, or None; ``used`` IDs have been used so far.

        The maximum grows in steps of at least half a window, so that not every request costs a
        MAX_REQUEST_ID.
        """
        maximum = 2 * (used + self._window - self._busy)
        if maximum - self.maximum < max(self._window, 1):
            return None
        self.maximum = maximum
        return maximum
