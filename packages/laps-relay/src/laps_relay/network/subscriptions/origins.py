"""The o-relay: what our own publishers announce, and who in the network gets it.

::

    subscribe of an s-relay --> announced here? --> full name the same? --> policy? --> taker
                                     | no                | no               | no         |
                                 (not ours)        HASH_COLLISION         POLICY       pull, once
                                                                                         |
              the publisher's answer, or its end, goes to every taker  <-----------------'
              that a way leads to; the others are told why none does

A track is pulled from its publisher once, however many s-relays want it. Each of them is answered
over the session on which its subscribe was heard, for every stamp that it asks with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from laps_relay.network.events import NetworkEvent, SubscribeRefused
from laps_relay.network.flood.floods import AnnounceTable, Change, SubscribeTable
from laps_relay.network.flood.subscribe_index import SubscribeIndex
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.subscriptions.origin_answers import Answers
from laps_relay.network.subscriptions.pulls import Lack, Pull
from laps_relay.network.subscriptions.wants import Denial
from laps_relay.policy.interface import Policy
from laps_sdk.peering.settings import Identity
from laps_sdk.timers import Timers, earliest
from laps_sdk.upstream.bodies import name_in
from laps_wire.hashing import KeyedHasher
from laps_wire.matching import Announce, AnnounceIndex, Subscribe
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    AnnounceWithdrawal,
    Label,
    NodeSelf,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.information import NO_DATA, SubscribeIdentity

__all__ = ["Origins"]

_NOBODY: Final[frozenset[NodeId]] = frozenset()

PullTrack: TypeAlias = "Callable[[float, int, FullTrackName, SubscribeData], None]"
"""Asks a publisher here for a track: (now, key, name, what is asked of it)."""


class Origins:
    """All that our publishers announce."""

    __slots__ = (
        "_announced",
        "_announces",
        "_answers",
        "_emit",
        "_hasher",
        "_index",
        "_local",
        "_node",
        "_places",
        "_pull",
        "_pull_again",
        "_pulls",
        "_release",
        "_settings",
        "_stamp",
        "_subscribes",
        "_table",
        "_targets_changed",
        "_unsaid",
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
        pull: PullTrack,
        pull_again: PullTrack,
        release: Callable[[float, int], None],
        targets_changed: Callable[[int], None],
        emit: Callable[[NetworkEvent], None],
    ) -> None:
        """``pull`` asks the publisher for a track, ``pull_again`` for one that it sends already.

        ``release`` ends what ``pull`` began: (now, key). ``targets_changed`` reports that
        :meth:`targets` may give something else for a key.
        """
        self._local = identity.node_id
        self._settings = settings
        self._hasher = hasher
        self._announces = announces
        self._table = subscribes
        self._stamp = stamp
        self._node = node
        self._pull = pull
        self._pull_again = pull_again
        self._release = release
        self._targets_changed = targets_changed
        self._emit = emit
        self.policy = policy
        """The policy in force."""
        self._announced: dict[tuple[AnnounceKind, int], tuple[FullTrackName, AnnounceInfo]] = {}
        self._index: AnnounceIndex[int, tuple[AnnounceKind, int]] = AnnounceIndex()
        self._subscribes: SubscribeIndex[NodeId] = SubscribeIndex()
        self._pulls: dict[int, Pull] = {}
        self._places: dict[NodeId, tuple[str, tuple[Label, ...]]] = {}
        """What policy knows nodes by."""
        self._answers = Answers(
            identity.node_id,
            hasher,
            settings.convergence,
            subscribes=subscribes,
            respond=respond,
        )
        self._unsaid: Timers[SubscribeIdentity] = Timers()
        """Takers of whom it must be seen whether a way comes, or lasts."""
        self.collisions = 0
        """Subscribes whose hashes fit and whose names do not, and announces with a known hash."""

    def __len__(self) -> int:
        return len(self._pulls)

    def sizes(self) -> tuple[int, int, int]:
        """Return how many announces, subscribes and waiting responses there are."""
        answers = len(self._answers) + len(self._unsaid)
        return len(self._announced), len(self._subscribes), answers

    # What our publishers announce

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> Denial | None:
        """A publisher here has a track, or everything below a namespace (with an empty name)."""
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
        """The publisher has nothing more to offer; what it serves already goes on to its end."""
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
        """Somebody may have waited for this."""
        for identity in self.waiting(entry):
            subscribe = self._table.get(identity)
            if subscribe is not None:
                self._consider(now, subscribe)

    def waiting(self, entry: AnnounceInfo) -> list[SubscribeIdentity]:
        """The subscribes of others for what somebody announced."""
        elements = entry.element_hashes
        if entry.name_hash is None:
            return [(source, key) for key, source in self._subscribes.below(elements)]
        key = entry.full_name_hash
        return [(source, key) for source in self._subscribes.track(elements, key)]

    def serves(self, entry: SubscribeInfo) -> bool:
        """Whether our own publishers have announced what a subscribe asks for."""
        return bool(self._index.match(Subscribe(entry.element_hashes, entry.name_hash)))

    # What others want

    def subscribes_changed(
        self, now: float, changes: Iterable[Change[SubscribeIdentity, SubscribeInfo]]
    ) -> None:
        """Subscribes came, changed or went."""
        for change in changes:
            source, key = change.identity
            if source == self._local:
                continue
            if change.previous is not None:
                self._subscribes.remove(change.previous.element_hashes, key, source)
            if change.entry is None:
                self._leave(now, key, source)
            else:
                self._subscribes.add(change.entry.element_hashes, key, source)
                self._consider(now, change.entry)

    def reconsider(self, now: float) -> None:
        """Another policy is in force."""
        entries: dict[SubscribeIdentity, SubscribeInfo] = {
            (source, key): entry
            for key, pull in self._pulls.items()
            for source, entry in pull.takers.items()
        }
        for _, announce in self._announced.values():
            for identity in self.waiting(announce):
                waiting = self._table.get(identity)
                if waiting is not None:
                    entries.setdefault(identity, waiting)
        for entry in entries.values():
            self._consider(now, entry)

    def node_changed(self, now: float, node: NodeId) -> bool:
        """A node says something new of itself: policy may think otherwise of its subscribes.

        Whether it said before that it was elsewhere, or something else that policy goes by.
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
        pull = self._pulls.get(key)
        taken = None if pull is None else pull.takers.get(source)
        offers = self._index.match(Subscribe(entry.element_hashes, entry.name_hash))
        if not offers and taken is None:
            return
        refusal = self._refusal(entry, offers, pull)
        if refusal is not None:
            believed = pull is not None and pull.believes(source)
            twice = believed and refusal[0] is SubscribeCode.POLICY
            self._answers.say(now, entry, *refusal, twice=twice)
            self._refused(key, source, *refusal)
            self._leave(now, key, source)
            return
        if taken is not None and taken.stamp == entry.stamp:
            return
        if pull is not None:
            self._take(pull, entry)
            newcomer = taken is None and pull.answer is not None
            if newcomer or (taken is not None and taken.data != entry.data):
                # What the publisher has now is told a newcomer, not what it had for the first one.
                self._pull_again(now, key, pull.name, entry.data)
            if pull.takers.get(source) is entry:
                self._answer(now, pull, entry)
            return
        name = name_in(entry.data)
        if name is not None:
            pull = self._pulls[key] = Pull(name)
            self._take(pull, entry)
            self._pull(now, key, name, entry.data)

    def _take(self, pull: Pull, entry: SubscribeInfo) -> None:
        pull.takers[entry.source] = entry
        if entry.source not in pull.targets:
            pull.targets = frozenset(pull.takers)
            self._targets_changed(entry.full_name_hash)

    def _refusal(
        self, entry: SubscribeInfo, offers: list[tuple[AnnounceKind, int]], pull: Pull | None
    ) -> tuple[SubscribeCode, str] | None:
        name = name_in(entry.data)
        if name is None:
            return SubscribeCode.HASH_COLLISION, "no SUBSCRIBE whose full name could be compared"
        if not self._same(entry, name, offers, pull):
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
        pull: Pull | None,
    ) -> bool:
        """Whether names fit as the hashes do."""
        if self._hasher.full_name(name.namespace.fields, name.name) != entry.full_name_hash:
            return False
        if pull is not None:
            return pull.name == name
        for offer in offers:
            announced = self._announced[offer][0]
            if offer[0] is AnnounceKind.TRACK:
                if announced == name:
                    return True
            elif announced.namespace.is_prefix_of(name.namespace):
                return True
        return False

    def _leave(self, now: float, key: int, source: NodeId) -> None:
        pull = self._pulls.get(key)
        if pull is None or not pull.remove(source):
            return
        self._unsaid.cancel((source, key))
        pull.targets = frozenset(pull.takers)
        if not pull.takers:
            del self._pulls[key]
        self._targets_changed(key)
        if not pull.takers:
            self._release(now, key)

    def _refused(self, key: int, source: NodeId, code: SubscribeCode, reason: str) -> None:
        self._emit(SubscribeRefused(key=key, source=source, code=code, reason=reason))

    # Answers

    def led(
        self, now: float, key: int, wanted: Iterable[NodeId], lacks: Mapping[NodeId, Lack]
    ) -> None:
        """Ways were looked for: these are all that should get a track, and those do not."""
        pull = self._pulls.get(key)
        if pull is None:
            return
        pull.led(now, wanted, lacks)
        for entry in list(pull.takers.values()):
            self._answer(now, pull, entry)

    def _answer(self, now: float, pull: Pull, entry: SubscribeInfo) -> None:
        """Tell a taker whether it gets the track, if that is known and it was not told."""
        key, source = entry.full_name_hash, entry.source
        believed = pull.believes(source)
        word = pull.word(now, source)
        if isinstance(word, float):
            self._unsaid.set((source, key), word)
            return
        self._unsaid.cancel((source, key))
        if word is None:
            return
        if word.code is SubscribeCode.ACCEPTED:
            self._answers.say(now, entry, *word, pull.answer or NO_DATA)
        else:
            twice = believed and word.code is SubscribeCode.POLICY
            self._answers.say(now, entry, *word, twice=twice)
            self._refused(key, source, *word)

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """Its timers, for who asks several parts together."""
        return (*self._answers.clocks, self._unsaid)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return earliest(self._answers.poll_timeout(), self._unsaid.next())

    def handle_timeout(self, now: float) -> None:
        """Say what has waited long enough, and try again to send what had no way back."""
        while (taker := self._unsaid.pop(now)) is not None:
            pull = self._pulls[taker[1]]
            self._answer(now, pull, pull.takers[taker[0]])
        self._answers.handle_timeout(now)

    # What our publishers answer

    def pulled(self, now: float, key: int, data: SubscribeData) -> None:
        """The publisher has accepted."""
        pull = self._pulls.get(key)
        if pull is None:
            return
        first, pull.answer = pull.answer is None, data
        if first:
            for entry in list(pull.takers.values()):
                self._answer(now, pull, entry)

    def pull_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """The publisher has refused; who asks again is asked for again."""
        self._end(now, key, code, reason, data)

    def pull_ended(self, now: float, key: int, reason: str) -> None:
        """The publisher has ended it."""
        self._end(now, key, SubscribeCode.ENDED, reason, NO_DATA)

    def _end(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        pull = self._pulls.pop(key, None)
        if pull is None:
            return
        takers, pull.takers = pull.takers, {}
        for entry in takers.values():
            self._unsaid.cancel((entry.source, key))
            self._answers.say(now, entry, code, reason, data)
        self._targets_changed(key)

    # Looking

    def targets(self, key: int) -> frozenset[NodeId]:
        """The s-relays that get a track of ours."""
        pull = self._pulls.get(key)
        return _NOBODY if pull is None else pull.targets

    def name(self, key: int) -> FullTrackName | None:
        """The name of a track that is pulled."""
        pull = self._pulls.get(key)
        return None if pull is None else pull.name

    def keys(self) -> list[int]:
        """All tracks that somebody gets."""
        return list(self._pulls)
