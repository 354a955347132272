"""The protocols that a trace can decode: a table of names and readers.

The readers are those of the codecs. This module combines them where a unit has two parts: a peering
header, and the publisher's bytes after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from laps_wire.moqt.codepoints import PropertyTypeD16, PropertyTypeD18
from laps_wire.moqt.control import ControlCodec, layouts_of
from laps_wire.moqt.data.datagram import read_datagram
from laps_wire.moqt.data.fetch import FetchState, read_fetch_stream
from laps_wire.moqt.data.subgroup import read_subgroup_stream
from laps_wire.moqt.data.types import StreamKind, stream_kind
from laps_wire.moqt.keyvalue import read_pairs
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.versions import Draft
from laps_wire.peering.cpp.codepoints import DRAFT16, DataType
from laps_wire.peering.cpp.data_header import read_datagram_header, read_stream_header
from laps_wire.peering.cpp.messages import read_message as read_cpp
from laps_wire.peering.laps2.codepoints import MAX_MESSAGE_BYTES, DataKind, PayloadFormat
from laps_wire.peering.laps2.forwarding import read_data_header
from laps_wire.peering.laps2.information import SubscribeAdvertise
from laps_wire.peering.laps2.messages import read_message as read_laps2
from laps_wire.quicr.codepoints import MessageType
from laps_wire.quicr.datagram import read_header as read_quicr_header
from laps_wire.quicr.messages import PUBLISH
from laps_wire.quicr.messages import read_message as read_quicr
from laps_wire.trace.decode import Protocol, Status, decode
from laps_wire.trace.reader import Node, TracingReader
from laps_wire.trace.words import CPP, LAPS2, MOQT, QUICR

__all__ = ["PROTOCOLS"]

Read = Callable[[TracingReader], Any]


# MoQT


_PROPERTIES: Final[dict[Draft, dict[int, str]]] = {
    Draft.D16: {int(kind): kind.name for kind in PropertyTypeD16},
    Draft.D18: {int(kind): kind.name for kind in PropertyTypeD18},
}


def _open(leaf: Node, read: Read, draft: Draft) -> bool:
    """Replace a leaf's value by children if ``read`` decodes all its bytes; return whether."""
    if not leaf.value:
        return False
    unit = Protocol("", "", read, draft.integers, stream_of_messages=False, datagram=True)
    decoded = decode(unit, leaf.value)
    if decoded.status is not Status.OK:
        return False
    (traced,) = decoded.messages
    traced.root.move(leaf.start)
    leaf.children = traced.root.children
    return True


def _open_extensions(root: Node, draft: Draft) -> None:
    """Decode the extension blocks of objects, which the codec keeps as bytes."""
    for path, leaf in list(root.leaves()):
        if (
            path.rpartition(".")[2] == "extensions"
            and leaf.value
            and _open(leaf, read_pairs, draft)
        ):
            kind = 0
            for name, delta in leaf.leaves():
                if name.endswith("delta type"):
                    kind += delta.value
                    delta.note = _PROPERTIES[draft].get(kind, f"{kind:#x}")


def _moqt_uni(draft: Draft) -> Read:
    """Return the reader of a unidirectional stream, whose first integer is its type."""
    control = ControlCodec(draft)

    def read(reader: TracingReader) -> Any:
        start = reader.pos
        kind = stream_kind(reader.varint("type"), draft)
        if kind is StreamKind.PADDING:
            return reader.rest("padding")
        # The readers of the other kinds read the type again.
        reader.pos = start
        if kind in (StreamKind.SUBGROUP, StreamKind.FETCH):
            objects: Any = (
                read_subgroup_stream(reader, draft)
                if kind is StreamKind.SUBGROUP
                else read_fetch_stream(reader, FetchState(draft))
            )
            _open_extensions(reader.record.root, draft)
            return objects
        messages = []
        while not reader.at_end:
            messages.append(control.read(reader))
        return tuple(messages)

    return read


def _moqt_datagram(draft: Draft) -> Read:
    def read(reader: TracingReader) -> Any:
        reader.enter("OBJECT_DATAGRAM")
        datagram = read_datagram(reader, draft)
        reader.leave()
        _open_extensions(reader.record.root, draft)
        return datagram

    return read


_UNI: Final = {draft: _moqt_uni(draft) for draft in Draft}
_DATAGRAM: Final = {draft: _moqt_datagram(draft) for draft in Draft}


# laps-2

_FORMATS: Final = {int(PayloadFormat.MOQT_16): Draft.D16, int(PayloadFormat.MOQT_18): Draft.D18}


def _laps2_control(reader: TracingReader) -> Any:
    """Read a message; decode the MoQT SUBSCRIBE inside it too."""
    message = read_laps2(reader, max_size=MAX_MESSAGE_BYTES)
    if isinstance(message, SubscribeAdvertise):
        _open_subscribes(reader.record.root, "data.body")
    return message


def _laps2_data(reader: TracingReader) -> Any:
    """Read a data header and a payload of its format."""
    reader.enter("DATA_HEADER")
    header = read_data_header(reader)
    reader.leave()
    draft = _FORMATS.get(header.payload_format)
    if draft is None:
        reader.rest("payload")
    elif not reader.at_end:
        units = _UNI if header.kind is DataKind.STREAM else _DATAGRAM
        units[draft](reader.recoded(draft.integers))
    return header


# The C++ relay


def _subscribe_body(draft: Draft) -> Read:
    layout = next(entry.layout for entry in layouts_of(draft) if entry.layout.cls is Subscribe)
    return lambda reader: layout.read(reader, "SUBSCRIBE")


_SUBSCRIBES: Final = {draft: _subscribe_body(draft) for draft in Draft}


def _cpp_control(reader: TracingReader) -> Any:
    """Read a message; decode the MoQT SUBSCRIBE inside it too."""
    message = read_cpp(reader)
    _open_subscribes(reader.record.root, "subscribe_data")
    return message


def _open_subscribes(root: Node, name: str) -> None:
    """Decode the leaves of this name whose bytes are the body of a SUBSCRIBE of some draft."""
    for path, leaf in list(root.leaves()):
        if path.endswith(f".{name}"):
            for draft, read in _SUBSCRIBES.items():
                if _open(leaf, read, draft):
                    leaf.note = f"MoQT draft {draft.value}"
                    break


def _cpp_data(reader: TracingReader) -> Any:
    """Read the header of a stream or datagram, and the publisher's MoQT bytes after it."""
    start = reader.pos
    reader.u8("header_len")
    is_stream = reader.u8("type") != DataType.DATAGRAM
    reader.pos = start
    reader.enter("STREAM_HEADER" if is_stream else "DATAGRAM_HEADER")
    header: Any = (read_stream_header if is_stream else read_datagram_header)(reader)
    reader.leave()
    if not reader.at_end:
        draft = _draft_of(reader, is_stream=is_stream)
        (_UNI if is_stream else _DATAGRAM)[draft](reader.recoded(draft.integers))
    return header


def _draft_of(reader: TracingReader, *, is_stream: bool) -> Draft:
    """Return the draft that the remaining bytes fit: the header does not contain it."""
    rest = bytes(reader.peek_rest())
    for draft in Draft:
        unit = Protocol(
            "",
            "",
            (_UNI if is_stream else _DATAGRAM)[draft],
            draft.integers,
            stream_of_messages=False,
            datagram=not is_stream,
        )
        if decode(unit, rest).status is Status.OK:
            return draft
    return Draft.D16


# QuicR


def _quicr_datagram(reader: TracingReader) -> Any:
    """Read a fragment of media, or PUBLISH, by the first integer."""
    start = reader.pos
    if reader.varint("message_type") == MessageType.PUBLISH:
        return PUBLISH.read(reader, MessageType.PUBLISH.name)
    reader.pos = start
    header = read_quicr_header(reader)
    reader.rest("data")
    return header


def _moqt(draft: Draft) -> tuple[Protocol, ...]:
    name, coding = f"moqt-{draft.value}", draft.integers
    title, words = f"MoQT draft {draft.value}", MOQT[draft]
    return (
        Protocol(
            name,
            f"{title}, control messages",
            ControlCodec(draft).read,
            coding,
            words=words,
            weight=2,
        ),
        Protocol(
            f"{name}-uni",
            f"{title}, a unidirectional stream: subgroup or fetch",
            _UNI[draft],
            coding,
            stream_of_messages=False,
            words=words,
            weight=1,
        ),
        Protocol(
            f"{name}-datagram",
            f"{title}, an object datagram",
            _DATAGRAM[draft],
            coding,
            stream_of_messages=False,
            datagram=True,
            words=words,
        ),
    )


_ALL: Final = (
    Protocol(
        "laps-cpp",
        "C++ LAPS relay, control messages",
        _cpp_control,
        DRAFT16.integers,
        words=CPP,
        weight=2,
    ),
    Protocol(
        "laps-cpp-data",
        "C++ LAPS relay, a data stream or datagram",
        _cpp_data,
        stream_of_messages=False,
        words=CPP,
        weight=1,
    ),
    Protocol("laps-2", "LAPS peering, control messages", _laps2_control, words=LAPS2, weight=2),
    Protocol(
        "laps-2-data",
        "LAPS peering, a data stream or datagram",
        _laps2_data,
        stream_of_messages=False,
        words=LAPS2,
        weight=1,
    ),
    *_moqt(Draft.D16),
    *_moqt(Draft.D18),
    Protocol("quicr", "QuicR, control messages", read_quicr, words=QUICR, weight=2),
    Protocol(
        "quicr-datagram",
        "QuicR, a datagram",
        _quicr_datagram,
        stream_of_messages=False,
        datagram=True,
        words=QUICR,
    ),
)

PROTOCOLS: Final[dict[str, Protocol]] = {protocol.name: protocol for protocol in _ALL}
"""Protocols by name; their order decides between equal guesses."""
