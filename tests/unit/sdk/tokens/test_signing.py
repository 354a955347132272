from __future__ import annotations

import hashlib
import hmac
import math
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.tokens.cbor import Tagged, encode
from laps_sdk.tokens.claims import Claims, Match, Scope, open_envelope
from laps_sdk.tokens.errors import (
    KeyFileError,
    TokenError,
    TokenExpiredError,
    TokenForgedError,
    TokenMalformedError,
    TokenRefusedError,
)
from laps_sdk.tokens.signing import (
    Algorithm,
    Expectations,
    KeyRing,
    TokenKey,
    authenticate,
    from_jwk,
    generate,
    judge,
    mint,
    verify,
)
from laps_wire.errors import EncodeError

NOW = 1_000_000.0
CLAIMS = Claims(scopes=(Scope(actions=frozenset({4})),), expires=NOW + 60)
ALL: list[Algorithm] = ["HS256", "ES256", "EdDSA"]


@cache
def key_of(algorithm: Algorithm, kid: str = "k1") -> TokenKey:
    return generate(algorithm, kid)


def ring_of(key: TokenKey) -> KeyRing:
    return KeyRing([key if key.algorithm == "HS256" else key.public()])


def cose(protected: bytes, unprotected: Any, payload: bytes, signature: bytes, tag: int) -> bytes:
    return encode(Tagged(61, Tagged(tag, [protected, unprotected, payload, signature])))


@pytest.mark.parametrize("algorithm", ALL)
def test_a_good_token_holds(algorithm: Algorithm) -> None:
    key = key_of(algorithm)
    found = verify(mint(CLAIMS, key), ring_of(key), NOW)
    assert found.claims == CLAIMS
    assert (found.kid, found.algorithm) == ("k1", algorithm)
    assert found.good_until == NOW + 65


def test_a_token_of_another_maker_without_key_id() -> None:
    key = key_of("HS256")
    protected, payload = encode({1: 5}), encode(CLAIMS.to_cbor())
    secret = key.cose.key
    mac = hmac.new(secret, encode(["MAC0", protected, b"", payload]), hashlib.sha256).digest()
    token = cose(protected, {}, payload, mac, 17)
    assert verify(token, ring_of(key), NOW).claims == CLAIMS
    assert verify(token[2:], ring_of(key), NOW).claims == CLAIMS
    with pytest.raises(TokenForgedError, match="no key"):
        verify(token, KeyRing([key, key_of("HS256", "k2")]), NOW)


def test_who_made_a_token_is_one_question_and_when_it_holds_another() -> None:
    key = key_of("ES256")
    genuine = authenticate(mint(CLAIMS, key), ring_of(key))
    assert judge(genuine, NOW) == verify(mint(CLAIMS, key), ring_of(key), NOW)
    with pytest.raises(TokenExpiredError):
        judge(genuine, NOW + 65)
    assert judge(genuine, NOW + 64).good_until == NOW + 65


# Forgeries


@pytest.mark.parametrize("algorithm", ALL)
def test_another_key_with_the_same_id(algorithm: Algorithm) -> None:
    with pytest.raises(TokenForgedError, match="signature does not hold"):
        verify(mint(CLAIMS, generate(algorithm, "k1")), ring_of(key_of(algorithm)), NOW)


@pytest.mark.parametrize("algorithm", ALL)
def test_an_id_that_nobody_knows(algorithm: Algorithm) -> None:
    with pytest.raises(TokenForgedError, match="no key of this id"):
        verify(mint(CLAIMS, generate(algorithm, "k2")), ring_of(key_of(algorithm)), NOW)


def test_no_keys_hold_no_tokens() -> None:
    with pytest.raises(TokenForgedError, match="no key"):
        verify(mint(CLAIMS, key_of("HS256")), KeyRing(), NOW)


@pytest.mark.parametrize("algorithm", [0, 4, -4, -16, -257, 2**40, 1])
def test_other_algorithms_are_not_even_tried(algorithm: int) -> None:
    payload = encode(CLAIMS.to_cbor())
    for tag in (17, 18):
        token = cose(encode({1: algorithm, 4: b"k1"}), {}, payload, b"", tag)
        with pytest.raises(TokenForgedError, match="not accepted"):
            verify(token, ring_of(key_of("HS256")), NOW)


def test_a_public_key_is_not_taken_for_a_secret() -> None:
    # The classic confusion: a MAC whose secret is the verifier's public key.
    public = key_of("ES256").public()
    payload = encode(CLAIMS.to_cbor())
    fake = from_jwk({"kty": "oct", "alg": "HS256", "kid": "k1", "k": public.jwk["x"]})
    with pytest.raises(TokenForgedError, match="no key of this id and algorithm"):
        verify(mint(CLAIMS, fake), KeyRing([public]), NOW)
    for algorithm, tag in ((-7, 17), (5, 18)):
        token = cose(encode({1: algorithm, 4: b"k1"}), {}, payload, b"s" * 64, tag)
        with pytest.raises(TokenForgedError, match="does not belong"):
            verify(token, KeyRing([public]), NOW)


@pytest.mark.parametrize("algorithm", ALL)
def test_no_signature_at_all(algorithm: Algorithm) -> None:
    key = key_of(algorithm)
    tag = 17 if algorithm == "HS256" else 18
    protected = encode({1: key.algorithm_id, 4: b"k1"})
    for signature in (b"", b"\0" * 32, b"\0" * 64, b"\0" * 1000):
        token = cose(protected, {}, encode(CLAIMS.to_cbor()), signature, tag)
        with pytest.raises(TokenForgedError, match="signature does not hold"):
            verify(token, ring_of(key), NOW)


@given(st.sampled_from(ALL), st.data())
def test_one_bit_makes_another_token(algorithm: Algorithm, data: st.DataObject) -> None:
    key = key_of(algorithm)
    token = bytearray(mint(CLAIMS, key))
    bit = data.draw(st.integers(0, len(token) * 8 - 1))
    token[bit // 8] ^= 1 << bit % 8
    with pytest.raises(TokenError):
        verify(bytes(token), ring_of(key), NOW)


@given(st.sampled_from(ALL), st.data())
def test_a_truncated_or_longer_token(algorithm: Algorithm, data: st.DataObject) -> None:
    key = key_of(algorithm)
    token = mint(CLAIMS, key)
    cut = data.draw(st.integers(0, len(token) - 1))
    with pytest.raises(TokenMalformedError):
        verify(token[:cut], ring_of(key), NOW)
    with pytest.raises(TokenMalformedError):
        verify(token + bytes(cut + 1), ring_of(key), NOW)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_words(token: bytes) -> None:
    with pytest.raises(TokenError) as caught:
        verify(token, ring_of(key_of("HS256")), NOW)
    assert str(caught.value).isprintable()


def test_deep_and_huge_claims_behind_a_good_signature() -> None:
    key = key_of("HS256")

    def signed(payload: bytes) -> bytes:
        protected = encode({1: 5, 4: b"k1"})
        mac = hmac.new(key.cose.key, encode(["MAC0", protected, b"", payload]), hashlib.sha256)
        return cose(protected, {}, payload, mac.digest(), 17)

    with pytest.raises(TokenMalformedError, match="deeper"):
        verify(signed(b"\x81" * 5000 + b"\0"), ring_of(key), NOW)
    with pytest.raises(TokenMalformedError, match="at most"):
        verify(signed(b"\0" * 10_000), ring_of(key), NOW)
    with pytest.raises(TokenMalformedError, match="ends too early"):
        verify(signed(bytes.fromhex("a1049b00ffffffffffffff")), ring_of(key), NOW)
    with pytest.raises(TokenMalformedError, match="not a number"):
        verify(signed(encode({4: "x"})), ring_of(key), NOW)


def test_two_readers_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of("HS256")
    monkeypatch.setattr("laps_sdk.tokens.signing._COSE.decode", lambda *_: b"other")
    with pytest.raises(TokenForgedError, match="not over the claims"):
        verify(mint(CLAIMS, key), ring_of(key), NOW)


# Claims

EXPECTED = Expectations(audiences=("us",), issuers=("trusted",))


@pytest.mark.parametrize(
    ("claims", "expected", "kind", "words"),
    [
        (Claims(expires=NOW - 5), Expectations(), TokenExpiredError, "expired"),
        (Claims(), Expectations(), TokenRefusedError, "no exp"),
        (
            Claims(expires=NOW + 99, not_before=NOW + 6),
            Expectations(),
            TokenRefusedError,
            "not valid yet",
        ),
        (
            Claims(expires=NOW + 9, audience=("them",), issuer="trusted"),
            EXPECTED,
            TokenRefusedError,
            "another audience",
        ),
        (
            Claims(expires=NOW + 9, audience=("them",)),
            Expectations(),
            TokenRefusedError,
            "another audience",
        ),
        (Claims(expires=NOW + 9, issuer="trusted"), EXPECTED, TokenRefusedError, "no audience"),
        (Claims(expires=NOW + 9, audience=("us",)), EXPECTED, TokenRefusedError, "not trusted"),
        (
            Claims(expires=NOW + 9, revalidate=0.5),
            Expectations(),
            TokenRefusedError,
            "shorter than",
        ),
    ],
)
def test_genuine_tokens_that_do_not_hold_here(
    claims: Claims, expected: Expectations, kind: type[TokenError], words: str
) -> None:
    key = key_of("HS256")
    with pytest.raises(kind, match=words):
        verify(mint(claims, key), ring_of(key), NOW, expected)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (Claims(expires=NOW - 4), Expectations()),
        (Claims(), Expectations(require_expiry=False)),
        (Claims(expires=NOW + 9, not_before=NOW + 4, revalidate=0), Expectations()),
        (Claims(expires=NOW + 9, revalidate=2), Expectations()),
        (Claims(expires=NOW + 9, audience=("them", "us"), issuer="trusted"), EXPECTED),
    ],
)
def test_tokens_that_just_hold(claims: Claims, expected: Expectations) -> None:
    key = key_of("HS256")
    found = verify(mint(claims, key), ring_of(key), NOW, expected)
    assert found.claims == claims
    assert (found.good_until is None) == (claims.expires is None)


@pytest.mark.parametrize("algorithm", ["HS256", "ES256", "EdDSA"])
def test_a_token_names_its_key_and_algorithm(algorithm: Algorithm) -> None:
    key = generate(algorithm, "key-1")
    claims = Claims(issuer="me", expires=9, scopes=(Scope(actions=frozenset({6})),))
    opened = open_envelope(mint(claims, key))
    assert opened.mac == (algorithm == "HS256")
    assert opened.algorithm == key.algorithm_id
    assert opened.kid == b"key-1"
    assert opened.claims() == claims


def test_public_keys_make_no_tokens() -> None:
    with pytest.raises(KeyFileError, match="public key"):
        mint(Claims(), generate("ES256", "k").public())


def test_a_key_that_only_checks_makes_no_tokens() -> None:
    key = generate("ES256", "k")
    half = from_jwk({name: text for name, text in key.jwk.items() if name != "d"})
    wrong = TokenKey(half.kid, half.algorithm, True, half.jwk, half.cose)
    with pytest.raises(KeyFileError, match="cannot make tokens"):
        mint(Claims(), wrong)


def test_a_token_too_long_for_verifiers_is_not_made() -> None:
    scope = Scope(actions=frozenset({6}), namespace=(Match(b"x" * 4000),))
    with pytest.raises(EncodeError, match="fewer scopes"):
        mint(Claims(scopes=(scope,) * 3), generate("HS256", "k"))


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        (Claims(revalidate=math.nan), "moqt-reval is not a number"),
        (Claims(revalidate=-1.0), "moqt-reval is negative"),
        (Claims(expires=math.inf), "exp is not a number"),
        (Claims(issuer="x" * 2000), "iss is not a text"),
        (Claims(scopes=(Scope(actions=frozenset({6})),) * 65), "1 to 64 scopes"),
    ],
)
def test_what_no_verifier_takes_is_not_made(claims: Claims, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        mint(claims, generate("HS256", "k"))
