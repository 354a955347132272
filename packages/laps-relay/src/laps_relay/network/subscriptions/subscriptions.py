"""Both roles of a relay with clients, beside the flood tables that all rooms share.

::

    local side                     Subscriptions                        network
    announce, withdraw     ------> OriginRole  (o-relay)  ------------> own announces
    publisher_accepted     ------>     |   <--------------------------- subscribes of others
    serve_track, release   <-----------'   ---------------------------> responses, targets(key)

    subscribe, unsubscribe ------> SubscriberRole (s-relay) ----------> own subscribes
    answered               <-----------'   <--------------------------- responses
    announce_added         <------ Discovery  <------------------------ announces of others
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from laps_relay.network.events import NetworkEvent
from laps_relay.network.flood.floods import AnnounceTable, Change, SubscribeTable
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.subscriptions.discovery import Discovery
from laps_relay.network.subscriptions.origin_role import OriginRole, RequestTrack
from laps_relay.network.subscriptions.origin_track import DeliveryFailure
from laps_relay.network.subscriptions.responses import return_session
from laps_relay.network.subscriptions.subscriber_role import Denial, SubscriberRole
from laps_relay.policy.interface import Policy
from laps_sdk.peering.settings import Identity
from laps_sdk.timers import Timers, earliest
from laps_sdk.upstream.interfaces import LocalSide
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    NodeSelf,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.information import NO_DATA, AnnounceIdentity, SubscribeIdentity

__all__ = ["SubscriptionCounters", "Subscriptions", "TrackHashes"]


class SubscriptionCounters(NamedTuple):
    """Counters since the start, and two current sizes."""

    subscribed: int
    origin_tracks: int
    collisions: int
    """Equal hashes of different names: refused, never delivered."""
    false_names: int
    """Announced names that do not have the announced hashes."""
    dropped_responses: int
    """Responses to subscribes that are unknown, or have another stamp."""


class TrackHashes(NamedTuple):
    """The hashes by which relays know a track."""

    elements: tuple[int, ...]
    name: int
    key: int


class SubscriptionSizes(NamedTuple):
    """How many entries the tables of :class:`Subscriptions` have."""

    origin_tracks: int
    """Tracks that local publishers send."""
    subscribed: int
    """Tracks that local clients subscribe to."""
    announced: int
    """Announces of local publishers."""
    subscribes: int
    """Subscribes of other relays to local publishers."""
    responses: int
    """Responses that wait to be sent."""
    responders: int
    """Relays that serve a track to local subscribers."""
    names: int
    """Names that other relays announce."""
    announces: int
    """Announces behind these names."""


class Subscriptions:
    """What the relay's own clients publish and subscribe to."""

    __slots__ = (
        "_discovery",
        "_dropped",
        "_local",
        "_origin",
        "_respond",
        "_subscriber",
        "_subscribes",
    )

    def __init__(
        self,
        identity: Identity,
        settings: NetworkSettings,
        hasher: KeyedHasher,
        *,
        announces: AnnounceTable,
        subscribes: SubscribeTable,
        policy: Policy,
        stamp: Callable[[], Stamp],
        node: Callable[[NodeId], NodeSelf | None],
        reaches: Callable[[NodeId], bool],
        replicas: Callable[[int], tuple[NodeId, ...]],
        respond: Callable[[float, int, SubscribeResponse], None],
        request_track: RequestTrack,
        request_again: RequestTrack,
        release: Callable[[float, int], None],
        targets_changed: Callable[[int], None],
        emit: Callable[[NetworkEvent], None],
    ) -> None:
        """Build both roles on the flood tables ``announces`` and ``subscribes``.

        Own entries are put into these tables and taken out of them.

        - ``stamp`` returns the next stamp of this relay.
        - ``node`` returns what a node says of itself, this relay too; None if it is unknown.
        - ``reaches`` returns whether policy leaves any path to a node.
        - ``replicas`` returns the control servers that hold our subscribe for a key.
        - ``respond`` sends a response: (now, session, response).
        - ``request_track``, ``request_again``, ``release``, ``targets_changed``: see
          :class:`OriginRole`.
        - ``emit`` takes events for the log.
        """
        self._local = identity.node_id
        self._subscribes = subscribes
        self._respond = respond
        self._discovery = Discovery(identity.node_id, hasher)
        self._subscriber = SubscriberRole(
            identity,
            settings,
            hasher,
            self._discovery,
            subscribes=subscribes,
            policy=policy,
            stamp=stamp,
            node=node,
            reaches=reaches,
            replicas=replicas,
            emit=emit,
        )
        self._origin = OriginRole(
            identity,
            settings,
            hasher,
            announces=announces,
            subscribes=subscribes,
            policy=policy,
            stamp=stamp,
            node=node,
            respond=respond,
            request_track=request_track,
            request_again=request_again,
            release=release,
            targets_changed=targets_changed,
            emit=emit,
        )
        self._dropped = 0

    def attach(self, clients: LocalSide) -> None:
        """Connect the relay's own clients: they get answers and the names of announces."""
        self._subscriber.clients = self._discovery.clients = clients

    def sizes(self) -> SubscriptionSizes:
        """Return how many entries each table has."""
        names, announces = self._discovery.sizes()
        announced, subscribes, responses = self._origin.sizes()
        return SubscriptionSizes(
            origin_tracks=len(self._origin),
            subscribed=len(self._subscriber),
            announced=announced,
            subscribes=subscribes,
            responses=responses,
            responders=self._subscriber.responders(),
            names=names,
            announces=announces,
        )

    # The local side

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> Denial | None:
        """Announce a track of our own clients, or a namespace: then the track name is empty.

        Return a denial if another announced name has the same hash.
        """
        return self._origin.announce(now, kind, name)

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw an announce of our own clients."""
        self._origin.withdraw(now, kind, name)

    def subscribe(
        self, now: float, name: FullTrackName, data: SubscribeData = NO_DATA
    ) -> Denial | None:
        """Subscribe to a track for our own clients, who get the result by ``LocalSide.answered``.

        Return a denial if another name with the same hash is subscribed to; it is final.
        """
        return self._subscriber.subscribe(now, name, data)

    def unsubscribe(self, now: float, name: FullTrackName) -> None:
        """End the subscription of our own clients to a track."""
        self._subscriber.unsubscribe(now, name)

    def publisher_accepted(self, now: float, key: int, data: SubscribeData = NO_DATA) -> None:
        """Record that a local publisher accepted the subscription to a track."""
        self._origin.publisher_accepted(now, key, data)

    def publisher_refused(
        self,
        now: float,
        key: int,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData = NO_DATA,
    ) -> None:
        """Record that a local publisher refused the subscription to a track."""
        self._origin.publisher_refused(now, key, code, reason, data)

    def publisher_ended(self, now: float, key: int, reason: str) -> None:
        """Record that a local publisher ended a track that it had accepted."""
        self._origin.publisher_ended(now, key, reason)

    # The network

    def announces_changed(
        self, now: float, changes: Iterable[Change[AnnounceIdentity, AnnounceInfo]]
    ) -> None:
        """Handle what ``take_changes`` of the announces returned."""
        for entry in self._discovery.changed(now, changes):
            self._subscriber.announced(now, entry)

    def subscribes_changed(
        self, now: float, changes: Iterable[Change[SubscribeIdentity, SubscribeInfo]]
    ) -> None:
        """Handle what ``take_changes`` of the subscribes returned."""
        self._origin.subscribes_changed(now, changes)

    def routed(
        self,
        now: float,
        key: int,
        targets: Iterable[NodeId],
        failures: Mapping[NodeId, DeliveryFailure],
    ) -> None:
        """Record the outcome of routing for a track: all targets, and those without data."""
        self._origin.routed(now, key, targets, failures)

    def response(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Handle a response to a subscribe of ours, or pass it on towards its s-relay."""
        if response.source == self._local:
            self._subscriber.response(now, response)
            return
        back = return_session(self._subscribes, session, response)
        if back is None:
            self._dropped += 1
            return
        parameters = response.parameters.carried()
        self._respond(now, back, replace(response, parameters=parameters))

    def node_changed(self, now: float, node: NodeId) -> bool:
        """Handle new information about a node; return whether policy may treat it differently."""
        self._subscriber.node_changed(now, node)
        return self._origin.node_changed(now, node)

    def paths_changed(self, now: float, nodes: Iterable[NodeId]) -> None:
        """Handle that paths to these nodes were added or removed."""
        self._subscriber.paths_changed(now, nodes)

    def set_policy(self, now: float, policy: Policy) -> None:
        """Apply another policy to everything that is published and subscribed to here."""
        self._subscriber.policy = self._origin.policy = policy
        self._subscriber.reconsider(now)
        self._origin.reconsider(now)

    # Queries

    def waiting(self, entry: AnnounceInfo) -> list[SubscribeIdentity]:
        """Return the subscribes, our own too, that an announce matches."""
        own = [(self._local, key) for key in self._subscriber.waiting(entry)]
        return own + self._origin.waiting(entry)

    def announcers(self, entry: SubscribeInfo) -> list[NodeId]:
        """Return the nodes that announced what a subscribe is for.

        The list is empty if a local publisher announced it: then this relay answers.
        """
        if self._origin.serves(entry):
            return []
        return self._discovery.announcers(entry.element_hashes, entry.name_hash)

    def holders(self, track: TrackHashes) -> list[NodeId]:
        """Return the nodes that may have a track: those that serve it to us, and its announcers."""
        announcers = self._discovery.announcers(track.elements, track.name)
        return list(dict.fromkeys((*self._subscriber.serving(track.key), *announcers)))

    def targets(self, key: int) -> frozenset[NodeId]:
        """Return the s-relays that get a track of ours."""
        return self._origin.targets(key)

    def is_subscribed(self, key: int) -> bool:
        """Return whether our clients subscribe to a track, or did until a moment ago."""
        return key in self._subscriber

    def has_lapsed(self, key: int) -> bool:
        """Return whether our clients left a track whose subscribe is not withdrawn yet."""
        return self._subscriber.has_lapsed(key)

    def name(self, key: int) -> FullTrackName | None:
        """Return the name of a track of ours that other relays subscribe to, or None."""
        return self._origin.name(key)

    def origin_tracks(self) -> list[int]:
        """Return the keys of our tracks that other relays subscribe to."""
        return self._origin.keys()

    def counters(self) -> SubscriptionCounters:
        """Return the counters."""
        return SubscriptionCounters(
            len(self._subscriber),
            len(self._origin),
            self._subscriber.collisions + self._origin.collisions,
            self._discovery.false_names,
            self._subscriber.dropped + self._dropped,
        )

    # Time

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers of both roles, for one common deadline."""
        return (*self._subscriber.clocks, *self._origin.clocks)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called; None: never."""
        return earliest(self._subscriber.poll_timeout(), self._origin.poll_timeout())

    def handle_timeout(self, now: float) -> None:
        """Do all that is due."""
        self._subscriber.handle_timeout(now)
        self._origin.handle_timeout(now)
