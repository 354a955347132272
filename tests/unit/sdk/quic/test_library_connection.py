"""What every backend does, tested in pairs over a virtual link, also one library with the other."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_sdk.errors import StreamLimitError
from laps_sdk.quic.base import ConnectionLimits
from laps_sdk.quic.engine import Tls
from laps_sdk.quic.events import (
    Closed,
    Connected,
    StopSending,
    StreamData,
    StreamReset,
    StreamsAvailable,
)
from laps_sdk.quic.tls import key_hash, read_server_certificate
from testkit.certs import certificates
from testkit.engines import ALPN, End, Link, connected, make_engine
from testkit.properties import examples

PAIRS = [
    ("aioquic", "aioquic"),
    ("aioquic-stock", "aioquic-stock"),
    ("aioquic", "qh3"),
    ("qh3", "aioquic"),
    ("qh3", "qh3"),
]
BACKENDS = ["aioquic", "aioquic-stock", "qh3"]
BIDI, UNI = False, True


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-to-{pair[1]}")
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    names: tuple[str, str] = request.param
    return names


@pytest.fixture
def link(pair: tuple[str, str]) -> Link:
    return connected(*pair)


def ends(link: Link) -> list[tuple[End, End]]:
    """Each end with the other."""
    return [(link.client, link.server), (link.server, link.client)]


def pattern(size: int, seed: int = 0) -> bytes:
    return bytes((seed + index * 7) % 251 for index in range(size))


# Handshake


def test_a_handshake_tells_both_ends_the_protocol_and_the_server_the_name(link: Link) -> None:
    for end, other in ends(link):
        assert end.events[0] == Connected(ALPN)
        assert end.quic.alpn == ALPN
        assert end.quic.handshake_complete
        assert end.quic.server_name == "localhost"
        assert end.quic.peer_address == other.address
        assert not end.quic.terminated


def test_both_ends_know_the_same_key_of_the_server(link: Link) -> None:
    known = {end.quic.server_key_hash for end, _ in ends(link)}
    assert known == {key_hash(read_server_certificate(certificates().server).leaf)}


def test_before_the_handshake_nothing_may_be_sent(pair: tuple[str, str]) -> None:
    link = Link(make_engine(pair[0], server=False), make_engine(pair[1], server=True))
    quic = link.client.quic
    assert quic.server_key_hash == b""
    assert not quic.handshake_complete
    assert quic.alpn == ""
    assert quic.streams_left(UNI) == 0
    assert quic.max_datagram_size == 0
    assert quic.stats().rtt is None
    with pytest.raises(StreamLimitError, match="no more unidirectional streams"):
        quic.open_stream(UNI)
    link.run(lambda: link.client.connected)
    assert quic.streams_left(UNI) > 0


def test_every_packet_comes_under_an_id_that_was_told(link: Link) -> None:
    for stream_id in (link.client.quic.open_stream(UNI), link.client.quic.open_stream(BIDI)):
        link.client.quic.write(stream_id, pattern(20_000), True)
    link.settle(5)
    assert link.client.unroutable == link.server.unroutable == 0
    assert link.client.late_ids == link.server.late_ids == 0
    ids = link.server.quic.connection_ids
    assert ids is link.server.quic.connection_ids
    assert len(set(ids)) == len(ids) > 1


def test_the_first_protocol_that_the_server_takes_is_chosen(pair: tuple[str, str]) -> None:
    server = make_engine(pair[1], server=True, alpn=("b", "a"))
    link = Link(make_engine(pair[0], server=False), server, alpn=("a", "b"))
    link.run(lambda: link.client.connected and link.server.connected)
    assert link.client.quic.alpn == link.server.quic.alpn == "b"


def test_no_common_protocol_says_so_on_both_ends(pair: tuple[str, str]) -> None:
    server = make_engine(pair[1], server=True, alpn=("moqt-16", "h3"))
    link = Link(make_engine(pair[0], server=False), server, alpn=("other",))
    link.run(lambda: link.client.closed and link.server.closed)
    assert link.client.events == [link.client.closed]
    assert link.client.closed is not None
    assert link.client.closed.reason == "no protocol in common (ALPN): we offered other"
    assert link.client.closed.by_peer
    assert not link.client.closed.application
    assert link.server.closed is not None
    assert link.server.closed.reason == "no protocol in common (ALPN): we take moqt-16, h3"
    assert not link.server.closed.by_peer


# Certificates


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("trust", ["trusting", "pinned", "insecure"])
def test_ways_to_trust_a_server(backend: str, trust: str) -> None:
    tls: Tls = getattr(certificates(), trust)
    link = Link(make_engine(backend, server=False, tls=tls), make_engine("aioquic", server=True))
    link.run(lambda: link.client.connected and link.server.connected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_certificate_that_is_not_pinned_ends_the_handshake(backend: str) -> None:
    server = make_engine("aioquic", server=True, tls=certificates().other_server)
    link = Link(make_engine(backend, server=False, tls=certificates().pinned), server)
    link.run(lambda: link.client.closed and link.server.closed)
    closed = link.client.closed
    assert closed is not None
    assert closed.reason.startswith(
        "the server's certificate was refused (bad_certificate): it is not pinned: its SHA-256 is "
    )
    assert certificates().other_sha256.hex() in closed.reason
    assert not closed.by_peer
    assert not link.client.connected
    assert not link.server.connected
    assert link.server.closed is not None
    assert "the peer refused our certificate (bad_certificate)" in link.server.closed.reason


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["localhost", "elsewhere.example"])
def test_an_unknown_authority_or_a_wrong_name_ends_the_handshake(backend: str, name: str) -> None:
    known = name != "localhost"
    tls = certificates().server if known else certificates().other_server
    link = Link(
        make_engine(backend, server=False),
        make_engine("aioquic", server=True, tls=tls),
        server_name=name,
    )
    link.run(lambda: link.client.closed)
    closed = link.client.closed
    assert closed is not None
    assert closed.reason.startswith("the server's certificate was refused (")
    assert not closed.application
    assert not link.client.connected


# Streams


@pytest.mark.parametrize("kind", [BIDI, UNI], ids=["bidirectional", "unidirectional"])
def test_streams_carry_bytes_and_their_end_in_both_directions(link: Link, kind: bool) -> None:
    sent = {}
    for end, other in ends(link):
        stream_id = end.quic.open_stream(kind)
        assert bool(stream_id & 2) == kind
        assert stream_id & 1 == (end is link.server)
        sent[stream_id] = (other, pattern(50_000, stream_id))
        end.quic.write(stream_id, sent[stream_id][1][:100], False)
        end.quic.write(stream_id, sent[stream_id][1][100:], True)
    link.run(lambda: all(other.finished(key) for key, (other, _) in sent.items()))
    for stream_id, (other, data) in sent.items():
        assert other.received(stream_id) == data
    link.settle()
    for end, _ in ends(link):
        assert end.quic.total_backlog() == 0
        assert end.quic.backlog(next(iter(sent))) == 0


def test_a_bidirectional_stream_is_answered(link: Link) -> None:
    stream_id = link.client.quic.open_stream(BIDI)
    link.client.quic.write(stream_id, b"question", True)
    link.run(lambda: link.server.finished(stream_id))
    link.server.quic.write(stream_id, b"answer", True)
    link.run(lambda: link.client.finished(stream_id))
    assert link.client.received(stream_id) == b"answer"


def test_an_end_without_bytes_arrives(link: Link) -> None:
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, b"x", False)
    link.run(lambda: link.server.received(stream_id))
    link.client.quic.write(stream_id, b"", True)
    link.run(lambda: link.server.finished(stream_id))
    assert link.server.received(stream_id) == b"x"


def test_adjacent_data_of_a_stream_is_one_event(link: Link) -> None:
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, pattern(6_000), True)
    link.run(lambda: link.server.finished(stream_id))
    # Several packets that arrived in one turn.
    assert len(link.server.of(StreamData)) < 6_000 // 1400


def test_ids_of_streams_count_up(link: Link) -> None:
    first, second = link.client.quic.open_stream(UNI), link.client.quic.open_stream(UNI)
    assert (first, second) == (2, 6)
    link.client.quic.write(second, b"b", True)
    link.client.quic.write(first, b"a", True)
    link.run(lambda: link.server.finished(first) and link.server.finished(second))
    assert (link.server.received(first), link.server.received(second)) == (b"a", b"b")


def test_a_reset_arrives_with_its_code(link: Link) -> None:
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, b"begun", False)
    link.run(lambda: link.server.received(stream_id))
    link.client.quic.reset(stream_id, 0x1234)
    link.run(lambda: link.server.of(StreamReset))
    assert link.server.of(StreamReset) == [StreamReset(stream_id, 0x1234)]
    assert not link.server.finished(stream_id)
    assert link.client.quic.backlog(stream_id) == 0


def test_stop_sending_arrives_and_the_stream_is_reset_with_its_code(link: Link) -> None:
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, b"begun", False)
    link.run(lambda: link.server.received(stream_id))
    link.server.quic.stop(stream_id, 0x77)
    link.client.quic.write(stream_id, b"under way", False)
    link.run(lambda: link.client.of(StopSending) and link.server.of(StreamReset))
    assert link.client.of(StopSending) == [StopSending(stream_id, 0x77)]
    assert link.server.of(StreamReset) == [StreamReset(stream_id, 0x77)]
    assert link.server.received(stream_id) == b"begun"
    link.client.quic.write(stream_id, b"too late", True)
    link.settle()
    assert link.client.quic.total_backlog() == 0
    assert link.client.closed is link.server.closed is None


def test_what_arrives_after_stop_is_not_reported_up_to_the_end(link: Link) -> None:
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, b"begun", False)
    link.run(lambda: link.server.received(stream_id))
    link.client.quic.write(stream_id, b"the end was under way", True)
    link.server.quic.stop(stream_id, 0x77)
    link.server.quic.stop(stream_id, 0x78)
    link.settle()
    assert link.server.received(stream_id) == b"begun"
    assert link.server.closed is link.client.closed is None


def test_calls_on_finished_and_unknown_streams_do_nothing(link: Link) -> None:
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, b"all", True)
    link.client.quic.write(stream_id, b"after the end", False)
    link.run(lambda: link.server.finished(stream_id))
    link.settle()
    told = len(link.client.events), len(link.server.events)
    for end, _ in ends(link):
        for number in (stream_id, 4 * 40, 4 * 40 + 1, 4 * 40 + 2, 4 * 40 + 3):
            end.quic.stop(number, 1)
        end.quic.write(stream_id, b"more", True)
        end.quic.reset(stream_id, 1)
        assert end.quic.backlog(stream_id) == 0
    link.settle()
    assert told == (len(link.client.events), len(link.server.events))
    # ... and the connection still works.
    other = link.server.quic.open_stream(UNI)
    link.server.quic.write(other, b"alive", True)
    link.run(lambda: link.client.finished(other))


# Limits


def test_the_limit_of_streams_is_kept_and_its_rise_is_told(pair: tuple[str, str]) -> None:
    limits = ConnectionLimits(max_streams_bidi=4, max_streams_uni=6)
    server = make_engine(pair[1], server=True, limits=limits)
    link = Link(make_engine(pair[0], server=False), server)
    link.run(lambda: link.client.connected and link.server.connected)
    quic = link.client.quic
    allowed = 103 if pair[1] == "qh3" else 6
    assert quic.streams_left(UNI) == allowed
    opened = [quic.open_stream(UNI) for _ in range(allowed)]
    assert quic.streams_left(UNI) == 0
    with pytest.raises(StreamLimitError):
        quic.open_stream(UNI)
    assert not link.client.of(StreamsAvailable)
    for stream_id in opened:
        quic.write(stream_id, b"done", True)
    link.run(lambda: link.client.of(StreamsAvailable))
    following = quic.open_stream(UNI)
    assert following == opened[-1] + 4
    quic.write(following, b"next", True)
    link.run(lambda: link.server.finished(following))
    assert link.server.closed is None


def test_many_streams_one_after_another(link: Link) -> None:
    quic = link.client.quic
    seen: list[int] = []
    while len(seen) < 300:
        link.run(lambda: quic.streams_left(UNI) > 0)
        stream_id = quic.open_stream(UNI)
        quic.write(stream_id, stream_id.to_bytes(4), True)
        seen.append(stream_id)
    link.run(lambda: all(link.server.finished(stream_id) for stream_id in seen[-5:]))
    link.settle()
    assert sum(event.fin for event in link.server.of(StreamData)) == 300


def test_flow_control_holds_the_sender_and_lets_it_go_on(pair: tuple[str, str]) -> None:
    limits = ConnectionLimits(max_data=60_000, max_stream_data=20_000)
    server = make_engine(pair[1], server=True, limits=limits)
    link = Link(make_engine(pair[0], server=False), server)
    link.run(lambda: link.client.connected and link.server.connected)
    data = pattern(400_000)
    streams = [link.client.quic.open_stream(UNI) for _ in range(3)]
    for stream_id in streams:
        link.client.quic.write(stream_id, data, True)
    link.client.quic.flush(link.now)
    assert link.client.quic.total_backlog() >= 3 * 400_000 - 60_000
    assert link.client.quic.backlog(streams[0]) >= 400_000 - 20_000
    link.run(lambda: all(map(link.server.finished, streams)))
    assert all(link.server.received(stream_id) == data for stream_id in streams)


# Datagrams


def _has(end: End, count: int) -> bool:
    return len(end.datagrams()) == count


def test_datagrams_of_every_length_up_to_the_longest(link: Link) -> None:
    link.settle()
    for end, other in ends(link):
        longest = end.quic.max_datagram_size
        assert longest > 1100
        sent = [pattern(size) for size in (0, 1, 63, 64, 1000, longest)]
        for data in sent:
            end.quic.datagram(data)
        end.quic.datagram(bytes(longest + 1))
        link.run(partial(_has, other, len(sent)))
        assert other.datagrams() == sent
    # The one that was too long keeps nothing behind it waiting.
    link.client.quic.datagram(b"after")
    link.run(lambda: b"after" in link.server.datagrams())


def test_streams_get_through_beside_too_many_datagrams(link: Link) -> None:
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, pattern(100_000), True)
    for number in range(1_000):
        link.client.quic.datagram(number.to_bytes(4) + bytes(1_000))
    link.run(lambda: link.server.finished(stream_id), limit=5.0)
    assert link.server.received(stream_id) == pattern(100_000)
    link.run(lambda: link.client.quic.total_backlog() == 0)


# Bad networks


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_everything_arrives_in_order_over_a_bad_link(pair: tuple[str, str], seed: int) -> None:
    link = Link(
        make_engine(pair[0], server=False),
        make_engine(pair[1], server=True),
        seed=seed,
        loss=0.05,
        duplicate=0.05,
        reorder=0.1,
    )
    link.run(lambda: link.client.connected and link.server.connected)
    sent: list[tuple[End, int, bytes]] = []
    for end, other in ends(link):
        for number in range(8):
            stream_id = end.quic.open_stream(number % 2 == 0)
            data = pattern(30_000, number)
            end.quic.write(stream_id, data, True)
            sent.append((other, stream_id, data))
    link.run(lambda: all(other.finished(stream_id) for other, stream_id, _ in sent), limit=600)
    for other, stream_id, data in sent:
        assert other.received(stream_id) == data
    lost = [end.quic.stats().packets_lost for end, _ in ends(link)]
    assert any(lost)


def test_a_client_that_appears_under_another_address_is_followed(link: Link) -> None:
    stream_id = link.client.quic.open_stream(BIDI)
    link.client.quic.write(stream_id, b"before", False)
    link.run(lambda: link.server.received(stream_id) == b"before")
    link.settle()
    link.rebind()
    link.client.quic.write(stream_id, b" after", True)
    link.run(lambda: link.server.finished(stream_id))
    link.run(lambda: link.server.quic.peer_address == link.client.address)
    link.server.quic.write(stream_id, pattern(100_000), True)
    link.run(lambda: link.client.finished(stream_id))
    assert link.client.received(stream_id) == pattern(100_000)


def test_addresses_of_ipv6(pair: tuple[str, str]) -> None:
    addresses = ("2001:db8::1", 4999), ("2001:db8::2", 443)
    client, server = make_engine(pair[0], server=False), make_engine(pair[1], server=True)
    link = Link(client, server, addresses=addresses)
    link.run(lambda: link.client.connected and link.server.connected)
    assert link.client.quic.peer_address == addresses[1]
    assert link.server.quic.peer_address == addresses[0]


def test_an_id_that_the_peer_retires_is_forgotten(link: Link) -> None:
    link.settle()
    before = set(link.server.quic.connection_ids)
    quic: Any = link.client.quic
    quic._quic.change_connection_id()
    link.settle()
    after = set(link.server.quic.connection_ids)
    assert len(before - after) == 1
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, b"under another id", True)
    link.run(lambda: link.server.finished(stream_id))
    assert link.server.unroutable == link.server.late_ids == 0


def test_garbage_changes_nothing(link: Link) -> None:
    ids = link.server.quic.connection_ids
    garbage = [b"", b"\x00", b"\x40" + ids[0], b"\x40" + ids[0] + bytes(50), b"\xc0" + bytes(1300)]
    for data in garbage:
        link.server.quic.feed([data], link.client.address, link.now)
    stream_id = link.client.quic.open_stream(UNI)
    link.client.quic.write(stream_id, b"fine", True)
    link.run(lambda: link.server.finished(stream_id))


# The end


def test_close_codes_and_reasons_arrive_at_once(link: Link) -> None:
    moment = link.now
    link.client.quic.close(0x1234, "done with it")
    link.client.quic.close(0x1, "again")
    link.run(lambda: link.server.closed)
    assert link.client.closed == Closed(0x1234, "done with it", False, True)
    assert link.server.closed == Closed(0x1234, "done with it", True, True)
    assert link.now - moment < 2 * link.delay
    link.run(lambda: link.client.quic.terminated and link.server.quic.terminated)
    for end, _ in ends(link):
        assert end.events[-1] == end.closed
        assert end.quic.next_timer() is None
        end.quic.on_timer(link.now)
        assert end.quic.flush(link.now) == []


def test_a_transport_error_of_ours_is_told_as_one(link: Link) -> None:
    link.server.quic.close(0x2, "no room", application=False)
    link.run(lambda: link.client.closed)
    assert link.client.closed == Closed(0x2, "no room", True, False)
    assert link.server.closed == Closed(0x2, "no room", False, False)


def test_after_the_close_calls_do_nothing(link: Link) -> None:
    stream_id = link.client.quic.open_stream(BIDI)
    link.client.quic.write(stream_id, b"x", False)
    link.run(lambda: link.server.received(stream_id))
    link.client.quic.close(0, "")
    link.run(lambda: link.server.closed)
    for end, _ in ends(link):
        told = list(end.events)
        end.quic.write(stream_id, b"late", True)
        end.quic.datagram(b"late")
        end.quic.reset(stream_id, 1)
        end.quic.stop(stream_id, 1)
        assert end.quic.streams_left(UNI) == 0
        assert end.quic.send_window() == 0
        link.settle(0.01)
        assert end.events == told


def test_a_lost_close_is_repeated_when_the_peer_still_sends(link: Link) -> None:
    link.settle()
    stream_id = link.server.quic.open_stream(UNI)
    link.server.quic.write(stream_id, b"from the server", False)
    link.cut = True
    link.client.quic.close(9, "unheard")
    link.client.quic.flush(link.now)
    assert link.server.closed is None
    link.cut = False
    link.run(lambda: link.server.closed)
    assert link.server.closed == Closed(9, "unheard", True, True)


def test_an_idle_connection_ends_on_both_sides(link: Link) -> None:
    link.settle()
    link.run(lambda: link.client.closed and link.server.closed, limit=40)
    for end, _ in ends(link):
        assert end.closed is not None
        assert end.closed.code == 0
        assert end.closed.reason.startswith("idle timeout: nothing arrived for ")
        assert not end.closed.by_peer
        assert not end.closed.application
        assert end.quic.terminated


def test_a_server_that_never_answers(pair: tuple[str, str]) -> None:
    link = Link(make_engine(pair[0], server=False), make_engine(pair[1], server=True))
    link.cut = True
    link.run(lambda: link.client.closed, limit=40)
    assert link.client.closed is not None
    assert link.client.closed.reason == "idle timeout: no answer to the handshake within 30 s"


def test_closing_in_the_middle_of_a_handshake(pair: tuple[str, str]) -> None:
    link = Link(make_engine(pair[0], server=False), make_engine(pair[1], server=True))
    link.client.quic.close(5, "changed my mind")
    link.run(lambda: link.client.quic.terminated, limit=40)
    assert link.client.events == [Closed(5, "changed my mind", False, True)]


# Any order of calls on a bad link: nothing raises, and what was finished arrives whole

CALLS = st.lists(
    st.tuples(
        st.sampled_from(["open", "write", "finish", "reset", "stop", "datagram", "wait", "rebind"]),
        st.booleans(),
        st.integers(0, 7),
        st.sampled_from([0, 1, 100, 3_000, 40_000]),
    ),
    min_size=1,
    max_size=40,
)


class Model:
    """What was asked of one end."""

    def __init__(self, end: End, other: End) -> None:
        self.end = end
        self.other = other
        self.written: dict[int, bytearray] = {}
        self.finished: set[int] = set()
        self.given_up: set[int] = set()

    def call(self, call: str, which: int, size: int, stopped: set[int]) -> None:
        quic = self.end.quic
        if call == "open" and quic.streams_left(bool(which & 1)):
            self.written[quic.open_stream(bool(which & 1))] = bytearray()
            return
        if call == "datagram":
            quic.datagram(bytes(size))
            return
        if not self.written:
            return
        stream_id = list(self.written)[which % len(self.written)]
        if call == "stop":
            self.other.quic.stop(stream_id, which)
            stopped.add(stream_id)
            return
        if call == "reset":
            quic.reset(stream_id, which)
            self.given_up.add(stream_id)
        elif call in {"write", "finish"}:
            data = bytes([which]) * size
            quic.write(stream_id, data, call == "finish")
            if stream_id not in self.finished | self.given_up:
                self.written[stream_id] += data
        if call == "finish":
            self.finished.add(stream_id)


@pytest.mark.parametrize("pair", [("aioquic", "aioquic"), ("aioquic", "qh3"), ("qh3", "aioquic")])
@settings(max_examples=examples(12))
@given(calls=CALLS, seed=st.integers(0, 1000))
def test_any_order_of_calls(
    pair: tuple[str, str], calls: list[tuple[str, bool, int, int]], seed: int
) -> None:
    link: Link = connected(*pair, seed=seed, loss=0.02, reorder=0.05, duplicate=0.02)
    models = Model(link.client, link.server), Model(link.server, link.client)
    stopped: set[int] = set()
    for call, by_server, which, size in calls:
        if call == "wait":
            link.settle(size / 100_000)
        elif call == "rebind":
            link.rebind()
            if pair[1] == "qh3":
                # qh3 2.1.0 does not repeat a PATH_CHALLENGE whose answer was lost, and sends
                # nothing more (docs/explanation/transport.md, known limits).
                link.loss = 0.0
        else:
            models[by_server].call(call, which, size, stopped)
    whole = [
        (model, stream_id)
        for model in models
        for stream_id in model.finished - model.given_up - stopped
    ]
    link.run(lambda: all(model.other.finished(stream_id) for model, stream_id in whole), limit=600)
    for model, stream_id in whole:
        assert model.other.received(stream_id) == model.written[stream_id]
    for model in models:
        for reset in model.other.of(StreamReset):
            assert reset.stream_id in model.given_up | stopped
        for stop in model.end.of(StopSending):
            assert stop.stream_id in stopped
        assert model.end.events[0] == Connected(model.end.quic.alpn)
        assert not model.end.of(Closed)
