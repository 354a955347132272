"""Deliberate breaks of the relay: each must be seen by the simulator.

A simulator that never finds anything proves nothing. A mutant breaks one rule of the specification:
it replaces a method of the core during a run. ``laps-relay sim mutants`` prints which invariant
finds each mutant, and a test requires that all are found.

 The faults come first, one function each. ``MUTANTS`` names them, with seeds that show each of
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from typing import Any, Final, TypeAlias

from laps_relay.network import steering
from laps_relay.network.advertisements import AdvertisementSchedule
from laps_relay.network.drain_monitor import DrainMonitor, Standing
from laps_relay.network.flood.flood_telling import Telling
from laps_relay.network.flood.floods import FloodTable
from laps_relay.network.nodes.adj_out import AdjRibOut
from laps_relay.network.nodes.nib import Nib, PathFinder
from laps_relay.network.nodes.node_table import NodeTable
from laps_relay.network.relay import NetworkRelay
from laps_relay.network.repair import Repair, RepairMessage
from laps_relay.network.sets import sets
from laps_relay.network.sets.set_routing import Chooser, SetRouting
from laps_relay.network.sets.sets import Sets
from laps_relay.network.steering import Steering, prefer
from laps_relay.network.subscriptions.subscriptions import SubscriberRole
from laps_relay.peer_forwarding import relayed_stream, state
from laps_relay.peer_forwarding.fib import Fib
from laps_relay.peer_forwarding.forwarding import SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_relay.peer_forwarding.relayed_stream import RelayedStream
from laps_relay.peer_forwarding.state import Fanout
from laps_relay.policy.rule_policy import HashedFilter, LinkTable
from laps_relay.sim.runner import Outcome, simulate, simulate_seed, uncollected
from laps_relay.sim.scenarios.features import NARROW, STEERING
from laps_relay.sim.scenarios.scenario import REPAIR, scenario
from laps_relay.sim.world.build import network_relay
from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.forwarding.interfaces import Point, Subscription
from laps_sdk.forwarding.plane import Plane
from laps_sdk.forwarding.priority import PRIORITIES
from laps_sdk.peering.admission import Admission
from laps_sdk.stub.stub_leaving import Leaving
from laps_wire.moqt.codepoints import StreamResetCodeD18
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, Position, RelayType, Resume, Stamp
from laps_wire.peering.session import SnsStanding

__all__ = [
    "MUTANTS",
    "Mutant",
    "Patch",
    "adj_in_kept",
    "answers_lost",
    "applied",
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
    "hunt",
    "losses_final",
    "newcomers_not_told",
    "no_split_horizon",
    "no_withdrawals",
    "not_resteered",
    "or_compare",
    "overload_ignored",
    "policy_skipped",
    "positions_lost",
    "priority_ignored",
    "resume_ignored",
    "resumed_too_late",
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
    plan = sets.plan

    def in_place(before: Any, after: Any, **_: Any) -> Any:
        return plan(before, after, wanted=frozenset(), moved=frozenset())

    patch.set(sets, "plan", in_place)


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


def _messages_lost(patch: Patch, kind: type[RepairMessage]) -> None:
    """Relays drop a kind of message of repair, also those of others."""
    receive = Repair.received

    def received(self: Repair, now: float, session: int, message: RepairMessage) -> None:
        if not isinstance(message, kind):
            receive(self, now, session, message)

    patch.set(Repair, "received", received)


def positions_lost(patch: Patch) -> None:
    """No s-relay learns what the log of an o-relay has."""
    _messages_lost(patch, Position)


def resume_ignored(patch: Patch) -> None:
    """No o-relay sends anything again."""
    _messages_lost(patch, Resume)


def resumed_too_late(patch: Patch) -> None:
    """What is sent again begins one object behind the first that is missing."""
    resume = Plane.resume_egress

    def late(
        self: Plane, now: float, subscription: Subscription, points: Sequence[Point]
    ) -> list[Point]:
        later = [point._replace(object=point.object + 1) for point in points]
        return resume(self, now, subscription, later)

    patch.set(Plane, "resume_egress", late)


def losses_final(patch: Patch) -> None:
    """A stream that is lost with its path ends what it brought."""
    code = StreamResetCodeD18.CANCELLED

    def lost(self: Plane, now: float, session: int, stream_id: int) -> None:
        self.stream_reset(now, session, stream_id, code)

    patch.set(Plane, "stream_lost", lost)


Hiding: TypeAlias = "tuple[int, int, str, str]"
"""Where a mutant is seen: seed, relays, topology, kind."""
PATIENCE: Final = 60.0
"""CPU seconds after which the hunt for a mutant ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One break."""

    what: str
    patch: Callable[[Patch], None]
    seen: tuple[Hiding, ...]
    """Runs in which it is seen, the shortest first."""


@contextmanager
def applied(mutant: Mutant) -> Generator[None]:
    """Break the relay in the block."""
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


_PLANNED: Final = "planned"
_FAULTS: Final = "faults"
_BUSY: Final = "busy"
_NARROW: Final = tuple(
    (seed, 8, shape, NARROW) for seed in range(1, 30) for shape in ("random", "tree")
)


_REPAIRED: Final = tuple(
    (seed, 8, shape, REPAIR) for seed in range(1, 30) for shape in ("random", "chord")
)


_STEERED: Final = tuple((seed, 8, "regions", STEERING) for seed in range(1, 10))


def _anywhere(kind: str) -> tuple[Hiding, ...]:
    """Return further runs to search when a change of the code hides a mutant in the others."""
    shapes = ("chord", "random", "ring", "regions", "tree")
    return tuple((seed, 8, shapes[seed % len(shapes)], kind) for seed in range(1, 60))


def _with_stubs(kind: str) -> tuple[Hiding, ...]:
    return tuple(
        (seed, relays, f"{topology}+stubs", kind)
        for seed, relays, topology, kind in _anywhere(kind)
    )


MUTANTS: Final[dict[str, Mutant]] = {
    "or-compare": Mutant(
        what="a path is better if it is shorter or faster",
        patch=or_compare,
        seen=((1, 5, "random", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "no-withdrawals": Mutant(
        what="nodes that are out of reach are not withdrawn",
        patch=no_withdrawals,
        seen=((16, 5, "random", _FAULTS), (8, 5, "regions", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "no-split-horizon": Mutant(
        what="a relay advertises nodes to the peer through which they are reached",
        patch=no_split_horizon,
        seen=((1, 5, "random", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "adj-in-kept": Mutant(
        what="the end of a session does not remove what the peer advertised",
        patch=adj_in_kept,
        seen=((6, 5, "random", _PLANNED), (8, 5, "regions", _FAULTS), *_anywhere(_PLANNED)),
    ),
    "best-not-told": Mutant(
        what="a new best path is not advertised in place of the old one",
        patch=best_not_told,
        seen=((1, 5, "random", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "not-resteered": Mutant(
        what="sets do not follow the best paths",
        patch=not_resteered,
        seen=((7, 8, "ring", _FAULTS), (9, 5, "tree", _PLANNED), *_anywhere(_FAULTS)),
    ),
    "told-late": Mutant(
        what="changes are batched for ten times as long",
        patch=told_late,
        seen=((1, 5, "ring", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "epoch-ignored": Mutant(
        what="entries from before a restart of their source stay",
        patch=epoch_ignored,
        seen=((15, 5, "chord", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "sequence-ignored": Mutant(
        what="an older entry replaces a newer one",
        patch=sequence_ignored,
        seen=((43, 8, "chord", _FAULTS), *_anywhere(_FAULTS)),
    ),
    "newcomers-not-told": Mutant(
        what="a new session is not synchronised",
        patch=newcomers_not_told,
        seen=((17, 5, "ring", _PLANNED), (15, 5, "chord", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "unsubscribed-at-once": Mutant(
        what="the last unsubscribe does not wait",
        patch=unsubscribed_at_once,
        seen=((1, 5, "random", _PLANNED), (3, 5, "regions", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "answers-lost": Mutant(
        what="subscribes are not answered",
        patch=answers_lost,
        seen=((2, 5, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "set-updates-lost": Mutant(
        what="changes of a set are not sent",
        patch=set_updates_lost,
        seen=((2, 5, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "break-before-make": Mutant(
        what="targets that move take their open streams with them",
        patch=break_before_make,
        seen=((3, 5, "regions", _PLANNED), (4, 5, "tree", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "sets-kept": Mutant(
        what="sets that are not used any more are not withdrawn",
        patch=sets_kept,
        seen=((2, 5, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "sets-end-early": Mutant(
        what="old sets are withdrawn while their streams are open",
        patch=sets_end_early,
        seen=((3, 8, "regions", _BUSY), *_anywhere(_BUSY)),
    ),
    "ghosts-chased": Mutant(
        what="relays in between look for other paths to a node that is gone",
        patch=ghosts_chased,
        seen=((4, 6, "random+stubs", _PLANNED), *_with_stubs(_PLANNED)),
    ),
    "policy-skipped": Mutant(
        what="the class of a track does not restrict its paths",
        patch=policy_skipped,
        seen=((2, 8, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "stubs-told": Mutant(
        what="a parent advertises its Stub",
        patch=stubs_told,
        seen=((1, 5, "random+stubs", _PLANNED), *_with_stubs(_PLANNED)),
    ),
    "stubs-asked": Mutant(
        what="a Stub is asked for what it did not announce",
        patch=stubs_asked,
        seen=((1, 5, "random+stubs", _PLANNED), *_with_stubs(_PLANNED)),
    ),
    "stubs-leave-early": Mutant(
        what="a Stub leaves its parent while streams are open",
        patch=stubs_leave_early,
        seen=((2, 8, "ring+stubs", _PLANNED), *_with_stubs(_PLANNED)),
    ),
    "drain-ignored": Mutant(
        what="a track is not steered again when its Via drains or is overloaded",
        patch=drain_ignored,
        seen=_STEERED,
    ),
    "overload-ignored": Mutant(
        what="a Via that is overloaded is as good as any other",
        patch=overload_ignored,
        seen=_STEERED,
    ),
    "vias-never-left": Mutant(
        what="a Via that is no longer beneficial stays in use",
        patch=vias_never_left,
        seen=_STEERED,
    ),
    "vias-not-dialled": Mutant(
        what="no relay dials the Via that would help",
        patch=vias_not_dialled,
        seen=_STEERED,
    ),
    "early-data-dropped": Mutant(
        what="data that comes before its set does not wait",
        patch=early_data_dropped,
        seen=((3, 8, "regions", _BUSY), *_anywhere(_BUSY)),
    ),
    "drain-ends-early": Mutant(
        what="a relay that drains ends while streams go through it",
        patch=drain_ends_early,
        seen=(*_NARROW, *_anywhere(_PLANNED)),
    ),
    "twin-ignored": Mutant(
        what="sessions with the former life of a node stay",
        patch=twin_ignored,
        seen=_anywhere(_FAULTS),
    ),
    "filters-skipped": Mutant(
        what="filters let all announces and subscribes pass",
        patch=filters_skipped,
        seen=_anywhere(_PLANNED),
    ),
    "countries-ignored": Mutant(
        what="the countries that links pass do not restrict the paths of a class",
        patch=countries_ignored,
        seen=(*_anywhere(_PLANNED), *_anywhere(_FAULTS)),
    ),
    "continuations-off": Mutant(
        what="a stream that does not end stays with the sets with which it began",
        patch=continuations_off,
        seen=((2, 5, "ring", _PLANNED), *_anywhere(_PLANNED)),
    ),
    "ttl-ignored": Mutant(
        what="data is sent after its ttl",
        patch=ttl_ignored,
        seen=_NARROW,
    ),
    "positions-lost": Mutant(
        what="relays do not tell what their logs have",
        patch=positions_lost,
        seen=_REPAIRED,
    ),
    "resume-ignored": Mutant(
        what="nothing is sent again that was lost with a path",
        patch=resume_ignored,
        seen=_REPAIRED,
    ),
    "resumed-too-late": Mutant(
        what="what is sent again lacks its first object",
        patch=resumed_too_late,
        seen=_REPAIRED,
    ),
    "losses-final": Mutant(
        what="a log does not wait for the rest of a stream that was lost with its path",
        patch=losses_final,
        seen=_REPAIRED,
    ),
    "priority-ignored": Mutant(
        what="all streams have the same priority",
        patch=priority_ignored,
        seen=_NARROW,
    ),
}
