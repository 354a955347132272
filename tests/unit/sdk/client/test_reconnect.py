"""Connections that are lost, and relays that go away: everything moves to the next link."""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk import Gap, GapCause, Location, NamespaceAdded, NamespaceRemoved, Subscription
from laps_sdk.quic.base import Connection, Handler
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import (
    PUBLISH_DONE_CODES,
    FilterType,
    RequestErrorCode,
    SessionCode,
)
from laps_wire.moqt.messages import (
    Fetch,
    Publish,
    PublishNamespace,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import RequestReceived
from laps_wire.moqt.structures import SubscriptionFilter
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_server import (
    MoqtServer,
    ServerPeer,
    eventually,
    hurry,
    joined,
    moqt_server,
    soon,
)

pytestmark = pytest.mark.anyio

VIDEO = FullTrackName(Namespace.of(b"demo"), b"video")
ALIAS = 7


async def accept_subscribe(peer: ServerPeer, largest: Location | None = None) -> int:
    asked = await peer.request(Subscribe)
    answer = Parameters(largest_object=largest)
    peer.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS, answer))
    return asked.request_id


async def test_a_track_is_published_again(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        task = asyncio.create_task(session.publish(VIDEO, first=1))
        asked = await first.request(Publish)
        first.do(lambda s: s.accept(asked.request_id))
        track = await soon(task)
        await track.write(b"a")
        await first.until(lambda: len(first.objects) == 1)
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        asked = await second.request(Publish)
        # Subscriptions begin before the object that is sent again.
        assert asked.message.parameters.largest_object is None
        waiting = asyncio.create_task(track.write(b"b"))
        second.do(lambda s: s.accept(asked.request_id))
        assert await soon(waiting) == Location(1, 1)
        await second.until(lambda: len(second.objects) == 2)
        assert [each.header.location for each in second.objects] == [(1, 0), (1, 1)]
        assert len(second.headers) == 1
        assert session.reconnects == 1


async def test_a_subscription_goes_on_behind_the_last_object(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        subscription = session.subscribe(VIDEO)
        task = asyncio.create_task(subscription.__aenter__())
        await accept_subscribe(first)
        await soon(task)
        first.send_group(ALIAS, 3, [b"a", b"b"], fin=False)
        assert [(await soon(anext(subscription))).payload for _ in range(2)] == [b"a", b"b"]
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        asked = await second.request(Subscribe)
        assert asked.message.parameters.subscription_filter == SubscriptionFilter(
            FilterType.LARGEST_OBJECT
        )
        answer = Parameters(largest_object=Location(4, 0))
        second.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS, answer))
        fetch = await second.request(Fetch)
        assert isinstance(fetch.message, Fetch)
        assert fetch.message.target == StandaloneFetch(VIDEO, Location(3, 2), Location(4, 1))
        second.send_group(ALIAS, 4, [b"e"], first=1)
        second.do(lambda s: s.accept_fetch(fetch.request_id, Location(4, 1)))
        second.send_fetch(fetch.request_id, [(3, 2, b"c"), (4, 0, b"d")])
        assert [(await soon(anext(subscription))).payload for _ in range(3)] == [b"c", b"d", b"e"]
        assert list(subscription.gaps) == []


async def test_what_no_cache_has_is_a_gap(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        subscription = session.subscribe(VIDEO)
        task = asyncio.create_task(subscription.__aenter__())
        await accept_subscribe(first)
        await soon(task)
        first.send_group(ALIAS, 3, [b"a"])
        await soon(anext(subscription))
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        await accept_subscribe(second, Location(5, 5))
        fetch = await second.request(Fetch)
        code = RequestErrorCode.DOES_NOT_EXIST
        second.do(lambda s: s.reject(fetch.request_id, code, "no cache"))
        second.send_group(ALIAS, 6, [b"b"])
        assert (await soon(anext(subscription))).payload == b"b"
        assert list(subscription.gaps) == [
            Gap(first=Location(3, 1), last=Location(5, 5), cause=GapCause.RECONNECTED)
        ]


async def test_a_range_goes_on_as_a_range(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        subscription = session.subscribe(VIDEO, start=3, end=9)
        task = asyncio.create_task(subscription.__aenter__())
        await accept_subscribe(first)
        await soon(task)
        first.send_group(ALIAS, 3, [b"a"])
        await soon(anext(subscription))
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        asked = await second.request(Subscribe)
        assert asked.message.parameters.subscription_filter == SubscriptionFilter(
            FilterType.ABSOLUTE_RANGE, Location(3, 1), 9
        )


async def test_a_refusal_that_may_pass_is_tried_again(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        subscription = session.subscribe(VIDEO)
        task = asyncio.create_task(subscription.__aenter__())
        await accept_subscribe(first)
        await soon(task)
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        for _ in range(2):
            asked = await second.request(Subscribe)
            request_id, code = asked.request_id, RequestErrorCode.DOES_NOT_EXIST
            second.do(lambda s, i=request_id, c=code: s.reject(i, c, "not yet"))  # type: ignore[misc] # bound early on purpose
        await accept_subscribe(second)
        second.send_group(ALIAS, 0, [b"a"])
        assert (await soon(anext(subscription))).payload == b"a"


async def test_a_refusal_that_stays_ends_the_subscription(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        subscription = session.subscribe(VIDEO)
        task = asyncio.create_task(subscription.__aenter__())
        await accept_subscribe(first)
        await soon(task)
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        asked = await second.request(Subscribe)
        code = RequestErrorCode.UNAUTHORIZED
        second.do(lambda s: s.reject(asked.request_id, code, "not any more"))
        with pytest.raises(laps_sdk.RequestRefusedError, match="UNAUTHORIZED: not any more"):
            await soon(anext(subscription))
        assert session.connected


async def test_goaway_is_followed(draft: str) -> None:
    async with (
        joined(draft) as (session, first, server),
        moqt_server(draft, network=server.network) as other,
    ):
        task = asyncio.create_task(session.publish(VIDEO, first=1))
        asked = await first.request(Publish)
        first.do(lambda s: s.accept(asked.request_id))
        track = await soon(task)
        subscription = session.subscribe("demo", "audio")
        entering = asyncio.create_task(subscription.__aenter__())
        await accept_subscribe(first)
        await soon(entering)
        first.do(lambda s: s.goaway(other.url))
        second = await other.session()
        # Until the new relay has taken the track, the old one gets it.
        await track.write(b"a")
        await first.until(lambda: len(first.objects) == 1)
        asked = await second.request(Publish)
        second.do(lambda s: s.accept(asked.request_id))
        await accept_subscribe(second)
        await first.until(lambda: first.over is not None)
        await track.write(b"b", new_group=True)
        await second.until(lambda: len(second.objects) == 1)
        second.send_group(ALIAS, 0, [b"c"])
        assert (await soon(anext(subscription))).payload == b"c"
        assert str(session.address) == other.url


async def test_a_publisher_that_moves_first_ends_nothing(draft: str) -> None:
    """The old relay says that the publisher is gone while the subscriber is on its way."""
    async with (
        joined(draft) as (session, first, server),
        moqt_server(draft, network=server.network) as other,
    ):
        subscription = session.subscribe(VIDEO)
        entering = asyncio.create_task(subscription.__aenter__())
        request_id = await accept_subscribe(first)
        await soon(entering)
        first.do(lambda s: s.goaway(other.url))
        second = await other.session()
        asked = await second.request(Subscribe)
        code = PUBLISH_DONE_CODES[first.draft].INTERNAL_ERROR
        first.do(lambda s: s.publish_done(request_id, code, 0, "the publisher is gone"))
        await first.round_trip()
        second.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS))
        await first.until(lambda: first.over is not None)
        second.send_group(ALIAS, 0, [b"here"])
        assert (await soon(anext(subscription))).payload == b"here"


@pytest.mark.parametrize("where", ["moqt://127.0.0.1:9", "not an address"])
async def test_a_goaway_to_nowhere_leads_back(draft: str, where: str) -> None:
    async with joined(draft) as (session, first, server):
        hurry(session, timeout=0.5)
        first.do(lambda s: s.goaway(where))
        await server.session()
        await first.until(lambda: first.over is not None)
        assert str(session.address) == server.url
        assert session.connected


async def test_namespaces_are_announced_and_watched_again(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        publishing = asyncio.create_task(session.publish(VIDEO, announce=True))
        asked = await first.request(PublishNamespace)
        first.do(lambda s: s.accept(asked.request_id))
        await soon(publishing)
        watch = session.namespaces("demo")
        watching = asyncio.create_task(watch.__aenter__())
        asked = await first.request(SubscribeNamespace)
        first.do(lambda s: s.accept(asked.request_id))
        first.do(lambda s: s.namespace(asked.request_id, Namespace.of(b"x")))
        await soon(watching)
        assert isinstance(await soon(anext(watch)), NamespaceAdded)
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        assert isinstance(await soon(anext(watch)), NamespaceRemoved)
        second = await server.session()
        asked = await second.request(PublishNamespace)
        second.do(lambda s: s.accept(asked.request_id))


async def test_without_reconnect_the_session_is_over(draft: str) -> None:
    async with joined(draft, reconnect=False) as (session, peer, _):
        subscription = session.subscribe(VIDEO)
        task = asyncio.create_task(subscription.__aenter__())
        await accept_subscribe(peer)
        await soon(task)
        publishing = asyncio.create_task(session.publish(VIDEO))
        await peer.request(Publish)
        peer.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "gone"))
        with pytest.raises(laps_sdk.SessionClosedError, match="by the relay with INTERNAL_ERROR"):
            await soon(publishing)
        with pytest.raises(laps_sdk.SessionClosedError, match="gone"):
            await soon(anext(subscription))
        with pytest.raises(laps_sdk.SessionClosedError, match="gone"):
            await soon(session.track_status(VIDEO))
        assert not session.connected
        assert (session.draft, session.relay, session.rtt, session.stats) == (None,) * 4


async def test_a_code_that_would_only_come_again_is_final(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        peer.do(lambda s: s.close(SessionCode.UNAUTHORIZED, "no token"))
        with pytest.raises(laps_sdk.SessionClosedError, match="UNAUTHORIZED: no token"):
            await soon(session.publish(VIDEO))


async def test_an_expired_token_is_replaced_by_a_fresh_one(draft: str) -> None:
    """As long as whoever gives tokens has a new one."""
    fresh = iter([b"first", b"?", b"second"])
    async with joined(draft, token=lambda: next(fresh, b"the same"), token_type=9) as (
        session,
        first,
        server,
    ):
        peer = first
        for count in (1, 2):
            peer.do(lambda s: s.close(SessionCode.EXPIRED_AUTH_TOKEN, "too old"))
            peer = await server.session()
            await eventually(lambda count=count: session.connected and session.reconnects == count)  # type: ignore[misc] # the default binds the loop's variable
        peer.do(lambda s: s.close(SessionCode.EXPIRED_AUTH_TOKEN, "too old"))
        with pytest.raises(laps_sdk.SessionClosedError, match="EXPIRED_AUTH_TOKEN: too old"):
            await soon(session.publish(VIDEO))
        assert session.reconnects == 2


async def test_a_relay_that_is_down_is_tried_until_it_is_back(draft: str) -> None:
    async with joined(draft) as (session, _, server):
        hurry(session, timeout=0.5)
        port = server.port
        await server.stop()
        await eventually(lambda: not session.connected)
        publishing = asyncio.create_task(session.publish(VIDEO))
        with pytest.raises(laps_sdk.RequestTimeoutError, match="still being tried"):
            await soon(publishing)
        await server.start([draft], port)
        await server.session()
        await eventually(lambda: session.connected)


async def test_the_body_of_a_session_may_fail(draft: str) -> None:
    async def fail() -> None:
        async with joined(draft) as (_, _peer, _server):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail()


async def test_a_closed_session_says_so(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        await session.close()
        await peer.until(lambda: peer.over is not None)
        with pytest.raises(laps_sdk.SessionClosedError, match="was closed"):
            await session.publish(VIDEO)
        await session.close()


async def test_nothing_is_left_behind(draft: str) -> None:
    before = asyncio.all_tasks()
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(session.publish(VIDEO))
        asked = await peer.request(Publish)
        peer.do(lambda s: s.accept(asked.request_id))
        track = await soon(task)
        await track.write(b"last words")
    assert asyncio.all_tasks() == before
    # What was written before the end has arrived.
    assert [o.payload for o in peer.objects] == [b"last words"]
    with pytest.raises(StateError, match="has ended"):
        await track.write(b"too late")


async def reading(session: laps_sdk.Session, peer: ServerPeer, **options: object) -> Subscription:
    """A subscription that the relay has accepted."""
    subscription = session.subscribe(VIDEO, **options)  # type: ignore[arg-type] # options are as varied as their names
    task = asyncio.create_task(subscription.__aenter__())
    await accept_subscribe(peer)
    return await soon(task)


async def test_a_group_that_was_open_when_the_connection_was_lost(draft: str) -> None:
    """What is missing of it is told when the next group comes, not when it is forgotten."""
    async with joined(draft) as (session, first, server):
        subscription = await reading(session, first, gap_after=0.0)
        first.send_group(ALIAS, 3, [b"a", b"b"], fin=False)
        assert [(await soon(anext(subscription))).object for _ in range(2)] == [0, 1]
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        await accept_subscribe(second)
        second.send_group(ALIAS, 3, [b"e"], first=4)
        second.send_group(ALIAS, 4, [b"f"])
        assert [(await soon(anext(subscription))).object for _ in range(2)] == [4, 0]
        await eventually(lambda: bool(subscription.gaps))
        assert list(subscription.gaps) == [Gap(first=Location(3, 2), last=Location(3, 3))]


async def test_what_came_before_the_past_broke_off_is_not_missing(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        subscription = await reading(session, first)
        first.send_group(ALIAS, 3, [b"a"])
        await soon(anext(subscription))
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        await accept_subscribe(second, Location(3, 5))
        fetch = await second.request(Fetch)
        second.do(lambda s: s.accept_fetch(fetch.request_id, Location(3, 6)))
        stream = second.send_fetch(fetch.request_id, [(3, 1, b"b"), (3, 2, b"c")], fin=False)
        assert [(await soon(anext(subscription))).object for _ in range(2)] == [1, 2]
        stream.reset(0)
        await eventually(lambda: bool(subscription.gaps))
        assert list(subscription.gaps) == [
            Gap(first=Location(3, 3), last=Location(3, 5), cause=GapCause.RECONNECTED)
        ]


async def test_a_range_that_goes_on_stays_inside_its_end(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        subscription = await reading(session, first, start=3, end=4)
        first.send_group(ALIAS, 3, [b"a"])
        await soon(anext(subscription))
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        await accept_subscribe(second, Location(9, 9))
        fetch = await second.request(Fetch)
        assert isinstance(fetch.message, Fetch)
        assert fetch.message.target == StandaloneFetch(VIDEO, Location(3, 1), Location(4, 0))


async def test_moving_while_the_past_is_under_way(draft: str) -> None:
    async with (
        joined(draft) as (session, first, server),
        moqt_server(draft, network=server.network) as other,
    ):
        subscription = session.subscribe(VIDEO, join=1)
        entering = asyncio.create_task(subscription.__aenter__())
        await accept_subscribe(first, Location(5, 1))
        fetch = await first.request(Fetch)
        first.do(lambda s: s.accept_fetch(fetch.request_id, Location(5, 2)))
        first.send_fetch(fetch.request_id, [(4, 0, b"a")], fin=False)
        await soon(entering)
        assert (await soon(anext(subscription))).payload == b"a"
        first.do(lambda s: s.goaway(other.url))
        second = await other.session()
        await accept_subscribe(second, Location(5, 1))
        rest = await second.request(Fetch)
        assert isinstance(rest.message, Fetch)
        assert rest.message.target == StandaloneFetch(VIDEO, Location(4, 1), Location(5, 2))
        second.send_group(ALIAS, 5, [b"c"], first=2)
        second.do(lambda s: s.accept_fetch(rest.request_id, Location(5, 2)))
        second.send_fetch(rest.request_id, [(4, 1, b"b")])
        assert [(await soon(anext(subscription))).payload for _ in range(2)] == [b"b", b"c"]


async def test_a_token_that_cannot_be_had_again_ends_the_session(draft: str) -> None:
    tokens = [b"first"]
    async with joined(draft, token=tokens.pop) as (session, peer, _):
        subscription = await reading(session, peer)
        peer.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        with pytest.raises(laps_sdk.SessionClosedError, match="pop from empty list") as caught:
            await soon(anext(subscription))
        assert isinstance(caught.value.__cause__, IndexError)
        with pytest.raises(laps_sdk.SessionClosedError):
            await soon(session.publish(VIDEO))


async def test_a_session_that_is_refused_when_it_comes_back_is_over(draft: str) -> None:
    async with joined(draft, token=b"old") as (session, peer, server):
        subscription = await reading(session, peer)
        refuse(server, SessionCode.UNAUTHORIZED)
        peer.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        with pytest.raises(laps_sdk.SessionClosedError, match="UNAUTHORIZED: not you") as caught:
            await soon(anext(subscription))
        assert caught.value.code == SessionCode.UNAUTHORIZED
        assert len(server.sessions) == 2


def refuse(server: MoqtServer, code: SessionCode) -> None:
    """Close every session from now on before SETUP is answered."""
    accept = server.accept

    def refused(connection: Connection) -> Handler:
        accept(connection)
        connection.close(int(code), "not you")
        return server.sessions[-1].peer

    server.accept = refused


async def test_who_is_thrown_out_again_and_again_comes_back_more_slowly(
    draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    wait = laps_sdk.Backoff.delay

    def noted(self: laps_sdk.Backoff, attempt: int, jitter: float) -> float:
        tries.append(attempt)
        return wait(self, 0, jitter)

    async with joined(draft) as (session, first, server):
        peer = first
        monkeypatch.setattr(laps_sdk.Backoff, "delay", noted)
        for _ in range(4):
            peer.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "go away"))
            peer = await server.session()
            await peer.until(lambda peer=peer: peer.peer.session.established)  # type: ignore[misc] # bound early on purpose
        await eventually(lambda: session.connected)
    assert tries == [0, 1, 2, 3]


async def test_leaving_while_moving_leaves_nothing_open(draft: str) -> None:
    async with (
        joined(draft) as (session, first, server),
        moqt_server(draft, network=server.network) as other,
    ):
        subscription = await reading(session, first)
        first.do(lambda s: s.goaway(other.url))
        second = await other.session()
        await second.request(Subscribe)  # not answered: it is not settled where we are
        await session.close()
        await first.until(lambda: first.over is not None)
        await second.until(lambda: second.over is not None)
        with pytest.raises(laps_sdk.SessionClosedError):
            await soon(anext(subscription))


async def test_a_close_that_is_cancelled_still_closes_the_connection(draft: str) -> None:
    async with joined(draft) as (session, peer, server):
        server.network.drop = lambda _: True
        publishing = asyncio.create_task(session.publish(VIDEO))
        await asyncio.sleep(0)
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0.05)
        assert not closing.done(), "it waits until the relay has acknowledged what was sent"
        closing.cancel()
        server.network.drop = None
        with pytest.raises(asyncio.CancelledError):
            await soon(closing)
        with pytest.raises(laps_sdk.SessionClosedError):
            await soon(publishing)
        await peer.until(lambda: peer.over is not None)


async def test_a_session_is_used_inside_its_block_and_once(draft: str) -> None:
    async with moqt_server(draft) as server:
        session = laps_sdk.connect(server.url, network=server.network)
        for use in (session.publish(VIDEO), session.track_status(VIDEO)):
            with pytest.raises(StateError, match="async with"):
                await soon(use)
        async with session:
            pass
        with pytest.raises(StateError, match="entered once"):
            await session.__aenter__()


async def test_a_subscription_that_waits_for_its_publisher_is_made_once() -> None:
    """Lost between two tries: the session and the subscription must not both ask again."""
    slow = laps_sdk.Backoff(first=0.1, cap=0.1, spread=1.0)
    async with joined("moqt-16", backoff=slow) as (session, first, server):
        subscription = session.subscribe(VIDEO, wait=60.0)
        entering = asyncio.create_task(subscription.__aenter__())
        asked = await first.request(Subscribe)
        code = RequestErrorCode.DOES_NOT_EXIST
        first.do(lambda s: s.reject(asked.request_id, code, "not yet"))
        await first.round_trip()
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        await accept_subscribe(second)
        await soon(entering)
        kinds = [e for e in second.events if isinstance(e, RequestReceived)]
        assert len(kinds) == 1


async def test_a_track_that_fails_takes_no_namespace_back(draft: str) -> None:
    async with joined(draft) as (session, peer, server):
        publishing = asyncio.create_task(session.publish(VIDEO, announce=True))
        asked = await peer.request(PublishNamespace)
        peer.do(lambda s: s.accept(asked.request_id))
        await soon(publishing)
        hurry(session, timeout=0.2)
        port = server.port
        await server.stop()
        await eventually(lambda: not session.connected)
        with pytest.raises(laps_sdk.RequestTimeoutError):
            await soon(session.publish("demo", "audio", announce=True))
        await server.start([draft], port)
        again = await server.session()
        message = (await again.request(PublishNamespace)).message
        assert isinstance(message, PublishNamespace)
        assert message.namespace == VIDEO.namespace
