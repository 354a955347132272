"""The client protocol's own messages inside ``SubscribeData``.

The network carries the bodies of SUBSCRIBE, FETCH, SUBSCRIBE_OK, FETCH_OK and REQUEST_ERROR. Each
is written as one MoQT draft does, without type and length (laps-2, 5.3 and 6.5). A body that
cannot be read came from a relay far away: it counts as absent, and no session is closed for it.

The s-relay removes every authorization token: the network is not the audience of a client's token.
A body that cannot be read cannot be cleaned either, so a fresh one with the track's name takes its
place. The o-relay reads the full name and compares it, because hashes alone can collide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from laps_sdk.edge.codes import properties_for
from laps_wire.errors import LapsError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.control import (
    MAX_BODY_LENGTH,
    decode,
    decode_subscribe_body,
    encode,
    encode_subscribe_body,
)
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import (
    Fetch,
    FetchOk,
    RequestError,
    StandaloneFetch,
    Subscribe,
    SubscribeOk,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import SubscribeData
from laps_wire.peering.laps2.information import NO_DATA
from laps_wire.peering.laps2.limits import MAX_REASON_BYTES, MAX_SUBSCRIBE_DATA_BYTES

__all__ = [
    "DRAFT",
    "FetchAsked",
    "body_for",
    "bounded",
    "bounded_reason",
    "error_data",
    "fetch_data",
    "fetch_ok_data",
    "name_in",
    "ok_data",
    "read_error",
    "read_fetch",
    "read_fetch_ok",
    "read_ok",
    "read_subscribe",
    "subscribe_data",
    "without_tokens",
]

DRAFT: Final = Draft.D18
"""The draft that relays put into subscribe data; other drafts are named there."""

_DRAFTS: Final = {draft.value: draft for draft in Draft}
_FRAME: Final = 3
"""Type and length in front of a body: all types are below 0x40, a byte each in either draft."""

M = TypeVar("M", SubscribeOk, FetchOk, RequestError, Fetch)


# SUBSCRIBE


def subscribe_data(
    name: FullTrackName, parameters: Parameters, draft: Draft = DRAFT
) -> SubscribeData:
    """A SUBSCRIBE for the network, without the client's tokens."""
    bare = replace(parameters, authorization_tokens=())
    return SubscribeData(draft.value, encode_subscribe_body(Subscribe(0, name, bare), draft))


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


# SUBSCRIBE_OK


def ok_data(message: SubscribeOk, draft: Draft = DRAFT) -> SubscribeData:
    """A publisher's answer for the network."""
    return SubscribeData(draft.value, _body(message, draft))


def read_ok(data: SubscribeData, draft: Draft = DRAFT) -> tuple[Location | None, KeyValues]:
    """What a publisher said with SUBSCRIBE_OK: its largest location, and the track's properties.

    ``draft`` is the one in which the properties are needed.
    """
    message = _read(data, SubscribeOk)
    if message is None:
        return None, ()
    properties = properties_for(message.track_properties, Draft(data.draft), draft)
    return message.parameters.largest_object, properties


# FETCH


class FetchAsked(NamedTuple):
    """What a FETCH asks for."""

    target: StandaloneFetch
    parameters: Parameters


def fetch_data(target: StandaloneFetch, parameters: Parameters, draft: Draft) -> SubscribeData:
    """A FETCH for another relay: of its parameters those that say how to send objects."""
    bare = Parameters(
        subscriber_priority=parameters.subscriber_priority, group_order=parameters.group_order
    )
    return SubscribeData(draft.value, _body(Fetch(0, target, bare), draft))


def read_fetch(data: SubscribeData) -> FetchAsked | None:
    """Return the standalone FETCH in ``data``; None if there is none that can be read.

    An s-relay resolves what its client asked for, so only standalone FETCHes travel (laps-2, 6.5).
    """
    message = _read(data, Fetch)
    if message is None or not isinstance(message.target, StandaloneFetch):
        return None
    return FetchAsked(message.target, message.parameters)


# FETCH_OK


def fetch_ok_data(message: FetchOk, draft: Draft = DRAFT) -> SubscribeData:
    """The Edge's answer to a FETCH for the network."""
    return SubscribeData(draft.value, _body(message, draft))


def read_fetch_ok(
    data: SubscribeData, draft: Draft = DRAFT
) -> tuple[Location, bool, KeyValues] | None:
    """What FETCH_OK says: its end, whether that is the track's, and the track's properties."""
    message = _read(data, FetchOk)
    if message is None:
        return None
    properties = properties_for(message.track_properties, Draft(data.draft), draft)
    return message.end_location, message.end_of_track, properties


# REQUEST_ERROR


def error_data(message: RequestError, draft: Draft = DRAFT) -> SubscribeData:
    """A publisher's refusal for the network; a redirect is for its own subscribers only."""
    if message.error_code == RequestErrorCode.REDIRECT:
        message = replace(message, error_code=RequestErrorCode.INTERNAL_ERROR, redirect=None)
    return SubscribeData(draft.value, _body(message, draft))


def read_error(data: SubscribeData) -> RequestError | None:
    """Why a publisher refused."""
    return _read(data, RequestError)


# Limits


def bounded(data: SubscribeData) -> SubscribeData:
    """A publisher's answer, if it fits into a response; the code says the essential anyway."""
    return data if len(data.body) <= MAX_SUBSCRIBE_DATA_BYTES else NO_DATA


def bounded_reason(reason: str) -> str:
    """A reason that fits: it is cut, never refused."""
    encoded = reason.encode(errors="replace")
    if len(encoded) <= MAX_REASON_BYTES:
        return encoded.decode()
    return encoded[:MAX_REASON_BYTES].decode(errors="ignore")


# Bodies


def _body(message: SubscribeOk | FetchOk | RequestError | Fetch, draft: Draft) -> bytes:
    if draft is Draft.D16 and message.request_id is None:
        message = replace(message, request_id=0)  # draft 16 writes one, and no relay reads it
    return encode(message, draft)[_FRAME:]


_SOME: Final = StandaloneFetch(
    FullTrackName(Namespace.of(b"-"), b""), Location(0, 0), Location(0, 1)
)
_TYPES: Final = {
    (type(message), draft): encode(message, draft)[: _FRAME - 2]
    for draft, request_id in ((Draft.D16, 0), (Draft.D18, None))
    for message in (
        SubscribeOk(request_id, 0),
        FetchOk(request_id, False, Location(0, 0)),
        RequestError(request_id, 0),
        Fetch(0, _SOME),
    )
}


def _read(data: SubscribeData, kind: type[M]) -> M | None:
    draft = _DRAFTS.get(data.draft)
    if draft is None or len(data.body) > MAX_BODY_LENGTH:
        return None
    frame = _TYPES[kind, draft] + len(data.body).to_bytes(2, "big") + data.body
    try:
        message, _ = decode(frame, draft)
    except LapsError:
        return None
    return message if isinstance(message, kind) else None
