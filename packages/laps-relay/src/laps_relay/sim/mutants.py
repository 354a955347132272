"""Deliberate breaks of the relay: each must be seen by the simulator.

A simulator that never finds anything proves nothing. Here the core is broken on purpose, one rule
of the specification at a time, by replacing a method while a run goes on. ``laps-relay sim
mutants`` prints which invariant saw each of them; a test keeps it so.
"""

# ruff: noqa: SLF001 - what is broken here is inside

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

from laps_relay.core.network import set_plan, set_switch
from laps_relay.core.network.adj_out import Exports
from laps_relay.core.network.core import NetworkCore
from laps_relay.core.network.flood_telling import Telling
from laps_relay.core.network.floods import FloodTable
from laps_relay.core.network.interfaces import SetIdle
from laps_relay.core.network.nib import Nib
from laps_relay.core.network.node_table import NodeTable
from laps_relay.core.network.parts import Due, NetworkParts
from laps_relay.core.network.set_choice import Chooser
from laps_relay.core.network.sets import Sets
from laps_relay.core.network.wants import Wants
from laps_relay.core.network.ways import Ways
from laps_relay.core.peer_plane.plane import PeerPlane
from laps_relay.sim.build import network_relay
from laps_relay.sim.narrow_kind import NARROW
from laps_relay.sim.narrow_mutants import priority_ignored, ttl_ignored
from laps_relay.sim.runner import Outcome, simulate, simulate_seed, uncollected
from laps_relay.sim.scenario import scenario
from laps_relay.sim.steering_kind import STEERING
from laps_relay.sim.steering_mutants import (
    drain_ignored,
    overload_ignored,
    vias_never_left,
    vias_not_dialled,
)
from laps_relay.sim.stream_mutants import continuations_off
from laps_relay.sim.stub_mutants import stubs_asked, stubs_leave_early, stubs_told
from laps_wire.peering.laps2 import Stamp
from laps_wire.peering.session import SnsStanding

__all__ = ["MUTANTS", "Mutant", "applied", "hunt"]

Hiding: TypeAlias = "tuple[int, int, str, str]"
"""Where a mutant is seen: seed, relays, topology, kind."""
PATIENCE: Final = 60.0
"""CPU seconds after which the hunt for a mutant ends."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One break."""

    what: str
    patch: Callable[[Patch], None]
    seen: tuple[Hiding, ...]
    """Runs in which it is seen, the shortest first."""


@contextmanager
def applied(mutant: Mutant) -> Generator[None]:
    """While this lasts, the relay is broken."""
    patch = Patch()
    try:
        mutant.patch(patch)
        yield
    finally:
        patch.undo()


def hunt(mutant: Mutant) -> Outcome | None:
    """The first run in which it is seen, and which is clean without it; None: in none of them."""
    started = time.process_time()
    for seed, relays, topology, kind in mutant.seen:
        made = scenario(seed, relays=relays, topology=topology, kind=kind)
        with applied(mutant), uncollected():
            outcome = simulate(made, network_relay)[0]
        if not outcome.ok and _is_clean(seed, relays, topology, kind):
            return outcome
        if time.process_time() - started > PATIENCE:
            break
    return None


@cache  # several breaks are seen in the same run
def _is_clean(seed: int, relays: int, topology: str, kind: str) -> bool:
    """Whether nothing breaks in a run of a relay that is whole."""
    return simulate_seed(seed, relays=relays, topology=topology, kind=kind).ok


# Nodes


class _OrRank(tuple[int, ...]):
    """Shorter or faster: the comparison that is none."""

    __slots__ = ()

    def __lt__(self, other: tuple[int, ...]) -> bool:
        if self[:3] != other[:3]:
            return tuple(self[:3]) < tuple(other[:3])
        return self[3] < other[3] or self[4] < other[4]


def _or_compare(patch: Patch) -> None:
    rank = NodeTable._rank
    patch.set(NodeTable, "_rank", lambda self, peer, info: _OrRank(rank(self, peer, info)))


def _no_withdrawals(patch: Patch) -> None:
    flush = Exports.flush
    patch.set(Exports, "flush", lambda self, peer: (flush(self, peer)[0], ()))


def _no_split_horizon(patch: Patch) -> None:
    def wanted(self: Exports, peer: Any, node: Any) -> Any:
        if node == self._node:
            return self._own
        record = self._table.records.get(node)
        return None if record is None or node == peer.node else record.export

    patch.set(Exports, "_wanted", wanted)


def _adj_in_kept(patch: Patch) -> None:
    def remove_peer(self: Nib, now: float, peer: Any) -> None:
        record = self._table.peers.get(peer)
        if record is not None:
            record.out = None
        self._settle(now)

    patch.set(Nib, "remove_peer", remove_peer)


def _best_not_told(patch: Patch) -> None:
    renew = Exports._renew

    def stubborn(self: Exports, now: float, node: Any) -> None:
        record = self._table.records.get(node)
        if record is None or record.export is None or record.best is None:
            renew(self, now, node)

    patch.set(Exports, "_renew", stubborn)


def _not_resteered(patch: Patch) -> None:
    patch.set(Sets, "reroute", lambda self, now, nodes=None, *, cut=False: None)  # noqa: ARG005


def _told_late(patch: Patch) -> None:
    schedule = NetworkCore._schedule

    def patient(self: NetworkCore, now: float) -> None:
        waits = self._timers.when((Due.LOOK, 0)) is not None
        schedule(self, now)
        if not waits and self._timers.when((Due.LOOK, 0)) is not None:
            self._timers.set((Due.LOOK, 0), now + 10 * self._settings.batch)

    patch.set(NetworkCore, "_schedule", patient)


# Announces and subscribes


def _epoch_ignored(patch: Patch) -> None:
    node_changed = FloodTable.node_changed

    def forgiving(self: Any, now: float, node: Any, epoch: int | None) -> None:
        source = self._state.sources.get(node)
        if source is not None and epoch is not None:
            source.epoch = epoch
        node_changed(self, now, node, epoch)

    patch.set(FloodTable, "node_changed", forgiving)


def _sequence_ignored(patch: Patch) -> None:
    heard = FloodTable._heard

    def gullible(self: Any, now: float, peer: Any, item: Any, *, dead: bool) -> Any:
        source = self._state.sources.get(item.source)
        record = None if source is None else source.records.get(self._kind.key(item))
        if record is not None and item.stamp < record.item.stamp:
            stamp = Stamp(item.stamp.epoch, max(0, item.stamp.sequence - 1))
            record.item = replace(record.item, stamp=stamp)
        return heard(self, now, peer, item, dead=dead)

    patch.set(FloodTable, "_heard", gullible)


def _newcomers_not_told(patch: Patch) -> None:
    fill = Telling.fill

    def silent(self: Any, peer: Any) -> None:
        fill(self, peer)
        peer.full = False

    patch.set(Telling, "fill", silent)
    patch.set(Telling, "resend", lambda self, peer: None)  # noqa: ARG005


def _unsubscribed_at_once(patch: Patch) -> None:
    unwant = Wants.unwant

    def hasty(self: Wants, now: float, name: Any) -> None:
        unwant(self, now - self._settings.unsubscribe_delay, name)

    patch.set(Wants, "unwant", hasty)


def _answers_lost(patch: Patch) -> None:
    patch.set(NetworkParts, "respond", lambda self, now, session, response: None)  # noqa: ARG005


# Sets and forwarding


def _set_updates_lost(patch: Patch) -> None:
    patch.set(NetworkParts, "update_sns", lambda self, now, session, sns_id, targets: None)  # noqa: ARG005


def _break_before_make(patch: Patch) -> None:
    plan = set_plan.plan

    def in_place(before: Any, after: Any, **_: Any) -> Any:
        return plan(before, after, wanted=frozenset(), moved=frozenset())

    patch.set(set_switch, "plan", in_place)


def _sets_kept(patch: Patch) -> None:
    patch.set(Sets, "idle", lambda self, now, notice: None)  # noqa: ARG005


def _sets_end_early(patch: Patch) -> None:
    def impatient(self: PeerPlane, now: float, egress: Any) -> None:  # noqa: ARG001
        self._state.notices.append(SetIdle(egress))

    patch.set(PeerPlane, "retire", impatient)


def _ghosts_chased(patch: Patch) -> None:
    patch.set(Chooser, "_steady", lambda self, now, record, target, hop: hop)  # noqa: ARG005


def _policy_skipped(patch: Patch) -> None:
    patch.set(Ways, "refusal", lambda self, scope, way: None)  # noqa: ARG005


def _early_data_dropped(patch: Patch) -> None:
    def holder(self: NetworkCore, session: int) -> Any:  # noqa: ARG001
        return lambda now, sns_id, item, size: SnsStanding.GONE  # noqa: ARG005

    patch.set(NetworkCore, "_holder", holder)


_PLANNED: Final = "planned"
_FAULTS: Final = "faults"
_BUSY: Final = "busy"
_NARROW: Final = tuple(
    (seed, 8, shape, NARROW) for seed in range(1, 30) for shape in ("random", "tree")
)


_STEERED: Final = tuple((seed, 8, "regions", STEERING) for seed in range(1, 10))


def _anywhere(kind: str) -> tuple[Hiding, ...]:
    """Where to look if the code has moved on, and the runs above with it."""
    shapes = ("chord", "random", "ring", "regions", "tree")
    return tuple((seed, 8, shapes[seed % len(shapes)], kind) for seed in range(1, 60))


def _with_stubs(kind: str) -> tuple[Hiding, ...]:
    return tuple(
        (seed, relays, f"{topology}+stubs", kind)
        for seed, relays, topology, kind in _anywhere(kind)
    )


MUTANTS: Final[dict[str, Mutant]] = {
    "or-compare": Mutant(
        what="a way is better if it is shorter or faster",
        patch=_or_compare,
        seen=((1, 5, "random", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "no-withdrawals": Mutant(
        what="nodes that are out of reach are not withdrawn",
        patch=_no_withdrawals,
        seen=((16, 5, "random", _FAULTS), (8, 5, "regions", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "no-split-horizon": Mutant(
        what="a peer is told of nodes that are reached through it",
        patch=_no_split_horizon,
        seen=((1, 5, "random", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "adj-in-kept": Mutant(
        what="the end of a session does not end what it told",
        patch=_adj_in_kept,
        seen=((6, 5, "random", _PLANNED), (8, 5, "regions", _FAULTS), *_anywhere(_PLANNED)),
    ),
    "best-not-told": Mutant(
        what="a new best way is not advertised in place of the old one",
        patch=_best_not_told,
        seen=((1, 5, "random", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "not-resteered": Mutant(
        what="sets do not follow the best ways",
        patch=_not_resteered,
        seen=((7, 8, "ring", _FAULTS), (9, 5, "tree", _PLANNED), *_anywhere(_FAULTS)),
    ),
    "told-late": Mutant(
        what="changes are collected for ten times as long",
        patch=_told_late,
        seen=((1, 5, "ring", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "epoch-ignored": Mutant(
        what="what a node said before its restart stays",
        patch=_epoch_ignored,
        seen=((14, 5, "tree", _FAULTS), (15, 5, "chord", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "sequence-ignored": Mutant(
        what="an older entry replaces a newer one",
        patch=_sequence_ignored,
        seen=((43, 8, "chord", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "newcomers-not-told": Mutant(
        what="a new session is not synchronised",
        patch=_newcomers_not_told,
        seen=((17, 5, "ring", _PLANNED), (15, 5, "chord", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "unsubscribed-at-once": Mutant(
        what="the last unsubscribe does not wait",
        patch=_unsubscribed_at_once,
        seen=((1, 5, "random", _PLANNED), (3, 5, "regions", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "answers-lost": Mutant(
        what="subscribes are not answered",
        patch=_answers_lost,
        seen=((2, 5, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "set-updates-lost": Mutant(
        what="changes of a set are not sent",
        patch=_set_updates_lost,
        seen=((2, 5, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "break-before-make": Mutant(
        what="targets that move take their open streams with them",
        patch=_break_before_make,
        seen=((3, 5, "regions", _PLANNED), (4, 5, "tree", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "sets-kept": Mutant(
        what="sets that are not used any more are not withdrawn",
        patch=_sets_kept,
        seen=((2, 5, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "sets-end-early": Mutant(
        what="old sets are withdrawn while streams are under way",
        patch=_sets_end_early,
        seen=((3, 8, "regions", _BUSY), *_anywhere(_BUSY)),
    ),
    "ghosts-chased": Mutant(
        what="relays in between look for other ways to a node that is gone",
        patch=_ghosts_chased,
        seen=((4, 6, "random+stubs", _PLANNED), *_with_stubs(_PLANNED)),
    ),
    "policy-skipped": Mutant(
        what="the class of a track does not narrow its ways",
        patch=_policy_skipped,
        seen=((2, 8, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "stubs-told": Mutant(
        what="a parent tells others of its Stub",
        patch=stubs_told,
        seen=((1, 5, "random+stubs", _PLANNED), *_with_stubs(_PLANNED)),
    ),
    "stubs-asked": Mutant(
        what="a Stub is asked for what it did not announce",
        patch=stubs_asked,
        seen=((1, 5, "random+stubs", _PLANNED), *_with_stubs(_PLANNED)),
    ),
    "stubs-leave-early": Mutant(
        what="a Stub leaves its parent while streams are under way",
        patch=stubs_leave_early,
        seen=((2, 8, "ring+stubs", _PLANNED), *_with_stubs(_PLANNED)),
    ),
    "drain-ignored": Mutant(
        what="nobody looks again when the Via in use drains or is overloaded",
        patch=drain_ignored,
        seen=_STEERED,
    ),
    "overload-ignored": Mutant(
        what="a Via that is overloaded is as good as any other",
        patch=overload_ignored,
        seen=_STEERED,
    ),
    "vias-never-left": Mutant(
        what="a Via that does not pay any more stays in use",
        patch=vias_never_left,
        seen=_STEERED,
    ),
    "vias-not-dialled": Mutant(
        what="nobody dials the Via that would help",
        patch=vias_not_dialled,
        seen=_STEERED,
    ),
    "early-data-dropped": Mutant(
        what="data that comes before its set does not wait",
        patch=_early_data_dropped,
        seen=((3, 8, "regions", _BUSY), *_anywhere(_BUSY)),
    ),
    "continuations-off": Mutant(
        what="a stream that does not end stays with the sets with which it began",
        patch=continuations_off,
        seen=((2, 5, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "ttl-ignored": Mutant(
        what="what has waited too long is sent nevertheless",
        patch=ttl_ignored,
        seen=_NARROW,
    ),
    "priority-ignored": Mutant(
        what="all streams are as urgent as each other",
        patch=priority_ignored,
        seen=_NARROW,
    ),
}
