"""Messages about fetches: for us, or for another relay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.network.fetch.fetches import BURST, RATE, Fetches
from laps_relay.policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.upstream.interfaces import FetchRefusal
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    FetchCancel,
    FetchRequest,
    FetchResponse,
    NodeSelf,
    Parameters,
    SubscribeCode,
    SubscribeInfo,
)
from testkit.fetch_rig import OK, FetchRig, asked_of, request_of
from testkit.relay_net import HASHER, TRACK

ME, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def rig_of(rig: FetchRig | None = None) -> tuple[FetchRig, Fetches]:
    rig = rig or FetchRig()
    fetches = Fetches(ME, rig, HASHER)
    fetches.attach(rig)
    return rig, fetches


def refusals(rig: FetchRig) -> list[tuple[int, int]]:
    """Sessions and codes of what was sent, if it was all refusals of ours."""
    sent = rig.take()
    assert all(isinstance(message, FetchResponse) for _, message in sent)
    return [
        (session, message.code) for session, message in sent if isinstance(message, FetchResponse)
    ]


def test_a_request_for_us_and_its_answer() -> None:
    rig, fetches = rig_of()
    fetches.received(1.0, 20, request_of(2, 1))
    assert rig.told() == [("serve", TWO, 7)]
    fetches.fetched(1.0, (TWO, 7), OK)
    ((session, response),) = rig.take()
    assert isinstance(response, FetchResponse)
    assert (session, response.code) == (20, 0)
    fetches.received(1.0, 20, FetchCancel(TWO, ME, 7, 0))
    assert rig.told() == [("drop", TWO, 7)]
    fetches.fetched(1.0, (TWO, 7), OK)
    fetches.refused(1.0, (TWO, 7), FetchRefusal(SubscribeCode.ENDED, "late"))
    assert rig.take() == []


def test_our_clients_refuse() -> None:
    rig, fetches = rig_of()
    fetches.received(1.0, 20, request_of(2, 1))
    fetches.refused(1.0, (TWO, 7), FetchRefusal(SubscribeCode.NO_PUBLISHER, "not here"))
    assert refusals(rig) == [(20, SubscribeCode.NO_PUBLISHER)]


def test_a_response_for_us() -> None:
    rig, fetches = rig_of()
    rig.have = [2]
    asked = fetches.asking.ask(1.0, TRACK, asked_of())
    assert isinstance(asked, int)
    fetches.received(1.0, 20, FetchResponse(ME, asked, TWO, 0, 3, "no"))
    assert rig.told() == [("answered", asked, 3, "no")]


def test_messages_on_their_way() -> None:
    rig, fetches = rig_of()
    kept, left = (3, b"trace"), (2, b"hop")
    parameters = Parameters((left, kept))
    messages = (
        (20, replace(request_of(2, 3), parameters=parameters), 30),
        (30, FetchResponse(TWO, 7, THREE, 4, 0, parameters=parameters), 20),
        (20, FetchCancel(TWO, THREE, 7, 0, parameters), 30),
    )
    for session, message, onward in messages:
        fetches.received(1.0, session, message)
        passed = replace(message, hops=message.hops + 1, parameters=Parameters((kept,)))
        assert rig.take() == [(onward, passed)]
    assert rig.told() == []


def test_nothing_goes_back_or_round() -> None:
    rig, fetches = rig_of()
    rig.leads[3] = [20]
    fetches.received(1.0, 20, request_of(2, 3))
    assert refusals(rig) == [(20, SubscribeCode.UNREACHABLE)]
    rig.leads[3] = [30]
    fetches.received(1.0, 20, request_of(2, 3, hops=16))
    assert refusals(rig) == [(20, SubscribeCode.UNREACHABLE)]
    fetches.received(1.0, 30, FetchResponse(TWO, 7, THREE, 16, 0))
    fetches.received(1.0, 20, FetchCancel(TWO, THREE, 7, 16))
    fetches.received(1.0, 20, request_of(1, 3))  # our own
    assert rig.take() == []


def test_another_way_if_a_session_is_dead() -> None:
    rig, fetches = rig_of()
    rig.leads[3], rig.dead = [30, 40], {30}
    fetches.received(1.0, 20, request_of(2, 3))
    assert [session for session, _ in rig.take()] == [40]
    rig.leads[2], rig.dead = [20, 40], {20, 30}
    fetches.received(1.0, 20, request_of(2, 9))
    assert refusals(rig) == [(40, SubscribeCode.UNREACHABLE)]


class Narrow(OpenPolicy):
    def __init__(self, *, comes: bool = True, goes: bool = True) -> None:
        super().__init__()
        self.comes, self.goes = comes, goes

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        assert (entry.source, peer.node_id) == (TWO, TWO)
        return None if self.comes else Refusal("rule", "it may not come in")

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        assert (entry.source, peer.node_id) == (TWO, THREE)
        return None if self.goes else Refusal("rule", "it may not go there")


@pytest.mark.parametrize("policy", [Narrow(comes=False), Narrow(goes=False)], ids=["in", "out"])
def test_policy_holds_on_the_way(policy: Narrow) -> None:
    rig, fetches = rig_of(FetchRig(policy))
    fetches.received(1.0, 20, request_of(2, 3))
    assert refusals(rig) == [(20, SubscribeCode.POLICY)]
    fetches.received(1.0, 30, FetchResponse(TWO, 7, THREE, 0, 0))
    fetches.received(1.0, 20, FetchCancel(TWO, THREE, 7, 0))
    assert [session for session, _ in rig.take()] == [20, 30]


def test_a_control_server_sends_it_on() -> None:
    rig, fetches = rig_of()
    rig.edges = [2, 3]
    fetches.received(1.0, 20, request_of(2, 1))
    ((session, request),) = rig.take()
    assert isinstance(request, FetchRequest)
    assert (session, request.target, request.hops) == (30, THREE, 1)
    rig.edges = [2]
    fetches.received(1.0, 20, request_of(2, 1))
    assert refusals(rig) == [(20, SubscribeCode.NO_PUBLISHER)]


def test_a_peer_has_a_budget_and_others_do_not_notice() -> None:
    rig, fetches = rig_of()
    for number in range(int(BURST)):
        fetches.received(1.0, 20, request_of(2, 3, number + 1))
    assert all(session == 30 for session, _ in rig.take())
    fetches.received(1.0, 20, request_of(2, 3))
    fetches.received(1.0, 20, FetchResponse(THREE, 7, TWO, 0, 0))
    fetches.received(1.0, 20, FetchCancel(TWO, THREE, 7, 0))
    # All three are over the budget: the request is refused, the others are not passed on.
    assert refusals(rig) == [(20, SubscribeCode.LIMIT)]
    assert rig.told() == []
    fetches.received(1.0, 30, request_of(3, 2))
    assert [session for session, _ in rig.take()] == [20]
    for number in range(int(RATE) + 1):
        fetches.received(2.0, 20, request_of(2, 3, number + 1))
    assert [session for session, _ in rig.take()] == [30] * int(RATE) + [20]
    fetches.session_gone(20)
    fetches.received(2.0, 20, request_of(2, 3))
    assert [session for session, _ in rig.take()] == [30]


def test_a_node_is_gone() -> None:
    rig, fetches = rig_of()
    rig.have = [2]
    fetches.asking.ask(1.0, TRACK, asked_of())
    fetches.received(1.0, 20, request_of(2, 1))
    rig.told()
    fetches.node_gone(1.0, TWO)
    assert [call[0] for call in rig.told()] == ["answered", "drop"]


def test_a_stranger_is_not_judged_by_what_nobody_knows() -> None:
    rig, fetches = rig_of()
    fetches.received(1.0, 990, request_of(2, 3))
    rig.leads[3] = [990, 30]
    assert [session for session, _ in rig.take()] == [30]
