"""Records of fetches, their boundary to this relay's clients, and the FETCH inside a request.

A client's FETCH travels as a track and a range, without its token. An s-relay resolves what its
client asked for, so only standalone FETCHes travel (laps-2, 6.5). A body that cannot be decoded
counts as absent: it may come from a distant relay, and the peer is not closed for it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, TypeAlias

from laps_relay.peer_forwarding.forwarding import Feed
from laps_wire.errors import LapsError
from laps_wire.moqt.control import MAX_BODY_LENGTH, decode, encode
from laps_wire.moqt.messages import Fetch, StandaloneFetch
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FetchCancel,
    FetchRequest,
    FetchResponse,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
)
from laps_wire.peering.laps2.information import NO_DATA

__all__ = [
    "NO_FETCHES",
    "FetchAsked",
    "FetchHandle",
    "FetchMessage",
    "FetchRefusal",
    "FetchSide",
    "entry_of",
    "fetch_data",
    "read_fetch",
]

FetchMessage: TypeAlias = FetchRequest | FetchResponse | FetchCancel
FetchHandle: TypeAlias = tuple[NodeId, int]
"""A FETCH of another relay: who asks, and its ID there."""

_NEVER = Stamp(0, 0)


class FetchRefusal(NamedTuple):
    """Why a FETCH is not answered."""

    code: int
    reason: str
    data: SubscribeData = NO_DATA


def entry_of(request: FetchRequest) -> SubscribeInfo:
    """A FETCH as policy sees it: like a subscribe of the same source for the same track."""
    return SubscribeInfo(
        request.source,
        _NEVER,
        request.element_hashes,
        request.name_hash,
        request.full_name_hash,
        request.scope,
        request.data,
    )


class FetchSide(Protocol):
    """This relay's own clients, as far as fetches go: a bridge to the Edge.

    The other direction are the methods ``fetch``, ``unfetch``, ``fetch_over``, ``fetched``,
    ``fetch_refused`` and ``fetch_served`` of ``NetworkRelay``.
    """

    def fetch_answered(
        self, now: float, fetch_id: int, code: int, reason: str, data: SubscribeData
    ) -> None:
        """s-relay: what becomes of a FETCH of ours; with code 0 objects come, or came already.

        Another code is the last word, also behind a 0: then no stream has come, and none will.
        """

    def serve_fetch(
        self, now: float, handle: FetchHandle, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """o-relay: another relay asks. Answer with ``fetched`` or ``fetch_refused``.

        The stream goes into the feed; ``fetch_served`` when it has ended.
        """

    def drop_fetch(self, now: float, handle: FetchHandle) -> None:
        """It does not want the rest, or is gone."""


NO_FETCHES = FetchRefusal(SubscribeCode.NO_PUBLISHER, "there are no clients here")
"""The answer of a relay without clients."""


# The FETCH inside a request

_FRAME: Final = 3
"""Type and length in front of a body: the type is below 0x40, a byte in either draft."""
_SOME: Final = StandaloneFetch(
    FullTrackName(Namespace.of(b"-"), b""), Location(0, 0), Location(0, 1)
)
_TYPES: Final = {draft: encode(Fetch(0, _SOME), draft)[: _FRAME - 2] for draft in Draft}
_DRAFTS: Final = {draft.value: draft for draft in Draft}


class FetchAsked(NamedTuple):
    """What a FETCH asks for."""

    target: StandaloneFetch
    parameters: Parameters


def fetch_data(target: StandaloneFetch, parameters: Parameters, draft: Draft) -> SubscribeData:
    """Encode a FETCH for another relay, with the parameters that say how to send objects."""
    bare = Parameters(
        subscriber_priority=parameters.subscriber_priority, group_order=parameters.group_order
    )
    return SubscribeData(draft.value, encode(Fetch(0, target, bare), draft)[_FRAME:])


def read_fetch(data: SubscribeData) -> FetchAsked | None:
    """Decode the FETCH of a request; None if it cannot be decoded."""
    draft = _DRAFTS.get(data.draft)
    if draft is None or len(data.body) > MAX_BODY_LENGTH:
        return None
    frame = _TYPES[draft] + len(data.body).to_bytes(2, "big") + data.body
    try:
        message, _ = decode(frame, draft)
    except LapsError:
        return None
    if not isinstance(message, Fetch) or not isinstance(message.target, StandaloneFetch):
        return None
    return FetchAsked(message.target, message.parameters)
