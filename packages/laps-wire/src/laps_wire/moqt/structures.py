"""Small structures inside control messages: locations, filters, tokens, redirects, ranges.

::

    Location              group (i), object (i)
    Subscription Filter   type (i), [start Location], [end group (i)]    absolute in draft 16,
                                                                         a delta in draft 18
    Token                 alias type (i), [alias (i)], [type (i), value (..)]
    Redirect              uri length (i), uri, namespace, name length (i), name     draft 18
    Fetch                 type (i), then a track and two Locations, or two integers
    Reason Phrase         length (i) up to 1024, UTF-8
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from laps_wire.buffer import VI64_MAX, Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.fields import VARINT, Choice, Layout, Text, Words
from laps_wire.moqt.codepoints import AliasType, FetchType, FilterType
from laps_wire.names import NAMESPACE_PREFIX, FullTrackName, FullTrackNameCodec, Namespace

__all__ = [
    "LOCATION",
    "MAX_REASON_LENGTH",
    "MAX_URI_LENGTH",
    "REASON",
    "REDIRECT",
    "SAME_TRACK",
    "TOKEN",
    "URI",
    "AbsoluteJoiningFetch",
    "FetchTarget",
    "FetchTargetCodec",
    "FilterCodec",
    "Location",
    "LocationCodec",
    "Redirect",
    "RelativeJoiningFetch",
    "StandaloneFetch",
    "SubscriptionFilter",
    "Token",
    "TokenCodec",
]

MAX_REASON_LENGTH: Final = 1024
"""The most bytes in a reason phrase (moq-transport-16, 1.4.3)."""

MAX_URI_LENGTH: Final = 8192
"""The most bytes in a new session URI (moq-transport-16, 9.4); we hold redirects to it too."""


# Location


class Location(NamedTuple):
    """A place in a track; compares by group, then by object (moq-transport-16, 1.4.1)."""

    group: int
    object: int


@dataclass(frozen=True, slots=True)
class LocationCodec:
    """Two integers."""

    def read(self, reader: Reader, field: str) -> Location:
        """Read it."""
        reader.enter(field)
        location = Location(reader.varint("group"), reader.varint("object"))
        reader.leave()
        return location

    def write(self, writer: Writer, value: Location, field: str) -> None:
        """Write it."""
        writer.varint(value.group, f"{field}.group")
        writer.varint(value.object, f"{field}.object")


LOCATION: Final = LocationCodec()


# Subscription filter

_WITH_START: Final = (FilterType.ABSOLUTE_START, FilterType.ABSOLUTE_RANGE)


@dataclass(frozen=True, slots=True)
class SubscriptionFilter:
    """Which objects of a track a subscription wants (moq-transport-16, 5.1.2)."""

    type: FilterType
    start: Location | None = None
    """The first object: with ABSOLUTE_START and ABSOLUTE_RANGE, and only then."""
    end_group: int | None = None
    """The last group, whole: with ABSOLUTE_RANGE, and only then. Never a delta, in any draft."""

    def __post_init__(self) -> None:
        name = self.type.name
        if (self.start is not None) != (self.type in _WITH_START):
            raise EncodeError(f"{name} {'needs a' if self.start is None else 'has no'} start")
        if (self.end_group is not None) != (self.type is FilterType.ABSOLUTE_RANGE):
            need = "needs an" if self.end_group is None else "has no"
            raise EncodeError(f"{name} {need} end group")
        if self.start is not None and self.end_group is not None:
            if self.end_group < self.start.group:
                raise EncodeError(f"end group {self.end_group} is before {self.start.group}")
            if self.end_group > VI64_MAX:
                raise EncodeError(f"end group {self.end_group} is above 2**64 - 1")


@dataclass(frozen=True, slots=True)
class FilterCodec:
    """A subscription filter without its length; ``delta`` is draft 18's way to write the end."""

    delta: bool

    def read(self, reader: Reader, field: str) -> SubscriptionFilter:
        """Read it; every fault in a filter is a protocol violation in both drafts."""
        at = reader.pos
        reader.enter(field)
        number = reader.varint("type")
        try:
            type_ = FilterType(number)
        except ValueError:
            reader.fail(field, f"{number} is not a filter type", offset=at)
        start = LOCATION.read(reader, "start") if type_ in _WITH_START else None
        end = None
        if start is not None and type_ is FilterType.ABSOLUTE_RANGE:
            end = reader.varint("end group") + (start.group if self.delta else 0)
        reader.leave()
        try:
            return SubscriptionFilter(type_, start, end)
        except EncodeError as error:
            reader.fail(field, str(error), offset=at)

    def write(self, writer: Writer, value: SubscriptionFilter, field: str) -> None:
        """Write it."""
        writer.varint(value.type, f"{field}.type")
        if value.start is not None:
            LOCATION.write(writer, value.start, f"{field}.start")
            if value.end_group is not None:
                base = value.start.group if self.delta else 0
                writer.varint(value.end_group - base, f"{field}.end group")


# Authorization token


@dataclass(frozen=True, slots=True)
class Token:
    """An authorization token, or an order about a registered one (moq-transport-16, 9.2.2.1).

    Made by one of :meth:`delete`, :meth:`register`, :meth:`use_alias` and :meth:`use_value`.
    """

    alias_type: AliasType
    alias: int | None = None
    """The sender's number for a token; with every alias type but USE_VALUE."""
    token_type: int | None = None
    """What the value is; 0 is agreed elsewhere. With REGISTER and USE_VALUE."""
    value: bytes | None = None
    """The token itself. With REGISTER and USE_VALUE."""

    def __post_init__(self) -> None:
        has_alias = self.alias_type is not AliasType.USE_VALUE
        has_value = self.alias_type in (AliasType.REGISTER, AliasType.USE_VALUE)
        if (
            (self.alias is not None) != has_alias
            or (self.token_type is not None) != has_value
            or (self.value is not None) != has_value
        ):
            raise EncodeError(
                f"a token {self.alias_type.name} has {'an' if has_alias else 'no'} alias"
                f" and {'a' if has_value else 'no'} type and value"
            )

    @classmethod
    def delete(cls, alias: int) -> Token:
        """Forget the token registered as ``alias``."""
        return cls(AliasType.DELETE, alias)

    @classmethod
    def register(cls, alias: int, token_type: int, value: bytes) -> Token:
        """Use this token and remember it as ``alias``."""
        return cls(AliasType.REGISTER, alias, token_type, value)

    @classmethod
    def use_alias(cls, alias: int) -> Token:
        """Use the token registered as ``alias``."""
        return cls(AliasType.USE_ALIAS, alias)

    @classmethod
    def use_value(cls, token_type: int, value: bytes) -> Token:
        """Use this token, this once."""
        return cls(AliasType.USE_VALUE, None, token_type, value)


@dataclass(frozen=True, slots=True)
class TokenCodec:
    """A token up to the end of the reader: whoever holds its length gives a bounded reader."""

    def read(self, reader: Reader, field: str) -> Token:
        """Read it; bytes behind it are for the caller to refuse."""
        at = reader.pos
        reader.enter(field)
        number = reader.varint("alias type")
        try:
            alias_type = AliasType(number)
        except ValueError:
            reader.fail(field, f"{number} is not an alias type", offset=at)
        alias = token_type = value = None
        if alias_type is not AliasType.USE_VALUE:
            alias = reader.varint("alias")
        if alias_type in (AliasType.REGISTER, AliasType.USE_VALUE):
            token_type = reader.varint("token type")
            value = reader.rest("value")
        reader.leave()
        return Token(alias_type, alias, token_type, value)

    def write(self, writer: Writer, value: Token, field: str) -> None:
        """Write it."""
        writer.varint(value.alias_type, f"{field}.alias type")
        if value.alias is not None:
            writer.varint(value.alias, f"{field}.alias")
        if value.token_type is not None and value.value is not None:
            writer.varint(value.token_type, f"{field}.token type")
            writer.raw(value.value)


TOKEN: Final = TokenCodec()


# Words

REASON: Final = Words(MAX_REASON_LENGTH)
"""A reason phrase."""

URI: Final = Text(MAX_URI_LENGTH)
"""A URI behind its length; empty means the URI of this session."""


# Redirect

SAME_TRACK: Final = FullTrackName(Namespace(), b"")
"""In a redirect: what the request asked for."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where else a request could succeed (moq-transport-18, 10.6.1)."""

    connect_uri: str = ""
    """Where to connect; empty is this session's URI. A server must not get a non-empty one."""
    track: FullTrackName = SAME_TRACK
    """What to ask for there; empty namespace and name mean the same as in the request."""


REDIRECT: Final = Layout(
    Redirect,
    ("connect_uri", URI),
    ("track", FullTrackNameCodec(NAMESPACE_PREFIX)),
)


# Fetch


@dataclass(frozen=True, slots=True)
class StandaloneFetch:
    """A range of a track."""

    track: FullTrackName
    start: Location
    end: Location
    """The last location, its object plus 1; an object of 0 is the whole group."""


@dataclass(frozen=True, slots=True)
class RelativeJoiningFetch:
    """What came before a subscription, from some groups back."""

    joining_request_id: int
    joining_start: int
    """How many groups before the subscription's largest one."""


@dataclass(frozen=True, slots=True)
class AbsoluteJoiningFetch:
    """What came before a subscription, from a certain group."""

    joining_request_id: int
    joining_start: int
    """The first group."""


FetchTarget: TypeAlias = StandaloneFetch | RelativeJoiningFetch | AbsoluteJoiningFetch
"""What a FETCH asks for."""


@dataclass(frozen=True, slots=True)
class FetchTargetCodec:
    """The fetch type, then the structure that it announces (moq-transport-16, 9.16)."""

    track: FullTrackNameCodec

    def read(self, reader: Reader, field: str) -> FetchTarget:
        """Read it."""
        reader.enter(field)
        type_ = _FETCH_TYPE.read(reader, "fetch type")
        target: FetchTarget
        if type_ is FetchType.STANDALONE:
            target = StandaloneFetch(
                self.track.read(reader, "track"),
                LOCATION.read(reader, "start"),
                LOCATION.read(reader, "end"),
            )
        else:
            joining = (
                RelativeJoiningFetch
                if type_ is FetchType.RELATIVE_JOINING
                else AbsoluteJoiningFetch
            )
            target = joining(reader.varint("joining request id"), reader.varint("joining start"))
        reader.leave()
        return target

    def write(self, writer: Writer, value: FetchTarget, field: str) -> None:
        """Write it."""
        if isinstance(value, StandaloneFetch):
            _FETCH_TYPE.write(writer, FetchType.STANDALONE, field)
            self.track.write(writer, value.track, f"{field}.track")
            LOCATION.write(writer, value.start, f"{field}.start")
            LOCATION.write(writer, value.end, f"{field}.end")
            return
        relative = isinstance(value, RelativeJoiningFetch)
        type_ = FetchType.RELATIVE_JOINING if relative else FetchType.ABSOLUTE_JOINING
        _FETCH_TYPE.write(writer, type_, field)
        writer.varint(value.joining_request_id, f"{field}.joining request id")
        writer.varint(value.joining_start, f"{field}.joining start")


_FETCH_TYPE: Final = Choice(VARINT, FetchType)
