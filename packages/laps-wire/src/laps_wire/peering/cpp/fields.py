"""Field codecs that only the C++ relay's messages need.

::

    path item                                   namespace of an announce
    +---------------------+                     +-----------+-------------+-------+- - -+
    | node ID    (64, LE) |   little endian:    | count (8) | length (16) | field |     |
    +---------------------+   the C++ code      +-----------+-------------+-------+- - -+
    | sRTT in us (64, LE) |   copies a struct
    +---------------------+   out of memory     everything else is big endian
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_wire.buffer import Reader, Writer
from laps_wire.fields import U8, U16, Prefixed
from laps_wire.layout import Array, Layout
from laps_wire.names import MAX_FIELDS, MAX_NAME_BYTES, Namespace
from laps_wire.nodeid import NODE_ID, NodeId
from laps_wire.peering.cpp.codepoints import MAX_SNS_NODES

__all__ = ["NODE_SET", "PATH_ITEM", "SHORT_NAMESPACE", "NodePathItem"]


@dataclass(frozen=True, slots=True)
class LittleEndian64:
    """An unsigned 64-bit integer, least significant byte first."""

    def read(self, reader: Reader, field: str) -> int:
        """Read it."""
        return int.from_bytes(reader.view(8, field), "little")

    def write(self, writer: Writer, value: int, field: str) -> None:
        """Write it."""
        if not 0 <= value < 1 << 64:
            writer.fail(field, f"{value} does not fit 8 unsigned byte(s)")
        writer.raw(value.to_bytes(8, "little"))


@dataclass(frozen=True, slots=True)
class LittleEndianNodeId:
    """A node ID, least significant byte first."""

    def read(self, reader: Reader, field: str) -> NodeId:
        """Read it."""
        return NodeId(LITTLE_ENDIAN_64.read(reader, field))

    def write(self, writer: Writer, value: NodeId, field: str) -> None:
        """Write it."""
        LITTLE_ENDIAN_64.write(writer, value, field)


LITTLE_ENDIAN_64: Final = LittleEndian64()


@dataclass(frozen=True, slots=True)
class NodePathItem:
    """One relay on the way that node information took."""

    node_id: NodeId
    srtt_us: int
    """The smoothed round-trip time of the session that it came in by, in microseconds."""


PATH_ITEM: Final = Layout(
    NodePathItem, ("node_id", LittleEndianNodeId()), ("srtt_us", LITTLE_ENDIAN_64)
)


@dataclass(frozen=True, slots=True)
class ShortNamespace:
    """A namespace with an 8-bit count and 16-bit lengths; MoQT's limits hold here as well."""

    def read(self, reader: Reader, field: str) -> Namespace:
        """Read it."""
        start = reader.pos
        fields = _SHORT_FIELDS.read(reader, field)
        try:
            return Namespace(fields)
        except ValueError as error:
            reader.fail(field, str(error), offset=start)

    def write(self, writer: Writer, value: Namespace, field: str) -> None:
        """Write it."""
        _SHORT_FIELDS.write(writer, value.fields, field)


_SHORT_FIELDS: Final = Array(Prefixed(MAX_NAME_BYTES, U16), MAX_FIELDS, U8)
SHORT_NAMESPACE: Final = ShortNamespace()


@dataclass(frozen=True, slots=True)
class NodeSet:
    """A 16-bit count and node IDs. Any order is read, for it is a set; ascending is written."""

    def read(self, reader: Reader, field: str) -> tuple[NodeId, ...]:
        """Read it."""
        return tuple(sorted(set(_NODES.read(reader, field))))

    def write(self, writer: Writer, value: tuple[NodeId, ...], field: str) -> None:
        """Write it."""
        _NODES.write(writer, value, field)


_NODES: Final = Array(NODE_ID, MAX_SNS_NODES, U16)
NODE_SET: Final = NodeSet()
