"""LAPS client SDK: publish and subscribe to named tracks over QUIC (MoQT).

What is here is loaded when it is first used: a relay takes the transport from this package and has
no use for the client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from laps_sdk.client.core.objects import (
        CAPTURE_TIMESTAMP,
        NamespaceAdded,
        NamespaceRemoved,
        Object,
        TrackAdded,
        TrackRemoved,
        TrackStatus,
    )
    from laps_sdk.client.core.progress import Gap, GapCause
    from laps_sdk.client.dial import Backoff
    from laps_sdk.client.discovery import Namespaces, Tracks
    from laps_sdk.client.fetch import Fetch
    from laps_sdk.client.publication import Group, PublishedTrack
    from laps_sdk.client.reporter import Reporter
    from laps_sdk.client.session import Session, connect
    from laps_sdk.client.subscription import Subscription
    from laps_sdk.errors import (
        ConnectError,
        ConnectionLostError,
        DatagramTooLargeError,
        RequestError,
        RequestRefusedError,
        RequestTimeoutError,
        SessionClosedError,
        SubscriptionEndedError,
        TransportError,
    )
    from laps_sdk.uri import RelayAddress, parse_address
    from laps_wire.errors import LapsError
    from laps_wire.moqt.structures import Location
    from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "CAPTURE_TIMESTAMP",
    "Backoff",
    "ConnectError",
    "ConnectionLostError",
    "DatagramTooLargeError",
    "Fetch",
    "FullTrackName",
    "Gap",
    "GapCause",
    "Group",
    "LapsError",
    "Location",
    "Namespace",
    "NamespaceAdded",
    "NamespaceRemoved",
    "Namespaces",
    "Object",
    "PublishedTrack",
    "RelayAddress",
    "Reporter",
    "RequestError",
    "RequestRefusedError",
    "RequestTimeoutError",
    "Session",
    "SessionClosedError",
    "Subscription",
    "SubscriptionEndedError",
    "TrackAdded",
    "TrackRemoved",
    "TrackStatus",
    "Tracks",
    "TransportError",
    "connect",
    "parse_address",
]

_HOMES: Final = {
    "laps_sdk.client.dial": ("Backoff",),
    "laps_sdk.client.core.progress": ("Gap", "GapCause"),
    "laps_sdk.client.discovery": ("Namespaces", "Tracks"),
    "laps_sdk.errors": (
        "ConnectError",
        "ConnectionLostError",
        "DatagramTooLargeError",
        "RequestError",
        "RequestRefusedError",
        "RequestTimeoutError",
        "SessionClosedError",
        "SubscriptionEndedError",
        "TransportError",
    ),
    "laps_sdk.client.fetch": ("Fetch",),
    "laps_sdk.client.core.objects": (
        "CAPTURE_TIMESTAMP",
        "NamespaceAdded",
        "NamespaceRemoved",
        "Object",
        "TrackAdded",
        "TrackRemoved",
        "TrackStatus",
    ),
    "laps_sdk.client.publication": ("Group", "PublishedTrack"),
    "laps_sdk.client.reporter": ("Reporter",),
    "laps_sdk.client.session": ("Session", "connect"),
    "laps_sdk.client.subscription": ("Subscription",),
    "laps_sdk.uri": ("RelayAddress", "parse_address"),
    "laps_wire.errors": ("LapsError",),
    "laps_wire.moqt.structures": ("Location",),
    "laps_wire.names": ("FullTrackName", "Namespace"),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name from where it is defined (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
