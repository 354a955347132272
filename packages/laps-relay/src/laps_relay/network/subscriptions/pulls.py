"""A track that others get from us: who, whether a way leads there, and what they were told.

::

    a way leads there, and the publisher has accepted   --> ACCEPTED
    policy forbids every way                            --> POLICY, at once; if the relay can be
                                                            dialled, it has a moment for that
    there is no way now                                 --> UNREACHABLE, after a grace
    there is one again, and it lasts                    --> ACCEPTED

Who gets nothing stays in the list: ways are looked for, and when there is one the data goes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Stamp, SubscribeCode, SubscribeData, SubscribeInfo

__all__ = ["Lack", "Pull", "Word"]

_SURE: Final = 1.0
"""How long a way must last before it is told to who was told that there is none, in seconds.

A relay on the way may refuse it, and be tried again now and then."""


class Lack(NamedTuple):
    """Why data does not get to somebody who may have it."""

    code: SubscribeCode
    reason: str
    patience: float = 0.0
    """How long a way may take to come before this is said, in seconds."""


class Word(NamedTuple):
    """What somebody is to be told."""

    code: SubscribeCode
    reason: str = ""


class Pull:
    """A track that somebody in the network gets from us."""

    __slots__ = ("_lacks", "_said", "_since", "answer", "name", "takers", "targets")

    def __init__(self, name: FullTrackName) -> None:
        self.name = name
        self.answer: SubscribeData | None = None
        """The publisher's own answer; None until it has accepted."""
        self.takers: dict[NodeId, SubscribeInfo] = {}
        """s-relays."""
        self.targets: frozenset[NodeId] = frozenset()
        self._lacks: dict[NodeId, Lack] = {}
        self._since: dict[NodeId, float] = {}
        """When a taker last got a way, or lost it; not there: nobody has looked yet."""
        self._said: dict[NodeId, tuple[Stamp, SubscribeCode]] = {}

    def remove(self, source: NodeId) -> bool:
        """Somebody does not take it any more; whether it did."""
        if self.takers.pop(source, None) is None:
            return False
        for each in (self._lacks, self._since, self._said):
            each.pop(source, None)
        return True

    def believes(self, source: NodeId) -> bool:
        """Whether the last that somebody was told is that it gets the track."""
        said = self._said.get(source)
        return said is not None and said[1] is SubscribeCode.ACCEPTED

    def led(self, now: float, wanted: Iterable[NodeId], lacks: Mapping[NodeId, Lack]) -> None:
        """Ways were looked for: these are all that should get data, and those do not."""
        for source in wanted:
            if source not in self.takers:
                continue
            lack = lacks.get(source)
            if source not in self._since or (lack is None) != (source not in self._lacks):
                self._since[source] = now
            if lack is None:
                self._lacks.pop(source, None)
            else:
                self._lacks[source] = lack

    def word(self, now: float, source: NodeId) -> Word | float | None:
        """What a taker is to be told now, once; or when to ask again; or nothing."""
        since, lack = self._since.get(source), self._lacks.get(source)
        if since is None or (lack is None and self.answer is None):
            return None
        stamp, code = self.takers[source].stamp, SubscribeCode.ACCEPTED
        said = self._said.get(source)
        if lack is None:
            word = Word(code)
            due = since if said is None or said[1] is code else since + _SURE
        else:
            word = Word(lack.code, lack.reason)
            due = since + lack.patience
        if said == (stamp, word.code):
            return None
        if now < due:
            return due
        self._said[source] = stamp, word.code
        return word
