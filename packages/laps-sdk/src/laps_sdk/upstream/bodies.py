"""The client protocol's own messages inside ``SubscribeData``.

The network carries the bodies of SUBSCRIBE, FETCH, SUBSCRIBE_OK, FETCH_OK and REQUEST_ERROR. Each
is encoded as in one MoQT draft, without type and length (laps-2, 5.3 and 6.5). A body that cannot
be decoded counts as absent. No session is closed for it: its origin may be a distant relay.

The s-relay removes every authorization token: the network is not the audience of a client's token.
A body that cannot be decoded may hold a token, so a new one with only the track's name replaces it.
The o-relay compares the full name, because hashes alone can collide.
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
from laps_wire.peering.laps2.codepoints import MAX_REASON_BYTES, MAX_SUBSCRIBE_DATA_BYTES
from laps_wire.peering.laps2.information import NO_DATA

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
"""The draft in which relays write subscribe data; the data states its draft."""

_DRAFTS: Final = {draft.value: draft for draft in Draft}
_FRAME: Final = 3
"""Bytes of type and length before a body: all types are below 0x40, one byte in both drafts."""

M = TypeVar("M", SubscribeOk, FetchOk, RequestError, Fetch)


# SUBSCRIBE


def subscribe_data(
    name: FullTrackName, parameters: Parameters, draft: Draft = DRAFT
) -> SubscribeData:
    """Return a SUBSCRIBE for the network, without the client's tokens."""
    bare = replace(parameters, authorization_tokens=())
    return SubscribeData(draft.value, encode_subscribe_body(Subscribe(0, name, bare), draft))


def body_for(name: FullTrackName) -> SubscribeData:
    """Return a SUBSCRIBE that holds only the name of the track."""
    return SubscribeData(Draft.D18, encode_subscribe_body(Subscribe(0, name), Draft.D18))


def without_tokens(name: FullTrackName, data: SubscribeData) -> SubscribeData:
    """Return a client's SUBSCRIBE for a track in the form that may leave the s-relay."""
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
    """Return the full name in a SUBSCRIBE; None if ``data`` cannot be decoded."""
    message = read_subscribe(data)
    return None if message is None else message.track


def read_subscribe(data: SubscribeData) -> Subscribe | None:
    """Return the SUBSCRIBE in ``data``; None if ``data`` cannot be decoded."""
    draft = _DRAFTS.get(data.draft)
    if draft is None:
        return None
    try:
        return decode_subscribe_body(data.body, draft)
    except LapsError:
        return None


# SUBSCRIBE_OK


def ok_data(message: SubscribeOk, draft: Draft = DRAFT) -> SubscribeData:
    """Return a publisher's SUBSCRIBE_OK for the network."""
    return SubscribeData(draft.value, _body(message, draft))


def read_ok(data: SubscribeData, draft: Draft = DRAFT) -> tuple[Location | None, KeyValues]:
    """Return the largest location and the track's properties of a SUBSCRIBE_OK.

    The properties are converted to ``draft``.
    """
    message = _read(data, SubscribeOk)
    if message is None:
        return None, ()
    properties = properties_for(message.track_properties, Draft(data.draft), draft)
    return message.parameters.largest_object, properties


# FETCH


class FetchAsked(NamedTuple):
    """The range and the parameters of a FETCH."""

    target: StandaloneFetch
    parameters: Parameters


def fetch_data(target: StandaloneFetch, parameters: Parameters, draft: Draft) -> SubscribeData:
    """Return a FETCH for another relay, with only the parameters that control sending."""
    bare = Parameters(
        subscriber_priority=parameters.subscriber_priority, group_order=parameters.group_order
    )
    return SubscribeData(draft.value, _body(Fetch(0, target, bare), draft))


def read_fetch(data: SubscribeData) -> FetchAsked | None:
    """Return the standalone FETCH in ``data``; None if there is none or decoding fails.

    An s-relay resolves a joining FETCH, so only standalone ones are sent (laps-2, 6.5).
    """
    message = _read(data, Fetch)
    if message is None or not isinstance(message.target, StandaloneFetch):
        return None
    return FetchAsked(message.target, message.parameters)


# FETCH_OK


def fetch_ok_data(message: FetchOk, draft: Draft = DRAFT) -> SubscribeData:
    """Return the Edge's FETCH_OK for the network."""
    return SubscribeData(draft.value, _body(message, draft))


def read_fetch_ok(
    data: SubscribeData, draft: Draft = DRAFT
) -> tuple[Location, bool, KeyValues] | None:
    """Return the end of a FETCH_OK, whether it is the end of the track, and the track's properties.

    Return None if ``data`` cannot be decoded.
    """
    message = _read(data, FetchOk)
    if message is None:
        return None
    properties = properties_for(message.track_properties, Draft(data.draft), draft)
    return message.end_location, message.end_of_track, properties


# REQUEST_ERROR


def error_data(message: RequestError, draft: Draft = DRAFT) -> SubscribeData:
    """Return a publisher's refusal for the network; replace a redirect by INTERNAL_ERROR."""
    if message.error_code == RequestErrorCode.REDIRECT:
        message = replace(message, error_code=RequestErrorCode.INTERNAL_ERROR, redirect=None)
    return SubscribeData(draft.value, _body(message, draft))


def read_error(data: SubscribeData) -> RequestError | None:
    """Return the REQUEST_ERROR of a publisher; None if ``data`` cannot be decoded."""
    return _read(data, RequestError)


# Limits


def bounded(data: SubscribeData) -> SubscribeData:
    """Return ``data`` if it fits into a response, else no data; the code is sent anyway."""
    return data if len(data.body) <= MAX_SUBSCRIBE_DATA_BYTES else NO_DATA


def bounded_reason(reason: str) -> str:
    """Return ``reason``, truncated to the maximum length."""
    encoded = reason.encode(errors="replace")
    if len(encoded) <= MAX_REASON_BYTES:
        return encoded.decode()
    return encoded[:MAX_REASON_BYTES].decode(errors="ignore")


# Bodies


def _body(message: SubscribeOk | FetchOk | RequestError | Fetch, draft: Draft) -> bytes:
    if draft is Draft.D16 and message.request_id is None:
        message = replace(message, request_id=0)  # draft 16 requires an id; no relay reads it
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
