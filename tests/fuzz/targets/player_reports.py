"""Reports of players: what is read is written, and read again as the same."""

from __future__ import annotations

from laps_wire.errors import EncodeError
from laps_wire.reports import MAX_OBJECT, ReportError, decode_reports, encode_reports


def one_input(data: bytes) -> None:
    try:
        reports = decode_reports(data)
    except ReportError:
        return
    try:
        again = encode_reports(reports)
    except EncodeError:
        # Text is written escaped: what was short enough may be longer than an object then.
        assert not data.isascii() or len(data) > MAX_OBJECT // 2
        return
    assert decode_reports(again) == reports


def seeds() -> list[bytes]:
    return [
        b'[{"T":1,"data":{"v":2,"sid":"s","e":"t","sta":"p","bl":"(5;v 6;a)","pr":1.5}}]',
        b'[{"t":1,"data":{"v":"2","sid":"s","bs":"?1","ec":"(\\"a\\" \\"b\\")","laps-gaps":3}}]',
        b'[{"T":1,"data":{"v":2,"sid":"s","x-y":[{}],"msd":4,"bsda":5,"bsa":1}}]',
    ]
