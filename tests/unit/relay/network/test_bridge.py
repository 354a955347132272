"""Edges joined by bridges: publishers at one, subscribers at others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from laps_relay.network.bridge import NetworkBridge
from laps_relay.network.relay import NetworkRelay
from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.events import SessionFaulted, SessionLeaving
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.upstream.interfaces import Answer
from laps_wire.moqt.codepoints import PropertyTypeD18, PublishDoneCodeD18, RequestErrorCode
from laps_wire.moqt.data import ObjectDatagram
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import Publish, StandaloneFetch, Subscribe, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    NamespaceAdvertised,
    NamespaceWithdrawn,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    UpdateReceived,
)
from laps_wire.moqt.structures import Location
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FLAG_FETCH,
    AnnounceInfo,
    AnnounceKind,
    DataHeader,
    DataKind,
    Stamp,
    SubscribeCode,
)
from testkit.bridges import HASHER, NETWORK, Client, Edge, World, key_of
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, RuleBook, track_of
from testkit.plane import D16, D18, bodies, subgroup


def calls(world: World, edge: Edge, kind: str) -> list[Any]:
    """What an edge's bridge told the network."""
    return [what for call, what in world.port(edge).calls if call == kind]


def links(world: World) -> list[tuple[int, int]]:
    """From where to where streams and datagrams went, in order."""
    return [(origin, target) for origin, target, _ in world.carried]


def rejection(client: Client) -> tuple[int, str]:
    error = client.one(RequestRejected).message
    return error.error_code, error.reason


# From here to there


@pytest.mark.parametrize("lag", [False, True])
@pytest.mark.parametrize("draft", DRAFTS)
def test_a_track_goes_from_one_edge_to_two_others(draft: Any, lag: bool) -> None:
    world = World(lag=lag)
    one, two, three = world.edge(), world.edge(), world.edge()
    publisher = one.publisher(draft, TRACK)
    subscribers = [two.subscriber(D16, TRACK), three.subscriber(D18, TRACK)]
    for subscriber in subscribers:
        subscriber.one(RequestAccepted)
    publisher.send(subgroup(draft, bodies(3)))
    for subscriber in subscribers:
        assert list(subscriber.objects().values()) == bodies(3)
    assert links(world) == [(0, 1), (0, 2)]


def test_a_second_subscriber_costs_the_network_nothing() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    first = two.subscriber(D18, TRACK)
    publisher.send(subgroup(D18, bodies(2), group=4))
    late = two.subscriber(D18, TRACK)
    ok = late.one(RequestAccepted).message
    assert isinstance(ok, SubscribeOk)
    assert ok.parameters.largest_object == Location(4, 1)
    publisher.send(subgroup(D18, bodies(2), group=5))
    assert list(late.objects()) == [(5, 0), (5, 1)]
    assert list(first.objects()) == [(4, 0), (4, 1), (5, 0), (5, 1)]
    assert calls(world, two, "subscribe") == [TRACK]
    assert links(world) == [(0, 1), (0, 1)]


def test_somebody_who_joins_late_starts_with_the_next_object() -> None:
    world = World()
    one, two, three = world.edge(), world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    early = two.subscriber(D18, TRACK)
    data = subgroup(D18, bodies(3))
    third = subgroup(D18, bodies(2))
    stream = publisher.send(data[: len(third)], fin=False)
    late = three.subscriber(D18, TRACK)
    late.one(RequestAccepted)
    publisher.more(stream, data[len(third) :], fin=True)
    assert list(early.objects()) == [(0, 0), (0, 1), (0, 2)]
    # The stream to the network had begun: the rest of it goes to those who were there.
    assert list(late.objects()) == []
    publisher.send(subgroup(D18, bodies(1), group=1))
    assert list(late.objects()) == [(1, 0)]


def test_an_announcer_is_asked_and_its_answer_goes_all_the_way() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    announcer = one.announcer(D18, NAMESPACE)
    subscriber = two.subscriber(D18, TRACK)
    assert not subscriber.take(RequestAccepted)
    properties = (
        KeyValue(PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT, 1500),
        KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, 9),
    )
    announcer.answer(77, Parameters(largest_object=Location(8, 2)), properties)
    ok = subscriber.one(RequestAccepted).message
    assert isinstance(ok, SubscribeOk)
    assert ok.parameters.largest_object == Location(8, 2)
    assert ok.track_properties == properties
    announcer.send(subgroup(D18, bodies(1), alias=77, group=9))
    announcer.datagram(ObjectDatagram(77, 10, 0, b"urgent", priority=3))
    announcer.datagram(ObjectDatagram(77, 10, 1, b"usual"))
    (feed,) = world.port(one).feeds
    assert feed.opened == [(9, 1500, None)]
    assert feed.datagrams == [(3, 1500), (9, 1500)]
    assert [each.payload for each in subscriber.egress.object_datagrams()] == [b"urgent", b"usual"]


def test_streams_keep_their_ends() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    subscriber = two.subscriber(D18, TRACK)
    stream = publisher.send(subgroup(D18, bodies(2)), fin=False)
    publisher.reset(stream, 0x42)
    assert subscriber.egress.resets() == [0x42]
    publisher.send(subgroup(D18, bodies(2), group=1))
    assert subscriber.egress.streams[1].fin


def test_an_open_stream_goes_on_in_another_one() -> None:
    """For the network only: its subscribers see one stream."""
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    near, far = one.subscriber(D18, TRACK), two.subscriber(D18, TRACK)
    whole = subgroup(D18, bodies(3))
    stream = publisher.send(whole[:-5], fin=False)
    bridge = world.port(one).bridge
    bridge.renew(world.now, key_of(TRACK), world.now)
    bridge.renew(world.now, key_of(track_of("another")), world.now)
    before = len(links(world))
    publisher.more(stream, whole[-5:] + b"\0\1x")
    publisher.more(stream, b"", fin=True)
    assert len(links(world)) == before + 1
    for subscriber in (near, far):
        (told,) = subscriber.egress.subgroups()
        assert (told.ids, told.stream.fin) == ([0, 1, 2, 3], True)


# Several publishers


def test_publishers_of_one_track_at_two_edges_are_both_heard() -> None:
    world = World()
    one, two, three = world.edge(), world.edge(), world.edge()
    first, second = one.publisher(D18, TRACK), two.publisher(D16, TRACK)
    subscriber = three.subscriber(D18, TRACK)
    first.send(subgroup(D18, bodies(2), group=0))
    second.send(subgroup(D16, bodies(2), group=1))
    # The same object from both: once.
    first.send(subgroup(D18, bodies(1), group=2))
    second.send(subgroup(D16, bodies(1), group=2))
    assert sorted(subscriber.objects()) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]


def test_a_publisher_here_does_not_hide_one_elsewhere() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    here, there = one.publisher(D18, TRACK), two.publisher(D18, TRACK)
    subscriber = one.subscriber(D18, TRACK)
    here.send(subgroup(D18, bodies(1), group=0))
    there.send(subgroup(D18, bodies(1), group=1))
    assert sorted(subscriber.objects()) == [(0, 0), (1, 0)]
    # Nobody but the network itself receives it at the other edge: nothing is asked back.
    assert calls(world, two, "subscribe") == []
    assert links(world) == [(1, 0)]


@pytest.mark.parametrize("plaintext", [False, True])
def test_one_that_comes_later_elsewhere_is_heard_too(plaintext: bool) -> None:
    world = World(plaintext=plaintext)
    one, two = world.edge(), world.edge()
    here = one.publisher(D18, TRACK)
    subscriber = one.subscriber(D18, TRACK)
    world.advance(30)
    there = two.publisher(D18, TRACK)
    there.send(subgroup(D18, bodies(1), group=1))
    here.send(subgroup(D18, bodies(1), group=0))
    assert sorted(subscriber.objects()) == [(0, 0), (1, 0)]


def test_nothing_comes_back() -> None:
    """A conversation: everybody publishes the track and receives it, at three edges."""
    world = World()
    edges = [world.edge(), world.edge(), world.edge()]
    publishers = [edge.publisher(D18, TRACK) for edge in edges]
    subscribers = [edge.subscriber(D18, TRACK) for edge in edges]
    for number, publisher in enumerate(publishers):
        publisher.send(subgroup(D18, bodies(2), group=number))
        publisher.datagram(ObjectDatagram(7, 10 + number, 0, b"ping"))
    expected = sorted((group, item) for group in range(3) for item in range(2))
    for subscriber in subscribers:
        assert sorted(subscriber.objects()) == expected
        datagrams = subscriber.egress.object_datagrams()
        assert sorted(each.group_id for each in datagrams) == [10, 11, 12]
    # Each object over each link once, and only from where it was published.
    assert sorted(links(world)) == sorted(
        2 * [(a, b) for a in range(3) for b in range(3) if a != b]
    )


def test_what_the_network_brings_is_not_announced_nor_given_back() -> None:
    world = World()
    one, two, three = world.edge(), world.edge(), world.edge()
    one.publisher(D18, TRACK)
    two.subscriber(D18, TRACK)
    assert calls(world, two, "announce") == []
    # The second edge announces the namespace, but has no publisher of the track.
    announcer = two.announcer(D18, NAMESPACE)
    three.subscriber(D18, TRACK)
    event = announcer.one(RequestReceived)
    announcer.session.reject(event.request_id, RequestErrorCode.DOES_NOT_EXIST, "not mine")
    world.settle()
    ((key, code, reason),) = calls(world, two, "publisher_refused")
    assert (key, code, reason) == (key_of(TRACK), SubscribeCode.NO_PUBLISHER, "not mine")


# Ends


def test_the_last_unsubscribe_goes_back_to_the_publisher() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    announcer = one.announcer(D18, NAMESPACE)
    subscriber = two.subscriber(D18, TRACK)
    announcer.answer()
    subscriber.session.cancel(subscriber.request)
    world.settle()
    assert calls(world, two, "unsubscribe") == []
    world.advance(5)
    assert calls(world, two, "unsubscribe") == [TRACK]
    world.advance(5)
    announcer.one(RequestCancelled)
    assert not one.relay.tracks()
    assert two.relay.tracks() == []


@pytest.mark.parametrize("kept", [False, True])
def test_who_comes_back_while_the_network_still_serves_a_track_gets_nothing_twice(
    kept: bool,
) -> None:
    world = World()
    one, two, three = world.edge(), world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    first = two.subscriber(D18, TRACK)
    publisher.send(subgroup(D18, bodies(2), group=1))
    assert list(first.objects()) == [(1, 0), (1, 1)]
    first.leave()
    world.advance(5)
    assert calls(world, two, "unsubscribe") == [TRACK]
    if kept:
        world.port(two).kept.add(key_of(TRACK))
    again = two.subscriber(D18, TRACK)
    publisher = three.publisher(D18, TRACK)
    for group in (1, 2):
        publisher.send(subgroup(D18, bodies(2), group=group))
    assert {group for group, _ in again.objects()} == ({2} if kept else {1, 2})


def test_a_publisher_that_leaves_ends_the_track_everywhere() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    subscriber = two.subscriber(D18, TRACK)
    publisher.session.publish_done(publisher.request, 2, 0, "that was all")
    world.advance(1)
    assert calls(world, one, "publisher_ended") == [(key_of(TRACK), "that was all")]
    done = subscriber.one(PublishEnded).message
    assert (done.status_code, done.reason) == (PublishDoneCodeD18.TRACK_ENDED, "that was all")
    world.advance(10)
    assert calls(world, two, "unsubscribe") == [TRACK]
    assert calls(world, one, "withdraw") == [TRACK]


def test_one_of_two_publishers_leaves() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    here, there = one.publisher(D18, TRACK), two.publisher(D18, TRACK)
    subscriber = one.subscriber(D18, TRACK)
    elsewhere = world.edge().subscriber(D18, TRACK)
    here.leave()
    world.advance(29)
    assert not calls(world, one, "publisher_refused")  # it may come back
    world.advance(2)
    # The first edge has the track from the network, and so nothing more for it.
    ((_, code, _),) = calls(world, one, "publisher_refused")
    assert code is SubscribeCode.LOST
    assert not subscriber.take(PublishEnded)
    there.send(subgroup(D18, bodies(1)))
    assert list(subscriber.objects()) == list(elsewhere.objects()) == [(0, 0)]
    there.leave()
    world.advance(29)
    assert not subscriber.take(PublishEnded)
    assert not elsewhere.take(PublishEnded)
    world.advance(40)
    subscriber.one(PublishEnded)
    elsewhere.one(PublishEnded)


# Refusals


def test_policy_excludes_a_subscriber_at_once_and_says_why() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    one.publisher(D18, TRACK)
    world.denied.add((two.number, TRACK))
    subscriber = two.subscriber(D18, TRACK, Parameters(rendezvous_timeout=30_000))
    assert rejection(subscriber) == (RequestErrorCode.UNAUTHORIZED, "not in this region")


def test_policy_that_changes_ends_what_it_forbids() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    one.publisher(D18, TRACK)
    subscriber = two.subscriber(D18, TRACK)
    world.port(two).tell(key_of(TRACK), Answer.REFUSED, SubscribeCode.POLICY, "moved")
    world.advance(1)
    assert subscriber.one(PublishEnded).message.status_code == PublishDoneCodeD18.UNAUTHORIZED


def test_without_a_publisher_draft_18_hears_so_when_the_network_has_answered() -> None:
    world = World(lag=True)
    (edge,) = (world.edge(),)
    subscriber = edge.connect(D18)
    subscriber.session.subscribe(TRACK)
    edge.turn()
    edge.turn()
    assert not subscriber.take(RequestRejected)
    world.settle()
    code, reason = rejection(subscriber)
    assert (code, reason) == (RequestErrorCode.DOES_NOT_EXIST, "nobody publishes this track")
    world.advance(5)
    assert calls(world, edge, "unsubscribe") == [TRACK]


@pytest.mark.parametrize("plaintext", [False, True])
@pytest.mark.parametrize(
    ("draft", "parameters", "wait"),
    [(D16, Parameters(), 0.5), (D18, Parameters(rendezvous_timeout=20_000), 19.0)],
)
def test_who_waits_for_a_publisher_gets_one_elsewhere(
    draft: Any, parameters: Parameters, wait: float, plaintext: bool
) -> None:
    world = World(plaintext=plaintext)
    one, two = world.edge(), world.edge()
    subscriber = two.subscriber(draft, TRACK, parameters)
    world.advance(wait)
    assert not subscriber.take(RequestRejected)
    publisher = one.publisher(D18, TRACK)
    subscriber.one(RequestAccepted)
    publisher.send(subgroup(D18, bodies(1)))
    assert list(subscriber.objects()) == [(0, 0)]


@pytest.mark.parametrize(
    ("draft", "parameters", "code"),
    [
        (D16, Parameters(), RequestErrorCode.DOES_NOT_EXIST),
        (D18, Parameters(rendezvous_timeout=3_000), RequestErrorCode.TIMEOUT),
    ],
)
def test_who_waits_in_vain_is_told(draft: Any, parameters: Parameters, code: int) -> None:
    world = World()
    edge = world.edge()
    subscriber = edge.subscriber(draft, TRACK, parameters)
    world.advance(3)
    assert rejection(subscriber)[0] == code
    world.advance(10)
    assert calls(world, edge, "unsubscribe") == [TRACK]
    assert edge.relay.has_receivers(NETWORK, TRACK) is False


def test_a_publishers_own_refusal_goes_all_the_way() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    announcer = one.announcer(D18, NAMESPACE)
    subscriber = two.subscriber(D18, TRACK)
    event = announcer.one(RequestReceived)
    announcer.session.reject(event.request_id, RequestErrorCode.NOT_SUPPORTED, "not like this")
    world.settle()
    assert rejection(subscriber) == (RequestErrorCode.NOT_SUPPORTED, "not like this")


def test_a_refusal_here_is_told_rather_than_that_there_is_nobody_elsewhere() -> None:
    world = World(lag=True)
    one = world.edge()
    announcer = one.announcer(D18, NAMESPACE)
    subscriber = one.subscriber(D18, TRACK)
    assert not subscriber.take(RequestRejected)
    event = announcer.one(RequestReceived)
    announcer.session.reject(event.request_id, RequestErrorCode.UNAUTHORIZED, "not for you")
    world.settle()
    assert rejection(subscriber) == (RequestErrorCode.UNAUTHORIZED, "not for you")


# Namespaces


def test_clients_hear_of_namespaces_elsewhere() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    watcher = two.connect(D18)
    watcher.session.subscribe_namespace(Namespace.of(b"example.net"))
    announcers = [one.announcer(D18, NAMESPACE), one.announcer(D16, NAMESPACE)]
    assert [event.namespace for event in watcher.take(NamespaceAdvertised)] == [NAMESPACE]
    assert calls(world, one, "announce") == [track_of("")]
    late = two.connect(D16)
    late.session.subscribe_namespace(NAMESPACE)
    world.settle()
    assert [event.namespace for event in late.take(NamespaceAdvertised)] == [NAMESPACE]
    announcers[0].leave()
    assert not watcher.take(NamespaceWithdrawn)
    announcers[1].leave()
    assert [event.namespace for event in watcher.take(NamespaceWithdrawn)] == [NAMESPACE]
    assert calls(world, one, "withdraw") == [track_of("")]
    # What came from the network is not announced as our own.
    assert calls(world, two, "announce") == []


def test_tracks_elsewhere_are_not_asked_for_before_somebody_watches() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    assert list(world.port(one).announced) == [(AnnounceKind.TRACK, TRACK)]
    assert two.relay.namespaces() == []
    assert calls(world, two, "subscribe") == []
    publisher.leave()
    assert list(world.port(one).announced) == []


@pytest.mark.parametrize("early", [False, True])
def test_tracks_elsewhere_are_pushed_to_who_watches(early: bool) -> None:
    world = World()
    one, two = world.edge(), world.edge()
    properties = (KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, 9),)
    watcher = two.connect(D18)
    if early:
        watcher.session.subscribe_tracks(NAMESPACE)
        world.settle()
    publisher = one.publisher(D18, TRACK, properties=properties)
    if not early:
        watcher.session.subscribe_tracks(NAMESPACE)
        world.settle()
    offer = watcher.one(RequestReceived)
    assert isinstance(offer.message, Publish)
    assert (offer.message.track, offer.message.track_properties) == (TRACK, properties)
    # Nobody has taken it yet: nothing is brought from far away.
    assert calls(world, two, "unsubscribe") == [TRACK]
    watcher.session.accept(offer.request_id)
    world.settle()
    publisher.send(subgroup(D18, bodies(1)))
    assert list(watcher.objects()) == [(0, 0)]
    publisher.leave()
    world.advance(1)
    watcher.one(PublishEnded)
    assert calls(world, two, "unsubscribe") == [TRACK, TRACK]


# Requests that go along


def test_a_request_for_a_new_group_reaches_the_publisher() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    announcer = one.announcer(D18, NAMESPACE)
    subscriber = two.subscriber(D18, TRACK, Parameters(new_group_request=0))
    event = announcer.take(RequestReceived)[0]
    assert isinstance(event.message, Subscribe)
    assert event.message.parameters.new_group_request == 0
    dynamic = (KeyValue(PropertyTypeD18.DYNAMIC_GROUPS, 1),)
    announcer.session.accept_subscribe(event.request_id, 77, Parameters(), dynamic)
    world.settle()
    announcer.take(UpdateReceived)
    announcer.send(subgroup(D18, bodies(1), alias=77, group=3))
    subscriber.session.update(subscriber.request, Parameters(new_group_request=4))
    world.settle()
    updates = announcer.take(UpdateReceived)
    assert [event.message.parameters.new_group_request for event in updates] == [4]


# The network is no client like others


def test_the_network_is_trusted_and_not_capped() -> None:
    rules = RuleBook()
    settings = EdgeSettings(
        max_sessions=1, session_subscriptions=1, session_namespaces=1, request_burst=1
    )
    world = World()
    one, two = world.edge(), world.edge(settings=settings, authorizer=rules)
    publisher = two.connect(D18)
    tracks = [track_of(f"t{number}") for number in range(5)]
    for track in tracks:
        publisher.session.publish(track, int(track.name[1:]))
        world.settle()
        world.advance(1)
    subscribers = [one.subscriber(D18, track) for track in tracks]
    assert all(subscriber.take(RequestAccepted) for subscriber in subscribers)
    for number in range(3):
        one.announcer(D18, Namespace.of(b"n", b"%d" % number))
    assert len(two.relay.namespaces()) == 3
    # Keys change: everybody is asked again, but not the network.
    rules.asked.clear()
    rules.rules[Action.SUBSCRIBE] = Decision(allowed=False)
    two.relay.reauthorize(world.now)
    world.settle()
    assert len(two.relay.subscriptions()) == 5
    asked = {action for action, _, _ in rules.asked}
    assert asked <= {Action.CLIENT_SETUP, Action.PUBLISH}


def test_the_network_is_shown_as_such() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    one.publisher(D18, TRACK)
    two.subscriber(D18, TRACK)
    (row,) = [row for row in two.relay.sessions() if row.session == NETWORK]
    assert row.info.upstream
    assert row.info.peer_address == "network"
    assert [(row.network, row.publishers) for row in two.relay.tracks()] == [(True, (NETWORK,))]
    assert [row.network for row in one.relay.tracks()] == [False]


def test_an_edge_that_drains_keeps_its_network() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    subscriber = two.subscriber(D18, TRACK)
    one.relay.drain(world.now, "")
    world.settle()
    publisher.send(subgroup(D18, bodies(1)))
    assert list(subscriber.objects()) == [(0, 0)]
    told = [event.session for event in one.log if isinstance(event, SessionLeaving)]
    assert told == [publisher.id]


def test_bad_bytes_of_somebody_far_away_end_their_stream_only() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    subscriber = two.subscriber(D18, TRACK)
    feed = world.port(one).feeds[-1]
    # A subgroup stream that is cut in the middle of an object.
    alias = key_of(TRACK) & (2**62 - 1)
    stream = feed.open_stream(world.now, priority=1)
    stream.write(subgroup(D18, bodies(1), alias=alias, group=7)[:-3], fin=True)
    world.settle()
    assert [event.session for event in two.log if isinstance(event, SessionFaulted)] == [NETWORK]
    # The alias of another track.
    feed.open_stream(world.now, priority=1).write(subgroup(D18, bodies(1), alias=alias + 1), True)
    feed.send_datagram(world.now, b"\x00\x01\x02\x03", priority=1)
    assert world.port(two).bridge.misplaced == 2
    publisher.send(subgroup(D18, bodies(1), group=8))
    assert list(subscriber.objects()) == [(8, 0)]


# Who else hears of names


def track_entry(name: FullTrackName | None) -> AnnounceInfo:
    """Somebody announced a track, with its name or without."""
    elements = HASHER.elements(NAMESPACE.fields)
    hashed = HASHER.name(TRACK.name)
    return AnnounceInfo(
        NodeId(2), Stamp(1, 1), AnnounceKind.TRACK, elements, hashed, key_of(TRACK), name
    )


def test_a_directory_hears_of_all_names() -> None:
    world = World()
    edge, far = world.edge(), world.edge()
    publisher = far.publisher(D18, TRACK)
    announcer = edge.announcer(D16, NAMESPACE)
    directory = world.port(edge).directory
    assert {kind for kind, _ in directory.visible(99)} == set(AnnounceKind)
    publisher.leave()
    announcer.leave()
    world.advance(2)
    assert list(directory.visible(99)) == []


def test_a_bridge_needs_no_directory() -> None:
    world = World()
    edge, other = world.bare_edge(), world.edge()
    bridge = NetworkBridge(
        edge.relay,
        edge.plane,
        cast("NetworkRelay", world.port(other)),
        HASHER,
        session=NETWORK,
        clock=lambda: world.now,
    )
    bridge.open(world.now)
    bridge.observe(world.now, edge.relay.poll_events())
    bridge.announce_added(world.now, track_entry(None))
    bridge.announce_added(world.now, track_entry(TRACK))
    watcher = edge.connect(D18)
    watcher.session.subscribe_tracks(NAMESPACE)
    world.settle()
    bridge.announce_removed(world.now, AnnounceKind.TRACK, TRACK)
    assert not watcher.take(RequestReceived)


def test_a_fetch_is_answered_by_another_edge() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    publisher.send(subgroup(D18, bodies(2), end_of_group=True))
    target = StandaloneFetch(TRACK, Location(0, 0), Location(0, 0))
    reader = two.connect(D18)
    reader.request = reader.session.fetch(target)
    world.settle()
    reader.one(RequestAccepted)
    assert len(reader.egress.fetched()[1]) == 2
    # One that is given up while its publisher is still to answer.
    slow = one.announcer(D18, NAMESPACE)
    reader = two.connect(D18)
    other = StandaloneFetch(track_of("slow"), Location(0, 0), Location(0, 0))
    reader.request = reader.session.fetch(other)
    world.settle()
    slow.one(RequestReceived)
    reader.session.cancel(reader.request)
    world.settle()
    slow.one(RequestCancelled)
    # A stream that nobody asked for.
    header = DataHeader(DataKind.STREAM, 1, key_of(TRACK), 99, payload_format=18, flags=FLAG_FETCH)
    assert not world.port(two).bridge.stream_opened(world.now, 999, header, b"", False)
    assert world.port(two).bridge.misplaced == 1
