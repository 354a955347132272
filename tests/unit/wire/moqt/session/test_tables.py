"""The tables of streams and requests, and the memory of what is over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError, ProtocolViolation, StateError
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.messages import (
    Fetch,
    Publish,
    PublishNamespace,
    RelativeJoiningFetch,
    RequestUpdate,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeOk,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    CloseSession,
    Kind,
    OpenStream,
    ResetStream,
    Role,
    SendData,
    State,
    StopSending,
    StreamRef,
)
from laps_wire.moqt.session.events import RequestMessage
from laps_wire.moqt.session.state import Actor, Signal
from laps_wire.moqt.session.tables import (
    MAX_FORGOTTEN,
    Purpose,
    Recent,
    Request,
    Requests,
    Stream,
    Streams,
    is_unidirectional,
    opened_by,
    prefix_of,
    track_of,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace


def incoming(streams: Streams, stream_id: int) -> Stream:
    stream = streams.incoming(stream_id)
    assert stream is not None
    return stream


def test_ids_tell_who_opened_a_stream_and_how_wide_it_is() -> None:
    # RFC 9000, table 1
    assert [opened_by(i) for i in range(4)] == [Role.CLIENT, Role.SERVER] * 2
    assert [is_unidirectional(i) for i in range(4)] == [False, False, True, True]


# Our streams


def test_a_stream_of_ours_gets_its_id_from_the_shell() -> None:
    streams = Streams(Role.CLIENT)
    stream = streams.open(Purpose.REQUEST, unidirectional=False)
    streams.send(stream, b"hello")
    assert streams.drain() == [
        OpenStream(stream.ref, False),
        SendData(stream.ref, b"hello", False),
    ]
    with pytest.raises(StateError, match="not bound"):
        streams.stream_id(stream.ref)
    streams.bind(stream.ref, 4)
    assert streams.stream_id(stream.ref) == 4
    assert streams.incoming(4) is stream
    assert streams.find(4) is stream
    assert streams.find(8) is None


def test_a_unidirectional_stream_of_ours_has_no_half_of_the_peer() -> None:
    streams = Streams(Role.SERVER)
    stream = streams.open(Purpose.CONTROL, unidirectional=True)
    assert (stream.sending, stream.receiving) == (True, False)
    streams.bind(stream.ref, 3)
    streams.finish(stream)
    assert streams.drain()[-1] == SendData(stream.ref, b"", True)
    assert len(streams) == 0


@pytest.mark.parametrize(
    ("stream_id", "words"),
    [(5, "a CLIENT opens"), (2, "wrong number of directions"), (0, "one of them is taken")],
)
def test_a_wrong_binding_is_refused(stream_id: int, words: str) -> None:
    streams = Streams(Role.CLIENT)
    first = streams.open(Purpose.REQUEST, unidirectional=False)
    streams.bind(first.ref, 0)
    second = streams.open(Purpose.REQUEST, unidirectional=False)
    with pytest.raises(StateError, match=words):
        streams.bind(second.ref, stream_id)
    with pytest.raises(StateError, match="taken"):
        streams.bind(first.ref, 8)
    with pytest.raises(StateError, match="taken"):
        streams.bind(StreamRef(99), 8)


def test_bytes_on_an_unbound_stream_are_the_shells_mistake() -> None:
    with pytest.raises(StateError, match="bind_stream was not called"):
        Streams(Role.CLIENT).incoming(0)


# The peer's streams


def test_a_stream_of_the_peer_is_noted_once() -> None:
    streams = Streams(Role.SERVER)
    bidi, uni = incoming(streams, 0), incoming(streams, 2)
    assert streams.incoming(0) is bidi
    assert (bidi.sending, bidi.receiving) == (True, True)
    assert (uni.sending, uni.receiving) == (False, True)
    assert streams.stream_id(bidi.ref) == 0
    assert (bidi.purpose, len(streams)) == (Purpose.UNKNOWN, 2)


# Ends


def test_a_half_ends_once() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    streams.send(stream, b"bye", fin=True)
    streams.send(stream, b"more")
    streams.finish(stream)
    streams.reset(stream, 1)
    assert streams.drain() == [SendData(stream.ref, b"bye", True)]
    assert (stream.sending, stream.receiving) == (False, True)


def test_nothing_is_not_sent() -> None:
    streams = Streams(Role.SERVER)
    streams.send(incoming(streams, 0), b"")
    assert streams.is_idle
    assert streams.drain() == []


def test_reset_and_stop_end_both_directions() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    stream.buffer += b"half a message"
    streams.reset(stream, 7)
    streams.stop(stream, 8)
    assert not streams.is_idle
    assert streams.drain() == [ResetStream(stream.ref, 7), StopSending(stream.ref, 8)]
    assert (stream.purpose, bytes(stream.buffer)) == (Purpose.IGNORED, b"")
    streams.received_all(stream)
    streams.stop(stream, 8)
    assert streams.drain() == []


def test_a_stream_that_is_over_resolves_for_one_more_poll() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    streams.received_all(stream)
    assert len(streams) == 1
    streams.finish(stream)
    assert len(streams) == 0
    assert streams.drain() == [SendData(stream.ref, b"", True)]
    assert streams.stream_id(stream.ref) == 0
    assert streams.drain() == []
    with pytest.raises(StateError):
        streams.stream_id(stream.ref)
    assert (streams.find(0), streams.incoming(0)) == (None, None)


def test_the_peers_half_may_end_last() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    streams.finish(stream)
    streams.drain()
    streams.received_all(stream)
    streams.drain()
    assert streams.find(0) is None


def test_a_stream_handed_over_is_not_new_again() -> None:
    streams = Streams(Role.SERVER)
    streams.hand_over(incoming(streams, 2))
    assert (streams.incoming(2), len(streams)) == (None, 0)


def test_the_memory_of_streams_is_bounded() -> None:
    streams = Streams(Role.SERVER)
    for number in range(MAX_FORGOTTEN + 1):
        streams.hand_over(incoming(streams, 4 * number + 2))
    assert streams.incoming(6) is None
    assert streams.incoming(2) is not None


def test_the_close_comes_last() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    streams.send(stream, b"x")
    streams.close(3, "why")
    assert streams.drain() == [SendData(stream.ref, b"x"), CloseSession(3, "why")]


NS = Namespace.of(b"a", b"b")
TRACK, OTHER = FullTrackName(NS, b"one"), FullTrackName(NS, b"two")
RANGE = StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))


def make(message: RequestMessage, *, ours: bool = True, draft: Draft = Draft.D16) -> Request:
    return Request(draft, message, ours=ours)


# What a message names


@pytest.mark.parametrize(
    ("message", "track", "prefix", "kind"),
    [
        (Subscribe(0, TRACK), TRACK, None, Kind.SUBSCRIBE),
        (Publish(0, TRACK, 1), TRACK, None, Kind.PUBLISH),
        (TrackStatus(0, TRACK), TRACK, None, Kind.TRACK_STATUS),
        (Fetch(0, RANGE), TRACK, None, Kind.FETCH),
        (Fetch(0, RelativeJoiningFetch(2, 1)), None, None, Kind.FETCH),
        (PublishNamespace(0, NS), None, None, Kind.PUBLISH_NAMESPACE),
        (SubscribeNamespace(0, NS), None, NS, Kind.SUBSCRIBE_NAMESPACE),
        (SubscribeTracks(0, NS), None, NS, Kind.SUBSCRIBE_TRACKS),
    ],
)
def test_what_a_request_is_about(
    message: RequestMessage, track: FullTrackName | None, prefix: Namespace | None, kind: Kind
) -> None:
    assert track_of(message) == track
    assert prefix_of(message) == prefix
    request = make(message)
    assert (request.id, request.kind, request.track, request.prefix) == (0, kind, track, prefix)


@pytest.mark.parametrize(
    ("message", "ours", "us", "we_publish"),
    [
        (Subscribe(0, TRACK), True, Actor.REQUESTER, False),
        (Subscribe(0, TRACK), False, Actor.RESPONDER, True),
        (Publish(0, TRACK, 1), True, Actor.REQUESTER, True),
        (Publish(0, TRACK, 1), False, Actor.RESPONDER, False),
    ],
)
def test_who_we_are_in_it(message: RequestMessage, ours: bool, us: Actor, we_publish: bool) -> None:
    request = make(message, ours=ours)
    assert (request.us, request.we_publish, request.is_subscription) == (us, we_publish, True)


def test_parameters_of_a_subscription_are_kept_until_changed() -> None:
    largest = SubscriptionFilter(FilterType.LARGEST_OBJECT)
    request = make(Subscribe(0, TRACK, Parameters(forward=False, subscription_filter=largest)))
    assert (request.forward, request.filter) == (False, largest)
    request.note_parameters(RequestUpdate(2, 0, Parameters(forward=True)))
    assert (request.forward, request.filter) == (True, largest)
    following = SubscriptionFilter(FilterType.NEXT_GROUP_START)
    request.note_parameters(RequestUpdate(4, 0, Parameters(subscription_filter=following)))
    assert (request.forward, request.filter) == (True, following)
    request.note_parameters(object())
    assert (request.forward, request.filter) == (True, following)
    # FORWARD in a SUBSCRIBE_NAMESPACE is about the subscriptions that follow from it.
    assert make(SubscribeNamespace(0, NS, parameters=Parameters(forward=False))).forward


def test_a_suffix_follows_the_prefix() -> None:
    request = make(SubscribeNamespace(0, NS))
    assert request.join(Namespace.of(b"c")) == Namespace.of(b"a", b"b", b"c")
    assert make(PublishNamespace(0, NS)).join(NS) == NS
    with pytest.raises(EncodeError, match="33 fields"):
        request.join(Namespace((b"x",) * 31))


# The two states


def test_our_commands_move_both_states() -> None:
    request = make(Subscribe(0, TRACK), ours=False)
    request.apply_ours(Signal.OK)
    assert (request.state, request.shadow, request.over) == (
        State.ESTABLISHED,
        State.ESTABLISHED,
        False,
    )
    with pytest.raises(StateError, match="SUBSCRIBE 0 is established: its responder cannot 'ok'"):
        request.apply_ours(Signal.OK)


def test_the_peer_cannot_know_yet_that_we_ended_it() -> None:
    request = make(Subscribe(0, TRACK))
    request.apply_ours(Signal.CANCEL)
    assert (request.state, request.shadow) == (State.TERMINATED, State.PENDING)
    assert request.over
    assert request.apply_theirs(Signal.OK) is False
    assert request.apply_theirs(Signal.DONE) is False
    assert (request.state, request.shadow) == (State.TERMINATED, State.TERMINATED)
    with pytest.raises(ProtocolViolation, match="terminated: its responder cannot 'done'"):
        request.apply_theirs(Signal.DONE)


def test_what_the_peer_ended_is_over_for_both() -> None:
    request = make(Subscribe(0, TRACK))
    assert request.apply_theirs(Signal.ERROR)
    assert (request.state, request.shadow) == (State.TERMINATED, State.TERMINATED)


def test_the_end_of_data_is_ours_to_see() -> None:
    request = make(Fetch(0, RANGE))
    request.apply_ours(Signal.DATA_END)
    assert (request.state, request.shadow) == (State.DATA_ENDED, State.PENDING)
    assert request.apply_theirs(Signal.OK)
    # Over for us, but the peer may still answer an update of ours.
    assert (request.state, request.shadow) == (State.TERMINATED, State.ESTABLISHED)
    assert request.apply_theirs(Signal.UPDATE_OK) is False


def test_a_reply_behind_the_end_of_data_is_seen_by_the_peer() -> None:
    request = make(Fetch(0, RANGE), ours=False)
    request.apply_ours(Signal.DATA_END)
    request.apply_ours(Signal.OK)
    assert (request.state, request.shadow) == (State.TERMINATED, State.ESTABLISHED)
    assert request.apply_theirs(Signal.CANCEL) is False


# The tables


def test_requests_are_found_until_they_end() -> None:
    requests = Requests(2)
    ours, theirs = make(Subscribe(0, TRACK)), make(Subscribe(1, TRACK), ours=False)
    for request in (ours, theirs):
        requests.add(request)
    assert (len(requests), requests.theirs, list(requests)) == (2, 1, [ours, theirs])
    assert requests.subscriptions(TRACK, we_publish=False) == [ours]
    assert requests.subscriptions(TRACK, we_publish=True) == [theirs]
    assert requests.subscriptions(OTHER, we_publish=True) == []
    requests.end(theirs)
    assert (len(requests), requests.theirs, requests.get(1)) == (1, 0, None)
    assert requests.ended.get(1) is theirs
    assert requests.subscriptions(TRACK, we_publish=True) == []
    requests.end(ours)
    assert requests.subscriptions(TRACK, we_publish=False) == []


def test_other_requests_are_no_subscriptions() -> None:
    requests = Requests(2)
    status = make(TrackStatus(0, TRACK))
    requests.add(status)
    assert requests.subscriptions(TRACK, we_publish=False) == []
    requests.end(status)
    assert requests.ended.get(0) is status


def test_an_alias_stands_for_one_track_in_each_direction() -> None:
    requests = Requests(4)
    published = make(Publish(1, TRACK, 7), ours=False)
    requests.add(published)
    assert requests.alias_holder(7, OTHER, we_publish=False) is published
    assert requests.alias_holder(7, TRACK, we_publish=False) is None
    assert requests.alias_holder(7, OTHER, we_publish=True) is None
    assert requests.alias_holder(8, OTHER, we_publish=False) is None
    subscribed = make(Subscribe(0, OTHER))
    requests.add(subscribed)
    subscribed.note_parameters(SubscribeOk(0, 8))
    requests.add_alias(subscribed, 8)
    assert requests.alias_holder(8, TRACK, we_publish=False) is subscribed
    same = make(Subscribe(2, OTHER))
    requests.add(same)
    requests.add_alias(same, 8)
    requests.end(subscribed)
    assert requests.alias_holder(8, TRACK, we_publish=False) is same
    requests.end(same)
    requests.end(published)
    assert requests.alias_holder(7, OTHER, we_publish=False) is None
    assert requests.alias_holder(8, TRACK, we_publish=False) is None


@pytest.mark.parametrize(
    ("prefix", "overlaps"),
    [
        (Namespace(), True),
        (Namespace.of(b"a"), True),
        (NS, True),
        (Namespace.of(b"a", b"b", b"c"), True),
        (Namespace.of(b"a", b"c"), False),
        (Namespace.of(b"b"), False),
    ],
)
def test_prefixes_overlap_if_one_begins_the_other(prefix: Namespace, overlaps: bool) -> None:
    requests = Requests(4)
    held = make(SubscribeNamespace(1, NS), ours=False)
    requests.add(held)
    found = requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, prefix, None)
    assert found is (held if overlaps else None)
    assert requests.overlapping(Kind.SUBSCRIBE_TRACKS, prefix, None) is None
    assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, prefix, held) is None


def test_a_prefix_that_an_update_asks_for_counts() -> None:
    requests = Requests(4)
    held = make(SubscribeNamespace(1, NS), ours=False)
    held.prefixes[3] = Namespace.of(b"x")
    requests.add(held)
    for prefix in (NS, Namespace.of(b"x", b"y")):
        assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, prefix, None) is held
        assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, prefix, held) is None
    assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, Namespace.of(b"y"), None) is None


def test_our_own_prefixes_do_not_count() -> None:
    requests = Requests(4)
    requests.add(make(SubscribeNamespace(0, NS)))
    assert requests.overlapping(Kind.SUBSCRIBE_NAMESPACE, NS, None) is None


def test_all_is_forgotten_with_the_session() -> None:
    requests = Requests(4)
    requests.add(make(Publish(1, TRACK, 7), ours=False))
    requests.clear()
    assert (len(requests), requests.theirs) == (0, 0)
    assert requests.subscriptions(TRACK, we_publish=False) == []
    assert requests.alias_holder(7, OTHER, we_publish=False) is None


def test_not_every_request_has_a_stream() -> None:
    request = make(Subscribe(0, TRACK))
    with pytest.raises(StateError, match="SUBSCRIBE 0 has no stream of its own"):
        _ = request.own_stream
    request = make(Subscribe(0, TRACK), draft=Draft.D18)
    request.stream = Streams(Role.CLIENT).open(Purpose.REQUEST, unidirectional=False)
    assert request.own_stream is request.stream


def test_the_oldest_is_forgotten() -> None:
    recent: Recent[str] = Recent(2)
    recent.put(1, "a")
    recent.put(2, "b")
    recent.put(3, "c")
    assert [recent.get(key) for key in (1, 2, 3)] == [None, "b", "c"]


def test_what_is_put_again_is_young_again() -> None:
    recent: Recent[str] = Recent(2)
    recent.put(1, "a")
    recent.put(2, "b")
    recent.put(1, "z")
    recent.put(3, "c")
    assert [recent.get(key) for key in (1, 2, 3)] == ["z", None, "c"]


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 5))
def test_it_holds_the_latest_and_no_more(keys: list[int], limit: int) -> None:
    recent: Recent[int] = Recent(limit)
    for age, key in enumerate(keys):
        recent.put(key, age)
        assert len(recent) <= limit
    latest = list(dict.fromkeys(reversed(keys)))[:limit]
    for key in range(10):
        assert (recent.get(key) is not None) == (key in latest)
