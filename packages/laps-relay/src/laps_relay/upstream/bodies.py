"""The client protocol's own messages inside ``SubscribeData``: what goes through untouched.

The network carries the body of a SUBSCRIBE one way and that of SUBSCRIBE_OK or REQUEST_ERROR the
other way, each as one MoQT draft writes it, without type and length (laps-2, 5.3). What cannot be
read came from somebody far away: it counts as absent, and nobody is closed for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from laps_sdk.edge.codes import properties_for
from laps_wire.errors import LapsError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.control import (
    MAX_BODY_LENGTH,
    decode,
    encode,
    encode_subscribe_body,
)
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import FetchOk, Message, RequestError, Subscribe, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeData

__all__ = [
    "DRAFT",
    "error_data",
    "fetch_ok_data",
    "ok_data",
    "read_error",
    "read_fetch_ok",
    "read_ok",
    "subscribe_data",
]

DRAFT: Final = Draft.D18
"""What the in-memory sessions speak, and so what we put into subscribe data; others say so."""

_FRAME: Final = 3
"""Type and length in front of a body: both types are below 0x40, a byte each in either draft."""

M = TypeVar("M", SubscribeOk, FetchOk, RequestError)


# SUBSCRIBE


def subscribe_data(
    name: FullTrackName, parameters: Parameters, draft: Draft = DRAFT
) -> SubscribeData:
    """A SUBSCRIBE for the network, without the client's tokens."""
    bare = replace(parameters, authorization_tokens=())
    return SubscribeData(draft.value, encode_subscribe_body(Subscribe(0, name, bare), draft))


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


# Bodies


def _draft_of(data: SubscribeData) -> Draft | None:
    return next((draft for draft in Draft if draft.value == data.draft), None)


def _body(message: Message, draft: Draft) -> bytes:
    return encode(message, draft)[_FRAME:]


_TYPES: Final = {
    (type(message), draft): encode(message, draft)[: _FRAME - 2]
    for draft, request_id in ((Draft.D16, 0), (Draft.D18, None))
    for message in (
        SubscribeOk(request_id, 0),
        FetchOk(request_id, False, Location(0, 0)),
        RequestError(request_id, 0),
    )
}


def _read(data: SubscribeData, kind: type[M]) -> M | None:
    draft = _draft_of(data)
    if draft is None or len(data.body) > MAX_BODY_LENGTH:
        return None
    frame = _TYPES[kind, draft] + len(data.body).to_bytes(2, "big") + data.body
    try:
        message, _ = decode(frame, draft)
    except LapsError:
        return None
    return message if isinstance(message, kind) else None
