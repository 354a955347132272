from __future__ import annotations

import math

import pytest

from laps_sdk.tokens.claims import Claims, Match, Scope
from laps_sdk.tokens.envelope import open_envelope
from laps_sdk.tokens.errors import KeyFileError
from laps_sdk.tokens.keys import Algorithm, TokenKey, from_jwk, generate
from laps_sdk.tokens.minting import mint
from laps_wire.errors import EncodeError


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
