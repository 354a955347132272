"""PyPI ``moq-rs`` publishes and subscribes through our relay, and with our client.

It negotiates by ALPN, so the relay's list decides the draft.
"""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk.quic.endpoint import Backend
from testkit.edge_task import edge_relay
from testkit.peers import MOQ_RS_PUBLISHER, MOQ_RS_SUBSCRIBER, available, peer_process

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not available("moq"), reason="moq-rs is not installed"),
    pytest.mark.timeout(180),
]

DRAFTS = ["moqt-16", "moqt-18"]
SCHEMES = ["moqt", "https"]
BACKENDS = ["aioquic", "qh3"]
GROUPS, FRAMES = 5, 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("draft", DRAFTS)
async def test_moq_rs_to_moq_rs(draft: str, scheme: str, backend: Backend) -> None:
    """Both ends are foreign; the relay is ours."""
    async with edge_relay(drafts=(draft,), backend=backend) as edge:
        url = edge.url(scheme)
        async with (
            peer_process(
                MOQ_RS_PUBLISHER, url, "", "room/alice", "video", str(GROUPS), str(FRAMES)
            ) as publisher,
            peer_process(
                MOQ_RS_SUBSCRIBER, url, "", "room/alice", "video", str(FRAMES)
            ) as subscriber,
        ):
            await publisher.until("ready")
            await subscriber.until("subscribed")
            heard = [await subscriber.until("payload") for _ in range(FRAMES)]
    last = heard[-1]["payload"].split(".")[0]
    assert [said["payload"] for said in heard] == [f"{last}.{frame}" for frame in range(FRAMES)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("draft", DRAFTS)
async def test_moq_rs_hears_our_client(draft: str, scheme: str) -> None:
    async with (
        edge_relay(drafts=(draft,)) as edge,
        laps_sdk.connect(edge.url("moqt"), ca_file=edge.ca_file) as session,
        peer_process(
            MOQ_RS_SUBSCRIBER, edge.url(scheme), "", "room/bob", "video", "1"
        ) as subscriber,
    ):
        track = await session.publish("room/bob", "video", announce=True)
        await subscriber.until("subscribed")
        async with asyncio.timeout(60):
            await track.subscribed()
        await track.write(b"hello")
        assert (await subscriber.until("payload"))["payload"] == "hello"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("draft", DRAFTS)
async def test_our_client_hears_moq_rs(draft: str, scheme: str) -> None:
    async with (
        edge_relay(drafts=(draft,)) as edge, peer_process(
            MOQ_RS_PUBLISHER,
            edge.url(scheme), "", "room/carol", "video", str(GROUPS), str(FRAMES),
        ) as publisher,
        laps_sdk.connect(edge.url("moqt"), ca_file=edge.ca_file) as session,
    ):  # fmt: skip
        await publisher.until("ready")
        async with asyncio.timeout(60), session.subscribe("room/carol", "video") as heard:
            first = await anext(aiter(heard))
        group, frame = first.payload.split(b".")
        assert 0 <= int(group) < GROUPS
        assert 0 <= int(frame) < FRAMES
