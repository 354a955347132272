"""The choice of Vias for one track towards one region: a pure function of what is known.

Hub-and-spoke is the rule. A Via is used only where it helps: where more copies would leave towards
the region than the maximum, or where a path breaks the limits of the class of service::

    plain: 4 copies                 one Via: 1 copy              two Vias: 2 copies

    o --> e1                        o --> V --> e1               o --> V --> e1
    o --> e2                              |---> e2                     |---> e2
    o --> e3                              |---> e3               o --> W --> e3
    o --> e4                              '---> e4                     '---> e4

A *pick* is a Via and the targets that it gets; a *choice* is a tuple of picks. :func:`apply_choice`
returns the path of each target under a choice, :func:`choose` finds a choice. The search is greedy:
the Via that helps most, then the next, as long as each one helps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from laps_relay.network.nodes.selection import Candidate
from laps_wire.nodeid import NodeId

__all__ = [
    "COPY_PRICE_US",
    "Choice",
    "Pick",
    "Score",
    "Situation",
    "apply_choice",
    "choose",
    "prefer",
    "score",
]

COPY_PRICE_US: Final = 20_000
"""The price of a copy, as delay of one target: a Via may add 4 ms for each of five targets."""

_BETTER: Final = 0.9
"""With equal faults another choice must cost less than this share of the current one."""


class Pick(NamedTuple):
    """A Via, and the targets that go through it."""

    via: NodeId
    only: frozenset[NodeId] | None = None
    """None: all targets that it reaches, also later ones."""


Choice: TypeAlias = "tuple[Pick, ...]"


class Situation(NamedTuple):
    """All inputs of a choice, for one track and one region."""

    plain: Mapping[NodeId, Candidate]
    """The best path to each target."""
    options: Mapping[NodeId, Mapping[NodeId, Candidate]]
    """By next hop and target: the paths that exist and that policy allows."""
    vias: frozenset[NodeId]
    """Next hops that may aggregate: Vias. Others only replace a path that breaks a limit."""
    burdened: frozenset[NodeId]
    """Next hops that get no more targets: overloaded relays."""
    is_bad: Callable[[Candidate], bool]
    """Whether a path breaks the limits of the class of service."""
    max_copies: int | None
    """Copies that may leave towards this region; None: any number."""


class Score(NamedTuple):
    """The cost of a layout. Less is better; the first difference decides."""

    bad: int
    """Targets whose path breaks a limit of their class."""
    excess: int
    """Copies above the maximum."""
    cost_us: int
    """Sum of the delays, plus the price of the copies."""

    @property
    def faults(self) -> tuple[int, int]:
        """What a Via must reduce. Cost alone is no reason to leave hub-and-spoke."""
        return self.bad, self.excess


def score(situation: Situation, paths: Mapping[NodeId, Candidate]) -> Score:
    """Return the score of a layout: one path for each target."""
    copies = len({path.peer for path in paths.values()})
    limit = copies if situation.max_copies is None else situation.max_copies
    return Score(
        bad=sum(map(situation.is_bad, paths.values())),
        excess=max(0, copies - limit),
        cost_us=sum(path.cost_us for path in paths.values()) + COPY_PRICE_US * copies,
    )


def apply_choice(situation: Situation, choice: Choice) -> dict[NodeId, Candidate]:
    """Return the path of each target under a choice; an earlier pick keeps its targets."""
    paths = dict(situation.plain)
    moved: set[NodeId] = set()
    for pick in choice:
        for target, path in situation.options.get(pick.via, {}).items():
            if target not in moved and (pick.only is None or target in pick.only):
                paths[target] = path
                moved.add(target)
    return paths


def choose(situation: Situation) -> Choice:
    """Return the choice that is best now, whatever was chosen before; () is hub-and-spoke."""
    choice: Choice = ()
    paths = apply_choice(situation, choice)
    now = score(situation, paths)
    while any(now.faults):
        trials: list[tuple[Score, NodeId, int, Choice]] = []
        for via in situation.options:
            if via not in situation.burdened and all(pick.via != via for pick in choice):
                for rank, pick in enumerate(_picks(situation, paths, via, now.excess)):
                    trial = (*choice, pick)
                    found = score(situation, apply_choice(situation, trial))
                    trials.append((found, via, rank, trial))
        if not trials:
            break
        found, _, _, trial = min(trials, key=lambda item: item[:3])
        if found.faults >= now.faults:
            break
        choice, now = trial, found
        paths = apply_choice(situation, choice)
    return choice


def _picks(
    situation: Situation, paths: Mapping[NodeId, Candidate], via: NodeId, excess: int
) -> list[Pick]:
    """Return the picks that could help with one next hop."""
    mend = frozenset(
        target
        for target, path in situation.options[via].items()
        if situation.is_bad(paths[target]) and not situation.is_bad(path)
    )
    picks = [Pick(via, mend)] if mend else []
    # A path within the limits stays, as long as there are not too many copies.
    if excess and via in situation.vias:
        picks.append(Pick(via))
    return picks


def prefer(situation: Situation, current: Choice) -> Choice:
    """Return the choice to aim at while ``current`` is in use.

    That is ``current`` unless another choice is clearly better. The result is stable: used as
    ``current`` with the same situation, it is returned again.
    """
    best = choose(situation)
    if current == best or any(pick.via in situation.burdened for pick in current):
        return best
    kept = score(situation, apply_choice(situation, current))
    if kept.faults >= score(situation, situation.plain).faults:
        return best
    new = score(situation, apply_choice(situation, best))
    worth = new.faults < kept.faults or (
        new.faults == kept.faults and new.cost_us < _BETTER * kept.cost_us
    )
    return best if worth else current
