"""The section ``network``: the relay's identity in the network, and its peers."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, model_validator

from laps_relay.config.fields import (
    LOOPBACK,
    Duration,
    FilePath,
    Label,
    MisfitError,
    NodeIdText,
    Section,
    Size,
    Words,
    key,
)
from laps_relay.network.control_server.redirect import is_place
from laps_sdk.peering.settings import parse_contact
from laps_wire.hashing import endpoint_node_id
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Direction, Mode

__all__ = ["Network", "NetworkLimits", "PeerText"]

_FINGERPRINT_BYTES: Final = 32
_MODES: Final = {mode.name.lower(): mode for mode in Mode}
_ONE_WAY: Final = "one-way"


class PeerText(NamedTuple):
    """One entry of ``network.peers``."""

    address: str
    mode: Mode
    direction: Direction


def _client_url(text: str) -> str:
    if text and not is_place(text):
        raise ValueError("write moqt://host:port, as clients of this relay would")
    return text


ClientUrl = Annotated[str, AfterValidator(_client_url)]


def _pairs(items: list[str]) -> list[str]:
    for item in items:
        name, separator, value = item.partition("=")
        if not (name and separator and value):
            raise ValueError(f"{item!a} is no label; write name=value")
    return items


def _pin(text: str) -> tuple[NodeId, bytes]:
    node, _, digits = text.partition("=")
    try:
        fingerprint = bytes.fromhex(digits)
    except ValueError:
        fingerprint = b""
    if len(fingerprint) != _FINGERPRINT_BYTES:
        raise ValueError(f"{text!a} is no pin; write node id=SHA-256 of the key, 64 digits")
    return NodeId.parse(node), fingerprint


def _pins(items: list[str]) -> list[str]:
    for item in items:
        _pin(item)
    return items


def _peer(text: str) -> PeerText:
    """Parse ``host:port`` with the suffixes /control, /data and /one-way."""
    address, *words = text.split("/")
    modes = [word for word in words if word in _MODES]
    strange = [word for word in words if word not in _MODES and word != _ONE_WAY]
    one_way = _ONE_WAY in words
    parse_contact(address)
    if strange or len(modes) > 1 or len(words) > len(modes) + one_way:
        raise ValueError(
            f"{text!a} is no peer; write host:port, and then /control or /data for one of the two,"
            f" /{_ONE_WAY} for data that goes there and does not come from there"
        )
    mode = _MODES[modes[0]] if modes else Mode.BOTH
    if one_way and not mode.data:
        raise ValueError(f"{text!a} carries no data: leave /{_ONE_WAY} out")
    return PeerText(address, mode, Direction.UNIDIRECTIONAL if one_way else Direction.BIDIRECTIONAL)


def _cpp_node(text: str) -> NodeId:
    return NodeId.parse(text) if ":" in text else NodeId(endpoint_node_id(text))


def _cpp_nodes(items: list[str]) -> list[str]:
    for item in items:
        _cpp_node(item)
    return items


def _contacts(items: list[str]) -> list[str]:
    for item in items:
        parse_contact(item)
    return items


def _peers(items: list[str]) -> list[str]:
    for item in items:
        _peer(item)
    return items


Contacts = Annotated[Words, AfterValidator(_contacts)]
CppNodes = Annotated[Words, AfterValidator(_cpp_nodes)]
Labels = Annotated[Words, AfterValidator(_pairs)]
Peers = Annotated[Words, AfterValidator(_peers)]
Pins = Annotated[Words, AfterValidator(_pins)]


class NetworkLimits(Section):
    """How much state one peer may cause; the relay tells its peers at the start."""

    max_nodes: int = key(65_536, "Nodes that a peer may advertise.", "new-connections", ge=1)
    max_announces: int = key(1_048_576, "Announces that a peer may pass on.", "new-connections")
    max_subscribes: int = key(16_777_216, "Subscribes that a peer may pass on.", "new-connections")
    max_sets: int = key(65_536, "Subscriber node sets of a peer.", "new-connections", ge=1)
    max_targets: int = key(4_096, "Targets of one set.", "new-connections", ge=1, le=65_536)
    unknown_bytes: Size = key("16MiB", "Bytes of data that wait for their set.", "new-connections")
    unknown_time: Duration = key("30s", "How long data waits for its set.", "new-connections")


class Network(Section):
    """The relay as a member of a network; without ``enabled`` it is alone."""

    enabled: bool = key(
        False, "Whether the relay peers. Set peers, or another type than edge, imply it."
    )
    type: Literal["edge", "via", "stub", "control"] = key(
        "edge",
        "edge: clients and peers; via: forwards between relays; stub: child of an Edge; control:"
        " keeps announces and subscribes for others. A change reconnects all peers.",
        "at-once",
    )
    workers: int = key(
        1,
        "Number of Edge processes that share the port for clients; they peer with each other.",
        ge=1,
        le=256,
    )
    node_id: NodeIdText = key(
        "", "high:low, unique in the network. None: made from the key and the peer port."
    )
    region: Label = key("", "Name of the region that the relay is in.")
    longitude: float | None = key(None, "Degrees east.", ge=-180, le=180)
    latitude: float | None = key(None, "Degrees north.", ge=-90, le=90)
    labels: Labels = key([], "Labels for policies, each name=value, such as country=DE.")
    host: str = key("", "Address to bind for peers; none: that for clients.")
    port: int = key(33434, "UDP port for peers; 0: any free one.", ge=0, le=65535)
    contacts: Contacts = key(
        [], "Addresses at which other relays reach this one, host:port; none: where it listens."
    )
    client_url: ClientUrl = key(
        "",
        "Where clients of other relays are sent to, moqt://host:port; none: where it listens, if"
        " that is one address.",
    )
    peers: Peers = key(
        [],
        "Relays to connect to, host:port; host:port/control carries no data, host:port/data no"
        " control, and with /one-way behind it data goes there only. Who is taken out is left when"
        " data has found other ways, after listen.drain_timeout at the latest.",
        "at-once",
    )
    parallel: int = key(
        1,
        "Connections to each of them, for networks with ECMP: each track goes over one of them."
        " Relays that are dialled on demand get one connection.",
        ge=1,
        le=16,
    )
    auth: Literal["shared-key", "certificate", "none"] = key(
        "shared-key", "How peers prove who they are; none: on loopback only."
    )
    key_file: FilePath | None = key(
        None,
        "The network's secret, the same at all relays: proves membership, and names are hashed with"
        " it. None: one in the state directory, for relays of one machine.",
    )
    signed_nodes: bool | None = key(
        None,
        "Whether relays must sign what they say of themselves, so that no other one can say it;"
        ' who does not is refused. None: with auth = "certificate".',
    )
    ca: FilePath | None = key(None, "PEM file: who signs the certificates of relays.")
    node_key: FilePath | None = key(
        None, "PEM file: this relay's own key. None: one in the state directory, made if missing."
    )
    node_certificate: FilePath | None = key(
        None, "PEM file: the certificates of that key, its own first."
    )
    pins: Pins = key(
        [], "Keys that are trusted without a certificate, each node id=SHA-256 in hexadecimal."
    )
    cpp_peers: CppNodes = key(
        [],
        "C++ relays that may peer although they prove nothing: node ids, or endpoint ids (their"
        " option -e). With any, the peer port speaks their protocol, too.",
    )
    cpp_contacts: Contacts = key([], "C++ relays to connect to, host:port.")
    policy: FilePath | None = key(None, "Policy file; none: everything is allowed.", "at-once")
    reflect: bool = key(
        True, "Via: keep announces and subscribes and give them to new peers.", "static"
    )
    plaintext_names: bool = key(True, "Whether announces carry names, for discovery.")
    batch: Duration = key("20ms", "How long changes for a peer are collected.")
    hold: Duration = key(
        "1s",
        "How long a peer may be silent before its session ends, or four round trips if that is"
        " longer. The lesser value of the two relays counts.",
        gt=0,
    )
    keepalive: Duration = key(
        "0s", "How long this relay is silent before it sends a keepalive; 0: a quarter of hold."
    )
    unsubscribe_delay: Duration = key("5s", "How long the last unsubscribe of a track waits.")
    max_fanout: int = key(2, "Copies of a track towards one region before a Via is injected.", ge=1)
    via_hold: Duration = key(
        "10s", "How long a Via must be beneficial, or not, before it is injected or removed."
    )
    order: Literal["hops", "delay"] = key(
        "hops",
        "Which way to a relay is best: hops, the one over fewest relays; delay, the one with the"
        " shortest round trip. The same at all relays, or ways may never settle.",
    )
    dynamic: bool = key(True, "Whether relays are dialled on demand.")
    limits: NetworkLimits = NetworkLimits()

    @property
    def active(self) -> bool:
        """Whether the relay has peers."""
        return self.meets_others or self.workers > 1

    @property
    def meets_others(self) -> bool:
        """Whether other relays can be peers; workers of one relay always peer with each other."""
        return self.enabled or bool(self.peers) or self.meets_cpp or self.type != "edge"

    @property
    def meets_cpp(self) -> bool:
        """Whether C++ relays can be peers."""
        return bool(self.cpp_peers) or bool(self.cpp_contacts)

    @property
    def cpp_nodes(self) -> frozenset[NodeId]:
        """The C++ relays that may connect without proof."""
        return frozenset(_cpp_node(text) for text in self.cpp_peers)

    @property
    def peer_texts(self) -> list[PeerText]:
        """The relays to connect with, and what each connection carries."""
        return [_peer(text) for text in self.peers]

    @property
    def pinned_keys(self) -> dict[NodeId, frozenset[bytes]]:
        """Pinned fingerprints by node."""
        pins: dict[NodeId, frozenset[bytes]] = {}
        for node, fingerprint in map(_pin, self.pins):
            pins[node] = pins.get(node, frozenset()) | {fingerprint}
        return pins

    @property
    def signs_nodes(self) -> bool:
        """Whether node information must be signed."""
        return self.auth == "certificate" if self.signed_nodes is None else self.signed_nodes

    @property
    def takes_clients(self) -> bool:
        """Whether clients may connect."""
        return self.type in ("edge", "stub")

    def is_loopback(self, listen_host: str) -> bool:
        """Return whether only this machine can peer."""
        return (self.host or listen_host) in LOOPBACK

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.longitude is None) != (self.latitude is None):
            given = "latitude" if self.longitude is None else "longitude"
            raise MisfitError(given, "longitude and latitude: set both, or neither")
        if self.type == "stub" and not self.peers:
            raise MisfitError(
                "type", "a stub needs an Edge to be a child of: set network.peers, or give --peer"
            )
        if self.policy is not None and not self.active:
            raise MisfitError(
                "policy",
                "a relay that stands alone keeps to no policy: set network.enabled, or give"
                " --peer-port",
            )
        if self.workers > 1 and self.type != "edge":
            raise MisfitError(
                "workers", f"workers are Edges, and the type is {self.type}: set workers = 1"
            )
        if self.auth == "certificate" and self.ca is None and not self.pins:
            raise MisfitError(
                "auth", "nobody's certificate would be trusted: set network.ca, or network.pins"
            )
        if self.node_certificate is not None and self.node_key is None:
            raise MisfitError(
                "node_certificate", "it is of a key of your own: set network.node_key"
            )
        if self.meets_cpp and self.type != "edge":
            given = "cpp_peers" if self.cpp_peers else "cpp_contacts"
            raise MisfitError(given, "only an edge peers with C++ relays")
        if self.cpp_contacts and not self.cpp_peers and self.auth != "none":
            raise MisfitError(
                "cpp_contacts", "C++ relays prove nothing: say whom you trust in network.cpp_peers"
            )
        for text, peer in zip(self.peers, self.peer_texts, strict=True):
            whole = (peer.mode, peer.direction) == (Mode.BOTH, Direction.BIDIRECTIONAL)
            if self.type == "stub" and not whole:
                raise MisfitError(
                    "peers", f"a stub has everything on one connection: write {peer.address}"
                )
            if self.type == "control" and not peer.mode.control:
                raise MisfitError(
                    "peers", f"a control server carries no data, and {text} nothing else"
                )
        return self
