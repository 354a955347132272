"""Conversion of the network's response codes to codes of MoQT, and back."""

from __future__ import annotations

from typing import Final

from laps_sdk.edge.codes import done_name, upstream_code
from laps_sdk.upstream.bodies import read_error
from laps_wire.moqt.codepoints import PublishDoneCodeD18, RequestErrorCode
from laps_wire.moqt.versions import Draft
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData

__all__ = ["done_status", "ended_code", "request_error", "subscribe_code"]

_ERRORS: Final = {
    SubscribeCode.POLICY: RequestErrorCode.UNAUTHORIZED,
    SubscribeCode.UNAUTHORIZED: RequestErrorCode.UNAUTHORIZED,
    SubscribeCode.NO_PUBLISHER: RequestErrorCode.DOES_NOT_EXIST,
    SubscribeCode.PUBLISHER_REFUSED: RequestErrorCode.INTERNAL_ERROR,
    SubscribeCode.HASH_COLLISION: RequestErrorCode.INTERNAL_ERROR,
    SubscribeCode.LIMIT: RequestErrorCode.EXCESSIVE_LOAD,
    SubscribeCode.UNREACHABLE: RequestErrorCode.TIMEOUT,
    SubscribeCode.ENDED: RequestErrorCode.DOES_NOT_EXIST,
    SubscribeCode.LOST: RequestErrorCode.DOES_NOT_EXIST,
    SubscribeCode.MALFORMED: RequestErrorCode.MALFORMED_TRACK,
}
_ENDS: Final = {
    "UNAUTHORIZED": SubscribeCode.UNAUTHORIZED,
    "TRACK_ENDED": SubscribeCode.ENDED,
    "SUBSCRIPTION_ENDED": SubscribeCode.ENDED,
    "MALFORMED_TRACK": SubscribeCode.MALFORMED,
}
"""Each status of PUBLISH_DONE that ends a track; after others its publisher may come back."""
_CODES: Final = {
    RequestErrorCode.UNAUTHORIZED: SubscribeCode.UNAUTHORIZED,
    RequestErrorCode.MALFORMED_AUTH_TOKEN: SubscribeCode.UNAUTHORIZED,
    RequestErrorCode.EXPIRED_AUTH_TOKEN: SubscribeCode.UNAUTHORIZED,
    RequestErrorCode.DOES_NOT_EXIST: SubscribeCode.NO_PUBLISHER,
    RequestErrorCode.TIMEOUT: SubscribeCode.NO_PUBLISHER,
    RequestErrorCode.EXCESSIVE_LOAD: SubscribeCode.LIMIT,
}


def request_error(code: int, data: SubscribeData) -> RequestErrorCode:
    """Return the REQUEST_ERROR code for a refusal of the network; keep a publisher's own code."""
    if code == SubscribeCode.PUBLISHER_REFUSED:
        error = read_error(data)
        if error is not None:
            return upstream_code(error)
    try:
        return _ERRORS.get(SubscribeCode(code), RequestErrorCode.INTERNAL_ERROR)
    except ValueError:
        return RequestErrorCode.INTERNAL_ERROR


def subscribe_code(error_code: int) -> SubscribeCode:
    """Return the network's code for a REQUEST_ERROR of the Edge."""
    try:
        return _CODES.get(RequestErrorCode(error_code), SubscribeCode.PUBLISHER_REFUSED)
    except ValueError:
        return SubscribeCode.PUBLISHER_REFUSED


def ended_code(draft: Draft, status: int) -> SubscribeCode:
    """Return the network's code for a PUBLISH_DONE of the Edge."""
    return _ENDS.get(done_name(draft, status), SubscribeCode.LOST)


def done_status(code: int) -> PublishDoneCodeD18:
    """Return the status of PUBLISH_DONE for a track that the network no longer serves."""
    if code in (SubscribeCode.POLICY, SubscribeCode.UNAUTHORIZED):
        return PublishDoneCodeD18.UNAUTHORIZED
    if code == SubscribeCode.ENDED:
        return PublishDoneCodeD18.TRACK_ENDED
    if code == SubscribeCode.MALFORMED:
        return PublishDoneCodeD18.MALFORMED_TRACK
    return PublishDoneCodeD18.INTERNAL_ERROR
