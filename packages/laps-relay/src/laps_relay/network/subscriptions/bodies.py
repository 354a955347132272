"""The client's SUBSCRIBE inside a flooded subscribe: names out of it, tokens never in it.

The body of a SUBSCRIBE travels from the s-relay to the o-relay (laps-2, 5.3). The s-relay removes
every authorization token: the network is not the audience of a client's token. A body that cannot
be read cannot be cleaned either, so a fresh one with the track's name takes its place. The o-relay
reads the full name, which it compares because hashes alone can collide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from laps_wire.errors import LapsError
from laps_wire.moqt.control import decode_subscribe_body, encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeData
from laps_wire.peering.laps2.information import NO_DATA
from laps_wire.peering.laps2.limits import MAX_REASON_BYTES, MAX_SUBSCRIBE_DATA_BYTES

__all__ = [
    "body_for",
    "bounded",
    "bounded_reason",
    "name_in",
    "read_subscribe",
    "without_tokens",
]

_DRAFTS: Final = {draft.value: draft for draft in Draft}


def body_for(name: FullTrackName) -> SubscribeData:
    """A SUBSCRIBE that says no more than which track is meant."""
    return SubscribeData(Draft.D18, encode_subscribe_body(Subscribe(0, name), Draft.D18))


def without_tokens(name: FullTrackName, data: SubscribeData) -> SubscribeData:
    """A client's SUBSCRIBE for this track as it may leave the s-relay."""
    message = read_subscribe(data)
    if message is None or message.track != name:
        return body_for(name)
    if message.parameters.authorization_tokens:
        cleaned = replace(message.parameters, authorization_tokens=())
        draft = _DRAFTS[data.draft]
        body = encode_subscribe_body(replace(message, parameters=cleaned), draft)
        data = SubscribeData(data.draft, body)
    return data if len(data.body) <= MAX_SUBSCRIBE_DATA_BYTES else body_for(name)


def name_in(data: SubscribeData) -> FullTrackName | None:
    """The full name that a SUBSCRIBE asks for; None if it cannot be read."""
    message = read_subscribe(data)
    return None if message is None else message.track


def read_subscribe(data: SubscribeData) -> Subscribe | None:
    """The SUBSCRIBE that somebody sent; None if there is none that can be read."""
    draft = _DRAFTS.get(data.draft)
    if draft is None:
        return None
    try:
        return decode_subscribe_body(data.body, draft)
    except LapsError:
        return None


def bounded(data: SubscribeData) -> SubscribeData:
    """A publisher's answer, if it fits into a response; the code says the essential anyway."""
    return data if len(data.body) <= MAX_SUBSCRIBE_DATA_BYTES else NO_DATA


def bounded_reason(reason: str) -> str:
    """A reason that fits: it is cut, never refused."""
    encoded = reason.encode(errors="replace")
    if len(encoded) <= MAX_REASON_BYTES:
        return encoded.decode()
    return encoded[:MAX_REASON_BYTES].decode(errors="ignore")
