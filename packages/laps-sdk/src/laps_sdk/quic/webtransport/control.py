"""The critical streams of an HTTP/3 connection: control with SETTINGS, and QPACK.

::

    peer's control stream -------> ControlStream ---> settings, or H3Error
    peer's QPACK streams --------> FieldCoder
    ours: OPENING, the first bytes of our three streams; nothing follows on them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from laps_sdk.quic.webtransport.codepoints import FrameType, H3Code, H3Error, Setting, StreamType
from laps_sdk.quic.webtransport.fields import FieldCoder
from laps_sdk.quic.webtransport.records import (
    CONTROL_FRAMES,
    MAX_FIELD_SECTION,
    Record,
    RecordReader,
    decode_settings,
    encode_record,
    encode_settings,
)
from laps_wire.errors import IncompleteError
from laps_wire.varint import decode_quic, encode_quic

__all__ = ["OPENING", "SETTINGS", "ControlStream", "CriticalStreams", "offers_webtransport"]

SETTINGS: Final[Mapping[int, int]] = {
    Setting.QPACK_MAX_TABLE_CAPACITY: 0,
    Setting.MAX_FIELD_SECTION_SIZE: MAX_FIELD_SECTION,
    Setting.QPACK_BLOCKED_STREAMS: 0,
    Setting.ENABLE_CONNECT_PROTOCOL: 1,
    Setting.H3_DATAGRAM: 1,
    Setting.ENABLE_WEBTRANSPORT_02: 1,
    Setting.MAX_SESSIONS_02: 1,
    Setting.WT_MAX_SESSIONS_07: 1,
    Setting.WT_MAX_SESSIONS_14: 1,
}
"""Our SETTINGS: all codepoints with which the drafts announce WebTransport, one session."""

OPENING: Final = (
    encode_quic(StreamType.CONTROL) + encode_record(FrameType.SETTINGS, encode_settings(SETTINGS)),
    encode_quic(StreamType.QPACK_ENCODER),
    encode_quic(StreamType.QPACK_DECODER),
)
"""The first bytes of our three critical streams; nothing follows on them."""

_SIGNS: Final = (
    Setting.ENABLE_WEBTRANSPORT_02,
    Setting.WT_MAX_SESSIONS_07,
    Setting.WT_MAX_SESSIONS_14,
)


def offers_webtransport(settings: Mapping[int, int]) -> bool:
    """Return whether these SETTINGS of a server offer sessions by any of the drafts."""
    return settings.get(Setting.ENABLE_CONNECT_PROTOCOL) == 1 and any(
        settings.get(sign, 0) > 0 for sign in _SIGNS
    )


class ControlStream:
    """Reads the peer's control stream (RFC 9114, 6.2.1 and 7.2)."""

    __slots__ = ("_from_client", "_goaway", "_max_push", "_reader", "_settled")

    def __init__(self, *, from_client: bool) -> None:
        self._from_client = from_client
        self._reader = RecordReader(CONTROL_FRAMES)
        self._settled = False
        self._goaway: int | None = None
        self._max_push = 0

    def feed(self, data: bytes) -> dict[int, int] | None:
        """Read the next bytes; return the SETTINGS when they are complete, otherwise None.

        Raises ``H3Error`` for a frame that is malformed or not allowed.
        """
        settings: dict[int, int] | None = None
        for record in self._reader.feed(data):
            if record.type == FrameType.SETTINGS:
                if self._settled:
                    raise H3Error(H3Code.FRAME_UNEXPECTED, "a second SETTINGS frame")
                self._settled = True
                settings = decode_settings(record.value)
                continue
            self._frame(record)
        if not self._settled and self._reader.type not in (None, FrameType.SETTINGS):
            raise H3Error(H3Code.MISSING_SETTINGS, "the control stream begins without SETTINGS")
        return settings

    def _frame(self, record: Record) -> None:
        if not self._settled:
            raise H3Error(H3Code.MISSING_SETTINGS, "the control stream begins without SETTINGS")
        number = _only_integer(record)
        if record.type == FrameType.GOAWAY:
            # A server names the first request that it will not serve, a client a push.
            if not self._from_client and number & 3:
                raise H3Error(H3Code.ID_ERROR, f"GOAWAY names {number}, which is no request")
            if self._goaway is not None and number > self._goaway:
                raise H3Error(H3Code.ID_ERROR, "a GOAWAY takes back the one before it")
            self._goaway = number
        elif record.type == FrameType.MAX_PUSH_ID:
            if not self._from_client:
                raise H3Error(H3Code.FRAME_UNEXPECTED, "MAX_PUSH_ID is a client's frame")
            if number < self._max_push:
                raise H3Error(H3Code.ID_ERROR, "MAX_PUSH_ID goes back")
            self._max_push = number
        else:
            raise H3Error(H3Code.ID_ERROR, f"CANCEL_PUSH {number}: there is no push")


class CriticalStreams:
    """The peer's control and QPACK streams: one of each, and none may end (RFC 9114, 6.2.1)."""

    __slots__ = ("_coder", "_control", "_kinds", "settings")

    def __init__(self, coder: FieldCoder, *, from_client: bool) -> None:
        self._coder = coder
        self._control = ControlStream(from_client=from_client)
        self._kinds: dict[int, StreamType] = {}
        self.settings: dict[int, int] | None = None
        """The peer's SETTINGS; None before they arrive."""

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._kinds

    @property
    def takes_datagrams(self) -> bool:
        """Whether the peer's SETTINGS allow HTTP datagrams (RFC 9297, 2.1.1)."""
        return self.settings is not None and self.settings.get(Setting.H3_DATAGRAM) == 1

    def open(self, stream_id: int, kind: StreamType) -> None:
        """Register a stream of this kind; raises ``H3Error`` for the second of a kind."""
        if kind in self._kinds.values():
            raise H3Error(H3Code.STREAM_CREATION_ERROR, f"a second {kind.name} stream")
        self._kinds[stream_id] = kind

    def feed(self, stream_id: int, data: bytes, fin: bool) -> bool:
        """Read the next bytes of a stream; return whether they completed ``settings``."""
        kind = self._kinds[stream_id]
        arrived = None
        if kind == StreamType.QPACK_ENCODER:
            self._coder.feed_encoder_stream(data)
        elif kind == StreamType.QPACK_DECODER:
            self._coder.feed_decoder_stream(data)
        else:
            arrived = self._control.feed(data)
            if arrived is not None:
                self.settings = arrived
        if fin:
            self.lost(stream_id)
        return arrived is not None

    def lost(self, stream_id: int) -> NoReturn:
        """Raise ``H3Error``, because a critical stream ended or was reset."""
        name = self._kinds[stream_id].name
        raise H3Error(H3Code.CLOSED_CRITICAL_STREAM, f"the {name} stream ended")


def _only_integer(record: Record) -> int:
    try:
        number, pos = decode_quic(record.value, 0, len(record.value))
    except IncompleteError:
        pos, number = -1, 0
    if pos != len(record.value):
        raise H3Error(H3Code.FRAME_ERROR, f"frame {record.type:#x} holds not just one integer")
    return number
