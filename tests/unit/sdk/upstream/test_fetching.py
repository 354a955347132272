"""FETCHes of one Edge that another one answers: both ends, and all that can go wrong between."""

from __future__ import annotations

from typing import Any

import pytest

from laps_sdk.edge.codes import reset_code
from laps_sdk.upstream.bodies import fetch_data, fetch_ok_data
from laps_sdk.upstream.fetching import PATIENCE
from laps_wire.moqt.codepoints import FilterType, RequestErrorCode
from laps_wire.moqt.data.fetch import FetchWriter
from laps_wire.moqt.data.types import FetchHeader, MoqObject, ObjectHeader, StreamKind
from laps_wire.moqt.messages import Fetch, FetchOk, RelativeJoiningFetch, StandaloneFetch
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FLAG_FETCH,
    DataHeader,
    DataKind,
    SubscribeCode,
    SubscribeData,
)
from testkit.bridges import Client, Edge, FetchFan, World, key_of
from testkit.edge_net import DRAFTS, NAMESPACE, TRACK, track_of
from testkit.plane import D18, bodies, subgroup

RANGE = StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))
LARGEST = SubscriptionFilter(FilterType.LARGEST_OBJECT)


def calls(world: World, edge: Edge, kind: str) -> list[Any]:
    return [what for call, what in world.port(edge).calls if call == kind]


def edges(**options: Any) -> tuple[World, Edge, Edge, Client]:
    """Two Edges, and a publisher at the first that has published groups 0 and 1."""
    world = World(**options)
    one, two = world.edge(), world.edge()
    publisher = one.publisher(D18, TRACK)
    for group in range(2):
        publisher.send(subgroup(D18, bodies(2, seed=group), group=group, end_of_group=True))
    return world, one, two, publisher


def ask(edge: Edge, target: Any = RANGE, draft: Any = D18, **parameters: Any) -> Client:
    client = edge.connect(draft)
    client.request = client.session.fetch(target, Parameters(**parameters))
    edge.world.settle()
    return client


def got(client: Client) -> list[tuple[int, int]]:
    request, items = client.egress.fetched()
    assert request == client.request
    return [item.header.location for item in items if isinstance(item, MoqObject)]


def code(client: Client) -> int:
    return client.one(RequestRejected).message.error_code


def at_rest(world: World) -> bool:
    """Neither end remembers anything."""
    return all(
        port.fetches == {}
        and not any(
            (
                port.bridge._fetching._asked,
                port.bridge._fetching._requests,
                port.bridge._fetching.streams,
                port.bridge._fetching._served,
                port.bridge._fetching._outlets,
                len(port.bridge._fetching._timers),
            )
        )
        for port in world.ports
    )


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_range_from_another_edge(draft: Any) -> None:
    world, one, two, _ = edges()
    reader = ask(two, draft=draft)
    ok = reader.one(RequestAccepted).message
    assert isinstance(ok, FetchOk)
    assert ok.end_location == Location(1, 2)
    assert got(reader) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert calls(world, one, "fetch_served") == calls(world, one, "fetched")
    assert at_rest(world)
    # Its own cache has the group now of which it knows the end.
    again = ask(two, StandaloneFetch(TRACK, Location(0, 0), Location(0, 0)))
    assert got(again) == [(0, 0), (0, 1)]
    assert len(calls(world, two, "fetch")) == 1


def test_joining_from_another_edge() -> None:
    world, _, two, publisher = edges()
    stream = publisher.send(subgroup(D18, bodies(2, seed=2), group=2), fin=False)
    reader = two.subscriber(D18, TRACK, Parameters(subscription_filter=LARGEST))
    reader.take(RequestAccepted)
    reader.request = reader.session.fetch(RelativeJoiningFetch(reader.request, 1))
    world.settle()
    assert got(reader) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    publisher.reset(stream, 0)
    assert at_rest(world)


def test_a_track_that_nobody_has() -> None:
    world, _, two, _ = edges()
    target = StandaloneFetch(track_of("other"), Location(0, 0), Location(1, 0))
    assert code(ask(two, target)) == RequestErrorCode.DOES_NOT_EXIST
    assert at_rest(world)


def test_a_range_that_nobody_has() -> None:
    world, _, two, _ = edges()
    target = StandaloneFetch(TRACK, Location(7, 0), Location(8, 0))
    assert code(ask(two, target)) == RequestErrorCode.INVALID_RANGE
    assert at_rest(world)


def test_the_network_is_not_asked_for_what_it_asks_itself() -> None:
    """Two Edges that announced the same: a FETCH does not go round."""
    world, one, two, _ = edges()
    two.announcer(D18, NAMESPACE)
    one.announcer(D18, NAMESPACE)
    target = StandaloneFetch(track_of("other"), Location(0, 0), Location(1, 0))
    reader = ask(world.edge(), target)
    for edge in (one, two):
        for client in edge.clients.values():
            for event in client.take(RequestReceived):
                client.session.reject(event.request_id, RequestErrorCode.DOES_NOT_EXIST, "none")
    world.settle()
    assert code(reader) == RequestErrorCode.DOES_NOT_EXIST
    assert calls(world, one, "fetch") == calls(world, two, "fetch") == []


def test_a_publisher_answers_through_two_edges() -> None:
    """The first Edge has nothing itself: its publisher is asked, slowly."""
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.announcer(D18, NAMESPACE)
    reader = ask(two)
    event = publisher.one(RequestReceived)
    assert isinstance(event.message, Fetch)
    publisher.session.accept_fetch(event.request_id, Location(1, 0))
    world.settle()
    reader.one(RequestAccepted)
    # It gives up behind FETCH_OK, before any object: nothing of that can be seen from afar.
    publisher.session.close()
    world.settle()
    world.advance(PATIENCE)
    assert reader.egress.resets() == [reset_code(D18, "INTERNAL_ERROR")]
    assert at_rest(world)


def test_a_publisher_takes_its_time() -> None:
    """An answer may be under way for longer than its beginning may take."""
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.announcer(D18, NAMESPACE)
    reader = ask(two)
    request_id = publisher.one(RequestReceived).request_id
    head = FetchWriter(FetchHeader(request_id), D18)
    item = ObjectHeader(0, 0, 0, 128, payload_length=4)
    first = head.start + head.object_header(item)
    # Its stream is faster than FETCH_OK.
    one.plane.stream_opened(world.now, publisher.id, 6, StreamKind.FETCH, first, False)
    publisher.session.accept_fetch(request_id, Location(1, 0))
    world.settle()
    world.advance(3 * PATIENCE)
    one.plane.stream_data(world.now, publisher.id, 6, b"slow", True)
    world.settle()
    reader.one(RequestAccepted)
    assert got(reader) == [(0, 0)]
    assert at_rest(world)


def test_an_edge_that_ends_what_it_had_accepted() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    one.announcer(D18, NAMESPACE)
    reader = ask(two)
    fetching = world.port(one).bridge._fetching
    (request_id,) = fetching._outlets
    assert fetching.event(world.now, RequestCancelled(request_id=request_id))
    world.settle()
    assert code(reader) == RequestErrorCode.DOES_NOT_EXIST
    assert at_rest(world)


def test_readers_that_come_together_cost_the_network_one() -> None:
    world, _, two, _ = edges()
    readers = [two.connect(D18) for _ in range(5)]
    # Up to an object, as those who join ask: the end of a group is not known from afar.
    exact = StandaloneFetch(TRACK, Location(0, 0), Location(1, 2))
    for reader in readers:
        reader.request = reader.session.fetch(exact)
    world.settle()
    assert len(calls(world, two, "fetch")) == 1
    assert two.relay.take_fetch_joins() == 4
    for reader in readers:
        assert got(reader) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert at_rest(world)


def test_cancelled_while_it_comes() -> None:
    world, one, two, publisher = edges()
    reader = ask(two, StandaloneFetch(TRACK, Location(0, 0), Location(9, 0)))
    reader.take(RequestAccepted)
    publisher = one.announcer(D18, NAMESPACE)
    target = StandaloneFetch(track_of("slow"), Location(0, 0), Location(9, 0))
    reader = ask(two, target)
    event = publisher.one(RequestReceived)
    reader.session.cancel(reader.request)
    world.settle()
    assert calls(world, two, "unfetch")
    assert event.request_id is not None
    assert at_rest(world)


def test_cancelled_after_the_answer() -> None:
    world = World()
    one, two = world.edge(), world.edge()
    publisher = one.announcer(D18, NAMESPACE)
    reader = ask(two)
    publisher.session.accept_fetch(publisher.one(RequestReceived).request_id, Location(1, 0))
    world.settle()
    reader.session.cancel(reader.request)
    world.settle()
    assert at_rest(world)


def test_an_answer_without_its_stream() -> None:
    world, _, two, _ = edges()
    world.deaf = True
    reader = ask(two)
    reader.one(RequestAccepted)
    assert reader.egress.streams == []
    world.advance(PATIENCE)
    assert reader.egress.resets() == [reset_code(D18, "INTERNAL_ERROR")]
    assert at_rest(world)


def test_a_stream_without_its_answer() -> None:
    world, _, two, _ = edges()
    world.mute = True
    reader = ask(two, fill_timeout=60_000)
    world.advance(PATIENCE)
    assert code(reader) == RequestErrorCode.TIMEOUT
    assert at_rest(world)


def started(world: World, edge: Edge) -> tuple[Client, int, DataHeader]:
    """A FETCH of which nothing has come, its ID, and the header of its answer."""
    world.mute = world.deaf = True
    reader = ask(edge, fill_timeout=60_000)
    (fetch_id,) = world.port(edge).fetches
    header = DataHeader(
        DataKind.STREAM, 1, key_of(TRACK), fetch_id, payload_format=18, flags=FLAG_FETCH
    )
    return reader, fetch_id, header


def test_streams_that_nobody_asked_for() -> None:
    world, _, two, _ = edges()
    _, _, header = started(world, two)
    bridge = world.port(two).bridge
    for wrong in (
        header._replace(context=999),
        header._replace(track=1),
        header._replace(payload_format=16),
    ):
        assert not bridge.stream_opened(world.now, 5, wrong, b"\x05\x00", False)
    assert bridge.stream_opened(world.now, 5, header, b"\x05", False)
    assert not bridge.stream_opened(world.now, 6, header, b"\x05\x00", False)  # a second one
    assert bridge.misplaced == 4


@pytest.mark.parametrize("end", ["fin", "reset", "nonsense"])
def test_streams_that_end_before_they_begin(end: str) -> None:
    world, _, two, _ = edges()
    reader, fetch_id, header = started(world, two)
    bridge = world.port(two).bridge
    bridge.fetch_answered(
        world.now, fetch_id, 0, "", fetch_ok_data(FetchOk(None, False, Location(1, 0)))
    )
    begins = b"\x07" if end == "nonsense" else b"\x05"
    assert bridge.stream_opened(world.now, 5, header, begins, end == "fin")
    if end == "reset":
        bridge.stream_reset(world.now, 5, 0x77)
    elif end == "nonsense":
        bridge.stream_data(world.now, 5, b"\x00", False)
        assert bridge.misplaced == 1
    world.settle()
    assert len(reader.egress.resets()) == 1
    assert reader.egress.resets() != [None]
    # What comes behind is about nothing.
    bridge.fetch_answered(world.now, fetch_id, 0, "", SubscribeData())
    bridge.stream_data(world.now, 5, b"more", False)
    bridge.stream_reset(world.now, 5, 0)
    assert bridge._fetching.streams == {}


def test_a_header_in_pieces() -> None:
    world, _, two, _ = edges()
    reader, fetch_id, header = started(world, two)
    bridge = world.port(two).bridge
    assert bridge.stream_opened(world.now, 5, header, b"", False)
    for byte in b"\x05\x00":
        bridge.stream_data(world.now, 5, bytes([byte]), False)
    bridge.stream_data(world.now, 5, b"", True)
    data = fetch_ok_data(FetchOk(None, False, Location(1, 0)))
    bridge.fetch_answered(world.now, fetch_id, 0, "", data)
    world.settle()
    reader.one(RequestAccepted)
    assert got(reader) == []


def test_refused_while_its_stream_comes() -> None:
    world, _, two, _ = edges()
    reader, fetch_id, header = started(world, two)
    bridge = world.port(two).bridge
    bridge.stream_opened(world.now, 5, header, b"\x05\x00", False)
    ok = fetch_ok_data(FetchOk(None, False, Location(1, 0)))
    bridge.fetch_answered(world.now, fetch_id, 0, "", ok)
    # The stream says how it ends.
    bridge.fetch_answered(world.now, fetch_id, SubscribeCode.ENDED, "gone", SubscribeData())
    world.settle()
    assert reader.egress.resets() == [None]
    bridge.stream_data(world.now, 5, b"", True)
    world.settle()
    assert got(reader) == []


def test_an_answer_that_cannot_be_read() -> None:
    world, _, two, _ = edges()
    reader, fetch_id, header = started(world, two)
    bridge = world.port(two).bridge
    bridge.stream_opened(world.now, 5, header, b"\x05\x00", False)
    bridge.fetch_answered(world.now, fetch_id, 0, "", SubscribeData(18, b"\xff"))
    world.settle()
    assert code(reader) == RequestErrorCode.INTERNAL_ERROR
    bridge.stream_data(world.now, 5, b"more", True)  # of what nobody waits for
    world.settle()
    assert reader.take(RequestRejected) == []


# The other end


def serve(world: World, edge: Edge, data: SubscribeData, name: FullTrackName = TRACK) -> None:
    port, asker = world.ports[edge.number], world.ports[1 - edge.number]
    feed = FetchFan(port, key_of(name), asker, 5)
    port.bridge.serve_fetch(world.now, (NodeId(9), 5), name, data, feed)
    world.mute = True
    world.settle()


@pytest.mark.parametrize("data", [SubscribeData(), fetch_data(RANGE, NO_PARAMETERS, D18)])
def test_a_request_that_cannot_be_read_or_means_another_track(data: SubscribeData) -> None:
    world, one, _, _ = edges()
    world.mute = True
    serve(world, one, data, track_of("other"))
    ((_, refusal, _),) = calls(world, one, "fetch_refused")
    assert refusal == SubscribeCode.HASH_COLLISION
    assert at_rest(world)


def test_an_edge_that_takes_nothing_more() -> None:
    world, one, _, _ = edges()
    world.mute = True
    world.port(one).bridge.client.session.close()
    serve(world, one, fetch_data(RANGE, NO_PARAMETERS, D18))
    ((_, refusal, _),) = calls(world, one, "fetch_refused")
    assert refusal == SubscribeCode.LIMIT


def test_what_nobody_asks_for_any_more_is_nothing() -> None:
    world, one, _, _ = edges()
    port = world.port(one)
    port.bridge.drop_fetch(world.now, (NodeId(9), 5))
    port.bridge._fetching._stream_over((NodeId(9), 5), False)
    assert not port.bridge._fetching.event(world.now, RequestCancelled(request_id=99))
    assert at_rest(world)
