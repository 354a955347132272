from __future__ import annotations

import pytest

from laps_wire.errors import StateError
from laps_wire.moqt.session.actions import (
    CloseSession,
    OpenStream,
    ResetStream,
    SendData,
    StopSending,
    StreamRef,
)
from laps_wire.moqt.session.config import Role
from laps_wire.moqt.session.tables import (
    MAX_FORGOTTEN,
    Purpose,
    Stream,
    Streams,
    is_unidirectional,
    opened_by,
)


def incoming(streams: Streams, stream_id: int) -> Stream:
    stream = streams.incoming(stream_id)
    assert stream is not None
    return stream


def test_ids_tell_who_opened_a_stream_and_how_wide_it_is() -> None:
    # RFC 9000, table 1
    assert [opened_by(i) for i in range(4)] == [Role.CLIENT, Role.SERVER] * 2
    assert [is_unidirectional(i) for i in range(4)] == [False, False, True, True]


# Our streams


def test_a_stream_of_ours_gets_its_id_from_the_shell() -> None:
    streams = Streams(Role.CLIENT)
    stream = streams.open(Purpose.REQUEST, unidirectional=False)
    streams.send(stream, b"hello")
    assert streams.drain() == [
        OpenStream(stream.ref, False),
        SendData(stream.ref, b"hello", False),
    ]
    with pytest.raises(StateError, match="not bound"):
        streams.stream_id(stream.ref)
    streams.bind(stream.ref, 4)
    assert streams.stream_id(stream.ref) == 4
    assert streams.incoming(4) is stream
    assert streams.find(4) is stream
    assert streams.find(8) is None


def test_a_unidirectional_stream_of_ours_has_no_half_of_the_peer() -> None:
    streams = Streams(Role.SERVER)
    stream = streams.open(Purpose.CONTROL, unidirectional=True)
    assert (stream.sending, stream.receiving) == (True, False)
    streams.bind(stream.ref, 3)
    streams.finish(stream)
    assert streams.drain()[-1] == SendData(stream.ref, b"", True)
    assert len(streams) == 0


@pytest.mark.parametrize(
    ("stream_id", "words"),
    [(5, "a CLIENT opens"), (2, "wrong number of directions"), (0, "one of them is taken")],
)
def test_a_wrong_binding_is_refused(stream_id: int, words: str) -> None:
    streams = Streams(Role.CLIENT)
    first = streams.open(Purpose.REQUEST, unidirectional=False)
    streams.bind(first.ref, 0)
    second = streams.open(Purpose.REQUEST, unidirectional=False)
    with pytest.raises(StateError, match=words):
        streams.bind(second.ref, stream_id)
    with pytest.raises(StateError, match="taken"):
        streams.bind(first.ref, 8)
    with pytest.raises(StateError, match="taken"):
        streams.bind(StreamRef(99), 8)


def test_bytes_on_an_unbound_stream_are_the_shells_mistake() -> None:
    with pytest.raises(StateError, match="bind_stream was not called"):
        Streams(Role.CLIENT).incoming(0)


# The peer's streams


def test_a_stream_of_the_peer_is_noted_once() -> None:
    streams = Streams(Role.SERVER)
    bidi, uni = incoming(streams, 0), incoming(streams, 2)
    assert streams.incoming(0) is bidi
    assert (bidi.sending, bidi.receiving) == (True, True)
    assert (uni.sending, uni.receiving) == (False, True)
    assert streams.stream_id(bidi.ref) == 0
    assert (bidi.purpose, len(streams)) == (Purpose.UNKNOWN, 2)


# Ends


def test_a_half_ends_once() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    streams.send(stream, b"bye", fin=True)
    streams.send(stream, b"more")
    streams.finish(stream)
    streams.reset(stream, 1)
    assert streams.drain() == [SendData(stream.ref, b"bye", True)]
    assert (stream.sending, stream.receiving) == (False, True)


def test_nothing_is_not_sent() -> None:
    streams = Streams(Role.SERVER)
    streams.send(incoming(streams, 0), b"")
    assert streams.is_idle
    assert streams.drain() == []


def test_reset_and_stop_end_both_directions() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    stream.buffer += b"half a message"
    streams.reset(stream, 7)
    streams.stop(stream, 8)
    assert not streams.is_idle
    assert streams.drain() == [ResetStream(stream.ref, 7), StopSending(stream.ref, 8)]
    assert (stream.purpose, bytes(stream.buffer)) == (Purpose.IGNORED, b"")
    streams.received_all(stream)
    streams.stop(stream, 8)
    assert streams.drain() == []


def test_a_stream_that_is_over_resolves_for_one_more_poll() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    streams.received_all(stream)
    assert len(streams) == 1
    streams.finish(stream)
    assert len(streams) == 0
    assert streams.drain() == [SendData(stream.ref, b"", True)]
    assert streams.stream_id(stream.ref) == 0
    assert streams.drain() == []
    with pytest.raises(StateError):
        streams.stream_id(stream.ref)
    assert (streams.find(0), streams.incoming(0)) == (None, None)


def test_the_peers_half_may_end_last() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    streams.finish(stream)
    streams.drain()
    streams.received_all(stream)
    streams.drain()
    assert streams.find(0) is None


def test_a_stream_handed_over_is_not_new_again() -> None:
    streams = Streams(Role.SERVER)
    streams.hand_over(incoming(streams, 2))
    assert (streams.incoming(2), len(streams)) == (None, 0)


def test_the_memory_of_streams_is_bounded() -> None:
    streams = Streams(Role.SERVER)
    for number in range(MAX_FORGOTTEN + 1):
        streams.hand_over(incoming(streams, 4 * number + 2))
    assert streams.incoming(6) is None
    assert streams.incoming(2) is not None


def test_the_close_comes_last() -> None:
    streams = Streams(Role.SERVER)
    stream = incoming(streams, 0)
    streams.send(stream, b"x")
    streams.close(3, "why")
    assert streams.drain() == [SendData(stream.ref, b"x"), CloseSession(3, "why")]
