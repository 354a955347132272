"""Control messages on the wire: a table of layouts for each draft, and the framing.

A table names every attribute of its message. An attribute that a draft does not write is
``Absent``: nothing on the wire, and only its default can be encoded. An attribute that is optional
in the model because the other draft lacks it is ``Needed``.

::

    +----------+-------------+----------------+
    | type (i) | length (16) | body, length   |     both drafts (9, 10)
    +----------+-------------+ bytes exactly  +
                             +----------------+

A body must be filled exactly: too many or too few bytes are a protocol violation, and so is a type
that the draft does not have.

``decode`` reads from the beginning of a stream and raises
:class:`~laps_wire.errors.IncompleteError` until the whole message has arrived. An unknown type
raises at once, before its body has arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from laps_wire.buffer import ByteSource, Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.fields import BOOL8, VARINT, Choice, FieldCodec, Layout
from laps_wire.moqt import messages as m
from laps_wire.moqt.codepoints import (
    MessageTypeD16,
    MessageTypeD18,
    RequestErrorCode,
    SubscribeOptions,
)
from laps_wire.moqt.errors import UnknownMessageType
from laps_wire.moqt.messages import Message, Subscribe
from laps_wire.moqt.parameters import ParametersCodec, Scope, TrackPropertiesCodec
from laps_wire.moqt.setup import SetupOptionsCodec
from laps_wire.moqt.structures import LOCATION, REASON, REDIRECT, URI, FetchTargetCodec
from laps_wire.moqt.versions import Draft
from laps_wire.names import NAMESPACE, NAMESPACE_PREFIX, FullTrackNameCodec, NamespaceCodec

__all__ = [
    "MAX_BODY_LENGTH",
    "RESERVED",
    "Absent",
    "ControlCodec",
    "MessageLayout",
    "Needed",
    "RequestErrorLayout",
    "Trailing",
    "decode",
    "decode_subscribe_body",
    "encode",
    "encode_subscribe_body",
    "layouts_of",
    "message_name",
]


T = TypeVar("T")


# Attributes that one draft has and the other has not


@dataclass(frozen=True, slots=True)
class Absent(Generic[T]):
    """Not on the wire in this draft: reads as ``default``, and nothing else can be written."""

    default: T
    why: str
    """What the draft does instead, for whoever set it."""

    def read(self, reader: Reader, field: str) -> T:  # noqa: ARG002 - there is nothing to read
        """Give the default."""
        return self.default

    def write(self, writer: Writer, value: T, field: str) -> None:
        """Refuse anything but the default."""
        if value != self.default:
            writer.fail(field, f"{value!r} can not be sent: {self.why}")


@dataclass(frozen=True, slots=True)
class Needed(Generic[T]):
    """Must be given in this draft, though the model allows None."""

    codec: FieldCodec[T]
    why: str

    def read(self, reader: Reader, field: str) -> T:
        """Read it."""
        return self.codec.read(reader, field)

    def write(self, writer: Writer, value: T | None, field: str) -> None:
        """Write it."""
        if value is None:
            writer.fail(field, f"is needed: {self.why}")
        self.codec.write(writer, value, field)


@dataclass(frozen=True, slots=True)
class Trailing(Generic[T]):
    """The last field, which may be missing: None if the body ends before it."""

    codec: FieldCodec[T]

    def read(self, reader: Reader, field: str) -> T | None:
        """Read it, if it is there."""
        return None if reader.at_end else self.codec.read(reader, field)

    def write(self, writer: Writer, value: T | None, field: str) -> None:
        """Write it, if it is there."""
        if value is not None:
            self.codec.write(writer, value, field)


class RequestErrorLayout(Layout[m.RequestError]):
    """Draft 18's REQUEST_ERROR: a redirect with the code REDIRECT, and only then (10.6)."""

    __slots__ = ()

    def read(self, reader: Reader, field: str) -> m.RequestError:
        """Read it."""
        start = reader.pos
        message = super().read(reader, field)
        fault = _redirect_fault(message)
        if fault:
            reader.fail(field, fault, offset=start)
        return message

    def write(self, writer: Writer, value: m.RequestError, field: str) -> None:
        """Write it."""
        fault = _redirect_fault(value)
        if fault:
            writer.fail(field, fault)
        super().write(writer, value, field)


def _redirect_fault(message: m.RequestError) -> str:
    if message.error_code == RequestErrorCode.REDIRECT:
        return "" if message.redirect is not None else "the code is REDIRECT without a redirect"
    return "" if message.redirect is None else "a redirect without the code REDIRECT"


# Tables


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """One row: a message type of a draft."""

    type: int
    name: str
    layout: Layout[Any]


RESERVED: Final[Mapping[Draft, Mapping[int, str]]] = MappingProxyType(
    {
        Draft.D16: MappingProxyType(
            {
                0x01: "SETUP of version 00",
                0x40: "CLIENT_SETUP up to draft 10",
                0x41: "SERVER_SETUP up to draft 10",
                0x2F00: "SETUP from draft 17 on",
            }
        ),
        Draft.D18: MappingProxyType(
            {
                0x01: "SETUP of version 00",
                0x40: "CLIENT_SETUP up to draft 10",
                0x41: "SERVER_SETUP up to draft 10",
                0x20: "CLIENT_SETUP up to draft 16",
                0x21: "SERVER_SETUP up to draft 16",
            }
        ),
    }
)
"""Types of other drafts, to tell a peer that speaks another version what it did."""


@lru_cache(maxsize=16)
def layouts_of(draft: Draft, extensions: frozenset[int] = frozenset()) -> tuple[MessageLayout, ...]:
    """The messages of ``draft``; where two types share a class, the one to write comes first."""
    return _draft16(extensions) if draft is Draft.D16 else _draft18()


def _requests(
    draft: Draft, namespace: NamespaceCodec, extensions: frozenset[int]
) -> dict[str, Layout[Any]]:
    """The messages that look the same in both drafts, but for their integers and parameters."""

    def parameters(scope: Scope) -> tuple[str, FieldCodec[Any]]:
        return ("parameters", ParametersCodec(draft, scope, extensions))

    request_id = ("request_id", VARINT)
    track = FullTrackNameCodec(namespace)
    return {
        "SUBSCRIBE": Layout(m.Subscribe, request_id, ("track", track), parameters(Scope.SUBSCRIBE)),
        "PUBLISH": Layout(
            m.Publish,
            request_id,
            ("track", track),
            ("track_alias", VARINT),
            parameters(Scope.PUBLISH),
            ("track_properties", TrackPropertiesCodec(draft)),
        ),
        "FETCH": Layout(
            m.Fetch,
            request_id,
            ("target", FetchTargetCodec(track)),
            parameters(Scope.FETCH),
        ),
        "TRACK_STATUS": Layout(
            m.TrackStatus, request_id, ("track", track), parameters(Scope.TRACK_STATUS)
        ),
        "PUBLISH_NAMESPACE": Layout(
            m.PublishNamespace,
            request_id,
            ("namespace", namespace),
            parameters(Scope.PUBLISH_NAMESPACE),
        ),
        "NAMESPACE": Layout(m.NamespaceMessage, ("suffix", NAMESPACE_PREFIX)),
        "NAMESPACE_DONE": Layout(m.NamespaceDone, ("suffix", NAMESPACE_PREFIX)),
    }


def _draft16(extensions: frozenset[int]) -> tuple[MessageLayout, ...]:
    draft = Draft.D16

    def parameters(scope: Scope) -> tuple[str, FieldCodec[Any]]:
        return ("parameters", ParametersCodec(draft, scope, extensions))

    request_id = ("request_id", VARINT)
    reply_to = ("request_id", Needed(VARINT, "draft 16 names the request that is answered"))
    properties = ("track_properties", TrackPropertiesCodec(draft))
    table = _requests(draft, NAMESPACE, extensions) | {
        "CLIENT_SETUP": Layout(
            m.ClientSetup, ("options", SetupOptionsCodec(draft, from_client=True))
        ),
        "SERVER_SETUP": Layout(m.ServerSetup, ("options", SetupOptionsCodec(draft))),
        "GOAWAY": Layout(
            m.Goaway,
            ("new_session_uri", URI),
            ("timeout", Absent(0, "GOAWAY of draft 16 has no timeout")),
            ("request_id", Absent(None, "GOAWAY of draft 16 has no request id")),
        ),
        "MAX_REQUEST_ID": Layout(m.MaxRequestId, ("max_request_id", VARINT)),
        "REQUESTS_BLOCKED": Layout(m.RequestsBlocked, ("maximum_request_id", VARINT)),
        "REQUEST_OK": Layout(
            m.RequestOk,
            reply_to,
            parameters(Scope.REQUEST_OK),
            ("track_properties", Absent((), "REQUEST_OK of draft 16 has no track extensions")),
        ),
        "REQUEST_ERROR": Layout(
            m.RequestError,
            reply_to,
            ("error_code", VARINT),
            ("retry_interval", VARINT),
            ("reason", REASON),
            ("redirect", Absent(None, "draft 16 has no redirects")),
        ),
        "SUBSCRIBE_OK": Layout(
            m.SubscribeOk,
            reply_to,
            ("track_alias", VARINT),
            parameters(Scope.SUBSCRIBE_OK),
            properties,
        ),
        "REQUEST_UPDATE": Layout(
            m.RequestUpdate,
            request_id,
            ("existing_request_id", Needed(VARINT, "draft 16 names the request to change")),
            parameters(Scope.REQUEST_UPDATE),
        ),
        "UNSUBSCRIBE": Layout(m.Unsubscribe, request_id),
        "PUBLISH_OK": Layout(m.PublishOk, request_id, parameters(Scope.PUBLISH_OK)),
        "PUBLISH_DONE": Layout(
            m.PublishDone,
            ("request_id", Needed(VARINT, "draft 16 names the subscription that ends")),
            ("status_code", VARINT),
            ("stream_count", VARINT),
            ("reason", REASON),
        ),
        "FETCH_OK": Layout(
            m.FetchOk,
            reply_to,
            ("end_of_track", BOOL8),
            ("end_location", LOCATION),
            parameters(Scope.FETCH_OK),
            properties,
        ),
        "FETCH_CANCEL": Layout(m.FetchCancel, request_id),
        "PUBLISH_NAMESPACE_DONE": Layout(m.PublishNamespaceDone, request_id),
        "PUBLISH_NAMESPACE_CANCEL": Layout(
            m.PublishNamespaceCancel, request_id, ("error_code", VARINT), ("reason", REASON)
        ),
        "SUBSCRIBE_NAMESPACE": Layout(
            m.SubscribeNamespace,
            request_id,
            ("prefix", NAMESPACE_PREFIX),
            ("options", Choice(VARINT, SubscribeOptions)),
            parameters(Scope.SUBSCRIBE_NAMESPACE),
        ),
    }
    return tuple(
        MessageLayout(message_type.value, message_type.name, table[message_type.name])
        for message_type in MessageTypeD16
    )


def _draft18() -> tuple[MessageLayout, ...]:
    draft = Draft.D18

    def parameters(scope: Scope) -> tuple[str, FieldCodec[Any]]:
        return ("parameters", ParametersCodec(draft, scope))

    request_id = ("request_id", VARINT)
    reply = ("request_id", Absent(None, "draft 18 answers on the stream of the request"))
    properties = ("track_properties", TrackPropertiesCodec(draft))
    # Draft 18 allows a namespace without fields (2.4.1).
    table = _requests(draft, NAMESPACE_PREFIX, frozenset()) | {
        "SETUP": Layout(m.Setup, ("options", SetupOptionsCodec(draft))),
        "GOAWAY": Layout(
            m.Goaway,
            ("new_session_uri", URI),
            ("timeout", VARINT),
            ("request_id", Trailing(VARINT)),
        ),
        "REQUEST_OK": Layout(m.RequestOk, reply, parameters(Scope.REQUEST_OK), properties),
        # Listed among the types, but only as another word for REQUEST_OK, without properties
        # (10.5): we read it and never write it.
        "PUBLISH_OK": Layout(
            m.RequestOk,
            reply,
            parameters(Scope.PUBLISH_OK),
            ("track_properties", Absent((), "PUBLISH_OK has no track properties")),
        ),
        "REQUEST_ERROR": RequestErrorLayout(
            m.RequestError,
            reply,
            ("error_code", VARINT),
            ("retry_interval", VARINT),
            ("reason", REASON),
            ("redirect", Trailing(REDIRECT)),
        ),
        "SUBSCRIBE_OK": Layout(
            m.SubscribeOk,
            reply,
            ("track_alias", VARINT),
            parameters(Scope.SUBSCRIBE_OK),
            properties,
        ),
        "REQUEST_UPDATE": Layout(
            m.RequestUpdate,
            request_id,
            ("existing_request_id", Absent(None, "draft 18 updates the request of the stream")),
            parameters(Scope.REQUEST_UPDATE),
        ),
        "PUBLISH_DONE": Layout(
            m.PublishDone,
            ("request_id", Absent(None, "draft 18 ends the subscription of the stream")),
            ("status_code", VARINT),
            ("stream_count", VARINT),
            ("reason", REASON),
        ),
        "FETCH_OK": Layout(
            m.FetchOk,
            reply,
            ("end_of_track", BOOL8),
            ("end_location", LOCATION),
            parameters(Scope.FETCH_OK),
            properties,
        ),
        "SUBSCRIBE_NAMESPACE": Layout(
            m.SubscribeNamespace,
            request_id,
            ("prefix", NAMESPACE_PREFIX),
            (
                "options",
                Absent(SubscribeOptions.NAMESPACE, "draft 18 has SUBSCRIBE_TRACKS for that"),
            ),
            parameters(Scope.SUBSCRIBE_NAMESPACE),
        ),
        "SUBSCRIBE_TRACKS": Layout(
            m.SubscribeTracks,
            request_id,
            ("prefix", NAMESPACE_PREFIX),
            parameters(Scope.SUBSCRIBE_TRACKS),
        ),
        "PUBLISH_BLOCKED": Layout(
            m.PublishBlocked, ("track", FullTrackNameCodec(NAMESPACE_PREFIX))
        ),
    }
    return tuple(
        MessageLayout(message_type.value, message_type.name, table[message_type.name])
        for message_type in MessageTypeD18
    )


# Framing

MAX_BODY_LENGTH: Final = 2**16 - 1
"""The most bytes that the body of a control message may have: its length has 16 bits."""


class ControlCodec:
    """Reads and writes the control messages of one draft.

    ``extensions`` are types of draft 16 message parameters that setup parameters negotiated; they
    are kept as raw pairs instead of ending the session. Without any, use :func:`decode` and
    :func:`encode`.
    """

    __slots__ = ("_by_class", "_by_type", "_integers", "_subscribe", "draft")

    def __init__(self, draft: Draft, *, extensions: frozenset[int] = frozenset()) -> None:
        self.draft = draft
        self._integers = draft.integers
        table = layouts_of(draft, extensions)
        self._by_type = {entry.type: entry for entry in table}
        self._by_class: dict[type, tuple[bytes, MessageLayout]] = {}
        for entry in table:
            # Draft 18 has two types that read as REQUEST_OK; the first one is written.
            self._by_class.setdefault(entry.layout.cls, (draft.integers.encode(entry.type), entry))
        self._subscribe = self._by_class[Subscribe][1].layout

    # Reading

    def read(self, reader: Reader) -> Message:
        """Read one message; the reader must have the draft's integer coding."""
        message_type = reader.varint("message type")
        entry = self._by_type.get(message_type)
        if entry is None:
            hint = RESERVED[self.draft].get(message_type, "")
            raise UnknownMessageType(message_type, self.draft.value, hint)
        body = reader.sub(reader.u16("message length"), entry.name)
        message: Message = entry.layout.read(body, entry.name)
        body.expect_end(entry.name)
        return message

    def decode(
        self, data: ByteSource, *, pos: int = 0, end: int | None = None
    ) -> tuple[Message, int]:
        """Read the message that starts at ``pos``; give it and the position behind it."""
        reader = Reader(data, integers=self._integers, partial=True, pos=pos, end=end)
        message = self.read(reader)
        return message, reader.pos

    def decode_subscribe_body(self, data: ByteSource) -> Subscribe:
        """Read a SUBSCRIBE without type and length, as LAPS peering carries it; all of ``data``."""
        reader = Reader(data, integers=self._integers)
        message: Subscribe = self._subscribe.read(reader, "SUBSCRIBE")
        reader.expect_end("SUBSCRIBE")
        return message

    # Writing

    def encode(self, message: Message) -> bytes:
        """Write a message, type and length included."""
        found = self._by_class.get(type(message))
        if found is None:
            raise EncodeError(
                f"draft {self.draft.value} has no message {message_name(type(message))}"
            )
        prefix, entry = found
        body = Writer(integers=self._integers)
        entry.layout.write(body, message, entry.name)
        size = len(body)
        if size > MAX_BODY_LENGTH:
            raise EncodeError(
                f"{entry.name}: a body of {size} bytes, at most {MAX_BODY_LENGTH} fit"
            )
        return b"".join((prefix, size.to_bytes(2, "big"), body.getvalue()))

    def encode_subscribe_body(self, message: Subscribe) -> bytes:
        """Write a SUBSCRIBE without type and length, as LAPS peering carries it."""
        body = Writer(integers=self._integers)
        self._subscribe.write(body, message, "SUBSCRIBE")
        return body.getvalue()


_CODECS: Final = {draft: ControlCodec(draft) for draft in Draft}
_NAMES: Final = {
    entry.layout.cls: entry.name for draft in reversed(Draft) for entry in layouts_of(draft)
}


def message_name(message_class: type[Message]) -> str:
    """The drafts' name of a message class, such as ``SUBSCRIBE_OK``."""
    return _NAMES[message_class]


def decode(
    data: ByteSource, draft: Draft, *, pos: int = 0, end: int | None = None
) -> tuple[Message, int]:
    """Read the control message that starts at ``pos``; give it and the position behind it."""
    return _CODECS[draft].decode(data, pos=pos, end=end)


def encode(message: Message, draft: Draft) -> bytes:
    """Write a control message, type and length included."""
    return _CODECS[draft].encode(message)


def decode_subscribe_body(data: ByteSource, draft: Draft) -> Subscribe:
    """Read a SUBSCRIBE without type and length, as LAPS peering carries it; all of ``data``."""
    return _CODECS[draft].decode_subscribe_body(data)


def encode_subscribe_body(message: Subscribe, draft: Draft) -> bytes:
    """Write a SUBSCRIBE without type and length, as LAPS peering carries it."""
    return _CODECS[draft].encode_subscribe_body(message)
