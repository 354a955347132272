"""Deliberate faults, one function each: it replaces a method of the core (see ``catalog``)."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from inspect import signature
from typing import Any, Final

from laps_relay.network.advertisements import AdvertisementSchedule
from laps_relay.network.drain_monitor import DrainMonitor, Standing
from laps_relay.network.flood.flood_telling import Telling
from laps_relay.network.flood.floods import FloodTable
from laps_relay.network.nodes.adj_out import AdjRibOut
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.node_table import NodeTable
from laps_relay.network.nodes.path_finder import PathFinder
from laps_relay.network.relay import NetworkRelay
from laps_relay.network.sets import set_switch
from laps_relay.network.sets.set_choice import Chooser
from laps_relay.network.sets.set_routing import SetRouting
from laps_relay.network.sets.sets import Sets
from laps_relay.network.steering import steering
from laps_relay.network.steering.steering import Steering
from laps_relay.network.steering.via_choice import prefer
from laps_relay.network.subscriptions.subscriber_role import SubscriberRole
from laps_relay.peer_forwarding import relayed_stream, state
from laps_relay.peer_forwarding.fib import Fib
from laps_relay.peer_forwarding.forwarding import SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.peer_forwarding.relayed_stream import RelayedStream
from laps_relay.peer_forwarding.state import Fanout
from laps_relay.policy.judges import HashedFilter, LinkTable
from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.forwarding.priority import PRIORITIES
from laps_sdk.peering.admission import Admission
from laps_sdk.stub.stub_leaving import Leaving
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, RelayType, Stamp
from laps_wire.peering.session import SnsStanding

__all__ = [
    "Patch",
    "adj_in_kept",
    "answers_lost",
    "best_not_told",
    "break_before_make",
    "continuations_off",
    "countries_ignored",
    "drain_ends_early",
    "drain_ignored",
    "early_data_dropped",
    "epoch_ignored",
    "filters_skipped",
    "ghosts_chased",
    "newcomers_not_told",
    "no_split_horizon",
    "no_withdrawals",
    "not_resteered",
    "or_compare",
    "overload_ignored",
    "policy_skipped",
    "priority_ignored",
    "sequence_ignored",
    "set_updates_lost",
    "sets_end_early",
    "sets_kept",
    "stubs_asked",
    "stubs_leave_early",
    "stubs_told",
    "told_late",
    "ttl_ignored",
    "twin_ignored",
    "unsubscribed_at_once",
    "vias_never_left",
    "vias_not_dialled",
]

_ANYBODY: Final = NodeId(0x64_0005_0000_FFFF)
"""The NIB takes no node 0."""
_EPOCH: Final = 1
"""The epoch of a relay's first life in the simulation."""


class Patch:
    """Replaces attributes, and puts them back."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: object) -> None:
        """Replace one."""
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put all back."""
        while self._before:
            owner, name, value = self._before.pop()
            setattr(owner, name, value)


def arguments(patch: Patch, owner: type, name: str) -> dict[Any, Any]:
    """Note one constructor argument of each object of a class that is made from now on."""
    made: dict[Any, Any] = {}
    begin = owner.__init__  # type: ignore[misc]
    shape = signature(begin)

    def init(self: Any, *positional: Any, **named: Any) -> None:
        made[self] = shape.bind(self, *positional, **named).arguments[name]
        begin(self, *positional, **named)

    patch.set(owner, "__init__", init)
    return made


def settings_with(patch: Patch, owner: type, **changes: float) -> None:
    """Make objects of a class with other settings; each change is a factor."""
    begin = owner.__init__  # type: ignore[misc]
    shape = signature(begin)

    def init(self: Any, *positional: Any, **named: Any) -> None:
        bound = shape.bind(self, *positional, **named)
        settings = bound.arguments["settings"]
        scaled = {name: factor * getattr(settings, name) for name, factor in changes.items()}
        bound.arguments["settings"] = replace(settings, **scaled)
        begin(*bound.args, **bound.kwargs)

    patch.set(owner, "__init__", init)


def stubs_told(patch: Patch) -> None:
    """A parent treats its Stub as a relay."""
    up = NetworkRelay.session_up

    def naive(self: Any, now: float, session: int, event: Any) -> None:
        up(self, now, session, event)
        if event.node.node.relay_type is RelayType.STUB:
            # This entry represents every way in which a parent could treat a Stub as a relay.
            info = replace(event.node, node=replace(event.node.node, relay_type=RelayType.VIA))
            info = replace(info, node=replace(info.node, node_id=_ANYBODY))
            self.nib.add_peer(now, _ANYBODY, info, srtt_us=10_000, forwards=True)

    patch.set(NetworkRelay, "session_up", naive)


def stubs_asked(patch: Patch) -> None:
    """A parent asks its Stub for everything."""
    opened = StubParent.open

    def generous(self: StubParent, now: float, address: str = "stub") -> None:
        opened(self, now, address)
        for number in range(4):
            name = FullTrackName(Namespace.of(b"t%d" % number), b"")
            self.client.publish(now, AnnounceKind.NAMESPACE, name)

    patch.set(StubParent, "open", generous)


def stubs_leave_early(patch: Patch) -> None:
    """A Stub leaves its old parent as soon as the new one accepts."""
    unwant = arguments(patch, Leaving, "unwant")

    def hasty(self: Leaving[Any], now: float, parent: Any, key: int) -> None:
        unwant[self](now, parent, key)

    patch.set(Leaving, "begin", hasty)


# Nodes


class _OrRank(tuple[int, ...]):
    """Shorter or faster: the comparison that is none."""

    __slots__ = ()

    def __lt__(self, other: tuple[int, ...]) -> bool:
        if self[:3] != other[:3]:
            return tuple(self[:3]) < tuple(other[:3])
        return self[3] < other[3] or self[4] < other[4]


def or_compare(patch: Patch) -> None:
    """A path is better if it is shorter or faster."""
    rank = NodeTable.rank
    patch.set(NodeTable, "rank", lambda self, peer, info: _OrRank(rank(self, peer, info)))


def no_withdrawals(patch: Patch) -> None:
    """Nodes that are out of reach are not withdrawn."""
    flush = AdjRibOut.flush
    patch.set(AdjRibOut, "flush", lambda self, peer: (flush(self, peer)[0], ()))


def no_split_horizon(patch: Patch) -> None:
    """A relay advertises nodes to the peer through which they are reached."""
    split = AdjRibOut.export_to

    def export_to(self: AdjRibOut, peer: Any, node: Any) -> Any:
        stranger = copy(peer)
        stranger.node = _ANYBODY
        return None if node == peer.node else split(self, stranger, node)

    patch.set(AdjRibOut, "export_to", export_to)


def adj_in_kept(patch: Patch) -> None:
    """The end of a session does not remove what the peer advertised."""
    patch.set(Nib, "remove_peer", lambda self, now, peer: None)  # noqa: ARG005


def best_not_told(patch: Patch) -> None:
    """A new best path is not advertised in place of the old one."""
    renew = AdjRibOut.renew
    tables = arguments(patch, AdjRibOut, "table")

    def stubborn(self: AdjRibOut, now: float, node: Any) -> None:
        record = tables[self].records.get(node)
        if record is None or record.export is None or record.best is None:
            renew(self, now, node)

    patch.set(AdjRibOut, "renew", stubborn)


def not_resteered(patch: Patch) -> None:
    """Sets do not follow the best paths."""
    patch.set(Sets, "reroute", lambda self, now, nodes=None, *, cut=False: None)  # noqa: ARG005


def told_late(patch: Patch) -> None:
    """Changes are collected for ten times as long."""
    settings_with(patch, AdvertisementSchedule, batch=10)


# Announces and subscribes


def epoch_ignored(patch: Patch) -> None:
    """Entries from before a restart of their source stay."""
    node_changed, received = FloodTable.node_changed, FloodTable.received

    def same(self: Any, now: float, node: Any, epoch: int | None) -> None:
        node_changed(self, now, node, None if epoch is None else _EPOCH)

    def ageless(self: Any, now: float, peer: Any, item: Any, *, dead: bool) -> Any:
        item = replace(item, stamp=Stamp(_EPOCH, item.stamp.sequence))
        return received(self, now, peer, item, dead=dead)

    patch.set(FloodTable, "node_changed", same)
    patch.set(FloodTable, "received", ageless)


def sequence_ignored(patch: Patch) -> None:
    """An older entry replaces a newer one."""
    patch.set(Stamp, "__lt__", lambda self, other: self.epoch < other.epoch)


def newcomers_not_told(patch: Patch) -> None:
    """A new session is not synchronised."""
    fill = Telling.fill

    def silent(self: Any, peer: Any) -> None:
        fill(self, peer)
        peer.full = False

    patch.set(Telling, "fill", silent)
    patch.set(Telling, "resend", lambda self, peer: None)  # noqa: ARG005


def unsubscribed_at_once(patch: Patch) -> None:
    """The last unsubscribe does not wait."""
    settings_with(patch, SubscriberRole, unsubscribe_delay=0)


def answers_lost(patch: Patch) -> None:
    """Subscribes are not answered."""
    patch.set(NetworkRelay, "respond", lambda self, now, session, response: None)  # noqa: ARG005


# Sets and forwarding


def set_updates_lost(patch: Patch) -> None:
    """Changes of a set are not sent."""
    patch.set(SetRouting, "update_sns", lambda self, now, session, sns_id, targets: None)  # noqa: ARG005


def break_before_make(patch: Patch) -> None:
    """Targets that move take their open streams with them."""
    plan = set_switch.plan

    def in_place(before: Any, after: Any, **_: Any) -> Any:
        return plan(before, after, wanted=frozenset(), moved=frozenset())

    patch.set(set_switch, "plan", in_place)


def sets_kept(patch: Patch) -> None:
    """Retired sets are not withdrawn after their last stream."""
    patch.set(Sets, "idle", lambda self, now, notice: None)  # noqa: ARG005


def sets_end_early(patch: Patch) -> None:
    """Old sets are withdrawn while their streams are open."""
    states = arguments(patch, Fib, "state")

    def impatient(self: Fib, now: float, egress: Any) -> None:  # noqa: ARG001
        states[self].notices.append(SetIdle(egress))

    patch.set(Fib, "retire", impatient)


def ghosts_chased(patch: Patch) -> None:
    """Relays in between look for other paths to a node that is gone."""
    patch.set(Chooser, "steady", lambda self, now, record, target, hop: hop)  # noqa: ARG005


def policy_skipped(patch: Patch) -> None:
    """The class of a track does not restrict its paths."""
    patch.set(PathFinder, "refusal", lambda self, scope, way: None)  # noqa: ARG005


def early_data_dropped(patch: Patch) -> None:
    """Data that comes before its set does not wait."""

    def holder(self: NetworkRelay, session: int) -> Any:  # noqa: ARG001
        return lambda now, sns_id, item, size: SnsStanding.GONE  # noqa: ARG005

    patch.set(NetworkRelay, "holder", holder)


def drain_ends_early(patch: Patch) -> None:
    """A relay that drains does not wait for what it took."""

    def hasty(self: DrainMonitor, now: float, *, busy: bool, flight: float) -> Standing:  # noqa: ARG001
        return Standing.DONE

    patch.set(DrainMonitor, "look", hasty)


def filters_skipped(patch: Patch) -> None:
    """Filters of announces and subscribes let everything pass."""
    patch.set(HashedFilter, "refusal", lambda self, peer, source, elements=None: None)  # noqa: ARG005


def countries_ignored(patch: Patch) -> None:
    """Relays ignore which countries a link passes."""
    patch.set(LinkTable, "between", lambda self, one, other: ())  # noqa: ARG005


def twin_ignored(patch: Patch) -> None:
    """Connections with the former life of a node stay."""
    judge = Admission.judge

    def lenient(self: Admission, session: int, local: Any, role: Any, question: Any) -> Any:
        return judge(self, session, local, role, question)._replace(superseded=())

    patch.set(Admission, "judge", lenient)


def ttl_ignored(patch: Patch) -> None:
    """Nothing has a deadline, and nothing expires."""
    start = Fanout.open

    def patient(self: Fanout, now: float, priority: int, deadline: Any, *, expires: bool) -> None:  # noqa: ARG001
        start(self, now, priority, None, expires=expires)

    patch.set(Fanout, "open", patient)
    patch.set(RelayedStream, "renew", lambda self, now: None)  # noqa: ARG005


def priority_ignored(patch: Patch) -> None:
    """All streams are as urgent as each other."""
    for module in (relayed_stream, state):
        patch.set(module, "PRIORITIES", (PRIORITIES[128],) * 256)


def drain_ignored(patch: Patch) -> None:
    """A track is not steered again when a path changes that is not the best one."""
    patch.set(Steering, "paths_changed", lambda self, nodes: None)  # noqa: ARG005


def overload_ignored(patch: Patch) -> None:
    """What is overloaded may get more."""
    patch.set(
        steering,
        "prefer",
        lambda situation, current: prefer(situation._replace(burdened=frozenset()), current),
    )


def vias_never_left(patch: Patch) -> None:
    """What was chosen once stays chosen."""

    def faithful(situation: Any, current: Any) -> Any:
        return current or prefer(situation, current)

    patch.set(steering, "prefer", faithful)


def vias_not_dialled(patch: Patch) -> None:
    """No relay dials the Via that would help."""
    patch.set(Steering, "demanded_peers", lambda self, now: [])  # noqa: ARG005


def continuations_off(patch: Patch) -> None:
    """Streams go on to where they went when they began, for ever."""
    patch.set(PeerPlane, "outdate", lambda self, now, ingress, *, in_place=False: None)  # noqa: ARG005
