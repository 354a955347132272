"""Settings of the cores, the planes and the transport, made from the configuration."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from laps_relay.config.model import RelayConfig
from laps_relay.network.settings import NetworkSettings
from laps_sdk.edge.reports import ReportLimits
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.interfaces import CacheLimits, PlaneLimits
from laps_sdk.peering.dialler import Contact
from laps_sdk.quic.admission import AdmissionLimits
from laps_sdk.quic.base import ConnectionLimits, EgressLimits
from laps_wire.names import Namespace
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.session import CPP_16

__all__ = [
    "admission_limits",
    "cache_limits",
    "connection_limits",
    "edge_settings",
    "egress_limits",
    "network_settings",
    "peer_contacts",
    "plane_limits",
    "report_limits",
]

_T = TypeVar("_T")


def _fill(kind: type[_T], section: BaseModel) -> _T:
    """Return a dataclass filled with the plain values of a section."""
    values: dict[str, Any] = {
        name: value
        for name in type(section).model_fields
        if not isinstance(value := getattr(section, name), BaseModel)
    }
    return kind(**values)


def edge_settings(config: RelayConfig) -> EdgeSettings:
    """Return waits, caps and rates of the control plane."""
    return _fill(EdgeSettings, config.limits)


def plane_limits(config: RelayConfig) -> PlaneLimits:
    """Return how much state the forwarding plane holds."""
    return _fill(PlaneLimits, config.limits.plane)


def report_limits(config: RelayConfig) -> ReportLimits:
    """Return whether reports of players are accepted, and how many."""
    reports = config.observe.reports
    return ReportLimits(
        enabled=reports.enabled,
        namespace=Namespace.parse(reports.namespace),
        rate=reports.rate,
        burst=reports.burst,
        object_bytes=reports.object_bytes,
    )


def cache_limits(config: RelayConfig) -> CacheLimits:
    """Return what the cache holds."""
    return _fill(CacheLimits, config.cache)


def connection_limits(config: RelayConfig) -> ConnectionLimits:
    """Return the flow control windows of a connection."""
    return _fill(ConnectionLimits, config.limits.connection)


def egress_limits(config: RelayConfig) -> EgressLimits:
    """Return how much data may wait for a peer."""
    return _fill(EgressLimits, config.limits.egress)


def admission_limits(config: RelayConfig) -> AdmissionLimits:
    """Return which clients get a connection."""
    return _fill(AdmissionLimits, config.limits.admission)


def peer_contacts(config: RelayConfig) -> list[Contact]:
    """Return the relays to stay connected with."""
    network = config.network
    peers = [
        Contact(
            address=peer.address,
            mode=peer.mode,
            direction=peer.direction,
            parallel=network.parallel,
        )
        for peer in network.peer_texts
    ]
    return peers + [Contact(address=text, alpn=CPP_16.alpn) for text in network.cpp_contacts]


def network_settings(config: RelayConfig, relay_type: RelayType) -> NetworkSettings:
    """Return the settings of the network's core."""
    network = config.network
    return NetworkSettings(
        relay_type=relay_type,
        reflect=network.reflect or relay_type is not RelayType.VIA,
        plaintext_names=network.plaintext_names,
        signed_nodes=network.signs_nodes,
        light_time=not network.is_loopback(config.listen.host),
        batch=network.batch,
        hold=network.hold,
        keepalive=network.keepalive,
        unsubscribe_delay=network.unsubscribe_delay,
        max_fanout=network.max_fanout,
        via_hold=network.via_hold,
        dynamic_peering=network.dynamic,
        **network.limits.model_dump(),
    )
