"""The s-relay: who is asked, in which order, and what its clients are told."""

from __future__ import annotations

import pytest

from laps_relay.network.fetch.fetch_asking import MAX_ASKED, FetchAsking
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
    SubscribeCode,
    SubscribeInfo,
)
from testkit.fetch_rig import OK, FetchRig, asked_of
from testkit.relay_net import HASHER, TRACK, key_of

ME = NodeId(1)
DIGEST = HASHER.end_check(TRACK.namespace.fields, TRACK.name)


class Narrow(OpenPolicy):
    """Lets nothing go to some, and nobody have a track."""

    def __init__(self, *peers: int, wants: bool = True) -> None:
        super().__init__()
        self.peers = peers
        self.wants = wants

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        return Refusal("rule", "not to that peer") if int(peer.node_id) in self.peers else None

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        return None if self.wants else Refusal("rule", "not here")


def rig_of(*have: int, policy: OpenPolicy | None = None) -> tuple[FetchRig, FetchAsking]:
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
    rig, asking = rig_of(2)
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
    _, asking = rig_of(2)
    assert ask(asking) != ask(asking)


def test_accepted_and_over() -> None:
    rig, asking = rig_of(2)
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
    rig, asking = rig_of(2, 3)
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
    rig, asking = rig_of(*range(2, 20))
    rig.leads = {number: [20] for number in range(2, 20)}
    fetch_id = ask(asking)
    while len(asking):
        asking.response(1.0, no(fetch_id))
    assert len(rig.take()) == MAX_ASKED


def test_the_end_of_what_was_accepted() -> None:
    rig, asking = rig_of(2, 3)
    fetch_id = ask(asking)
    asking.response(1.0, yes(fetch_id))
    asking.response(1.0, no(fetch_id, SubscribeCode.ENDED))
    assert [call[2] for call in rig.told()] == [0, SubscribeCode.ENDED]
    assert len(rig.take()) == 1  # its stream may have begun: nobody else is asked


def test_an_answer_about_another_name() -> None:
    rig, asking = rig_of(2)
    fetch_id = ask(asking)
    asking.response(1.0, yes(fetch_id, digest=bytes(16)))
    assert [call[2] for call in rig.told()] == [SubscribeCode.HASH_COLLISION]


@pytest.mark.parametrize(
    ("rig_and_asking", "code"),
    [
        (rig_of(), SubscribeCode.NO_PUBLISHER),
        (rig_of(9), SubscribeCode.UNREACHABLE),
        (rig_of(2, 3, policy=Narrow(2, 3)), SubscribeCode.POLICY),
        (rig_of(2, policy=Narrow(wants=False)), SubscribeCode.POLICY),
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
    rig, asking = rig_of(2, policy=Narrow(3))
    rig.leads[2] = [30, 20, 40]
    rig.dead = {20}
    ask(asking)
    assert [session for session, _ in rig.take()] == [40]


def test_a_relay_that_does_not_know_itself() -> None:
    rig, asking = rig_of(2)
    del rig.nodes[1]
    ask(asking)
    ((_, request),) = rig.take()
    assert isinstance(request, FetchRequest)
    assert request.scope == ()


def test_cancelled() -> None:
    rig, asking = rig_of(2)
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
    rig, asking = rig_of(2, 3)
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
