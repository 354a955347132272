"""Sessions and sets: what is remembered, for how long, and how much of it."""

from __future__ import annotations

import pytest

from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress, SetIdle
from laps_relay.peer_forwarding.state import Branch, Entry, Session, State, Target
from laps_wire.peering.session import SnsStanding
from testkit.peer_plane import CONTEXT, KEY, Holder, Peer, PeerNet, head

SET = EgressSet(2, 72)


def make() -> tuple[Peer, Session, Target]:
    peer = Peer()
    session = Session(2, peer, Holder())
    target = session.targets[72] = Target(session, 72)
    return peer, session, target


def test_a_stopped_stream_is_remembered_for_a_while() -> None:
    peer, session, _ = make()
    for stream_id in range(8192):
        session.stop(stream_id, 5)
    assert peer.stopped[:2] == [(0, 5), (1, 5)]
    assert 0 in session.stopped
    session.ignore(9000)
    assert 0 not in session.stopped
    assert len(session.stopped) == 8192
    assert len(peer.stopped) == 8192


def test_finished_streams_are_forgotten_once_they_are_sent() -> None:
    peer, session, target = make()
    peer.slow = True
    streams = [peer.open_unidirectional() for _ in range(4)]
    for stream in streams[:3]:
        stream.write(b"abc")
        session.finish(stream, target.sns_id)
    peer.streams[0].sent = peer.streams[2].sent = 3
    session.finish(streams[3], target.sns_id)
    assert list(session.finished) == [streams[1], streams[2], streams[3]]
    assert session.unsent() == 1  # bytes of one wait


def test_finished_streams_are_bounded() -> None:
    peer, session, target = make()
    peer.slow = True
    for _ in range(2050):
        stream = peer.open_unidirectional()
        stream.write(b"abc")
        session.finish(stream, target.sns_id)
    assert len(session.finished) == 2048
    assert next(iter(session.finished)) is peer.streams[2]


def test_a_set_is_busy_while_its_bytes_wait() -> None:
    peer, session, target = make()
    other = Target(session, 73)
    assert not target.busy()
    target.open = 1
    assert target.busy()
    target.open = 0
    peer.slow = True
    stream = peer.open_unidirectional()
    stream.write(b"abc")
    session.finish(stream, target.sns_id)
    assert target.busy()
    assert not other.busy()
    peer.streams[0].sent = 3
    assert not target.busy()
    assert target.egress_set == SET
    assert target.id_bytes == b"\0\0\0\x48"


def test_a_set_that_nobody_uses_is_forgotten() -> None:
    _, session, target = make()
    state = State(1.0, 0.5)
    entry = Entry(Ingress(1, 7))
    target.entries[entry] = None
    target.open = 2
    state.stream_ended(5.0, target)
    state.stream_ended(5.0, target)
    assert session.targets == {72: target}
    target.entries.clear()
    state.rest(5.0, target)
    assert session.targets == {}
    assert state.timers.next() is None
    assert entry.counters() == (0, 0, 0, 0)


def test_a_retired_set_lingers_from_its_last_stream_on() -> None:
    _, session, target = make()
    state = State(2.0, 0.5)
    target.retired, target.open = 1.0, 1
    state.stream_ended(10.0, target)
    state.handle_timeout(11.9)
    assert state.notices == []
    state.handle_timeout(12.0)
    assert state.notices == [SetIdle(SET)]
    assert session.targets == {}


def test_a_stream_that_does_not_say_when_it_ended() -> None:
    _, _, target = make()
    state = State(2.0, 0.5)
    target.retired, target.open = 1.0, 1
    state.stream_ended(None, target)
    assert state.timers.next() == 1.0
    state.handle_timeout(50.0)
    assert state.timers.next() == 52.0
    state.handle_timeout(52.0)
    assert state.notices == [SetIdle(SET)]


@pytest.mark.parametrize(("linger", "again"), [(0.0, 0.05), (3.0, 3.0)])
def test_a_set_whose_bytes_wait_is_looked_at_again(linger: float, again: float) -> None:
    net = PeerNet(peers=1, set_linger=linger)
    net.peer[2].slow = True
    net.send(head() + b"a")
    net.send(b"", fin=True)
    net.install(())
    net.plane.retire(net.now, SET)
    net.wait(linger)
    assert net.plane.poll_notices() == []
    assert net.plane.poll_timeout() == pytest.approx(net.now + again)
    net.peer[2].slow = False
    net.wait(again)
    assert net.plane.poll_notices() == [SetIdle(SET)]


def test_a_set_whose_streams_have_not_arrived_is_not_withdrawn() -> None:
    """What was lost is sent again, however long that takes; what is sent later is of other sets."""
    net = PeerNet(peers=1)
    net.send(head() + b"a", fin=True)
    net.install(())
    net.plane.retire(net.now, SET)
    peer = net.peer[2]
    peer.flying = {2, 6}
    net.wait(10)
    assert net.plane.poll_notices() == []
    peer.flying = {6, 10}
    net.wait(1)
    assert net.plane.poll_notices() == []
    peer.flying = {10, 14}
    net.wait(1)
    assert net.plane.poll_notices() == [SetIdle(SET)]


def test_a_stream_that_begins_meanwhile_is_waited_for_too() -> None:
    net = PeerNet(peers=1)
    net.plane.retire(net.now, SET)
    net.peer[2].flying = {2}
    net.wait(2)
    net.send(head() + b"a", fin=True)
    net.peer[2].flying = {6}
    net.wait(2)
    assert net.plane.poll_notices() == []
    net.peer[2].flying.clear()
    net.wait(1)
    assert net.plane.poll_notices() == [SetIdle(SET)]


def test_a_set_on_which_a_stream_begins_while_it_lingers() -> None:
    net = PeerNet(peers=1)
    net.plane.retire(net.now, SET)
    net.send(head() + b"a")
    net.wait(5)
    assert net.plane.poll_notices() == []
    assert net.plane.poll_timeout() is None
    net.send(b"", fin=True)
    net.wait(1)
    assert net.plane.poll_notices() == [SetIdle(SET)]


def test_a_whole_stream_makes_a_retired_set_linger_anew() -> None:
    net = PeerNet(peers=1)
    net.plane.retire(net.now, SET)
    net.wait(0.7)
    net.send(head() + b"a", fin=True)
    net.wait(0.7)
    assert net.plane.poll_notices() == []
    net.wait(0.3)
    assert net.plane.poll_notices() == [SetIdle(SET)]


def test_a_feed_and_the_sets_that_it_leaves() -> None:
    net = PeerNet(peers=1)
    feed = net.plane.open_feed(5, KEY, CONTEXT, 1)
    net.plane.install(net.now, Ingress(LOCAL, 5), [EgressSet(2, 4)], local=False)
    stream = feed.open_stream(net.now, priority=1)
    net.plane.install(net.now, Ingress(LOCAL, 5), [], local=False)
    net.plane.retire(net.now, EgressSet(2, 4))
    net.wait(3)
    stream.write(b"a", True)
    net.now += 4
    net.plane.handle_timeout(net.now)
    assert net.plane.poll_notices() == []
    net.wait(1)
    assert net.plane.poll_notices() == [SetIdle(EgressSet(2, 4))]


def test_numbers_and_figures() -> None:
    state = State(1.0, 0.5)
    assert [state.number(), state.number()] == [1, 2]
    for index, name in enumerate(state.counters()._fields):
        setattr(state, name, index + 1)
    assert state.counters() == tuple(range(1, len(state.counters()) + 1))


def test_holders_are_asked_by_the_session() -> None:
    _, session, target = make()
    assert session.hold(1.0, 3, object(), 5) is SnsStanding.UNKNOWN
    assert session.branches == {}
    assert Branch.__slots__
    assert target.session is session
