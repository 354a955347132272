"""Messages inside subscribe data."""

from __future__ import annotations

import pytest

from laps_sdk.upstream.bodies import (
    error_data,
    fetch_ok_data,
    ok_data,
    read_error,
    read_fetch_ok,
    read_ok,
    read_subscribe,
    subscribe_data,
)
from laps_wire.moqt.codepoints import PropertyTypeD18, RequestErrorCode
from laps_wire.moqt.control import encode
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import FetchOk, RequestError, Subscribe, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, Redirect, Token
from laps_wire.moqt.versions import Draft
from laps_wire.peering.laps2 import SubscribeData
from testkit.edge_net import TRACK
from testkit.plane import D16

BROKEN = [
    SubscribeData(),
    SubscribeData(18, b"\xff"),
    SubscribeData(18, b""),
    SubscribeData(17, b"anything"),
    SubscribeData(18, bytes(70_000)),
]


def test_a_subscribe_goes_without_its_tokens() -> None:
    token = Token.use_value(0, b"secret")
    parameters = Parameters(new_group_request=4, authorization_tokens=(token,))
    data = subscribe_data(TRACK, parameters)
    assert data.draft == 18
    assert b"secret" not in data.body
    assert read_subscribe(data) == Subscribe(0, TRACK, Parameters(new_group_request=4))


def test_a_publishers_answer_goes_along() -> None:
    properties = (KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, 3),)
    ok = SubscribeOk(None, 7, Parameters(largest_object=Location(4, 2)), properties)
    assert read_ok(ok_data(ok)) == (Location(4, 2), properties)


def test_an_answer_of_draft_16_is_translated() -> None:
    inner = encode(SubscribeOk(0, 7, Parameters(largest_object=Location(1, 1))), D16)[3:]
    assert read_ok(SubscribeData(16, inner)) == (Location(1, 1), ())


def test_a_refusal_goes_along_without_a_redirect() -> None:
    redirect = Redirect("moqt://elsewhere", TRACK)
    error = RequestError(None, RequestErrorCode.REDIRECT, 5, "over there", redirect)
    plain = RequestError(None, RequestErrorCode.NOT_SUPPORTED, 5, "no")
    assert read_error(error_data(plain)) == plain
    told = read_error(error_data(error))
    assert told is not None
    assert (told.error_code, told.reason) == (RequestErrorCode.INTERNAL_ERROR, "over there")


@pytest.mark.parametrize("data", BROKEN)
def test_what_cannot_be_read_is_absent(data: SubscribeData) -> None:
    assert read_ok(data) == (None, ())
    assert read_error(data) is None


@pytest.mark.parametrize("draft", list(Draft))
def test_an_answer_to_a_fetch_goes_along(draft: Draft) -> None:
    request_id = 0 if draft is Draft.D16 else None
    ok = FetchOk(request_id, True, Location(4, 2))
    assert read_fetch_ok(fetch_ok_data(ok, draft)) == (Location(4, 2), True, ())
    assert read_fetch_ok(SubscribeData()) is None
    assert read_fetch_ok(SubscribeData(18, b"\xff")) is None
