"""Passes objects of other relays to the forwarding plane, as the streams of a session.

The o-relay's plane writes the key of the track as the alias in a payload. The alias must match the
track in the data header. The sink drops and counts streams and datagrams that do not match.
"""

from __future__ import annotations

from typing import Final

from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.upstream.bodies import DRAFT
from laps_sdk.upstream.egress import alias_at, alias_of
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.versions import Draft
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import FLAG_CONTINUED, DataHeader

__all__ = ["REPAIRED", "PlaneSink"]

REPAIRED: Final = frozenset({StreamCode.LOST, StreamCode.OVERLOADED, StreamCode.UNKNOWN_SNS})
"""Codes of streams that another relay can send again. The others are final (laps-2, 6.6)."""


class PlaneSink:
    """A :class:`~laps_sdk.upstream.interfaces.DataSink` for one session of the plane."""

    __slots__ = ("_begun", "_draft", "_plane", "_repairs", "_session", "misplaced")

    def __init__(
        self,
        plane: ForwardingPlane,
        session: int,
        draft: Draft = DRAFT,
        *,
        repairs: bool = False,
    ) -> None:
        """``repairs``: whether another stream can bring the rest of one that was lost."""
        self._plane = plane
        self._session = session
        self._draft = draft
        self._repairs = repairs
        self._begun: dict[int, tuple[int, bool, bytes]] = {}
        """Streams with an incomplete alias: expected alias, ``continued``, and the bytes so far."""
        self.misplaced = 0

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> None:
        """Open a stream of a track; ``data`` is payload only."""
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
        """Take the next chunk of a stream."""
        begun = self._begun.pop(stream, None)
        if begun is None:
            self._plane.stream_data(now, self._session, stream, data, fin)
        else:
            expected, continued, before = begun
            self._begin(now, stream, expected, before + data, fin, continued=continued)

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """End a stream that its sender reset, or that was lost with its path."""
        self._begun.pop(stream, None)
        if self._repairs and code in REPAIRED:
            self._plane.stream_lost(now, self._session, stream)
        else:
            self._plane.stream_reset(now, self._session, stream, code)

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        """Take an object that came as a datagram."""
        alias = alias_at(payload, self._draft)
        if header.payload_format != self._draft.value or alias != alias_of(header.track):
            self.misplaced += 1
            return
        self._plane.datagram(now, self._session, payload)
