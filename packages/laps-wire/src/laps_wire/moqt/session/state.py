"""The state machines of a MoQT session, as tables.

Theory of operation
===================

A session is a set of small machines that do not know each other::

    one Control machine        what the peer may still send on its control stream
    one request machine        for each SUBSCRIBE, PUBLISH, FETCH, TRACK_STATUS,
                               PUBLISH_NAMESPACE, SUBSCRIBE_NAMESPACE, SUBSCRIBE_TRACKS
    one Migration machine      for each place where GOAWAY may stand: at most one GOAWAY each

Two rules keep this readable:

1. Everything that changes the state of a request is in this file. Other modules turn messages and
   stream ends into signals, ask :func:`advance`, and do what the answer says.
2. This file does not know who we are. A row names the *requester* (who sent the request) or the
   *responder* (who got it); whether that is us or the peer, client or server, is not its business.
   Nor does it know messages: the same signal is UNSUBSCRIBE in draft 16 and STOP_SENDING in draft
   18. The session shapes translate (``shape16``, ``shape18``).

A row is ``(state, actor, signal) -> state``. What is in no row is forbidden: if the peer did it,
a protocol violation; if our application asked for it, a :class:`~laps_wire.errors.StateError`.

A subscription, begun by either side (S subscriber, P publisher)::

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

TRACK_STATUS is over with its reply. Namespace requests stay ESTABLISHED until one side cancels.

Races
-----

Each side acts on what it has seen. Two acts that cross on the wire must not be a fault, so:

- Signals that do not end a request commute: whichever order the two sides apply them in, they
  meet in the same state. (A property test holds every table to this.)
- When *we* end a request the peer has not heard of it yet, and its signals still follow the state
  before our end. So a request that we ended keeps that state as its *shadow*, and the peer's
  signals go on moving the shadow and have no other effect. What the shadow's table forbids is a
  violation even then: two SUBSCRIBE_OK are one too many whether or not we have unsubscribed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from laps_wire.moqt.versions import Draft

__all__ = [
    "CONTROL",
    "MIGRATION",
    "TABLES",
    "UNANSWERED",
    "Actor",
    "Control",
    "ControlSignal",
    "Kind",
    "Migration",
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
    """Where a request stands. There is no IDLE: a request exists from its message on."""

    PENDING = "pending"
    """Sent and not answered; the drafts' "Pending (Subscriber)" and "Pending (Publisher)"."""
    ESTABLISHED = "established"
    FAILING = "failing"
    """An update of a subscription failed: PUBLISH_DONE with UPDATE_FAILED must follow."""
    DATA_ENDED = "data ended"
    """The data stream of a FETCH is over, its reply is still to come."""
    TERMINATED = "terminated"


UNANSWERED: Final = (State.PENDING, State.DATA_ENDED)
"""The states of a request that has no reply yet."""


class Signal(Enum):
    """What can happen to a request."""

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
    """Not wanted any more: draft 16's UNSUBSCRIBE, FETCH_CANCEL, PUBLISH_NAMESPACE_DONE and
    PUBLISH_NAMESPACE_CANCEL; RESET_STREAM or STOP_SENDING where the request has its own stream."""
    NAMESPACE = "namespace"
    """NAMESPACE or NAMESPACE_DONE."""
    BLOCKED = "blocked"
    """PUBLISH_BLOCKED."""
    DATA_END = "data end"
    """The data stream of a FETCH was closed or reset; each side sees it for itself."""
    FIN = "fin"
    """The actor closed its half of the request's own stream in good order."""


Table: TypeAlias = Mapping[tuple[State, Actor, Signal], State]
"""One machine: what may happen where, and where it leads."""

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
    """Exactly one reply, OK or ERROR (moq-transport-16, 5.1)."""
    return {(_P, _RESP, _S.OK): _E, (_P, _RESP, _S.ERROR): _T}


def _updates(
    sender: Actor, states: tuple[State, ...], *, on_error: State
) -> dict[tuple[State, Actor, Signal], State]:
    """``sender`` may update in ``states``; answers come once the request is established."""
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
    # A failed update of a FETCH shows as a reset of its data stream: DATA_END, seen by each side.
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
    # Draft 16 has no message for this: the requester just stops to listen.
    (_P, _REQ, _S.CANCEL): _T,
}


def _namespace_request(*said: Signal, update_error: State) -> Table:
    """A request about namespaces; ``said`` is what the responder may go on to say."""
    return {
        **_reply(),
        **_updates(_REQ, (_P, _E), on_error=update_error),
        **{(_E, _RESP, signal): _E for signal in said},
        (_P, _REQ, _S.CANCEL): _T,
        (_E, _REQ, _S.CANCEL): _T,
        (_E, _RESP, _S.CANCEL): _T,
    }


def _with_stream(
    table: Table, *, requester_fin_ends: bool, responder_fin_ends: bool, states: tuple[State, ...]
) -> Table:
    """The table of a request that has a stream of its own (moq-transport-18, 3.3.2).

    Either side may end it by RESET_STREAM or STOP_SENDING at any time. A FIN only says that the
    actor has no more to say; for some requests that is the end of them. A responder that finishes
    before it has replied never will.
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
                # A publisher that closes without PUBLISH_DONE is gone all the same.
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
                # A responder that has said OK may have no more to say: that revokes nothing.
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
    """Where ``signal`` by ``actor`` leads from ``state``, or None if no row allows it."""
    return TABLES[draft][kind].get((state, actor, signal))


# The control stream


class Control(Enum):
    """What we have heard on the peer's control stream."""

    AWAITING_SETUP = "awaiting setup"
    OPEN = "open"
    LEAVING = "leaving"
    """The peer has sent GOAWAY."""


class ControlSignal(Enum):
    """What can come on a control stream."""

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
    """Whether GOAWAY was said on one request stream (draft 18 only)."""

    STAYING = "staying"
    LEAVING = "leaving"


MIGRATION: Final[Mapping[Migration, Migration]] = MappingProxyType(
    {Migration.STAYING: Migration.LEAVING}
)
"""What GOAWAY does to it: at most one on each request stream (moq-transport-18, 10.4)."""
