"""Which protocol fits."""

from __future__ import annotations

import pytest

from laps_wire.trace.decode import Protocol, decode
from laps_wire.trace.guess import evidence, guess
from laps_wire.trace.protocols import PROTOCOLS
from laps_wire.trace.reader import TracingReader
from testkit import laps2, moqt
from testkit.trace import ALL, DATAGRAM, GREETINGS, HELLO, UNIT

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
