"""An Edge's interests with real tables around them, and a scripted network and local side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from laps_relay.network.events import NetworkEvent, SubscribeRefused
from laps_relay.network.flood.entries import AnnounceEntries, SubscribeEntries
from laps_relay.network.flood.floods import AnnounceTable, FloodTable, SubscribeTable
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.subscriptions.origin_role import DeliveryFailure, OriginRole
from laps_relay.policy.interface import Policy
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.settings import Identity
from laps_sdk.upstream.interfaces import Answer, LocalSide
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    NodeSelf,
    RelayType,
    Stamp,
    SubscribeCode,
    SubscribeData,
    SubscribeInfo,
    SubscribeResponse,
)

HASHER = KeyedHasher(b"a key of a network")
US = NodeId(100)
IDENTITY = Identity(node_id=US, epoch=7, region="eu")
SETTINGS = NetworkSettings()


def track(text: str) -> FullTrackName:
    """``a/b/name`` as a full name."""
    return FullTrackName.parse("--".join(text.replace("/", "-").rsplit("-", 1)))


def namespace(text: str) -> FullTrackName:
    """``a/b`` as a namespace with an empty track name."""
    return FullTrackName.parse(text.replace("/", "-") + "--")


def key_of(name: FullTrackName) -> int:
    """The full-name hash."""
    return HASHER.full_name(name.namespace.fields, name.name)


def announce_info(
    source: int,
    name: FullTrackName,
    kind: AnnounceKind = AnnounceKind.NAMESPACE,
    *,
    sequence: int = 1,
    plain: bool = True,
    hasher: KeyedHasher = HASHER,
) -> AnnounceInfo:
    """What another Edge announces."""
    fields = name.namespace.fields
    return AnnounceInfo(
        NodeId(source),
        Stamp(1, sequence),
        kind,
        hasher.elements(fields),
        hasher.name(name.name) if kind is AnnounceKind.TRACK else None,
        hasher.full_name(fields, name.name),
        name if plain else None,
    )


def subscribe_info(
    source: int, name: FullTrackName, data: SubscribeData, *, sequence: int = 1
) -> SubscribeInfo:
    """What another Edge wants."""
    fields = name.namespace.fields
    return SubscribeInfo(
        NodeId(source),
        Stamp(1, sequence),
        HASHER.elements(fields),
        HASHER.name(name.name),
        key_of(name),
        data=data,
    )


@dataclass
class SwitchPolicy:
    """Says no to some nodes as subscribers, and to some names as wants."""

    nodes: set[int] = field(default_factory=set)
    names: set[FullTrackName] = field(default_factory=set)

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        """At the o-relay."""
        assert local.node_id == US
        return (
            Refusal("rule", f"not for {source.node_id}") if source.node_id in self.nodes else None
        )

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        """At the s-relay."""
        return Refusal("rule", "not here") if name in self.names else None


class Rig:
    """The relay around both roles: nodes 1 to 3 on sessions 1 to 3, and what they were sent."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rules = SwitchPolicy()
        self.policy: Policy = self.rules  # type: ignore[assignment] # only what the roles ask
        self.servers: tuple[NodeId, ...] = ()
        self.known: dict[NodeId, int] = {US: 7}
        self.regions: dict[NodeId, str] = {}
        self._sequence = 0
        self.announces: AnnounceTable = FloodTable(
            AnnounceEntries(US), SETTINGS, exports=lambda *_: True
        )
        self.subscribes: SubscribeTable = FloodTable(
            SubscribeEntries(US), SETTINGS, exports=lambda *_: True
        )
        for session in (1, 2, 3):
            self.announces.add_session(session, source=NodeId(session))
            self.subscribes.add_session(session, source=NodeId(session))
            self.know(session)
        self.cut: set[NodeId] = set()
        """Nodes to which policy leaves no way."""
        self.log: list[tuple[Any, ...]] = []
        """What the local side and the log were told, in order."""
        self._responses: list[tuple[int, SubscribeResponse]] = []
        self._unled: dict[int, None] = {}
        self.auto: Any = None
        """Called with the key of every pull."""
        self.origins: OriginRole | None = None
        """Who is told that ways lead to all targets, or to all but these."""
        self.failures: dict[NodeId, DeliveryFailure] = {}

    def know(self, node: int, epoch: int | None = 1) -> None:
        """The node information base has this epoch of a node, or does not have it."""
        if epoch is None:
            self.known.pop(NodeId(node), None)
        else:
            self.known[NodeId(node)] = epoch
        self.announces.node_changed(self.now, NodeId(node), epoch)
        self.subscribes.node_changed(self.now, NodeId(node), epoch)

    def taken(self) -> list[tuple[Any, ...]]:
        """What happened at the local side since the last call."""
        log, self.log = self.log, []
        return log

    @property
    def responses(self) -> list[tuple[int, SubscribeResponse]]:
        """All that was answered since it was last taken."""
        self.lead()
        return self._responses

    def sent(self) -> list[tuple[int, SubscribeCode, str]]:
        """What was answered since the last call: session, code, reason."""
        responses = self.responses
        self._responses = []
        return [
            (session, SubscribeCode(response.code), response.reason)
            for session, response in responses
        ]

    def asked(self, name: FullTrackName) -> SubscribeInfo | None:
        """Our own subscribe for a track, as it is advertised."""
        return self.subscribes.get((US, key_of(name)))

    # What the rooms are built with

    def roles(self) -> dict[str, Any]:
        """The collaborators of both roles: ``Interests(..., **rig.roles())``."""
        return {**self.wanting(), **self.serving()}

    def wanting(self) -> dict[str, Any]:
        """The collaborators of the s-relay."""
        return {
            "subscribes": self.subscribes,
            "policy": self.policy,
            "stamp": self.stamp,
            "node": self.node,
            "reaches": self.reaches,
            "replicas": self.replicas,
            "emit": self.emit,
        }

    def serving(self) -> dict[str, Any]:
        """The collaborators of the o-relay."""
        return {
            "announces": self.announces,
            "subscribes": self.subscribes,
            "policy": self.policy,
            "stamp": self.stamp,
            "node": self.node,
            "respond": self.respond,
            "request_track": self.pull,
            "request_again": self.pull_again,
            "release": self.release,
            "targets_changed": self.targets_changed,
            "emit": self.emit,
        }

    @property
    def clients(self) -> LocalSide:
        """The rig as the relay's own clients."""
        return cast("LocalSide", self)

    def stamp(self) -> Stamp:
        """One series."""
        self._sequence += 1
        return Stamp(7, self._sequence)

    def node(self, node: NodeId) -> NodeSelf | None:
        """From what is known."""
        epoch = self.known.get(node)
        if epoch is None:
            return None
        region = self.regions.get(node, "")
        return NodeSelf(node, RelayType.EDGE, Stamp(epoch, 0), region=region)

    def reaches(self, node: NodeId) -> bool:
        """As the test says."""
        return node not in self.cut

    def replicas(self, key: int) -> tuple[NodeId, ...]:
        """As the test says."""
        return self.servers

    def respond(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Kept."""
        self._responses.append((session, response))

    def targets_changed(self, key: int) -> None:
        """Kept."""
        self.log.append(("targets", key))
        self._unled[key] = None

    def lead(self, *keys: int) -> None:
        """Ways are looked for: for these tracks, and those whose targets have changed."""
        self._unled.update(dict.fromkeys(keys))
        unled, self._unled = self._unled, {}
        for key in unled:
            if self.origins is not None:
                self.origins.routed(self.now, key, self.origins.targets(key), self.failures)

    def emit(self, event: NetworkEvent) -> None:
        """Kept."""
        assert isinstance(event, SubscribeRefused)
        self.log.append(("refused", int(event.source), SubscribeCode(event.code)))

    def pull(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Kept, and answered if the test wants."""
        self.log.append(("pull", name))
        if self.auto is not None:
            self.auto(key)

    def pull_again(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """Kept, and answered if the test wants."""
        self.log.append(("pull again", name, data))
        if self.auto is not None:
            self.auto(key)

    def release(self, now: float, key: int) -> None:
        """Kept."""
        self.log.append(("release", key))

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData,
    ) -> None:
        """Kept."""
        self.log.append((answer, code, reason, data.body))

    def announce_added(self, now: float, entry: AnnounceInfo) -> None:
        """Kept."""
        self.log.append(("discovered", entry.plaintext))

    def announce_removed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Kept."""
        self.log.append(("vanished", kind, name))
