"""Decode bytes of any protocol with a trace of every field.

::

    text in hexadecimal -> hextext -> bytes
    bytes -> Protocol (protocols) -> decode -> Decoded: messages, trees, at most one fault
                  |                    |
            the codecs of          reader: every named read becomes a leaf of a tree
            laps_wire              words: explanations of values

    Decoded -> text                a tree with offsets, or one JSON object for each message
    records of a session -> conversation -> messages in the order in which they were sent

Import from here. ``python -m laps_wire decode`` is the command over it.
"""

from laps_wire.trace.conversation import (
    Chunk,
    Conversation,
    Step,
    parse_conversations,
    play,
    render_step,
    step_dicts,
)
from laps_wire.trace.decode import Decoded, Fault, Protocol, Status, Traced, decode, evidence, guess
from laps_wire.trace.hextext import parse_hex
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.reader import Node, Record, TracingReader
from laps_wire.trace.text import as_dicts, render

__all__ = [
    "PROTOCOLS",
    "Chunk",
    "Conversation",
    "Decoded",
    "Fault",
    "Node",
    "Protocol",
    "Record",
    "Status",
    "Step",
    "Traced",
    "TracingReader",
    "as_dicts",
    "decode",
    "evidence",
    "guess",
    "parse_conversations",
    "parse_hex",
    "play",
    "render",
    "render_step",
    "step_dicts",
]
