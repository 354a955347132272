"""Datagrams: read once, written once for each draft and alias."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.datagrams import Datagrams
from laps_sdk.forwarding.interfaces import Subscription, SubscriptionCounters
from laps_wire.moqt.data import (
    ObjectDatagram,
    ObjectStatus,
    PaddingDatagram,
    decode_datagram,
    encode_datagram,
    encode_extensions,
)
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.plane import D16, D18, NAME, Net, subgroup

PAIRS = [(source, target) for source in (D16, D18) for target in (D16, D18)]
drafts = pytest.mark.parametrize(("source", "target"), PAIRS)


@drafts
@pytest.mark.parametrize(
    "datagram",
    [
        ObjectDatagram(7, 1, 0, b"payload"),
        ObjectDatagram(7, 1, 900, b"payload", 3, end_of_group=True),
        ObjectDatagram(7, 1 << 40, 5, b"", None),
        ObjectDatagram(7, 1, 5, b"", 9, ObjectStatus.END_OF_GROUP),
        ObjectDatagram(7, 1, 5, b"", None, ObjectStatus.END_OF_TRACK),
    ],
)
def test_a_datagram_arrives_as_it_was_sent(
    source: Draft, target: Draft, datagram: ObjectDatagram
) -> None:
    net = Net()
    publisher = net.publisher(source)
    receivers = [net.receiver(target, alias=alias) for alias in (3, 3, 20000)]
    net.datagram(publisher, datagram)
    for receiver, alias in zip(receivers, (3, 3, 20000), strict=True):
        expected = datagram._replace(track_alias=alias)
        assert net.egress[receiver].object_datagrams() == [expected]
    first, second = (net.egress[each].datagrams[0] for each in receivers[:2])
    assert first is second


@drafts
def test_extensions_are_carried_through(source: Draft, target: Draft) -> None:
    net = Net()
    publisher, receiver = net.publisher(source), net.receiver(target)
    pairs = [KeyValue(0x3000, 100), KeyValue(0x777, b"unknown")]
    block = encode_extensions(pairs, source)
    net.datagram(publisher, ObjectDatagram(7, 1, 0, b"payload", extensions=block))
    (got,) = net.egress[receiver].object_datagrams()
    assert got.extensions == encode_extensions(pairs, target)


def test_filters_duplicates_and_figures() -> None:
    net = Net()
    publisher = net.publisher()
    everyone, some, nobody = (
        net.receiver(),
        net.receiver(start=(0, 2)),
        net.receiver(forward=False),
    )
    for _ in range(2):
        for index in range(4):
            net.datagram(publisher, ObjectDatagram(7, 0, index, b"12345"))
    assert len(net.egress[everyone].datagrams) == 4
    assert len(net.egress[some].datagrams) == 2
    assert net.egress[nobody].datagrams == []
    counted = net.plane.track_counters(1)
    assert (counted.datagrams_in, counted.datagrams_out, counted.duplicates) == (8, 6, 4)
    assert (counted.objects_in, counted.bytes_in) == (4, 20)
    assert (counted.objects_out, counted.bytes_out) == (6, 30)
    got = net.plane.subscription_counters(Subscription(some, 0))
    assert got == SubscriptionCounters(2, 10, 0, 2, 0, 0, 0)


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    net = Net()
    publisher = net.publisher()
    short, deaf, large = net.receiver(), net.receiver(), net.receiver()
    net.egress[short].max_datagram_size = 50
    net.egress[deaf].takes_datagrams = False
    net.datagram(publisher, ObjectDatagram(7, 0, 0, b"x" * 100))
    assert [len(net.egress[each].datagrams) for each in (short, deaf, large)] == [0, 0, 1]
    for each in (short, deaf):
        got = net.plane.subscription_counters(Subscription(each, 0))
        assert got is not None
        assert got.dropped_datagrams == 1
    counted = net.plane.track_counters(1)
    assert (counted.dropped_objects, counted.dropped_bytes) == (2, 200)


def test_the_delivery_timeout_is_the_deadline() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(delivery_timeout=0.5)
    net.datagram(publisher, ObjectDatagram(7, 0, 0, b"x"))
    assert net.egress[receiver].deadlines == [100.5]


def test_ids_that_the_other_draft_has_no_integers_for() -> None:
    net = Net()
    publisher, old, new = net.publisher(D18), net.receiver(D16), net.receiver(D18)
    net.datagram(publisher, ObjectDatagram(7, 1 << 63, 0, b"x"))
    assert net.egress[old].datagrams == []
    assert len(net.egress[new].datagrams) == 1
    datagrams = Datagrams(ObjectDatagram(7, 1 << 63, 0, b"x"), D18)
    assert datagrams.encoded(D16, 3) is None
    assert datagrams.encoded(D16, 4) is None


def test_padding_is_thrown_away() -> None:
    net = Net()
    publisher = net.publisher(D18)
    net.plane.datagram(net.now, publisher, encode_datagram(PaddingDatagram(10), D18))
    assert net.plane.poll_notices() == []


@pytest.mark.parametrize("target", [D16, D18])
def test_late_receivers_get_cached_datagrams(target: Draft) -> None:
    net = Net()
    publisher = net.publisher()
    sent = [
        ObjectDatagram(7, 0, 1, b"one"),
        ObjectDatagram(7, 0, 2, b"two"),
        ObjectDatagram(7, 0, 0, b"zero"),
        ObjectDatagram(7, 0, 5, b"five", 9),
        ObjectDatagram(7, 0, 7, b"", None, ObjectStatus.END_OF_GROUP),
    ]
    for datagram in sent:
        net.datagram(publisher, datagram)
    net.now += 20
    net.datagram(publisher, ObjectDatagram(7, 0, 6, b"six"))
    net.plane.purge(99)
    late = net.receiver(target, start=(0, 1))
    got = {each.object_id: each for each in net.egress[late].object_datagrams()}
    assert sorted(got) == [1, 2, 5, 6, 7]
    assert got[5].payload == b"five"
    assert got[5].priority == 9
    assert got[1].priority == 128
    assert got[7].status is ObjectStatus.END_OF_GROUP
    assert net.plane.track_counters(1).cached_objects == 6


def test_datagrams_of_a_track_that_a_session_broke_are_not_taken() -> None:
    net = Net()
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, [b"x"], end_of_group=True))
    for _ in range(2):
        net.datagram(publisher, ObjectDatagram(7, 0, 5, b"no"))
    assert len(net.plane.poll_notices()) == 1
    assert net.plane.track_counters(1).datagrams_in == 1
    assert isinstance(decode_datagram(b"\x0c\x07\x00x", D16), ObjectDatagram)


def test_what_a_way_to_a_peer_carried_is_counted() -> None:
    net = Net()
    net.plane.count_traffic()
    publisher = net.publisher()
    net.plane.remove_track(net.now, 1)  # counting begins with a track
    net.plane.add_track(1, NAME)
    net.plane.add_ingress(net.now, publisher, 7, 1, 128)
    peer = net.receiver(peering=True)
    for index in range(3):
        net.datagram(publisher, ObjectDatagram(7, 0, index, b"12345"))
    (traffic,) = net.plane.take_traffic()
    assert [(link.session, link.bytes_out) for link in traffic.links] == [(peer, 15)]


def test_a_datagram_waits_for_its_track() -> None:
    net = Net()
    publisher = net.publisher()
    net.datagram(publisher, ObjectDatagram(9, 0, 0, b"early"))
    net.plane.add_track(2, FullTrackName(Namespace((b"tests",)), b"late"))
    net.plane.add_ingress(net.now, publisher, 9, 2, 128)
    assert net.plane.track_counters(2).objects_in == 1


@pytest.mark.parametrize("draft", [D16, D18])
def test_a_datagram_for_the_relay_itself(draft: Draft) -> None:
    taken: list[bytes] = []

    class Desk:
        def take(self, now: float, session: int, payload: bytes) -> None:
            taken.append(payload)

        def refuse(self, session: int, kind: str, reason: str) -> None:
            raise AssertionError(kind)

    net = Net()
    player = net.session(draft)
    net.plane.add_intake(net.now, player, 7, Desk(), 64)
    net.plane.datagram(net.now, player, encode_datagram(ObjectDatagram(7, 0, 0, b"x"), draft))
    net.plane.remove_intake(player, 7)
    net.plane.datagram(net.now, player, encode_datagram(ObjectDatagram(7, 1, 0, b"y"), draft))
    assert taken == [b"x"]
