"""Deliberate breaks of the relay: each must be seen by the simulator.

A simulator that never finds anything proves nothing. A mutant breaks one rule of the specification:
it replaces a method of the core during a run. ``laps-relay sim mutants`` prints which invariant
finds each mutant, and a test requires that all are found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from laps_relay.sim.mutants.faults import (
    Patch,
    adj_in_kept,
    answers_lost,
    best_not_told,
    break_before_make,
    continuations_off,
    countries_ignored,
    drain_ends_early,
    drain_ignored,
    early_data_dropped,
    epoch_ignored,
    filters_skipped,
    ghosts_chased,
    newcomers_not_told,
    no_split_horizon,
    no_withdrawals,
    not_resteered,
    or_compare,
    overload_ignored,
    policy_skipped,
    priority_ignored,
    sequence_ignored,
    set_updates_lost,
    sets_end_early,
    sets_kept,
    stubs_asked,
    stubs_leave_early,
    stubs_told,
    told_late,
    ttl_ignored,
    twin_ignored,
    unsubscribed_at_once,
    vias_never_left,
    vias_not_dialled,
)
from laps_relay.sim.runner import Outcome, simulate, simulate_seed, uncollected
from laps_relay.sim.scenarios.narrow import NARROW
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.scenarios.steering import STEERING
from laps_relay.sim.world.build import network_relay

__all__ = ["MUTANTS", "Mutant", "applied", "hunt"]

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
    "priority-ignored": Mutant(
        what="all streams have the same priority",
        patch=priority_ignored,
        seen=_NARROW,
    ),
}
