"""QuicR's reassembly: bytes drive a sequence of operations; its promises hold after each.

::

    operation   1 byte    bit 7: time passes (the low bits in seconds)
                          bit 6: the key is forgotten
                          bits 4, 5: the key
    place       1 byte    offset_and_fin or FRAGMENT_ID
    size        1 byte    bits 0 to 3: how many bytes; they follow from the place, bit 7 flips them
"""

from __future__ import annotations

from laps_wire.quicr import (
    OBJECT_COST,
    PIECE_COST,
    NumberedPieces,
    OffsetPieces,
    Reassembler,
    ReassemblyLimits,
)

LIMITS = ReassemblyLimits(
    max_object=100,
    max_pieces=8,
    max_total=2 * OBJECT_COST + 9 * PIECE_COST + 60,
    max_age=3.0,
    remember_time=6.0,
    remember_count=3,
)


def one_input(data: bytes) -> None:
    for pieces in (OffsetPieces, NumberedPieces):
        _run(Reassembler(pieces, LIMITS), data, first=pieces.FIRST)


def _run(reassembler: Reassembler[int], data: bytes, *, first: int) -> None:
    now = 0.0
    given_out = 0
    for index in range(0, len(data) - 2, 3):
        operation, place, size = data[index : index + 3]
        key = operation >> 4 & 3
        if operation & 0x80:
            now += operation & 0x0F
            reassembler.expire(now)
        elif operation & 0x40:
            reassembler.forget(key)
        else:
            place = max(place, first << 1)
            start = place >> 1
            flip = size >> 7
            part = bytes((offset ^ flip) & 0xFF for offset in range(start, start + (size & 0x0F)))
            whole = reassembler.add(now, key, place, part)
            if whole is not None:
                given_out += 1
                assert len(whole) <= LIMITS.max_object
                # It was finished in this moment: not a second time.
                assert reassembler.add(now, key, place, part) is None
        assert 0 <= reassembler.memory <= LIMITS.max_total
        assert (reassembler.memory == 0) == (reassembler.incomplete == 0)
        assert reassembler.completed == given_out
        timeout = reassembler.poll_timeout()
        assert (timeout is None) == (reassembler.incomplete == 0)
        assert timeout is None or timeout > now
    reassembler.expire(now + LIMITS.max_age)
    assert reassembler.memory == reassembler.incomplete == 0


def seeds() -> list[bytes]:
    return [
        bytes.fromhex(text)
        for text in (
            "000004 000804 001103",  # in order, by offset
            "001103 000804 000004",  # backwards
            "000203 000403 000703 000203",  # in order, by number, and one again
            "000004 000484 000004",  # a conflict
            "000002 100002 200002 300002 001502",  # four at once: eviction
            "000002 830000 001502 860000 000103",  # expiry, and later a new chance
            "000102 400000 000102",  # forgetting
        )
    ]
