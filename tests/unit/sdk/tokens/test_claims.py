from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.tokens import constants as c
from laps_sdk.tokens.cbor import decode, encode
from laps_sdk.tokens.claims import Action, Claims, Match, MatchKind, Scope
from laps_sdk.tokens.errors import TokenMalformedError, TokenRefusedError
from laps_wire.errors import EncodeError
from testkit.tokens import fault_of

# A small alphabet: what is compared should often nearly match.
FIELDS = st.text("ab", min_size=0, max_size=3).map(str.encode)
MATCHES = st.builds(Match, FIELDS, st.sampled_from(MatchKind))
ACTIONS = st.integers(0, 9)


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    namespace = tuple(draw(st.lists(MATCHES, max_size=3)))
    whole = draw(st.booleans())
    track = draw(st.none() | MATCHES) if namespace or whole else None
    return Scope(
        actions=frozenset(draw(st.sets(ACTIONS, min_size=1, max_size=3))),
        namespace=namespace,
        whole=whole,
        track=track,
    )


NUMBERS = st.none() | st.integers(0, 2**40) | st.floats(0, 2**40)
CLAIMS = st.builds(
    Claims,
    scopes=st.lists(scopes(), max_size=3).map(tuple),
    issuer=st.none() | st.text(max_size=8),
    subject=st.none() | st.text(max_size=8),
    audience=st.lists(st.text(max_size=8), max_size=3).map(tuple),
    expires=NUMBERS,
    not_before=NUMBERS,
    issued_at=NUMBERS,
    token_id=st.none() | st.binary(max_size=8),
    revalidate=NUMBERS,
)


def naive_field(match: Match, field: bytes) -> bool:
    size = len(match.value)
    if size > len(field):
        return False
    where = {
        MatchKind.EXACT: range(size) if size == len(field) else None,
        MatchKind.PREFIX: range(size),
        MatchKind.SUFFIX: range(len(field) - size, len(field)),
    }[match.kind]
    return where is not None and [field[i] for i in where] == list(match.value)


def naive(claims: Claims, action: int, namespace: list[bytes], name: bytes | None) -> bool:
    """The draft's words, one after the other, on the token's own arrays."""
    value: Any = decode(encode(claims.to_cbor()))
    for actions, *rest in value.get(c.CLAIM_MOQT, []):
        good = action in actions
        if rest:
            left = list(namespace)
            for item in rest[0]:
                if item is None:
                    good = good and not left
                elif not left:
                    good = False
                else:
                    good = naive_item(item, left.pop(0)) and good
        if len(rest) == 2 and name is not None:
            good = good and naive_item(rest[1], name)
        if good:
            return True
    return False


def naive_item(item: Any, field: bytes) -> bool:
    kinds = {1: MatchKind.PREFIX, 2: MatchKind.SUFFIX}
    match = Match(item) if isinstance(item, bytes) else Match(item[1], kinds[item[0]])
    return naive_field(match, field)


@given(CLAIMS, ACTIONS, st.lists(FIELDS, max_size=4), st.none() | FIELDS)
def test_the_matcher_agrees_with_a_naive_one(
    claims: Claims, action: int, namespace: list[bytes], name: bytes | None
) -> None:
    assert claims.allows(action, namespace, name) == naive(claims, action, namespace, name)


@given(CLAIMS)
def test_claims_are_read_as_they_were_written(claims: Claims) -> None:
    assert Claims.from_cbor(decode(encode(claims.to_cbor()))) == claims


@given(st.dictionaries(st.integers(-5, 330) | st.text(max_size=2), st.integers() | st.text()))
def test_any_claims_are_read_or_refused(value: Any) -> None:
    assert fault_of(lambda: Claims.from_cbor(value)).isprintable()


BOB = ((b"example", b"com"), b"/bob")
EXACT = Scope(
    actions=frozenset({2, 3, 6, 7}),
    namespace=(Match(b"example"), Match(b"com")),
    whole=True,
    track=Match(b"/bob"),
)
PREFIX = Scope(
    actions=frozenset({6}),
    namespace=(Match(b"example"), Match(b"com")),
    whole=True,
    track=Match(b"/bob", MatchKind.PREFIX),
)
ANY_TRACK = Scope(actions=frozenset({6}), namespace=(Match(b"example"), Match(b"com")))
USER = Scope(
    actions=frozenset({6}),
    namespace=(Match(b"example"), Match(b"user-", MatchKind.PREFIX)),
    whole=True,
    track=Match(b"/data"),
)
JSON = Scope(
    actions=frozenset({6}),
    namespace=(Match(b"example"), Match(b"com")),
    whole=True,
    track=Match(b".json", MatchKind.SUFFIX),
)


@pytest.mark.parametrize(
    ("scope", "namespace", "name", "allowed"),
    [
        (EXACT, *BOB, True),
        (EXACT, (b"example", b"com"), b"", False),
        (EXACT, (b"example", b"com"), b"/bob/123", False),
        (EXACT, (b"alternate", b"example", b"com"), b"/bob", False),
        (EXACT, (b"example",), b"com/bob", False),
        (EXACT, (b"example", b"com", b"/bob"), b"", False),
        (EXACT, (b"example", b"com", b""), b"/bob", False),
        (PREFIX, *BOB, True),
        (PREFIX, (b"example", b"com"), b"/bob/logs", True),
        (PREFIX, (b"example", b"com"), b"/alice", False),
        (ANY_TRACK, (b"example", b"com", b"bob"), b"/bob", True),
        (ANY_TRACK, (b"example", b"com"), b"", True),
        (ANY_TRACK, (b"12345",), b"", False),
        (USER, (b"example", b"user-alice"), b"/data", True),
        (USER, (b"example", b"user-"), b"/data", True),
        (USER, (b"example", b"USER-alice"), b"/data", False),
        (USER, (b"example", b"user-alice", b"extra"), b"/data", False),
        (JSON, (b"example", b"com"), b".json", True),
        (JSON, (b"example", b"com"), b"data.json.bak", False),
        (JSON, (b"example", b"com"), b"json", False),
    ],
)
def test_the_cases_of_the_draft(
    scope: Scope, namespace: tuple[bytes, ...], name: bytes, allowed: bool
) -> None:
    assert Claims(scopes=(scope,)).allows(Action.PUBLISH, namespace, name) is allowed


def test_nothing_is_allowed_unless_a_scope_says_so() -> None:
    assert not Claims().allows(Action.SUBSCRIBE, BOB[0], BOB[1])
    assert not Claims(scopes=(EXACT,)).allows(Action.SUBSCRIBE, BOB[0], BOB[1])


def test_setup_names_nothing_and_namespaces_have_no_track() -> None:
    claims = Claims(scopes=(Scope(actions=frozenset({0, 2}), namespace=(Match(b"x"),)), EXACT))
    assert claims.allows(Action.CLIENT_SETUP, None, None)
    assert claims.allows(Action.PUBLISH_NAMESPACE, (b"example", b"com"), None)
    assert not claims.allows(Action.SUBSCRIBE_NAMESPACE, (b"example",), None)


def test_the_bytes_of_the_drafts_vectors() -> None:
    payload = bytes.fromhex(
        "a301781868747470733a2f2f617574682e6578616d706c652e636f6d"
        "041a65554280190147818382020682"
        "4b6578616d706c652e636f6d45616c696365820146766964656f2d"
    )
    claims = Claims.from_cbor(decode(payload))
    assert claims.issuer == "https://auth.example.com"
    assert claims.expires == 1_700_086_400
    alice = (b"example.com", b"alice")
    assert claims.allows(Action.PUBLISH_NAMESPACE, alice, b"video-hd")
    assert claims.allows(Action.PUBLISH, alice, b"video-sd")
    assert not claims.allows(Action.PUBLISH, alice, b"audio-main")
    assert not claims.allows(Action.SUBSCRIBE, alice, b"video-hd")
    assert encode(claims.to_cbor()) == payload


def test_scopes_that_a_token_cannot_say() -> None:
    with pytest.raises(EncodeError, match="at least one action"):
        Scope(actions=frozenset())
    with pytest.raises(EncodeError, match="needs a namespace"):
        Scope(actions=frozenset({1}), track=Match(b"x"))


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({1: 5}, "iss"),
        ({2: None}, "sub"),
        ({1: "x" * 2000}, "iss"),
        ({3: []}, "aud"),
        ({3: ["a", 1]}, "aud"),
        ({3: 7}, "aud"),
        ({3: None}, "aud"),
        ({7: None}, "cti"),
        ({c.CLAIM_MOQT: None}, "1 to 64"),
        ({3: ["a"] * 40}, "aud"),
        ({4: "soon"}, "exp"),
        ({4: True}, "exp"),
        ({4: None}, "exp"),
        ({4: math.inf}, "exp"),
        ({5: math.nan}, "nbf"),
        ({6: -1}, "negative"),
        ({7: "text"}, "cti"),
        ({c.CLAIM_MOQT_REVAL: b""}, "moqt-reval"),
        ({c.CLAIM_MOQT: []}, "1 to 64"),
        ({c.CLAIM_MOQT: [[[6]]] * 65}, "1 to 64"),
        ({c.CLAIM_MOQT: 6}, "1 to 64"),
        ({c.CLAIM_MOQT: [6]}, r"moqt\[0\]"),
        ({c.CLAIM_MOQT: [[]]}, r"moqt\[0\]"),
        ({c.CLAIM_MOQT: [[[6], [b"a"], b"b", b"c"]]}, r"moqt\[0\]"),
        ({c.CLAIM_MOQT: [[6]]}, "actions"),
        ({c.CLAIM_MOQT: [[[]]]}, "actions"),
        ({c.CLAIM_MOQT: [[["x"]]]}, "an action"),
        ({c.CLAIM_MOQT: [[[True]]]}, "an action"),
        ({c.CLAIM_MOQT: [[[6], b"a"]]}, "the namespace"),
        ({c.CLAIM_MOQT: [[[6], []]]}, "the namespace"),
        ({c.CLAIM_MOQT: [[[6], [b"a"] * 34]]}, "the namespace"),
        ({c.CLAIM_MOQT: [[[6], [None, b"a"]]]}, "nil may only end"),
        ({c.CLAIM_MOQT: [[[6], ["a"]]]}, "a match is"),
        ({c.CLAIM_MOQT: [[[6], [[3, b"a"]]]]}, "a match is"),
        ({c.CLAIM_MOQT: [[[6], [[True, b"a"]]]]}, "a match is"),
        ({c.CLAIM_MOQT: [[[6], [[1, "a"]]]]}, "a match is"),
        ({c.CLAIM_MOQT: [[[6], [[1]]]]}, "a match is"),
        ({c.CLAIM_MOQT: [[[6], [b"a"], None]]}, "nil may only end"),
        ([], "not a map"),
    ],
)
def test_claims_of_a_wrong_shape(claim: Any, words: str) -> None:
    with pytest.raises(TokenMalformedError, match=words):
        Claims.from_cbor(claim)


def test_a_restriction_that_is_not_evaluated_never_widens() -> None:
    with pytest.raises(TokenRefusedError, match="cnf"):
        Claims.from_cbor({8: {3: b"thumb"}})
    with pytest.raises(TokenRefusedError, match="number 999"):
        Claims.from_cbor({999: 1})
    assert Claims.from_cbor({"note": 1, -70000: 2, c.CLAIM_CATV: 1}).ignored == (
        "'note'",
        "-70000",
    )
