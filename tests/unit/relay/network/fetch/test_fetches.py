"""Fetches across the network: messages to forward, the s-relay and the o-relay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.network.fetch.fetches import (
    BURST,
    MAX_ASKED,
    MAX_FETCHES,
    MAX_SERVED,
    RATE,
    FetchAsking,
    Fetches,
    FetchServing,
)
from laps_relay.policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.upstream.interfaces import FetchRefusal
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NO_PARAMETERS,
    FetchCancel,
    FetchRequest,
    FetchResponse,
    Label,
    NodeSelf,
    ParameterId,
    Parameters,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
)
from testkit.fetch_rig import OK, FetchRig, asked_of, request_of
from testkit.relay_net import HASHER, OTHER, TRACK, key_of

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


DIGEST = HASHER.end_check(TRACK.namespace.fields, TRACK.name)


class NarrowAsking(OpenPolicy):
    """Lets nothing go to some, and nobody have a track."""

    def __init__(self, *peers: int, wants: bool = True) -> None:
        super().__init__()
        self.peers = peers
        self.wants = wants

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("rule", "not to that peer") if int(peer.node_id) in self.peers else None

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        return None if self.wants else Refusal("rule", "not here")


def asking_rig(*have: int, policy: OpenPolicy | None = None) -> tuple[FetchRig, FetchAsking]:
    rig = FetchRig() if policy is None else FetchRig(policy)
    rig.have = list(have)
    asking = FetchAsking(ME, rig, HASHER)
    asking.attach(rig)
    return rig, asking


def ask(asking: FetchAsking) -> int:
    asked = asking.ask(1.0, TRACK, asked_of())
    assert isinstance(asked, int)
    return asked


def yes(fetch_id: int, responder: int = 2, digest: bytes = DIGEST) -> FetchResponse:
    parameters = NO_PARAMETERS.with_bytes(ParameterId.FULL_NAME_DIGEST, digest)
    return FetchResponse(ME, fetch_id, NodeId(responder), 0, 0, data=OK, parameters=parameters)


def no(fetch_id: int, code: int = SubscribeCode.NO_PUBLISHER, responder: int = 2) -> FetchResponse:
    return FetchResponse(ME, fetch_id, NodeId(responder), 0, code, "no")


def test_a_request_says_what_policy_and_the_publisher_need() -> None:
    rig, asking = asking_rig(2)
    fetch_id = ask(asking)
    ((session, request),) = rig.take()
    assert session == 20
    assert isinstance(request, FetchRequest)
    assert (request.source, request.target, request.fetch_id) == (ME, NodeId(2), fetch_id)
    assert (request.hops, request.full_name_hash) == (0, key_of(TRACK))
    assert request.scope == (Label("region", "eu"),)
    assert request.data == asked_of()
    assert len(asking) == 1


def test_two_fetches_have_two_ids() -> None:
    _, asking = asking_rig(2)
    assert ask(asking) != ask(asking)


def test_accepted_and_over() -> None:
    rig, asking = asking_rig(2)
    fetch_id = ask(asking)
    asking.response(1.0, yes(fetch_id))
    assert rig.told() == [("answered", fetch_id, 0, "")]
    asking.response(1.0, yes(fetch_id))  # twice
    assert asking.dropped == 1
    asking.over(fetch_id)
    assert len(asking) == 0
    asking.response(1.0, yes(fetch_id))
    assert asking.dropped == 2
    assert rig.told() == []


def test_the_next_one_is_asked_and_the_last_word_is_told() -> None:
    rig, asking = asking_rig(2, 3)
    fetch_id = ask(asking)
    asking.response(1.0, no(fetch_id))
    assert rig.told() == []
    assert [(session, message.target) for session, message in rig.take()] == [  # type: ignore[union-attr]  # requests
        (20, NodeId(2)),
        (30, NodeId(3)),
    ]
    asking.response(1.0, no(fetch_id, SubscribeCode.POLICY, 3))
    assert rig.told() == [("answered", fetch_id, SubscribeCode.POLICY, "no")]
    assert len(asking) == 0


def test_not_more_than_some_are_asked() -> None:
    rig, asking = asking_rig(*range(2, 20))
    rig.leads = {number: [20] for number in range(2, 20)}
    fetch_id = ask(asking)
    while len(asking):
        asking.response(1.0, no(fetch_id))
    assert len(rig.take()) == MAX_ASKED


def test_the_end_of_what_was_accepted() -> None:
    rig, asking = asking_rig(2, 3)
    fetch_id = ask(asking)
    asking.response(1.0, yes(fetch_id))
    asking.response(1.0, no(fetch_id, SubscribeCode.ENDED))
    assert [call[2] for call in rig.told()] == [0, SubscribeCode.ENDED]
    assert len(rig.take()) == 1  # its stream may have begun: nobody else is asked


def test_an_answer_about_another_name() -> None:
    rig, asking = asking_rig(2)
    fetch_id = ask(asking)
    asking.response(1.0, yes(fetch_id, digest=bytes(16)))
    assert [call[2] for call in rig.told()] == [SubscribeCode.HASH_COLLISION]


@pytest.mark.parametrize(
    ("rig_and_asking", "code"),
    [
        (asking_rig(), SubscribeCode.NO_PUBLISHER),
        (asking_rig(9), SubscribeCode.UNREACHABLE),
        (asking_rig(2, 3, policy=NarrowAsking(2, 3)), SubscribeCode.POLICY),
        (asking_rig(2, policy=NarrowAsking(wants=False)), SubscribeCode.POLICY),
    ],
    ids=["nobody", "no way", "export", "want"],
)
def test_nobody_can_be_asked(
    rig_and_asking: tuple[FetchRig, FetchAsking], code: SubscribeCode
) -> None:
    rig, asking = rig_and_asking
    asked = asking.ask(1.0, TRACK, asked_of())
    assert isinstance(asked, FetchRefusal)
    assert asked.code == code
    assert (rig.take(), len(asking)) == ([], 0)


def test_a_way_around_what_policy_or_a_dead_session_forbids() -> None:
    rig, asking = asking_rig(2, policy=NarrowAsking(3))
    rig.leads[2] = [30, 20, 40]
    rig.dead = {20}
    ask(asking)
    assert [session for session, _ in rig.take()] == [40]


def test_a_relay_that_does_not_know_itself() -> None:
    rig, asking = asking_rig(2)
    del rig.nodes[1]
    ask(asking)
    ((_, request),) = rig.take()
    assert isinstance(request, FetchRequest)
    assert request.scope == ()


def test_cancelled() -> None:
    rig, asking = asking_rig(2)
    fetch_id = ask(asking)
    # A control server sent it on, so it is cancelled elsewhere.
    asking.response(1.0, yes(fetch_id, responder=3))
    rig.take()
    rig.leads[3] = [20, 30]
    asking.cancel(1.0, fetch_id)
    assert rig.take() == [(20, FetchCancel(ME, NodeId(3), fetch_id, 0))]
    asking.cancel(1.0, fetch_id)
    assert rig.take() == []


def test_who_was_asked_is_gone() -> None:
    rig, asking = asking_rig(2, 3)
    ask(asking)
    asking.node_gone(1.0, NodeId(4))
    asking.node_gone(1.0, NodeId(2))
    assert [session for session, _ in rig.take()] == [20, 30]
    asking.node_gone(1.0, NodeId(3))
    assert [call[2] for call in rig.told()] == [SubscribeCode.UNREACHABLE]
    assert len(asking) == 0


def test_without_clients_nobody_is_told() -> None:
    rig = FetchRig()
    rig.have = [2]
    asking = FetchAsking(ME, rig, HASHER)
    fetch_id = ask(asking)
    asking.response(1.0, yes(fetch_id))
    asking.response(1.0, no(fetch_id))
    assert rig.told() == []


def serving_rig(rig: FetchRig | None = None) -> tuple[FetchRig, FetchServing]:
    rig = rig or FetchRig()
    serving = FetchServing(ME, rig, HASHER)
    serving.attach(rig)
    return rig, serving


def code(serving: FetchServing, fetch_id: int = 7, source: int = 2) -> int | None:
    no = serving.request(1.0, request_of(source, 1, fetch_id))
    return None if no is None else no.code


def states(rig: FetchRig) -> list[str]:
    return [state for _, state in rig.feeds]


def test_served_to_the_end() -> None:
    rig, serving = serving_rig()
    assert code(serving) is None
    assert rig.told() == [("serve", TWO, 7)]
    response = serving.fetched((TWO, 7), OK)
    assert response is not None
    assert (response.source, response.fetch_id, response.responder) == (TWO, 7, ME)
    assert (response.code, response.hops, response.data) == (0, 0, OK)
    digest = HASHER.end_check(TRACK.namespace.fields, TRACK.name)
    assert response.parameters.get(ParameterId.FULL_NAME_DIGEST) == digest
    assert states(rig) == ["open"]
    serving.served(1.0, (TWO, 7))
    assert (states(rig), len(serving)) == (["closed"], 0)
    serving.served(1.0, (TWO, 7))
    assert serving.fetched((TWO, 7), OK) is None


def test_the_same_request_twice_is_one() -> None:
    rig, serving = serving_rig()
    assert (code(serving), code(serving)) == (None, None)
    assert (len(rig.told()), len(serving)) == (1, 1)


def test_refused_by_our_clients() -> None:
    rig, serving = serving_rig()
    code(serving)
    no = FetchRefusal(SubscribeCode.NO_PUBLISHER, "x" * 2000, OK)
    response = serving.refused(1.0, (TWO, 7), no)
    assert response is not None
    assert (response.code, response.data, response.retry_after_ms) == (no.code, OK, 0)
    assert len(response.reason) == 1024
    assert (states(rig), len(serving)) == (["cut"], 0)
    assert serving.refused(1.0, (TWO, 7), no) is None


def test_so_many_of_one_source_and_so_many_in_all() -> None:
    rig, serving = serving_rig()
    codes = [code(serving, number + 1) for number in range(MAX_FETCHES + 1)]
    assert codes == [None] * MAX_FETCHES + [SubscribeCode.LIMIT]
    assert code(serving, source=3) is None  # others do not notice
    no = FetchRefusal(SubscribeCode.LIMIT, "full")
    assert serving.response((TWO, 9), no).retry_after_ms > 0
    serving.served(1.0, (TWO, 1))
    assert code(serving, 1) is None
    for source in range(10, 10 + MAX_SERVED // MAX_FETCHES):
        rig.nodes[source] = replace(rig.nodes[2], node_id=NodeId(source))
        for number in range(MAX_FETCHES):
            code(serving, number + 1, source)
    assert len(serving) == MAX_SERVED
    assert code(serving, source=4) == SubscribeCode.LIMIT


def test_names_are_compared_in_full() -> None:
    _, serving = serving_rig()
    request = replace(request_of(2, 1), data=asked_of(OTHER))
    no = serving.request(1.0, request)
    assert no is not None
    assert no.code == SubscribeCode.HASH_COLLISION
    no = serving.request(1.0, replace(request, data=SubscribeData()))
    assert no is not None
    assert no.code == SubscribeCode.HASH_COLLISION
    assert len(serving) == 0


def test_a_source_that_nobody_knows_or_that_no_way_leads_to() -> None:
    rig, serving = serving_rig()
    assert code(serving, source=9) == SubscribeCode.UNREACHABLE
    rig.way_back = False
    assert code(serving) == SubscribeCode.UNREACHABLE
    assert len(serving) == 0


def test_policy() -> None:
    class Narrow(OpenPolicy):
        def subscribe(
            self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
        ) -> Refusal | None:
            assert (name, source.node_id, local.node_id) == (TRACK, TWO, ME)
            return Refusal("rule", "region eu is not allowed")

    rig, serving = serving_rig(FetchRig(Narrow()))
    assert code(serving) == SubscribeCode.POLICY
    assert rig.told() == []


def test_a_relay_without_clients() -> None:
    serving = FetchServing(ME, FetchRig(), HASHER)
    assert code(serving) == SubscribeCode.NO_PUBLISHER
    serving.cancel(1.0, (TWO, 7))


def test_cancelled_and_gone() -> None:
    rig, serving = serving_rig()
    code(serving, 7)
    code(serving, 8)
    code(serving, 7, source=3)
    rig.told()
    serving.cancel(1.0, (TWO, 7))
    serving.cancel(1.0, (TWO, 7))
    assert rig.told() == [("drop", TWO, 7)]
    serving.node_gone(1.0, NodeId(4))
    serving.node_gone(1.0, TWO)
    assert rig.told() == [("drop", TWO, 8)]
    assert (states(rig), len(serving)) == (["cut", "cut", "open"], 1)
