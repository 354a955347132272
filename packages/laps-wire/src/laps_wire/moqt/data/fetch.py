"""Fetch streams: FETCH_HEADER, objects, and ranges without objects (moq-transport-16, 10.4.4).

::

    header  | 0x05 | request id |

    object  | flags | [group] | [subgroup] | [object] | [priority] | [extensions] | length | ..

    flags   0 D X P G O S S
              | | | | | +-+- 0x03  subgroup id: 0 it is 0, 1 the prior object's, 2 that plus one,
              | | | | |            3 in the field
              | | | | +----- 0x04  the object field is there; else: the prior object's id plus one
              | | | +------- 0x08  the group field is there;  else: the prior object's group
              | | +--------- 0x10  the priority is there;     else: the prior object's
              | +----------- 0x20  extensions
              +------------- 0x40  sent as a datagram: no subgroup id, 0x03 is ignored

    range   | 0x8C  | group | object | 0 |     no objects exist from the last object up to here
            | 0x10C | group | object | 0 |     it is unknown whether objects exist up to here

                      draft 16    draft 18
    group field       the id      the distance from the prior group in the fetch's order, less one;
                                  in the first item the id
    object field      the id      the id if the group field is there, else the distance from the
                                  prior object's id
    range             ids         ids

The first object must have all fields. After a range, the prior group and object ids are those of
the range; the prior subgroup id and priority are those of the last object (moq-transport-18,
11.4.4.2). Draft 16 does not define this case: we read it in the same way, and write both ids. After
an object that was sent as a datagram there is no prior subgroup id.

The figures of both drafts have a payload length in every item, so a range has one, which is zero.
Some implementations omit it; ``range_length=False`` selects their form.
"""

from __future__ import annotations

from typing import Final, NoReturn

from laps_wire.buffer import ByteSource, Reader, Writer
from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data.stream import DataEvent, StreamParser
from laps_wire.moqt.data.types import (
    FETCH_HEADER_TYPE,
    MAX_EXTENSIONS_SIZE,
    OBJECT_END,
    FetchHeader,
    MalformedTrackError,
    MoqObject,
    ObjectHeader,
    ObjectStatus,
    RangeEnd,
    RangeKind,
    check_object,
    read_extensions,
)
from laps_wire.moqt.versions import Draft

__all__ = [
    "FetchParser",
    "FetchState",
    "FetchWriter",
    "decode_fetch_header",
    "encode_fetch_header",
    "read_fetch_header",
    "read_fetch_item",
    "read_fetch_stream",
]


SUBGROUP_ID_MODE: Final = 0x03
OBJECT_ID: Final = 0x04
GROUP_ID: Final = 0x08
PRIORITY: Final = 0x10
EXTENSIONS: Final = 0x20
DATAGRAM: Final = 0x40
FLAGS_END: Final = 0x80
"""Serialization Flags from this value on are not flags: two mark ranges, others are refused."""

_SUBGROUP_ZERO: Final = 0
_SUBGROUP_PRIOR: Final = 1
_SUBGROUP_NEXT: Final = 2
_SUBGROUP_PRESENT: Final = 3

_RANGES: Final = {int(kind): kind for kind in RangeKind}


class FetchState:
    """The prior values that the next item of a fetch stream refers to; for reader and writer."""

    __slots__ = (
        "descending",
        "draft",
        "group_id",
        "last_group",
        "last_object",
        "object_id",
        "priority",
        "range_length",
        "subgroup_id",
    )

    def __init__(
        self,
        draft: Draft,
        order: GroupOrder = GroupOrder.ASCENDING,
        *,
        range_length: bool = True,
    ) -> None:
        self.draft = draft
        self.descending = order is GroupOrder.DESCENDING
        self.range_length = range_length
        """Whether a range has a payload length."""
        self.group_id: int | None = None
        """The group id of the prior item, which is an object or a range."""
        self.object_id = 0
        """The object id of the prior item; undefined while ``group_id`` is None."""
        self.subgroup_id: int | None = None
        """The subgroup id of the last object; None also if that was sent as a datagram."""
        self.priority: int | None = None
        """The priority of the last object."""
        self.last_group: int | None = None
        self.last_object = 0

    @property
    def behind_range(self) -> bool:
        """Return whether the prior item is a range that does not end at the last object."""
        return (self.group_id, self.object_id) != (self.last_group, self.last_object)

    def in_order(self, group_id: int, object_id: int) -> bool:
        """Return whether an object may follow the last one (moq-transport-16, 2.4.2, 1 to 4)."""
        last = self.last_group
        if last is None:
            return True
        if group_id == last:
            return object_id > self.last_object
        return (group_id < last) is self.descending

    def passed_object(self, header: ObjectHeader) -> None:
        """Record an object as the prior item."""
        self.group_id = self.last_group = header.group_id
        self.object_id = self.last_object = header.object_id
        self.subgroup_id = header.subgroup_id
        self.priority = header.priority

    def passed_range(self, item: RangeEnd) -> None:
        """Record a range as the prior item."""
        self.group_id = item.group_id
        self.object_id = item.object_id


# Reading


def read_fetch_header(reader: Reader) -> FetchHeader:
    """Read a FETCH_HEADER, its type included."""
    start = reader.pos
    reader.enter("FETCH_HEADER")
    kind = reader.varint("type")
    if kind != FETCH_HEADER_TYPE:
        reader.fail("type", f"{kind:#x} is not a FETCH_HEADER", offset=start)
    header = FetchHeader(reader.varint("request id"))
    reader.leave()
    return header


def decode_fetch_header(data: ByteSource, draft: Draft) -> tuple[FetchHeader, int]:
    """Read a FETCH_HEADER at the beginning of ``data``; return it and its size in bytes.

    The rest of the stream is read by a ``FetchParser``, which needs the group order of the request
    that the header names.
    """
    reader = Reader(data, integers=draft.integers, partial=True)
    return read_fetch_header(reader), reader.pos


def read_fetch_item(reader: Reader, state: FetchState) -> ObjectHeader | RangeEnd:
    """Read an object header or a range; ``state`` changes only if the item is complete."""
    start = reader.pos
    flags = reader.varint("serialization flags")
    if flags >= FLAGS_END:
        return _read_range(reader, state, flags, start)

    prior_group = state.group_id
    limit = reader.integers.max_value
    if flags & GROUP_ID:
        group_id = reader.varint("group id")
        if prior_group is not None and state.draft >= Draft.D18:
            step = group_id + 1
            group_id = prior_group - step if state.descending else prior_group + step
            if not 0 <= group_id <= limit:
                reader.fail("group id", f"{group_id} is out of range", offset=start)
    elif prior_group is None:
        _no_prior(reader, "group id", start)
    else:
        group_id = prior_group

    subgroup_id = _read_subgroup_id(reader, state, flags, start)

    if flags & OBJECT_ID:
        object_id = reader.varint("object id")
        if state.draft >= Draft.D18 and not flags & GROUP_ID:
            object_id += state.object_id
    elif prior_group is None:
        _no_prior(reader, "object id", start)
    else:
        object_id = state.object_id + 1
    if object_id > limit:
        reader.fail("object id", f"{object_id} is out of range", offset=start)

    if flags & PRIORITY:
        priority = reader.u8("publisher priority")
    elif state.priority is None:
        _no_prior(reader, "publisher priority", start)
    else:
        priority = state.priority

    extensions = b""
    if flags & EXTENSIONS:
        extensions = read_extensions(reader)
    length = reader.varint("object payload length")

    if not state.in_order(group_id, object_id):
        raise MalformedTrackError(
            f"object {group_id}:{object_id} is out of order behind"
            f" {state.last_group}:{state.last_object}"
        )
    header = ObjectHeader(
        group_id, object_id, subgroup_id, priority, length, ObjectStatus.NORMAL, extensions
    )
    state.passed_object(header)
    return header


def _read_subgroup_id(reader: Reader, state: FetchState, flags: int, start: int) -> int | None:
    if flags & DATAGRAM:
        return None
    mode = flags & SUBGROUP_ID_MODE
    if mode == _SUBGROUP_ZERO:
        return 0
    if mode == _SUBGROUP_PRESENT:
        return reader.varint("subgroup id")
    prior = state.subgroup_id
    if prior is None:
        _no_prior(reader, "subgroup id", start)
    if mode == _SUBGROUP_NEXT:
        prior += 1
        if prior > reader.integers.max_value:
            reader.fail("subgroup id", f"{prior} is out of range", offset=start)
    return prior


def _read_range(reader: Reader, state: FetchState, flags: int, start: int) -> RangeEnd:
    kind = _RANGES.get(flags)
    if kind is None:
        reader.fail("serialization flags", f"{flags:#x} has no meaning", offset=start)
    item = RangeEnd(kind, reader.varint("group id"), reader.varint("object id"))
    if state.range_length and reader.varint("object payload length"):
        reader.fail("object payload length", "a range has no payload", offset=start)
    state.passed_range(item)
    return item


def _no_prior(reader: Reader, field: str, start: int) -> NoReturn:
    reader.fail(field, "refers to a prior object, and there is none that has it", offset=start)


def read_fetch_stream(
    reader: Reader, state: FetchState
) -> tuple[FetchHeader, tuple[MoqObject | RangeEnd, ...]]:
    """Read a whole fetch stream, up to the end of ``reader``."""
    header = read_fetch_header(reader)
    items: list[MoqObject | RangeEnd] = []
    while not reader.at_end:
        reader.enter(f"item[{len(items)}]")
        item = read_fetch_item(reader, state)
        if isinstance(item, ObjectHeader):
            items.append(MoqObject(item, reader.take(item.payload_length, "object payload")))
        else:
            items.append(item)
        reader.leave()
    return header, tuple(items)


# Writing


def encode_fetch_header(header: FetchHeader, draft: Draft) -> bytes:
    """Write a FETCH_HEADER."""
    writer = Writer(integers=draft.integers)
    writer.varint(FETCH_HEADER_TYPE, "type")
    writer.varint(header.request_id, "request id")
    return writer.getvalue()


class FetchWriter:
    """Writes one fetch stream, each item in its shortest form.

    ``start`` is the FETCH_HEADER. ``object_header`` returns the bytes before a payload, so that a
    large payload need not be copied. ``object`` returns header and payload together, ``range_end``
    a range. The state does not change if an item cannot be written.
    """

    __slots__ = ("start", "state")

    def __init__(
        self,
        header: FetchHeader,
        draft: Draft,
        order: GroupOrder = GroupOrder.ASCENDING,
        *,
        range_length: bool = True,
    ) -> None:
        self.start = encode_fetch_header(header, draft)
        """The bytes that open the stream."""
        self.state = FetchState(draft, order, range_length=range_length)

    def object_header(self, header: ObjectHeader) -> bytes:
        """Return the bytes before the payload of the next object."""
        state = self.state
        if header.status is not ObjectStatus.NORMAL:
            raise EncodeError(f"a fetch has no status {header.status.name}: write a range")
        if header.priority is None:
            raise EncodeError("in a fetch every object says its priority")
        if not state.in_order(header.group_id, header.object_id):
            last = f"{state.last_group}:{state.last_object}"
            raise EncodeError(f"{header.group_id}:{header.object_id} cannot follow {last}")
        check_object(header.status, header.payload_length, header.extensions)
        flags, group, object_ = self._places(header.group_id, header.object_id)
        subgroup = header.subgroup_id
        if subgroup is None:
            flags |= DATAGRAM
        elif subgroup:
            if subgroup == state.subgroup_id:
                flags |= _SUBGROUP_PRIOR
            elif state.subgroup_id is not None and subgroup == state.subgroup_id + 1:
                flags |= _SUBGROUP_NEXT
            else:
                flags |= _SUBGROUP_PRESENT
        if header.priority != state.priority:
            flags |= PRIORITY
        if header.extensions:
            flags |= EXTENSIONS

        writer = Writer(integers=state.draft.integers)
        writer.varint(flags, "serialization flags")
        if flags & GROUP_ID:
            writer.varint(group, "group id")
        if subgroup is not None and flags & SUBGROUP_ID_MODE == _SUBGROUP_PRESENT:
            writer.varint(subgroup, "subgroup id")
        if flags & OBJECT_ID:
            writer.varint(object_, "object id")
        if flags & PRIORITY:
            writer.u8(header.priority, "publisher priority")
        if flags & EXTENSIONS:
            writer.prefixed(header.extensions, "extensions", MAX_EXTENSIONS_SIZE)
        writer.varint(header.payload_length, "object payload length")
        state.passed_object(header)
        return writer.getvalue()

    def _places(self, group_id: int, object_id: int) -> tuple[int, int, int]:
        """Return the flags for group and object id, and the values of both fields."""
        state = self.state
        limit = state.draft.integers.max_value
        if not (0 <= group_id <= limit and 0 <= object_id <= limit):
            raise EncodeError(f"{group_id}:{object_id} is out of range")
        prior = state.group_id
        if prior is None or (state.draft < Draft.D18 and state.behind_range):
            # Draft 16 does not define the prior ids after a range; with both ids, none is needed.
            return GROUP_ID | OBJECT_ID, group_id, object_id
        flags = 0
        group, object_ = group_id, object_id
        if group_id != prior:
            flags |= GROUP_ID
            if state.draft >= Draft.D18:
                group = (prior - group_id if state.descending else group_id - prior) - 1
        elif state.draft >= Draft.D18:
            object_ = object_id - state.object_id
        if object_id != state.object_id + 1:
            flags |= OBJECT_ID
        if group < 0 or object_ < 0:
            # This happens only after a range that ends beyond this object.
            raise EncodeError(f"{group_id}:{object_id} is before the end of the range behind it")
        return flags, group, object_

    def object(self, header: ObjectHeader, payload: ByteSource) -> bytes:
        """Return the complete next object; its payload length is that of ``payload``."""
        if header.payload_length != len(payload):
            raise EncodeError(f"payload of {len(payload)} bytes, not {header.payload_length}")
        return b"".join((self.object_header(header), payload))

    def range_end(self, item: RangeEnd) -> bytes:
        """Return the bytes of a range without objects, up to and including a location."""
        writer = Writer(integers=self.state.draft.integers)
        writer.varint(item.kind, "serialization flags")
        writer.varint(item.group_id, "group id")
        writer.varint(item.object_id, "object id")
        if self.state.range_length:
            writer.varint(0, "object payload length")
        self.state.passed_range(item)
        return writer.getvalue()


class FetchParser(StreamParser):
    """Reads one incoming fetch stream as it arrives, without copying payloads.

    The meaning of draft 18's group ids depends on the group order of the request, which the
    FETCH_HEADER names. So the caller reads the header first and feeds the rest to the parser::

        header, used = decode_fetch_header(data, draft)      IncompleteError: wait for more
        parser = FetchParser(draft, order_of[header.request_id])
        events = parser.feed(data[used:])

    Bytes: ``feed``, ``finish``; ``laps_wire.moqt.data.stream`` lists the events.
    """

    __slots__ = ("_integers", "_state")

    def __init__(
        self,
        draft: Draft,
        order: GroupOrder = GroupOrder.ASCENDING,
        *,
        range_length: bool = True,
    ) -> None:
        super().__init__()
        self._integers = draft.integers
        self._state = FetchState(draft, order, range_length=range_length)

    def _started(self) -> bool:
        return True  # the FETCH_HEADER was read before

    def _begin(self, data: ByteSource, pos: int, end: int, events: list[DataEvent]) -> int:
        # Release the view at once: a bytearray cannot grow while a view of it exists.
        with memoryview(data) as view:
            reader = Reader(view, integers=self._integers, partial=True, pos=pos, end=end)
            item = read_fetch_item(reader, self._state)
            pos = reader.pos
        events.append(item)
        if isinstance(item, ObjectHeader):
            if item.payload_length:
                self._left = item.payload_length
            else:
                events.append(OBJECT_END)
        return pos
