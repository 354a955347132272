"""A relay with keys: what needs a token, what each token is worth, and when it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

import laps_sdk
from laps_relay.server.auth import AuthSettings, TokenAuthorizer
from laps_sdk.edge.events import RequestDenied, SubscriberGone
from laps_sdk.tokens import (
    TOKEN_TYPE_CAT,
    Claims,
    Expectations,
    TokenKey,
    generate,
    mint,
    parse_scope,
)
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, RequestErrorCode, SessionCode
from laps_wire.moqt.messages import PublishDone, RequestError, Subscribe, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Token
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_task import Edge, client, edge_relay
from testkit.hostile import hostile
from testkit.moqt_server import eventually, soon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BOTH = pytest.mark.parametrize("draft", list(Draft), ids=lambda draft: draft.alpn)
TRACK = FullTrackName(Namespace((b"demo",)), b"video")

KEY = generate("HS256", "main")
OTHER = generate("ES256", "other")
NOW = 1_800_000_000.0
"""The time at the relay, for as long as a test does not change it."""
SETTINGS = AuthSettings(
    keys=(KEY, OTHER.public()),
    expected=Expectations(audiences=("relay",), issuers=("us",), leeway=0.0),
)


class Wall:
    """The clock that the times in tokens are on."""

    now = NOW

    def __call__(self) -> float:
        return self.now


def claims(*scopes: str, **changes: object) -> Claims:
    base = Claims(
        scopes=tuple(parse_scope(scope) for scope in scopes or ("all:*",)),
        issuer="us",
        audience=("relay",),
        expires=NOW + 3600,
    )
    return replace(base, **changes)  # type: ignore[arg-type] # as varied as their names


def token(*scopes: str, key: TokenKey = KEY, **changes: object) -> bytes:
    return mint(claims(*scopes, **changes), key)


def guard(wall: Wall | None = None) -> TokenAuthorizer:
    return TokenAuthorizer(SETTINGS, wall=wall or Wall())


async def published(edge: Edge, session: laps_sdk.Session) -> laps_sdk.PublishedTrack:
    """A track with an object in the cache."""
    track = await soon(session.publish("demo", "video", first=0))
    await soon(track.write(b"cached", end_of_group=True))
    await eventually(lambda: any(row.largest == (0, 0) for row in edge.relay.tracks()))
    return track


async def watch(session: laps_sdk.Session) -> None:
    async with session.namespaces("demo"):
        pass


async def offered(session: laps_sdk.Session) -> None:
    async with session.tracks("demo"):
        pass


REQUESTS: dict[str, Callable[[laps_sdk.Session], Awaitable[object]]] = {
    "publish": lambda s: s.publish("demo", "mine"),
    "announce": lambda s: s.publish("demo", "mine", announce=True),
    "subscribe": lambda s: anext(s.subscribe("demo", "video", start=0)),
    "fetch": lambda s: anext(s.fetch("demo", "video", start=0, end=0)),
    "join": lambda s: anext(s.subscribe("demo", "video", join=0)),
    "status": lambda s: s.track_status("demo", "video"),
    "namespaces": watch,
    "tracks": offered,
}


@pytest.mark.parametrize("what", list(REQUESTS))
@BOTH
async def test_without_a_token_nothing_is_allowed(draft: Draft, what: str) -> None:
    """Not even what lies in the cache already."""
    async with (
        edge_relay(authorizer=guard()) as edge,
        client(edge, token=token()) as alice,
        client(edge, drafts=(draft.alpn,)) as mallory,
    ):
        await published(edge, alice)
        with pytest.raises(laps_sdk.RequestRefusedError) as caught:
            await soon(REQUESTS[what](mallory))
        assert (caught.value.code_name, caught.value.reason) == (
            "UNAUTHORIZED",
            "this needs a token",
        )


@pytest.mark.parametrize("scheme", ["moqt", "https"])
@BOTH
async def test_a_scope_is_what_it_says(draft: Draft, scheme: str) -> None:
    """Cached objects go to who may have them, and to nobody else."""
    viewer, stranger = token("sub:demo"), token("sub:elsewhere", "pub:demo", key=OTHER)
    async with (
        edge_relay(authorizer=guard()) as edge,
        client(edge, scheme, token=token("pub:demo")) as alice,
        client(edge, scheme, drafts=(draft.alpn,), token=viewer) as bob,
        client(edge, scheme, drafts=(draft.alpn,), token=stranger) as carol,
    ):
        await published(edge, alice)
        found = await soon(anext(bob.fetch("demo", "video", start=0, end=0)))
        assert found.payload == b"cached"
        await soon(bob.track_status("demo", "video"))
        for what in ("subscribe", "fetch", "join", "status", "namespaces"):
            with pytest.raises(laps_sdk.RequestRefusedError) as caught:
                await soon(REQUESTS[what](carol))
            assert caught.value.code_name == "UNAUTHORIZED"
            assert "does not allow" in caught.value.reason
        for session in (alice, bob):
            with pytest.raises(laps_sdk.RequestRefusedError):
                await soon(session.publish("elsewhere", "video"))


FORGED = generate("HS256", "main")
WRONG_ALGORITHM = generate("ES256", "main")
UNKNOWN = generate("HS256", "unknown")


def garbled(value: bytes) -> bytes:
    """A token whose signature is wrong, whatever its last byte was."""
    return value[:-1] + bytes([value[-1] ^ 1])


BAD: dict[str, tuple[Callable[[], bytes], RequestErrorCode]] = {
    "another key of the same name": (lambda: token(key=FORGED), RequestErrorCode.UNAUTHORIZED),
    "another algorithm": (lambda: token(key=WRONG_ALGORITHM), RequestErrorCode.UNAUTHORIZED),
    "an unknown key": (lambda: token(key=UNKNOWN), RequestErrorCode.UNAUTHORIZED),
    "for somebody else": (lambda: token(audience=("you",)), RequestErrorCode.UNAUTHORIZED),
    "of somebody else": (lambda: token(issuer="them"), RequestErrorCode.UNAUTHORIZED),
    "for something else": (lambda: token("sub:elsewhere"), RequestErrorCode.UNAUTHORIZED),
    "for another action": (lambda: token("pub:demo"), RequestErrorCode.UNAUTHORIZED),
    "without an end": (lambda: token(expires=None), RequestErrorCode.UNAUTHORIZED),
    "not yet": (lambda: token(not_before=NOW + 60), RequestErrorCode.UNAUTHORIZED),
    "no longer": (lambda: token(expires=NOW - 1), RequestErrorCode.EXPIRED_AUTH_TOKEN),
    "garbled": (lambda: garbled(token()), RequestErrorCode.UNAUTHORIZED),
    "cut off": (lambda: token()[:-5], RequestErrorCode.MALFORMED_AUTH_TOKEN),
    "noise": (lambda: b"\xff" * 40, RequestErrorCode.MALFORMED_AUTH_TOKEN),
    "empty": (lambda: b"", RequestErrorCode.MALFORMED_AUTH_TOKEN),
}


def with_token(value: bytes, **others: object) -> Parameters:
    parameters = Parameters(authorization_tokens=(Token.use_value(TOKEN_TYPE_CAT, value),))
    return replace(parameters, **others)  # type: ignore[arg-type] # as varied as their names


@pytest.mark.parametrize("what", list(BAD))
@BOTH
async def test_a_token_that_does_not_count_gets_its_code(draft: Draft, what: str) -> None:
    """On a request: it is refused, and the session goes on with a better token."""
    make, code = BAD[what]
    async with (
        edge_relay(authorizer=guard()) as edge,
        client(edge, token=token()) as alice,
        hostile(edge, draft) as raw,
    ):
        await published(edge, alice)
        raw.setup()
        raw.ask(Subscribe(0, TRACK, with_token(make())))
        assert (await raw.answer(RequestError)).error_code == code
        raw.ask(Subscribe(2, TRACK, with_token(token("sub:demo"))))
        await raw.answer(SubscribeOk)
        denied = edge.told(RequestDenied)
        assert [event.code for event in denied] == [code]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (token(key=FORGED), SessionCode.UNAUTHORIZED),
        (token(expires=NOW - 1), SessionCode.EXPIRED_AUTH_TOKEN),
        (b"\xff" * 40, SessionCode.UNAUTHORIZED),
    ],
    ids=["forged", "expired", "noise"],
)
@BOTH
async def test_a_bad_token_at_the_door(draft: Draft, value: bytes, code: SessionCode) -> None:
    async with edge_relay(authorizer=guard()) as edge:
        with pytest.raises(laps_sdk.ConnectionLostError) as caught:
            async with client(edge, drafts=(draft.alpn,), token=value, reconnect=False) as session:
                await soon(session.publish("demo", "video"))
        assert caught.value.code == code


async def test_a_relay_may_want_a_token_at_the_door() -> None:
    strict = TokenAuthorizer(replace(SETTINGS, setup_required=True), wall=Wall())
    async with edge_relay(authorizer=strict) as edge:
        with pytest.raises(laps_sdk.ConnectionLostError) as caught:
            async with client(edge, reconnect=False) as session:
                await soon(session.publish("demo", "video"))
        assert caught.value.code == SessionCode.UNAUTHORIZED
        async with client(edge, token=token()) as alice:
            await published(edge, alice)


@BOTH
async def test_the_end_of_a_token_ends_live_delivery(draft: Draft) -> None:
    """The grant is looked at again every second of the relay, and holds while its clock stands."""
    wall = Wall()
    async with (
        edge_relay(authorizer=guard(wall)) as edge,
        client(edge, token=token()) as alice,
        hostile(edge, draft) as raw,
    ):
        track = await published(edge, alice)
        raw.setup()
        raw.ask(Subscribe(0, TRACK, with_token(token("sub:demo", expires=NOW + 1))))
        await raw.answer(SubscribeOk)
        await soon(track.write(b"live", end_of_group=True))
        live = await raw.data_stream()
        await raw.until(lambda: raw.received(live).endswith(b"live"))
        wall.now = NOW + 2
        done = await raw.answer(PublishDone)
        assert done.status_code == PUBLISH_DONE_CODES[draft].EXPIRED
        assert [event.code for event in edge.told(RequestDenied)] == [
            RequestErrorCode.EXPIRED_AUTH_TOKEN
        ]
        before = edge.relay.tracks()[0].counters.objects_out
        await soon(track.write(b"for nobody", end_of_group=True))
        await eventually(lambda: edge.relay.tracks()[0].largest == (2, 0))
        assert edge.relay.tracks()[0].counters.objects_out == before
        assert edge.relay.subscriptions() == []
        assert not raw.connection.closed


@BOTH
async def test_the_end_of_the_token_of_a_session_ends_the_session(draft: Draft) -> None:
    wall = Wall()
    async with (
        edge_relay(authorizer=guard(wall)) as edge,
        client(edge, token=token()) as alice,
        client(
            edge,
            drafts=(draft.alpn,),
            token=token("sub:demo", expires=NOW + 1),
            reconnect=False,
        ) as bob,
    ):
        track = await published(edge, alice)
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.write(b"live", end_of_group=True))
            assert (await soon(anext(heard))).payload == b"live"
            wall.now = NOW + 2
            with pytest.raises((laps_sdk.ConnectionLostError, laps_sdk.SubscriptionEndedError)):
                await soon(anext(heard))
        await eventually(lambda: len(edge.relay.sessions()) == 1)
        assert alice.connected


@BOTH
async def test_a_client_with_fresh_tokens_goes_on(draft: Draft) -> None:
    """``token`` is a function: the next connection presents what it gives then."""
    wall = Wall()
    async with (
        edge_relay(authorizer=guard(wall)) as edge,
        client(
            edge,
            drafts=(draft.alpn,),
            token=lambda: token("pub:demo", expires=wall.now + 1),
        ) as alice,
    ):
        await published(edge, alice)
        wall.now += 2
        await eventually(lambda: alice.reconnects >= 1 and alice.connected)
        await eventually(lambda: any(row.publishers for row in edge.relay.tracks()))


@BOTH
async def test_a_key_that_is_taken_away(draft: Draft) -> None:
    """What stood on it ends at once; what stands on another one goes on."""
    authorizer = guard()
    async with (
        edge_relay(authorizer=authorizer) as edge,
        client(edge, token=token(key=OTHER)) as alice,
        client(edge, token=token(key=OTHER)) as carol,
        hostile(edge, draft) as raw,
    ):
        track = await published(edge, alice)
        raw.setup()
        raw.ask(Subscribe(0, TRACK, with_token(token("sub:demo"))))
        await raw.answer(SubscribeOk)
        async with carol.subscribe("demo", "video") as heard:
            edge.relay.reauthorize(edge.server.now)
            edge.server.settle()
            assert edge.told(SubscriberGone) == []
            authorizer.replace(replace(SETTINGS, keys=(OTHER.public(),)))
            edge.relay.reauthorize(edge.server.now)
            edge.server.settle()
            done = await raw.answer(PublishDone)
            assert done.status_code == PUBLISH_DONE_CODES[draft].UNAUTHORIZED
            await soon(track.write(b"go on", end_of_group=True))
            assert (await soon(anext(heard))).payload == b"go on"
        raw.ask(Subscribe(2, TRACK, with_token(token("sub:demo"))))
        assert (await raw.answer(RequestError)).error_code == RequestErrorCode.UNAUTHORIZED
