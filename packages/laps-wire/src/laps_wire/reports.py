"""What a player says of its playback: the objects of a report track, read and written.

An object is a JSON array of records, each a time and the CMCD keys of that moment
(draft-wilaw-moq-cmcd-event-timeline-00 over MSF event timelines)::

    [{"T": 1756885678361, "data": {"v": 2, "e": "t", "sid": "6e2f...", "sta": "p", "bl": 2100}}]
       `- the player's clock, ms     `- one of KEYS, or a key that is not read here

A player is not trusted: reading takes so many bytes, records and keys and no more, and refuses
values that no playback has. What the keys mean, and which are ours, is in ``docs/spec/reports.md``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias
from urllib.parse import parse_qs

from laps_wire.errors import EncodeError, MalformedError
from laps_wire.hashing import KeyedHasher
from laps_wire.names import Namespace

__all__ = [
    "EVENT_ERROR",
    "EVENT_INTERVAL",
    "EVENT_STATE",
    "FORBIDDEN",
    "KEYS",
    "MAX_ERRORS",
    "MAX_KEYS",
    "MAX_OBJECT",
    "MAX_RECORDS",
    "NAMESPACE",
    "STATES",
    "Playback",
    "PlayerReport",
    "ReportError",
    "decode_reports",
    "encode_reports",
    "hashed_id",
    "playback_of",
]

NAMESPACE: Final = Namespace.of(b"laps", b"reports")
"""Where players publish their reports unless told otherwise."""
MAX_OBJECT: Final = 4096
"""Bytes of one object."""
MAX_RECORDS: Final = 16
"""Records of one object."""
MAX_KEYS: Final = 40
"""Keys of one record."""
MAX_ERRORS: Final = 4
"""Error codes of one record."""

STATES: Final = frozenset("spkrawefqd")
"""States of a player: starting, playing, seeking, rebuffering, paused, waiting, ended, fatal error,
quit, preloading."""
EVENT_INTERVAL: Final = "t"
EVENT_STATE: Final = "ps"
EVENT_ERROR: Final = "e"

FORBIDDEN: Final = frozenset(
    (
        *("ab", "cmsdd", "cmsds", "d", "dl", "h", "lab", "nor", "nr", "ot", "rc", "rtp", "sf"),
        *("smrt", "su", "tab", "ts", "ttfb", "ttfbb", "ttlb", "url"),
    )
)
"""Keys about HTTP requests, which a report track must not carry; and the time, which is its T."""
_NO_EVENTS: Final = frozenset(("h", "rr"))

_DAY_MS: Final = 86_400_000
_CLOCK: Final = 2**53 - 1
"""The largest integer on which all readers of JSON agree."""
_TEXT: Final = 256
"""Characters of a list in its text form."""
_WORD: Final = re.compile(r"([A-Za-z0-9._:-]{1,32})")
_EVENT: Final = re.compile(r"[a-z]{1,8}")
_WHOLE: Final = re.compile(r"[0-9]{1,16}")
_DECIMAL: Final = re.compile(r"[0-9]{1,8}(\.[0-9]{1,8})?")
_ITEM: Final = re.compile(r"([0-9]{1,16})(;[a-z]{1,8})?")
_QUOTED: Final = re.compile(r'"([A-Za-z0-9._:-]{1,32})"(;[a-z]{1,8})?')
_TRUTH: Final = {"?1": True, "?0": False, "true": True, "false": False}


class ReportError(MalformedError):
    """An object that is no report, or one that cannot be true; ``path`` says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerReport:
    """One record. What is None was not said. Lengths of time are in milliseconds."""

    at_ms: int
    """When, by the player's clock: since 1970."""
    event: str = EVENT_INTERVAL
    """Why it was made: :data:`EVENT_INTERVAL` and others of CMCD."""
    session: str
    """Which playback: a random text."""
    content: str | None = None
    """What is played."""
    sequence: int | None = None
    """Counts the records of a playback."""
    state: str | None = None
    """One of :data:`STATES`."""
    buffer_ms: int | None = None
    latency_ms: int | None = None
    startup_ms: int | None = None
    """From the wish to play to the first frame; said once."""
    bitrate_kbps: int | None = None
    asked_kbps: int | None = None
    """The throughput that would do."""
    rate: float | None = None
    """1 is real time."""
    starved: bool | None = None
    """Whether the buffer ran empty since the last record."""
    stall_ms: int | None = None
    """How long the stalls took that ended since the last record."""
    stalled_ms: int | None = None
    """How long all stalls of the playback took, the present one included."""
    stalls: int | None = None
    """How many there were."""
    gaps: int | None = None
    """Objects of the playback that never came."""
    errors: tuple[str, ...] = ()


# Values


Read: TypeAlias = Callable[[object], Any]


class Key(NamedTuple):
    """One key: the field that it is, and how its value is read and written."""

    name: str
    field: str
    read: Read
    write: Callable[[Any], object] = lambda value: value


def _whole(most: int, least: int = 0) -> Read:
    """An integer: a JSON number, or its digits as text."""

    def read(value: object) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ReportError("not an integer")
        if not least <= value <= most:
            raise ReportError(f"not from {least} to {most}")
        return value

    return read


def _listed(most: int, joined: Callable[[Iterable[int]], int]) -> Read:
    """An integer, or a list of them by kind of media, ``(5000;v 320;a)``, made one."""
    one = _whole(most)

    def read(value: object) -> int:
        if isinstance(value, str) and value.startswith("("):
            items = [_ITEM.fullmatch(item) for item in _items(value)]
            if None in items:
                raise ReportError("not a list of integers such as (5000;v 320;a)")
            return int(one(joined(int(item[1]) for item in items if item is not None)))
        return int(one(value))

    return read


def _items(text: str) -> list[str]:
    if len(text) > _TEXT or not text.endswith(")") or not text[1:-1].strip(" "):
        raise ReportError("not a list of values in brackets")
    return text[1:-1].split()


def _decimal(value: object) -> float:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ReportError("not a number")
    if not 0 <= value <= 100:
        raise ReportError("not from 0 to 100")
    return float(value)


def _truth(value: object) -> bool:
    found = _TRUTH.get(value) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ReportError("neither true nor false")
    return found


def _text(most: int) -> Read:
    def read(value: object) -> str:
        # Halves of surrogate pairs are not printable either.
        if not isinstance(value, str) or not 0 < len(value) <= most or not value.isprintable():
            raise ReportError(f"not a text of 1 to {most} printable characters")
        return value

    return read


def _state(value: object) -> str:
    if not isinstance(value, str) or value not in STATES:
        raise ReportError(f"not one of {' '.join(sorted(STATES))}")
    return value


def _event(value: object) -> str:
    if not isinstance(value, str) or not _EVENT.fullmatch(value) or value in _NO_EVENTS:
        raise ReportError("not an event of a report track")
    return value


def _errors(value: object) -> tuple[str, ...]:
    """A code, or a list of them: ``("decode" "drm")``."""
    if not isinstance(value, str):
        raise ReportError("not a text")
    if not value.startswith("("):
        found = [_WORD.fullmatch(value)]
    else:
        found = [_QUOTED.fullmatch(item) for item in _items(value)]
    words = tuple(match[1] for match in found if match is not None)
    if len(words) != len(found) or len(words) > MAX_ERRORS:
        raise ReportError(f"not 1 to {MAX_ERRORS} codes of 1 to 32 letters, digits and . _ : -")
    return words


def _write_errors(words: tuple[str, ...]) -> str:
    return "(" + " ".join(f'"{word}"' for word in words) + ")"


KEYS: Final = (
    Key("e", "event", _event),
    Key("sid", "session", _text(64)),
    Key("cid", "content", _text(128)),
    Key("sn", "sequence", _whole(_CLOCK)),
    Key("sta", "state", _state),
    Key("bl", "buffer_ms", _listed(_DAY_MS, min)),
    Key("ltc", "latency_ms", _whole(_DAY_MS)),
    Key("msd", "startup_ms", _whole(3_600_000)),
    Key("br", "bitrate_kbps", _listed(10_000_000, sum)),
    Key("laps-rtp", "asked_kbps", _whole(10_000_000)),
    Key("pr", "rate", _decimal),
    Key("bs", "starved", _truth),
    Key("bsd", "stall_ms", _listed(_DAY_MS, sum)),
    Key("bsda", "stalled_ms", _listed(7 * _DAY_MS, max)),
    Key("bsa", "stalls", _listed(1_000_000, max)),
    Key("laps-gaps", "gaps", _whole(1_000_000_000)),
    Key("ec", "errors", _errors, _write_errors),
)
"""The keys that are read, in the order in which they are written."""

_DEFAULTS: Final = {
    field.name: field.default for field in fields(PlayerReport) if field.name != "event"
}
_VERSION: Final = _whole(2, least=2)
_TIME: Final = _whole(_CLOCK)


# Writing


def encode_reports(reports: Iterable[PlayerReport]) -> bytes:
    """The object that holds some records; :class:`EncodeError` says what cannot be written."""
    plain = [{"T": report.at_ms, "data": {"v": 2, **_written(report)}} for report in reports]
    try:
        data = json.dumps(plain, separators=(",", ":"), allow_nan=False).encode("ascii")
        # What is not taken by a reader is not written.
        decode_reports(data)
    except (ReportError, TypeError, ValueError) as error:
        raise EncodeError(str(error)) from None
    return data


def _written(report: PlayerReport) -> dict[str, object]:
    return {
        key.name: key.write(value)
        for key in KEYS
        if (value := getattr(report, key.field)) != _DEFAULTS.get(key.field, "")
    }


# Reading


def decode_reports(data: bytes) -> tuple[PlayerReport, ...]:
    """The records of an object; :class:`ReportError` says what is wrong, and where."""
    if len(data) > MAX_OBJECT:
        raise ReportError(f"{len(data)} bytes, over the limit of {MAX_OBJECT}")
    try:
        plain = json.loads(
            data.decode(),
            object_pairs_hook=_object,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_integer,
        )
    except UnicodeDecodeError as error:
        raise ReportError("not UTF-8", offset=error.start) from None
    except json.JSONDecodeError as error:
        raise ReportError(f"not JSON: {error.msg}", offset=error.pos) from None
    except RecursionError:
        raise ReportError("nested too deep") from None
    if not isinstance(plain, list) or not 0 < len(plain) <= MAX_RECORDS:
        raise ReportError(f"not a list of 1 to {MAX_RECORDS} records")
    return tuple(_inside(f"[{at}]", _record, item) for at, item in enumerate(plain))


def _inside(where: str, read: Callable[[Any], Any], value: object) -> Any:
    try:
        return read(value)
    except ReportError as error:
        error.inside(where)
        raise


def _record(plain: object) -> PlayerReport:
    if not isinstance(plain, dict):
        raise ReportError("not a record")
    # MSF writes the index in lower case, the draft about CMCD in upper case.
    at = plain.get("T", plain.get("t"))
    values = {"at_ms": _inside("T", _TIME, at)}
    return PlayerReport(**values, **_inside("data", _data, plain.get("data")))


def _data(plain: object) -> dict[str, Any]:
    if not isinstance(plain, dict) or len(plain) > MAX_KEYS:
        raise ReportError(f"not an object of at most {MAX_KEYS} keys")
    _inside("v", _VERSION, plain.get("v"))
    if "sid" not in plain:
        raise ReportError("no sid: it must say which playback it is about")
    forbidden = FORBIDDEN.intersection(plain)
    if forbidden:
        raise ReportError(f"{min(forbidden)} has no place in a report track")
    return {
        key.field: _inside(key.name, key.read, plain[key.name]) for key in KEYS if key.name in plain
    }


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) != len(pairs):
        raise ReportError("two values for one key")
    return plain


def _refuse(name: str) -> NoReturn:
    raise ReportError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise ReportError("a number that is too large")
    return value


def _integer(digits: str) -> int:
    # Far from a conversion that takes its time.
    if len(digits) > 20:
        raise ReportError("a number that is too large")
    return int(digits)


# Reports that go elsewhere


class Playback(NamedTuple):
    """What a player calls its playback, and what it plays; None: it does not say."""

    session: str | None = None
    content: str | None = None


_IDS: Final = re.compile(r'(?:^|,)(sid|cid)="([ !#-\[\]-~]+)"(?=,|$)')
_ID_LIMITS: Final = {"sid": 64, "cid": 128}
_MAX_QUERY: Final = 1024


def playback_of(path: str) -> Playback:
    """The ids in the address that a player connects to: CMCD as an argument of its query.

    ::

        /moq?CMCD=sid%3D%226e2f%22%2Ccid%3D%22match-42%22        sid="6e2f",cid="match-42"

    A player is not trusted: what is too long, said twice or not so written is not there.
    """
    _, mark, query = path.partition("?")
    if not mark or "CMCD=" not in query or len(query) > _MAX_QUERY:
        return Playback()
    try:
        said = parse_qs(query, max_num_fields=16, errors="strict").get("CMCD", [])
    except ValueError:
        return Playback()
    found: dict[str, str | None] = {}
    for name, value in _IDS.findall(",".join(said)):
        fits = name not in found and len(value) <= _ID_LIMITS[name]
        found[name] = value if fits else None
    return Playback(found.get("sid"), found.get("cid"))


def hashed_id(key: bytes | KeyedHasher, text: str) -> str:
    """An id of a player as telemetry has it: 16 hex digits; ``key`` is the relays' ``name_key``."""
    hasher = key if isinstance(key, KeyedHasher) else KeyedHasher(hashlib.blake2b(key).digest())
    return hasher.end_check((b"player",), text.encode()).hex()[:16]
