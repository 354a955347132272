"""Codes of the network and of MoQT."""

from __future__ import annotations

import pytest

from laps_sdk.upstream.bodies import error_data
from laps_sdk.upstream.codes import done_status, ended_code, request_error, subscribe_code
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, PublishDoneCodeD18, RequestErrorCode
from laps_wire.moqt.messages import RequestError
from laps_wire.moqt.versions import Draft
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (SubscribeCode.NO_PUBLISHER, RequestErrorCode.DOES_NOT_EXIST),
        (SubscribeCode.ENDED, RequestErrorCode.DOES_NOT_EXIST),
        (SubscribeCode.POLICY, RequestErrorCode.UNAUTHORIZED),
        (SubscribeCode.UNAUTHORIZED, RequestErrorCode.UNAUTHORIZED),
        (SubscribeCode.LIMIT, RequestErrorCode.EXCESSIVE_LOAD),
        (SubscribeCode.UNREACHABLE, RequestErrorCode.TIMEOUT),
        (SubscribeCode.HASH_COLLISION, RequestErrorCode.INTERNAL_ERROR),
        (SubscribeCode.PUBLISHER_REFUSED, RequestErrorCode.INTERNAL_ERROR),
        (SubscribeCode.ACCEPTED, RequestErrorCode.INTERNAL_ERROR),
        (4711, RequestErrorCode.INTERNAL_ERROR),
    ],
)
def test_a_refusal_for_a_client(code: int, error: RequestErrorCode) -> None:
    assert request_error(code, SubscribeData()) is error


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (RequestErrorCode.INVALID_RANGE, RequestErrorCode.INVALID_RANGE),
        # About a request between two relays: nothing for the client behind them.
        (RequestErrorCode.GOING_AWAY, RequestErrorCode.INTERNAL_ERROR),
    ],
)
def test_a_publishers_own_code_is_kept(said: RequestErrorCode, error: RequestErrorCode) -> None:
    data = error_data(RequestError(None, said, 0, "why"))
    assert request_error(SubscribeCode.PUBLISHER_REFUSED, data) is error
    assert request_error(SubscribeCode.POLICY, data) is RequestErrorCode.UNAUTHORIZED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestErrorCode.DOES_NOT_EXIST, SubscribeCode.NO_PUBLISHER),
        (RequestErrorCode.TIMEOUT, SubscribeCode.NO_PUBLISHER),
        (RequestErrorCode.EXPIRED_AUTH_TOKEN, SubscribeCode.UNAUTHORIZED),
        (RequestErrorCode.EXCESSIVE_LOAD, SubscribeCode.LIMIT),
        (RequestErrorCode.MALFORMED_TRACK, SubscribeCode.PUBLISHER_REFUSED),
        (0x4711, SubscribeCode.PUBLISHER_REFUSED),
    ],
)
def test_a_refusal_for_the_network(error: int, code: SubscribeCode) -> None:
    assert subscribe_code(error) is code


def test_how_a_track_ends() -> None:
    assert done_status(SubscribeCode.POLICY) is PublishDoneCodeD18.UNAUTHORIZED
    assert done_status(SubscribeCode.UNAUTHORIZED) is PublishDoneCodeD18.UNAUTHORIZED
    assert done_status(SubscribeCode.ENDED) is PublishDoneCodeD18.TRACK_ENDED
    assert done_status(SubscribeCode.MALFORMED) is PublishDoneCodeD18.MALFORMED_TRACK
    for code in (SubscribeCode.LOST, SubscribeCode.UNREACHABLE, SubscribeCode.NO_PUBLISHER):
        assert done_status(code) is PublishDoneCodeD18.INTERNAL_ERROR


@pytest.mark.parametrize("draft", [Draft.D16, Draft.D18])
def test_the_end_of_a_track_for_the_network(draft: Draft) -> None:
    codes = PUBLISH_DONE_CODES[draft]
    for status in codes:
        expected = {
            "UNAUTHORIZED": SubscribeCode.UNAUTHORIZED,
            "TRACK_ENDED": SubscribeCode.ENDED,
            "SUBSCRIPTION_ENDED": SubscribeCode.ENDED,
            "MALFORMED_TRACK": SubscribeCode.MALFORMED,
        }.get(status.name, SubscribeCode.LOST)
        assert ended_code(draft, status) is expected
    assert ended_code(draft, 0x4711) is SubscribeCode.LOST
