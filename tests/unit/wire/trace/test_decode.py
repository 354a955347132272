"""Decoding with a trace: messages, and where and why the reading stopped."""

from __future__ import annotations

import pytest

from laps_wire.buffer import Reader
from laps_wire.errors import RemoteError
from laps_wire.trace.decode import Fault, Protocol, Status, decode, evidence, guess
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.reader import TracingReader
from testkit import laps2, moqt
from testkit.trace import ALL, DATAGRAM, GREETINGS, HELLO, UNIT, Greet, Mood


def test_messages_one_after_the_other() -> None:
    decoded = decode(GREETINGS, bytearray(HELLO * 2))
    assert (decoded.status, decoded.used, decoded.data) == (Status.OK, 22, HELLO * 2)
    assert [traced.name for traced in decoded.messages] == ["GREET", "GREET"]
    assert decoded.messages[1].message == Greet((b"hi", b"you"), Mood.KEEN)
    assert [(path, leaf.start) for path, leaf in decoded.messages[1].root.leaves()] == [
        ("type", 11),
        ("length", 12),
        ("GREET.words.count", 13),
        ("GREET.words[0].length", 14),
        ("GREET.words[0]", 15),
        ("GREET.words[1].length", 17),
        ("GREET.words[1]", 18),
        ("GREET.mood", 21),
    ]
    notes = {path: leaf.note for path, leaf in decoded.messages[0].root.leaves()}
    assert (notes["type"], notes["GREET.mood"]) == ("GREET", "KEEN")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        # An enumeration without that member: the field is known, and where it is.
        (
            HELLO[:-1] + b"\x07",
            Fault(Status.BAD, "GREET.mood", "7 is not one of: 0 CALM, 1 KEEN", 10, 11, 3),
        ),
        # A word over its limit: from its length on.
        (
            bytes.fromhex("01 03 01 09 00"),
            Fault(Status.BAD, "GREET.words[0]", "length 9 is over the limit of 8", 3, 4, 3),
        ),
        # A count over the limit: the array itself.
        (
            bytes.fromhex("01 02 05 00"),
            Fault(Status.BAD, "GREET.words", "count 5 is over the limit of 4", 2, 3, 3),
        ),
        # A body that ends inside a field: all that is left of the body.
        (
            bytes.fromhex("01 03 01 04 61 62 63 64"),
            Fault(
                Status.BAD,
                "GREET.words[0]",
                "truncated: 3 more byte(s) needed, 1 left",
                4,
                5,
                3,
            ),
        ),
        # Bytes behind the last field: those.
        (
            bytes.fromhex("01 04 00 01 ff ff"),
            Fault(Status.BAD, "GREET", "2 byte(s) left over after the last field", 4, 6, 3),
        ),
        # An error that does not say where: the last field that was read.
        (b"\x09\x00", Fault(Status.BAD, "type", "nobody says 9", 0, 1, 3)),
    ],
)
def test_bad_bytes(data: bytes, fault: Fault) -> None:
    decoded = decode(GREETINGS, data)
    assert decoded.fault == fault
    assert decoded.status is Status.BAD
    assert decoded.messages[-1].message is None


def test_messages_before_the_bad_one_are_kept() -> None:
    decoded = decode(GREETINGS, HELLO + b"\x09")
    assert [traced.message is None for traced in decoded.messages] == [False, True]
    assert decoded.used == len(HELLO)
    assert decoded.fault is not None
    assert (decoded.fault.offset, str(decoded.fault)) == (11, "type: nobody says 9")


@pytest.mark.parametrize(
    ("cut", "path", "offset", "missing"),
    [
        (1, "length", 1, 1),
        (2, "GREET.words.count", 2, 9),
        (3, "GREET.words[0].length", 3, 8),
        (5, "GREET.words[0]", 4, 6),
        (10, "GREET.mood", 10, 1),
    ],
)
def test_a_message_that_is_cut(cut: int, path: str, offset: int, missing: int) -> None:
    decoded = decode(GREETINGS, HELLO[:cut])
    reason = f"the input ends here, at least {missing} more byte(s) belong to it"
    assert decoded.fault == Fault(Status.INCOMPLETE, path, reason, offset, cut, missing=missing)
    assert decoded.status.value == 3
    assert (decoded.used, decoded.messages[0].message) == (0, None)
    assert decoded.messages[0].root.end == offset


def test_a_fault_in_a_part_that_is_cut_may_not_be_one() -> None:
    """Nobody knows what the rest says: it is incomplete first of all."""
    decoded = decode(GREETINGS, bytes.fromhex("01 20 05"))
    assert decoded.status is Status.INCOMPLETE
    assert decoded.fault is not None
    assert (decoded.fault.path, decoded.fault.missing) == ("GREET.words", 31)


def test_a_part_that_is_cut_and_reads_well_is_still_cut() -> None:
    protocol = Protocol("p", "", lambda r: r.sub(r.u8("size"), "body").rest("body"))
    decoded = decode(protocol, b"\x05ab")
    assert decoded.fault is not None
    assert (decoded.fault.status, decoded.fault.missing) == (Status.INCOMPLETE, 3)
    assert decoded.messages[0].message is None
    assert decoded.fault.path == "message"
    framed = decode(GREETINGS, bytes.fromhex("01 03 00 00"))
    assert framed.fault is not None
    assert (framed.fault.path, framed.fault.offset) == ("GREET", 4)


def test_a_unit_is_all_of_the_input() -> None:
    assert decode(UNIT, b"\x02ab").status is Status.OK
    assert decode(UNIT, b"\x03ab").status is Status.INCOMPLETE
    over = decode(UNIT, b"\x01ab")
    assert over.fault == Fault(
        Status.BAD, "unit", "1 byte(s) left over after the last field", 2, 3, 3
    )


def test_a_datagram_is_never_incomplete() -> None:
    assert decode(DATAGRAM, b"\x02ab").status is Status.OK
    short = decode(DATAGRAM, b"\x03ab")
    assert short.fault is not None
    assert (short.fault.status, short.fault.path) == (Status.BAD, "content")


def test_no_bytes() -> None:
    decoded = decode(GREETINGS, b"")
    assert (decoded.status, decoded.messages) == (Status.INCOMPLETE, ())
    assert str(decoded.fault) == "there are no bytes"


def test_an_error_before_anything_was_read() -> None:
    def refuse(reader: Reader) -> None:
        raise RemoteError(f"not today at {reader.pos}")

    decoded = decode(Protocol("p", "", refuse), b"\x01")
    assert decoded.fault == Fault(Status.BAD, "", "not today at 0", 0, 0, 1)


def test_a_reader_that_reads_nothing_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="p: a message of no bytes"):
        decode(Protocol("p", "", lambda _: None), b"\x01")


def test_names_of_messages() -> None:
    assert decode(UNIT, b"\x02ab").messages[0].name == "bytes"
    assert decode(UNIT, b"\x03ab").messages[0].name == "message"


def test_how_it_ended_is_the_exit_code() -> None:
    assert {status.name: status.value for status in Status} == {"OK": 0, "BAD": 1, "INCOMPLETE": 3}


def test_what_is_not_said_is_nothing() -> None:
    fault = Fault(Status.BAD, "", "why", 0, 0)
    assert (fault.code, fault.missing) == (None, 0)
    assert decode(GREETINGS, b"").used == 0
    assert (UNIT.weight, UNIT.datagram, GREETINGS.stream_of_messages) == (0, False, True)


# From real relays, and from the vectors of the other packages.
KNOWN = {
    "laps-cpp": "01 0001 00000022 02 b97e0ef037b17f89 01 07 72656c61792d61" + "00" * 16,
    "laps-cpp-data": "13020000000206563237cfe9cbb08000001388 15c6563237cfe9cbb0000080 0000021a1b",
    "moqt-16-uni": "15c6563237cfe9cbb0000080 0000021a1b",
    "moqt-18": "af00 000a 80f1 07 72656c61792d61",
}


@pytest.mark.parametrize("name", KNOWN)
def test_bytes_that_were_seen(name: str) -> None:
    best, *rest = guess(PROTOCOLS.values(), bytes.fromhex(KNOWN[name]))
    assert best.protocol.name == name
    assert best.fault is None
    assert len(rest) == len(PROTOCOLS) - 1


def test_the_evidence() -> None:
    def of(protocol: str, data: bytes) -> int:
        return evidence(decode(ALL[protocol], data))

    assert of("greet", HELLO) == 4
    assert of("greet", HELLO[:6]) == 3  # the name is known, most of it is there
    assert of("greet", HELLO[:3]) == 1  # too little
    assert of("greet", HELLO[:1]) == 1  # no name yet
    assert evidence(decode(PROTOCOLS["moqt-16-uni"], b"\x15")) == 1  # any byte begins a stream
    stream = bytes.fromhex("15c6563237cfe9cbb000")
    uni = PROTOCOLS["moqt-16-uni"]
    assert [evidence(decode(uni, stream[:size])) for size in (7, 8, 10)] == [1, 3, 3]
    # Half of a message is enough, less is not.
    half = bytes.fromhex("01 08 01 03 6162")
    assert of("greet", half[:5]) == of("greet", half) == 3
    assert of("greet", bytes.fromhex("01 0a 01 03 61")) == 1
    assert of("unit", b"\x01a") == 2
    assert of("unit", b"\x02a") == 1
    assert of("datagram", b"\x02a") == 0
    assert of("greet", b"\x09") == 0


def test_the_best_comes_first_and_ties_keep_their_order() -> None:
    order = [DATAGRAM, UNIT, GREETINGS]
    assert guess(order, HELLO)[0].protocol is GREETINGS
    names = [decoded.protocol.name for decoded in guess(order, b"\x01a")]
    assert names[:2] == ["datagram", "unit"]
    assert [d.protocol.name for d in guess([UNIT, DATAGRAM], b"\x01a")] == ["unit", "datagram"]


def test_more_meaning_wins() -> None:
    """The same bytes, whole in all of them: one explains more of them than another."""

    def numbers(size: int) -> Protocol:
        def read(reader: TracingReader) -> None:
            reader.take(2, "anything")
            for index in range(size):
                reader.u8(f"number {index}")
            reader.rest("the rest")

        return Protocol(f"{size}", "", read, stream_of_messages=False)

    ranked = guess([numbers(1), numbers(4), numbers(2)], bytes(8))
    assert [decoded.protocol.name for decoded in ranked] == ["4", "2", "1"]


def test_no_bytes_fit_nothing() -> None:
    assert {evidence(decoded) for decoded in guess(PROTOCOLS.values(), b"")} == {1}


def named_vectors() -> list[tuple[str, str, str]]:
    """Every message of the byte vectors of three packages: protocol, name, bytes."""
    found = [("laps-2", v["name"], v["hex"]) for v in laps2.vectors()["messages"] if v["type"]]
    for draft in (16, 18):
        found += [
            (f"moqt-{draft}", v["id"], v["hex"])
            for v in moqt.load_vectors(f"draft{draft}")
            if "decoded" in v
        ]
    return found


@pytest.mark.parametrize(
    ("protocol", "data"), [pytest.param(p, h, id=f"{p}: {n}") for p, n, h in named_vectors()]
)
def test_the_messages_of_all_vectors(protocol: str, data: str) -> None:
    """The right protocol is first, or it says that the bytes are as good in the one before it."""
    ranked = guess(PROTOCOLS.values(), bytes.fromhex(data))
    place = [decoded.protocol.name for decoded in ranked].index(protocol)
    assert ranked[place].fault is None
    # The two drafts share many messages to the byte; nothing else comes before.
    before = {decoded.protocol.name for decoded in ranked[:place]}
    assert before <= {"moqt-16", "moqt-18"}
