"""Everything about subscriber node sets in one session: both tables, early data, and messages.

The tables themselves are :mod:`~laps_wire.peering.session.sns` and
:mod:`~laps_wire.peering.session.unknown`. Here they meet: what a message of the peer does to them,
which events that gives, and what is to be said in return.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import Bases, SnsRefusal
from laps_wire.peering.laps2.limits import MAX_SCOPE_BYTES, MAX_TARGETS
from laps_wire.peering.laps2.settings import Settings
from laps_wire.peering.session.dialect import Dialect, SnsChange, SnsDescription, SnsOperation
from laps_wire.peering.session.events import (
    DataDropped,
    SnsAdvertised,
    SnsWithdrawn,
)
from laps_wire.peering.session.sns import (
    SnsDiff,
    SnsReceiver,
    SnsRejection,
    SnsSender,
    SnsStanding,
)
from laps_wire.peering.session.unknown import Dropped, UnknownBuffer

__all__ = ["MAX_MISSED_SETS", "Effect", "ForwardingState"]

Effect: TypeAlias = "SnsAdvertised | SnsWithdrawn | DataDropped | SnsRejection"
"""An event, or a rejection that is to be sent to the peer."""

MAX_MISSED_SETS: Final = 1_024
"""How many missing sets are remembered as having been told to the peer."""

_MESSAGE_OVERHEAD: Final = 64 + MAX_SCOPE_BYTES
"""More than the frame and the other fields of a message about a set can take."""


class ForwardingState:
    """The sets of one session: ``sender`` has ours, ``receiver`` the peer's.

    It is there before the peer has said what it takes (:meth:`meet`), because data of the peer may
    overtake that.
    """

    __slots__ = ("_dialect", "_missed", "receiver", "sender", "unknown")

    def __init__(self, dialect: Dialect, local: Settings) -> None:
        self._dialect = dialect
        # Sets that we have told the peer are missing, oldest first: it is told once for each.
        self._missed: dict[int, None] = {}
        self.sender = SnsSender(max_sets=0, max_targets=0)
        self.receiver = SnsReceiver(
            max_sets=local.max_sns_sets,
            max_targets=local.max_sns_targets,
            ordered=dialect.ordered_sns,
        )
        self.unknown: UnknownBuffer[Any] = UnknownBuffer(
            seconds=local.unknown_sns_ms / 1000, max_bytes=local.unknown_sns_bytes
        )

    def meet(self, peer: Settings) -> None:
        """The peer said what it takes: sets can be made."""
        self.sender = SnsSender(
            max_sets=peer.max_sns_sets,
            max_targets=peer.max_sns_targets,
            chunk=min(MAX_TARGETS, (peer.max_message_size - _MESSAGE_OVERHEAD) // 8),
            last=self._dialect.first_sns_id - 1,
        )

    # What the peer says

    def receive(self, message: Any) -> Iterator[Effect]:
        """The peer made, changed or ended sets."""
        for operation in self._dialect.read_sns(message):
            yield from self._apply(operation)

    def _apply(self, operation: SnsOperation) -> Iterator[Effect]:
        sns_id = operation.sns_id
        before = self.receiver.get(sns_id)
        result: SnsDiff | SnsRejection
        if isinstance(operation, SnsDescription):
            version = operation.version
            if version is None:
                version = 1 if before is None else before.version + 1
            result = self.receiver.advertise(
                sns_id, version, operation.targets, hops=operation.hops, scope=operation.scope
            )
        elif isinstance(operation, SnsChange):
            result = self.receiver.update(
                sns_id, operation.version, operation.add, operation.remove
            )
        else:
            yield from self._ended(self.receiver.withdraw(sns_id))
            return
        if isinstance(result, SnsRejection):
            yield from self._rejected(result, lived=before is not None)
            return
        after = self.receiver.get(sns_id)
        if after is None:
            return  # a change to a set that we do not serve
        self._missed.pop(sns_id, None)
        released = self.unknown.release(sns_id)
        if (
            result
            or released
            or before is None
            or (before.hops, before.scope) != (after.hops, after.scope)
        ):
            yield SnsAdvertised(
                sns_id=sns_id,
                version=after.version,
                hops=after.hops,
                targets=after.targets,
                added=result.added,
                removed=result.removed,
                released=released,
                scope=after.scope,
            )

    def _ended(self, diff: SnsDiff) -> Iterator[Effect]:
        if diff.version:
            yield SnsWithdrawn(sns_id=diff.sns_id, targets=diff.removed)
        yield from _dropped(self.unknown.discard(diff.sns_id))

    def _rejected(self, rejection: SnsRejection, *, lived: bool) -> Iterator[Effect]:
        if lived:
            yield SnsWithdrawn(sns_id=rejection.sns_id, targets=rejection.removed)
        yield from _dropped(self.unknown.discard(rejection.sns_id))
        yield rejection

    def end_sync(self) -> Iterator[Effect]:
        """The peer has named all its sets."""
        for diff in self.receiver.end_sync():
            yield from self._ended(diff)
        # After a move data of every ID waits; from now on only that of later ones (6.2).
        for sns_id in sorted(self.unknown.ids):
            if self.receiver.standing(sns_id) is SnsStanding.GONE:
                yield from _dropped(self.unknown.discard(sns_id))

    # What we say

    def advertise(
        self, targets: Iterable[NodeId], hops: int, scope: str = ""
    ) -> tuple[int, list[Any]]:
        """Make a set; gives its id and the messages that describe it."""
        steps = self.sender.advertise(targets, hops=hops, scope=scope)
        made = self.sender[steps[0].sns_id]
        return made.sns_id, list(self._dialect.write_sns(steps, made, whole=True))

    def update(self, sns_id: int, targets: Iterable[NodeId]) -> list[Any]:
        """Change a set; gives the messages for it, none if nothing changed."""
        steps = self.sender.update(sns_id, targets)
        if not steps:
            return []
        return list(self._dialect.write_sns(steps, self.sender[sns_id], whole=False))

    def withdraw(self, sns_id: int, *, empty: bool = False) -> list[Any]:
        """End a set, with ``empty`` for all its targets before; gives the messages for it."""
        messages: list[Any] = []
        if empty:
            steps = self.sender.empty(sns_id)
            messages += self._dialect.write_sns(steps, self.sender[sns_id], whole=False)
        self.sender.withdraw(sns_id)
        return [*messages, self._dialect.write_sns_end(sns_id)]

    def synchronise(self) -> Iterator[Any]:
        """The messages that name all our sets anew; none if the dialect can not do it."""
        begin = self._dialect.sync(Bases.SNS, begin=True)
        if begin is None:
            return
        yield begin
        for steps in self.sender.renew():
            yield from self._dialect.write_sns(steps, self.sender[steps[0].sns_id], whole=True)
        yield self._dialect.sync(Bases.SNS, begin=False)

    # Data before its set

    def hold(
        self, now: float, sns_id: int, item: Any, size: int
    ) -> tuple[SnsStanding, tuple[Dropped[Any], ...]]:
        """Data came in whose set the forwarding plane does not have."""
        standing = self.receiver.standing(sns_id)
        if standing is SnsStanding.UNKNOWN:
            return standing, self.unknown.hold(now, sns_id, item, size)
        if standing is SnsStanding.GONE:
            return standing, (self.unknown.refuse(sns_id, item, size),)
        return standing, ()

    def expire(self, now: float) -> Iterator[Effect]:
        """Drop what has waited long enough, and tell the peer which sets were missing."""
        dropped = self.unknown.expire(now)
        yield from _dropped(dropped)
        for sns_id in sorted({each.sns_id for each in dropped}):
            if sns_id in self._missed:
                continue
            self._missed[sns_id] = None
            if len(self._missed) > MAX_MISSED_SETS:
                del self._missed[next(iter(self._missed))]
            yield SnsRejection(sns_id, 0, SnsRefusal.UNKNOWN_SET)

    def clear(self) -> Iterator[DataDropped]:
        """The session has ended."""
        self.sender.clear()
        self.receiver.clear()
        self._missed.clear()
        yield from _dropped(self.unknown.clear())


def _dropped(dropped: tuple[Dropped[Any], ...]) -> Iterator[DataDropped]:
    if dropped:
        yield DataDropped(dropped=dropped)
