"""The o-relay: what local publishers announce, and which relays get it.

::

    subscribe of an s-relay --> announced here? --> full name equal? --> policy? --> subscriber
                                     | no                | no               | no         |
                                 (ignored)         HASH_COLLISION         POLICY     request_track
                                                                                         | once
              the publisher's answer, or its end, goes to every subscriber  <------------'
              with a path; the others get the reason why there is none

A track is requested from its publisher once, however many s-relays subscribe to it. Each s-relay
gets a response for every stamp of its subscribe, over the session on which the subscribe was
received.

**The response to each subscriber** (:class:`OriginTrack`)::

    there is a path, and the publisher has accepted     --> ACCEPTED
    policy forbids every path                           --> POLICY, at once; later if the relay can
                                                            be dialled
    there is no path now                                --> UNREACHABLE, after a grace
    there is a path again, and it is stable             --> ACCEPTED

A subscriber without data stays in the list: steering looks for paths, and data goes there once
there is one.

**Sending** (:class:`ResponseSender`). A response goes over the session on which its subscribe was
received. When that session has just ended, another one will bring the subscribe again, or the
subscribe is removed soon. Until then the response is kept.

Relays on the path drop a response to a subscribe that they do not know at that moment, and report
nothing. A subscriber without a response asks again. A subscriber that was accepted does not, so a
response that revokes an acceptance for policy is sent a second time, after all changes have
converged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from laps_relay.network.events import NetworkEvent, SubscribeRefused
from laps_relay.network.flood.floods import AnnounceTable, Change, SubscribeTable
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.subscriptions.discovery import SubscribeIndex
from laps_relay.policy.interface import Policy
from laps_sdk.peering.settings import Identity
from laps_sdk.timers import Timers, earliest
from laps_sdk.upstream.bodies import bounded, bounded_reason, name_in
from laps_wire.hashing import KeyedHasher
from laps_wire.matching import Announce, AnnounceIndex, Subscribe
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    NO_PARAMETERS,
    AnnounceInfo,
    AnnounceKind,
    AnnounceWithdrawal,
    Label,
    NodeSelf,
    ParameterId,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.information import NO_DATA, SubscribeIdentity

__all__ = [
    "DeliveryFailure",
    "Denial",
    "OriginRole",
    "OriginTrack",
    "PendingResponse",
    "RequestTrack",
    "ResponseSender",
]

_STABLE: Final = 1.0
"""Seconds that a path must last before a subscriber that was refused gets ACCEPTED.

A relay on the path may refuse it, and be tried again at intervals."""


class Denial(NamedTuple):
    """Why a command of the relay's own clients cannot be carried out; it had no effect."""

    code: SubscribeCode
    reason: str


class DeliveryFailure(NamedTuple):
    """Why an allowed subscriber gets no data."""

    code: SubscribeCode
    reason: str
    patience: float = 0.0
    """Seconds that a path may take to appear before the failure is reported."""


class PendingResponse(NamedTuple):
    """A response that is due to a subscriber."""

    code: SubscribeCode
    reason: str = ""


class OriginTrack:
    """A track of a local publisher that other relays subscribe to."""

    __slots__ = ("_failures", "_sent", "_since", "answer", "name", "subscribers", "targets")

    def __init__(self, name: FullTrackName) -> None:
        self.name = name
        self.answer: SubscribeData | None = None
        """The publisher's own answer; None until it has accepted."""
        self.subscribers: dict[NodeId, SubscribeInfo] = {}
        """s-relays."""
        self.targets: frozenset[NodeId] = frozenset()
        self._failures: dict[NodeId, DeliveryFailure] = {}
        self._since: dict[NodeId, float] = {}
        """When a subscriber last got or lost its path; absent: not routed yet."""
        self._sent: dict[NodeId, tuple[Stamp, SubscribeCode]] = {}

    def remove(self, source: NodeId) -> bool:
        """Remove a subscriber; return whether it was one."""
        if self.subscribers.pop(source, None) is None:
            return False
        for each in (self._failures, self._since, self._sent):
            each.pop(source, None)
        return True

    def was_accepted(self, source: NodeId) -> bool:
        """Return whether the last response to a subscriber was ACCEPTED."""
        sent = self._sent.get(source)
        return sent is not None and sent[1] is SubscribeCode.ACCEPTED

    def routed(
        self, now: float, targets: Iterable[NodeId], failures: Mapping[NodeId, DeliveryFailure]
    ) -> None:
        """Record the outcome of routing: all targets, and those without data."""
        for source in targets:
            if source not in self.subscribers:
                continue
            failure = failures.get(source)
            if source not in self._since or (failure is None) != (source not in self._failures):
                self._since[source] = now
            if failure is None:
                self._failures.pop(source, None)
            else:
                self._failures[source] = failure

    def next_response(self, now: float, source: NodeId) -> PendingResponse | float | None:
        """Return the response that is due to a subscriber now, each one once.

        A number is the time at which to ask again. None: no response is due.
        """
        since, failure = self._since.get(source), self._failures.get(source)
        if since is None or (failure is None and self.answer is None):
            return None
        stamp, code = self.subscribers[source].stamp, SubscribeCode.ACCEPTED
        sent = self._sent.get(source)
        if failure is None:
            response = PendingResponse(code)
            due = since if sent is None or sent[1] is code else since + _STABLE
        else:
            response = PendingResponse(failure.code, failure.reason)
            due = since + failure.patience
        if sent == (stamp, response.code):
            return None
        if now < due:
            return due
        self._sent[source] = stamp, response.code
        return response


_AGAIN: Final = 0.25
"""Seconds between two tries to send a response that has no session."""


class ResponseSender:
    """Sends responses to subscribes; ``len`` is how many wait to be sent, or sent again."""

    __slots__ = ("_hasher", "_local", "_repeat", "_respond", "_subscribes", "_timers", "_unsent")

    def __init__(
        self,
        local: NodeId,
        hasher: KeyedHasher,
        repeat: float,
        *,
        subscribes: SubscribeTable,
        respond: Callable[[float, int, SubscribeResponse], None],
    ) -> None:
        """``repeat``: seconds until a response that must not be lost is sent a second time.

        ``respond`` sends a response over a session: (now, session, response).
        """
        self._local = local
        self._hasher = hasher
        self._repeat = repeat
        self._subscribes = subscribes
        self._respond = respond
        self._unsent: dict[SubscribeIdentity, SubscribeResponse] = {}
        self._timers: Timers[SubscribeIdentity] = Timers()

    def __len__(self) -> int:
        return len(self._unsent)

    def send(
        self,
        now: float,
        entry: SubscribeInfo,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData = NO_DATA,
        *,
        repeat: bool = False,
    ) -> None:
        """Respond to a subscribe; an acceptance carries a digest of the full name.

        With ``repeat`` the response is sent again later, unless another one was sent until then.
        """
        parameters = NO_PARAMETERS
        name = name_in(entry.data)
        if code is SubscribeCode.ACCEPTED and name is not None:
            digest = self._hasher.end_check(name.namespace.fields, name.name)
            parameters = parameters.with_bytes(ParameterId.FULL_NAME_DIGEST, digest)
        response = SubscribeResponse(
            entry.source,
            entry.full_name_hash,
            entry.stamp,
            self._local,
            code,
            bounded_reason(reason),
            0,
            bounded(data),
            parameters,
        )
        self._send(now, response)
        if repeat and response.identity not in self._unsent:
            self._unsent[response.identity] = response
            self._timers.set(response.identity, now + self._repeat)

    def _send(self, now: float, response: SubscribeResponse) -> None:
        """Send a response, or keep it if no session has its subscribe at the moment."""
        identity = response.identity
        self._unsent.pop(identity, None)
        self._timers.cancel(identity)
        session = self._subscribes.heard_on(identity)
        if session is not None:
            self._respond(now, session, response)
        elif self._subscribes.get(identity) is not None:
            self._unsent[identity] = response
            self._timers.set(identity, now + _AGAIN)

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (self._timers,)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called; None: never."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Send what had no session, and repeat what must arrive."""
        due: list[SubscribeResponse] = []
        while (identity := self._timers.pop(now)) is not None:
            due.append(self._unsent.pop(identity))
        for response in due:
            entry = self._subscribes.get(response.identity)
            if entry is not None and entry.stamp == response.stamp:
                self._send(now, response)


_NOBODY: Final[frozenset[NodeId]] = frozenset()

RequestTrack: TypeAlias = "Callable[[float, int, FullTrackName, SubscribeData], None]"
"""Asks a publisher here for a track: (now, key, name, what is asked of it)."""


class OriginRole:
    """The announces of local publishers, and the tracks that other relays subscribe to."""

    __slots__ = (
        "_announced",
        "_announces",
        "_emit",
        "_hasher",
        "_index",
        "_local",
        "_node",
        "_pending",
        "_places",
        "_release",
        "_request_again",
        "_request_track",
        "_responses",
        "_settings",
        "_stamp",
        "_subscribes",
        "_table",
        "_targets_changed",
        "_tracks",
        "collisions",
        "policy",
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
        respond: Callable[[float, int, SubscribeResponse], None],
        request_track: RequestTrack,
        request_again: RequestTrack,
        release: Callable[[float, int], None],
        targets_changed: Callable[[int], None],
        emit: Callable[[NetworkEvent], None],
    ) -> None:
        """Build the role on the flood tables ``announces`` and ``subscribes``.

        ``request_track`` asks the publisher for a track, ``request_again`` for one that it sends
        already. ``release`` ends what ``request_track`` began: (now, key). ``targets_changed``
        reports that :meth:`targets` may have changed for a key.
        """
        self._local = identity.node_id
        self._settings = settings
        self._hasher = hasher
        self._announces = announces
        self._table = subscribes
        self._stamp = stamp
        self._node = node
        self._request_track = request_track
        self._request_again = request_again
        self._release = release
        self._targets_changed = targets_changed
        self._emit = emit
        self.policy = policy
        """The policy in force."""
        self._announced: dict[tuple[AnnounceKind, int], tuple[FullTrackName, AnnounceInfo]] = {}
        self._index: AnnounceIndex[int, tuple[AnnounceKind, int]] = AnnounceIndex()
        self._subscribes: SubscribeIndex[NodeId] = SubscribeIndex()
        self._tracks: dict[int, OriginTrack] = {}
        self._places: dict[NodeId, tuple[str, tuple[Label, ...]]] = {}
        """Region and labels of nodes: what policy depends on."""
        self._responses = ResponseSender(
            identity.node_id,
            hasher,
            settings.convergence,
            subscribes=subscribes,
            respond=respond,
        )
        self._pending: Timers[SubscribeIdentity] = Timers()
        """Subscribers whose response waits until a path appears, or proves stable."""
        self.collisions = 0
        """Subscribes and announces with the hash of another name."""

    def __len__(self) -> int:
        return len(self._tracks)

    def sizes(self) -> tuple[int, int, int]:
        """Return how many announces, subscribes and waiting responses there are."""
        responses = len(self._responses) + len(self._pending)
        return len(self._announced), len(self._subscribes), responses

    # Announces of local publishers

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> Denial | None:
        """Announce a track of a local publisher, or a namespace: then the track name is empty.

        Return a denial if another announced name has the same hash.
        """
        fields = name.namespace.fields
        key = kind, self._hasher.full_name(fields, name.name)
        known = self._announced.get(key)
        if known is not None:
            if known[0] == name:
                return None
            self.collisions += 1
            return Denial(SubscribeCode.HASH_COLLISION, f"another name has the hash {key[1]:#018x}")
        track = kind is AnnounceKind.TRACK
        entry = AnnounceInfo(
            self._local,
            self._stamp(),
            kind,
            self._hasher.elements(fields),
            self._hasher.name(name.name) if track else None,
            key[1],
            name if self._settings.plaintext_names and fields else None,
        )
        self._announced[key] = name, entry
        self._index.add(Announce(entry.element_hashes, entry.name_hash), key)
        self._announces.originate(now, entry)
        self._offer(now, entry)
        return None

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw an announce; tracks that are served already go on to their end."""
        key = kind, self._hasher.full_name(name.namespace.fields, name.name)
        known = self._announced.get(key)
        if known is None or known[0] != name:
            return
        del self._announced[key]
        entry = known[1]
        self._index.remove(Announce(entry.element_hashes, entry.name_hash), key)
        withdrawal = AnnounceWithdrawal(self._local, self._stamp(), kind, key[1])
        self._announces.retract(now, withdrawal)

    def _offer(self, now: float, entry: AnnounceInfo) -> None:
        """Consider the subscribes that an announce matches."""
        for identity in self.waiting(entry):
            subscribe = self._table.get(identity)
            if subscribe is not None:
                self._consider(now, subscribe)

    def waiting(self, entry: AnnounceInfo) -> list[SubscribeIdentity]:
        """Return the subscribes of other relays that an announce matches."""
        elements = entry.element_hashes
        if entry.name_hash is None:
            return [(source, key) for key, source in self._subscribes.below(elements)]
        key = entry.full_name_hash
        return [(source, key) for source in self._subscribes.track(elements, key)]

    def serves(self, entry: SubscribeInfo) -> bool:
        """Return whether a local publisher announced what a subscribe is for."""
        return bool(self._index.match(Subscribe(entry.element_hashes, entry.name_hash)))

    # Subscribes of other relays

    def subscribes_changed(
        self, now: float, changes: Iterable[Change[SubscribeIdentity, SubscribeInfo]]
    ) -> None:
        """Handle subscribes that were added, changed or removed."""
        for change in changes:
            source, key = change.identity
            if source == self._local:
                continue
            if change.previous is not None:
                self._subscribes.remove(change.previous.element_hashes, key, source)
            if change.entry is None:
                self._remove_subscriber(now, key, source)
            else:
                self._subscribes.add(change.entry.element_hashes, key, source)
                self._consider(now, change.entry)

    def reconsider(self, now: float) -> None:
        """Apply a new policy to every subscriber and every waiting subscribe."""
        entries: dict[SubscribeIdentity, SubscribeInfo] = {
            (source, key): entry
            for key, track in self._tracks.items()
            for source, entry in track.subscribers.items()
        }
        for _, announce in self._announced.values():
            for identity in self.waiting(announce):
                waiting = self._table.get(identity)
                if waiting is not None:
                    entries.setdefault(identity, waiting)
        for entry in entries.values():
            self._consider(now, entry)

    def node_changed(self, now: float, node: NodeId) -> bool:
        """Apply policy again to the subscribes of a node.

        Return whether its region or labels have changed, which policy depends on.
        """
        known = self._node(node)
        before = self._places.pop(node, None)
        if known is None:
            return False
        place = self._places[node] = known.region, known.labels
        if before is None or before == place:
            return False
        for entry in [each for each in self._table.live() if each.source == node]:
            self._consider(now, entry)
        return True

    def _consider(self, now: float, entry: SubscribeInfo) -> None:
        key, source = entry.full_name_hash, entry.source
        track = self._tracks.get(key)
        known = None if track is None else track.subscribers.get(source)
        offers = self._index.match(Subscribe(entry.element_hashes, entry.name_hash))
        if not offers and known is None:
            return
        refusal = self._refusal(entry, offers, track)
        if refusal is not None:
            accepted = track is not None and track.was_accepted(source)
            repeat = accepted and refusal[0] is SubscribeCode.POLICY
            self._responses.send(now, entry, *refusal, repeat=repeat)
            self._refused(key, source, *refusal)
            self._remove_subscriber(now, key, source)
            return
        if known is not None and known.stamp == entry.stamp:
            return
        if track is not None:
            self._add_subscriber(track, entry)
            newcomer = known is None and track.answer is not None
            if newcomer or (known is not None and known.data != entry.data):
                # A new subscriber gets the publisher's current answer, not its first one.
                self._request_again(now, key, track.name, entry.data)
            if track.subscribers.get(source) is entry:
                self._respond(now, track, entry)
            return
        name = name_in(entry.data)
        if name is not None:
            track = self._tracks[key] = OriginTrack(name)
            self._add_subscriber(track, entry)
            self._request_track(now, key, name, entry.data)

    def _add_subscriber(self, track: OriginTrack, entry: SubscribeInfo) -> None:
        track.subscribers[entry.source] = entry
        if entry.source not in track.targets:
            track.targets = frozenset(track.subscribers)
            self._targets_changed(entry.full_name_hash)

    def _refusal(
        self,
        entry: SubscribeInfo,
        offers: list[tuple[AnnounceKind, int]],
        track: OriginTrack | None,
    ) -> tuple[SubscribeCode, str] | None:
        name = name_in(entry.data)
        if name is None:
            return SubscribeCode.HASH_COLLISION, "no SUBSCRIBE whose full name could be compared"
        if not self._same(entry, name, offers, track):
            self.collisions += 1
            return SubscribeCode.HASH_COLLISION, "another name has the same hash"
        source, local = self._node(entry.source), self._node(self._local)
        if source is None or local is None:
            return SubscribeCode.UNREACHABLE, "the subscriber's relay is not known"
        refusal = self.policy.subscribe(name, entry, source, local)
        return None if refusal is None else (SubscribeCode.POLICY, refusal.reason)

    def _same(
        self,
        entry: SubscribeInfo,
        name: FullTrackName,
        offers: list[tuple[AnnounceKind, int]],
        track: OriginTrack | None,
    ) -> bool:
        """Return whether the names are equal as the hashes are."""
        if self._hasher.full_name(name.namespace.fields, name.name) != entry.full_name_hash:
            return False
        if track is not None:
            return track.name == name
        for offer in offers:
            announced = self._announced[offer][0]
            if offer[0] is AnnounceKind.TRACK:
                if announced == name:
                    return True
            elif announced.namespace.is_prefix_of(name.namespace):
                return True
        return False

    def _remove_subscriber(self, now: float, key: int, source: NodeId) -> None:
        track = self._tracks.get(key)
        if track is None or not track.remove(source):
            return
        self._pending.cancel((source, key))
        track.targets = frozenset(track.subscribers)
        if not track.subscribers:
            del self._tracks[key]
        self._targets_changed(key)
        if not track.subscribers:
            self._release(now, key)

    def _refused(self, key: int, source: NodeId, code: SubscribeCode, reason: str) -> None:
        self._emit(SubscribeRefused(key=key, source=source, code=code, reason=reason))

    # Responses

    def routed(
        self,
        now: float,
        key: int,
        targets: Iterable[NodeId],
        failures: Mapping[NodeId, DeliveryFailure],
    ) -> None:
        """Record the outcome of routing for a track: all targets, and those without data."""
        track = self._tracks.get(key)
        if track is None:
            return
        track.routed(now, targets, failures)
        for entry in list(track.subscribers.values()):
            self._respond(now, track, entry)

    def _respond(self, now: float, track: OriginTrack, entry: SubscribeInfo) -> None:
        """Send a subscriber the response that is due, if any."""
        key, source = entry.full_name_hash, entry.source
        accepted = track.was_accepted(source)
        response = track.next_response(now, source)
        if isinstance(response, float):
            self._pending.set((source, key), response)
            return
        self._pending.cancel((source, key))
        if response is None:
            return
        if response.code is SubscribeCode.ACCEPTED:
            self._responses.send(now, entry, *response, track.answer or NO_DATA)
        else:
            repeat = accepted and response.code is SubscribeCode.POLICY
            self._responses.send(now, entry, *response, repeat=repeat)
            self._refused(key, source, *response)

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (*self._responses.clocks, self._pending)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called; None: never."""
        return earliest(self._responses.poll_timeout(), self._pending.next())

    def handle_timeout(self, now: float) -> None:
        """Send the responses that are due."""
        while (subscriber := self._pending.pop(now)) is not None:
            track = self._tracks[subscriber[1]]
            self._respond(now, track, track.subscribers[subscriber[0]])
        self._responses.handle_timeout(now)

    # Answers of local publishers

    def publisher_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        """Record that the publisher accepted, and respond to all subscribers."""
        track = self._tracks.get(key)
        if track is None:
            return
        first, track.answer = track.answer is None, data
        if first:
            for entry in list(track.subscribers.values()):
                self._respond(now, track, entry)

    def publisher_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """Record that the publisher refused; a new subscribe asks it again."""
        self._end(now, key, code, reason, data)

    def publisher_ended(self, now: float, key: int, reason: str) -> None:
        """Record that the publisher ended the track."""
        self._end(now, key, SubscribeCode.ENDED, reason, NO_DATA)

    def _end(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        track = self._tracks.pop(key, None)
        if track is None:
            return
        subscribers, track.subscribers = track.subscribers, {}
        for entry in subscribers.values():
            self._pending.cancel((entry.source, key))
            self._responses.send(now, entry, code, reason, data)
        self._targets_changed(key)

    # Queries

    def targets(self, key: int) -> frozenset[NodeId]:
        """Return the s-relays that get a track of ours."""
        track = self._tracks.get(key)
        return _NOBODY if track is None else track.targets

    def name(self, key: int) -> FullTrackName | None:
        """Return the name of a track with subscribers, or None."""
        track = self._tracks.get(key)
        return None if track is None else track.name

    def keys(self) -> list[int]:
        """Return the keys of all tracks with subscribers."""
        return list(self._tracks)
