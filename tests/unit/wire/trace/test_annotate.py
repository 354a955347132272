"""Words for values, from the message that the bytes became."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

from laps_wire.nodeid import NodeId
from laps_wire.trace.annotate import annotate
from laps_wire.trace.tree import Node


class Colour(IntEnum):
    RED = 1


class Bits(IntFlag):
    A = 1
    B = 2


@dataclass
class Inner:
    node_id: NodeId
    bits: Bits = Bits.A | Bits.B


@dataclass
class Message:
    colour: Colour
    items: tuple[Inner, ...]
    numbers: tuple[Colour, ...]
    raw: bytes
    little: int
    plain: int = 5

    def method(self) -> int:
        return 1


MESSAGE = Message(Colour.RED, (Inner(NodeId(1)), Inner(NodeId(2))), (Colour.RED,), b"ab", 258)


def leaf(label: str, value: object = 0) -> Node:
    return Node(label, 0, 1, value)


def node(label: str, *children: Node) -> Node:
    return Node(label, 0, 1, children=list(children))


def notes(*children: Node, message: object = MESSAGE) -> dict[str, str]:
    root = node("", *children)
    annotate(root, message)
    return {path: found.note for path, found in root.leaves()}


def test_members_flags_and_ids() -> None:
    found = notes(
        node(
            "MESSAGE",
            leaf("colour", 1),
            leaf("plain", 5),
            leaf("unknown", 5),
            leaf("method", 1),
            leaf("_private", 1),
            node(
                "items",
                leaf("count", 2),
                node("[0]", leaf("node id", 1), leaf("bits", 3)),
                node("[1]", leaf("NODE_ID", 2)),
                node("[2]", leaf("node_id", 2)),
            ),
            leaf("numbers[0]", 1),
            leaf("numbers[1]", 1),
            leaf("nothing[0]", 1),
        )
    )
    assert found == {
        "MESSAGE.colour": "RED",
        "MESSAGE.plain": "",
        "MESSAGE.unknown": "",
        "MESSAGE.method": "",
        "MESSAGE._private": "",
        "MESSAGE.items.count": "",
        "MESSAGE.items[0].node id": "0.0:0.1",
        "MESSAGE.items[0].bits": "A|B",
        "MESSAGE.items[1].NODE_ID": "0.0:0.2",
        "MESSAGE.items[2].node_id": "",
        "MESSAGE.numbers[0]": "RED",
        "MESSAGE.numbers[1]": "",
        "MESSAGE.nothing[0]": "",
    }


def test_a_word_that_contradicts_the_bytes_is_not_written() -> None:
    """A set that was sorted, a sum of deltas: the message has another value than the bytes."""
    assert notes(leaf("colour", 2)) == {"colour": ""}


def test_bytes_that_are_a_little_endian_number() -> None:
    good, bad, opaque = leaf("little", b"\x02\x01"), leaf("little", b"\x01\x02"), leaf("raw", b"ab")
    notes(good, bad, opaque)
    assert (good.value, bad.value, opaque.value) == (258, b"\x01\x02", b"ab")


def test_what_is_bytes_in_the_message_is_left_to_who_opened_it() -> None:
    opened = node("MESSAGE", node("raw", leaf("colour", 1), leaf("[0]", b"a")))
    assert notes(opened) == {"MESSAGE.raw.colour": "", "MESSAGE.raw[0]": ""}


def test_a_message_with_an_attribute_of_its_own_name() -> None:
    """CHALLENGE has a field ``challenge``; at the top the label is the message."""

    @dataclass
    class Challenge:
        challenge: bytes
        colour: Colour

    tree = node("CHALLENGE", leaf("challenge", b"x"), leaf("colour", 1))
    found = notes(tree, message=Challenge(b"x", Colour.RED))
    assert found == {"CHALLENGE.challenge": "", "CHALLENGE.colour": "RED"}


def test_notes_that_are_there_stay() -> None:
    noted = leaf("colour", 1)
    noted.note = "mine"
    assert notes(noted) == {"colour": "mine"}


def test_a_note_says_more_than_the_value() -> None:
    class Number(int):
        pass

    @dataclass
    class Holder:
        number: Number

    assert notes(leaf("number", 7), message=Holder(Number(7))) == {"number": ""}


def test_the_type_is_named_by_what_follows() -> None:
    assert notes(
        leaf("version", 1), leaf("type", 6), leaf("length", 2), node("SUBSCRIBE"), message=None
    ) == {"version": "", "type": "SUBSCRIBE", "length": ""}
    assert notes(leaf("type", 6), leaf("body", b""), message=None) == {"type": "", "body": ""}
    assert notes(leaf("size", 6), node("X", leaf("type", 1)), message=None) == {
        "size": "",
        "X.type": "",
    }
