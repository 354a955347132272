"""Relays of the network that abuse fetches, over real QUIC; as in ``test_hostile_peers``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from laps_relay.network.fetch import fetches
from laps_relay.network.fetch.fetches import MAX_FETCHES
from laps_sdk.upstream.bodies import fetch_data
from laps_wire.moqt.messages import StandaloneFetch
from laps_wire.moqt.parameters import NO_PARAMETERS
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode, StreamCode
from laps_wire.peering.laps2 import (
    FLAG_FETCH,
    FetchCancel,
    FetchRequest,
    FetchResponse,
    PayloadFormat,
    SnsAdvertise,
    SubscribeCode,
)
from testkit.hostile_peer import HostilePeer, hostile_peer
from testkit.logs import restored_logging
from testkit.network_scene import scene
from testkit.network_task import RunningRelay, until

pytestmark = pytest.mark.anyio

TRACK = FullTrackName(Namespace.of(b"scene"), b"numbers")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def request(mallory: HostilePeer, target: RunningRelay, fetch_id: int) -> FetchRequest:
    """What an honest relay would say."""
    hasher, fields = mallory.hasher, TRACK.namespace.fields
    past = StandaloneFetch(TRACK, Location(0, 0), Location(0, 0))
    return FetchRequest(
        mallory.node,
        NodeId.parse(target.node),
        fetch_id,
        0,
        hasher.elements(fields),
        hasher.name(TRACK.name),
        hasher.full_name(fields, TRACK.name),
        data=fetch_data(past, NO_PARAMETERS, Draft.D18),
    )


async def test_a_flood_of_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is over its budget is refused by the first relay, what is too much by the last."""
    # On a busy machine a flood is not fast.
    monkeypatch.setattr(fetches, "RATE", 0.0)
    async with scene(tmp_path) as show:
        async with hostile_peer(show.net, show.via, fetches=True) as mallory:
            await mallory.knows(show.left)
            mallory.say(
                *(
                    request(mallory, show.left, number + 1)
                    for number in range(int(fetches.BURST) + 200)
                )
            )
            await until(lambda: len(mallory.heard(FetchResponse)) == fetches.BURST + 200)
            answers = mallory.heard(FetchResponse)
            via = NodeId.parse(show.via.node)
            over_budget = [each for each in answers if each.responder == via]
            assert [each.code for each in over_budget] == [SubscribeCode.LIMIT] * 200
            assert len({each.fetch_id for each in over_budget}) == 200
            codes = Counter(each.code for each in answers)
            assert codes[SubscribeCode.LIMIT] >= 200  # the o-relay has its own limit
            assert codes[SubscribeCode.ACCEPTED] >= 1
            assert len(show.left.network.relay.fetches.serving) <= MAX_FETCHES
        await until(lambda: not len(show.left.network.relay.fetches.serving))


async def test_answers_that_nobody_asked_for(tmp_path: Path) -> None:
    async with (
        scene(tmp_path) as show,
        hostile_peer(show.net, show.right, fetches=True) as mallory,
    ):
        right = NodeId.parse(show.right.node)
        key = mallory.hasher.full_name(TRACK.namespace.fields, TRACK.name)
        mallory.say(
            *(FetchResponse(right, number + 1, mallory.node, 0, 0) for number in range(100)),
            FetchCancel(mallory.node, right, 1, 0),
            FetchCancel(NodeId(1), NodeId(2), 1, 0),
            SnsAdvertise(1, 1, 0, (right,)),
        )
        await mallory.echo()
        assert show.right.network.relay.fetches.asking.dropped == 100
        mallory.data(
            1,
            b"\x05\x00",
            track=key,
            fin=False,
            context=77,
            flags=FLAG_FETCH,
            payload_format=PayloadFormat.MOQT_18,
        )
        await until(mallory.stopped)
        assert mallory.stopped() == [StreamCode.NO_SUBSCRIBERS]


async def test_a_peer_that_has_not_agreed_on_fetches(tmp_path: Path) -> None:
    """An old relay is asked nothing; one that speaks of fetches all the same breaks a rule."""
    async with scene(tmp_path) as show, hostile_peer(show.net, show.via) as mallory:
        await mallory.knows(show.left)
        mallory.say(request(mallory, show.left, 1))
        assert (await mallory.closed()).code == CloseCode.PROTOCOL_VIOLATION


async def test_a_fetch_with_a_name_that_is_not_its_hash(tmp_path: Path) -> None:
    async with (
        scene(tmp_path) as show,
        hostile_peer(show.net, show.left, fetches=True) as mallory,
    ):
        good = request(mallory, show.left, 1)
        other = StandaloneFetch(
            FullTrackName(TRACK.namespace, b"other"), Location(0, 0), Location(0, 0)
        )
        data = fetch_data(other, NO_PARAMETERS, Draft.D18)
        mallory.say(
            FetchRequest(
                good.source,
                good.target,
                1,
                0,
                good.element_hashes,
                good.name_hash,
                good.full_name_hash,
                data=data,
            )
        )
        answer = await mallory.hears(FetchResponse)
        assert (answer.code, answer.fetch_id) == (SubscribeCode.HASH_COLLISION, 1)
