from __future__ import annotations

import pytest

from laps_relay.network.flood import entries
from laps_relay.network.flood.entries import AnnounceEntries, SubscribeEntries, hide_name
from laps_relay.network.settings import NetworkSettings
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NO_PARAMETERS,
    AnnounceInfo,
    AnnounceKind,
    AnnounceWithdrawal,
    Label,
    Parameters,
    Stamp,
    SubscribeInfo,
    SubscribeWithdrawal,
)

NODE = NodeId(7)
STAMP = Stamp(1_000_000, 2)
HOP_BY_HOP = Parameters(((0x41, b"end to end"), (0x42, b"for the neighbour")))


def announce(parameters: Parameters = NO_PARAMETERS) -> AnnounceInfo:
    name = FullTrackName(Namespace.of(b"a", b"b"), b"n")
    return AnnounceInfo(NODE, STAMP, AnnounceKind.TRACK, (1, 2), 3, 4, name, parameters)


def subscribe(parameters: Parameters = NO_PARAMETERS) -> SubscribeInfo:
    # Numbers made at run time: as different objects as a decoder would make.
    node, epoch = NodeId(int("7000000")), int("1000000")
    elements = tuple(map(int, ("10000", "20000")))
    scope = (Label("region", "eu"),)
    return SubscribeInfo(node, Stamp(epoch, 2), elements, 3, 4, scope=scope, parameters=parameters)


def test_an_announce_is_known_by_source_kind_and_hash() -> None:
    kind = AnnounceEntries(NODE)
    entry = announce()
    withdrawal = kind.withdrawal(entry)
    assert withdrawal == AnnounceWithdrawal(NODE, STAMP, AnnounceKind.TRACK, 4)
    for item in (entry, withdrawal):
        assert kind.identity(item) == (NODE, AnnounceKind.TRACK, 4)
        assert kind.split(kind.identity(item)) == (NODE, kind.key(item))
    assert kind.limit(NetworkSettings(max_announces=5)) == 5
    assert kind.local == NODE


def test_a_subscribe_is_known_by_source_and_hash() -> None:
    kind = SubscribeEntries(NODE)
    entry = subscribe()
    withdrawal = kind.withdrawal(entry)
    assert withdrawal == SubscribeWithdrawal(entry.source, entry.stamp, 4)
    for item in (entry, withdrawal):
        assert kind.identity(item) == (entry.source, 4)
        assert kind.split(kind.identity(item)) == (entry.source, kind.key(item))
    assert kind.limit(NetworkSettings(max_subscribes=6)) == 6


def test_parameters_for_the_neighbour_are_not_passed_on() -> None:
    end_to_end = Parameters(((0x41, b"end to end"),))
    assert AnnounceEntries(NODE).carried(announce(HOP_BY_HOP)) == announce(end_to_end)
    assert SubscribeEntries(NODE).carried(subscribe(HOP_BY_HOP)) == subscribe(end_to_end)
    entry = announce(end_to_end)
    assert AnnounceEntries(NODE).carried(entry) is entry


def test_subscribes_share_what_they_have_in_common() -> None:
    kind = SubscribeEntries(NODE)
    first, second = kind.carried(subscribe()), kind.carried(subscribe())
    assert first == second == subscribe()
    assert first.source is second.source
    assert first.stamp.epoch is second.stamp.epoch
    assert first.element_hashes is second.element_hashes
    assert first.scope is second.scope


def test_what_is_shared_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_MOST_SHARED", 3)
    kind = SubscribeEntries(NODE)
    for number in range(10):
        entry = SubscribeInfo(NodeId(number), Stamp(number, 1), (number,), 1, 1)
        assert kind.carried(entry) == entry
        assert len(kind._nodes) <= 3
        assert len(kind._elements) <= 3


def test_a_name_can_be_hidden() -> None:
    entry = announce()
    hidden = hide_name(entry)
    assert hidden.plaintext is None
    assert hidden.identity == entry.identity
    assert hide_name(hidden) is hidden
