"""Bytes, messages and sans-IO sessions of LAPS peering, MoQT and QuicR.

Here are the names and errors that all protocols share. Each protocol is a package of its own:
:mod:`laps_wire.moqt`, :mod:`laps_wire.peering.laps2`, :mod:`laps_wire.peering.cpp`,
:mod:`laps_wire.quicr`, :mod:`laps_wire.telemetry`; ``python -m laps_wire decode`` explains bytes.
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
