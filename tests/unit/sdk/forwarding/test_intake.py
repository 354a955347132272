"""Tracks that the relay takes itself: whole objects of limited size, and nothing kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.interfaces import SessionFault
from laps_sdk.forwarding.pending import MOST_STREAMS
from laps_wire.moqt.data import ObjectDatagram, ObjectStatus, encode_datagram
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, NAME, Net, bodies, subgroup

DRAFTS = pytest.mark.parametrize("draft", [D16, D18])


class Desk:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.objects: list[tuple[int, bytes]] = []
        self.refused: list[tuple[int, str]] = []

    def take(self, now: float, session: int, payload: bytes) -> None:
        assert now == 100.0
        assert type(payload) is bytes
        self.objects.append((session, payload))

    def refuse(self, session: int, kind: str, reason: str) -> None:
        assert reason
        self.refused.append((session, kind))


def scene(draft: Draft = D18, size: int = 64) -> tuple[Net, Desk, int]:
    net, desk = Net(), Desk()
    player = net.session(draft)
    net.plane.add_intake(net.now, player, 7, desk, size)
    return net, desk, player


@DRAFTS
@given(places=st.sets(st.integers(1, 60)))
def test_objects_are_taken_whole_however_they_come(draft: Draft, places: set[int]) -> None:
    net, desk, player = scene(draft)
    status = (9, ObjectStatus.END_OF_GROUP)
    net.send(player, subgroup(draft, [b"one", b"", b"three" * 5], status=status), places)
    assert desk.objects == [(player, b"one"), (player, b"three" * 5)]
    assert (desk.refused, net.plane.poll_notices()) == ([], [])
    assert not net.plane._sessions[player].streams


@DRAFTS
def test_a_datagram_is_an_object(draft: Draft) -> None:
    net, desk, player = scene(draft)
    net.plane.datagram(net.now, player, encode_datagram(ObjectDatagram(7, 0, 0, b"x"), draft))
    assert desk.objects == [(player, b"x")]


@DRAFTS
def test_what_came_before_its_alias_is_taken_with_it(draft: Draft) -> None:
    net, desk = Net(), Desk()
    player = net.session(draft)
    net.send(player, subgroup(draft, [b"first"]))
    half = net.open(player, (data := subgroup(draft, [b"second"], group=1))[:-3])
    net.plane.datagram(net.now, player, encode_datagram(ObjectDatagram(7, 2, 0, b"third"), draft))
    net.plane.add_intake(net.now, player, 7, desk, 64)
    net.more(player, half, data[-3:], fin=True)
    assert [payload for _, payload in desk.objects] == [b"first", b"third", b"second"]


def test_an_object_that_is_too_long_is_not_even_read() -> None:
    net, desk, player = scene(size=8)
    data = subgroup(D18, [b"good", b"x" * 9, b"good"])
    stream = net.open(player, data[:10])
    net.more(player, stream, data[10:], fin=True)
    assert desk.objects == [(player, b"good")]
    assert desk.refused == [(player, "size")]
    assert net.egress[player].stopped == [(stream, 0x1)]
    net.more(player, stream, b"more")
    net.send(player, subgroup(D18, [b"again"], group=1))
    assert desk.objects[-1] == (player, b"again")


def test_so_many_streams_at_a_time() -> None:
    net, desk, player = scene()
    begun = [
        net.open(player, subgroup(D18, [b"part"], group=group)[:-1])
        for group in range(MOST_STREAMS + 1)
    ]
    assert desk.refused == [(player, "streams")]
    assert net.egress[player].stopped == [(begun[-1], 0x1)]
    for stream in begun[:2]:
        net.reset(player, stream)
    net.send(player, subgroup(D18, [b"room"], group=50))
    assert desk.objects == [(player, b"room")]
    net.plane.remove_session(net.now, player)
    assert desk.objects == [(player, b"room")]


def test_a_stream_that_breaks_off() -> None:
    net, desk, player = scene()
    net.send(player, subgroup(D18, bodies(1))[:-1])
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)
    assert desk.objects == []
    assert net.plane._sessions[player].intakes[7].streams == 0


def test_it_ends_and_its_alias_is_free() -> None:
    net, desk, player = scene()
    net.plane.remove_intake(player, 7)
    net.plane.remove_intake(99, 7)
    net.send(player, subgroup(D18, [b"late"]))
    assert desk.objects == []
    net.plane.add_intake(net.now, player, 7, desk, 64)
    net.plane.add_track(1, NAME)
    net.plane.add_ingress(net.now, player, 7, 1, 128)
    viewer = net.receiver(D18)
    net.send(player, subgroup(D18, [b"media"], group=3))
    assert (desk.objects, list(net.egress[viewer].objects().values())) == (
        [(player, b"late")],
        [b"media"],
    )
