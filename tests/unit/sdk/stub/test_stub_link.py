"""What a Stub and its parent tell each other."""

from __future__ import annotations

from typing import Any, cast

import pytest

from laps_sdk.peering.links import ForeignPeerWire
from laps_sdk.upstream.bodies import subscribe_data
from laps_sdk.upstream.stub_link import STUB, StubLimits, StubLink
from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.moqt.parameters import NO_PARAMETERS
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import (
    AnnounceAdvertise,
    AnnounceInfo,
    AnnounceKind,
    AnnounceWithdraw,
    Bases,
    Stamp,
    SubscribeAdvertise,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdraw,
    SyncBegin,
    SyncEnd,
)
from laps_wire.peering.session import (
    AnnouncesAdvertised,
    AnnouncesWithdrawn,
    ControlStreamLost,
    ControlStreamMoved,
    Event,
    SubscribeAnswered,
    SubscribesAdvertised,
    SubscribesWithdrawn,
    SyncBegan,
    SyncEnded,
    SyncRequested,
)
from testkit.bridges import HASHER, key_of
from testkit.edge_net import TRACK, track_of

PARENT = NodeId(20)
KEY = key_of(TRACK)
DATA = subscribe_data(TRACK, NO_PARAMETERS)


class End:
    """A link, its session and its owner in one."""

    def __init__(self, source: NodeId, **limits: int) -> None:
        self.sent: list[Any] = []
        self.calls: list[tuple[Any, ...]] = []
        self.over = False
        self.link = StubLink(
            self,
            cast("ForeignPeerWire", self),
            HASHER,
            source=source,
            epoch=3,
            limits=StubLimits(**limits),
        )

    def take(self) -> list[tuple[Any, ...]]:
        calls, self.calls = self.calls, []
        return calls

    def give(self, *events: Event) -> list[tuple[Any, ...]]:
        for event in events:
            self.link.event(1.0, event)
        return self.take()

    # PeerWire

    def send(self, now: float, message: Any) -> None:
        if self.over:
            raise StateError("over")
        self.sent.append(message)

    def close(self, now: float, code: int = 0, reason: str = "") -> None:
        raise AssertionError("a link does not close")

    # LinkOwner

    def subscribed(
        self, now: float, link: StubLink, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        self.calls.append(("subscribed", name))

    def unsubscribed(self, now: float, link: StubLink, key: int) -> None:
        self.calls.append(("unsubscribed", key))

    def responded(self, now: float, link: StubLink, response: SubscribeResponse) -> None:
        self.calls.append(("responded", response.code))

    def announced(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        self.calls.append(("announced", kind, name))

    def retracted(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        self.calls.append(("retracted", kind, name))


def carry(sender: End, receiver: End) -> list[tuple[Any, ...]]:
    """Everything that one end said, to the other one."""
    sent, sender.sent = sender.sent, []
    for message in sent:
        event: Event
        match message:
            case SubscribeAdvertise():
                event = SubscribesAdvertised(subscribes=message.subscribes)
            case SubscribeWithdraw():
                event = SubscribesWithdrawn(subscribes=message.subscribes)
            case AnnounceAdvertise():
                event = AnnouncesAdvertised(announces=message.announces)
            case AnnounceWithdraw():
                event = AnnouncesWithdrawn(announces=message.announces)
            case SubscribeResponse():
                event = SubscribeAnswered(response=message)
            case SyncBegin():
                event = SyncBegan(bases=message.bases)
            case SyncEnd():
                event = SyncEnded(bases=message.bases)
            case _:
                raise AssertionError(message)
        receiver.link.event(1.0, event)
    return receiver.take()


def info(name: FullTrackName = TRACK, *, source: NodeId = STUB, **changes: Any) -> SubscribeInfo:
    fields = name.namespace.fields
    values: dict[str, Any] = {
        "source": source,
        "stamp": Stamp(1, 1),
        "element_hashes": HASHER.elements(fields),
        "name_hash": HASHER.name(name.name),
        "full_name_hash": key_of(name),
        "data": subscribe_data(name, NO_PARAMETERS),
    }
    return SubscribeInfo(**{**values, **changes})


@pytest.fixture
def stub() -> End:
    return End(STUB)


@pytest.fixture
def parent() -> End:
    return End(PARENT)


def test_a_subscribe_and_its_answer(stub: End, parent: End) -> None:
    stub.link.subscribe(1.0, KEY, TRACK, DATA)
    assert stub.sent[0].subscribes[0].source == STUB
    assert carry(stub, parent) == [("subscribed", TRACK)]
    assert list(parent.link.takers) == [KEY]
    parent.link.respond(1.0, KEY, SubscribeCode.ACCEPTED, "", SubscribeData())
    assert parent.sent[0].responder == PARENT
    assert carry(parent, stub) == [("responded", 0)]
    parent.link.respond(1.0, KEY, SubscribeCode.ENDED, "x" * 5000, SubscribeData(18, bytes(20_000)))
    assert len(parent.sent[0].reason) <= 1024
    assert parent.sent[0].data == SubscribeData()
    assert carry(parent, stub) == [("responded", 8)]
    stub.link.unsubscribe(1.0, KEY)
    stub.link.unsubscribe(1.0, KEY)
    assert not stub.link.subscribed_keys
    assert carry(stub, parent) == [("unsubscribed", KEY)]
    parent.link.respond(1.0, KEY, SubscribeCode.ENDED, "", SubscribeData())
    assert parent.sent == []


def test_a_parent_is_the_source_of_what_it_asks_a_stub_for(stub: End, parent: End) -> None:
    parent.link.subscribe(1.0, KEY, TRACK, DATA)
    assert parent.sent[0].subscribes[0].source == PARENT
    assert carry(parent, stub) == [("subscribed", TRACK)]


def test_an_answer_to_an_older_question_is_dropped(stub: End, parent: End) -> None:
    stub.link.subscribe(1.0, KEY, TRACK, DATA)
    carry(stub, parent)
    parent.link.respond(1.0, KEY, SubscribeCode.POLICY, "no", SubscribeData())
    stub.link.subscribe(1.0, KEY, TRACK, DATA)
    assert carry(parent, stub) == []
    # The newer one is asked anew.
    assert carry(stub, parent) == [("subscribed", TRACK)]
    stub.link.unsubscribe(1.0, KEY)
    parent.link.respond(1.0, KEY, SubscribeCode.POLICY, "no", SubscribeData())
    assert carry(parent, stub) == []


def test_the_same_subscribe_twice_is_one(parent: End) -> None:
    assert parent.give(SubscribesAdvertised(subscribes=(info(),))) == [("subscribed", TRACK)]
    assert parent.give(SubscribesAdvertised(subscribes=(info(),))) == []
    again = info(stamp=Stamp(1, 2))
    assert parent.give(SubscribesAdvertised(subscribes=(again,))) == [("subscribed", TRACK)]


def test_an_answer_about_another_name_ends_the_session(stub: End) -> None:
    stub.link.subscribe(1.0, KEY, TRACK, DATA)
    stamp = stub.sent[0].subscribes[0].stamp
    response = SubscribeResponse(STUB, KEY, stamp, PARENT, SubscribeCode.ACCEPTED)
    with pytest.raises(ProtocolViolation, match="another name"):
        stub.give(SubscribeAnswered(response=response))


@pytest.mark.parametrize(
    "wrong",
    [
        info(data=SubscribeData()),
        info(data=subscribe_data(track_of("other"), NO_PARAMETERS)),
    ],
)
def test_a_name_that_does_not_fit_its_hash_is_refused(parent: End, wrong: SubscribeInfo) -> None:
    assert parent.give(SubscribesAdvertised(subscribes=(wrong,))) == [("unsubscribed", KEY)]
    assert parent.sent[0].code == SubscribeCode.HASH_COLLISION
    assert not parent.link.takers


@pytest.mark.parametrize(("own", "source"), [(PARENT, PARENT), (STUB, STUB)])
def test_sources_are_checked(own: NodeId, source: NodeId) -> None:
    end = End(own)
    with pytest.raises(ProtocolViolation, match="gave the source"):
        end.give(SubscribesAdvertised(subscribes=(info(source=source),)))


def test_announces(stub: End, parent: End) -> None:
    space = track_of("")
    stub.link.announce(1.0, AnnounceKind.NAMESPACE, space)
    stub.link.announce(1.0, AnnounceKind.TRACK, TRACK)
    assert carry(stub, parent) == [
        ("announced", AnnounceKind.NAMESPACE, space),
        ("announced", AnnounceKind.TRACK, TRACK),
    ]
    stub.link.announce(1.0, AnnounceKind.TRACK, TRACK)
    assert carry(stub, parent) == []
    stub.link.retract(1.0, AnnounceKind.TRACK, TRACK)
    stub.link.retract(1.0, AnnounceKind.TRACK, TRACK)
    assert carry(stub, parent) == [("retracted", AnnounceKind.TRACK, TRACK)]


def test_names_that_the_parent_cannot_use(stub: End, parent: End) -> None:
    nameless = FullTrackName(Namespace(), b"")
    stub.link.announce(1.0, AnnounceKind.NAMESPACE, nameless)
    assert carry(stub, parent) == []
    false = AnnounceInfo(
        STUB, Stamp(1, 1), AnnounceKind.TRACK, HASHER.elements(TRACK.namespace.fields), 5, 6, TRACK
    )
    assert parent.give(AnnouncesAdvertised(announces=(false,))) == []
    stub.link.retract(1.0, AnnounceKind.NAMESPACE, nameless)
    assert carry(stub, parent) == []


def test_a_synchronisation_repeats_everything_and_drops_the_rest(stub: End, parent: End) -> None:
    names = [track_of(str(number)) for number in range(3)]
    for name in names:
        stub.link.announce(1.0, AnnounceKind.TRACK, name)
        stub.link.subscribe(1.0, key_of(name), name, subscribe_data(name, NO_PARAMETERS))
    carry(stub, parent)
    # What was under way was lost: the parent does not know that one has gone.
    stub.link.retract(1.0, AnnounceKind.TRACK, names[0])
    stub.link.unsubscribe(1.0, key_of(names[0]))
    stub.sent.clear()
    stub.give(SyncRequested(bases=Bases.ANNOUNCES | Bases.SUBSCRIBES))
    assert carry(stub, parent) == [
        ("retracted", AnnounceKind.TRACK, names[0]),
        ("unsubscribed", key_of(names[0])),
    ]
    # Only one base, and something that changes meanwhile.
    stub.give(SyncRequested(bases=Bases.SUBSCRIBES))
    assert [type(message) for message in stub.sent] == [SyncBegin, SubscribeAdvertise, SyncEnd]
    parent.give(SyncBegan(bases=Bases.SUBSCRIBES))
    parent.give(SyncBegan(bases=Bases.ANNOUNCES))
    stub.sent.clear()
    stub.link.unsubscribe(1.0, key_of(names[1]))
    stub.link.retract(1.0, AnnounceKind.TRACK, names[1])
    assert len(carry(stub, parent)) == 2
    assert parent.give(SyncEnded(bases=Bases.SUBSCRIBES)) == [("unsubscribed", key_of(names[2]))]
    stub.give(SyncRequested(bases=Bases.ANNOUNCES))
    assert carry(stub, parent) == []


def test_answers_are_sent_again_when_the_control_stream_has_moved(stub: End, parent: End) -> None:
    stub.link.subscribe(1.0, KEY, TRACK, DATA)
    carry(stub, parent)
    parent.link.respond(1.0, KEY, SubscribeCode.ACCEPTED, "", SubscribeData())
    # It was lost.
    parent.sent.clear()
    moved = ControlStreamMoved(old=0, new=4, clean=False, discarded=0)
    parent.give(moved)
    assert carry(parent, stub) == [("responded", SubscribeCode.ACCEPTED)]
    parent.over = True
    assert parent.give(moved) == []


def test_more_than_was_agreed() -> None:
    parent, stub = End(PARENT, max_announces=1, max_subscribes=1), End(STUB)
    one, two = track_of("one"), track_of("two")
    assert parent.give(SubscribesAdvertised(subscribes=(info(one), info(one))))
    with pytest.raises(LimitExceededError, match="more than 1 subscribes"):
        parent.give(SubscribesAdvertised(subscribes=(info(two),)))
    for name in (one, one, two):
        stub.link.announce(1.0, AnnounceKind.TRACK, name)
    first, again, second = (message.announces for message in stub.sent)
    assert len(parent.give(AnnouncesAdvertised(announces=first))) == 1
    assert parent.give(AnnouncesAdvertised(announces=again)) == []
    with pytest.raises(LimitExceededError, match="more than 1 announces"):
        parent.give(AnnouncesAdvertised(announces=second))


def test_a_session_that_is_over_is_told_nothing(stub: End) -> None:
    stub.over = True
    stub.link.subscribe(1.0, KEY, TRACK, DATA)
    stub.give(SubscribesAdvertised(subscribes=(info(source=PARENT),)))
    stub.link.respond(1.0, KEY, SubscribeCode.LIMIT, "", SubscribeData())
    stub.give(SyncRequested(bases=Bases.ALL))
    assert stub.sent == []
    assert stub.give(ControlStreamLost(stream_id=0)) == []
