"""Records: what they say about themselves."""

from __future__ import annotations

from typing import Any

from laps_sdk.edge.records import Client, FetchJob, Receiver, Source, Stage, Track
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import Subscription
from laps_wire.moqt.messages import Fetch, StandaloneFetch
from laps_wire.moqt.session import Role, Session, SessionConfig
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.edge_net import TRACK


def client(number: int = 3, **info: Any) -> Client:
    wire = Session(SessionConfig(draft=Draft.D18, role=Role.SERVER))
    known = SessionInfo(peer_address="", draft=Draft.D18, **info)
    return Client(id=number, wire=wire, info=known, opened=0.0)


def test_a_client_is_usable_between_setup_and_goaway() -> None:
    peer = client()
    assert peer.draft is Draft.D18
    seen = []
    for ready, leaving, closed in (
        (False, False, False),
        (True, False, False),
        (True, True, False),
        (True, False, True),
    ):
        peer.ready, peer.leaving, peer.closed = ready, leaving, closed
        seen.append(peer.usable)
    assert seen == [False, True, False, False]


def test_a_track_and_its_sources() -> None:
    track = Track(number=1, name=TRACK)

    def state() -> tuple[bool, bool, bool]:
        return track.pending, track.established, track.pushed

    assert state() == (False, False, False)
    source = Source(client=client(), track=track, pushed=True)
    track.sources[3] = source
    assert state() == (True, False, False)
    source.stage = Stage.ESTABLISHED
    assert source.live
    assert state() == (False, True, True)
    source.stage = Stage.DONE
    assert state() == (False, False, False)


def test_keys_in_the_plane() -> None:
    peer = client()
    track = Track(number=1, name=TRACK)
    receiver = Receiver(client=peer, track=track, pushed=False, request_id=8)
    assert receiver.subscription == Subscription(3, 8)
    target = StandaloneFetch(TRACK, Location(0, 0), Location(1, 0))
    job = FetchJob(client=peer, request_id=10, message=Fetch(10, target))
    assert job.subscription == Subscription(3, 10)


def test_records_are_themselves_alone() -> None:
    first, second = Track(number=1, name=TRACK), Track(number=1, name=TRACK)
    assert first != second
    assert len({first, second}) == 2


def state_of(receiver: Receiver) -> tuple[list[Source], bool, bool]:
    return receiver.sources, receiver.expects, receiver.fed


def test_a_session_with_relays_behind_it_does_not_feed_itself() -> None:
    track = Track(number=1, name=TRACK)
    network, other = client(8, peering=True), client(9)
    source = track.sources[8] = Source(client=network, track=track, pushed=False)
    receiver = Receiver(client=network, track=track, pushed=False, request_id=1)
    track.receivers[8] = receiver
    assert (list(source.receivers), source.unused) == ([], True)
    source.stage = Stage.ESTABLISHED
    assert state_of(receiver) == ([], False, False)
    # Others are fed by it, and feed it.
    listener = Receiver(client=other, track=track, pushed=False, request_id=1)
    track.receivers[9] = listener
    assert (list(source.receivers), source.unused) == ([listener], False)
    assert state_of(listener) == ([source], False, True)
    second = track.sources[9] = Source(client=other, track=track, pushed=True)
    assert state_of(receiver) == ([second], True, False)
    # A client that publishes what it receives is nobody special.
    assert (list(second.receivers), second.unused) == ([receiver, listener], False)
    assert state_of(listener) == ([source, second], True, True)


def test_aliases() -> None:
    track = Track(number=7, name=TRACK)
    assert client().alias(track) == 7
    named = client(alias=lambda name: len(name.name))
    receiver = Receiver(client=named, track=track, pushed=False, request_id=1)
    assert receiver.alias == len(TRACK.name)
