"""The client's FETCH inside a request to another relay: a track and a range, and no token.

An s-relay resolves what its client asked for, so only standalone FETCHes travel (laps-2, 6.5). What
cannot be read came from somebody far away: it counts as absent, and nobody is closed for it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from laps_wire.errors import LapsError
from laps_wire.moqt.control import MAX_BODY_LENGTH, decode, encode
from laps_wire.moqt.messages import Fetch, StandaloneFetch
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import SubscribeData

__all__ = ["FetchAsked", "fetch_data", "read_fetch"]

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
    """A FETCH for another relay: of its parameters those that say how to send objects."""
    bare = Parameters(
        subscriber_priority=parameters.subscriber_priority, group_order=parameters.group_order
    )
    return SubscribeData(draft.value, encode(Fetch(0, target, bare), draft)[_FRAME:])


def read_fetch(data: SubscribeData) -> FetchAsked | None:
    """The FETCH that somebody sent; None if there is none that can be read."""
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
