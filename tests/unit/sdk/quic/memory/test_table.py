"""The streams of one side of an in-memory connection, and the credit of both."""

from __future__ import annotations

from laps_sdk.quic.base import ConnectionLimits
from laps_sdk.quic.memory.packets import Frame, MaxData, MaxStreams, Stream
from laps_sdk.quic.memory.streams import StreamTable

LIMITS = ConnectionLimits(max_streams_bidi=2, max_streams_uni=3, max_data=1000, max_stream_data=400)
UNI, BIDI = True, False


class Case:
    def __init__(self, *, is_client: bool = True) -> None:
        self.sent: list[Frame] = []
        self.table = StreamTable(LIMITS, is_client=is_client, send=self.sent.append)

    def write(self, stream_id: int, data: bytes, fin: bool = False) -> None:
        half = self.table.sending(stream_id)
        assert half is not None
        half.write(data, fin)

    def receive(self, stream_id: int, offset: int, data: bytes, fin: bool = False) -> None:
        half = self.table.receiving(stream_id)
        assert half is not None
        got = half.receive(offset, data, fin)
        assert got is not None
        self.table.delivered(stream_id, half, len(got[0]), got[1])


def test_no_stream_before_the_peer_has_sent_its_limits() -> None:
    table = Case().table
    assert (table.left(UNI), table.left(BIDI), table.room) == (0, 0, 0)
    table.set_peer_limits(LIMITS)
    assert (table.left(UNI), table.left(BIDI), table.room) == (3, 2, 1000)
    assert table.allow(UNI, 4)
    assert not table.allow(UNI, 4)
    assert table.left(UNI) == 4


def test_ids_are_those_of_quic() -> None:
    client, server = Case().table, Case(is_client=False).table
    for table in (client, server):
        table.set_peer_limits(LIMITS)
    assert [client.open(BIDI), client.open(BIDI), client.open(UNI)] == [0, 4, 2]
    assert [server.open(BIDI), server.open(UNI), server.open(UNI)] == [1, 3, 7]
    assert sorted(client.outgoing) == [0, 2, 4]
    assert sorted(client.incoming) == [0, 4]
    assert client.left(BIDI) == 0


def test_what_goes_fits_the_packet_and_the_credit_of_stream_and_connection() -> None:
    case = Case()
    case.table.set_peer_limits(LIMITS)
    streams = [case.table.open(UNI) for _ in range(3)]
    for stream_id in streams:
        case.write(stream_id, bytes(500))
    assert list(case.table.frames(108)) == [Stream(2, 0, bytes(100), False)]
    assert list(case.table.frames(10)) == []
    sizes = [(frame.stream_id, len(frame.data)) for frame in case.table.frames(5000)]
    # The first two have used up their own credit, and then that of the connection is at its end.
    assert sizes == [(2, 300), (6, 400), (10, 200)]
    assert case.table.room == 0
    assert list(case.table.frames(5000)) == []
    case.table.credit = 1100
    assert [len(frame.data) for frame in case.table.frames(5000)] == [100]


def test_a_stream_is_forgotten_when_both_halves_are_over() -> None:
    case = Case()
    case.table.set_peer_limits(LIMITS)
    stream_id = case.table.open(BIDI)
    case.write(stream_id, b"question", fin=True)
    assert [frame.fin for frame in case.table.frames(100)] == [True]
    assert stream_id in case.table.outgoing
    case.receive(stream_id, 0, b"answer", fin=True)
    assert (case.table.outgoing, case.table.incoming) == ({}, {})
    assert case.table.sending(stream_id) is None
    assert case.table.receiving(stream_id) is None
    assert case.sent == []  # it was one of ours: the peer may not open more for it
    case.table.half_over(stream_id)
    assert case.sent == []


def test_the_peer_may_open_another_stream_for_each_that_is_over() -> None:
    case = Case()
    case.receive(3, 0, b"all", fin=True)
    case.receive(1, 0, b"question", fin=True)
    assert case.sent == [MaxStreams(UNI, 4)]
    half = case.table.outgoing[1]
    half.abandon()
    case.table.half_over(1)
    assert case.sent == [MaxStreams(UNI, 4), MaxStreams(BIDI, 3)]


def test_credit_is_given_again_when_half_of_it_is_used_up() -> None:
    case = Case()
    case.receive(3, 0, bytes(199))
    assert case.sent == []
    case.receive(3, 199, bytes(1))
    assert case.sent == [MaxData(3, 600)]
    case.receive(7, 0, bytes(300))
    assert case.sent[1:] == [MaxData(None, 1500), MaxData(7, 700)]
    half = case.table.incoming[7]
    half.reading = False
    case.receive(7, 300, bytes(300))
    assert len(case.sent) == 3  # who does not read gives nothing
    half.reading = True
    case.table.grant(7, half)
    assert case.sent[3:] == [MaxData(7, 1000)]
