"""Messages about fetches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.layout import Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.fetching import (
    FETCH_CANCEL,
    FETCH_REQUEST,
    FETCH_RESPONSE,
    FetchCancel,
    FetchRequest,
    FetchResponse,
)
from laps_wire.peering.laps2.fields import Label
from laps_wire.peering.laps2.information import SubscribeData
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

A, B = NodeId(1), NodeId(2)
REQUEST = FetchRequest(A, B, 7, 0, (3,), 4, 5, (Label("region", "eu"),), SubscribeData(18, b"\0"))
RESPONSE = FetchResponse(A, 7, B, 16, 0, data=SubscribeData(18, b"\1"))
CANCEL = FetchCancel(A, B, 0xFFFFFFFF, 1)
BY_HAND: dict[str, tuple[Layout[Any], Any, str]] = {
    "request": (
        FETCH_REQUEST,
        REQUEST,
        (
            "0000000000000001 0000000000000002 00000007 00 01 0000000000000003 0000000000000004 "
            "0000000000000005 01 06 726567696f6e 02 6575 12 01 00 00"
        ),
    ),
    "response": (
        FETCH_RESPONSE,
        RESPONSE,
        "0000000000000001 00000007 0000000000000002 10 00 00 00 12 01 01 00",
    ),
    "cancel": (FETCH_CANCEL, CANCEL, "0000000000000001 0000000000000002 ffffffff 01 00"),
}
TABLES = {"request": FETCH_REQUEST, "response": FETCH_RESPONSE, "cancel": FETCH_CANCEL}


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.data())
def test_identity_and_prefixes(layout: Layout[Any], data: st.DataObject) -> None:
    check_codec_values(layout, data.draw(values_of(layout)))


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.binary(min_size=1, max_size=120))
def test_any_bytes(layout: Layout[Any], data: bytes) -> None:
    check_codec_bytes(layout, data)


@pytest.mark.parametrize(("layout", "message", "text"), BY_HAND.values(), ids=BY_HAND)
def test_by_hand(layout: Layout[Any], message: Any, text: str) -> None:
    assert write(layout, message) == bytes.fromhex(text)
    assert read(layout, bytes.fromhex(text)) == (message, len(bytes.fromhex(text)))


@pytest.mark.parametrize("wrong", [{"fetch_id": 0}, {"hops": 17}])
def test_what_no_fetch_has(wrong: dict[str, int]) -> None:
    cases: list[tuple[Layout[Any], Any]] = [(FETCH_REQUEST, REQUEST), (FETCH_CANCEL, CANCEL)]
    for layout, message in cases:
        with pytest.raises(EncodeError, match="is outside"):
            write(layout, replace(message, **wrong))
    (value,) = wrong.values()
    number = f"{value:08x}" if "fetch_id" in wrong else "00000007"
    hops = f"{value:02x}" if "hops" in wrong else "00"
    with pytest.raises(MalformedError, match="is outside"):
        read(FETCH_CANCEL, bytes.fromhex(f"{1:016x}{2:016x}{number}{hops}00"))
