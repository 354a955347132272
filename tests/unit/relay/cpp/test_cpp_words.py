"""What we say to a C++ relay, against what live ones said."""

from __future__ import annotations

from typing import Any

import pytest

from laps_relay.cpp.cpp_words import (
    CITY,
    announce_info,
    announced_name,
    subscribe_info,
    subscribed_track,
)
from laps_wire.hashing import track_hashes
from laps_wire.moqt.control import encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.laps2 import AnnounceKind, SubscribeData
from testkit.laps_cpp import live

ROOM = Namespace.of(b"demo/room1")
EVENTS = FullTrackName(ROOM, b"events")
CLK = FullTrackName(ROOM, b"clk")
NODE = NodeId(0x1122334455667788)


def asked(draft: Draft, **parameters: Any) -> SubscribeData:
    body = encode_subscribe_body(Subscribe(3, EVENTS, Parameters(**parameters)), draft)
    return SubscribeData(draft.value, body)


def test_a_tracks_key_is_what_a_cpp_relay_makes_it() -> None:
    assert CITY.key_of(EVENTS) == 0x070750223DAB53B6
    assert CITY.full_name([b"demo/room1"], b"clk") == 0x06563237CFE9CBB0


def test_announces_as_live_relays_say_them() -> None:
    track = announce_info(NODE, AnnounceKind.TRACK, CLK)
    wire = cpp.encode(cpp.AnnounceInfoAdvertised(track), cpp.DRAFT16)
    assert wire[7 + 8 :] == live("announce_track")
    space = FullTrackName(Namespace.of(b"demo/room2"), b"")
    info = announce_info(NODE, AnnounceKind.NAMESPACE, space)
    wire = cpp.encode(cpp.AnnounceInfoAdvertised(info), cpp.DRAFT16)
    assert wire[7 + 16 :] == live("announce_namespace")
    assert announced_name(track) == (AnnounceKind.TRACK, CLK)
    assert announced_name(info) == (AnnounceKind.NAMESPACE, space)


def test_announces_that_are_none() -> None:
    assert announced_name(cpp.AnnounceInfo(NODE, 5, ROOM, b"clk", 0)) is None
    assert announced_name(cpp.AnnounceInfo(NODE, 5, ROOM, b"clk", cpp.FLAG_NAMESPACE)) is None


def test_subscribes_as_live_relays_say_them() -> None:
    info = subscribe_info(1, NODE, EVENTS, SubscribeData())
    assert info.subscribe_data == live("subscribe_data_draft16")
    hashes = track_hashes([b"demo/room1"], b"events")
    assert info == cpp.SubscribeInfo(
        1, NODE, hashes.namespace, hashes.name, 0x070750223DAB53B6, info.subscribe_data
    )
    assert subscribed_track(info) == EVENTS


@pytest.mark.parametrize("draft", Draft)
def test_what_clients_asked_for_is_passed_on(draft: Draft) -> None:
    info = subscribe_info(1, NODE, EVENTS, asked(draft, subscriber_priority=3))
    assert info.subscribe_data == live("subscribe_data_draft16").replace(b"\x40\x80", b"\x03")
    info = subscribe_info(1, NODE, EVENTS, asked(draft, new_group_request=9))
    assert info.subscribe_data.endswith(bytes.fromhex("03 20 4080 02 01 10 09"))


def test_subscribes_that_are_none() -> None:
    body = live("subscribe_data_draft16")
    assert subscribed_track(cpp.SubscribeInfo(1, NODE, 0, 0, 5, body)) is None
    assert subscribed_track(cpp.SubscribeInfo(1, NODE, 0, 0, 5, body[:9])) is None
