"""A FETCH inside a request: what travels, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.upstream.bodies import fetch_data, read_fetch
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.control import encode
from laps_wire.moqt.messages import Fetch, RelativeJoiningFetch, StandaloneFetch
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import AuthToken
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeData

TARGET = StandaloneFetch(FullTrackName.parse("room--video"), Location(3, 1), Location(9, 0))


@pytest.mark.parametrize("draft", list(Draft))
def test_a_range_and_how_to_send_it(draft: Draft) -> None:
    parameters = Parameters(
        subscriber_priority=9, group_order=GroupOrder.DESCENDING, fill_timeout=7
    )
    asked = read_fetch(fetch_data(TARGET, parameters, draft))
    assert asked is not None
    assert asked.target == TARGET
    assert asked.parameters == Parameters(subscriber_priority=9, group_order=GroupOrder.DESCENDING)


def test_tokens_stay_here() -> None:
    secret = AuthToken(0, b"a secret")
    data = fetch_data(TARGET, Parameters(authorization_tokens=(secret,)), Draft.D18)  # type: ignore[arg-type]  # any shape of it
    assert b"secret" not in data.body


def test_only_standalone_ones_are_read() -> None:
    body = encode(Fetch(0, RelativeJoiningFetch(2, 1)), Draft.D18)[3:]
    assert read_fetch(SubscribeData(18, body)) is None


@pytest.mark.parametrize(
    "data",
    [
        SubscribeData(),
        SubscribeData(99, b"x"),
        SubscribeData(18, b""),
        SubscribeData(18, b"\xff" * 10),
        SubscribeData(18, bytes(70_000)),
    ],
    ids=["none", "another draft", "empty", "nonsense", "huge"],
)
def test_what_cannot_be_read_is_absent(data: SubscribeData) -> None:
    assert read_fetch(data) is None


@given(st.binary(max_size=60))
def test_any_bytes(body: bytes) -> None:
    read_fetch(SubscribeData(16, body))
    read_fetch(SubscribeData(18, body))
