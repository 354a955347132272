"""Objects of other relays into the plane."""

from __future__ import annotations

import pytest

from laps_sdk.upstream.egress import alias_of
from laps_sdk.upstream.sink import PlaneSink
from laps_wire.moqt.data import ObjectDatagram, encode_datagram
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import FLAG_CONTINUED, DataHeader, DataKind
from testkit.plane import D18, Net, bodies, subgroup

KEY = 0xC000_0000_0000_0007
"""Its alias has two bits less."""
ALIAS = alias_of(KEY)
STREAM = DataHeader(DataKind.STREAM, 1, KEY, 1, payload_format=18)
DATAGRAM = DataHeader(DataKind.DATAGRAM, 1, KEY, 1, payload_format=18)


class Rig:
    def __init__(self, *, repairs: bool = False) -> None:
        self.net = Net()
        self.source = self.net.publisher(D18, alias=ALIAS)
        self.receiver = self.net.receiver(D18)
        self.sink = PlaneSink(self.net.plane, self.source, repairs=repairs)
        self.egress = self.net.egress[self.receiver]


def test_a_stream_and_a_datagram() -> None:
    rig = Rig()
    data = subgroup(D18, bodies(2), alias=ALIAS)
    rig.sink.stream_opened(100.0, 1, STREAM, data[:15], False)
    rig.sink.stream_data(100.0, 1, data[15:], True)
    assert list(rig.egress.objects()) == [(0, 0), (0, 1)]
    payload = encode_datagram(ObjectDatagram(ALIAS, 5, 0, b"ping"), D18)
    rig.sink.datagram(100.0, DATAGRAM, payload)
    assert [each.payload for each in rig.egress.object_datagrams()] == [b"ping"]
    rig.sink.stream_opened(100.0, 2, STREAM, subgroup(D18, bodies(1), alias=ALIAS, group=1), False)
    rig.sink.stream_reset(100.0, 2, 0x42)
    assert rig.egress.resets() == [None, 0x42]
    assert rig.sink.misplaced == 0


@pytest.mark.parametrize("repairs", [False, True])
@pytest.mark.parametrize("code", StreamCode)
def test_what_another_relay_can_send_again_is_not_over(code: StreamCode, repairs: bool) -> None:
    rig = Rig(repairs=repairs)
    rig.sink.stream_opened(100.0, 1, STREAM, subgroup(D18, bodies(1), alias=ALIAS), False)
    rig.sink.stream_reset(100.0, 1, code)
    (stream,) = rig.egress.streams
    lost = code in (StreamCode.LOST, StreamCode.OVERLOADED, StreamCode.UNKNOWN_SNS)
    assert stream.closed is not (repairs and lost)


def test_an_alias_in_pieces() -> None:
    rig = Rig()
    data = subgroup(D18, bodies(1), alias=ALIAS)
    rig.sink.stream_opened(100.0, 1, STREAM, b"", False)
    for at in range(len(data)):
        rig.sink.stream_data(100.0, 1, data[at : at + 1], at == len(data) - 1)
    assert list(rig.egress.objects()) == [(0, 0)]
    # Given up before it was whole.
    rig.sink.stream_opened(100.0, 2, STREAM, data[:3], False)
    rig.sink.stream_reset(100.0, 2, 0)
    rig.sink.stream_data(100.0, 2, data[3:], True)
    assert len(rig.egress.streams) == 1


def test_what_is_not_of_its_track_is_thrown_away() -> None:
    rig = Rig()
    wrong = subgroup(D18, bodies(1), alias=ALIAS + 1)
    rig.sink.stream_opened(100.0, 1, STREAM, wrong, True)
    rig.sink.stream_opened(100.0, 2, STREAM, wrong[:2], True)
    good = subgroup(D18, bodies(1), alias=ALIAS)
    rig.sink.stream_opened(100.0, 3, STREAM._replace(payload_format=1), good, True)
    payload = encode_datagram(ObjectDatagram(ALIAS, 5, 0, b"ping"), D18)
    rig.sink.datagram(100.0, DATAGRAM._replace(payload_format=16), payload)
    rig.sink.datagram(100.0, DATAGRAM._replace(track=1), payload)
    rig.sink.datagram(100.0, DATAGRAM, b"")
    assert rig.sink.misplaced == 6
    assert not rig.egress.streams
    assert not rig.egress.datagrams


def test_a_stream_that_goes_on_is_not_the_beginning() -> None:
    """The plane is told, also if the alias comes in pieces."""
    rig = Rig()
    rig.sink.stream_opened(100.0, 1, STREAM, subgroup(D18, bodies(2), alias=ALIAS), True)
    went_on = STREAM._replace(flags=FLAG_CONTINUED)
    behind = subgroup(D18, {2: b"x"}, alias=ALIAS, group=1)
    rig.sink.stream_opened(100.0, 2, went_on, behind[:2], False)
    rig.sink.stream_data(100.0, 2, behind[2:], True)
    assert list(rig.egress.objects()) == [(0, 0), (0, 1)]
    rig.net.wait(30.0)
    assert list(rig.egress.objects()) == [(0, 0), (0, 1), (1, 2)]
