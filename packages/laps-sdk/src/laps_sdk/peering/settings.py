"""The identity of a relay, the settings and features that it offers, and addresses of contacts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from laps_wire.errors import LocalError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Feature, RelayType, Settings
from laps_wire.peering.laps2.codepoints import MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES
from laps_wire.peering.session import Role

__all__ = [
    "PEER_PORT",
    "ContactError",
    "Identity",
    "PeeringSettings",
    "features_of",
    "parse_contact",
    "settings_of",
    "show_contact",
]

PEER_PORT: Final = 33434
"""The port of a contact without one (laps-2, 1.2)."""
_MAX_UNKNOWN_MS: Final = 60_000
_MAX_HOLD_MS: Final = 86_400_000
_MAX_BATCH_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a relay in the network."""

    node_id: NodeId
    epoch: int
    """The boot epoch, which grows with every start."""
    contacts: tuple[str, ...] = ()
    region: str = ""
    longitude: float | None = None
    latitude: float | None = None
    labels: tuple[tuple[str, str], ...] = ()
    fingerprint: bytes = b""
    """The fingerprint of the key that holds the node id; b"" if there is none."""
    credential: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeeringSettings:
    """What is offered to peers, and the limits for one peer; times are in seconds."""

    relay_type: RelayType = RelayType.EDGE
    plaintext_names: bool = True
    """Offer the feature PLAINTEXT_NAMES: announces carry names, so that clients can discover."""
    signed_nodes: bool = False
    """Use the feature SIGNED_NODES, and refuse relays without it."""
    batch: float = 0.02
    """How long changes for a peer are collected (BATCH_MS)."""
    hold: float = 1.0
    """How long a peer may be silent before its session ends (HOLD_MS)."""
    keepalive: float = 0.0
    """How long this relay is silent before it sends KEEPALIVE; 0: a quarter of the hold time."""

    # Limits for one peer

    max_nodes: int = 65_536
    max_announces: int = 1_048_576
    max_subscribes: int = 16_777_216
    max_sets: int = 65_536
    max_targets: int = 4_096
    unknown_bytes: int = 16 * 1_048_576
    unknown_time: float = 30.0
    """How long data waits for its set, which is at most as late as a repeated message."""
    max_message: int = 1_048_576


def settings_of(
    settings: PeeringSettings,
    *,
    hash_check: int | None,
    expected: NodeId | None = None,
    implementation: str = "",
) -> Settings:
    """Return the SETTINGS for a peer (laps-2, 4.3), with times and sizes cut to their ranges."""
    return Settings(
        unknown_sns_ms=_milliseconds(settings.unknown_time, _MAX_UNKNOWN_MS),
        unknown_sns_bytes=settings.unknown_bytes,
        max_message_size=min(max(settings.max_message, MIN_MESSAGE_BYTES), MAX_MESSAGE_BYTES),
        hold_ms=_milliseconds(settings.hold, _MAX_HOLD_MS),
        max_sns_targets=settings.max_targets,
        max_sns_sets=settings.max_sets,
        max_nodes=settings.max_nodes,
        max_announces=settings.max_announces,
        max_subscribes=settings.max_subscribes,
        batch_ms=_milliseconds(settings.batch, _MAX_BATCH_MS),
        hash_check=hash_check,
        expected_node=expected,
        implementation=implementation,
    )


def features_of(settings: PeeringSettings, role: Role, own: RelayType) -> tuple[int, ...]:
    """Return the features to offer, ascending."""
    features = {
        Feature.DATAGRAMS,
        Feature.PROBES,
        Feature.FETCHES,
        Feature.STAYS,
        Feature.REPAIR,
    }
    if settings.plaintext_names:
        features.add(Feature.PLAINTEXT_NAMES)
    if settings.signed_nodes:
        features.add(Feature.SIGNED_NODES)
    # A listener with it has a shard; a dialler only declares that it would respect one.
    if role is Role.DIALLER or own is RelayType.CONTROL:
        features.add(Feature.SHARDED_SUBSCRIBES)
    return tuple(sorted(features))


def _milliseconds(seconds: float, most: int) -> int:
    return min(max(round(seconds * 1000), 0), most)


class ContactError(LocalError, ValueError):
    """The text is not a contact."""


def parse_contact(text: str) -> tuple[str, int]:
    """Parse ``host``, ``host:port``, ``IPv6`` or ``[IPv6]:port``.

    Raises ``ContactError`` for any other text.
    """
    rest = text.strip()
    if rest.startswith("["):
        host, closing, after = rest[1:].partition("]")
        separator, port = after[:1], after[1:]
        good = bool(closing) and separator in ("", ":")
    elif rest.count(":") > 1:  # an IPv6 address without brackets has no port
        host, separator, port, good = rest, "", "", True
    else:
        host, separator, port = rest.partition(":")
        good = True
    if not separator:
        number = PEER_PORT
    elif port.isascii() and port.isdigit() and len(port) <= 5:
        number = int(port)
    else:
        number = 0
    if not good or not _can_be_a_name(host) or not 0 < number <= 65535:
        raise ContactError(
            f"{text[:80]!a} is no contact: host, host:port or [IPv6]:port with a port of 1 to 65535"
        )
    return host, number


def _can_be_a_name(host: str) -> bool:
    """Return whether the host is an address or a valid name."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return bool(host) and not any(c.isspace() for c in host)


def show_contact(address: tuple[str, int]) -> str:
    """Return the text of an address, which :func:`parse_contact` reads back."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
