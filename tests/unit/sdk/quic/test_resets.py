from __future__ import annotations

from laps_sdk.quic.resets import SHORTEST, TOKEN_LENGTH, StatelessResets, reset_token

PACKET = bytes([0x41, *range(8), *bytes(40)])


def test_an_answer_ends_with_the_token_of_the_id() -> None:
    resets = StatelessResets(b"key")
    one, two = resets.answer(PACKET, 1.0), resets.answer(PACKET, 1.0)
    assert one is not None
    assert two is not None
    token = reset_token(b"key", bytes(range(8)))
    assert one[-TOKEN_LENGTH:] == two[-TOKEN_LENGTH:] == token
    assert one[:-TOKEN_LENGTH] != two[:-TOKEN_LENGTH]
    assert one[0] & 0xC0 == 0x40
    assert token != reset_token(b"other", bytes(range(8)))
    assert token != reset_token(b"key", bytes(8))


def test_an_answer_is_shorter_than_its_cause() -> None:
    resets = StatelessResets(b"key")
    packet, sizes = PACKET * 30, []
    while (answer := resets.answer(packet, 1.0)) is not None:
        assert SHORTEST <= len(answer) < len(packet)
        sizes.append(len(answer))
        packet = answer
    assert sizes == list(range(42, 20, -1))


def test_a_flood_is_not_answered() -> None:
    resets = StatelessResets(b"key")
    assert sum(resets.answer(PACKET, 1.0) is not None for _ in range(3000)) == 1000
    assert sum(resets.answer(PACKET, 1.5) is not None for _ in range(3000)) == 500
