"""Whose word does not count, by the checks of data quality that are red.

To stop at every red check would let one relay of a thousand stop all plans, by writing what is not
so. So a few relays are *set aside*: a plan is made without their word. Of a check about one relay
that is who it is; of one that compares two, such as the bytes of a link, one of the two is wrong:

- the relay that contradicts more of the others than they do each other;
- if two contradict only each other, nobody knows which: both are set aside, and count as one.

::

    red: L>a, b>L, L>c          red: a>b
    L contradicts a, b and c    a or b: both
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

__all__ = ["FEWEST", "ONE_IN", "most_aside", "set_aside"]

ONE_IN: Final = 50
"""Of so many relays one may be set aside."""
FEWEST: Final = 10
"""In a network of fewer relays none is: too few would be left to contradict it."""


def most_aside(relays: int) -> int:
    """How many relays of a network may be wrong, and the others are still believed."""
    return 0 if relays < FEWEST else max(1, relays // ONE_IN)


def set_aside(red: Iterable[tuple[str, str]], relays: Collection[str]) -> frozenset[str] | None:
    """The relays whose word does not count, from red checks and what they are about.

    None if too many are red, or a check is about no relay of the network: nothing is to be believed
    then.
    """
    known = frozenset(relays)
    alone: set[str] = set()
    against: dict[str, set[str]] = {}
    for _, subject in red:
        ends = subject.split(">")
        if not known.issuperset(ends):
            return None
        if len(ends) == 1:
            alone.add(subject)
        for one, other in ((ends[0], ends[-1]), (ends[-1], ends[0])):
            if one != other:
                against.setdefault(one, set()).add(other)
    found, wrong = set(alone), len(alone)
    for end in alone:
        _believe_others(against, end)
    while against:
        most = max(map(len, against.values()))
        worst = sorted(end for end, others in against.items() if len(others) == most)
        # Who contradict only each other are two for one that is wrong.
        wrong += len(worst) if most > 1 else len(worst) // 2
        found.update(worst)
        for end in worst:
            _believe_others(against, end)
    return frozenset(found) if wrong <= most_aside(len(known)) else None


def _believe_others(against: dict[str, set[str]], end: str) -> None:
    """Forget whom a relay contradicts that is set aside."""
    for other in against.pop(end, set()):
        if other in against:
            against[other].discard(end)
            if not against[other]:
                del against[other]
