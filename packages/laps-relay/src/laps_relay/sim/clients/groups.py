"""What the ledger is about: flows, their groups, who has a track when, what was given up."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Flow", "Flows", "GivenUp", "Group", "Interval"]


class Interval:
    """How long a relay has had a track: from the answer to the end of its interest."""

    __slots__ = ("contact", "end", "key", "start")

    def __init__(self, contact: str, key: int, start: float) -> None:
        self.contact = contact
        self.key = key
        self.start = start
        self.end: float | None = None


class GivenUp(NamedTuple):
    """What a relay did not send of a group to the next one."""

    receiver: str
    targets: frozenset[str] | None
    """Contacts that it was for, by the set that it would have gone to; None: that has ended."""
    code: int | None
    """With which the stream was reset; None: its connection ended, and others say why."""


class Group:
    """One stream's worth of objects, or of datagrams."""

    __slots__ = (
        "began",
        "came",
        "datagrams",
        "ended",
        "flow",
        "given_up",
        "got",
        "links",
        "number",
        "sent",
        "whole",
    )

    def __init__(self, flow: Flow, number: int, began: float, datagrams: bool) -> None:
        self.flow = flow
        self.number = number
        self.began = began
        self.ended = began
        self.datagrams = datagrams
        self.sent = 0
        """Objects."""
        self.whole = False
        """Whether its publisher finished it."""
        self.got: dict[str, int] = {}
        """By contact of the receiver: a bit for each object."""
        self.links: dict[tuple[str, str, int, int], int] = {}
        """Where it went, and how often: sender, receiver, (first) object, o-relay if it may have
        several."""
        self.came: dict[tuple[str, int], int] = {}
        """How often it was sent to a relay: receiver, (first) object."""
        self.given_up: tuple[GivenUp, ...] = ()
        """What of it was not sent, because it had waited too long or too much waited."""

    def explained(
        self, contact: str, also: tuple[GivenUp, ...] = (), *, code: int | None = None
    ) -> bool:
        """Whether something on its way to a receiver was given up (with a code)."""
        return any(
            each.targets is None or contact in each.targets or self.behind(each.receiver, contact)
            for each in (*self.given_up, *also)
            if code is None or each.code is None or each.code == code
        )

    def behind(self, relay: str, contact: str) -> bool:
        """Whether it went from one relay to another."""
        seen = {relay}
        todo = [relay]
        while todo:
            at = todo.pop()
            if at == contact:
                return True
            for sender, receiver, *_ in self.links:
                if sender == at and receiver not in seen:
                    seen.add(receiver)
                    todo.append(receiver)
        return False


class Flow:
    """One publication of one track by one life of a publisher."""

    __slots__ = ("contact", "endless", "groups", "key", "number", "over", "scope")

    def __init__(self, number: int, contact: str, key: int, scope: str) -> None:
        self.number = number
        self.contact = contact
        self.key = key
        self.scope = scope
        self.groups: dict[int, Group] = {}
        self.endless = False
        """Whether all of it is one stream: each object counts as a group of its own then."""
        self.over = False
        """Whether that stream was ended."""


class Flows:
    """All flows, by number."""

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: dict[int, Flow] = {}

    def begin(self, contact: str, key: int, scope: str) -> Flow:
        """A new flow."""
        flow = Flow(len(self.all) + 1, contact, key, scope)
        self.all[flow.number] = flow
        return flow
