"""How the stream of a subgroup begins: at once, behind another one, or later than what it overtook.

::

    stream 1   | header | object 0 | object 1 | cut --------- slow way ------------> begins
    stream 2   | header, CONTINUED | object 2 | ... --> Early --------> stands by ---'

A stream that goes on with a subgroup (see ``continuing``) may come before the one with the
beginning. Begun with, what comes behind it would be too late. So it waits, if the beginning is for
us as well: whoever has just joined gets nothing of it. Who has had a stream of an older subgroup
from its first object on was there when this one began.

How long it waits follows from what comes: as long as there is still something of groups that are
not newer, the way that it takes is only slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from laps_sdk.forwarding.coding import CANCELLED, MALFORMED_TRACK
from laps_sdk.forwarding.continuing import is_under_way
from laps_sdk.forwarding.feed import Feed
from laps_sdk.forwarding.standby import Standby
from laps_wire.errors import IncompleteError

if TYPE_CHECKING:
    from laps_sdk.forwarding.group import Group
    from laps_sdk.forwarding.scan import RunParser
    from laps_sdk.forwarding.state import Handler, Session, Source
    from laps_sdk.forwarding.track import Track
    from laps_wire.moqt.data.types import SubgroupHeader

__all__ = ["Arrival", "Early", "begin"]

_COST: Final = 256
"""What a stream that waits is counted as beyond its bytes, so that empty ones fill the room too."""


class Arrival(NamedTuple):
    """A stream whose header was read."""

    session: Session
    stream_id: int
    parser: RunParser
    header: SubgroupHeader
    subgroup_id: int
    continued: bool = False
    """Whether its beginning is on another stream."""


def begin(now: float, arrival: Arrival, source: Source, rest: bytes, fin: bool) -> None:
    """Forward a stream whose track is known."""
    session, stream_id, _, header, subgroup_id, continued = arrival
    source.streams += 1
    if source.track in session.malformed:
        session.stop(stream_id, MALFORMED_TRACK)
        return
    group = source.track.group(header.group_id)
    if not continued:
        source.began_with(header.group_id, subgroup_id)
    elif _overtook(source, group, subgroup_id):
        early = session.streams[stream_id] = Early(now, arrival, group)
        early.data(now, rest, fin)
        return
    _forward(now, arrival, source, group, rest, fin)


def _overtook(source: Source, group: Group, subgroup_id: int) -> bool:
    """Whether the beginning of a subgroup is still to come, for us too."""
    since = source.since
    return (
        since is not None
        and since < (group.group_id, subgroup_id)
        and subgroup_id not in group.feeds
        and subgroup_id not in group.broken
    )


def _forward(
    now: float, arrival: Arrival, source: Source, group: Group, rest: bytes, fin: bool
) -> None:
    """Be the stream that brings a subgroup, or one behind it."""
    session, stream_id, parser, header, subgroup_id, _ = arrival
    first = group.feeds.get(subgroup_id)
    handler: Handler
    if first is None:
        handler = Feed(session, stream_id, parser, header, subgroup_id, group, source.priority)
    else:
        handler = Standby(session, stream_id, parser, header, first, source.priority)
    session.streams[stream_id] = handler
    # Before its own bytes: its end may be among them, and one of these is next.
    for early in group.early.pop(subgroup_id, ()):
        early.begin(now)
    if rest or fin:
        handler.data(now, rest, fin)


class Early:
    """A stream that came before the beginning of its subgroup."""

    __slots__ = ("_arrival", "_chunks", "_fin", "_group", "_since", "_size")

    def __init__(self, now: float, arrival: Arrival, group: Group) -> None:
        self._arrival = arrival
        self._group = group
        self._since = now
        self._chunks: list[bytes] = []
        self._size = _COST
        self._fin = False
        arrival.session.early_bytes += _COST
        group.early.setdefault(arrival.subgroup_id, []).append(self)
        state = arrival.session.state
        state.timers.set(self.late, now + state.limits.continued_time)

    @property
    def track(self) -> Track:
        """What it belongs to."""
        return self._group.track

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it: kept, if there is room; else it is the beginning."""
        session, size = self._arrival.session, len(data)
        self._chunks.append(data)
        self._size += size
        self._fin = fin
        session.early_bytes += size
        if session.early_bytes > session.state.limits.early_bytes:
            self._give_up(now)

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Handler
        """Nobody saw anything of it."""
        subgroup_id = self._arrival.subgroup_id
        others = [each for each in self._group.early.pop(subgroup_id, ()) if each is not self]
        if others:
            self._group.early[subgroup_id] = others
        self._leave()

    def late(self, now: float) -> None:
        """The beginning has not come: wait on only while it may just be slow."""
        state = self._arrival.session.state
        if is_under_way(now, self._group, self._since, state.limits):
            state.timers.set(self.late, now + state.limits.continued_time)
        else:
            self._give_up(now)

    def begin(self, now: float) -> None:
        """Do what it would have done if it had come now."""
        arrival = self._arrival
        session, stream_id = arrival.session, arrival.stream_id
        self._leave()
        source = session.sources.get(arrival.header.track_alias)
        if source is not None:
            _forward(now, arrival, source, self._group, b"".join(self._chunks), self._fin)
        elif not self._fin:
            session.stop(stream_id, CANCELLED)
        if self._fin:
            session.streams.pop(stream_id, None)

    def _give_up(self, now: float) -> None:
        """The beginning does not come: the earliest of those that wait is the first one."""
        subgroup_id = self._arrival.subgroup_id
        first, *others = sorted(self._group.early.pop(subgroup_id), key=Early._first_id)
        if others:
            self._group.early[subgroup_id] = others
        first.begin(now)

    def _first_id(self) -> int:
        """The object with which it begins; the highest number if that is not here."""
        data = b"".join(self._chunks)
        try:
            return self._arrival.session.draft.integers.decode(data, 0, len(data))[0]
        except IncompleteError:
            return 1 << 62

    def _leave(self) -> None:
        session = self._arrival.session
        session.state.timers.cancel(self.late)
        session.early_bytes -= self._size
