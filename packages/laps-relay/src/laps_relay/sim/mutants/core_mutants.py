"""Deliberate breaks of tables, sets and policy of the core (see ``mutants``)."""

# ruff: noqa: SLF001 - what is broken here is inside

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laps_relay.network.advertisements import AdvertisementSchedule
from laps_relay.network.flood.flood_telling import Telling
from laps_relay.network.flood.floods import FloodTable
from laps_relay.network.nodes.adj_out import AdjRibOut
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.node_table import NodeTable
from laps_relay.network.nodes.path_finder import PathFinder
from laps_relay.network.relay import NetworkRelay
from laps_relay.network.sets import set_plan, set_switch
from laps_relay.network.sets.set_choice import Chooser
from laps_relay.network.sets.set_routing import SetRouting
from laps_relay.network.sets.sets import Sets
from laps_relay.network.subscriptions.wants import Wants
from laps_relay.network.timers import Due
from laps_relay.peer_forwarding.forwarding import SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.sim.mutants.stub_mutants import Patching
from laps_wire.peering.laps2 import Stamp
from laps_wire.peering.session import SnsStanding

__all__ = [
    "adj_in_kept",
    "answers_lost",
    "best_not_told",
    "break_before_make",
    "early_data_dropped",
    "epoch_ignored",
    "ghosts_chased",
    "newcomers_not_told",
    "no_split_horizon",
    "no_withdrawals",
    "not_resteered",
    "or_compare",
    "policy_skipped",
    "sequence_ignored",
    "set_updates_lost",
    "sets_end_early",
    "sets_kept",
    "told_late",
    "unsubscribed_at_once",
]

# Nodes


class _OrRank(tuple[int, ...]):
    """Shorter or faster: the comparison that is none."""

    __slots__ = ()

    def __lt__(self, other: tuple[int, ...]) -> bool:
        if self[:3] != other[:3]:
            return tuple(self[:3]) < tuple(other[:3])
        return self[3] < other[3] or self[4] < other[4]


def or_compare(patch: Patching) -> None:
    """A way is better if it is shorter or faster."""
    rank = NodeTable._rank
    patch.set(NodeTable, "_rank", lambda self, peer, info: _OrRank(rank(self, peer, info)))


def no_withdrawals(patch: Patching) -> None:
    """Nodes that are out of reach are not withdrawn."""
    flush = AdjRibOut.flush
    patch.set(AdjRibOut, "flush", lambda self, peer: (flush(self, peer)[0], ()))


def no_split_horizon(patch: Patching) -> None:
    """A peer is told of nodes that are reached through it."""

    def wanted(self: AdjRibOut, peer: Any, node: Any) -> Any:
        if node == self._node:
            return self._own
        record = self._table.records.get(node)
        return None if record is None or node == peer.node else record.export

    patch.set(AdjRibOut, "_wanted", wanted)


def adj_in_kept(patch: Patching) -> None:
    """The end of a session does not end what it told."""

    def remove_peer(self: Nib, now: float, peer: Any) -> None:
        record = self._table.peers.get(peer)
        if record is not None:
            record.out = None
        self._settle(now)

    patch.set(Nib, "remove_peer", remove_peer)


def best_not_told(patch: Patching) -> None:
    """A new best way is not advertised in place of the old one."""
    renew = AdjRibOut._renew

    def stubborn(self: AdjRibOut, now: float, node: Any) -> None:
        record = self._table.records.get(node)
        if record is None or record.export is None or record.best is None:
            renew(self, now, node)

    patch.set(AdjRibOut, "_renew", stubborn)


def not_resteered(patch: Patching) -> None:
    """Sets do not follow the best ways."""
    patch.set(Sets, "reroute", lambda self, now, nodes=None, *, cut=False: None)  # noqa: ARG005


def told_late(patch: Patching) -> None:
    """Changes are collected for ten times as long."""
    schedule = AdvertisementSchedule.schedule

    def patient(self: AdvertisementSchedule, now: float) -> None:
        waits = self._timers.when((Due.LOOK, 0)) is not None
        schedule(self, now)
        if not waits and self._timers.when((Due.LOOK, 0)) is not None:
            self._timers.set((Due.LOOK, 0), now + 10 * self._settings.batch)

    patch.set(AdvertisementSchedule, "schedule", patient)


# Announces and subscribes


def epoch_ignored(patch: Patching) -> None:
    """What a node said before its restart stays."""
    node_changed = FloodTable.node_changed

    def forgiving(self: Any, now: float, node: Any, epoch: int | None) -> None:
        source = self._state.sources.get(node)
        if source is not None and epoch is not None:
            source.epoch = epoch
        node_changed(self, now, node, epoch)

    patch.set(FloodTable, "node_changed", forgiving)


def sequence_ignored(patch: Patching) -> None:
    """An older entry replaces a newer one."""
    heard = FloodTable._heard

    def gullible(self: Any, now: float, peer: Any, item: Any, *, dead: bool) -> Any:
        source = self._state.sources.get(item.source)
        record = None if source is None else source.records.get(self._kind.key(item))
        if record is not None and item.stamp < record.item.stamp:
            stamp = Stamp(item.stamp.epoch, max(0, item.stamp.sequence - 1))
            record.item = replace(record.item, stamp=stamp)
        return heard(self, now, peer, item, dead=dead)

    patch.set(FloodTable, "_heard", gullible)


def newcomers_not_told(patch: Patching) -> None:
    """A new session is not synchronised."""
    fill = Telling.fill

    def silent(self: Any, peer: Any) -> None:
        fill(self, peer)
        peer.full = False

    patch.set(Telling, "fill", silent)
    patch.set(Telling, "resend", lambda self, peer: None)  # noqa: ARG005


def unsubscribed_at_once(patch: Patching) -> None:
    """The last unsubscribe does not wait."""
    unwant = Wants.unwant

    def hasty(self: Wants, now: float, name: Any) -> None:
        unwant(self, now - self._settings.unsubscribe_delay, name)

    patch.set(Wants, "unwant", hasty)


def answers_lost(patch: Patching) -> None:
    """Subscribes are not answered."""
    patch.set(NetworkRelay, "respond", lambda self, now, session, response: None)  # noqa: ARG005


# Sets and forwarding


def set_updates_lost(patch: Patching) -> None:
    """Changes of a set are not sent."""
    patch.set(SetRouting, "update_sns", lambda self, now, session, sns_id, targets: None)  # noqa: ARG005


def break_before_make(patch: Patching) -> None:
    """Targets that move take their open streams with them."""
    plan = set_plan.plan

    def in_place(before: Any, after: Any, **_: Any) -> Any:
        return plan(before, after, wanted=frozenset(), moved=frozenset())

    patch.set(set_switch, "plan", in_place)


def sets_kept(patch: Patching) -> None:
    """Sets that are not used any more are not withdrawn."""
    patch.set(Sets, "idle", lambda self, now, notice: None)  # noqa: ARG005


def sets_end_early(patch: Patching) -> None:
    """Old sets are withdrawn while streams are under way."""

    def impatient(self: PeerPlane, now: float, egress: Any) -> None:  # noqa: ARG001
        self._state.notices.append(SetIdle(egress))

    patch.set(PeerPlane, "retire", impatient)


def ghosts_chased(patch: Patching) -> None:
    """Relays in between look for other ways to a node that is gone."""
    patch.set(Chooser, "_steady", lambda self, now, record, target, hop: hop)  # noqa: ARG005


def policy_skipped(patch: Patching) -> None:
    """The class of a track does not narrow its ways."""
    patch.set(PathFinder, "refusal", lambda self, scope, way: None)  # noqa: ARG005


def early_data_dropped(patch: Patching) -> None:
    """Data that comes before its set does not wait."""

    def holder(self: NetworkRelay, session: int) -> Any:  # noqa: ARG001
        return lambda now, sns_id, item, size: SnsStanding.GONE  # noqa: ARG005

    patch.set(NetworkRelay, "_holder", holder)
