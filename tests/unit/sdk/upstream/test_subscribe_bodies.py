from __future__ import annotations

import pytest

from laps_sdk.upstream import bodies
from laps_sdk.upstream.bodies import (
    body_for,
    bounded,
    bounded_reason,
    name_in,
    read_subscribe,
    without_tokens,
)
from laps_wire.moqt.codepoints import AliasType
from laps_wire.moqt.control import decode_subscribe_body, encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeData
from laps_wire.peering.laps2.information import NO_DATA

NAME = FullTrackName.parse("example-meeting--camera")
SECRET = b"the client's secret"
TOKENS = (
    Token(AliasType.USE_VALUE, token_type=0, value=SECRET),
    Token(AliasType.REGISTER, alias=3, token_type=1, value=SECRET + b" 2"),
    Token(AliasType.USE_ALIAS, alias=3),
)


def message(draft: Draft, parameters: Parameters) -> SubscribeData:
    return SubscribeData(draft, encode_subscribe_body(Subscribe(8, NAME, parameters), draft))


@pytest.mark.parametrize("draft", list(Draft))
def test_tokens_stay_at_the_s_relay(draft: Draft) -> None:
    data = message(draft, Parameters(authorization_tokens=TOKENS, subscriber_priority=9))
    assert SECRET in data.body
    cleaned = without_tokens(NAME, data)
    assert SECRET not in cleaned.body
    assert cleaned.draft == draft
    assert decode_subscribe_body(cleaned.body, draft) == Subscribe(
        8, NAME, Parameters(subscriber_priority=9)
    )


@pytest.mark.parametrize("draft", list(Draft))
def test_what_has_no_token_is_passed_on_untouched(draft: Draft) -> None:
    data = message(draft, Parameters(subscriber_priority=9))
    assert without_tokens(NAME, data) is data
    assert name_in(data) == NAME


@pytest.mark.parametrize(
    "data",
    [
        NO_DATA,
        SubscribeData(17, b"?" + SECRET),
        SubscribeData(18, b"\xff" + SECRET),
        SubscribeData(16, body_for(NAME).body[:-3]),
        body_for(FullTrackName.parse("another-track--name")),
    ],
)
def test_what_cannot_be_read_or_means_another_track_is_made_anew(data: SubscribeData) -> None:
    made = without_tokens(NAME, data)
    assert made == body_for(NAME)
    assert name_in(made) == NAME


@pytest.mark.parametrize("draft", list(Draft))
def test_a_subscribe_is_read_as_its_draft_writes_it(draft: Draft) -> None:
    parameters = Parameters(subscriber_priority=9)
    assert read_subscribe(message(draft, parameters)) == Subscribe(8, NAME, parameters)


@pytest.mark.parametrize(
    "data",
    [
        NO_DATA,
        SubscribeData(18, b"\xff"),
        SubscribeData(18, b""),
        SubscribeData(17, b"anything"),
        SubscribeData(18, bytes(70_000)),
    ],
)
def test_what_cannot_be_read_is_absent_and_has_no_name(data: SubscribeData) -> None:
    assert read_subscribe(data) is None
    assert name_in(data) is None


def test_what_is_too_long_is_not_carried() -> None:
    long = SubscribeData(18, bytes(20_000))
    assert bounded(long) is NO_DATA
    assert bounded(body_for(NAME)) == body_for(NAME)
    assert bounded_reason("no") == "no"
    assert bounded_reason("\u00e9" * 600) == "\u00e9" * 512
    assert bounded_reason("x" + "\u00e9" * 600) == "x" + "\u00e9" * 511
    assert bounded_reason("\ud800") == "?"


def test_a_subscribe_that_is_too_long_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    data = message(Draft.D16, Parameters(subscriber_priority=9))
    monkeypatch.setattr(bodies, "MAX_SUBSCRIBE_DATA_BYTES", len(data.body) - 1)
    assert without_tokens(NAME, data) == body_for(NAME)
