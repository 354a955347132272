"""Messages about subscriber node sets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.layout import Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.forwarding import (
    SNS_ADVERTISE,
    SNS_REFUSED,
    SNS_UPDATE,
    SNS_WITHDRAW,
    SnsAdvertise,
    SnsRefused,
    SnsUpdate,
    SnsWithdraw,
    scope_parameters,
)
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, Parameters
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

A, B, C = NodeId(1), NodeId(2), NodeId(3)
BY_HAND: dict[str, tuple[Layout[Any], Any, str]] = {
    "advertise": (
        SNS_ADVERTISE,
        SnsAdvertise(0xFFFFFFFF, 64, 16, (A, B)),
        "ffffffff 4040 10 02 0000000000000001 0000000000000002 00",
    ),
    "advertise with a class": (
        SNS_ADVERTISE,
        SnsAdvertise(1, 1, 0, (A,), scope_parameters("gold")),
        "00000001 01 00 01 0000000000000001 01 07 04 676f6c64",
    ),
    "advertise nothing": (SNS_ADVERTISE, SnsAdvertise(1, 1, 0, ()), "00000001 01 00 00 00"),
    "update": (
        SNS_UPDATE,
        SnsUpdate(7, 2, add=(C,), remove=(A, B)),
        "00000007 02 01 0000000000000003 02 0000000000000001 0000000000000002 00",
    ),
    "withdraw": (SNS_WITHDRAW, SnsWithdraw((1, 2)), "02 00000001 00000002 00"),
    "refused": (SNS_REFUSED, SnsRefused(7, 2, 1, (C,)), "00000007 02 01 01 0000000000000003 00"),
}
TABLES = {"a": SNS_ADVERTISE, "u": SNS_UPDATE, "w": SNS_WITHDRAW, "r": SNS_REFUSED}


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.data())
def test_identity_and_prefixes(layout: Layout[Any], data: st.DataObject) -> None:
    check_codec_values(layout, data.draw(values_of(layout)))


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.binary(min_size=1, max_size=120))
def test_any_bytes(layout: Layout[Any], data: bytes) -> None:
    check_codec_bytes(layout, data)


@pytest.mark.parametrize(("layout", "value", "data"), BY_HAND.values(), ids=BY_HAND)
def test_bytes_by_hand(layout: Layout[Any], value: Any, data: str) -> None:
    assert write(layout, value) == bytes.fromhex(data)
    assert read(layout, bytes.fromhex(data))[0] == value


@pytest.mark.parametrize("layout", [SNS_ADVERTISE, SNS_UPDATE, SNS_REFUSED])
def test_no_set_has_the_id_zero(layout: Layout[Any]) -> None:
    with pytest.raises(MalformedError, match=r"0 is outside 1..4294967295"):
        read(layout, bytes(20))


def test_zero_is_not_withdrawn_either() -> None:
    with pytest.raises(MalformedError, match=r"0 is outside 1..4294967295"):
        read(SNS_WITHDRAW, bytes.fromhex("01 00000000 00"))
    with pytest.raises(EncodeError, match="0 is outside"):
        write(SNS_WITHDRAW, SnsWithdraw((0,)))


def test_a_chain_of_sets_is_at_most_16_deep() -> None:
    with pytest.raises(EncodeError, match=r"17 is outside 0..16"):
        write(SNS_ADVERTISE, SnsAdvertise(1, 1, 17, ()))


def test_a_target_is_added_or_removed() -> None:
    with pytest.raises(EncodeError, match="both added and removed"):
        SnsUpdate(1, 2, add=(A, B), remove=(B,))
    assert SnsUpdate(1, 2, add=(A,), remove=(B,)).remove == (B,)


@pytest.mark.parametrize("scope", ["", "gold", "\u00e4" * 32, "g" * 64])
def test_a_class_of_service_is_a_parameter(scope: str) -> None:
    made = SnsAdvertise(1, 1, 0, (A,), scope_parameters(scope))
    assert read(SNS_ADVERTISE, write(SNS_ADVERTISE, made))[0].scope == scope
    assert (made.parameters == NO_PARAMETERS) is (not scope)


@pytest.mark.parametrize("value", [b"", b"g" * 65, b"\xff", "\u00e4".encode()[:1]])
def test_a_class_that_is_none_is_ignored(value: bytes) -> None:
    message = SnsAdvertise(1, 1, 0, (A,), Parameters(((7, value),)))
    assert read(SNS_ADVERTISE, write(SNS_ADVERTISE, message))[0].scope == ""


def test_a_class_that_is_too_long_is_not_written() -> None:
    with pytest.raises(EncodeError, match="65 bytes are over the limit of 64"):
        scope_parameters("g" * 65)
