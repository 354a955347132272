"""A relay that is killed, restarted or stopped, as real processes see it, and quiet tracks.

The limits are far above what is measured on an idle machine; docs/explanation/transport.md has
those figures.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import laps_sdk
from testkit.logs import restored_logging
from testkit.network_task import network, until
from testkit.relay_process import RunningRelay, relay_process

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SOON = 4.0
"""Less than the five seconds of silence after which a client gives up."""


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def connect(relay: RunningRelay, **options: object) -> laps_sdk.Session:
    return laps_sdk.connect(relay.url, pin=relay.certificate_sha256, **options)  # type: ignore[arg-type]


async def lost_after(session: laps_sdk.Session) -> float:
    """Return the seconds until a session has lost its connection."""
    began = time.monotonic()
    while session.connected:  # noqa: ASYNC110 - applications look at it in the same way
        await asyncio.sleep(0.005)
    return time.monotonic() - began


def free_port() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "quiet"])
async def test_a_killed_relay_is_noticed_by_its_clients(
    busy: bool, record_property: Callable[[str, object], None]
) -> None:
    with relay_process() as relay:
        async with connect(relay) as session:
            track = await session.publish("demo", "video")
            relay.process.kill()
            relay.process.wait()
            if busy:
                await track.write(b"nobody reads this")
            seconds = await lost_after(session)
            record_property("seconds", seconds)
            assert seconds < SOON
            with suppress(laps_sdk.ConnectionLostError):
                await session.close()


async def test_a_relay_that_hangs_is_noticed_by_its_clients() -> None:
    with relay_process() as relay:
        async with connect(relay, dead_after=1.0) as session:
            relay.signal(signal.SIGSTOP)
            try:
                assert 0.5 < await lost_after(session) < SOON
            finally:
                relay.signal(signal.SIGCONT)


async def test_a_restarted_relay_is_noticed_at_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """While it was away the client sent nothing, so no closed port told of it."""
    flags = ("--port", free_port(), "--state-dir", str(tmp_path))
    with ExitStack() as stack:
        relay = stack.enter_context(relay_process(*flags))
        async with connect(relay, keepalive=30.0, dead_after=100.0) as session:
            track = await session.publish("demo", "video")
            relay.process.kill()
            relay.process.wait()
            again = stack.enter_context(relay_process(*flags))
            assert again.url == relay.url
            await track.write(b"the relay has forgotten this track")
            seconds = await lost_after(session)
            record_property("seconds", seconds)
            assert seconds < SOON
            async with asyncio.timeout(60):
                while not session.connected:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.01)
            await track.write(b"and knows it again", new_group=True)


async def test_a_worker_that_was_replaced_is_noticed_at_once() -> None:
    """Its socket stays open at the parent, so no port is closed: its successor says it."""
    with relay_process("--workers", "2") as relay:
        async with connect(relay, keepalive=0.2, dead_after=100.0, reconnect=False) as session:
            track = await session.publish("demo", "video", announce=True)
            for worker in relay.told["workers"]:
                os.kill(worker["pid"], signal.SIGKILL)
            with pytest.raises(laps_sdk.SessionClosedError, match="stateless reset"):
                await track.subscribed()


async def test_a_killed_client_is_noticed_by_its_relay() -> None:
    """Its port is closed, and what it published is gone after the grace."""
    with relay_process(LAPS_LIMITS__PUBLISHER_GRACE="1s") as relay:
        code = (
            "import asyncio, laps_sdk, sys\n"
            "async def main():\n"
            "    async with laps_sdk.connect(sys.argv[1], pin=sys.argv[2]) as session:\n"
            "        await session.publish('demo', 'video')\n"
            "        print('published', flush=True)\n"
            "        await asyncio.sleep(600)\n"
            "asyncio.run(main())\n"
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, relay.url, relay.certificate_sha256,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert await process.stdout.readline() == b"published\n"
        async with connect(relay) as session, session.tracks("demo") as tracks:
            assert (await anext(tracks)) is not None
            process.kill()
            began = time.monotonic()
            await process.wait()
            async with asyncio.timeout(30):
                await anext(tracks)
            assert time.monotonic() - began < 15.0


async def test_a_killed_relay_is_noticed_by_its_peers(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    flags = ("--type", "via", "--node-id", "7:1", "--peer-port", "0", "--state-dir", str(tmp_path))
    with relay_process(*flags) as via:
        async with network(tmp_path) as net:
            # A long hold time: the closed port tells it.
            left = await net.relay("edge", via.peers, network={"hold": "60s", "dynamic": False})
            await until(lambda: [row for row in left.network.peers() if row.control])
            via.process.kill()
            via.process.wait()
            began = time.monotonic()
            await until(lambda: not left.network.peers())
            record_property("seconds", time.monotonic() - began)
            assert time.monotonic() - began < 20.0


async def test_a_track_that_is_quiet_keeps_its_subscribers() -> None:
    """For longer than the idle timeout of the relay."""
    with relay_process(LAPS_LIMITS__CONNECTION__IDLE_TIMEOUT="2s") as relay:
        async with connect(relay) as alice, connect(relay) as bob:
            track = await alice.publish("demo", "video")
            async with bob.subscribe("demo", "video") as heard:
                for number in range(3):
                    await track.write(b"%d" % number, end_of_group=True)
                    assert (await anext(heard)).payload == b"%d" % number
                    await asyncio.sleep(5.0)
            assert alice.reconnects == bob.reconnects == 0


# Writes


async def test_objects_that_a_killed_relay_did_not_acknowledge_are_counted() -> None:
    with relay_process() as relay:
        async with connect(relay) as session:
            track = await session.publish("demo", "video")
            for _ in range(10):
                await track.write(b"arrives", end_of_group=True)
            async with asyncio.timeout(30):
                while track.unacknowledged:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.01)
            assert not track.lost
            relay.process.kill()
            relay.process.wait()
            async with track.group() as group:
                for _ in range(3):
                    await group.write(b"vanishes")
            await track.write(b"vanishes as well")
            assert track.unacknowledged >= 4
            await lost_after(session)
            # The session still holds them, and would send them again.
            assert [track.lost, track.unacknowledged, track.objects] == [0, 4, 14]
            with pytest.raises(laps_sdk.ConnectionLostError, match="no connection to the relay"):
                track.group().write_now(b"not even begun")
            waits = asyncio.create_task(track.write(b"waits"))
            await asyncio.sleep(0.2)
            assert not waits.done()
            waits.cancel()
            with pytest.raises(laps_sdk.ConnectionLostError, match="acknowledge: 4 of demo video"):
                await session.close()
            assert [track.lost] == [4]


async def test_closing_a_session_says_what_did_not_arrive() -> None:
    with relay_process() as relay:

        async def publish() -> None:
            async with connect(relay, reconnect=False) as session:
                track = await session.publish("demo", "video")
                relay.process.kill()
                relay.process.wait()
                await track.write(b"one")
                await track.write(b"two", new_group=True)

        with pytest.raises(laps_sdk.ConnectionLostError, match="acknowledge: 2 of demo video"):
            await publish()


async def test_laps_pub_fails_if_its_relay_is_killed(tmp_path: Path) -> None:
    with relay_process() as relay:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from laps_sdk.cli import main; main()",
            "pub", relay.url, "demo", "video", "--pin", relay.certificate_sha256,
            stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=tmp_path,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stderr is not None
        assert b"publishing" in await process.stderr.readline()
        process.stdin.write(b"arrives\n")
        await asyncio.sleep(0.5)
        relay.process.kill()
        relay.process.wait()
        process.stdin.write(b"vanishes\n")
        process.stdin.close()
        async with asyncio.timeout(60):
            words = (await process.stderr.read()).decode()
            status = await process.wait()
        assert status == 1, words
        assert "did not acknowledge: 1 of demo video" in words
