"""Seed 001's messages: the tables against the vectors, the number 2, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.quicr  # noqa: F401 - registers the strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import Layout
from laps_wire.quicr import messages
from laps_wire.quicr.codepoints import MAX_RELAY_ADDRESS, Response
from laps_wire.quicr.messages import SUBSCRIBE_REPLY, Fragment, RelayRedirect, SubscribeReply
from testkit.fields import check_whole_bytes, check_whole_values, read_whole, write
from testkit.quicr import VECTORS
from testkit.strategies import values_of

TABLES: dict[str, Layout[Any]] = {
    name: table for name, table in vars(messages).items() if isinstance(table, Layout)
}


def test_every_message_of_the_seed_has_a_table_and_a_vector() -> None:
    assert len(TABLES) == 19
    assert set(TABLES) <= {vector["type"] for vector in VECTORS["control"]}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@given(data=st.data())
def test_identity(table: Layout[Any], data: st.DataObject) -> None:
    check_whole_values(table, data.draw(values_of(table)))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes(table: Layout[Any], data: bytes) -> None:
    check_whole_bytes(table, data)


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b"\x00", SubscribeReply(Response.OK)),
        (b"\x00\x01a", SubscribeReply(Response.OK, "a")),
        (b"\x01", SubscribeReply(Response.EXPIRED)),
        (b"\x02\x01a", SubscribeReply(Response.FAIL, "a")),
        (b"\x02\x01\xff", SubscribeReply(Response.FAIL, "?")),
        (b"\x02", SubscribeReply(Response.REDIRECT)),
        (b"\x02\x00", SubscribeReply(Response.REDIRECT)),
        (b"\x03", SubscribeReply(Response.REDIRECT)),
        (b"\x03\x01a", SubscribeReply(Response.REDIRECT, "a")),
    ],
)
def test_a_two_is_a_fail_with_words_and_a_redirect_without(
    data: bytes, reply: SubscribeReply
) -> None:
    assert read_whole(SUBSCRIBE_REPLY, data) == reply


def test_fail_is_written_as_two_and_redirect_as_three() -> None:
    assert write(SUBSCRIBE_REPLY, SubscribeReply(Response.FAIL, "a")) == b"\x02\x01a"
    assert write(SUBSCRIBE_REPLY, SubscribeReply(Response.REDIRECT)) == b"\x03"


def test_a_fail_of_ours_has_words() -> None:
    with pytest.raises(ValueError, match="a fail needs a reason phrase"):
        SubscribeReply(Response.FAIL)


def test_an_unknown_response_is_refused() -> None:
    with pytest.raises(MalformedError, match="response: 4 is not one of: 0 OK, 1 EXPIRED, 2 FAIL"):
        read_whole(SUBSCRIBE_REPLY, b"\x04")


def test_an_unknown_intent_is_refused() -> None:
    with pytest.raises(MalformedError, match="intent: 3 is not one of"):
        read_whole(messages.SUBSCRIBE_STREAM, b"\x00\x00\x03")


def test_a_redirect_goes_somewhere() -> None:
    with pytest.raises(ValueError, match="a redirect needs an address"):
        RelayRedirect("")
    with pytest.raises(MalformedError, match="a redirect needs an address"):
        read_whole(messages.RELAY_REDIRECT, b"\x00")
    with pytest.raises(MalformedError, match="not UTF-8"):
        read_whole(messages.RELAY_REDIRECT, b"\x01\xff")
    with pytest.raises(EncodeError, match="over the limit"):
        write(messages.RELAY_REDIRECT, RelayRedirect("r" * (MAX_RELAY_ADDRESS + 1)))


def test_a_fragment_knows_its_place() -> None:
    fragment = Fragment(0, 0, 2469, b"")
    assert (fragment.offset, fragment.is_last_fragment) == (1234, True)
    fragment = Fragment(0, 0, 2468, b"")
    assert (fragment.offset, fragment.is_last_fragment) == (1234, False)
