"""The seam between an Edge and what is above it: a MoQT session without bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_sdk.upstream.seam import SeamEnd
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import PropertyTypeD18, RequestErrorCode
from laps_wire.moqt.data import StreamKind
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import Goaway, StandaloneFetch
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import (
    DataStreamOpened,
    Event,
    GoawayReceived,
    Kind,
    OpenStream,
    ResetStream,
    Role,
    SendData,
    Session,
    SessionConfig,
    SetupReceived,
    StopSending,
)
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import Namespace
from testkit.edge_net import track_of
from testkit.properties import examples

TRACKS = [track_of("zero"), track_of("one")]
PROPERTIES = (KeyValue(PropertyTypeD18.DYNAMIC_GROUPS, 1),)
FORWARD = Parameters(forward=False)

End: TypeAlias = Session | SeamEnd


class Pair:
    """Two ends of a session: the seam's, or two real ones back to back."""

    def __init__(self) -> None:
        self.ends: tuple[End, End] = (SeamEnd(Role.CLIENT), SeamEnd(Role.SERVER))

    def carry(self) -> list[list[Event]]:
        for sender, receiver in (self.ends, self.ends[::-1]):
            assert isinstance(sender, SeamEnd)
            assert isinstance(receiver, SeamEnd)
            outbox, sender.outbox = sender.outbox, []
            for event in outbox:
                receiver.receive(event)
        return [end.poll_events() for end in self.ends]


class WirePair(Pair):
    """The same over bytes in memory."""

    def __init__(self) -> None:
        self.ends = (
            Session(SessionConfig(draft=Draft.D18, role=Role.CLIENT)),
            Session(SessionConfig(draft=Draft.D18, role=Role.SERVER)),
        )
        self.opened = [0, 0]
        self.carry()

    def carry(self) -> list[list[Event]]:
        for index in (0, 1):
            sender, receiver = self.ends[index], self.ends[1 - index]
            assert isinstance(sender, Session)
            assert isinstance(receiver, Session)
            for action in sender.poll_transmit():
                match action:
                    case OpenStream(stream, unidirectional):
                        self.opened[index] += 1
                        number = self.opened[index] << 2 | unidirectional << 1 | index
                        sender.bind_stream(stream, number)
                    case SendData(stream, data, fin):
                        receiver.receive_stream_data(sender.stream_id(stream), data, fin)
                    case ResetStream(stream, code):
                        receiver.receive_stream_reset(sender.stream_id(stream), code)
                    case StopSending(stream, code):
                        receiver.receive_stop_sending(sender.stream_id(stream), code)
                    case _:
                        receiver.receive_connection_lost(action.code, action.reason)
        found = [end.poll_events() for end in self.ends]
        return [[plain(event) for event in events if is_seen(event)] for events in found]


def is_seen(event: Event) -> bool:
    return not isinstance(event, SetupReceived | DataStreamOpened)


def plain(event: Event) -> Event:
    """An event without what only bytes need: GOAWAY's request id."""
    if isinstance(event, GoawayReceived):
        message = event.message
        return GoawayReceived(message=Goaway(message.new_session_uri, message.timeout, None))
    return event


UPDATES = dict.fromkeys((Kind.SUBSCRIBE, Kind.PUBLISH), Parameters(forward=True))

Command: TypeAlias = Callable[[Any, int], object]

COMMANDS: dict[str, Command] = {
    "subscribe": lambda end, n: end.subscribe(TRACKS[n % 2], Parameters(subscriber_priority=n)),
    "publish": lambda end, n: end.publish(TRACKS[n % 2], n % 3, FORWARD, PROPERTIES),
    "fetch": lambda end, n: end.fetch(
        StandaloneFetch(TRACKS[n % 2], Location(n, 0), Location(2, 1))
    ),
    "status": lambda end, n: end.track_status(TRACKS[n % 2]),
    "namespace": lambda end, n: end.publish_namespace(
        Namespace.of((b"a", b".", b".session")[n % 3])
    ),
    "update": lambda end, n: end.update(n, UPDATES.get(end.request_kind(n), NO_PARAMETERS)),
    "accept": lambda end, n: end.accept(n),
    "accept_subscribe": lambda end, n: end.accept_subscribe(
        n, n % 3, Parameters(largest_object=Location(n, 1)), PROPERTIES
    ),
    "accept_fetch": lambda end, n: end.accept_fetch(n, Location(9, 9), end_of_track=True),
    "reject": lambda end, n: end.reject(n, RequestErrorCode.INTERNAL_ERROR, "no", retry_interval=n),
    "cancel": lambda end, n: end.cancel(n),
    "done": lambda end, n: end.publish_done(n, 0, 0, "over"),
    "fetch_ended": lambda end, n: end.fetch_ended(n),
    "goaway": lambda end, n: end.goaway("", n),
    "close": lambda end, n: end.close(n, "closed"),
}
MANY = [*COMMANDS] * 3 + ["subscribe", "publish", "accept", "accept_subscribe", "update"] * 6
RARE = {"goaway", "close"}
STEPS = st.lists(
    st.tuples(
        st.sampled_from([name for name in MANY if name not in RARE] + sorted(RARE)),
        st.integers(0, 1),
        st.integers(0, 9),
        st.booleans(),
    ),
    max_size=40,
)


def command(pair: Pair, name: str, end: int, number: int) -> tuple[object, bool]:
    if name == "fetch_ended" and number not in pair.ends[end].open_requests:
        return None, False  # a session tells what is over from what never was
    try:
        return COMMANDS[name](pair.ends[end], number), False
    except StateError:
        return None, True


@settings(deadline=None, max_examples=examples(300))
@given(STEPS)
def test_the_seam_behaves_like_two_sessions_back_to_back(
    steps: list[tuple[str, int, int, bool]],
) -> None:
    seam, wire = Pair(), WirePair()
    for name, end, number, carry in steps:
        assert command(seam, name, end, number) == command(wire, name, end, number), name
        if carry:
            assert seam.carry() == wire.carry()
        for ours, theirs in zip(seam.ends, wire.ends, strict=True):
            assert ours.closed == theirs.closed
            assert ours.open_requests == theirs.open_requests
            for request_id in theirs.open_requests:
                assert ours.request_state(request_id) is theirs.request_state(request_id)
                assert ours.request_kind(request_id) is theirs.request_kind(request_id)


def test_nothing_above_an_edge_subscribes_to_namespaces() -> None:
    end = SeamEnd(Role.SERVER)
    for forbidden in (end.namespace, end.namespace_done):
        with pytest.raises(StateError):
            forbidden(0, Namespace.of(b"a"))
    with pytest.raises(StateError):
        end.publish_blocked(0, TRACKS[0])


def test_only_what_a_session_says_about_requests_crosses() -> None:
    event = DataStreamOpened(stream_id=3, kind=StreamKind.SUBGROUP, data=b"", fin=True)
    with pytest.raises(StateError, match="DataStreamOpened"):
        SeamEnd(Role.SERVER).receive(event)
