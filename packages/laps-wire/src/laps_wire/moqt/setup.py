"""Setup parameters (draft 16) and setup options (draft 18): what endpoints tell at the start.

::

    draft 16 (9.3)     count (i), then Key-Value-Pairs
    draft 18 (10.3)    Key-Value-Pairs up to the end of the message

Both are in one number space that never changes between versions. A type that we do not know is
ignored and may repeat, and is kept in ``unknown``; one that we know may not repeat, except for
AUTHORIZATION_TOKEN (moq-transport-16, 9.2; moq-transport-18, 10.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from types import MappingProxyType
from typing import Any, Final

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import ProtocolViolation, RemoteError
from laps_wire.fields import VARINT, FieldCodec, readable, utf8
from laps_wire.moqt.codepoints import AliasType, SetupOptionType
from laps_wire.moqt.errors import MalformedAuthority, MalformedPath
from laps_wire.moqt.keyvalue import (
    Enclosed,
    Entry,
    KeyValue,
    KeyValues,
    read_entries,
    read_value,
    write_entries,
)
from laps_wire.moqt.structures import TOKEN, Token
from laps_wire.moqt.versions import Draft

__all__ = ["NO_OPTIONS", "SetupOptions", "SetupOptionsCodec", "entries_of", "refuse_alias_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """The options of one SETUP; what is None was not sent."""

    path: str | None = None
    """0x01, from clients over native QUIC: path and query of the URI."""
    max_request_id: int | None = None
    """0x02, draft 16: the first request id that the peer may not use; absent means 0."""
    authorization_tokens: tuple[Token, ...] = ()
    """0x03: may repeat."""
    max_auth_token_cache_size: int | None = None
    """0x04: bytes of tokens that the sender will remember; absent means 0."""
    authority: str | None = None
    """0x05, from clients over native QUIC: the authority of the URI."""
    moqt_implementation: str | None = None
    """0x07: name and version of the sender's software."""
    unknown: KeyValues = ()
    """Everything else, in ascending order of type."""


NO_OPTIONS: Final = SetupOptions()
"""A SETUP that says nothing."""


def refuse_alias_tokens(options: SetupOptions) -> None:
    """Refuse tokens by alias in a client's SETUP: nothing can be registered yet (9.2.2.1).

    The codec does it for CLIENT_SETUP. Draft 18 has one SETUP for both sides and the rule is for
    servers, so there the session calls this.
    """
    for token in options.authorization_tokens:
        if token.alias_type in (AliasType.DELETE, AliasType.USE_ALIAS):
            raise ProtocolViolation(f"a token {token.alias_type.name} in a client's SETUP")


# Parts of a URI (RFC 3986, 3.2 and 3.3): ASCII only, anything else percent-encoded.

_PCHAR: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_PATH: Final = re.compile(rf"(?:/{_PCHAR}*)*(?:\?(?:{_PCHAR}|[/?])*)?")
_NAME: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
_AUTHORITY: Final = re.compile(
    rf"(?:(?:{_NAME}|:)*@)?"
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\]|\[[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+\]"
    rf"|{_NAME}+)(?::[0-9]*)?"
)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class UriPart:
    """Text up to the end of the reader that must have the form of a part of a URI."""

    pattern: re.Pattern[str]
    error: type[RemoteError]

    def read(self, reader: Reader, field: str) -> str:
        """Read it."""
        text = reader.rest(field).decode("ascii", errors="backslashreplace")
        if not self._fits(text):
            raise self.error(f"{field}: not what RFC 3986 allows: {text[:80]!r}")
        return text

    def write(self, writer: Writer, value: str, field: str) -> None:
        """Write it."""
        if not self._fits(value):
            writer.fail(field, f"not what RFC 3986 allows: {value[:80]!r}")
        writer.raw(value.encode("ascii"))

    def _fits(self, text: str) -> bool:
        found = self.pattern.fullmatch(text)
        if found is None:
            return False
        # The pattern only knows the letters of an IPv6 address.
        address = found.groupdict().get("ipv6")
        return address is None or _is_ipv6(address)


@dataclass(frozen=True, slots=True)
class WordsToEnd:
    """Text up to the end of the reader that only people read."""

    def read(self, reader: Reader, field: str) -> str:
        """Read it."""
        return readable(reader.rest(field))

    def write(self, writer: Writer, value: str, field: str) -> None:
        """Write it."""
        writer.raw(utf8(writer, value, field))


def _entry(
    type_: SetupOptionType, attribute: str, codec: FieldCodec[Any], *, repeats: bool = False
) -> Entry:
    return Entry(type_.value, type_.name, attribute, codec, repeats)


_ENTRIES: Final = (
    _entry(SetupOptionType.PATH, "path", Enclosed(UriPart(_PATH, MalformedPath))),
    _entry(SetupOptionType.MAX_REQUEST_ID, "max_request_id", VARINT),
    _entry(
        SetupOptionType.AUTHORIZATION_TOKEN, "authorization_tokens", Enclosed(TOKEN), repeats=True
    ),
    _entry(SetupOptionType.MAX_AUTH_TOKEN_CACHE_SIZE, "max_auth_token_cache_size", VARINT),
    _entry(
        SetupOptionType.AUTHORITY, "authority", Enclosed(UriPart(_AUTHORITY, MalformedAuthority))
    ),
    _entry(SetupOptionType.MOQT_IMPLEMENTATION, "moqt_implementation", Enclosed(WordsToEnd())),
)
_BY_DRAFT: Final[Mapping[Draft, Mapping[int, Entry]]] = MappingProxyType(
    {
        Draft.D16: MappingProxyType({entry.type: entry for entry in _ENTRIES}),
        Draft.D18: MappingProxyType(
            {
                entry.type: entry
                for entry in _ENTRIES
                if entry.type != SetupOptionType.MAX_REQUEST_ID
            }
        ),
    }
)


def entries_of(draft: Draft) -> Mapping[int, Entry]:
    """The options that ``draft`` defines, by type in ascending order."""
    return _BY_DRAFT[draft]


def _unknown(reader: Reader, type_: int) -> KeyValue:
    return KeyValue(type_, read_value(reader, type_))


@dataclass(frozen=True, slots=True)
class SetupOptionsCodec:
    """The options of a SETUP in one draft."""

    draft: Draft
    from_client: bool = False
    """Whether only clients send the message: then tokens by alias are refused."""

    def read(self, reader: Reader, field: str) -> SetupOptions:
        """Read them."""
        reader.enter(field)
        count = reader.varint("count") if self.draft is Draft.D16 else None
        values, unknown = read_entries(reader, _BY_DRAFT[self.draft], count, _unknown)
        reader.leave()
        options = SetupOptions(**values, unknown=unknown)
        if self.from_client:
            refuse_alias_tokens(options)
        return options

    def write(self, writer: Writer, value: SetupOptions, field: str) -> None:
        """Write them."""
        entries = _BY_DRAFT[self.draft]
        if value.max_request_id is not None and SetupOptionType.MAX_REQUEST_ID not in entries:
            writer.fail(field, f"draft {self.draft.value} has no MAX_REQUEST_ID")
        for pair in value.unknown:
            if pair.type in entries:
                writer.fail(field, f"{entries[pair.type].name} has its own attribute")
        if self.from_client:
            try:
                refuse_alias_tokens(value)
            except ProtocolViolation as error:
                writer.fail(field, str(error))
        counted = self.draft is Draft.D16
        write_entries(writer, value, entries.values(), value.unknown, field, counted=counted)
