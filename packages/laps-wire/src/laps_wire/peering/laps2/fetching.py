"""Messages about what was published before: a FETCH that another relay answers (feature FETCHES).

They are for one relay and go there hop by hop, as the node information leads; nobody on the way
keeps anything of them. The answer's objects are data like all others: one stream to a set whose
only target is the s-relay, with the flag FETCH and the FETCH's ID as its data context::

    s-relay                   Via                    o-relay
       |  FETCH_REQUEST id 7   |                        |
       |---------------------->|----------------------->|
       |                       |  FETCH_RESPONSE id 7   |
       |<----------------------|<-----------------------|
       |      data: flag FETCH, context 7               |
       |<======================|<=======================|
       |  FETCH_CANCEL id 7    |                        |
       |---------------------->|----------------------->|  if it is not wanted any more
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
    """An s-relay asks for objects that were published before."""

    source: NodeId
    """The s-relay: to whom the answer goes."""
    target: NodeId
    """Who is asked: an o-relay, or a control server that knows one."""
    fetch_id: int
    """Drawn by the s-relay, random: who does not know it can not answer."""
    hops: int
    """0 from the s-relay; a relay that passes it on writes one more."""
    element_hashes: tuple[int, ...]
    """The hash of each namespace tuple element, in order."""
    name_hash: int
    full_name_hash: int
    scope: tuple[Label, ...] = ()
    """What policy may look at, as in a subscribe."""
    data: SubscribeData = NO_DATA
    """The FETCH, with its locations resolved: it names a track and a range, and has no token."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """What becomes of a FETCH; the objects come by themselves, before or behind it."""

    source: NodeId
    """The s-relay: to whom this goes."""
    fetch_id: int
    responder: NodeId
    """Who answers: who was asked, or a relay on the way that does not pass it on."""
    hops: int
    code: int
    """A :class:`~laps_wire.peering.laps2.codepoints.SubscribeCode`; 0 is accepted."""
    reason: str = ""
    retry_after_ms: int = 0
    """Not to be asked again before; 0 says nothing about it."""
    data: SubscribeData = NO_DATA
    """The body of FETCH_OK, or of the publisher's error."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class FetchCancel:
    """An s-relay does not want the rest of an answer."""

    source: NodeId
    target: NodeId
    fetch_id: int
    hops: int
    parameters: Parameters = NO_PARAMETERS


FETCH_ID: Final = Constrained(U32, 1, 0xFFFF_FFFF)
"""The ID of a FETCH, 32 bits as the data context in data headers; 0 is no ID."""

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
