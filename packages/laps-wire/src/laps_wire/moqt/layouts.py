"""What each control message looks like in each draft, as tables.

A table names every attribute of its message, so one that a draft does not write is there too, as
``Absent``: nothing on the wire, and only its default can be encoded. An attribute that the model
leaves open because the other draft has none is ``Needed`` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from laps_wire.buffer import Reader, Writer
from laps_wire.fields import BOOL8, VARINT, Choice, FieldCodec
from laps_wire.layout import Layout
from laps_wire.moqt import messages as m
from laps_wire.moqt.codepoints import (
    MessageTypeD16,
    MessageTypeD18,
    RequestErrorCode,
    SubscribeOptions,
)
from laps_wire.moqt.parameter_coding import ParametersCodec
from laps_wire.moqt.parameters import Scope
from laps_wire.moqt.properties import TrackPropertiesCodec
from laps_wire.moqt.setup import SetupOptionsCodec
from laps_wire.moqt.structures import LOCATION, REASON, REDIRECT, URI, FetchTargetCodec
from laps_wire.moqt.versions import Draft
from laps_wire.names import NAMESPACE, NAMESPACE_PREFIX, FullTrackNameCodec, NamespaceCodec

__all__ = [
    "RESERVED",
    "Absent",
    "MessageLayout",
    "Needed",
    "RequestErrorLayout",
    "Trailing",
    "layouts_of",
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
