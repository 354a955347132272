"""The o-relay: announces, subscribers of a track, and the responses to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from laps_relay.network.subscriptions.origin_role import (
    DeliveryFailure,
    OriginRole,
    OriginTrack,
    PendingResponse,
    ResponseSender,
)
from laps_sdk.timers import first_of
from laps_sdk.upstream.bodies import body_for
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.control import encode_subscribe_body
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceKind,
    ParameterId,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeWithdrawal,
)
from laps_wire.peering.laps2.information import NO_DATA
from testkit.subscription_rig import (
    HASHER,
    IDENTITY,
    SETTINGS,
    US,
    Rig,
    key_of,
    namespace,
    subscribe_info,
    track,
)

SPACE = namespace("a/b")
NAME = track("a/b/n")
KEY = key_of(NAME)
OK = SubscribeData(18, b"publisher's ok")
NAMESPACE, TRACK = AnnounceKind.NAMESPACE, AnnounceKind.TRACK


class Case:
    def __init__(self, hasher: KeyedHasher = HASHER, *, plain: bool = True) -> None:
        self.rig = Rig()
        settings = replace(SETTINGS, plaintext_names=plain)
        self.origins = self.rig.origins = OriginRole(
            IDENTITY, settings, hasher, **self.rig.serving()
        )

    def subscribe(
        self,
        node: int,
        name: FullTrackName = NAME,
        *,
        sequence: int = 1,
        data: SubscribeData | None = None,
        key: int | None = None,
    ) -> None:
        body = body_for(name) if data is None else data
        entry = subscribe_info(node, name, body, sequence=sequence)
        if key is not None:
            entry = replace(entry, full_name_hash=key)
        self.rig.subscribes.heard(self.rig.now, node, entry)
        self.changed()

    def unsubscribe(self, node: int, sequence: int = 9) -> None:
        withdrawal = SubscribeWithdrawal(NodeId(node), Stamp(1, sequence), KEY)
        self.rig.subscribes.heard_withdrawal(self.rig.now, node, withdrawal)
        self.changed()

    def changed(self) -> None:
        self.origins.subscribes_changed(self.rig.now, self.rig.subscribes.take_changes())


def test_a_track_is_pulled_once_and_everybody_is_answered() -> None:
    case = Case()
    assert case.origins.announce(0.0, NAMESPACE, SPACE) is None
    case.subscribe(1)
    assert case.rig.taken() == [("targets", KEY), ("pull", NAME)]
    case.subscribe(2)
    assert case.rig.taken() == [("targets", KEY)]
    assert case.rig.responses == []
    assert case.origins.targets(KEY) == {1, 2}
    case.origins.publisher_accepted(1.0, KEY, OK)
    assert [session for session, _ in case.rig.responses] == [1, 2]
    response = case.rig.responses[0][1]
    assert (response.source, response.stamp, response.responder) == (1, Stamp(1, 1), US)
    assert response.data == OK
    check = HASHER.end_check(NAME.namespace.fields, NAME.name)
    assert response.parameters.get(ParameterId.FULL_NAME_DIGEST) == check
    case.rig.sent()
    case.subscribe(3)
    assert case.rig.sent() == [(3, SubscribeCode.ACCEPTED, "")]
    case.origins.publisher_accepted(1.0, KEY, NO_DATA)
    assert case.rig.sent() == []
    assert (len(case.origins), case.origins.keys(), case.origins.name(KEY)) == (1, [KEY], NAME)


def test_who_asks_with_a_new_stamp_is_answered_again() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.rig.auto = lambda key: case.origins.publisher_accepted(0.0, key, OK)
    case.subscribe(1)
    assert case.rig.sent() == [(1, SubscribeCode.ACCEPTED, "")]
    case.subscribe(1, sequence=2)
    assert case.rig.responses[0][1].stamp == Stamp(1, 2)
    assert case.rig.taken() == [("targets", KEY), ("pull", NAME)]


def test_something_else_of_a_track_goes_to_the_publisher() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.subscribe(2)
    assert case.rig.taken() == [("targets", KEY), ("pull", NAME), ("targets", KEY)]
    case.origins.publisher_accepted(0.0, KEY, OK)
    case.rig.sent()
    newer = SubscribeData(18, b"and where it is now")
    case.rig.auto = lambda key: case.origins.publisher_accepted(0.0, key, newer)
    # One more is told what the publisher has by now.
    case.subscribe(3)
    assert case.rig.taken() == [("targets", KEY), ("pull again", NAME, body_for(NAME))]
    assert [(to, answer.data) for to, answer in case.rig.responses] == [(3, newer)]
    case.rig.sent()
    message = Subscribe(0, NAME, Parameters(new_group_request=7))
    other = SubscribeData(18, encode_subscribe_body(message, Draft.D18))
    case.subscribe(1, sequence=2, data=other)
    assert case.rig.taken() == [("pull again", NAME, other)]
    assert case.rig.sent() == [(1, SubscribeCode.ACCEPTED, "")]
    # The same with another stamp is nothing new for the publisher.
    case.subscribe(1, sequence=3, data=other)
    assert case.rig.taken() == []
    assert case.rig.sent() == [(1, SubscribeCode.ACCEPTED, "")]
    # The publisher ends it instead: everybody is told that, and nothing else.
    case.rig.auto = lambda key: case.origins.publisher_ended(0.0, key, "no more")
    case.subscribe(2, sequence=2, data=other)
    assert case.rig.taken() == [("pull again", NAME, other), ("targets", KEY)]
    assert case.rig.sent() == [(to, SubscribeCode.ENDED, "no more") for to in (1, 2, 3)]


def test_it_is_released_when_nobody_wants_it_any_more() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.subscribe(2)
    case.rig.taken()
    case.unsubscribe(1)
    assert case.rig.taken() == [("targets", KEY)]
    assert case.origins.targets(KEY) == {2}
    case.rig.know(2, None)
    case.changed()
    assert case.rig.taken() == [("targets", KEY), ("release", KEY)]
    assert case.origins.targets(KEY) == frozenset()
    assert case.origins.name(KEY) is None
    case.origins.publisher_accepted(2.0, KEY, OK)
    case.origins.publisher_ended(2.0, KEY, "late")
    assert case.rig.sent() == []
    case.rig.know(2)
    case.changed()
    assert case.rig.taken() == [("targets", KEY), ("pull", NAME)]


def test_the_publisher_ends_it() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.subscribe(2)
    case.origins.publisher_accepted(0.0, KEY, OK)
    case.rig.sent()
    case.rig.taken()
    case.origins.publisher_ended(1.0, KEY, "the show is over")
    ended = SubscribeCode.ENDED
    assert case.rig.sent() == [(1, ended, "the show is over"), (2, ended, "the show is over")]
    assert case.rig.taken() == [("targets", KEY)]
    case.unsubscribe(1)
    assert case.rig.taken() == []


def test_the_publisher_refuses_and_is_asked_again_for_who_asks_again() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    code = SubscribeCode.PUBLISHER_REFUSED
    case.rig.auto = lambda key: case.origins.publisher_refused(0.0, key, code, "no " * 999, OK)
    case.subscribe(1)
    assert len(case.rig.responses[0][1].reason.encode()) == 1024
    assert case.rig.responses[0][1].data == OK
    assert case.rig.sent()[0][:2] == (1, code)
    case.subscribe(1, sequence=2)
    assert case.rig.taken() == [("targets", KEY), ("pull", NAME), ("targets", KEY)] * 2


def test_what_is_announced_later_finds_those_who_waited() -> None:
    case = Case()
    case.subscribe(1)
    case.subscribe(2, track("a/c/x"))
    assert (case.rig.taken(), case.rig.sent()) == ([], [])
    case.origins.announce(1.0, TRACK, NAME)
    assert case.rig.taken() == [("targets", KEY), ("pull", NAME)]
    case.origins.announce(1.0, NAMESPACE, namespace("a"))
    other = track("a/c/x")
    assert case.rig.taken() == [("targets", key_of(other)), ("pull", other)]
    case.rig.know(2, None)
    case.origins.announce(1.0, NAMESPACE, namespace("a/c"))
    assert case.rig.taken() == []


def test_announces_and_their_ends_go_into_the_table() -> None:
    case = Case()
    case.origins.announce(0.0, NAMESPACE, SPACE)
    case.origins.announce(0.0, NAMESPACE, SPACE)
    case.origins.announce(0.0, TRACK, NAME)
    entries = list(case.rig.announces.live())
    assert [(entry.kind, entry.plaintext) for entry in entries] == [
        (NAMESPACE, SPACE),
        (TRACK, NAME),
    ]
    assert entries[0].stamp < entries[1].stamp
    case.origins.withdraw(1.0, NAMESPACE, NAME)
    case.origins.withdraw(1.0, NAMESPACE, SPACE)
    assert [entry.kind for entry in case.rig.announces.live()] == [TRACK]


def test_names_can_be_kept_from_the_network_and_everything_has_none() -> None:
    case = Case(plain=False)
    case.origins.announce(0.0, NAMESPACE, SPACE)
    everything = Case()
    everything.origins.announce(0.0, NAMESPACE, FullTrackName.parse("--"))
    for each in (case, everything):
        [entry] = each.rig.announces.live()
        assert entry.plaintext is None
    everything.subscribe(1)
    assert everything.rig.taken() == [("targets", KEY), ("pull", NAME)]


def test_a_withdrawn_announce_takes_nobody_new_and_leaves_what_is() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.origins.withdraw(0.0, TRACK, NAME)
    assert case.origins.targets(KEY) == {1}
    case.origins.publisher_accepted(0.0, KEY, OK)
    assert case.rig.sent() == [(1, SubscribeCode.ACCEPTED, "")]
    case.subscribe(2)
    assert case.origins.targets(KEY) == {1}
    # Who is there already may still ask again.
    case.subscribe(1, sequence=2)
    assert case.rig.sent() == [(1, SubscribeCode.ACCEPTED, "")]


def test_who_policy_excludes_is_told_at_once_with_the_reason() -> None:
    case = Case()
    case.rig.rules.nodes = {1}
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.subscribe(2)
    assert case.rig.sent() == [(1, SubscribeCode.POLICY, "not for 0.0:0.1")]
    assert case.origins.targets(KEY) == {2}
    assert case.rig.taken() == [
        ("refused", 1, SubscribeCode.POLICY),
        ("targets", KEY),
        ("pull", NAME),
    ]
    case.rig.rules.nodes = {2}
    case.origins.reconsider(1.0)
    assert case.rig.sent() == [(2, SubscribeCode.POLICY, "not for 0.0:0.2")]
    assert case.origins.targets(KEY) == {1}


def test_who_loses_a_track_for_policy_is_told_twice() -> None:
    """A relay on the way may not know the subscribe just then, and drops the answer."""
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.subscribe(2)
    case.origins.publisher_accepted(0.0, KEY, OK)
    assert len(case.rig.sent()) == 2
    case.rig.rules.nodes = {1}
    case.origins.reconsider(1.0)
    refused = [(1, SubscribeCode.POLICY, "not for 0.0:0.1")]
    assert case.rig.sent() == refused
    case.rig.rules.nodes = {1, 3}
    case.subscribe(3)  # who never had it asks again by itself
    assert case.rig.sent()[-1] == (3, SubscribeCode.POLICY, "not for 0.0:0.3")
    due = case.origins.poll_timeout()
    assert due == 1.0 + 30.0
    case.origins.handle_timeout(due)
    assert case.rig.sent() == refused
    assert case.origins.poll_timeout() is None


def test_full_names_are_compared() -> None:
    case = Case()
    case.origins.announce(0.0, NAMESPACE, SPACE)
    # The hashes say NAME, the SUBSCRIBE says something else, or nothing that can be read.
    case.subscribe(1, data=body_for(track("a/b/m")))
    case.subscribe(2, data=NO_DATA)
    case.subscribe(3, data=SubscribeData(18, b"\xff"))
    unreadable = "no SUBSCRIBE whose full name could be compared"
    assert case.rig.sent() == [
        (1, SubscribeCode.HASH_COLLISION, "another name has the same hash"),
        (2, SubscribeCode.HASH_COLLISION, unreadable),
        (3, SubscribeCode.HASH_COLLISION, unreadable),
    ]
    assert case.origins.collisions == 1
    assert len(case.origins) == 0


@pytest.mark.parametrize("draft", list(Draft))
def test_both_drafts_are_read(draft: Draft) -> None:
    case = Case()
    case.origins.announce(0.0, NAMESPACE, SPACE)
    body = encode_subscribe_body(Subscribe(4, NAME), draft)
    case.subscribe(1, data=SubscribeData(draft, body))
    assert case.origins.targets(KEY) == {1}


class OneHash(KeyedHasher):
    """Every name and every element has the same hash."""

    __slots__ = ()

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        return KEY

    def element(self, field: bytes) -> int:
        return HASHER.element(b"a")

    def name(self, name: bytes) -> int:
        return HASHER.name(b"n")


def test_hashes_that_fit_other_names_never_deliver() -> None:
    case = Case(OneHash(HASHER.key))
    assert case.origins.announce(0.0, TRACK, track("a/x")) is None
    denial = case.origins.announce(0.0, TRACK, track("a/y"))
    assert denial is not None
    assert denial.code is SubscribeCode.HASH_COLLISION
    case.origins.announce(0.0, NAMESPACE, namespace("q"))
    case.subscribe(1, track("a/n"), key=KEY)
    assert case.rig.sent() == [(1, SubscribeCode.HASH_COLLISION, "another name has the same hash")]
    # One of the names is pulled; another one with its hash is not.
    case.origins.withdraw(0.0, NAMESPACE, namespace("q"))
    case.origins.announce(0.0, NAMESPACE, namespace("a"))
    assert case.origins.name(KEY) == track("a/n")
    case.rig.sent()
    case.subscribe(2, track("a/n"), key=KEY, data=body_for(track("a/m")))
    assert case.rig.sent() == [(2, SubscribeCode.HASH_COLLISION, "another name has the same hash")]
    assert case.origins.targets(KEY) == {1}
    assert case.origins.collisions == 3
    case.origins.withdraw(0.0, TRACK, track("a/y"))
    assert len(list(case.rig.announces.live())) == 2


def test_an_s_relay_that_is_not_known_is_not_served() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.rig.known.pop(NodeId(1))
    case.subscribe(1)
    reason = "the subscriber's relay is not known"
    assert case.rig.sent() == [(1, SubscribeCode.UNREACHABLE, reason)]


def test_what_has_no_way_back_for_a_moment_is_answered_when_it_has_one() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.rig.subscribes.remove_session(0.0, 1)
    case.origins.publisher_accepted(0.0, KEY, OK)
    assert case.rig.sent() == []
    assert case.origins.targets(KEY) == {1}
    case.origins.handle_timeout(0.25)
    assert case.rig.sent() == []
    # Only the last word counts.
    case.origins.publisher_ended(0.3, KEY, "over")
    case.rig.subscribes.heard(0.4, 2, subscribe_info(1, NAME, body_for(NAME)))
    assert case.origins.poll_timeout() == 0.3 + 0.25
    assert first_of(case.origins.clocks) == 0.3 + 0.25
    case.origins.handle_timeout(0.6)
    assert case.rig.sent() == [(2, SubscribeCode.ENDED, "over")]
    assert case.origins.poll_timeout() is None


def test_what_never_has_a_way_back_is_not_kept() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.rig.subscribes.remove_session(0.0, 1)
    case.origins.publisher_accepted(0.0, KEY, OK)
    case.rig.subscribes.handle_timeout(5.0)
    case.changed()
    case.origins.handle_timeout(5.0)
    assert (case.rig.sent(), case.origins.poll_timeout()) == ([], None)


def test_our_own_subscribes_are_not_ours_to_serve() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.rig.subscribes.originate(0.0, subscribe_info(100, NAME, body_for(NAME)))
    case.changed()
    assert case.rig.taken() == []


def test_who_no_allowed_way_leads_to_is_told_and_told_again_when_one_does() -> None:
    case = Case()
    case.rig.failures = {NodeId(1): DeliveryFailure(SubscribeCode.POLICY, "not through CA")}
    case.rig.auto = lambda key: case.origins.publisher_accepted(0.0, key, OK)
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.subscribe(2)
    policy, accepted = SubscribeCode.POLICY, SubscribeCode.ACCEPTED
    assert case.rig.sent() == [(1, policy, "not through CA"), (2, accepted, "")]
    assert case.rig.taken()[-1] == ("refused", 1, policy)
    # It stays a target: ways are looked for, also by dialling.
    assert case.origins.targets(KEY) == {1, 2}
    # Who asks again is told again.
    case.subscribe(1, sequence=2)
    assert case.rig.sent() == [(1, policy, "not through CA")]
    case.rig.taken()
    case.rig.now, case.rig.failures = 10.0, {}
    case.rig.lead(KEY)
    assert (case.rig.sent(), case.origins.poll_timeout()) == ([], 11.0)
    case.origins.handle_timeout(11.0)
    assert case.rig.sent() == [(1, accepted, "")]
    assert (case.rig.taken(), case.origins.poll_timeout()) == ([], None)
    # It believes that now, so a way that is forbidden again is told twice.
    case.rig.now = 20.0
    case.rig.failures = {NodeId(1): DeliveryFailure(SubscribeCode.POLICY, "not through CA")}
    case.rig.lead(KEY)
    assert case.rig.sent() == [(1, policy, "not through CA")]
    case.origins.handle_timeout(50.0)
    assert case.rig.sent() == [(1, policy, "not through CA")]


@pytest.mark.parametrize("end", ["unsubscribe", "pull_ended"])
def test_who_waits_for_a_way_may_go_or_be_told_the_end(end: str) -> None:
    case = Case()
    case.rig.failures = {NodeId(1): DeliveryFailure(SubscribeCode.UNREACHABLE, "no way", 5.0)}
    case.origins.announce(0.0, TRACK, NAME)
    case.subscribe(1)
    case.origins.publisher_accepted(0.0, KEY, OK)
    assert (case.rig.sent(), case.origins.poll_timeout()) == ([], 5.0)
    if end == "unsubscribe":
        case.unsubscribe(1)
        assert case.rig.sent() == []
    else:
        case.origins.publisher_ended(1.0, KEY, "over")
        assert case.rig.sent() == [(1, SubscribeCode.ENDED, "over")]
    assert case.origins.poll_timeout() is None
    # What sets say of a track that is over is nothing to us.
    case.origins.routed(2.0, KEY, [NodeId(1)], {})
    assert case.rig.sent() == []


def test_who_says_that_it_is_elsewhere_is_judged_again() -> None:
    case = Case()
    case.origins.announce(0.0, TRACK, NAME)
    case.rig.auto = lambda key: case.origins.publisher_accepted(0.0, key, OK)
    case.subscribe(1)
    assert not case.origins.node_changed(0.0, NodeId(1))
    case.rig.sent()
    # Nothing that policy goes by.
    case.rig.rules.nodes = {1}
    assert not case.origins.node_changed(0.0, NodeId(1))
    assert case.rig.sent() == []
    case.rig.regions[NodeId(1)] = "eu"
    assert case.origins.node_changed(0.0, NodeId(1))
    assert case.rig.sent() == [(1, SubscribeCode.POLICY, "not for 0.0:0.1")]
    case.rig.rules.nodes, case.rig.regions[NodeId(1)] = set(), "us"
    assert case.origins.node_changed(0.0, NodeId(1))
    assert case.rig.sent() == [(1, SubscribeCode.ACCEPTED, "")]
    case.rig.know(1, None)
    assert not case.origins.node_changed(0.0, NodeId(1))


ONE = NodeId(1)
TRACK_NAME = track("a/b")
YES = PendingResponse(SubscribeCode.ACCEPTED)
DENIED = DeliveryFailure(SubscribeCode.POLICY, "not through CA")
AWAY = DeliveryFailure(SubscribeCode.UNREACHABLE, "no way", 5.0)


def pull() -> OriginTrack:
    made = OriginTrack(TRACK_NAME)
    made.subscribers[ONE] = subscribe_info(1, TRACK_NAME, NO_DATA)
    return made


def again(made: OriginTrack, sequence: int) -> None:
    made.subscribers[ONE] = replace(made.subscribers[ONE], stamp=Stamp(1, sequence))


def test_accepted_is_said_once_a_way_leads_there_and_the_publisher_agrees() -> None:
    made = pull()
    made.answer = NO_DATA
    assert made.next_response(0.0, ONE) is None
    made.routed(0.0, [ONE, NodeId(2)], {})
    assert made.next_response(0.0, ONE) == YES
    assert made.next_response(0.0, ONE) is None
    again(made, 2)
    assert made.next_response(9.0, ONE) == YES
    other = pull()
    other.routed(0.0, [ONE], {})
    assert other.next_response(0.0, ONE) is None
    other.answer = NO_DATA
    assert other.next_response(0.0, ONE) == YES


def test_what_policy_forbids_is_said_at_once_whatever_the_publisher_says() -> None:
    made = pull()
    made.routed(0.0, [ONE], {ONE: DENIED})
    assert made.next_response(0.0, ONE) == PendingResponse(SubscribeCode.POLICY, "not through CA")
    assert made.next_response(0.0, ONE) is None
    again(made, 2)
    assert made.next_response(0.0, ONE) == PendingResponse(SubscribeCode.POLICY, "not through CA")


def test_who_was_told_that_it_gets_the_track_believes_so_until_it_is_told_otherwise() -> None:
    made = pull()
    made.answer = NO_DATA
    assert not made.was_accepted(ONE)
    made.routed(0.0, [ONE], {})
    made.next_response(0.0, ONE)
    made.routed(1.0, [ONE], {ONE: DENIED})
    assert made.was_accepted(ONE)
    made.next_response(1.0, ONE)
    assert not made.was_accepted(ONE)


def test_a_way_may_take_its_time_to_come() -> None:
    made = pull()
    made.answer = NO_DATA
    made.routed(1.0, [ONE], {ONE: AWAY})
    assert made.next_response(1.0, ONE) == 6.0
    made.routed(2.0, [ONE], {})
    assert made.next_response(2.0, ONE) == YES
    made.routed(3.0, [ONE], {ONE: AWAY})
    made.routed(5.0, [ONE], {ONE: AWAY})
    assert made.next_response(5.0, ONE) == 8.0
    assert made.next_response(8.0, ONE) == PendingResponse(SubscribeCode.UNREACHABLE, "no way")
    # It turns out that policy is against what is left.
    made.routed(9.0, [ONE], {ONE: DENIED})
    assert made.next_response(9.0, ONE) == PendingResponse(SubscribeCode.POLICY, "not through CA")


def test_a_way_that_does_not_last_is_not_spoken_of() -> None:
    made = pull()
    made.answer = NO_DATA
    made.routed(0.0, [ONE], {ONE: DENIED})
    made.next_response(0.0, ONE)
    made.routed(30.0, [ONE], {})
    assert made.next_response(30.0, ONE) == 31.0
    made.routed(30.1, [ONE], {ONE: DENIED})
    assert made.next_response(30.1, ONE) is None
    made.routed(60.0, [ONE], {})
    assert made.next_response(61.0, ONE) == YES


def test_who_leaves_is_forgotten() -> None:
    made = pull()
    made.routed(0.0, [ONE], {ONE: DENIED})
    made.next_response(0.0, ONE)
    assert made.remove(ONE)
    assert not made.remove(ONE)
    made.routed(1.0, [ONE], {ONE: DENIED})
    made.subscribers[ONE] = subscribe_info(1, TRACK_NAME, NO_DATA)
    assert made.next_response(1.0, ONE) is None


class ResponseCase:
    """Node 1 wants a track, and said so over session 1."""

    def __init__(self, data: SubscribeData | None = None) -> None:
        self.rig = Rig()
        self.answers = ResponseSender(
            US, HASHER, 30.0, subscribes=self.rig.subscribes, respond=self.rig.respond
        )
        body = body_for(NAME) if data is None else data
        self.entry: SubscribeInfo = subscribe_info(1, NAME, body)
        self.rig.subscribes.heard(0.0, 1, self.entry)


def test_a_yes_says_of_which_name_it_is() -> None:
    case = ResponseCase()
    case.answers.send(0.0, case.entry, SubscribeCode.ACCEPTED, "", OK)
    ((session, response),) = case.rig.responses
    assert (session, response.source, response.responder) == (1, NodeId(1), US)
    assert (response.stamp, response.data) == (case.entry.stamp, OK)
    digest = HASHER.end_check(NAME.namespace.fields, NAME.name)
    assert response.parameters.get(ParameterId.FULL_NAME_DIGEST) == digest
    assert case.answers.poll_timeout() is None


def test_a_no_says_nothing_of_names_and_its_reason_is_bounded() -> None:
    case = ResponseCase(SubscribeData(18, b"no SUBSCRIBE"))
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "no " * 10_000)
    case.answers.send(0.0, case.entry, SubscribeCode.ACCEPTED, "")
    refused, accepted = (response for _, response in case.rig.responses)
    assert 0 < len(refused.reason) < 5_000
    for response in (refused, accepted):
        assert response.parameters.get(ParameterId.FULL_NAME_DIGEST) is None


def test_the_last_word_waits_for_a_way_back() -> None:
    case = ResponseCase()
    case.rig.subscribes.remove_session(0.0, 1)
    case.answers.send(0.0, case.entry, SubscribeCode.ACCEPTED, "", OK)
    case.answers.handle_timeout(0.25)
    case.answers.send(0.3, case.entry, SubscribeCode.ENDED, "over")
    assert (case.rig.sent(), len(case.answers)) == ([], 1)
    assert case.answers.poll_timeout() == first_of(case.answers.clocks) == 0.3 + 0.25
    case.rig.subscribes.heard(0.4, 2, case.entry)
    case.answers.handle_timeout(0.55)
    assert case.rig.sent() == [(2, SubscribeCode.ENDED, "over")]
    assert (len(case.answers), case.answers.poll_timeout()) == (0, None)


def test_nothing_is_kept_for_a_subscribe_that_is_gone() -> None:
    case = ResponseCase()
    case.rig.subscribes.remove_session(0.0, 1)
    case.answers.send(0.0, case.entry, SubscribeCode.ACCEPTED, "", OK)
    case.rig.subscribes.handle_timeout(5.0)
    case.answers.handle_timeout(5.0)
    assert (case.rig.sent(), len(case.answers), case.answers.poll_timeout()) == ([], 0, None)


def test_what_must_be_heard_is_said_twice() -> None:
    case = ResponseCase()
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "not you", repeat=True)
    refused = [(1, SubscribeCode.POLICY, "not you")]
    assert (case.rig.sent(), len(case.answers)) == (refused, 1)
    assert case.answers.poll_timeout() == 30.0
    case.answers.handle_timeout(30.0)
    assert (case.rig.sent(), len(case.answers), case.answers.poll_timeout()) == (refused, 0, None)


def test_what_was_said_meanwhile_is_the_last_word() -> None:
    case = ResponseCase()
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "not you", repeat=True)
    case.answers.send(1.0, case.entry, SubscribeCode.ACCEPTED, "", OK)
    assert [code for _, code, _ in case.rig.sent()] == [0x1, 0x0]
    assert (len(case.answers), case.answers.poll_timeout()) == (0, None)


def test_nothing_is_said_twice_to_who_asks_anew_or_no_more() -> None:
    case = ResponseCase()
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "not you", repeat=True)
    newer = replace(case.entry, stamp=Stamp(case.entry.stamp.epoch, 99))
    case.rig.subscribes.heard(1.0, 1, newer)
    case.answers.handle_timeout(30.0)
    assert len(case.rig.sent()) == 1
    case.answers.send(31.0, newer, SubscribeCode.POLICY, "not you", repeat=True)
    case.rig.subscribes.remove_session(32.0, 1)
    case.rig.subscribes.handle_timeout(60.0)
    case.answers.handle_timeout(61.0)
    assert (len(case.rig.sent()), len(case.answers)) == (1, 0)


def test_what_must_be_heard_and_has_no_way_back_is_said_when_it_has_one() -> None:
    case = ResponseCase()
    case.rig.subscribes.remove_session(0.0, 1)
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "not you", repeat=True)
    assert (case.rig.sent(), case.answers.poll_timeout()) == ([], 0.25)
