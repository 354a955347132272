"""Names for numbers that messages keep as numbers.

Words for values, from the message that the bytes became.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

import pytest

from laps_wire.moqt.versions import Draft
from laps_wire.nodeid import NodeId
from laps_wire.trace.decode import decode
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.reader import Node
from laps_wire.trace.words import CPP, LAPS2, MOQT, QUICR, Words, annotate, apply_words

D16, D18 = MOQT[Draft.D16], MOQT[Draft.D18]


def note(words: Words, path: str, value: object, before: str = "") -> str:
    """The note on a leaf at ``path``."""
    *outer, label = path.split(".")
    leaf = Node(label, 0, 1, value, before)
    node = leaf
    for name in reversed(outer):
        node = Node(name, 0, 1, children=[node])
    apply_words(Node("", 0, 1, children=[node]), words)
    return leaf.note


@pytest.mark.parametrize(
    ("words", "path", "value", "name"),
    [
        (D16, "REQUEST_ERROR.error_code", 0x0, "INTERNAL_ERROR"),
        (D16, "object[3].object status", 0x3, "END_OF_GROUP"),
        (D16, "PUBLISH_DONE.status_code", 0x6, "TOO_FAR_BEHIND"),
        (D16, "PUBLISH_DONE.status_code", 0xFFFF, ""),
        (D16, "SUBGROUP_HEADER.type", 0x10, "SUBGROUP_ID_ZERO"),
        (D16, "SUBGROUP_HEADER.type", 0x15, "SUBGROUP_ID_PRESENT|EXTENSIONS"),
        (
            D16,
            "SUBGROUP_HEADER.type",
            0x3A,
            "SUBGROUP_ID_IS_FIRST_OBJECT|END_OF_GROUP|DEFAULT_PRIORITY",
        ),
        (D18, "SUBGROUP_HEADER.type", 0x50, "SUBGROUP_ID_ZERO|FIRST_OBJECT"),
        (D16, "SUBGROUP_HEADER.type", 0x16, ""),  # the reserved mode
        (D16, "OBJECT_DATAGRAM.type", 0x00, ""),
        (D16, "OBJECT_DATAGRAM.type", 0x25, "EXTENSIONS|ZERO_OBJECT_ID|STATUS"),
        (D18, "OBJECT_DATAGRAM.type", 0x132B3E29, "PADDING"),
        (D16, "item[0].serialization flags", 0x1F, "SUBGROUP_PRESENT|OBJECT_ID|GROUP_ID|PRIORITY"),
        (D16, "item[0].serialization flags", 0x01, "SUBGROUP_PRIOR"),
        (D16, "item[0].serialization flags", 0x63, "EXTENSIONS|DATAGRAM"),
        (D16, "item[0].serialization flags", 0x8C, "NON_EXISTENT"),
        (D16, "item[0].serialization flags", 0x90, ""),
        (LAPS2, "CHALLENGE.version", 0x0201, "2.1"),
        (LAPS2, "CONNECT_REFUSED.code", 0x1, "INTERNAL_ERROR"),
        (LAPS2, "SUBSCRIBE_RESPONSE.code", 1, "POLICY"),
        (LAPS2, "FETCH_RESPONSE.code", 3, "NO_PUBLISHER"),
        (LAPS2, "DATA_HEADER.kind and flags", 0x12, "STREAM|FETCH"),
        (LAPS2, "SNS_REFUSED.code", 1, "NOT_ADVERTISED"),
        (LAPS2, "code", 1, ""),
        (LAPS2, "PROOF.evidence.scheme", 3, "SHARED_KEY"),
        (LAPS2, "CONNECT.parameters.id", 0x1C, "IMPLEMENTATION"),
        (LAPS2, "DATA_HEADER.kind and flags", 0x10, "STREAM"),
        (LAPS2, "DATA_HEADER.kind and flags", 0x21, "DATAGRAM|OVERLAP"),
        (LAPS2, "DATA_HEADER.format", 18, "MOQT_18"),
        (CPP, "CONNECT_RESPONSE.error", 2, "NOT_AUTHORIZED"),
        (CPP, "ANNOUNCE_INFO_ADVERTISED.info.flags", 1, "NAMESPACE"),
        (CPP, "ANNOUNCE_INFO_WITHDRAWN.info.flags", 0, "TRACK"),
        # From the tables of messages: in lists, in what may be absent, in structures.
        (D16, "SUBSCRIBE.parameters[1].GROUP_ORDER", 2, "DESCENDING"),
        (LAPS2, "PROOF.mode", 2, "BOTH"),
        (LAPS2, "NODE_ADVERTISE.nodes[7].node.relay_type", 0, "VIA"),
        (LAPS2, "NODE_ADVERTISE.nodes[7].path[1].node_id", 1, "0.0:0.1"),
        (LAPS2, "SNS_UPDATE.add[0]", 2**32, "0.1:0.0"),
        (CPP, "CONNECT.mode", 1, "DATA"),
        (CPP, "CONNECT_RESPONSE.node_info.node_type", 2, "STUB"),
        (CPP, "SUBSCRIBE_NODE_SET_ADVERTISED.nodes[4]", 5, "0.0:0.5"),
        (QUICR, "SUBSCRIBE_STREAM.intent", 0, "IMMEDIATE"),
        (CPP, "STREAM_HEADER.type", 2, "NEW_STREAM"),
        (CPP, "DATAGRAM_HEADER.type", 0, "DATAGRAM"),
    ],
)
def test_a_number_and_its_name(words: Words, path: str, value: int, name: str) -> None:
    assert note(words, path, value) == name


def test_items_of_lists() -> None:
    for index in (0, 17):
        assert note(LAPS2, f"CONNECT.features[{index}]", 2) == "PROBES"
        assert note(LAPS2, f"CONNECT.schemes[{index}]", 1) == "TLS"
        assert note(LAPS2, f"CONNECT.versions[{index}]", 0x0200) == "2.0"


def test_a_note_that_is_there_stays() -> None:
    assert note(D16, "error_code", 0, "mine") == "mine"


def test_only_numbers_have_names() -> None:
    assert note(D16, "error_code", b"\x00") == ""


def test_the_longest_end_of_a_path_counts() -> None:
    words: Words = {"code": lambda _: "any", "B.code": lambda _: "of b"}
    assert note(words, "A.code", 1) == "any"
    assert note(words, "A.B.code", 1) == "of b"
    assert note({}, "A.code", 1) == ""


def test_a_message_that_broke_off_has_its_names() -> None:
    """There is no message to ask, so the names come from its table."""
    data = bytes.fromhex("0100010000002202b97e0ef037b17f890107")
    (traced,) = decode(PROTOCOLS["laps-cpp"], data).messages
    assert traced.message is None
    assert {path: leaf.note for path, leaf in traced.root.leaves() if leaf.note} == {
        "type": "CONNECT",
        "CONNECT.mode": "BOTH",
        "CONNECT.node_info.node_id": "47486.3824:14257.32649",
        "CONNECT.node_info.node_type": "EDGE",
    }


# Notes from the message


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
