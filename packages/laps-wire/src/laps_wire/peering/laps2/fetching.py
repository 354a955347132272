"""Messages for a FETCH that another relay answers (feature FETCHES).

Each message is for one relay. It is forwarded hop by hop along the node paths; relays on the path
keep no state of it. The objects of the response are ordinary data: one stream to a set whose only
target is the s-relay. It has the flag FETCH, and the ID of the FETCH as its data context::

    s-relay                   Via                    o-relay
       |  FETCH_REQUEST id 7   |                        |
       |---------------------->|----------------------->|
       |                       |  FETCH_RESPONSE id 7   |
       |<----------------------|<-----------------------|
       |      data: flag FETCH, context 7               |
       |<======================|<=======================|
       |  FETCH_CANCEL id 7    |                        |
       |---------------------->|----------------------->|  to cancel
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_wire.fields import U32, U64, VARINT, Constrained
from laps_wire.layout import Layout
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.laps2.fields import ELEMENT_HASHES, LABELS, REASON, Label
from laps_wire.peering.laps2.information import NO_DATA, SUBSCRIBE_DATA, SubscribeData
from laps_wire.peering.laps2.limits import MAX_HOPS
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, PARAMETERS, Parameters

__all__ = [
    "FETCH_CANCEL",
    "FETCH_ID",
    "FETCH_REQUEST",
    "FETCH_RESPONSE",
    "FetchCancel",
    "FetchRequest",
    "FetchResponse",
]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """An s-relay requests objects that were published before."""

    source: NodeId
    """The s-relay, which gets the response."""
    target: NodeId
    """The relay that is to answer: an o-relay, or a control server that knows one."""
    fetch_id: int
    """A random number from the s-relay; a relay that does not know it cannot answer."""
    hops: int
    """0 from the s-relay; each relay that forwards the message adds 1."""
    element_hashes: tuple[int, ...]
    """The hash of each namespace tuple element, in order."""
    name_hash: int
    full_name_hash: int
    scope: tuple[Label, ...] = ()
    """The labels that policy may evaluate, as in a subscribe."""
    data: SubscribeData = NO_DATA
    """The FETCH with resolved locations: it names a track and a range, and has no token."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The result of a FETCH; the objects arrive separately, before or after it."""

    source: NodeId
    """The s-relay, which gets this message."""
    fetch_id: int
    responder: NodeId
    """The relay that answers: the target, or a relay on the path that does not forward."""
    hops: int
    code: int
    """A :class:`~laps_wire.peering.laps2.codepoints.SubscribeCode`; 0 is accepted."""
    reason: str = ""
    retry_after_ms: int = 0
    """How long to wait before a retry, in milliseconds; 0: unspecified."""
    data: SubscribeData = NO_DATA
    """The body of FETCH_OK, or of the publisher's error."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class FetchCancel:
    """An s-relay cancels the rest of a response."""

    source: NodeId
    target: NodeId
    fetch_id: int
    hops: int
    parameters: Parameters = NO_PARAMETERS


FETCH_ID: Final = Constrained(U32, 1, 0xFFFF_FFFF)
"""The ID of a FETCH: 32 bits, as the data context in data headers; 0 is not an ID."""

_HOPS: Final = Constrained(VARINT, 0, MAX_HOPS)

FETCH_REQUEST: Final = Layout(
    FetchRequest,
    ("source", NODE_ID),
    ("target", NODE_ID),
    ("fetch_id", FETCH_ID),
    ("hops", _HOPS),
    ("element_hashes", ELEMENT_HASHES),
    ("name_hash", U64),
    ("full_name_hash", U64),
    ("scope", LABELS),
    ("data", SUBSCRIBE_DATA),
    ("parameters", PARAMETERS),
)
FETCH_RESPONSE: Final = Layout(
    FetchResponse,
    ("source", NODE_ID),
    ("fetch_id", FETCH_ID),
    ("responder", NODE_ID),
    ("hops", _HOPS),
    ("code", VARINT),
    ("reason", REASON),
    ("retry_after_ms", VARINT),
    ("data", SUBSCRIBE_DATA),
    ("parameters", PARAMETERS),
)
FETCH_CANCEL: Final = Layout(
    FetchCancel,
    ("source", NODE_ID),
    ("target", NODE_ID),
    ("fetch_id", FETCH_ID),
    ("hops", _HOPS),
    ("parameters", PARAMETERS),
)
