from __future__ import annotations

from laps_sdk.quic.engine import Burst
from laps_sdk.quic.library import bursts_of


def test_datagrams_for_several_addresses_are_several_bursts() -> None:
    one, other = ("192.0.2.1", 1), ("192.0.2.1", 2)
    assert bursts_of([]) == []
    assert bursts_of([(b"a", one), (b"b", one)]) == [Burst([b"a", b"b"], one)]
    mixed = [(b"a", one), (b"b", one), (b"c", other), (b"d", one)]
    assert bursts_of(mixed) == [Burst([b"a", b"b"], one), Burst([b"c"], other), Burst([b"d"], one)]
