"""Proofs of identity between relays: the ``PeerAuthenticator`` of the core.

::

    scheme        proves                             the node id is held by
    SHARED_KEY    the network's key is known, and    that node key, for all relays that have met
                  the node key is held               the node
    STUB_KEY      the same with the key for Stubs    as with SHARED_KEY; only a Stub may dial
                                                     with it
    CERTIFICATE   the node key is held               that key, if it is trusted for the node id:
                                                     pinned, or certified by the authority for
                                                     urn:laps:node:<node id>
    NONE          nothing: loopback, development     the node key that signed the information

Every proof is over the transcript (laps-2, 4.2), which contains both challenges and the listener's
TLS key. So a third party in between cannot use it. Relays that share the network's key still trust
each other for new node ids: the first key with a node id holds it. Use certificates where relays do
not trust each other.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from laps_sdk.peering.events import NOT_NOW, Refusal
from laps_sdk.peering.keys.files import (
    NetworkKey,
    NodeKey,
    PeerKeyError,
    VerifyingKey,
    obtain_network_key,
    obtain_node_key,
    read_network_key,
    read_node_key,
)
from laps_sdk.quic.tls import key_hash
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AuthScheme,
    Evidence,
    NodeInfo,
    NodeSelf,
    NodeSignature,
    ParameterId,
    RelayType,
    node_transcript,
)
from laps_wire.peering.laps2.codepoints import MAX_CREDENTIAL_BYTES, MAX_PARAMETER_BYTES

__all__ = ["NODE_URN", "AuthMethod", "PeerKeyRing", "open_key_ring"]

AuthMethod = Literal["shared-key", "certificate", "none"]

NODE_URN: Final = "urn:laps:node:"
"""The form of a node id in a certificate: a URI of the subject alternative name."""
MAX_CHAIN: Final = 4
"""The most certificates between a node and the authority, its own included."""
MAX_KNOWN_SIGNATURES: Final = 65_536
"""The most signatures of nodes that are remembered as valid."""

_SCHEMES: Final[Mapping[AuthMethod, AuthScheme]] = {
    "shared-key": AuthScheme.SHARED_KEY,
    "certificate": AuthScheme.CERTIFICATE,
    "none": AuthScheme.NONE,
}
_RULE: Final = "authentication"
_MAC_BYTES: Final = 32
_SHARED: Final = AuthScheme.SHARED_KEY
_STUB: Final = AuthScheme.STUB_KEY


class PeerKeyRing:
    """The keys of a relay and its trust in others."""

    def __init__(
        self,
        *,
        schemes: Sequence[AuthScheme],
        network_key: NetworkKey | None = None,
        node_key: NodeKey | None = None,
        authorities: Sequence[x509.Certificate] = (),
        pins: Mapping[NodeId, frozenset[bytes]] | None = None,
        unproved: frozenset[NodeId] = frozenset(),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Make a key ring.

        ``pins`` are fingerprints for node ids. ``unproved`` are C++ relays, which have no proofs.
        ``clock`` is used for the validity of certificates.
        """
        if not schemes:
            raise PeerKeyError("at least one authentication scheme is needed")
        if {AuthScheme.SHARED_KEY, AuthScheme.STUB_KEY} & set(schemes) and network_key is None:
            raise PeerKeyError("shared-key needs the network's key: set network.key_file")
        if AuthScheme.CERTIFICATE in schemes:
            if node_key is None:
                raise PeerKeyError("certificate needs the relay's own key")
            if not authorities and not pins:
                raise PeerKeyError("certificate trusts nobody: set network.ca")
        self.schemes: tuple[int, ...] = tuple(sorted({int(each) for each in schemes}))
        self.network_key = network_key
        self.node_key = node_key
        self._authorities = tuple(authorities)
        self._pins = dict(pins or {})
        self._unproved = unproved
        self._clock = clock
        self._credential = b"" if node_key is None else _pack(node_key.chain)
        self._known: dict[bytes, None] = {}

    @property
    def fingerprint(self) -> bytes:
        """The fingerprint of our own key; b"" if there is none."""
        return b"" if self.node_key is None else self.node_key.fingerprint

    def own_flaw(self, node: NodeId) -> str | None:
        """Return why relays with our authority would not accept that we are this node.

        None means that they would, or that there is no authority. Relays that have pinned our key
        accept it in any case.
        """
        key = self.node_key
        if key is None or AuthScheme.CERTIFICATE not in self.schemes or not self._authorities:
            return None
        chain = key.chain
        if len(chain) == 1 and chain[0].issuer == chain[0].subject and not _uris(chain[0]):
            return "there is no certificate for the key of this relay"
        refusal = self._unchained(chain)
        if refusal is None and node and NODE_URN + str(node) not in _uris(chain[0]):
            refusal = _no(f"the certificate is not for node {node}")
        return None if refusal is None else refusal.reason

    # Sessions

    def sign(
        self, schemes: Sequence[int], transcript: Callable[[Evidence], bytes]
    ) -> Evidence | None:
        """Return our proof in the strongest scheme that both sides support."""
        common = set(schemes) & set(self.schemes)
        if AuthScheme.CERTIFICATE in common and self.node_key is not None:
            shown = Evidence(AuthScheme.CERTIFICATE, self._credential)
            signature = self.node_key.sign(transcript(shown))
        elif secrets := [each for each in (_SHARED, _STUB) if each in common]:
            key = self._secret(secrets[0])
            shown = Evidence(secrets[0], key.name)
            signed = transcript(shown)
            signature = _mac(key, signed)
            if self.node_key is not None:
                signature += self.node_key.sign(signed)
        elif AuthScheme.NONE in common:
            return Evidence()
        else:
            return None
        return Evidence(shown.scheme, shown.credential, signature)

    def verify(self, evidence: Evidence, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        """Return the fingerprint that holds the peer's node id, or why its proof is invalid."""
        node = peer.node.node_id
        if not transcript:
            allowed = AuthScheme.NONE in self.schemes or node in self._unproved
            return b"" if allowed else _no(f"node {node} may not come without a proof")
        if evidence.scheme not in self.schemes:
            return _no(f"scheme {evidence.scheme} is not accepted")
        if evidence.scheme == AuthScheme.CERTIFICATE:
            return self._verify_certificate(
                evidence.credential, evidence.signature, transcript, peer
            )
        if evidence.scheme in (_SHARED, _STUB):
            key = self._secret(evidence.scheme)
            if evidence.credential != key.name:
                return _no("the network's key is another one")
            mac, own = evidence.signature[:_MAC_BYTES], evidence.signature[_MAC_BYTES:]
            if not hmac.compare_digest(_mac(key, transcript), mac):
                return _no("the proof does not hold")
            if key is not self.network_key and peer.node.relay_type is not RelayType.STUB:
                return _no("this key is for Stubs only")
            return self._own_key(own, transcript, peer)
        return self._declared(peer)

    def _secret(self, scheme: int) -> NetworkKey:
        """Return our key of a scheme; a Stub has only the key for Stubs."""
        if self.network_key is None:
            raise PeerKeyError("there is no key of the network")
        return self.network_key.stub_key() if scheme == _STUB else self.network_key

    def _own_key(self, signature: bytes, transcript: bytes, peer: NodeInfo) -> bytes | Refusal:
        """Return the key of the node information, if the peer itself holds it."""
        declared = self._declared(peer)
        if isinstance(declared, Refusal) or not declared:
            return declared
        chain = _unpack(peer.node.parameters.get(ParameterId.NODE_CREDENTIAL) or b"")
        if not _good(chain[0], signature, transcript):
            return _no(f"the key of node {peer.node.node_id} has not signed the proof")
        return declared

    def _declared(self, peer: NodeInfo) -> bytes | Refusal:
        """Return the key that the node declares as its own with a signature."""
        if peer.signature.scheme == AuthScheme.NONE:
            return b""
        return self.verify_node(peer) or peer.signature.fingerprint

    def _verify_certificate(
        self, credential: bytes, signature: bytes, signed: bytes, peer: NodeInfo
    ) -> bytes | Refusal:
        try:
            chain = _unpack(credential)
        except PeerKeyError as error:
            return _no(str(error))
        node, fingerprint = peer.node.node_id, key_hash(chain[0])
        if not _good(chain[0], signature, signed):
            return _no("the proof does not hold")
        if peer.signature.fingerprint not in (b"", fingerprint):
            return _no("the proof is of another key than the node's own words")
        return self._distrust(chain, node, fingerprint) or fingerprint

    def _distrust(
        self, chain: Sequence[x509.Certificate], node: NodeId, fingerprint: bytes
    ) -> Refusal | None:
        """Return why this key may not hold this node id."""
        pinned = self._pins.get(node)
        if pinned is not None:
            return None if fingerprint in pinned else _no(f"node {node} is pinned to another key")
        # Stubs have no node id; for them any certificate of the network will do.
        if node and NODE_URN + str(node) not in _uris(chain[0]):
            return _no(f"the certificate is not for node {node}")
        return self._unchained(chain)

    def _unchained(self, chain: Sequence[x509.Certificate]) -> Refusal | None:
        """Return why the chain does not lead to an authority."""
        now, valid = self._clock(), True
        for index, certificate in enumerate(chain[:MAX_CHAIN]):
            valid &= certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
            if any(_issued(certificate, authority) for authority in self._authorities):
                return None if valid else Refusal(NOT_NOW, "a certificate is not valid now")
            following = chain[index + 1 : index + 2]
            if not following or not _issued(certificate, following[0]):
                break
        return _no("the certificate does not come from the network's authority")

    # Nodes

    def sign_node(self, node: NodeSelf) -> NodeInfo:
        """Return information on this node, with certificate and signature if there is a key."""
        key = self.node_key
        if key is None:
            return NodeInfo(node)
        if 0 < len(self._credential) <= MAX_PARAMETER_BYTES:
            parameters = node.parameters.with_bytes(ParameterId.NODE_CREDENTIAL, self._credential)
            node = replace(node, parameters=parameters)
        unsigned = NodeSignature(AuthScheme.CERTIFICATE, key.fingerprint)
        signature = key.sign(node_transcript(node, unsigned))
        return NodeInfo(node, NodeSignature(AuthScheme.CERTIFICATE, key.fingerprint, signature))

    def verify_node(self, info: NodeInfo) -> Refusal | None:
        """Return why a node's information is not proved to be its own; None if it is."""
        node, shown = info.node, info.signature
        if shown.scheme != AuthScheme.CERTIFICATE:
            return _no("it is not signed")
        signed = node_transcript(node, shown)
        known = hashlib.sha256(signed + shown.signature).digest()
        if known in self._known:
            return None
        try:
            chain = _unpack(node.parameters.get(ParameterId.NODE_CREDENTIAL) or b"")
        except PeerKeyError as error:
            return _no(str(error))
        if key_hash(chain[0]) != shown.fingerprint:
            return _no("its certificate is of another key")
        if not _good(chain[0], shown.signature, signed):
            return _no("the signature does not hold")
        if AuthScheme.CERTIFICATE in self.schemes and (
            refusal := self._distrust(chain, node.node_id, shown.fingerprint)
        ):
            return refusal
        self._known[known] = None
        if len(self._known) > MAX_KNOWN_SIGNATURES:
            del self._known[next(iter(self._known))]
        return None


def open_key_ring(
    method: AuthMethod,
    state_dir: Path,
    *,
    key_file: Path | None = None,
    ca: Path | None = None,
    node_key_file: Path | None = None,
    node_certificate: Path | None = None,
    pins: Mapping[NodeId, frozenset[bytes]] | None = None,
    unproved: frozenset[NodeId] = frozenset(),
) -> PeerKeyRing:
    """Return the key ring of a relay, as configured; missing keys are made in ``state_dir``.

    Raises ``PeerKeyError``, which names the remedy.
    """
    if key_file is not None:
        network_key = read_network_key(key_file)
    else:
        network_key = obtain_network_key(state_dir)
    if node_key_file is not None:
        node_key = read_node_key(node_key_file, node_certificate)
    else:
        node_key = obtain_node_key(state_dir)
    authorities: list[x509.Certificate] = []
    if ca is not None:
        try:
            authorities = x509.load_pem_x509_certificates(ca.read_bytes())
        except OSError as error:
            raise PeerKeyError(f"CA file {ca}: cannot be read: {error.strerror}") from None
        except ValueError:
            raise PeerKeyError(f"CA file {ca}: holds no PEM certificate") from None
    schemes = [_SCHEMES[method]]
    if method == "shared-key":
        schemes = [_STUB] if network_key.for_stubs else [_SHARED, _STUB]
    return PeerKeyRing(
        schemes=schemes,
        network_key=network_key,
        node_key=node_key,
        authorities=authorities,
        pins=pins,
        unproved=unproved,
    )


# Pieces


def _no(reason: str) -> Refusal:
    return Refusal(_RULE, reason)


def _mac(key: NetworkKey, transcript: bytes) -> bytes:
    return hmac.digest(key.secret, transcript, "sha256")


def _pack(chain: Sequence[x509.Certificate]) -> bytes:
    """Encode certificates as a credential: each after its u24 length, the leaf first."""
    packed = b""
    for certificate in chain[:MAX_CHAIN]:
        der = certificate.public_bytes(serialization.Encoding.DER)
        packed += len(der).to_bytes(3, "big") + der
    if len(packed) > MAX_CREDENTIAL_BYTES:
        raise PeerKeyError(
            f"the certificates of this relay have {len(packed)} bytes, {MAX_CREDENTIAL_BYTES} are"
            " allowed: leave out the authority's own"
        )
    return packed


def _unpack(credential: bytes) -> list[x509.Certificate]:
    chain: list[x509.Certificate] = []
    at = 0
    while at < len(credential):
        end = at + 3 + int.from_bytes(credential[at : at + 3], "big")
        if end > len(credential) or len(chain) == MAX_CHAIN:
            raise PeerKeyError("the credential is no list of certificates")
        try:
            chain.append(x509.load_der_x509_certificate(credential[at + 3 : end]))
        except ValueError:
            raise PeerKeyError("the credential holds a damaged certificate") from None
        at = end
    if not chain:
        raise PeerKeyError("the credential is empty")
    return chain


def _good(certificate: x509.Certificate, signature: bytes, signed: bytes) -> bool:
    key: VerifyingKey | object = certificate.public_key()
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, signed)
        elif isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
            plain = len(signature) == 64  # both numbers, and nothing else
            der = encode_dss_signature(r, s) if plain else b""
            key.verify(der, signed, ec.ECDSA(hashes.SHA256()))
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return _may_sign(issuer)


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return extension.value.ca


def _uris(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.value.get_values_for_type(x509.UniformResourceIdentifier)
