"""LAPS client SDK: publish and subscribe to named tracks over QUIC (MoQT).

What is here is loaded when it is first used: a relay takes the transport from this package and has
no use for the client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from laps_sdk.api.connecting import connect
    from laps_sdk.api.core.backoff import Backoff
    from laps_sdk.api.core.progress import Gap, GapCause
    from laps_sdk.api.core.stamps import CAPTURE_TIMESTAMP
    from laps_sdk.api.discovery import Namespaces, Tracks
    from laps_sdk.api.errors import (
        ConnectError,
        ConnectionLostError,
        DatagramTooLargeError,
        RequestError,
        RequestRefusedError,
        RequestTimeoutError,
        SessionClosedError,
        SubscriptionEndedError,
    )
    from laps_sdk.api.fetching import Fetch
    from laps_sdk.api.objects import (
        NamespaceAdded,
        NamespaceRemoved,
        Object,
        TrackAdded,
        TrackRemoved,
        TrackStatus,
    )
    from laps_sdk.api.publishing import PublishedTrack
    from laps_sdk.api.reporting import Reporter
    from laps_sdk.api.session import Session
    from laps_sdk.api.subscribing import Subscription
    from laps_sdk.api.writing import Group
    from laps_sdk.errors import TransportError
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
    "laps_sdk.api.connecting": ("connect",),
    "laps_sdk.api.core.backoff": ("Backoff",),
    "laps_sdk.api.core.progress": ("Gap", "GapCause"),
    "laps_sdk.api.core.stamps": ("CAPTURE_TIMESTAMP",),
    "laps_sdk.api.discovery": ("Namespaces", "Tracks"),
    "laps_sdk.api.errors": (
        "ConnectError",
        "ConnectionLostError",
        "DatagramTooLargeError",
        "RequestError",
        "RequestRefusedError",
        "RequestTimeoutError",
        "SessionClosedError",
        "SubscriptionEndedError",
    ),
    "laps_sdk.api.fetching": ("Fetch",),
    "laps_sdk.api.objects": (
        "NamespaceAdded",
        "NamespaceRemoved",
        "Object",
        "TrackAdded",
        "TrackRemoved",
        "TrackStatus",
    ),
    "laps_sdk.api.publishing": ("PublishedTrack",),
    "laps_sdk.api.reporting": ("Reporter",),
    "laps_sdk.api.session": ("Session",),
    "laps_sdk.api.subscribing": ("Subscription",),
    "laps_sdk.api.writing": ("Group",),
    "laps_sdk.errors": ("TransportError",),
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
