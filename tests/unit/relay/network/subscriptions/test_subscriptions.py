from __future__ import annotations

from laps_relay.network.subscriptions.subscriptions import (
    SubscriptionCounters,
    Subscriptions,
    TrackHashes,
)
from laps_sdk.timers import first_of
from laps_sdk.upstream.bodies import body_for
from laps_sdk.upstream.interfaces import Answer
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceKind,
    ParameterId,
    Parameters,
    Stamp,
    SubscribeCode,
    SubscribeResponse,
)
from testkit.subscription_rig import (
    HASHER,
    IDENTITY,
    SETTINGS,
    US,
    Rig,
    announce_info,
    key_of,
    namespace,
    subscribe_info,
    track,
)

SPACE = namespace("a/b")
NAME = track("a/b/n")
KEY = key_of(NAME)


class Case:
    def __init__(self) -> None:
        self.rig = Rig()
        self.subscriptions = self.rig.origins = Subscriptions(
            IDENTITY, SETTINGS, HASHER, **self.rig.roles()
        )
        self.subscriptions.attach(self.rig.clients)

    def settle(self) -> None:
        self.subscriptions.announces_changed(0.0, self.rig.announces.take_changes())
        self.subscriptions.subscribes_changed(0.0, self.rig.subscribes.take_changes())


def test_an_s_relay_from_the_want_to_the_end() -> None:
    case = Case()
    case.rig.announces.heard(0.0, 1, announce_info(1, SPACE))
    case.settle()
    assert case.rig.taken() == [("discovered", SPACE)]
    assert case.subscriptions.subscribe(0.0, NAME) is None
    assert not case.subscriptions.has_lapsed(KEY)
    case.settle()
    entry = case.rig.asked(NAME)
    assert entry is not None
    digest = HASHER.end_check(NAME.namespace.fields, NAME.name)
    ok = SubscribeResponse(
        US,
        KEY,
        entry.stamp,
        NodeId(1),
        0,
        parameters=Parameters(((ParameterId.FULL_NAME_DIGEST, digest),)),
    )
    case.subscriptions.response(0.0, 1, ok)
    assert case.rig.taken() == [(Answer.ACCEPTED, SubscribeCode.ACCEPTED, "", b"")]
    case.rig.know(1, None)
    case.subscriptions.node_changed(0.0, NodeId(1))
    assert case.subscriptions.poll_timeout() == 5.0
    assert first_of(case.subscriptions.clocks) == 5.0
    case.subscriptions.handle_timeout(5.0)
    assert case.rig.taken()[0][0] is Answer.ENDED
    case.subscriptions.unsubscribe(5.0, NAME)
    case.subscriptions.handle_timeout(10.0)
    assert case.rig.asked(NAME) is None
    assert case.subscriptions.counters() == SubscriptionCounters(0, 0, 0, 0, 0)


def test_an_o_relay_from_the_announce_to_the_end() -> None:
    case = Case()
    assert case.subscriptions.announce(0.0, AnnounceKind.NAMESPACE, SPACE) is None
    case.rig.subscribes.heard(0.0, 1, subscribe_info(1, NAME, body_for(NAME)))
    case.settle()
    assert case.rig.taken() == [("targets", KEY), ("pull", NAME)]
    case.subscriptions.publisher_accepted(0.0, KEY)
    case.rig.lead()
    case.subscriptions.publisher_ended(0.0, KEY, "over")
    assert [code for _, code, _ in case.rig.sent()] == [SubscribeCode.ACCEPTED, SubscribeCode.ENDED]
    case.rig.subscribes.heard(0.0, 1, subscribe_info(1, NAME, body_for(NAME), sequence=2))
    case.settle()
    assert case.subscriptions.targets(KEY) == {1}
    assert (case.subscriptions.name(KEY), case.subscriptions.origin_tracks()) == (NAME, [KEY])
    case.rig.rules.nodes = {1}
    case.subscriptions.set_policy(0.0, case.rig.policy)
    assert case.subscriptions.targets(KEY) == frozenset()
    case.rig.rules.nodes = set()
    case.subscriptions.set_policy(0.0, case.rig.policy)
    case.rig.sent()
    case.subscriptions.publisher_refused(0.0, KEY, SubscribeCode.UNAUTHORIZED, "no")
    assert case.rig.sent() == [(1, SubscribeCode.UNAUTHORIZED, "no")]
    case.subscriptions.withdraw(0.0, AnnounceKind.NAMESPACE, SPACE)
    assert list(case.rig.announces.live()) == []


def test_answers_to_others_are_passed_on_hop_by_hop() -> None:
    case = Case()
    entry = subscribe_info(2, NAME, body_for(NAME), sequence=4)
    case.rig.subscribes.heard(0.0, 2, entry)
    case.settle()
    parameters = Parameters(((0x41, b"end to end"), (0x42, b"neighbour")))
    response = SubscribeResponse(NodeId(2), KEY, Stamp(1, 4), NodeId(3), 0, parameters=parameters)
    case.subscriptions.response(0.0, 3, response)
    [(session, passed)] = case.rig.responses
    assert session == 2
    assert passed.parameters == Parameters(((0x41, b"end to end"),))
    old = SubscribeResponse(NodeId(2), KEY, Stamp(1, 3), NodeId(3), 0)
    case.subscriptions.response(0.0, 3, old)
    assert len(case.rig.responses) == 1
    assert case.subscriptions.counters().dropped_responses == 1


def test_who_waits_for_an_announce_and_who_has_announced_it() -> None:
    case = Case()
    entry = announce_info(2, NAME, AnnounceKind.TRACK)
    case.rig.announces.heard(0.0, 2, entry)
    theirs = subscribe_info(1, NAME, body_for(NAME))
    case.rig.subscribes.heard(0.0, 1, theirs)
    case.subscriptions.subscribe(0.0, NAME)
    case.settle()
    assert case.subscriptions.waiting(entry) == [(US, KEY), (NodeId(1), KEY)]
    assert case.subscriptions.announcers(theirs) == [NodeId(2)]
    track = TrackHashes(theirs.element_hashes, theirs.name_hash, KEY)
    assert case.subscriptions.holders(track) == [NodeId(2)]
    # What we announce ourselves we answer ourselves.
    case.subscriptions.announce(0.0, AnnounceKind.TRACK, NAME)
    assert case.subscriptions.announcers(theirs) == []
