"""The o-relay: what it serves, how much of it, and what it says otherwise."""

from __future__ import annotations

from dataclasses import replace

from laps_relay.network.fetch.fetch_serving import MAX_FETCHES, MAX_SERVED, FetchServing
from laps_relay.policy import OpenPolicy
from laps_sdk.peering.events import Refusal
from laps_sdk.upstream.interfaces import FetchRefusal
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NodeSelf,
    ParameterId,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
)
from testkit.fetch_rig import OK, FetchRig, asked_of, request_of
from testkit.relay_net import HASHER, OTHER, TRACK

ME = NodeId(1)
TWO = NodeId(2)


def rig_of(rig: FetchRig | None = None) -> tuple[FetchRig, FetchServing]:
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
    rig, serving = rig_of()
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
    rig, serving = rig_of()
    assert (code(serving), code(serving)) == (None, None)
    assert (len(rig.told()), len(serving)) == (1, 1)


def test_refused_by_our_clients() -> None:
    rig, serving = rig_of()
    code(serving)
    no = FetchRefusal(SubscribeCode.NO_PUBLISHER, "x" * 2000, OK)
    response = serving.refused(1.0, (TWO, 7), no)
    assert response is not None
    assert (response.code, response.data, response.retry_after_ms) == (no.code, OK, 0)
    assert len(response.reason) == 1024
    assert (states(rig), len(serving)) == (["cut"], 0)
    assert serving.refused(1.0, (TWO, 7), no) is None


def test_so_many_of_one_source_and_so_many_in_all() -> None:
    rig, serving = rig_of()
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
    _, serving = rig_of()
    request = replace(request_of(2, 1), data=asked_of(OTHER))
    no = serving.request(1.0, request)
    assert no is not None
    assert no.code == SubscribeCode.HASH_COLLISION
    no = serving.request(1.0, replace(request, data=SubscribeData()))
    assert no is not None
    assert no.code == SubscribeCode.HASH_COLLISION
    assert len(serving) == 0


def test_a_source_that_nobody_knows_or_that_no_way_leads_to() -> None:
    rig, serving = rig_of()
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

    rig, serving = rig_of(FetchRig(Narrow()))
    assert code(serving) == SubscribeCode.POLICY
    assert rig.told() == []


def test_a_relay_without_clients() -> None:
    serving = FetchServing(ME, FetchRig(), HASHER)
    assert code(serving) == SubscribeCode.NO_PUBLISHER
    serving.cancel(1.0, (TWO, 7))


def test_cancelled_and_gone() -> None:
    rig, serving = rig_of()
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
