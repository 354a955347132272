"""TRACK_STATUS."""

from __future__ import annotations

import pytest

from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import RequestOk, TrackStatus
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import RequestAccepted, RequestReceived, RequestRejected, SessionLimits
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, Peer

both = pytest.mark.parametrize("draft", DRAFTS)
pairs = pytest.mark.parametrize(("first", "second"), [(a, b) for a in DRAFTS for b in DRAFTS])

PROPERTIES = (KeyValue(0x1235, b"unknown"),)


def ask(net: EdgeNet, draft: Draft) -> Peer:
    peer = net.connect(draft)
    peer.request = peer.session.track_status(TRACK)
    net.settle()
    return peer


def ok_of(peer: Peer) -> RequestOk:
    message = peer.one(RequestAccepted).message
    assert isinstance(message, RequestOk)
    return message


@pairs
def test_what_the_relay_knows(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    net.publisher(
        first, parameters=Parameters(largest_object=Location(4, 2)), properties=PROPERTIES
    )
    ok = ok_of(ask(net, second))
    assert ok.parameters.largest_object == Location(4, 2)
    assert ok.track_properties == (PROPERTIES if second is Draft.D18 else ())


@pairs
def test_what_a_publisher_knows(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(first)
    peer = ask(net, second)
    event = publisher.one(RequestReceived)
    assert isinstance(event.message, TrackStatus)
    properties = PROPERTIES if first is Draft.D18 else ()
    publisher.session.accept(
        event.request_id, Parameters(largest_object=Location(1, 1)), properties
    )
    net.settle()
    ok = ok_of(peer)
    assert ok.parameters.largest_object == Location(1, 1)
    assert ok.track_properties == (properties if second is Draft.D18 else ())


@both
def test_nobody_knows(draft: Draft) -> None:
    net = EdgeNet()
    peer = ask(net, draft)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST


@both
def test_the_publisher_says_no(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = ask(net, draft)
    publisher.session.reject(publisher.one(RequestReceived).request_id, 0x10, "no such track")
    net.settle()
    error = peer.one(RequestRejected).message
    assert (error.error_code, error.reason) == (0x10, "no such track")


@both
def test_the_publisher_says_nothing(draft: Draft) -> None:
    net = EdgeNet()
    net.announcer(draft)
    peer = ask(net, draft)
    net.advance(10.0)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.TIMEOUT


@both
def test_the_publisher_is_gone(draft: Draft) -> None:
    net = EdgeNet()
    publisher = net.announcer(draft)
    peer = ask(net, draft)
    net.lose(publisher)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INTERNAL_ERROR


def test_publishers_that_cannot_be_asked() -> None:
    net = EdgeNet()
    leaving = net.announcer(Draft.D16)
    leaving.session.goaway()
    full = net.connect(Draft.D16, limits=SessionLimits(max_requests=1))
    full.session.publish_namespace(NAMESPACE)
    net.settle()
    ask(net, Draft.D16)
    peer = ask(net, Draft.D16)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.DOES_NOT_EXIST
    assert leaving.take(RequestReceived) == []


def test_an_answer_that_cannot_be_written() -> None:
    net = EdgeNet()
    # Draft 18 counts to 2**64, draft 16 to 2**62.
    net.publisher(Draft.D18, parameters=Parameters(largest_object=Location(2**63, 0)))
    peer = ask(net, Draft.D16)
    assert peer.one(RequestRejected).message.error_code == RequestErrorCode.INTERNAL_ERROR


def test_who_asked_is_gone() -> None:
    net = EdgeNet()
    publisher = net.announcer(Draft.D18)
    peer = ask(net, Draft.D18)
    net.lose(peer)
    publisher.session.accept(publisher.one(RequestReceived).request_id)
    net.settle()
    assert len(net.relay.sessions()) == 1
