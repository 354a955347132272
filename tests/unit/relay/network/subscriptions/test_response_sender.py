"""Answers of an o-relay: what stands in them, and how they find their way back."""

from __future__ import annotations

from dataclasses import replace

from laps_relay.network.subscriptions.response_sender import ResponseSender
from laps_sdk.timers import first_of
from laps_sdk.upstream.bodies import body_for
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    ParameterId,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
)
from testkit.subscription_rig import HASHER, US, Rig, key_of, subscribe_info, track

NAME = track("a/b/n")
KEY = key_of(NAME)
OK = SubscribeData(18, b"publisher's ok")


class Case:
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
    case = Case()
    case.answers.send(0.0, case.entry, SubscribeCode.ACCEPTED, "", OK)
    ((session, response),) = case.rig.responses
    assert (session, response.source, response.responder) == (1, NodeId(1), US)
    assert (response.stamp, response.data) == (case.entry.stamp, OK)
    digest = HASHER.end_check(NAME.namespace.fields, NAME.name)
    assert response.parameters.get(ParameterId.FULL_NAME_DIGEST) == digest
    assert case.answers.poll_timeout() is None


def test_a_no_says_nothing_of_names_and_its_reason_is_bounded() -> None:
    case = Case(SubscribeData(18, b"no SUBSCRIBE"))
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "no " * 10_000)
    case.answers.send(0.0, case.entry, SubscribeCode.ACCEPTED, "")
    refused, accepted = (response for _, response in case.rig.responses)
    assert 0 < len(refused.reason) < 5_000
    for response in (refused, accepted):
        assert response.parameters.get(ParameterId.FULL_NAME_DIGEST) is None


def test_the_last_word_waits_for_a_way_back() -> None:
    case = Case()
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
    case = Case()
    case.rig.subscribes.remove_session(0.0, 1)
    case.answers.send(0.0, case.entry, SubscribeCode.ACCEPTED, "", OK)
    case.rig.subscribes.handle_timeout(5.0)
    case.answers.handle_timeout(5.0)
    assert (case.rig.sent(), len(case.answers), case.answers.poll_timeout()) == ([], 0, None)


def test_what_must_be_heard_is_said_twice() -> None:
    case = Case()
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "not you", repeat=True)
    refused = [(1, SubscribeCode.POLICY, "not you")]
    assert (case.rig.sent(), len(case.answers)) == (refused, 1)
    assert case.answers.poll_timeout() == 30.0
    case.answers.handle_timeout(30.0)
    assert (case.rig.sent(), len(case.answers), case.answers.poll_timeout()) == (refused, 0, None)


def test_what_was_said_meanwhile_is_the_last_word() -> None:
    case = Case()
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "not you", repeat=True)
    case.answers.send(1.0, case.entry, SubscribeCode.ACCEPTED, "", OK)
    assert [code for _, code, _ in case.rig.sent()] == [0x1, 0x0]
    assert (len(case.answers), case.answers.poll_timeout()) == (0, None)


def test_nothing_is_said_twice_to_who_asks_anew_or_no_more() -> None:
    case = Case()
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
    case = Case()
    case.rig.subscribes.remove_session(0.0, 1)
    case.answers.send(0.0, case.entry, SubscribeCode.POLICY, "not you", repeat=True)
    assert (case.rig.sent(), case.answers.poll_timeout()) == ([], 0.25)
