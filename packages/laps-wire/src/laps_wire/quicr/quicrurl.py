"""``quicr://`` URLs: the long form of a short name, and its place among track names (seed 003).

::

    quicr://acme.example:4433/meeting123/alice/cam5/1990-12-31T23-59-59.601Z/
            '----------' '--' '--------' '---' '--' '----------------------'
            domain       port resource  sender source time

    track name    namespace (domain, resource, sender), name source
    short name    resource | sender | source | time, 40 + 30 + 14 + 44 bits

Leaving fields away from the right makes a wildcard: ``quicr://acme.example/meeting123/*`` is all
of one meeting, with or without the star. A star anywhere else is refused.

What seed 003 leaves open, decided here:

- The port says where to connect and is no part of a name: a track keeps its name when its origin
  moves. The domain is in the track name but not in the short name (seed 003, Naming).
- A field of decimal digits is that number in the short name. Any other text is hashed to the
  field's width (:func:`laps_wire.hashing.field_hash`). Numbers from a manifest are better: 14 bits
  of hash collide after a hundred-odd sources.
- The time is milliseconds of TAI since 1970 and is never hashed, for a hash has no order. It is
  read as a number, as ``t`` and a number, or as text. The text in seed 003 has no seconds
  (``T23-59.601Z``), so it cannot name a millisecond; ours has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from ipaddress import AddressValueError, IPv6Address
from typing import Final, Self

from laps_wire.errors import EncodeError, TextFormError
from laps_wire.hashing import field_hash
from laps_wire.names import MAX_NAME_BYTES, FullTrackName, Namespace
from laps_wire.quicr.shortname import CONFERENCE, NameLayout, ShortName

__all__ = ["MAX_MEDIA_TIME", "QuicrUrl", "format_media_time", "parse_media_time"]

MAX_MEDIA_TIME: Final = (1 << 44) - 1
"""The last millisecond that 44 bits hold: in the year 2527."""

_SCHEME: Final = "quicr://"
_EXAMPLE: Final = "quicr://acme.example:4433/meeting123/alice/cam5/*"
_TIME_EXAMPLE: Final = "1990-12-31T23-59-59.601Z"
_TIME_TEXT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2})-([0-9]{2})-([0-9]{2})\.([0-9]{3})Z"
)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")
_DIGITS: Final = re.compile(rb"[0-9]+")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MS_PER_DAY: Final = 86_400_000

# RFC 3986: what stands for itself when we write, and what may when we read; "*" is the wildcard.
_UNRESERVED: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
)
_READABLE: Final = _UNRESERVED | frozenset(b"!$&'()+,;=:@")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_FIELD_NAMES: Final = ("resource", "sender", "source", "time")


@dataclass(frozen=True, slots=True)
class QuicrUrl:
    """One name or wildcard; fields are absent (``None``) from the right only."""

    domain: str
    """The origin: a lower-case host name, or an IPv6 address in brackets."""
    port: int | None = None
    resource: bytes | None = None
    sender: bytes | None = None
    source: bytes | None = None
    time: int | None = None
    """Milliseconds of TAI since 1970-01-01T00-00-00."""

    def __post_init__(self) -> None:
        fault = _domain_fault(self.domain)
        if fault:
            raise EncodeError(f"QuicR URL: {fault}")
        if self.port is not None and not 1 <= self.port <= 65535:
            raise EncodeError(f"QuicR URL: port {self.port} is outside 1 to 65535")
        values = (self.resource, self.sender, self.source, self.time)
        for name, left, value in zip(_FIELD_NAMES[1:], values, values[1:], strict=False):
            if left is None and value is not None:
                raise EncodeError(f"QuicR URL: {name} is given, but not the field before it")
        if b"" in values:
            raise EncodeError(f"QuicR URL: {_FIELD_NAMES[values.index(b'')]} is empty")
        if self.time is not None and not 0 <= self.time <= MAX_MEDIA_TIME:
            raise EncodeError(f"QuicR URL: time {self.time} does not fit 44 bits")
        if len(self.domain) + sum(map(len, self._texts())) > MAX_NAME_BYTES:
            raise EncodeError(f"QuicR URL: over {MAX_NAME_BYTES} bytes of names")

    # Text

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URL; what is wrong with any other text is said and pointed at."""
        if not text.startswith(_SCHEME):
            raise _fault(text, 0, f"a QuicR URL must begin with {_SCHEME!r}")
        start = len(_SCHEME)
        slash = text.find("/", start)
        stop = len(text) if slash < 0 else slash
        domain, port = _parse_authority(text, start, stop)
        fields, time = _parse_path(text, stop + 1)
        resource, sender, source = (*fields, None, None, None)[:3]
        try:
            return cls(domain, port, resource, sender, source, time)
        except EncodeError as error:
            raise _fault(text, len(text), str(error)) from None

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        fields = [_escape(field) for field in self._texts()]
        if self.time is not None:
            fields.append(format_media_time(self.time))
        fields.append("*" if self.is_wildcard else "")
        return f"{_SCHEME}{self.domain}{port}/{'/'.join(fields)}"

    # What it names

    @property
    def is_wildcard(self) -> bool:
        """Whether the URL stands for more than one object."""
        return self.time is None

    @property
    def namespace(self) -> Namespace:
        """Domain, resource and sender, as far as they are given: a namespace or a prefix of one."""
        return Namespace((self.domain.encode(), *self._texts()[:2]))

    @property
    def full_track_name(self) -> FullTrackName | None:
        """The track that the URL is of or in; ``None`` if it is a wildcard over tracks."""
        return None if self.source is None else FullTrackName(self.namespace, self.source)

    @classmethod
    def from_full_track_name(cls, track: FullTrackName) -> Self:
        """The URL of a track whose namespace is (domain, resource, sender)."""
        if len(track.namespace.fields) != 3:
            raise EncodeError(f"QuicR URL: namespace {track.namespace} has not three fields")
        domain, resource, sender = track.namespace.fields
        return cls(domain.decode("ascii", "replace"), None, resource, sender, track.name)

    def short_name(self, layout: NameLayout = CONFERENCE) -> ShortName:
        """The 128-bit form; ``layout`` must have four fields, but may give them other widths."""
        if len(layout.fields) != len(_FIELD_NAMES):
            raise EncodeError(f"QuicR URL: a layout of {len(layout.fields)} fields, not of 4")
        values = [
            _field_number(name, field, width)
            for name, field, (_, width) in zip(
                _FIELD_NAMES, self._texts(), layout.fields, strict=False
            )
        ]
        return layout.pack(*values, *([] if self.time is None else [self.time]))

    def _texts(self) -> tuple[bytes, ...]:
        """The fields before the time that are there."""
        given = (self.resource, self.sender, self.source)
        return tuple(field for field in given if field is not None)


def _field_number(name: str, field: bytes, width: int) -> int:
    """A field in the short name: its number if it is one, else its hash."""
    if not _DIGITS.fullmatch(field):
        return field_hash(field, width)
    if len(field) > 1 and field.startswith(b"0"):
        raise EncodeError(f"QuicR URL: {name} {field.decode()} has a leading zero")
    # 39 digits hold 128 bits: a longer number is too large before it is converted.
    if len(field) > 39 or int(field) >= 1 << width:
        raise EncodeError(f"QuicR URL: {name} {field.decode()[:40]} does not fit {width} bits")
    return int(field)


# Media time


def format_media_time(milliseconds: int) -> str:
    """Write a media time as text: ``1990-12-31T23-59-59.601Z``, counted in TAI days of 86400 s."""
    if not 0 <= milliseconds <= MAX_MEDIA_TIME:
        raise EncodeError(f"media time {milliseconds} does not fit 44 bits")
    days, rest = divmod(milliseconds, _MS_PER_DAY)
    seconds, ms = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    day = date.fromordinal(_EPOCH_DAY + days).isoformat()
    return f"{day}T{hour:02}-{minute:02}-{second:02}.{ms:03}Z"


def parse_media_time(text: str) -> int:
    """Read a media time: a number of milliseconds, ``t`` and a number, or the text form."""
    value = _read_time(text)
    if isinstance(value, str):
        raise TextFormError.at("media time", text, 0, value, example=_TIME_EXAMPLE)
    return value


def _read_time(text: str) -> int | str:
    """The milliseconds, or what is wrong."""
    digits = text.removeprefix("t")
    if _NUMBER.fullmatch(digits):
        # 14 digits hold 44 bits: a longer number is too large before it is converted.
        if len(digits) > 14 or int(digits) > MAX_MEDIA_TIME:
            return "a media time that does not fit 44 bits"
        return int(digits)
    match = _TIME_TEXT.fullmatch(text)
    if not match:
        return f"a media time is a number of milliseconds or like {_TIME_EXAMPLE!r}"
    year, month, day, hour, minute, second, ms = map(int, match.groups())
    if hour > 23 or minute > 59 or second > 59:
        return "no such time of day"
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return "no such day"
    value = days * _MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000 + ms
    return value if 0 <= value <= MAX_MEDIA_TIME else "a media time that does not fit 44 bits"


# Parts of a URL


def _fault(text: str, index: int, reason: str) -> TextFormError:
    return TextFormError.at("QuicR URL", text, index, reason, example=_EXAMPLE)


def _domain_fault(domain: str) -> str:
    """What is wrong with a domain; nothing, if it is in the one form that we keep."""
    if domain.startswith("["):
        try:
            good = f"[{IPv6Address(domain[1:-1]).compressed}]" == domain
        except AddressValueError:
            good = False
        return "" if good else f"{domain!a} is not an IPv6 address in its shortest form"
    if len(domain) > 253 or not all(_LABEL.fullmatch(label) for label in domain.split(".")):
        return f"{domain[:80]!a} is not a lower-case host name"
    return ""


def _parse_authority(text: str, start: int, stop: int) -> tuple[str, int | None]:
    """Read ``domain`` or ``domain:port`` from ``text[start:stop]``."""
    after = start
    if text.startswith("[", start):
        # The colons of an IPv6 address stand before its bracket.
        after = text.find("]", start, stop)
        if after < 0:
            raise _fault(text, stop, "no ']' after the IPv6 address")
    colon = text.find(":", after, stop)
    domain = text[start : stop if colon < 0 else colon].lower()
    if domain.startswith("[") and domain.endswith("]"):
        try:
            domain = f"[{IPv6Address(domain[1:-1]).compressed}]"
        except AddressValueError:
            raise _fault(text, start, f"{domain!a} is not an IPv6 address") from None
    fault = _domain_fault(domain)
    if fault:
        raise _fault(text, start, fault)
    if colon < 0:
        return domain, None
    digits = text[colon + 1 : stop]
    if not _NUMBER.fullmatch(digits) or len(digits) > 5 or not 1 <= int(digits) <= 65535:
        raise _fault(text, colon + 1, "the port must be a number, 1 to 65535")
    return domain, int(digits)


def _parse_path(text: str, start: int) -> tuple[list[bytes], int | None]:
    """Read the fields from ``text[start:]``: up to three of bytes, and the time if it is there."""
    fields: list[bytes] = []
    segments = text[start:].split("/")
    if not segments[-1]:
        segments.pop()  # a slash at the end, or nothing at all
    for index, segment in enumerate(segments):
        stop, is_last = start + len(segment), index == len(segments) - 1
        if segment == "*":
            if not is_last:
                raise _fault(text, start, "a star can only stand for the end of a name")
            break
        if not segment:
            raise _fault(text, start, "an empty field")
        if len(fields) == 3:
            time = _read_time(segment)
            if isinstance(time, str):
                raise _fault(text, start, time)
            if not is_last:
                raise _fault(text, stop, "a field after the time")
            return fields, time
        fields.append(_unescape(text, start, stop))
        start = stop + 1
    return fields, None


def _escape(field: bytes) -> str:
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in field)


def _unescape(text: str, start: int, stop: int) -> bytes:
    """Read one field from ``text[start:stop]``; any RFC 3986 spelling of it will do."""
    data = bytearray()
    while start < stop:
        char = text[start]
        if char.isascii() and ord(char) in _READABLE:
            data.append(ord(char))
            start += 1
            continue
        if char == "*":
            raise _fault(text, start, "a star can only stand for the end of a name")
        if char != "%":
            raise _fault(text, start, f"{char!a} must be written as '%' and two hex digits a byte")
        digits = text[start + 1 : min(start + 3, stop)]
        if len(digits) < 2 or not _HEX.issuperset(digits):
            raise _fault(text, start, "'%' must be followed by two hex digits")
        data.append(int(digits, 16))
        start += 3
    return bytes(data)
