"""Fetches that end before their answer does."""

from __future__ import annotations

from laps_sdk.forwarding.interfaces import (
    FetchEnded,
    FetchOutcome,
    FetchRange,
    PlaneLimits,
    Subscription,
    UpstreamEnded,
)
from laps_wire.moqt.data import StreamKind
from laps_wire.moqt.structures import Location
from testkit.plane import D16, Net, bodies, subgroup

WANTED = FetchRange(track=1, start=Location(0, 0), end=Location(0, 19))


def make() -> tuple[Net, int, int]:
    net = Net(limits=PlaneLimits(fetch_window=10000))
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(20, 5000), end_of_group=True))
    return net, publisher, net.session(D16, fast=False)


def test_a_track_that_is_not_known() -> None:
    net, _, receiver = make()
    other = FetchRange(track=9, start=Location(0, 0), end=Location(0, 0))
    assert not net.plane.covers(net.now, other)
    key = Subscription(receiver, 0)
    assert net.plane.serve_fetch(net.now, key, other, partial=True) is FetchOutcome.GAPS


def test_cancelling_an_answer_from_the_cache() -> None:
    net, _, receiver = make()
    key = Subscription(receiver, 0)
    net.plane.serve_fetch(net.now, key, WANTED)
    net.plane.cancel_fetch(net.now, key, 1)
    net.plane.cancel_fetch(net.now, key, 1)
    assert net.egress[receiver].streams[0].reset_code == 1
    net.wait(1)
    assert net.plane.poll_notices() == []
    assert net.plane._sessions[receiver].outs == {}


def test_cancelling_an_answer_that_is_passed_on() -> None:
    net, publisher, receiver = make()
    for request, opened in ((6, True), (8, False)):
        key = Subscription(receiver, request)
        net.plane.relay_fetch(publisher, request, key, WANTED)
        if opened:
            data = bytes([5, request])
            net.plane.stream_opened(net.now, publisher, 3, StreamKind.FETCH, data, False)
        net.plane.cancel_fetch(net.now, key, 4)
    # A stream is opened with the first bytes of the answer: the second one never was.
    assert net.egress[receiver].resets() == [4]
    assert net.egress[publisher].stopped == [(3, 1)]
    assert net.plane._sessions[publisher].fetches == {}
    assert net.plane.poll_notices() == []


def test_a_receiver_that_is_gone() -> None:
    net, publisher, receiver = make()
    net.plane.serve_fetch(net.now, Subscription(receiver, 0), WANTED)
    net.plane.relay_fetch(publisher, 6, Subscription(receiver, 2), WANTED)
    net.plane.remove_session(net.now, receiver)
    net.wait(1)
    net.plane.stream_opened(net.now, publisher, 3, StreamKind.FETCH, b"\x05\x06", True)
    assert net.plane.poll_notices() == [UpstreamEnded(publisher, 6, complete=True)]


def test_an_upstream_that_is_gone() -> None:
    net, publisher, receiver = make()
    other = net.session(D16)
    net.plane.relay_fetch(publisher, 6, Subscription(receiver, 2), WANTED)
    net.plane.relay_fetch(other, 6, Subscription(receiver, 4), WANTED)
    net.plane.remove_session(net.now, publisher)
    assert net.plane.poll_notices() == [
        FetchEnded(Subscription(receiver, 2), complete=False),
        UpstreamEnded(publisher, 6, complete=False),
    ]
    assert net.egress[receiver].streams == []


def test_a_track_that_is_gone() -> None:
    net, publisher, receiver = make()
    net.plane.serve_fetch(net.now, Subscription(receiver, 0), WANTED)
    net.plane.relay_fetch(publisher, 6, Subscription(receiver, 2), WANTED)
    net.plane.remove_track(net.now, 1)
    assert net.plane.poll_notices() == [
        FetchEnded(Subscription(receiver, 2), complete=False),
        UpstreamEnded(publisher, 6, complete=False),
    ]
    # What was found in the cache is still sent.
    net.egress[receiver].fast = True
    net.wait(1)
    assert net.plane.poll_notices() == [FetchEnded(Subscription(receiver, 0), complete=True)]


def test_what_is_over_is_forgotten() -> None:
    net, _, _ = make()
    receiver = net.session(D16)
    for request in range(0, 40, 2):
        net.plane.serve_fetch(net.now, Subscription(receiver, request), WANTED)
    # Also behind some that go on.
    assert len(net.plane._fetches._outs) == 0
    slow = net.session(D16, fast=False)
    for request in (0, 2):
        net.plane.serve_fetch(net.now, Subscription(slow, request), WANTED)
    for request in range(0, 40, 2):
        net.plane.serve_fetch(net.now, Subscription(receiver, request), WANTED)
    assert len(net.plane._fetches._outs) == 2


def test_nobody_waits_for_an_answer_that_is_not_wanted() -> None:
    net, publisher, receiver = make()
    key = Subscription(receiver, 2)
    net.plane.relay_fetch(publisher, 6, key, WANTED)
    out, _ = net.plane._fetches._outs[key]
    out.reset(1)
    assert net.plane._sessions[publisher].fetches == {}
    assert net.plane._state.tracks[1].relays == {}
    assert net.plane.poll_notices() == [FetchEnded(key, complete=False)]


def test_an_answer_under_way_goes_with_its_track() -> None:
    """Its receiver has left, its stream has not: nothing more of it is kept."""
    net, publisher, receiver = make()
    net.plane.relay_fetch(publisher, 6, Subscription(receiver, 2), WANTED)
    net.plane.stream_opened(net.now, publisher, 3, StreamKind.FETCH, b"\x05\x06", False)
    net.drop(receiver)
    net.plane.remove_track(net.now, 1)
    assert net.egress[publisher].stopped == [(3, 1)]
    assert net.plane._sessions[publisher].streams == {}
    assert net.plane.poll_notices() == [
        FetchEnded(Subscription(receiver, 2), complete=False),
        UpstreamEnded(publisher, 6, complete=False),
    ]
