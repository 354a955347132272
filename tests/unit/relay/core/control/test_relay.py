"""The relay as a whole: publish, subscribe, leave; see the other files for its parts."""

from __future__ import annotations

import pytest

from laps_relay.core.control.events import SessionClosed, SessionOpened
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import RequestOk, SubscribeOk
from laps_wire.moqt.session.events import (
    PublishEnded,
    RequestAccepted,
    RequestReceived,
    RequestRejected,
)
from laps_wire.moqt.versions import Draft
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet

both = pytest.mark.parametrize("draft", DRAFTS)
pairs = pytest.mark.parametrize(("first", "second"), [(a, b) for a in DRAFTS for b in DRAFTS])


@both
def test_announce_then_subscribe(draft: Draft) -> None:
    net = EdgeNet()
    publisher, subscriber = net.connect(draft), net.connect(draft)
    publisher.session.publish_namespace(NAMESPACE)
    net.settle()
    assert isinstance(publisher.one(RequestAccepted).message, RequestOk)

    request = subscriber.session.subscribe(TRACK)
    net.settle()
    asked = publisher.one(RequestReceived)
    publisher.session.accept_subscribe(asked.request_id, 77)
    net.settle()

    ok = subscriber.one(RequestAccepted)
    assert ok.request_id == request
    assert isinstance(ok.message, SubscribeOk)
    assert net.plane.receivers(TRACK) == [subscriber.id]
    assert net.plane.publishers(TRACK) == [publisher.id]


@pairs
def test_publish_then_subscribe(first: Draft, second: Draft) -> None:
    net = EdgeNet()
    publisher, subscriber = net.connect(first), net.connect(second)
    published = publisher.session.publish(TRACK, 5)
    net.settle()
    assert publisher.one(RequestAccepted).request_id == published
    subscriber.session.subscribe(TRACK)
    net.settle()
    assert isinstance(subscriber.one(RequestAccepted).message, SubscribeOk)
    publisher.session.publish_done(published, 2, 0, "over")
    net.settle()
    net.advance(0.0)
    assert subscriber.one(PublishEnded).message.status_code == 2
    assert net.plane.egress == {}


def test_a_track_that_nobody_publishes() -> None:
    net = EdgeNet()
    subscriber = net.connect(Draft.D16)
    subscriber.session.subscribe(TRACK)
    net.settle()
    assert subscriber.take(RequestRejected) == []
    net.advance(1.0)
    error = subscriber.one(RequestRejected).message
    assert error.error_code == RequestErrorCode.DOES_NOT_EXIST


@both
def test_sessions_come_and_go(draft: Draft) -> None:
    net = EdgeNet()
    peer = net.connect(draft)
    assert [event.session for event in net.found(SessionOpened)] == [peer.id]
    net.leave(peer)
    assert [event.session for event in net.found(SessionClosed)] == [peer.id]
    assert net.relay.sessions() == []
    assert net.plane.sessions == {}
