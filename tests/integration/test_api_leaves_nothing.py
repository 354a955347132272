"""What a client has done and ended leaves nothing behind in its session."""

from __future__ import annotations

import contextlib

import pytest

import laps_sdk
from testkit.edge_task import client, edge_relay
from testkit.moqt_server import eventually, link_of, soon

pytestmark = pytest.mark.anyio


def tables(session: laps_sdk.Session) -> dict[str, int]:
    """How much each table of a session holds."""
    link = link_of(session)
    incoming, peer = link.incoming, link.peer
    return {
        "durables": len(session._reconnector._durables),
        "tasks": len(session._reconnector._tasks),
        "published": len(session._published),
        "watchers": len(session._watchers),
        "announcements": len(session._announcements),
        "requests": len(link._requests),
        "open requests": len(peer.session.open_requests),
        "writers": len(link._writers),
        "out": len(link._out),
        "subscriptions": len(incoming._subscriptions),
        "fetches": len(incoming._fetches),
        "streams": len(incoming._streams),
        "early": len(incoming._early),
        "data in": len(peer._data_in),
        "blocked": len(peer._blocked),
        "streams of the session": len(peer._out),
    }


async def cycle(publisher: laps_sdk.Session, session: laps_sdk.Session, number: int) -> None:
    """Everything that an application does, once."""
    name = f"track-{number}"
    async with await publisher.publish("demo", name, announce=number % 2 == 1) as track:
        async with session.subscribe("demo", name) as subscription:
            await soon(track.subscribed())
            await track.write(b"payload", end_of_group=True)
            await soon(anext(subscription))
        await soon(session.track_status("demo", name))
        largest = track.largest
        assert largest is not None
        got = [obj async for obj in session.fetch("demo", name, start=largest, end=largest)]
        assert len(got) == 1
    with contextlib.suppress(laps_sdk.RequestRefusedError):
        async with session.subscribe("demo", "nobody", wait=0):
            raise AssertionError("nobody publishes it")


@pytest.mark.parametrize("draft", ["moqt-18", "moqt-16"])
async def test_cycles_leave_nothing_behind(draft: str) -> None:
    async with (
        edge_relay(drafts=[draft]) as edge,
        client(edge) as publisher,
        client(edge) as session,
    ):
        sessions = (publisher, session)
        before = [tables(each) for each in sessions]
        for number in range(20):
            await cycle(publisher, session, number)
        await eventually(lambda: [tables(each) for each in sessions] == before)
