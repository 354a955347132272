"""Object datagrams: read once, written once for each draft and alias.

::

    | type | alias | group | object | ...          type and alias stand in front, so a receiver's
    | type | alias'| ------ the same bytes ----->  datagram is three pieces joined
"""

from __future__ import annotations

from laps_sdk.forwarding.cache import Segment
from laps_sdk.forwarding.coding import translate_extensions
from laps_sdk.forwarding.track import Group, Receiver, Session, Source
from laps_wire.errors import EncodeError
from laps_wire.moqt.data.datagram import (
    ObjectDatagram,
    PaddingDatagram,
    decode_datagram,
    encode_datagram,
)
from laps_wire.moqt.data.types import ObjectHeader, SubgroupHeader
from laps_wire.moqt.versions import Draft

__all__ = ["Datagrams", "take_datagram"]


class Datagrams:
    """One object as the datagrams of all its receivers."""

    __slots__ = ("_cores", "_data", "_datagram", "_draft", "_whole")

    def __init__(self, datagram: ObjectDatagram, draft: Draft, data: bytes | None = None) -> None:
        self._datagram = datagram
        self._draft = draft
        self._data = data
        self._cores: dict[Draft, tuple[bytes, bytes] | None] = {}
        self._whole: dict[tuple[Draft, int], bytes] = {}

    def encoded(self, draft: Draft, alias: int) -> bytes | None:
        """For receivers of a draft that know the track by ``alias``; None: it cannot be said."""
        key = (draft, alias)
        whole = self._whole.get(key)
        if whole is not None:
            return whole
        if draft not in self._cores:
            self._cores[draft] = self._core(draft)
        core = self._cores[draft]
        if core is None:
            return None
        whole = self._whole[key] = core[0] + draft.integers.encode(alias) + core[1]
        return whole

    def _core(self, draft: Draft) -> tuple[bytes, bytes] | None:
        """What stands before the alias, and what stands behind it."""
        data, datagram = self._data, self._datagram
        if data is not None and draft is self._draft:
            decode, end = draft.integers.decode, len(data)
            _, first = decode(data, 0, end)
            _, second = decode(data, first, end)
            return data[:first], data[second:]
        try:
            extensions = translate_extensions(datagram.extensions, self._draft, draft)
            data = encode_datagram(datagram._replace(track_alias=0, extensions=extensions), draft)
        except EncodeError:
            return None
        return data[:1], data[2:]  # a type below 0x40 and the alias 0 are a byte each

    def send(self, now: float, receiver: Receiver) -> None:
        """To one receiver."""
        session = receiver.session
        data = self.encoded(receiver.draft, receiver.entry.alias)
        egress, timeout = session.egress, receiver.timeout
        if (
            data is not None
            and len(data) <= egress.max_datagram_size
            and egress.send_datagram(data, None if timeout is None else now + timeout)
        ):
            receiver.datagrams += 1
            session.service.began(now)
            receiver.objects += 1
            receiver.bytes += len(self._datagram.payload)
            track = receiver.track
            track.datagrams_out += 1
            track.objects_out += 1
            track.bytes_out += len(self._datagram.payload)
            if receiver.tally is not None:
                receiver.tally.sent(1, len(self._datagram.payload))
        else:
            receiver.dropped_datagrams += 1
            session.service.gaps += 1
            receiver.track.dropped_objects += 1
            receiver.track.dropped_bytes += len(self._datagram.payload)


def take_datagram(now: float, session: Session, data: bytes) -> int | None:
    """Send a datagram to everyone who wants it, and keep it.

    Returns its alias if that is not known: then the datagram has to wait.
    """
    draft = session.draft
    datagram = decode_datagram(data, draft)
    if isinstance(datagram, PaddingDatagram):
        return None
    source = session.sources.get(datagram.track_alias)
    intake = session.intakes.get(datagram.track_alias) if source is None else None
    if intake is not None:
        intake.taker.take(now, session.number, datagram.payload)
        return None
    if source is None:
        return datagram.track_alias
    if source.track not in session.malformed:
        _forward(now, session, source, datagram, data)
    return None


def _forward(
    now: float, session: Session, source: Source, datagram: ObjectDatagram, data: bytes
) -> None:
    """Send an object to everyone who wants it, and keep it."""
    track, draft = source.track, session.draft
    track.datagrams_in += 1
    group = track.group(datagram.group_id)
    head = datagram.to_object().header
    if not track.admit(group, head, draft):
        return
    if datagram.end_of_group:
        group.end_at(datagram.object_id)
    track.objects_in += 1
    track.bytes_in += len(datagram.payload)
    tally = track.tally(session)
    if tally is not None:
        tally.came(1, len(datagram.payload))
    _keep(now, session, group, head, datagram.payload, source.priority)
    datagrams = Datagrams(datagram, draft, data)
    group_id, object_id = datagram.group_id, datagram.object_id
    for receiver in tuple(track.receivers):
        if receiver.wants(group_id, object_id) and receiver.takes_from(session.number):
            datagrams.send(now, receiver)
    track.check_done()


def _keep(
    now: float,
    session: Session,
    group: Group,
    head: ObjectHeader,
    payload: bytes,
    default_priority: int,
) -> None:
    """Put a datagram's object into the cache, behind the one before it if that is possible."""
    cache = session.state.cache
    segment = group.datagrams
    if (
        segment is None
        or not segment.cost
        or head.object_id <= segment.last_id
        or segment.header.priority != head.priority
        or segment.default_priority != default_priority
        or segment.draft is not session.draft
        or segment.origin != session.number
        or cache.is_closed(now, segment)
    ):
        header = SubgroupHeader(0, group.group_id, 0, head.priority, has_extensions=True)
        segment = group.datagrams = Segment(
            group,
            header,
            None,
            session.draft,
            base=-1,
            default_priority=default_priority,
            born=now,
            origin=session.number,
        )
        cache.add(segment)
    segment.append_object(now, head, payload)
    cache.grew(segment, 1)
