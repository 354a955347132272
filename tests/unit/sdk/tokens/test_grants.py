from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.tokens.claims import Action, Match, MatchKind, Scope, format_scope, parse_scope
from laps_wire.errors import TextFormError

PREFIX, SUFFIX = MatchKind.PREFIX, MatchKind.SUFFIX
NS = (Match(b"example.net"), Match(b"team2"))


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("all:*", Scope(actions=frozenset(range(9)))),
        (
            "fetch:*--*",
            Scope(actions=frozenset({7}), namespace=(Match(b"", MatchKind.PREFIX),), whole=True),
        ),
        (
            "subscribe,publish:example.2enet-team2/*",
            Scope(actions=frozenset({4, 6}), namespace=NS),
        ),
        ("pub:example.2enet-team2", Scope(actions=frozenset({0, 2, 6}), namespace=NS, whole=True)),
        (
            "fetch:example.2enet-team2--report",
            Scope(actions=frozenset({7}), namespace=NS, whole=True, track=Match(b"report")),
        ),
        (
            "fetch:example.2enet-team2--video*",
            Scope(actions=frozenset({7}), namespace=NS, whole=True, track=Match(b"video", PREFIX)),
        ),
        (
            "fetch:example.2enet-team2--*json",
            Scope(actions=frozenset({7}), namespace=NS, whole=True, track=Match(b"json", SUFFIX)),
        ),
        (
            "fetch:a-user.2d*",
            Scope(
                actions=frozenset({7}),
                namespace=(Match(b"a"), Match(b"user-", PREFIX)),
                whole=True,
            ),
        ),
        (
            "subscribe_namespace:*x/*",
            Scope(actions=frozenset({3}), namespace=(Match(b"x", SUFFIX),)),
        ),
        (
            "track_status:a-*",
            Scope(actions=frozenset({8}), namespace=(Match(b"a"), Match(b"", PREFIX)), whole=True),
        ),
        ("fetch:", Scope(actions=frozenset({7}), whole=True)),
        ("fetch:--x", Scope(actions=frozenset({7}), whole=True, track=Match(b"x"))),
    ],
)
def test_text_and_scope(text: str, scope: Scope) -> None:
    assert parse_scope(text) == scope
    assert format_scope(scope) == text


def test_more_ways_to_say_it() -> None:
    assert parse_scope("subscribe-namespace, FETCH:a") == parse_scope("subscribe_namespace,fetch:a")
    assert parse_scope("fetch:a--*") == parse_scope("fetch:a")
    assert parse_scope("sub:*").actions == frozenset({0, 3, 4, 5, 7, 8})


def test_what_has_no_text_is_shown_all_the_same() -> None:
    scope = Scope(actions=frozenset({6, 77}), namespace=NS, track=Match(b"x"))
    assert format_scope(scope) == "publish,?77:example.2enet-team2/*--x"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("subscribe", "no ':'"),
        ("dance:a", "unknown action 'dance'"),
        (":a", "unknown action ''"),
        ("fetch:a--b/*", "follows a namespace"),
        ("fetch:a b", "escaped"),
        ("fetch:a--b c", "escaped"),
        ("fetch:a**", "escaped"),
        ("fetch:/*", "no namespace before"),
    ],
)
def test_what_is_wrong_with_a_scope(text: str, words: str) -> None:
    with pytest.raises(TextFormError, match=words):
        parse_scope(text)


FIELDS = st.binary(min_size=1, max_size=6)
MATCHES = st.builds(Match, FIELDS, st.sampled_from(MatchKind))


@given(
    st.sets(st.sampled_from(Action), min_size=1),
    st.lists(MATCHES, min_size=1, max_size=4),
    st.booleans(),
    st.none() | MATCHES,
)
def test_every_scope_that_has_a_text_is_read_back(
    actions: set[Action], namespace: list[Match], whole: bool, track: Match | None
) -> None:
    scope = Scope(
        actions=frozenset(int(action) for action in actions),
        namespace=tuple(namespace),
        whole=whole or track is not None,
        track=track,
    )
    assert parse_scope(format_scope(scope)) == scope
