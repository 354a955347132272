"""Proofs between relays: what is taken, what is refused, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from laps_sdk.peering.events import NOT_NOW, Refusal
from laps_sdk.peering.keys import NODE_URN, NetworkKey, NodeKey, PeerKeyError, PeerKeyRing, ring
from laps_sdk.peering.keys.ring import open_key_ring
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AuthScheme,
    Evidence,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    ParameterId,
    RelayType,
    Stamp,
)
from testkit.peer_certs import Issued, authority, issue_node, node_key, store

A = NodeId(10)
SHARED, CERTIFICATE, NONE = AuthScheme.SHARED_KEY, AuthScheme.CERTIFICATE, AuthScheme.NONE


def me(number: int = 10) -> NodeSelf:
    kind = RelayType.EDGE if number else RelayType.STUB
    return NodeSelf(NodeId(number), kind, Stamp(1, 0), contacts=("a.example",))


def transcript(evidence: Evidence) -> bytes:
    """Something that depends on what a transcript depends on."""
    return b"transcript:" + bytes([evidence.scheme]) + evidence.credential


def shared(secret: bytes = b"s" * 32, **more: Any) -> PeerKeyRing:
    return PeerKeyRing(schemes=[SHARED], network_key=NetworkKey(secret), **more)


def certified(key: NodeKey, **more: Any) -> PeerKeyRing:
    return PeerKeyRing(
        schemes=[CERTIFICATE], node_key=key, authorities=[authority().certificate], **more
    )


def proof(of: PeerKeyRing, schemes: tuple[int, ...] = (0, 3, 4)) -> Evidence:
    evidence = of.sign(schemes, transcript)
    assert evidence is not None
    return evidence


def reason(found: object) -> str:
    assert isinstance(found, Refusal), found
    assert found.rule == "authentication"
    return found.reason


def shown(to: PeerKeyRing, by: PeerKeyRing, number: int = 10) -> bytes | Refusal:
    """What one makes of the other's proof."""
    evidence = proof(by)
    return to.verify(evidence, transcript(evidence), by.sign_node(me(number)))


# Shared key


def test_who_knows_the_key_comes_in() -> None:
    assert shown(shared(), shared()) == b""
    signing = shared(node_key=node_key(10))
    assert shown(shared(), signing) == signing.fingerprint


def test_who_knows_another_key_does_not() -> None:
    assert "another one" in reason(shown(shared(), shared(b"t" * 32)))


def test_a_proof_over_something_else_does_not_hold() -> None:
    evidence = proof(shared())
    info = NodeInfo(me())
    assert "does not hold" in reason(shared().verify(evidence, b"another transcript", info))
    for wrong in (b"", b"x" * 32):
        bad = replace(evidence, signature=wrong)
        assert "does not hold" in reason(shared().verify(bad, transcript(evidence), info))


def test_a_key_that_is_only_named_counts_for_nothing() -> None:
    info = NodeInfo(me(), NodeSignature(NONE, b"f" * 32))
    evidence = proof(shared())
    assert shared().verify(evidence, transcript(evidence), info) == b""


def test_words_that_somebody_changed_are_refused() -> None:
    signing = shared(node_key=node_key(10))
    info = signing.sign_node(me())
    changed = replace(info, node=replace(info.node, region="elsewhere"))
    evidence = proof(signing)
    found = shared().verify(evidence, transcript(evidence), changed)
    assert "signature does not hold" in reason(found)


def test_who_repeats_the_words_of_another_node_does_not_pass_for_it() -> None:
    """The network's key is known to all; the key of a node is not."""
    honest, thief = shared(node_key=node_key(10)), shared(node_key=node_key(30))
    heard = honest.sign_node(me())
    evidence = proof(thief)
    found = shared().verify(evidence, transcript(evidence), heard)
    assert "has not signed the proof" in reason(found)
    bare = proof(shared())
    found = shared().verify(bare, transcript(bare), heard)
    assert "has not signed the proof" in reason(found)
    # Nor with a proof that was made for another session.
    old = proof(honest)
    again = replace(bare, signature=bare.signature + old.signature[32:])
    found = shared().verify(again, b"transcript of today", heard)
    assert "does not hold" in reason(found)


@pytest.mark.parametrize("curve", [None, ec.SECP256R1()], ids=["ed25519", "p256"])
def test_the_key_of_a_node_signs_with_the_key_of_the_network(
    curve: ec.EllipticCurve | None,
) -> None:
    key = None if curve is None else ec.generate_private_key(curve)
    signing = shared(node_key=node_key(10, key=key))
    assert shown(shared(), signing) == signing.fingerprint


def test_signatures_have_the_form_of_the_specification() -> None:
    """64 bytes whatever the key is: not DER."""
    key = node_key(10, key=ec.generate_private_key(ec.SECP256R1()))
    signing = certified(key)
    evidence = proof(signing)
    assert {len(key.sign(b"x")), len(evidence.signature)} == {64}
    for wrong in (evidence.signature + b"x", evidence.signature[:63], b"", bytes(64)):
        bad = replace(evidence, signature=wrong)
        found = certified(node_key(20)).verify(bad, transcript(evidence), signing.sign_node(me()))
        assert "does not hold" in reason(found)


# The key for Stubs

STUB = AuthScheme.STUB_KEY


def test_who_has_the_key_for_stubs_comes_in_as_a_stub_only() -> None:
    secret = NetworkKey(b"s" * 32)
    edge = PeerKeyRing(schemes=[SHARED, STUB], network_key=secret, node_key=node_key(10))
    stub = PeerKeyRing(schemes=[STUB], network_key=secret.stub_key(), node_key=node_key(30))
    evidence = stub.sign(edge.schemes, transcript)
    assert evidence is not None
    assert evidence.scheme == STUB
    words = stub.sign_node(me(0))
    assert words.node.relay_type is RelayType.STUB
    assert edge.verify(evidence, transcript(evidence), words) == stub.fingerprint
    for number in (10, 30):
        found = edge.verify(evidence, transcript(evidence), stub.sign_node(me(number)))
        assert "for Stubs only" in reason(found)
    # The Edge proves itself with what the Stub can check; among themselves relays use the secret.
    answer = edge.sign(stub.schemes, transcript)
    assert answer is not None
    assert stub.verify(answer, transcript(answer), edge.sign_node(me())) == edge.fingerprint
    assert proof(edge, edge.schemes).scheme == SHARED
    # The name of the secret does not help.
    claimed = replace(evidence, scheme=SHARED, credential=secret.name)
    assert "does not hold" in reason(edge.verify(claimed, transcript(claimed), words))
    other = PeerKeyRing(schemes=[STUB], network_key=NetworkKey(b"t" * 32).stub_key())
    assert "another one" in reason(other.verify(answer, transcript(answer), NodeInfo(me())))


def test_a_ring_without_a_key_has_no_secret() -> None:
    with pytest.raises(PeerKeyError, match="no key"):
        PeerKeyRing(schemes=[NONE])._secret(SHARED)


def test_opening_the_key_for_stubs(tmp_path: Path) -> None:
    path = tmp_path / "stub-key"
    path.touch(mode=0o600)
    path.write_text(NetworkKey(b"s" * 32).stub_key().dump())
    assert open_key_ring("shared-key", tmp_path, key_file=path).schemes == (STUB,)
    assert open_key_ring("shared-key", tmp_path).schemes == (SHARED, STUB)


# None, and C++ relays


def test_without_authentication_everybody_comes_in() -> None:
    door = PeerKeyRing(schemes=[NONE])
    assert proof(door) == Evidence()
    assert shown(door, door) == b""
    signing = PeerKeyRing(schemes=[NONE], node_key=node_key(10))
    assert shown(door, signing) == signing.fingerprint


def test_a_scheme_that_is_not_ours_is_refused() -> None:
    assert "not accepted" in reason(shared().verify(Evidence(), b"t", NodeInfo(me())))
    assert shared().sign((0, 4), transcript) is None


def test_cpp_relays_come_in_only_if_they_are_named() -> None:
    info = NodeInfo(me())
    assert "without a proof" in reason(shared().verify(Evidence(), b"", info))
    assert shared(unproved=frozenset({A})).verify(Evidence(), b"", info) == b""
    assert PeerKeyRing(schemes=[NONE]).verify(Evidence(), b"", info) == b""
    # ... and only with a protocol that knows no proofs.
    named = shared(unproved=frozenset({A}))
    assert "not accepted" in reason(named.verify(Evidence(), b"t", info))


# Certificates


@pytest.mark.parametrize("curve", [None, ec.SECP256R1()], ids=["ed25519", "p256"])
def test_who_has_a_certificate_for_its_node_id_comes_in(curve: ec.EllipticCurve | None) -> None:
    key = None if curve is None else ec.generate_private_key(curve)
    a, b = certified(node_key(10, key=key)), certified(node_key(20))
    assert shown(b, a) == a.fingerprint
    assert "not for node 0.0:0.11" in reason(shown(b, a, 11))


def test_a_stub_needs_any_certificate_of_the_network() -> None:
    a, b = certified(node_key(10)), certified(node_key(20))
    assert shown(b, a, 0) == a.fingerprint


def test_certificates_of_others_are_refused() -> None:
    stranger = issue_node(None, ca=True, name="network authority")
    other = PeerKeyRing(
        schemes=[CERTIFICATE],
        node_key=node_key(10, stranger),
        authorities=[stranger.certificate],
    )
    assert "authority" in reason(shown(certified(node_key(20)), other))


def test_a_chain_leads_to_the_authority() -> None:
    middle = issue_node(authority(), ca=True, name="middle")
    leaf = issue_node(middle, [NODE_URN + str(A)])
    b = certified(node_key(20))
    whole = certified(NodeKey(leaf.key, (leaf.certificate, middle.certificate)))
    assert shown(b, whole) == whole.fingerprint
    part = certified(NodeKey(leaf.key, (leaf.certificate,)))
    assert "authority" in reason(shown(b, part))
    wrong = certified(NodeKey(leaf.key, (leaf.certificate, authority().certificate)))
    assert "authority" in reason(shown(b, wrong))


@pytest.mark.parametrize("ca", [False, None])
def test_a_relay_may_not_sign_for_others(ca: bool | None) -> None:
    relay = issue_node(authority(), [NODE_URN + str(NodeId(20))], ca=ca, name="relay 20")
    leaf = issue_node(relay, [NODE_URN + str(A)])
    forged = certified(NodeKey(leaf.key, (leaf.certificate, relay.certificate)))
    assert "authority" in reason(shown(certified(node_key(20)), forged))


def test_a_chain_has_an_end() -> None:
    issuers: list[Issued] = [authority()]
    for depth in range(5):
        issuers.append(issue_node(issuers[-1], ca=True, name=f"middle {depth}"))
    leaf = issue_node(issuers[-1], [NODE_URN + str(A)])
    chain = (leaf.certificate, *(each.certificate for each in issuers[:0:-1]))
    assert "authority" in reason(
        shown(certified(node_key(20)), certified(NodeKey(leaf.key, chain)))
    )


def test_certificates_have_their_time() -> None:
    later = certified(node_key(20), clock=lambda: datetime.now(UTC) + timedelta(days=31))
    earlier = certified(node_key(20), clock=lambda: datetime.now(UTC) - timedelta(days=31))
    for door in (later, earlier):
        found = shown(door, certified(node_key(10)))
        assert found == Refusal(NOT_NOW, "a certificate is not valid now")
        # Of somebody whom we never trusted it does not matter.
        stranger = certified(node_key(10, issue_node(None, ca=True, name="another authority")))
        assert "authority" in reason(shown(door, stranger))


def test_a_pinned_key_needs_no_authority_and_excludes_all_others() -> None:
    own = issue_node(None)
    a = PeerKeyRing(
        schemes=[CERTIFICATE],
        node_key=NodeKey(own.key, (own.certificate,)),
        pins={NodeId(20): frozenset()},
    )
    b = certified(node_key(20), pins={A: frozenset({a.fingerprint})})
    assert shown(b, a) == a.fingerprint
    assert "pinned to another key" in reason(shown(b, certified(node_key(10))))


def test_a_relay_knows_that_others_will_refuse_it() -> None:
    assert certified(node_key(10)).own_flaw(A) is None
    assert certified(node_key(10)).own_flaw(NodeId(0)) is None  # a Stub
    assert shared().own_flaw(A) is None
    flaw = certified(node_key(11)).own_flaw(A)
    assert flaw == f"the certificate is not for node {A}"
    other = issue_node(issue_node(None, ca=True, name="another"), [NODE_URN + str(A)])
    flaw = certified(NodeKey(other.key, (other.certificate,))).own_flaw(A)
    assert flaw == "the certificate does not come from the network's authority"
    old = issue_node(authority(), [NODE_URN + str(A)], end=datetime.now(UTC) - timedelta(days=1))
    flaw = certified(NodeKey(old.key, (old.certificate,))).own_flaw(A)
    assert flaw == "a certificate is not valid now"


def test_a_relay_without_a_certificate_knows_that(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority().certificate.public_bytes(serialization.Encoding.PEM))
    flaw = open_key_ring("certificate", tmp_path, ca=ca).own_flaw(A)
    assert flaw == "there is no certificate for the key of this relay"
    # Where all keys are pinned nobody needs one.
    pinned = open_key_ring("certificate", tmp_path, pins={NodeId(11): frozenset({b"x" * 32})})
    assert pinned.own_flaw(A) is None


def test_a_proof_with_a_stolen_certificate_does_not_hold() -> None:
    a, thief = certified(node_key(10)), certified(node_key(30))
    evidence = proof(a)
    stolen = replace(evidence, signature=proof(thief).signature)
    found = certified(node_key(20)).verify(stolen, transcript(evidence), NodeInfo(me()))
    assert "does not hold" in reason(found)


def test_the_proof_and_the_words_are_of_one_key() -> None:
    a, other = certified(node_key(10)), certified(node_key(10))
    evidence = proof(a)
    found = certified(node_key(20)).verify(evidence, transcript(evidence), other.sign_node(me()))
    assert "another key" in reason(found)


@pytest.mark.parametrize(
    "credential",
    [b"", b"\x00", b"\x00\x00\x05abc", b"\x00\x00\x03abc", b"\xff\xff\xff", bytes(3) * 9],
)
def test_credentials_that_are_none(credential: bytes) -> None:
    found = certified(node_key(20)).verify(Evidence(4, credential, b"x"), b"t", NodeInfo(me()))
    assert "credential" in reason(found)


def test_too_many_certificates_are_no_credential() -> None:
    der = authority().certificate.public_bytes(serialization.Encoding.DER)
    credential = (len(der).to_bytes(3, "big") + der) * 5
    found = certified(node_key(20)).verify(Evidence(4, credential, b"x"), b"t", NodeInfo(me()))
    assert "credential" in reason(found)


def test_keys_of_other_kinds_do_not_sign() -> None:
    odd = issue_node(authority(), [NODE_URN + str(A)], key=ec.generate_private_key(ec.SECP384R1()))
    other = certified(NodeKey(odd.key, (odd.certificate,)))
    assert "does not hold" in reason(shown(certified(node_key(20)), other))


def test_certificates_that_are_too_large_are_told_at_once() -> None:
    large = issue_node(authority(), [f"urn:x:{n}:{'y' * 500}" for n in range(20)])
    with pytest.raises(PeerKeyError, match="8192 are"):
        certified(NodeKey(large.key, (large.certificate,)))


# Nodes


def test_a_node_signs_its_own_words() -> None:
    a, b = certified(node_key(10)), certified(node_key(20))
    info = a.sign_node(me())
    assert info.signature.fingerprint == a.fingerprint
    assert info.node.parameters.get(ParameterId.NODE_CREDENTIAL)
    assert b.verify_node(info) is None
    assert b.verify_node(info) is None  # known by now
    assert b.verify_node(info.passed_on(NodeId(99), 5)) is None


def test_without_a_key_nothing_is_signed() -> None:
    info = PeerKeyRing(schemes=[NONE]).sign_node(me())
    assert info == NodeInfo(me())
    assert "not signed" in reason(shared().verify_node(info))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda i: replace(i, node=replace(i.node, region="x")), "signature does not hold"),
        (lambda i: replace(i, signature=replace(i.signature, signature=b"x")), "does not hold"),
        (
            lambda i: replace(i, signature=replace(i.signature, fingerprint=b"x" * 32)),
            "another key",
        ),
        (lambda i: replace(i, node=me()), "credential is empty"),
    ],
)
def test_what_others_make_of_it_is_seen(change: Callable[[NodeInfo], NodeInfo], why: str) -> None:
    info = change(certified(node_key(10)).sign_node(me()))
    for door in (certified(node_key(20)), shared()):
        assert why in reason(door.verify_node(info))


def test_where_certificates_count_they_count_for_nodes_too() -> None:
    own = issue_node(None)
    loner = shared(node_key=NodeKey(own.key, (own.certificate,)))
    info = loner.sign_node(me())
    assert shared().verify_node(info) is None
    assert "not for node" in reason(certified(node_key(20)).verify_node(info))


def test_what_is_remembered_of_signatures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "MAX_KNOWN_SIGNATURES", 3)
    a, b = shared(node_key=node_key(10)), shared()
    for number in range(10):
        node = replace(me(), stamp=Stamp(1, number))
        assert b.verify_node(a.sign_node(node)) is None
    assert len(b._known) == 3


def test_a_credential_that_does_not_fit_is_left_out() -> None:
    chain = [issue_node(authority(), [NODE_URN + str(A), f"urn:x:{'y' * 4000}"])]
    a = certified(NodeKey(chain[0].key, (chain[0].certificate,)))
    info = a.sign_node(me())
    assert info.node.parameters.get(ParameterId.NODE_CREDENTIAL) is None
    assert info.signature.signature


# Opening


def test_a_ring_without_what_it_needs_is_refused() -> None:
    wrong: list[dict[str, Any]] = [
        {"schemes": []},
        {"schemes": [SHARED]},
        {"schemes": [CERTIFICATE]},
        {"schemes": [CERTIFICATE], "node_key": node_key(10)},
    ]
    for each in wrong:
        with pytest.raises(PeerKeyError):
            PeerKeyRing(**each)


def test_opening_makes_the_keys_that_nobody_gave(tmp_path: Path) -> None:
    first = open_key_ring("shared-key", tmp_path)
    again = open_key_ring("shared-key", tmp_path)
    assert first.schemes == (SHARED, STUB)
    assert first.fingerprint == again.fingerprint != b""
    assert first.network_key == again.network_key
    assert shown(first, again) == first.fingerprint
    assert open_key_ring("none", tmp_path).schemes == (NONE,)


def test_opening_reads_the_keys_that_somebody_gave(tmp_path: Path) -> None:
    issued = issue_node(authority(), [NODE_URN + str(A)])
    key, chain = store(tmp_path, issued)
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority().certificate.public_bytes(serialization.Encoding.PEM))
    network = tmp_path / "network"
    network.touch(mode=0o600)
    network.write_text("ab" * 32)
    state = tmp_path / "state"
    opened = open_key_ring(
        "certificate", state, key_file=network, ca=ca, node_key_file=key, node_certificate=chain
    )
    assert shown(certified(node_key(20)), opened) == opened.fingerprint
    assert not state.exists()
    for content, why in ((b"junk", "holds no PEM"), (None, "cannot be read")):
        if content is None:
            ca.unlink()
        else:
            ca.write_bytes(content)
        with pytest.raises(PeerKeyError, match=why):
            open_key_ring("certificate", state, ca=ca)
