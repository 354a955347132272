"""Bytes, messages and sans-IO sessions of LAPS peering, MoQT and QuicR.

::

    python -m laps_wire decode
              |
            trace                    any bytes -> a tree of fields, as text or JSON
              |
    +---------+------+---------+-----------+--------+-----------+
    moqt   peering  quicr   telemetry   plan   reports            one package for each format
    +---------+------+---------+-----------+--------+-----------+
              |
    matching  names  nodeid  hashing         what things are called, and what matches
              |
    layout -> fields -> buffer -> varint     tables of fields over bounds-checked bytes
              |
            errors                           whose fault an error was, and its wire code

No module here opens a socket, reads a clock, draws a random number or logs.

Import the shared names and errors from here. Import the rest from the package of its protocol:
:mod:`laps_wire.moqt`, :mod:`laps_wire.peering.laps2`, :mod:`laps_wire.peering.cpp`,
:mod:`laps_wire.quicr`, :mod:`laps_wire.telemetry`, :mod:`laps_wire.plan`. Names and node IDs
follow seed 000; ``docs/spec/names.md`` lists our choices.
"""

from laps_wire.errors import (
    EncodeError,
    IncompleteError,
    LapsError,
    LocalError,
    MalformedError,
    ProtocolViolation,
    RemoteError,
    StateError,
    TextFormError,
)
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId

__all__ = [
    "EncodeError",
    "FullTrackName",
    "IncompleteError",
    "LapsError",
    "LocalError",
    "MalformedError",
    "Namespace",
    "NodeId",
    "ProtocolViolation",
    "RemoteError",
    "StateError",
    "TextFormError",
]
