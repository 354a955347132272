"""Streams at their beginning, and what waits for its alias."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.interfaces import PlaneLimits, SessionFault
from laps_wire.moqt.data import ObjectDatagram, SubgroupHeader, encode_subgroup_header
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, Net, bodies, subgroup

DRAFTS = pytest.mark.parametrize("draft", [D16, D18])


def waiting_bytes(net: Net, session: int) -> int:
    return net.plane._pending[session].size


@DRAFTS
@pytest.mark.parametrize("subgroup_id", [0, 300, None])
def test_a_header_may_come_byte_by_byte(draft: Draft, subgroup_id: int | None) -> None:
    net = Net()
    publisher, receiver = net.publisher(draft), net.receiver(draft)
    data = subgroup(draft, {300: b"x", 301: b"y"}, subgroup_id=subgroup_id, group=70000)
    net.send(publisher, data, range(len(data)))
    (got,) = net.egress[receiver].subgroups()
    assert got.ids == [300, 301]
    assert got.header.subgroup_id == subgroup_id


@DRAFTS
@pytest.mark.parametrize("length", [1, 2])
def test_a_fin_inside_the_header(draft: Draft, length: int) -> None:
    net = Net()
    publisher = net.publisher(draft)
    net.send(publisher, subgroup(draft, bodies(1))[:length])
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)


def test_a_header_without_objects() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    start = encode_subgroup_header(SubgroupHeader(7, 0, None), D16)
    net.send(publisher, start)
    assert net.plane.poll_notices() == []
    net.send(publisher, start + b"\x40")
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)
    stream = net.open(publisher, start)
    net.reset(publisher, stream)
    stream = net.open(publisher, start[:1])
    net.reset(publisher, stream)
    assert net.egress[receiver].streams == []


def test_a_broken_header() -> None:
    net = Net()
    publisher = net.publisher()
    net.open(publisher, b"\x16\x07\x00\x00")
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)


def test_a_group_that_cannot_exist() -> None:
    net = Net()
    publisher = net.publisher()
    gap = b"\x3c\x02"  # the two groups before this one do not exist
    net.send(publisher, subgroup(D16, bodies(1), group=5, extensions=[gap]))
    stream = net.open(publisher, subgroup(D16, bodies(1), group=4))
    assert net.egress[publisher].stopped == [(stream, 0x12)]


def test_waiting_ends() -> None:
    net = Net()
    publisher = net.publisher()
    whole = net.send(publisher, subgroup(D16, bodies(2), alias=20))
    half = net.open(publisher, subgroup(D16, bodies(2), alias=21))
    gone = net.open(publisher, subgroup(D16, bodies(2), alias=21))
    net.reset(publisher, gone)
    net.datagram(publisher, ObjectDatagram(22, 0, 0, b"one"))
    net.datagram(publisher, ObjectDatagram(22, 0, 1, b"two"))
    assert waiting_bytes(net, publisher) > 0
    net.wait(2.9)
    assert net.egress[publisher].stopped == []
    net.wait(0.2)
    assert net.egress[publisher].stopped == [(half, 1)]
    assert waiting_bytes(net, publisher) == 0
    counted = net.plane.counters()
    assert counted.unknown_alias_streams == 2
    assert counted.unknown_alias_datagrams == 2
    net.more(publisher, half, b"more")
    net.plane.add_ingress(net.now, publisher, 20, 1, 128)
    assert net.plane.track_counters(1).objects_in == 0
    assert whole


def test_waiting_is_bounded_in_bytes() -> None:
    net = Net(limits=PlaneLimits(pending_bytes=300))
    publisher = net.publisher()
    first = net.open(publisher, subgroup(D16, bodies(1, 200), alias=20))
    second = net.open(publisher, subgroup(D16, bodies(1, 200), alias=21))
    net.datagram(publisher, ObjectDatagram(22, 0, 0, b"d" * 150))
    assert net.egress[publisher].stopped == [(second, 1)]
    net.more(publisher, first, b"x" * 200)
    assert net.egress[publisher].stopped == [(second, 1), (first, 1)]
    assert waiting_bytes(net, publisher) == 0
    counted = net.plane.counters()
    assert counted.pending_overflow_streams == 2
    assert counted.pending_overflow_datagrams == 1


def test_waiting_is_bounded_in_streams() -> None:
    net = Net(limits=PlaneLimits(pending_streams=2))
    publisher = net.publisher()
    streams = [net.open(publisher, subgroup(D16, bodies(1), alias=20)) for _ in range(3)]
    assert net.egress[publisher].stopped == [(streams[2], 1)]
    net.plane.remove_session(net.now, publisher)
    net.wait(10)
    assert net.plane.counters().unknown_alias_streams == 0


def test_a_fault_while_waiting_is_the_track_s() -> None:
    net = Net()
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(1), group=5, extensions=[b"\x3c\x02"]))
    waiting = net.open(publisher, subgroup(D16, bodies(1), group=4, alias=9))
    assert net.plane._sessions[publisher].streams[waiting].track is None
    net.plane.add_ingress(net.now, publisher, 9, 1, 128)
    assert net.egress[publisher].stopped == [(waiting, 0x12)]
    assert len(net.plane.poll_notices()) == 1


class Taken:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.objects: list[bytes] = []

    def take(self, now: float, session: int, payload: bytes) -> None:
        self.objects.append(payload)

    def refuse(self, session: int, kind: str, reason: str) -> None:
        raise AssertionError(kind)


@DRAFTS
def test_what_the_relay_takes_itself_may_come_before_its_alias(draft: Draft) -> None:
    net, taken = Net(), Taken()
    player = net.session(draft)
    net.send(player, subgroup(draft, [b"early"]))
    net.plane.add_intake(net.now, player, 7, taken, 64)
    net.send(player, subgroup(draft, [b"late"], group=1))
    assert taken.objects == [b"early", b"late"]
    assert waiting_bytes(net, player) == 0
