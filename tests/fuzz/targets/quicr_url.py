"""QuicR URLs: what parses prints a text that gives it back, and its names keep their limits."""

from __future__ import annotations

import contextlib

from laps_wire.errors import EncodeError, TextFormError
from laps_wire.quicr.quicrurl import QuicrUrl, format_media_time, parse_media_time
from laps_wire.quicr.shortname import CONFERENCE


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(TextFormError):
        moment = parse_media_time(text)
        assert parse_media_time(format_media_time(moment)) == moment
    try:
        url = QuicrUrl.parse(text)
    except TextFormError:
        return
    assert QuicrUrl.parse(str(url)) == url
    track = url.full_track_name
    assert (track is None) is (url.source is None)
    if track is not None:
        assert url.namespace == track.namespace
    try:
        name = url.short_name()
    except EncodeError:
        return  # a number that does not fit its field
    assert name.is_wildcard is url.is_wildcard
    assert CONFERENCE.pack(*CONFERENCE.unpack(name)) == name


def seeds() -> list[bytes]:
    return [
        b"quicr://acme.meetings.com/meeting123/*",
        b"quicr://acme.example:4433/1/2/3/t1000/",
        b"quicr://[2001:db8::1]:4433/a%2Fb/%FF/c",
        b"quicr://a/1/2/3/1990-12-31T23-59-59.601Z/",
        b"1990-12-31T23-59-59.601Z",
    ]
