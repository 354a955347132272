"""Objects of other relays into the forwarding plane, as the streams of a session.

The alias in a payload is what the o-relay's plane wrote: the key of the track. It must be the track
of the header that the relays on the way went by; anything else is thrown away and counted.
"""

from __future__ import annotations

from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.upstream.bodies import DRAFT
from laps_sdk.upstream.egress import alias_at, alias_of
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.versions import Draft
from laps_wire.peering.laps2 import FLAG_CONTINUED, DataHeader

__all__ = ["PlaneSink"]


class PlaneSink:
    """A :class:`~laps_sdk.upstream.interfaces.DataSink` for one session of the plane."""

    __slots__ = ("_begun", "_draft", "_plane", "_session", "misplaced")

    def __init__(self, plane: ForwardingPlane, session: int, draft: Draft = DRAFT) -> None:
        self._plane = plane
        self._session = session
        self._draft = draft
        self._begun: dict[int, tuple[int, bool, bytes]] = {}
        """Streams whose alias is cut off: the alias that belongs there, and what came."""
        self.misplaced = 0

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> None:
        """A stream of a track began; ``data`` is payload only."""
        if header.payload_format != self._draft.value:
            self.misplaced += 1
            return
        continued = bool(header.flags & FLAG_CONTINUED)
        self._begin(now, stream, alias_of(header.track), data, fin, continued=continued)

    def _begin(
        self, now: float, stream: int, expected: int, data: bytes, fin: bool, *, continued: bool
    ) -> None:
        alias = alias_at(data, self._draft)
        if alias is None and not fin:
            self._begun[stream] = (expected, continued, data)
        elif alias != expected:
            self.misplaced += 1
        else:
            kind = StreamKind.SUBGROUP
            self._plane.stream_opened(
                now, self._session, stream, kind, data, fin, continued=continued
            )

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        """More of it."""
        begun = self._begun.pop(stream, None)
        if begun is None:
            self._plane.stream_data(now, self._session, stream, data, fin)
        else:
            expected, continued, before = begun
            self._begin(now, stream, expected, before + data, fin, continued=continued)

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """It was abandoned, or its session ended."""
        self._begun.pop(stream, None)
        self._plane.stream_reset(now, self._session, stream, code)

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        """An object."""
        alias = alias_at(payload, self._draft)
        if header.payload_format != self._draft.value or alias != alias_of(header.track):
            self.misplaced += 1
            return
        self._plane.datagram(now, self._session, payload)
