"""Seed 003's messages: the tables against the vectors, the lists' limits, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.quicr  # noqa: F401 - registers the strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import Layout
from laps_wire.quicr import messages
from laps_wire.quicr.codepoints import MAX_NAMES, MAX_ORIGIN, Flags
from laps_wire.quicr.messages import NamedPublishIntent, NamedSubscribeReply, Publish, Subscribe
from laps_wire.quicr.shortname import ShortName
from testkit.fields import check_whole_bytes, check_whole_values, read_whole, write
from testkit.quicr import VECTORS
from testkit.strategies import values_of

TABLES: dict[str, Layout[Any]] = {
    name: table for name, table in vars(messages).items() if isinstance(table, Layout)
}
NAME = ShortName(7)


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


def test_a_list_has_at_most_so_many_names() -> None:
    full = Subscribe(1, tuple(ShortName(number) for number in range(MAX_NAMES)))
    assert read_whole(messages.SUBSCRIBE, write(messages.SUBSCRIBE, full)) == full
    with pytest.raises(EncodeError, match="1025 items are over the limit of 1024"):
        write(messages.SUBSCRIBE, Subscribe(1, (NAME,) * (MAX_NAMES + 1)))
    with pytest.raises(MalformedError, match="names: count 1025 is over the limit of 1024"):
        read_whole(messages.SUBSCRIBE, b"\x01\x44\x01")


def test_a_name_does_not_both_succeed_and_fail() -> None:
    other = ShortName(0, 0)
    assert NamedSubscribeReply(1, (NAME,), (other,)).names_fail == (other,)
    with pytest.raises(ValueError, match="a name is in names_success and in names_fail"):
        NamedSubscribeReply(1, (NAME,), (other, NAME))
    one = b"\x01" + bytes(15) + b"\x07\x80"
    with pytest.raises(MalformedError, match="a name is in names_success and in names_fail"):
        read_whole(messages.NAMED_SUBSCRIBE_REPLY, b"\x01" + one + one)


def test_an_origin_is_a_host_name() -> None:
    with pytest.raises(EncodeError, match="256 bytes are over the limit of 255"):
        write(messages.NAMED_PUBLISH_INTENT, NamedPublishIntent(1, (), "o" * (MAX_ORIGIN + 1)))


@pytest.mark.parametrize("fragment_id", [b"\x00", b"\x01", b"\x80\x01\x00\x00"])
def test_a_fragment_id_has_a_number_from_one_and_sixteen_bits(fragment_id: bytes) -> None:
    with pytest.raises(MalformedError, match=r"fragment_id: \d+ is outside 2..65535"):
        read_whole(messages.PUBLISH, bytes(17) + fragment_id + b"\x00\x00")


def test_a_publish_names_one_object() -> None:
    with pytest.raises(EncodeError, match=r"f.name: a full name belongs here, not 84 bits"):
        write(messages.PUBLISH, Publish(NAME.prefix(84), Flags(0), 3, 0, 0, b""))


def test_a_publish_knows_its_fragment() -> None:
    message = Publish(NAME, Flags(0), 0xFFFF, 0, 0, b"")
    assert (message.fragment_number, message.is_last_fragment) == (32767, True)
    message = Publish(NAME, Flags(0), 2, 0, 0, b"")
    assert (message.fragment_number, message.is_last_fragment) == (1, False)
