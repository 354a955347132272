"""LAPS client SDK: publish and subscribe to named tracks over QUIC (MoQT)."""

from __future__ import annotations

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
