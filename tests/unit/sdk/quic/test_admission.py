from __future__ import annotations

from aioquic.quic.packet import get_retry_integrity_tag
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.admission import Accept, Admission, AdmissionLimits, Refusal, Reply

ADDRESS = ("192.0.2.7", 5000)
DESTINATION = b"destined"
SOURCE = b"source"


def initial(
    *,
    destination: bytes = DESTINATION,
    source: bytes = SOURCE,
    token: bytes = b"",
    version: bytes = b"\0\0\0\1",
    first: int = 0xC3,
    length: int = 1200,
) -> bytes:
    header = bytes([first]) + version + bytes([len(destination)]) + destination
    header += bytes([len(source)]) + source
    header += (0x4000 | len(token)).to_bytes(2, "big") + token
    return header.ljust(length, b"\0")


class Door:
    def __init__(self, *, always_retry: bool = False, **limits: float) -> None:
        made = AdmissionLimits(**limits)  # type: ignore[arg-type]  # numbers of both kinds
        self.admission = Admission(made, key=b"k" * 32, always_retry=always_retry)
        self.half_open = self.connections = 0

    def check(
        self, datagram: bytes, address: tuple[str, int] = ADDRESS, now: float = 50.0
    ) -> Accept | Reply | Refusal:
        return self.admission.check(
            datagram, address, now, half_open=self.half_open, connections=self.connections
        )


def retry_of(reply: object) -> tuple[bytes, bytes]:
    """Source id and token of a Retry, whose seal is checked."""
    assert isinstance(reply, Reply)
    assert reply.is_retry
    packet = reply.datagram
    assert packet[0] & 0xF0 == 0xF0
    assert packet[1:5] == b"\0\0\0\1"
    assert packet[5 : 6 + len(SOURCE)] == bytes([len(SOURCE)]) + SOURCE
    at = 6 + len(SOURCE)
    source = packet[at + 1 : at + 1 + packet[at]]
    assert packet[-16:] == get_retry_integrity_tag(packet[:-16], DESTINATION, 1)
    return source, packet[at + 1 + packet[at] : -16]


def test_a_client_is_let_in() -> None:
    assert Door().check(initial()) == Accept(DESTINATION, None, None)


def test_what_is_no_initial_is_dropped() -> None:
    door = Door()
    assert door.check(initial(length=1199)) == Refusal("short")
    assert door.check(b"\x40" + b"x" * 1300) == Refusal("unknown")
    assert door.check(initial(first=0xE3)) == Refusal("unknown")  # a Handshake packet
    assert door.check(initial(first=0x83)) == Refusal("unknown")  # without the fixed bit
    assert door.check(initial(destination=b"x" * 21)) == Refusal("malformed")
    assert door.check(initial(source=b"x" * 21)) == Refusal("malformed")
    assert door.check(initial(destination=b"short")) == Refusal("malformed")
    too_long = initial()[:21] + b"\x7f\xff" + initial()[23:]
    assert door.check(too_long) == Refusal("malformed")


def test_another_version_is_answered_with_ours() -> None:
    door = Door()
    reply = door.check(initial(version=b"\0\0\0\2"))
    assert isinstance(reply, Reply)
    assert not reply.is_retry
    packet = reply.datagram
    assert packet[1:5] == bytes(4)
    assert packet[5:20] == b"\x06source\x08destin" or SOURCE in packet
    assert b"\0\0\0\1" in packet[-8:]
    assert door.check(initial(version=bytes(4))) == Refusal("malformed")


def test_above_the_threshold_a_retry_is_asked_for_and_its_token_is_taken() -> None:
    door = Door(retry_above=2)
    door.half_open = 1
    assert isinstance(door.check(initial()), Accept)
    door.half_open = 2
    source, token = retry_of(door.check(initial()))
    again = initial(destination=source, token=token)
    assert door.check(again, now=60.0) == Accept(source, DESTINATION, source)


def test_an_engine_that_needs_it_always_gets_a_retry() -> None:
    retry_of(Door(always_retry=True).check(initial()))


def test_tokens_hold_for_one_address_one_id_and_a_while() -> None:
    door = Door(always_retry=True, token_lifetime=15.0)
    source, token = retry_of(door.check(initial()))
    good = initial(destination=source, token=token)
    assert isinstance(door.check(good), Accept)
    retry_again = (
        door.check(good, ("192.0.2.8", 5000)),
        door.check(good, ("192.0.2.7", 5001)),
        door.check(good, now=65.5),
        door.check(initial(destination=b"another1", token=token)),
        door.check(initial(destination=source, token=token[:-1] + bytes([token[-1] ^ 1]))),
        door.check(initial(destination=source, token=b"foreign")),
        Door(always_retry=True).admission.check(
            initial(destination=source, token=b"\0" * 64), ADDRESS, 50, half_open=0, connections=0
        ),
    )
    assert all(isinstance(reply, Reply) and reply.is_retry for reply in retry_again)


def test_caps_are_held_before_anything_else() -> None:
    door = Door(max_connections=5, max_half_open=3)
    door.half_open = 3
    assert door.check(initial()) == Refusal("half-open")
    door.connections = 5
    assert door.check(initial()) == Refusal("connections")


def test_a_prefix_that_uses_up_its_rate_must_show_its_address_and_then_wait() -> None:
    door = Door(prefix_burst=2, prefix_rate=1.0)
    assert isinstance(door.check(initial(), ("192.0.2.1", 1)), Accept)
    assert isinstance(door.check(initial(), ("192.0.2.2", 1)), Accept)
    source, token = retry_of(door.check(initial(), ("192.0.2.3", 1)))
    back = initial(destination=source, token=token)
    assert door.check(back, ("192.0.2.3", 1)) == Refusal("rate")
    assert isinstance(door.check(initial(), ("198.51.100.1", 1)), Accept)
    assert isinstance(door.check(back, ("192.0.2.3", 1), now=51.0), Accept)


def test_prefixes_of_ipv6_are_56_bits() -> None:
    door = Door(prefix_burst=1, prefix_rate=0.001)
    assert isinstance(door.check(initial(), ("2001:db8:0:1::1", 1)), Accept)
    assert isinstance(door.check(initial(), ("2001:db8:0:ff::1", 1)), Reply)
    assert isinstance(door.check(initial(), ("2001:db8:0:100::1", 1)), Accept)
    assert isinstance(door.check(initial(), ("a name", 1)), Accept)
    assert isinstance(door.check(initial(), ("a name", 1)), Reply)


def test_only_so_many_prefixes_are_remembered() -> None:
    door = Door(max_prefixes=10)
    for number in range(100):
        door.check(initial(), (f"10.0.{number}.1", 1))
    assert len(door.admission._buckets) == 10


@given(st.binary(max_size=60), st.integers(0, 1300), st.booleans())
def test_any_bytes_get_a_verdict_and_no_long_answer(start: bytes, length: int, retry: bool) -> None:
    datagram = start.ljust(length, b"\xc5")
    verdict = Door(always_retry=retry).check(datagram)
    if isinstance(verdict, Reply):
        assert len(verdict.datagram) <= 3 * len(datagram)
