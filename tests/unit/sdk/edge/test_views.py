"""Rows for the admin: they show the tables, and stay as they were."""

from __future__ import annotations

import pytest

from laps_sdk.edge.authorization import Decision
from laps_sdk.edge.events import NamespaceRow, SessionRow, SubscriptionRow, TrackRow
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, Token
from laps_wire.moqt.versions import Draft
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, EdgeNet, RuleBook

both = pytest.mark.parametrize("draft", DRAFTS)


@both
def test_rows(draft: Draft) -> None:
    rules = RuleBook()
    net = EdgeNet(authorizer=rules)
    rules.tokens[b"short"] = Decision(allowed=True, expires=150.0)
    token = Parameters(authorization_tokens=(Token.use_value(1, b"short"),))
    publisher = net.publisher(draft, parameters=Parameters(largest_object=Location(1, 2)))
    publisher.session.publish_namespace(NAMESPACE, token)
    subscriber = net.subscriber(draft, TRACK, token)
    net.plane.streams.clear()

    sessions = net.relay.sessions()
    assert sessions[0] == SessionRow(
        session=publisher.id,
        info=publisher.info,
        opened=100.0,
        ready=True,
        leaving=False,
        subscriptions=0,
        publishes=1,
        namespaces=1,
        prefixes=0,
        fetches=0,
        offers=0,
    )
    assert sessions[1].subscriptions == 1
    assert net.relay.tracks() == [
        TrackRow(
            track=TRACK,
            number=1,
            live=True,
            publishers=(publisher.id,),
            subscribers=1,
            waiting=0,
            largest=Location(1, 2),
            rank=None,
            counters=net.plane.track_counters(1),
        )
    ]
    (row,) = net.relay.subscriptions()
    assert row == SubscriptionRow(
        session=subscriber.id,
        request_id=subscriber.request,
        track=TRACK,
        pushed=False,
        established=True,
        forward=True,
        priority=128,
        expires=150.0,
        counters=row.counters,
    )
    assert net.relay.namespaces() == [
        NamespaceRow(namespace=NAMESPACE, session=publisher.id, expires=150.0)
    ]
    net.leave(subscriber)
    assert row.established
