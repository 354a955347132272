"""Both roles together, and responses on their path back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.network.subscriptions import subscriptions
from laps_relay.network.subscriptions.subscriptions import (
    MAX_REPEATS,
    ResponseLoopFilter,
    SubscriptionCounters,
    Subscriptions,
    TrackHashes,
    return_session,
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
from laps_wire.peering.laps2.information import NO_DATA
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
        self.subscriptions = Subscriptions(IDENTITY, SETTINGS, HASHER, **self.rig.roles())
        self.rig.origins = self.subscriptions.origin
        self.subscriptions.attach(self.rig.clients)

    def settle(self) -> None:
        self.subscriptions.announces_changed(0.0, self.rig.announces.take_changes())
        self.subscriptions.subscribes_changed(0.0, self.rig.subscribes.take_changes())


def test_an_s_relay_from_the_want_to_the_end() -> None:
    case = Case()
    case.rig.announces.heard(0.0, 1, announce_info(1, SPACE))
    case.settle()
    assert case.rig.taken() == [("discovered", SPACE)]
    assert case.subscriptions.subscriber.subscribe(0.0, NAME, NO_DATA) is None
    assert not case.subscriptions.subscriber.has_lapsed(KEY)
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
    case.subscriptions.subscriber.unsubscribe(5.0, NAME)
    case.subscriptions.handle_timeout(10.0)
    assert case.rig.asked(NAME) is None
    assert case.subscriptions.counters() == SubscriptionCounters(0, 0, 0, 0, 0)


def test_an_o_relay_from_the_announce_to_the_end() -> None:
    case = Case()
    assert case.subscriptions.origin.announce(0.0, AnnounceKind.NAMESPACE, SPACE) is None
    case.rig.subscribes.heard(0.0, 1, subscribe_info(1, NAME, body_for(NAME)))
    case.settle()
    assert case.rig.taken() == [("targets", KEY), ("pull", NAME)]
    case.subscriptions.origin.publisher_accepted(0.0, KEY, NO_DATA)
    case.rig.lead()
    case.subscriptions.origin.publisher_ended(0.0, KEY, "over")
    assert [code for _, code, _ in case.rig.sent()] == [SubscribeCode.ACCEPTED, SubscribeCode.ENDED]
    case.rig.subscribes.heard(0.0, 1, subscribe_info(1, NAME, body_for(NAME), sequence=2))
    case.settle()
    assert case.subscriptions.origin.targets(KEY) == {1}
    assert (case.subscriptions.origin.name(KEY), case.subscriptions.origin.keys()) == (NAME, [KEY])
    case.rig.rules.nodes = {1}
    case.subscriptions.set_policy(0.0, case.rig.policy)
    assert case.subscriptions.origin.targets(KEY) == frozenset()
    case.rig.rules.nodes = set()
    case.subscriptions.set_policy(0.0, case.rig.policy)
    case.rig.sent()
    case.subscriptions.origin.publisher_refused(0.0, KEY, SubscribeCode.UNAUTHORIZED, "no", NO_DATA)
    assert case.rig.sent() == [(1, SubscribeCode.UNAUTHORIZED, "no")]
    case.subscriptions.origin.withdraw(0.0, AnnounceKind.NAMESPACE, SPACE)
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
    case.subscriptions.subscriber.subscribe(0.0, NAME, NO_DATA)
    case.settle()
    assert case.subscriptions.waiting(entry) == [(US, KEY), (NodeId(1), KEY)]
    assert case.subscriptions.announcers(theirs) == [NodeId(2)]
    track = TrackHashes(theirs.element_hashes, theirs.name_hash, KEY)
    assert case.subscriptions.holders(track) == [NodeId(2)]
    # What we announce ourselves we answer ourselves.
    case.subscriptions.origin.announce(0.0, AnnounceKind.TRACK, NAME)
    assert case.subscriptions.announcers(theirs) == []


OTHER = track("a/b")


def response_to(sequence: int = 1, source: int = 1) -> SubscribeResponse:
    return SubscribeResponse(NodeId(source), key_of(OTHER), Stamp(1, sequence), NodeId(3), 0)


def test_a_response_goes_back_where_the_subscribe_came_from() -> None:
    rig = Rig()
    table = rig.subscribes
    table.heard(0.0, 1, subscribe_info(1, OTHER, body_for(OTHER), sequence=5))
    assert return_session(table, 3, response_to(5)) == 1
    assert return_session(table, 1, response_to(5)) is None
    assert return_session(table, 3, response_to(4)) is None
    assert return_session(table, 3, response_to(6)) is None
    assert return_session(table, 3, response_to(5, source=2)) is None


YES = SubscribeResponse(NodeId(1), 7, Stamp(1, 1), NodeId(2), SubscribeCode.ACCEPTED, "")
NO = replace(YES, code=SubscribeCode.ENDED)


def test_the_same_answer_does_not_pass_twice_so_soon() -> None:
    log = ResponseLoopFilter(30.0)
    assert log.accepts(0.0, YES, 1)
    assert not log.accepts(0.9, YES, 1)
    assert log.accepts(0.9, YES, 2)
    assert log.accepts(0.9, replace(YES, stamp=Stamp(1, 2)), 1)
    assert log.accepts(0.9, replace(YES, responder=NodeId(3)), 1)
    assert log.accepts(0.9, replace(YES, full_name_hash=8), 1)
    assert log.accepts(1.0, YES, 1)


@pytest.mark.parametrize("answers", [[YES, NO], [YES]])
def test_a_relay_may_answer_anew_but_not_for_ever(answers: list[SubscribeResponse]) -> None:
    log = ResponseLoopFilter(30.0)
    passed_on = [log.accepts(1.5 * turn, answers[turn % len(answers)], None) for turn in range(30)]
    assert sum(passed_on) == MAX_REPEATS


def test_what_is_old_is_forgotten() -> None:
    log = ResponseLoopFilter(30.0)
    log.accepts(0.0, YES, 1)
    log.accepts(10.0, replace(YES, full_name_hash=8), 1)
    assert log.accepts(30.0, replace(YES, full_name_hash=9), 1)
    assert len(log) == 2
    assert log.accepts(31.0, YES, 1)
    assert log.accepts(100.0, YES, 1)
    assert len(log) == 1


def test_not_more_is_kept_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_REMEMBERED", 3)
    log = ResponseLoopFilter(30.0)
    for number in range(9):
        log.accepts(1.0, replace(YES, full_name_hash=number), 1)
    assert len(log) == 3
