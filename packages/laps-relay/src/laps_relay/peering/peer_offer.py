"""What this relay offers to every peer: its settings and features, as the protocol names them."""

from __future__ import annotations

from typing import Final

from laps_relay.network.interfaces import NetworkSettings
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Feature, RelayType, Settings
from laps_wire.peering.laps2.limits import MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES
from laps_wire.peering.session import Role

__all__ = ["features_of", "settings_of"]

_MAX_UNKNOWN_MS: Final = 60_000
_MAX_HOLD_MS: Final = 86_400_000
_MAX_BATCH_MS: Final = 10_000


def settings_of(
    settings: NetworkSettings,
    *,
    hash_check: int | None,
    expected: NodeId | None = None,
    implementation: str = "",
) -> Settings:
    """What we hold for a peer (laps-2, 4.3); times and sizes are brought into their ranges."""
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


def features_of(settings: NetworkSettings, role: Role, own: RelayType) -> tuple[int, ...]:
    """The features that we would use, ascending."""
    features = {Feature.DATAGRAMS, Feature.PROBES, Feature.FETCHES, Feature.STAYS}
    if settings.plaintext_names:
        features.add(Feature.PLAINTEXT_NAMES)
    if settings.signed_nodes:
        features.add(Feature.SIGNED_NODES)
    # It says that the listener has a shard; who dials can only say that it would respect it.
    if role is Role.DIALLER or own is RelayType.CONTROL:
        features.add(Feature.SHARDED_SUBSCRIBES)
    return tuple(sorted(features))


def _milliseconds(seconds: float, most: int) -> int:
    return min(max(round(seconds * 1000), 0), most)
