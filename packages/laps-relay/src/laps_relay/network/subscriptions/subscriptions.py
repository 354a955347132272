"""Both roles of a relay with clients, beside the flood tables that all rooms share.

::

    local side                     Subscriptions                        network
    announce, withdraw     ------> OriginRole  (o-relay)  ------------> own announces
    publisher_accepted     ------>     |   <--------------------------- subscribes of others
    serve_track, release   <-----------'   ---------------------------> responses, targets(key)

    subscribe, unsubscribe ------> SubscriberRole (s-relay) ----------> own subscribes
    answered               <-----------'   <--------------------------- responses
    announce_added         <------ Discovery  <------------------------ announces of others

**Responses on their path back**, hop by hop (laps-2, 5.3)::

    s-relay  <----  relay  <----  relay  <----  o-relay
             over the session on which each of them received the subscribe with that stamp

After links have gone, those sessions can form a circle until the subscribe is advertised again. A
response has no hop count, so it would circulate. :class:`ResponseLoopFilter` drops a response that
comes again too soon; the s-relay without a response asks again with a new stamp. Later the same
response may be a new one: its relay had lost the subscribe for a while, or has restarted.

**The s-relay** (:class:`SubscriberRole`): what local clients subscribe to::

    subscribe() --> advertised --> ACCEPTED by one o-relay or more --> the last one ended: ENDED
       |           |                         ^                                           |
       |           |                         | later                                     |
       |           '--> every candidate refuses: REFUSED --> want_linger --> withdrawn, and
       |                                               |                       remembered
       |                                               '--> policy refused it: stays advertised
       '--> own policy: REFUSED, not advertised
    unsubscribe() --> unsubscribe_delay --> withdrawn and forgotten

There is one subscribe in the network for a track, however many clients subscribe. A response
carries its stamp. The subscribe is sent again with a new stamp in these cases:

- a response got lost with a session on its path;
- clients ask for something else of the track: a new group, another priority;
- the track is served, and a relay reports that its policy does not let the subscribe pass any more.
  An o-relay with another path accepts again; one that does not has lost the subscribe;
- policy leaves no path to any o-relay that serves the track: then their responses may not arrive.

``want_asking`` holds how a track is asked for, ``want_serving`` who serves it; one series of timers
is for all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from laps_relay.network.events import NetworkEvent, SubscribeRefused
from laps_relay.network.flood.floods import AnnounceTable, Change, SubscribeTable
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.subscriptions.discovery import Discovery, SubscribeIndex
from laps_relay.network.subscriptions.origin_role import (
    Denial,
    OriginRole,
    RequestTrack,
)
from laps_relay.network.subscriptions.want_asking import Asking
from laps_relay.network.subscriptions.want_records import (
    MAX_REFUSALS,
    NO_WAY,
    NOT_ANNOUNCED,
    PAUSE,
    Due,
    No,
    Want,
    WantTimers,
    code_of,
)
from laps_relay.network.subscriptions.want_serving import Serving
from laps_relay.policy.interface import Policy
from laps_sdk.peering.settings import Identity
from laps_sdk.timers import Timers, earliest
from laps_sdk.upstream.bodies import without_tokens
from laps_sdk.upstream.interfaces import Answer, LocalSide, answer_of
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    NodeSelf,
    ParameterId,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.information import AnnounceIdentity, SubscribeIdentity

__all__ = [
    "MAX_REMEMBERED",
    "MAX_REPEATS",
    "SOON",
    "ResponseLoopFilter",
    "SubscriberRole",
    "SubscriptionCounters",
    "SubscriptionSizes",
    "Subscriptions",
    "TrackHashes",
    "return_session",
]


def return_session(table: SubscribeTable, session: int, response: SubscribeResponse) -> int | None:
    """Return the session over which a response that came on ``session`` goes on.

    None: drop it, because the subscribe is unknown or has another stamp.
    """
    entry = table.get(response.identity)
    if entry is None or entry.stamp != response.stamp:
        return None
    back = table.heard_on(response.identity)
    return None if back == session else back


MAX_REMEMBERED: Final = 65_536
"""Responses that are remembered; the oldest are forgotten first."""
MAX_REPEATS: Final = 16
"""How often one relay may respond to one subscribe within the hold time."""
SOON: Final = 1.0
"""An equal response within so many seconds circulates."""

_Key: TypeAlias = "tuple[SubscribeIdentity, Stamp, NodeId, int | None]"


class _Seen(NamedTuple):
    at: float
    code: int
    turns: int


class ResponseLoopFilter:
    """Remembers recent responses, to drop those that circulate."""

    __slots__ = ("_hold", "_seen")

    def __init__(self, hold: float) -> None:
        """``hold``: seconds for which a response is remembered."""
        self._hold = hold
        self._seen: dict[_Key, _Seen] = {}

    def accepts(self, now: float, response: SubscribeResponse, epoch: int | None) -> bool:
        """Return whether a response may pass; ``epoch`` is that of the responder, if known."""
        key = response.identity, response.stamp, response.responder, epoch
        known = self._seen.get(key)
        turns = 1
        if known is not None and now < known.at + self._hold:
            repeated = known.code == response.code and now < known.at + SOON
            if repeated or known.turns >= MAX_REPEATS:
                return False
            turns = known.turns + 1
        self._seen.pop(key, None)
        self._seen[key] = _Seen(now, response.code, turns)
        self._trim(now)
        return True

    def _trim(self, now: float) -> None:
        while self._seen:
            oldest = next(iter(self._seen))
            if len(self._seen) <= MAX_REMEMBERED and now < self._seen[oldest].at + self._hold:
                break
            del self._seen[oldest]

    def __len__(self) -> int:
        return len(self._seen)


class SubscriberRole:
    """All tracks that local clients subscribe to."""

    __slots__ = (
        "_asking",
        "_emit",
        "_hasher",
        "_identity",
        "_index",
        "_node",
        "_serving",
        "_settings",
        "_timers",
        "_wants",
        "clients",
        "collisions",
        "dropped",
        "policy",
    )

    def __init__(
        self,
        identity: Identity,
        settings: NetworkSettings,
        hasher: KeyedHasher,
        discovery: Discovery,
        *,
        subscribes: SubscribeTable,
        policy: Policy,
        stamp: Callable[[], Stamp],
        node: Callable[[NodeId], NodeSelf | None],
        reaches: Callable[[NodeId], bool],
        replicas: Callable[[int], tuple[NodeId, ...]],
        emit: Callable[[NetworkEvent], None],
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._hasher = hasher
        self._node = node
        self._emit = emit
        self._wants: dict[int, Want] = {}
        self._index: SubscribeIndex[int] = SubscribeIndex()
        self._timers: WantTimers = Timers()
        self._asking = Asking(
            identity,
            settings,
            discovery,
            self._timers,
            subscribes=subscribes,
            stamp=stamp,
            replicas=replicas,
        )
        self._serving = Serving(settings.origin_grace, self._timers, node=node, reaches=reaches)
        self.policy = policy
        """The policy in force."""
        self.clients: LocalSide | None = None
        """The relay's own clients; None until they are attached."""
        self.collisions = 0
        """Names refused because another one has their hash, and answers about another name."""
        self.dropped = 0
        """Answers to what we no longer ask."""

    def __contains__(self, key: int) -> bool:
        """Whether clients subscribe to a track, or did until a moment ago."""
        return key in self._wants

    def __len__(self) -> int:
        return len(self._wants)

    def responders(self) -> int:
        """Return how many relays serve tracks to local subscribers."""
        return len(self._serving)

    def serving(self, key: int) -> tuple[NodeId, ...]:
        """Return the o-relays that serve a track to this relay."""
        want = self._wants.get(key)
        return () if want is None else tuple(want.accepted)

    # Commands

    def subscribe(self, now: float, name: FullTrackName, data: SubscribeData) -> Denial | None:
        """Subscribe to a track, or change what is asked of it.

        Return a denial if another name with the same hash is subscribed to.
        """
        fields = name.namespace.fields
        key = self._hasher.full_name(fields, name.name)
        want = self._wants.get(key)
        if want is None:
            elements = self._hasher.elements(fields)
            want = Want(key, name, elements, self._hasher.name(name.name))
            self._wants[key] = want
            self._index.add(elements, key, 0)
        elif want.name != name:
            self.collisions += 1
            return Denial(SubscribeCode.HASH_COLLISION, f"another track has the hash {key:#018x}")
        want.data = without_tokens(name, data)
        self._timers.cancel((Due.UNSUBSCRIBE, key, None))
        want.wanted = True
        if want.entry is None:
            self._begin(now, want)
        elif want.state in (Answer.REFUSED, Answer.ENDED):
            self._ask_again(now, want)
        else:
            if want.state is Answer.ACCEPTED:
                self._tell(now, want, Answer.ACCEPTED)
            self._asking.refresh(now, want)
        return None

    def unsubscribe(self, now: float, name: FullTrackName) -> None:
        """End a subscription; it is withdrawn after a delay, unless clients come back."""
        key = self._hasher.full_name(name.namespace.fields, name.name)
        want = self._wants.get(key)
        if want is None or want.name != name or not want.wanted:
            return
        want.wanted = False
        if want.entry is None:
            self._forget(now, want)
        else:
            self._timers.set((Due.UNSUBSCRIBE, key, None), now + self._settings.unsubscribe_delay)

    def has_lapsed(self, key: int) -> bool:
        """Return whether clients left a track whose subscribe is not withdrawn yet."""
        want = self._wants.get(key)
        return want is not None and not want.wanted

    def keeps(self, key: int) -> bool:
        """Return whether a track has lapsed, and the o-relays still serve it."""
        want = self._wants.get(key)
        return want is not None and not want.wanted and want.state is Answer.ACCEPTED

    def reconsider(self, now: float) -> None:
        """Apply a new policy to every track."""
        for want in list(self._wants.values()):
            if self._wants.get(want.key) is not want:
                continue
            allowed = self._allowed(want) is None
            if allowed and want.denied:
                self._begin(now, want)
            elif not allowed and not want.denied:
                self._withdraw(now, want)
                self._begin(now, want)

    # Asking

    def _allowed(self, want: Want) -> No | None:
        node = self._node(self._identity.node_id)
        refusal = None if node is None else self.policy.local_subscribe(want.name, node)
        return None if refusal is None else No(SubscribeCode.POLICY, refusal.reason)

    def _begin(self, now: float, want: Want) -> None:
        no = self._allowed(want)
        want.denied = no is not None
        if no is not None:
            self._emit(
                SubscribeRefused(
                    key=want.key,
                    source=self._identity.node_id,
                    code=no.code,
                    reason=no.reason,
                )
            )
            self._refuse(now, want, no)
            return
        self._asking.anew(now, want)
        self._timers.set((Due.LINGER, want.key, None), now + self._settings.want_linger)
        if self._asking.hopeless(want):
            self._refuse(now, want, NOT_ANNOUNCED)

    def _ask_again(self, now: float, want: Want) -> None:
        """A client comes back to what had ended or was refused: ask anew, but not all the time."""
        self._timers.set((Due.LINGER, want.key, None), now + self._settings.want_linger)
        if self._asking.hopeless(want):
            self._refuse(now, want, NOT_ANNOUNCED)
            self._asking.refresh(now, want)
            return
        want.state = None
        self._asking.soon(now, want)

    def _withdraw(self, now: float, want: Want) -> None:
        if want.entry is None:
            return
        for node in list(want.accepted):
            self._serving.remove(want, node)
        self._asking.withdraw(now, want)

    def _forget(self, now: float, want: Want) -> None:
        del self._wants[want.key]
        self._index.remove(want.elements, want.key, 0)
        self._timers.cancel((Due.UNSUBSCRIBE, want.key, None))
        self._withdraw(now, want)

    # Telling our clients

    def _tell(self, now: float, want: Want, answer: Answer, no: No | None = None) -> None:
        want.state = answer
        if not want.wanted or self.clients is None:
            return
        code, reason, data = no or No(SubscribeCode.ACCEPTED, "", want.ok)
        self.clients.answered(now, want.key, answer, code=code, reason=reason, data=data)

    def _refuse(self, now: float, want: Want, no: No) -> None:
        # Said now: who asks again gets a verdict of that asking.
        self._timers.cancel((Due.VERDICT, want.key, None))
        self._tell(now, want, Answer.REFUSED, no)

    # Answers

    def response(self, now: float, response: SubscribeResponse) -> None:
        """Handle a response to a subscribe of ours."""
        want = self._wants.get(response.full_name_hash)
        if want is None or want.entry is None or want.entry.stamp != response.stamp:
            self.dropped += 1
            return
        node = response.responder
        if response.code != SubscribeCode.ACCEPTED:
            no = No(code_of(response.code), response.reason, response.data)
            if node in want.accepted:
                self._lose(now, want, node, no)
            elif answer_of(no.code) is not Answer.ENDED:
                self._refused(now, want, node, no)
            return
        fields, name = want.name.namespace.fields, want.name.name
        digest = response.parameters.get(ParameterId.FULL_NAME_DIGEST)
        if digest != self._hasher.end_check(fields, name):
            # Somebody would send us another track, or does not say which (laps-2, 2).
            self.collisions += 1
            reason = "the publisher's relay means another name"
            self._refused(now, want, node, No(SubscribeCode.HASH_COLLISION, reason))
            return
        self._accept(now, want, node, response.data)

    def _accept(self, now: float, want: Want, node: NodeId, data: SubscribeData) -> None:
        self._serving.add(now, want, node)
        want.lost = False
        want.refusals.pop(node, None)
        if self._timers.when((Due.DOUBT, want.key, None)) is None:
            # Who says no from now on says something new.
            want.refusals.clear()
        for due in (Due.LINGER, Due.RETRY, Due.VERDICT):
            self._timers.cancel((due, want.key, None))
        if want.state is not Answer.ACCEPTED:
            want.ok = data
            self._tell(now, want, Answer.ACCEPTED)

    def _refused(self, now: float, want: Want, node: NodeId, no: No) -> None:
        # So many can only be invented; those who were asked are heard in any case.
        if (
            len(want.refusals) >= MAX_REFUSALS
            and node not in want.refusals
            and not self._asking.asks(want, node)
        ):
            self.dropped += 1
            return
        known = node in want.refusals
        want.refusals[node] = no
        if want.accepted:
            if no.code is SubscribeCode.POLICY and not known:
                self._doubt(now, want)
            return
        if want.state is Answer.REFUSED or (known and want.state is Answer.ENDED):
            # The second: who ended it for policy says so once more.
            return
        if node != self._identity.node_id and self._asking.outstanding(want):
            verdict = (Due.VERDICT, want.key, None)
            if self._timers.when(verdict) is None:
                # Another way may lead past a filter; but before it is asked for again, or the
                # refusal that was said would be forgotten.
                self._timers.set(verdict, now + self._verdict_time)
        else:
            self._refuse(now, want, want.worst())

    @property
    def _verdict_time(self) -> float:
        """How long others may take to say yes after a relay has said no, in seconds."""
        return min(PAUSE, self._settings.origin_grace / 2)

    def _doubt(self, now: float, want: Want) -> None:
        """A relay does not let pass what is served: perhaps it was on the only way."""
        doubt = (Due.DOUBT, want.key, None)
        if self._timers.when(doubt) is not None:
            return
        refusals = dict(want.refusals)
        self._asking.anew(now, want)
        # They will say the same of the new stamp, and that is nothing new.
        want.refusals.update(refusals)
        self._timers.set(doubt, now + self._verdict_time)

    def _settle_doubt(self, now: float, want: Want) -> None:
        """Who serves it has said so again by now, or is not asked any more."""
        due = want.asked + self._verdict_time
        if now < due:
            # It was asked with another stamp meanwhile.
            self._timers.set((Due.DOUBT, want.key, None), due)
            return
        no = want.worst()
        want.refusals.clear()
        for node in [each for each in want.accepted if each not in want.renewed]:
            self._lose(now, want, node, no)

    def _lose(self, now: float, want: Want, node: NodeId, no: No) -> None:
        """An o-relay does not serve it any more."""
        self._serving.remove(want, node)
        if no.code is SubscribeCode.POLICY:
            want.refusals[node] = no
        if not want.accepted:
            want.lost = answer_of(no.code) is not Answer.ENDED
            self._timers.set((Due.LINGER, want.key, None), now + self._settings.want_linger)
            self._tell(now, want, Answer.ENDED, no)

    # What else happens

    def announced(self, now: float, entry: AnnounceInfo) -> None:
        """Ask again for tracks that an announce matches."""
        for key in self.waiting(entry):
            want = self._wants[key]
            if want.entry is None and not want.denied:
                self._asking.anew(now, want)
            if want.entry is not None and not want.accepted:
                self._timers.set((Due.LINGER, key, None), now + self._settings.want_linger)
                if want.lost:
                    want.state = None
                    self._asking.soon(now, want)

    def waiting(self, entry: AnnounceInfo) -> list[int]:
        """Return the keys of our subscribes that an announce matches."""
        if entry.name_hash is None:
            return [key for key, _ in self._index.below(entry.element_hashes)]
        found = self._index.track(entry.element_hashes, entry.full_name_hash)
        return [entry.full_name_hash] * len(found)

    def node_changed(self, now: float, node: NodeId) -> None:
        """Handle new information about a node."""
        self._serving.node_changed(now, node)

    def paths_changed(self, now: float, nodes: Iterable[NodeId]) -> None:
        """Handle that paths to these nodes were added or removed."""
        for node in self._serving.paths_changed(now, nodes):
            for want in self._wants.values():
                if want.entry is not None and not want.accepted and node in want.refusals:
                    self._timers.set((Due.BACK, want.key, None), max(now, want.asked + PAUSE))

    def _cut_off(self, now: float, want: Want, node: NodeId) -> None:
        """No way has led to somebody who serves it for a while.

        Perhaps it still has one to us. If nobody else serves it, it is asked whether it does.
        """
        if self._serving.cut_off(want):
            want.refusals[node] = NO_WAY
            self._doubt(now, want)

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (self._timers,)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called; None: never."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Do all that is due."""
        while (timer := self._timers.pop(now)) is not None:
            due, key, node = timer
            want = self._wants[key]
            if due is Due.UNSUBSCRIBE:
                self._forget(now, want)
            elif due is Due.LINGER:
                if not want.excluded:
                    self._withdraw(now, want)
                if want.state is None:
                    self._refuse(now, want, want.worst())
            elif due is Due.DOUBT:
                self._settle_doubt(now, want)
            elif due is Due.VERDICT:
                if want.state is not Answer.REFUSED:
                    self._refuse(now, want, want.worst())
            elif due is Due.REFRESH:
                self._asking.refresh(now, want)
            elif due is Due.RETRY:
                if want.state is None:
                    self._asking.again(now, want)
            elif due is Due.BACK:
                if not want.accepted:
                    self._asking.anew(now, want)
            elif due is Due.CUT and node is not None:
                self._cut_off(now, want, node)
            elif node is not None:
                reason = "the publisher's relay is out of reach"
                self._lose(now, want, node, No(SubscribeCode.UNREACHABLE, reason))


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
    """What the relay's own clients publish and subscribe to; owns both roles."""

    __slots__ = (
        "_discovery",
        "_dropped",
        "_local",
        "_respond",
        "_subscribes",
        "origin",
        "subscriber",
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
        self.subscriber = SubscriberRole(
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
        """The s-relay: what our own clients subscribe to."""
        self.origin = OriginRole(
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
        """The o-relay: what our own clients publish."""
        self._dropped = 0

    def attach(self, clients: LocalSide) -> None:
        """Connect the relay's own clients: they get answers and the names of announces."""
        self.subscriber.clients = self._discovery.clients = clients

    def sizes(self) -> SubscriptionSizes:
        """Return how many entries each table has."""
        names, announces = self._discovery.sizes()
        announced, subscribes, responses = self.origin.sizes()
        return SubscriptionSizes(
            origin_tracks=len(self.origin),
            subscribed=len(self.subscriber),
            announced=announced,
            subscribes=subscribes,
            responses=responses,
            responders=self.subscriber.responders(),
            names=names,
            announces=announces,
        )

    # The network

    def announces_changed(
        self, now: float, changes: Iterable[Change[AnnounceIdentity, AnnounceInfo]]
    ) -> None:
        """Handle what ``take_changes`` of the announces returned."""
        for entry in self._discovery.changed(now, changes):
            self.subscriber.announced(now, entry)

    def subscribes_changed(
        self, now: float, changes: Iterable[Change[SubscribeIdentity, SubscribeInfo]]
    ) -> None:
        """Handle what ``take_changes`` of the subscribes returned."""
        self.origin.subscribes_changed(now, changes)

    def response(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Handle a response to a subscribe of ours, or pass it on towards its s-relay."""
        if response.source == self._local:
            self.subscriber.response(now, response)
            return
        back = return_session(self._subscribes, session, response)
        if back is None:
            self._dropped += 1
            return
        parameters = response.parameters.carried()
        self._respond(now, back, replace(response, parameters=parameters))

    def node_changed(self, now: float, node: NodeId) -> bool:
        """Handle new information about a node; return whether policy may treat it differently."""
        self.subscriber.node_changed(now, node)
        return self.origin.node_changed(now, node)

    def set_policy(self, now: float, policy: Policy) -> None:
        """Apply another policy to everything that is published and subscribed to here."""
        self.subscriber.policy = self.origin.policy = policy
        self.subscriber.reconsider(now)
        self.origin.reconsider(now)

    # Queries

    def waiting(self, entry: AnnounceInfo) -> list[SubscribeIdentity]:
        """Return the subscribes, our own too, that an announce matches."""
        own = [(self._local, key) for key in self.subscriber.waiting(entry)]
        return own + self.origin.waiting(entry)

    def announcers(self, entry: SubscribeInfo) -> list[NodeId]:
        """Return the nodes that announced what a subscribe is for.

        The list is empty if a local publisher announced it: then this relay answers.
        """
        if self.origin.serves(entry):
            return []
        return self._discovery.announcers(entry.element_hashes, entry.name_hash)

    def holders(self, track: TrackHashes) -> list[NodeId]:
        """Return the nodes that may have a track: those that serve it to us, and its announcers."""
        announcers = self._discovery.announcers(track.elements, track.name)
        return list(dict.fromkeys((*self.subscriber.serving(track.key), *announcers)))

    def counters(self) -> SubscriptionCounters:
        """Return the counters."""
        return SubscriptionCounters(
            len(self.subscriber),
            len(self.origin),
            self.subscriber.collisions + self.origin.collisions,
            self._discovery.false_names,
            self.subscriber.dropped + self._dropped,
        )

    # Time

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers of both roles, for one common deadline."""
        return (*self.subscriber.clocks, *self.origin.clocks)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called; None: never."""
        return earliest(self.subscriber.poll_timeout(), self.origin.poll_timeout())

    def handle_timeout(self, now: float) -> None:
        """Do all that is due."""
        self.subscriber.handle_timeout(now)
        self.origin.handle_timeout(now)
