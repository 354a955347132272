"""The table of messages: complete, one class for each type, a parameter list at every end."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.layout import Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import messages
from laps_wire.peering.laps2.codepoints import Bases, MessageType
from laps_wire.peering.laps2.messages import (
    LAYOUTS,
    TYPES,
    ControlLatch,
    Drain,
    Keepalive,
    Message,
    Probe,
    ProbeResponse,
    Stay,
    SyncBegin,
    SyncEnd,
    SyncRequest,
)
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, PARAMETERS
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.strategies import values_of

BY_NAME = {kind.name: layout for kind, layout in LAYOUTS.items()}
# The tables of other modules have these properties tested beside them, and whole in test_framing.
OWN = {
    name: layout for name, layout in BY_NAME.items() if layout.cls.__module__ == messages.__name__
}


def test_every_type_has_a_table_and_every_table_a_class() -> None:
    assert set(LAYOUTS) == set(MessageType)
    assert len(TYPES) == len(LAYOUTS)
    assert len(OWN) == 9
    assert set(TYPES) == set(get_args(Message))
    for cls, kind in TYPES.items():
        assert LAYOUTS[kind].cls is cls
        assert cls.__name__ in messages.__all__
        assert cls.__name__.upper() == kind.name.replace("_", "")


@pytest.mark.parametrize("layout", BY_NAME.values(), ids=BY_NAME)
def test_every_message_ends_with_parameters_that_may_be_left_out(layout: Layout[Any]) -> None:
    assert layout.table[-1] == ("parameters", PARAMETERS)
    last = fields(layout.cls)[-1]
    assert (last.name, last.default) == ("parameters", NO_PARAMETERS)


@pytest.mark.parametrize("layout", OWN.values(), ids=OWN)
@given(data=st.data())
def test_identity_and_prefixes(layout: Layout[Any], data: st.DataObject) -> None:
    check_codec_values(layout, data.draw(values_of(layout)))


@pytest.mark.parametrize("layout", OWN.values(), ids=OWN)
@given(data=st.binary(min_size=1, max_size=100))
def test_any_bytes(layout: Layout[Any], data: bytes) -> None:
    check_codec_bytes(layout, data)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (ControlLatch(64), "4040 00"),
        (Keepalive(), "00"),
        (Drain(1, "r", ("h",)), "01 0172 01 0168 00"),
        (Stay(), "00"),
        (SyncRequest(Bases.SUBSCRIBES), "04 00"),
        (SyncBegin(Bases.ALL), "0f 00"),
        (SyncEnd(Bases.SNS), "08 00"),
        (Probe(1, NodeId(2), 3, b"pp"), "01 0000000000000002 0000000000000003 027070 00"),
        (
            ProbeResponse(1, NodeId(2), 3, 4),
            "01 0000000000000002 0000000000000003 04 00 00 00",
        ),
        (
            ProbeResponse(1, NodeId(2), 3, 4, 5),
            "01 0000000000000002 0000000000000003 04 01 05 00 00",
        ),
    ],
)
def test_bytes_by_hand(value: Any, data: str) -> None:
    layout = LAYOUTS[TYPES[type(value)]]
    assert write(layout, value) == bytes.fromhex(data)
    assert read(layout, bytes.fromhex(data))[0] == value
