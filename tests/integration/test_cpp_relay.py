"""A C++ relay at one of our Edges, over real QUIC: its network and ours hear each other.

The other end is ``testkit.cpp_speaker``, which writes what live C++ relays wrote.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import laps_sdk
from laps_wire.names import Namespace
from testkit import cpp_speaker as cpp
from testkit.cpp_speaker import CppSpeaker, dialled, dialling
from testkit.logs import restored_logging
from testkit.network_task import NetworkTask, RunningRelay, network, until

pytestmark = pytest.mark.anyio

ROOM = Namespace.of(b"demo/room1")
OUR_NODE = bytes.fromhex("0000000100000001")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


async def two_edges(net: NetworkTask, **more: Any) -> tuple[RunningRelay, RunningRelay]:
    """The first one knows C++ relays, the second one has a session with the first."""
    soon = {"unsubscribe_delay": "0s"}
    brief = {"linger": "0s"}
    left = await net.relay("edge", network={"cpp_peers": ["relay-a"], **soon, **more}, limits=brief)
    right = await net.relay("edge", left, network=soon, limits=brief)
    await net.settled()
    return left, right


def dial(relay: RunningRelay) -> Any:
    host, port = relay.network.server.address[:2]
    return dialling(host, port)


class Ears:
    """A subscriber."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def run(self, relay: RunningRelay, name: str) -> None:
        async with (
            relay.connect() as session,
            session.subscribe(ROOM, name, follow=True, wait=30) as track,
        ):
            async for obj in track:
                self.heard.append(obj.payload)


async def test_a_cpp_relay_that_dials_us(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        left, right = await two_edges(net)
        async with dial(left) as speaker:
            await until(lambda: speaker.heard(cpp.RESPONSE))
            (response,) = speaker.heard(cpp.RESPONSE)
            assert response[:11] == bytes(2) + OUR_NODE + b"\x01"
            speaker.announce(cpp.EVENTS)
            await until(right.network.announces)
            assert not speaker.heard(cpp.SUBSCRIBE)  # nobody listens
            ears = Ears()
            listening = group.create_task(ears.run(right, "events"))
            await until(lambda: speaker.heard(cpp.SUBSCRIBE))
            (subscribe,) = speaker.heard(cpp.SUBSCRIBE)
            assert subscribe[2:] == (
                OUR_NODE
                + bytes.fromhex("88fe0819a1261da07d79db1341a41c65070750223dab53b6")
                + struct.pack(">I", len(cpp.SUBSCRIBE_EVENTS))
                + cpp.SUBSCRIBE_EVENTS
            )
            speaker.say(cpp.SNS, bytes.fromhex("00000002020001") + OUR_NODE)
            head = bytes.fromhex("00000002070750223dab53b6")
            alias = bytes.fromhex("c70750223dab53b6")
            words = b"twenty-six bytes of payload"[:26]
            stream = b"\x13\x02" + head + b"\x80\x00\x00\x13\x88" + b"\x15" + alias
            speaker.stream(stream + b"\x00\x00\x80" + b"\x00\x00\x1a" + words)
            await until(lambda: ears.heard == [words])
            for number in range(1, 64):  # datagrams may be lost, even here
                quick = b"\x0e\x00" + head + b"\x00" + alias + bytes([number]) + b"\x00\x80quick"
                speaker.datagram(quick)
                await asyncio.sleep(0.05)
                if len(ears.heard) > 1:
                    break
            await until(lambda: len(ears.heard) > 1)
            assert set(ears.heard[1:]) == {b"quick"}
            listening.cancel()
            await until(lambda: speaker.heard(cpp.UNSUBSCRIBE))
            assert speaker.heard(cpp.UNSUBSCRIBE) == speaker.heard(cpp.SUBSCRIBE)
            speaker.retract(cpp.EVENTS)
            await until(lambda: not right.network.announces())
            speaker.announce(cpp.EVENTS)
            await until(right.network.announces)
            assert speaker.crowded == 0
        # With the relay goes what it announced.
        await until(lambda: not right.network.announces())


async def test_a_cpp_relay_that_we_dial(tmp_path: Path) -> None:
    async with network(tmp_path) as net, dialled() as (contact, coming):
        _, right = await two_edges(net, cpp_contacts=[contact])
        speaker = await coming
        await until(lambda: speaker.heard(1))
        assert speaker.heard(1)[0][:10] == b"\x02" + OUR_NODE + b"\x01"
        async with right.connect() as session:
            track = await session.publish(ROOM, "clk", timestamps=False, first=0)
            await until(lambda: speaker.heard(cpp.ANNOUNCE))
            assert speaker.heard(cpp.ANNOUNCE) == [OUR_NODE + cpp.CLK]
            speaker.subscribe(cpp.CLK_HASH, cpp.SUBSCRIBE_CLK)
            await until(lambda: speaker.sets)
            assert speaker.heard(cpp.SNS) == [
                bytes.fromhex("00000002020001") + cpp.RELAY_A.to_bytes(8, "big")
            ]
            await heard_by(speaker, track)
            speaker.subscribe(cpp.CLK_HASH, cpp.SUBSCRIBE_CLK, end=True)
            await until(lambda: speaker.heard(cpp.SNS_GONE) == [bytes.fromhex("00000002")])
        await until(lambda: speaker.heard(cpp.UNANNOUNCE) == [OUR_NODE + cpp.CLK])
        # Nothing else is to be said, and yet it hears from us; its echo does not matter.
        await until(lambda: speaker.heard(cpp.NODE))
        assert speaker.heard(cpp.NODE)[0] == speaker.heard(1)[0][1:]
        assert (speaker.crowded, speaker.lost) == (0, 0)


async def heard_by(speaker: CppSpeaker, track: laps_sdk.PublishedTrack) -> None:
    while not speaker.streams:
        await track.write(b"tick", end_of_group=True)
        await asyncio.sleep(0.02)
    first = min(speaker.streams)
    await until(lambda: first in speaker.finished)
    data = speaker.streams[first]
    assert data[:19] == bytes.fromhex("13020000000206563237cfe9cbb08000001388")
    assert data[20:28] == bytes.fromhex("c6563237cfe9cbb0")
    assert data.endswith(b"\x04tick")
    while not speaker.datagrams:
        await track.write(b"tock", datagram=True)
        await asyncio.sleep(0.02)
    data = speaker.datagrams[0]
    assert data[:14] == bytes.fromhex("0e000000000206563237cfe9cbb0")
    assert data[15:23] == bytes.fromhex("c6563237cfe9cbb0")
    assert data.endswith(b"tock")


async def test_who_is_not_named_is_refused(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        left = await net.relay("edge", network={"cpp_peers": ["relay-b"]})
        async with dial(left) as speaker:
            await until(lambda: speaker.closed)
            assert speaker.heard(cpp.RESPONSE) == [bytes.fromhex("0002")]


async def test_without_any_their_protocol_is_not_spoken(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        left = await net.relay("edge")
        with pytest.raises(ConnectionError):
            async with dial(left):
                pass
