"""Media in QUIC datagrams: the header that stands before every fragment, and PUBLISH.

::

    fragment of a media stream (seed 001, Datagram Header)

    +--------------------+----------+-----------+----------------+-------------+
    | datagram_stream_id | group_id | object_id | offset_and_fin | best_before | ...
    | (i)                | (i)      | (i)       | (i)            | (i)         |
    +--------------------+----------+-----------+----------------+-------------+
                             +-------+ - - - +------------------------+
                         ... | flags |  nb   | data                   |
                             | 8 bit |  (i)  | to the datagram's end  |
                             +-------+ - - - +------------------------+

    nb = nb_objects_previous_group: there if and only if object_id = 0 and offset = 0

    fragment of named data (seed 003, PUBLISH), the message without the control channel's length

    +--------------+------+-------+-------------+------------+-----------+------+
    | 0x3f PUBLISH | NAME | FLAGS | FRAGMENT_ID | BESTBEFORE | TIMESTAMP | Data |
    | (i)          | 16 B | 8 bit | (i)         | (i)        | (i)       | ...  |
    +--------------+------+-------+-------------+------------+-----------+------+

Seed 001's header begins with a number that the receiver chose, seed 003's message with a type. So
that both can share a connection, 0x3f is never a datagram stream id (it is refused both ways).

The header is read and written by hand because that runs for every packet. Decoding makes a named
tuple, which costs a third of a frozen dataclass. :func:`read_header` is the same header through a
:class:`~laps_wire.buffer.Reader`, for traces; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from laps_wire.buffer import ByteSource, Reader, Writer, decode_quic, encode_quic
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.quicr.codepoints import RESERVED_DATAGRAM_STREAM_ID, Flags, MessageType
from laps_wire.quicr.fragments import pack_offset_and_fin
from laps_wire.quicr.messages import PUBLISH, Publish

__all__ = [
    "DatagramFragment",
    "DatagramHeader",
    "decode_datagram",
    "decode_header",
    "encode_datagram",
    "encode_header",
    "encode_publish",
    "read_header",
    "split_to_datagrams",
]

# Every flags byte once: a decoder looks them up and makes none.
_FLAGS: Final = tuple(Flags(byte) for byte in range(256))


class DatagramHeader(NamedTuple):
    """What stands before the bytes of a fragment."""

    datagram_stream_id: int
    """The media stream, by the number that its receiver chose."""
    group_id: int
    object_id: int
    offset_and_fin: int
    """Twice the offset of the fragment in its object, plus one if it is the last."""
    best_before: int
    """Until when the object is of use, in milliseconds of TAI since 1970; 0 if for ever."""
    flags: Flags
    nb_objects_previous_group: int | None = None
    """How many objects the group before had; only with the first fragment of a group."""

    @property
    def offset(self) -> int:
        """Where the fragment begins in its object."""
        return self.offset_and_fin >> 1

    @property
    def is_last_fragment(self) -> bool:
        """Whether the object ends with this fragment."""
        return self.offset_and_fin & 1 == 1

    @property
    def is_first_of_group(self) -> bool:
        """Whether this is the first fragment of the first object of its group."""
        return self.object_id == 0 and self.offset_and_fin < 2


class DatagramFragment(NamedTuple):
    """A whole datagram of a media stream."""

    header: DatagramHeader
    data: memoryview
    """The bytes of the fragment; a view of the datagram."""


def decode_header(data: ByteSource, pos: int = 0) -> tuple[DatagramHeader, int]:
    """Read a header; give it and where the fragment's bytes begin.

    A datagram is whole when it comes, so one that ends inside its header is malformed.
    """
    end = len(data)
    start = pos
    try:
        datagram_stream_id, pos = decode_quic(data, pos, end)
        group_id, pos = decode_quic(data, pos, end)
        object_id, pos = decode_quic(data, pos, end)
        offset_and_fin, pos = decode_quic(data, pos, end)
        best_before, pos = decode_quic(data, pos, end)
        if pos >= end:
            raise IncompleteError
        flags = _FLAGS[data[pos]]
        pos += 1
        previous = None
        if object_id == 0 and offset_and_fin < 2:
            previous, pos = decode_quic(data, pos, end)
    except IncompleteError:
        raise MalformedError(
            f"a datagram of {end - start} byte(s) ends inside its header",
            field="quicrq_datagram_header",
            offset=pos,
        ) from None
    if datagram_stream_id == RESERVED_DATAGRAM_STREAM_ID:
        raise MalformedError(
            f"{datagram_stream_id} marks PUBLISH and is no stream",
            field="datagram_stream_id",
            offset=start,
        )
    return (
        DatagramHeader(
            datagram_stream_id, group_id, object_id, offset_and_fin, best_before, flags, previous
        ),
        pos,
    )


def encode_header(header: DatagramHeader) -> bytes:
    """Write a header."""
    stream, group, obj, offset_and_fin, best_before, flags, previous = header
    if stream == RESERVED_DATAGRAM_STREAM_ID:
        raise EncodeError(f"datagram_stream_id: {stream} marks PUBLISH and is no stream")
    if not 0 <= flags <= 0xFF:
        raise EncodeError(f"flags: {flags} does not fit 1 unsigned byte(s)")
    data = b"".join(
        (
            encode_quic(stream),
            encode_quic(group),
            encode_quic(obj),
            encode_quic(offset_and_fin),
            encode_quic(best_before),
            flags.to_bytes(1, "big"),
        )
    )
    if header.is_first_of_group:
        if previous is None:
            raise EncodeError("nb_objects_previous_group: the first fragment of a group needs it")
        return data + encode_quic(previous)
    if previous is not None:
        raise EncodeError("nb_objects_previous_group: only the first fragment of a group has it")
    return data


def read_header(reader: Reader) -> DatagramHeader:
    """Read a header field by field, so that a tracing reader can draw it."""
    start = reader.pos
    reader.enter("quicrq_datagram_header")
    stream = reader.varint("datagram_stream_id")
    group = reader.varint("group_id")
    obj = reader.varint("object_id")
    offset_and_fin = reader.varint("offset_and_fin")
    best_before = reader.varint("best_before")
    flags = _FLAGS[reader.u8("flags")]
    first = obj == 0 and offset_and_fin < 2
    previous = reader.varint("nb_objects_previous_group") if first else None
    reader.leave()
    if stream == RESERVED_DATAGRAM_STREAM_ID:
        reader.fail("datagram_stream_id", f"{stream} marks PUBLISH and is no stream", offset=start)
    return DatagramHeader(stream, group, obj, offset_and_fin, best_before, flags, previous)


def decode_datagram(data: ByteSource) -> DatagramFragment | Publish:
    """Read a whole datagram of either family."""
    view = memoryview(data)
    # One look at the first byte decides for all but the longer forms of the same number.
    if view and (view[0] == MessageType.PUBLISH or view[0] >= 0x40):
        reader = Reader(view)
        if reader.varint("datagram_stream_id") == MessageType.PUBLISH:
            return PUBLISH.read(reader, MessageType.PUBLISH.name)
    header, pos = decode_header(view)
    return DatagramFragment(header, view[pos:])


def encode_datagram(header: DatagramHeader, data: ByteSource) -> bytes:
    """Write a whole datagram of a media stream."""
    return encode_header(header) + data


def encode_publish(message: Publish) -> bytes:
    """Write a whole datagram of named data."""
    writer = Writer()
    writer.varint(MessageType.PUBLISH, "message_type")
    PUBLISH.write(writer, message, MessageType.PUBLISH.name)
    return writer.getvalue()


def split_to_datagrams(
    header: DatagramHeader, data: ByteSource, max_datagram: int
) -> Iterator[bytes]:
    """Cut an object into datagrams of at most ``max_datagram`` bytes, headers included.

    ``header`` is the first fragment's; its offset must be 0. A later header is longer, because its
    offset takes more bytes, or shorter, because only the first one of a group has the count.
    """
    if header.offset != 0:
        raise EncodeError(f"offset_and_fin: an object is cut from 0 on, not from {header.offset}")
    first = header._replace(offset_and_fin=0)
    final = pack_offset_and_fin(max(len(data), 1), is_last_fragment=True)
    longest = first._replace(offset_and_fin=final, nb_objects_previous_group=None)
    if max_datagram <= max(len(encode_header(first)), len(encode_header(longest))):
        raise EncodeError(f"a datagram of {max_datagram} bytes has no room behind its header")
    return _datagrams(first, memoryview(data), max_datagram)


def _datagrams(header: DatagramHeader, data: memoryview, max_datagram: int) -> Iterator[bytes]:
    offset = 0
    while True:
        # The fin bit never makes a varint longer: each size ends at an odd number.
        room = max_datagram - len(encode_header(header))
        is_last = offset + room >= len(data)
        header = header._replace(offset_and_fin=pack_offset_and_fin(offset, is_last))
        yield encode_header(header) + data[offset : offset + room]
        if is_last:
            return
        offset += room
        header = header._replace(
            offset_and_fin=pack_offset_and_fin(offset, is_last_fragment=False),
            nb_objects_previous_group=None,
        )
