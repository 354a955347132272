"""Load of relays and links under a draft, and their spare capacity.

Every copy counts: over a Via, sent directly by an origin, or sent within the region of the origin.
A relay sends each copy once. So an origin sends one copy for every target that it serves itself,
and one for every Via of a track.

A *reserve* is the load that a resource gets if one Via fails and its cells use their fallbacks. It
must fit into the full capacity. Planned load must fit into the share that headroom leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from laps_analytics.plan.core.network import Floats
from laps_analytics.plan.core.placement import DIRECT, GONE, Draft
from laps_analytics.plan.core.rules import capacities

__all__ = ["ROUNDING", "Loads", "Resource"]

ROUNDING: Final = 1e-3
"""Difference in bits a second that may come from the order of additions."""

Resource = tuple[int, ...]
"""A relay, or a link as two relays."""


class Loads:
    """Spare capacity of relays and links.

    ``vias`` has a Via for each cell; by default those of the draft.
    """

    def __init__(self, draft: Draft, vias: Sequence[int] | None = None) -> None:
        self._draft = draft
        self._vias = draft.via if vias is None else vias
        self.node_spare, self.link_spare = capacities(draft.network, draft.policy)
        self._node_rest, self._link_rest = _rest(draft)
        self._uses: dict[tuple[int, int], int] = {}
        self._reserved: dict[Resource, dict[int, float]] = {}
        """Reserved rate by resource and failing Via."""
        self._second_uses: dict[tuple[int, int, int], int] = {}
        """Number of uses by group, failing Via and fallback."""
        planned: dict[int, set[int]] = {}
        for cell in draft.cells:
            planned.setdefault(cell.group, set()).update(cell.members)
        for number, group in enumerate(draft.groups):
            rest = set(range(len(group.targets))) - planned.get(number, set())
            if rest:
                self._send(group.origin, [group.targets[member] for member in rest], group.rate_bps)
        for number, via in enumerate(self._vias):
            self._put(number, via, 1)

    def targets(self, number: int) -> list[int]:
        """Return the rows of the targets of a cell."""
        cell = self._draft.cells[number]
        group = self._draft.groups[cell.group]
        return [group.targets[member] for member in cell.members]

    def _send(self, relay: int, targets: Sequence[int], rate: float) -> None:
        self.node_spare[relay] -= rate * len(targets)
        self.link_spare[relay, targets] -= rate

    def _put(self, number: int, via: int, sign: int) -> None:
        cell = self._draft.cells[number]
        group = self._draft.groups[cell.group]
        rate = group.rate_bps * sign
        if via == GONE:
            return
        self._send(group.origin if via == DIRECT else via, self.targets(number), rate)
        if via != DIRECT:
            used = self._uses.get((cell.group, via), 0) + sign
            self._uses[cell.group, via] = used
            if used == (1 if sign > 0 else 0):
                self._send(group.origin, [via], rate)

    def move(self, number: int, via: int) -> None:
        """Give a cell of the draft another Via."""
        self._put(number, self._draft.via[number], -1)
        self._put(number, via, 1)
        self._draft.via[number] = via

    # Room

    def remove(self, number: int) -> None:
        """Take the load of a cell off its resources; :meth:`restore` adds it again."""
        self._put(number, self._draft.via[number], -1)

    def restore(self, number: int) -> None:
        """Add the load of a removed cell again."""
        self._put(number, self._draft.via[number], 1)

    def fits(self, number: int, via: int) -> bool:
        """Return whether a removed cell fits on a Via, or on the direct path."""
        group = self._draft.groups[self._draft.cells[number].group]
        origin, rate, targets = group.origin, group.rate_bps, self.targets(number)
        if via == DIRECT:
            return self._has_room((origin,), rate * len(targets)) and all(
                self._has_room((origin, target), rate) for target in targets
            )
        first = 0.0 if self._uses.get((self._draft.cells[number].group, via), 0) else rate
        # One copy in the place of several: an origin is never worse off than it is now.
        eased = self._draft.via[number] == DIRECT or self._has_room((origin,), first)
        return (
            eased
            and self._has_room((via,), rate * len(targets))
            and self._has_room((origin, via), first)
            and all(self._has_room((via, target), rate) for target in targets)
        )

    def _has_room(self, resource: Resource, rate: float) -> bool:
        spare = self.spare(resource) - rate
        reserved = max(self._reserved.get(resource, {}).values(), default=0.0)
        return spare >= 0 and spare + self._rest_of(resource) >= reserved

    def spare(self, resource: Resource) -> float:
        """Return the spare capacity of a relay or link; negative if it is overloaded."""
        return float(
            self.node_spare[resource[0]] if len(resource) == 1 else self.link_spare[resource]
        )

    def _rest_of(self, resource: Resource) -> float:
        return float(
            self._node_rest[resource[0]] if len(resource) == 1 else self._link_rest[resource]
        )

    # Second ways

    def second(self, number: int, via: int) -> int | None:
        """Return the cheapest fallback with room for a cell if ``via`` failed; None without one."""
        draft = self._draft
        total = draft.tables[number].cost + draft.choices.first_legs(
            draft.groups[draft.cells[number].group]
        )
        for at in np.argsort(total, kind="stable"):
            if not np.isfinite(total[at]):
                break
            other = int(draft.choices.candidates[at])
            if other != via and all(
                self.spare(resource) + self._rest_of(resource)
                >= self._reserved.get(resource, {}).get(via, 0.0) + rate
                for resource, rate in self._taken_over(number, via, other)
            ):
                return other
        return None

    def reserve(self, number: int, via: int, second: int) -> None:
        """Reserve capacity for a fallback."""
        for resource, rate in self._taken_over(number, via, second):
            kept = self._reserved.setdefault(resource, {})
            kept[via] = kept.get(via, 0.0) + rate
        key = self._draft.cells[number].group, via, second
        self._second_uses[key] = self._second_uses.get(key, 0) + 1

    def release(self) -> None:
        """Release all reserves."""
        self._reserved.clear()
        self._second_uses.clear()

    def _taken_over(self, number: int, via: int, second: int) -> list[tuple[Resource, float]]:
        """Return the load of a fallback if the first Via fails."""
        cell = self._draft.cells[number]
        group = self._draft.groups[cell.group]
        rate, targets = group.rate_bps, self.targets(number)
        found: list[tuple[Resource, float]] = [((second,), rate * len(targets))]
        found += [((second, target), rate) for target in targets]
        known = self._uses.get((cell.group, second), 0)
        if not known and not self._second_uses.get((cell.group, via, second), 0):
            found.append(((group.origin, second), rate))
        return found

    # Crowds

    def resources(self, number: int) -> list[Resource]:
        """Return the relay and the links that a cell loads."""
        via = self._vias[number]
        origin = self._draft.groups[self._draft.cells[number].group].origin
        if via == GONE:
            return []
        source = origin if via == DIRECT else via
        found: list[Resource] = [(source,), *((source, target) for target in self.targets(number))]
        return found if via == DIRECT else [*found, (origin, via)]

    def is_over(self, resource: Resource) -> bool:
        """Return whether a resource is overloaded."""
        return self.spare(resource) < -ROUNDING

    def over(self) -> set[Resource]:
        """Return the overloaded relays and links."""
        nodes = np.flatnonzero(self.node_spare < -ROUNDING)
        links = np.argwhere(self.link_spare < -ROUNDING)
        return {(int(node),) for node in nodes} | {(int(a), int(b)) for a, b in links}

    def overloaded(self) -> list[tuple[Resource, list[int]]]:
        """Return the overloaded resources, worst first, each with its cells."""
        over = self.over()
        users: dict[Resource, list[int]] = {}
        for number in range(len(self._vias)) if over else ():
            for resource in self.resources(number):
                if resource in over:
                    users.setdefault(resource, []).append(number)
        return [
            (resource, users[resource])
            for resource in sorted(users, key=lambda s: (self.spare(s), s))
        ]


def _rest(draft: Draft) -> tuple[Floats, Floats]:
    """Return the capacity that headroom reserves, of relays and of links."""
    share = 1 - draft.policy.headroom
    nodes = np.array([node.capacity_bps for node in draft.network.nodes])
    # Of what is not limited, nothing is nothing.
    rest = [
        np.where(np.isinf(room), np.inf, room * share)
        for room in (nodes, draft.network.capacity_bps)
    ]
    return rest[0], rest[1]
