"""What the parts of an :class:`~laps_sdk.upstream.client.EdgeClient` share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.upstream.seam import Seam, SeamEnd
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestRejected,
    UpdateReceived,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData

__all__ = ["EdgeClientHost", "NameHasher", "Office", "RequestEvent"]

RequestEvent: TypeAlias = (
    RequestAccepted | RequestRejected | PublishEnded | RequestCancelled | UpdateReceived
)
"""What the Edge says about a request that there is already."""


class NameHasher(Protocol):
    """How a track's key is made: ``laps_wire.hashing.KeyedHasher``, or the C++ relay's way."""

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        """The full-name hash."""


class EdgeClientHost(Protocol):
    """Whoever is behind the client."""

    def wanted(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """The Edge wants a track; again, with other data, if its subscribers ask for more.

        Answer with ``EdgeClient.answered``, now or later, and each time.
        """

    def unwanted(self, now: float, key: int, name: FullTrackName) -> None:
        """It does not any more."""

    def pulled(self, now: float, key: int, data: SubscribeData) -> None:
        """A pull is served; ``data`` is the publisher's answer."""

    def pull_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """A pull is not served."""

    def pull_ended(self, now: float, key: int, reason: str) -> None:
        """A pull that was served is over."""

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        """The Edge ended the session, and with it everything."""


class Office:
    """The session with the Edge, whoever is behind it, and what is wanted of them."""

    __slots__ = ("_claims", "_hasher", "draft", "host", "relay", "seam")

    def __init__(
        self,
        relay: EdgeRelay,
        seam: Seam,
        host: EdgeClientHost,
        hasher: NameHasher,
        draft: Draft,
    ) -> None:
        self.relay = relay
        self.seam = seam
        self.draft = draft
        """In which properties, codes and bodies are."""
        self.host = host
        self._hasher = hasher
        self._claims: dict[int, dict[object, None]] = {}
        """Which parts want a track."""

    @property
    def session(self) -> SeamEnd:
        """Our end of the session with the Edge."""
        return self.seam.session

    def key_of(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self._hasher.full_name(name.namespace.fields, name.name)

    def want(
        self, now: float, part: object, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """A part wants a track, or something else of it."""
        self._claims.setdefault(key, {})[part] = None
        self.host.wanted(now, key, name, data)

    def unwant(self, now: float, part: object, key: int, name: FullTrackName) -> None:
        """A part does not any more."""
        claims = self._claims.get(key, {})
        if claims.pop(part, self) is None and not claims:
            del self._claims[key]
            self.host.unwanted(now, key, name)
