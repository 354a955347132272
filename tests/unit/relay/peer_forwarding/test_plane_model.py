"""Random streams, chunks, FIB changes, releases, resets and losses, held to a model.

Each stream has a data context of its own, so that every copy of it can be told apart. Whatever
happens, a copy is the header with the id of its set and a prefix of the payload, goes where the FIB
pointed when the stream began and nowhere else, and is all of it if nothing was taken from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from laps_relay.peer_forwarding.forwarding import LOCAL, EgressSet, Ingress, SetIdle
from laps_relay.peer_forwarding.plane import PeerPlane
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.interfaces import Feed
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import DataHeader, DataKind, encode_data_header
from testkit.peer_plane import KEY, Holder, Out, Peer, Sink
from testkit.properties import examples

INDEX = st.integers(0, 1000)
SNS_IDS = st.sampled_from([1, 1, 2, 3])
PIECES = (1, 30, 8, 1500, 24, 100, 5000)
SIZES = st.sampled_from(PIECES)
LINGER = 1.0


@dataclass(eq=False)
class Copy:
    """One outgoing stream that must be there."""

    target: EgressSet
    out: Out | None = None
    """None for our own clients, and until it was found."""
    ended: bool = False
    """Taken away alone: stopped, dropped, cut, or its session is gone."""


@dataclass(eq=False)
class Stream:
    """A stream of a peer, or of a feed."""

    ingress: Ingress
    context: int
    stream_id: int
    head: bytes
    payload: bytes
    at: int = 0
    """How much of it has come."""
    fin: bool = False
    code: int | None = None
    begun: bool = False
    held: bool = False
    over: bool = False
    copies: list[Copy] = field(default_factory=list)
    local: bool = False
    overloaded: bool = False
    feed: OutStream | None = None

    @property
    def whole(self) -> bytes:
        return self.head + self.payload

    @property
    def alive(self) -> bool:
        """Whether somebody gets its bytes."""
        return self.local or any(not copy.ended for copy in self.copies)


class PeerPlaneModel(RuleBasedStateMachine):
    """The plane and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = Sink()
        self.plane = PeerPlane(self.sink, set_linger=LINGER)
        self.now = 100.0
        self.peers: dict[int, Peer] = {}
        self.holders: dict[int, Holder] = {}
        self.everyone: dict[int, Peer] = {}
        self.numbers = 0
        self.contexts = 0
        self.sets = 0
        self.fib: dict[Ingress, tuple[list[EgressSet], bool]] = {}
        self.streams: list[Stream] = []
        self.stopped: dict[tuple[int, int], int] = {}
        self.feed: Feed = self.plane.open_feed(1, KEY, 0xFEED, 1)
        self.feed_streams = 0
        for _ in range(4):
            self.session_comes()
        self._point(Ingress(1, 2), [3], local=False)
        self._point(Ingress(2, 1), [1, 3, 4], local=False)
        self._point(Ingress(2, 2), [2, 3], local=True)
        self._point(Ingress(LOCAL, 1), [1, 2], local=False)

    # Sessions and the FIB

    @precondition(lambda self: len(self.peers) < 5)
    @rule()
    def session_comes(self) -> None:
        """One more peer."""
        self.numbers += 1
        peer, holder = Peer(), Holder()
        self.peers[self.numbers] = self.everyone[self.numbers] = peer
        self.holders[self.numbers] = holder
        self.plane.add_session(self.numbers, peer, holder)
        self._point(Ingress(self.numbers, 1), [*self.peers], local=False)

    @precondition(lambda self: len(self.peers) > 4)
    @rule(which=INDEX)
    def session_goes(self, which: int) -> None:
        """With its streams in both directions."""
        session = self._session(which)
        self.plane.remove_session(self.now, session)
        del self.peers[session], self.holders[session]
        for stream in self.streams:
            if stream.ingress.session == session and not stream.over:
                stream.held, stream.over = False, True
                stream.code = int(StreamCode.LOST)
        for stream in self.streams:
            for copy in stream.copies:
                if copy.target.session == session:
                    self._end(stream, copy)
        for ingress in tuple(self.fib):
            if ingress.session == session:
                del self.fib[ingress]

    @rule(which=INDEX, sns_id=SNS_IDS, count=st.integers(0, 4), local=st.booleans())
    def install(self, which: int, sns_id: int, count: int, local: bool) -> None:
        """An entry points elsewhere; now and then to a set that others use too."""
        ingress = self._ingress(which, sns_id)
        order = sorted(self.peers, key=lambda session: session * (which + 1) % 7)
        self.sets += which % 3 > 0
        self._point(ingress, order[:count], local=local)
        if which % 2:
            items = self._held_items(ingress)
            self.plane.release(self.now, ingress.session, items)
            self._release(ingress)
        self.bytes_arrive(which)

    @rule(which=INDEX, sns_id=SNS_IDS)
    def give_up(self, which: int, sns_id: int) -> None:
        """A set goes, and what is under way goes on; or it did not come."""
        ingress = Ingress(self._session(which), sns_id)
        if which % 3 == 2:
            self.plane.remove(self.now, ingress)
            self.fib.pop(ingress, None)
        self.plane.discard(self.now, ingress.session, self._held_items(ingress))
        for stream in self.streams:
            if stream.held and stream.ingress == ingress:
                self._abandon(stream, StreamCode.UNKNOWN_SNS)

    # Bytes

    @rule(
        which=INDEX,
        sns_id=SNS_IDS,
        size=st.sampled_from([0, 40, 1600, 4000]),
        first=SIZES,
        timed=st.booleans(),
        extensions=st.sampled_from([b"", b"\x02\x03abc"]),
    )
    def stream_begins(
        self, which: int, sns_id: int, size: int, first: int, timed: bool, extensions: bytes
    ) -> None:
        """One from each of two sessions, with its first bytes, perhaps all of it."""
        for session in sorted(self.peers)[:2]:
            self.contexts += 1
            header = DataHeader(
                DataKind.STREAM,
                sns_id,
                KEY,
                self.contexts,
                ttl_ms=10**9 * timed,
                extensions=extensions,
            )
            stream = Stream(
                Ingress(session, sns_id),
                self.contexts,
                self.contexts * 4 + 3,
                encode_data_header(header),
                bytes((self.contexts + index) & 255 for index in range(size)),
            )
            self.streams.append(stream)
            self._arrive(stream, first, fin=which % 5 == 4)
        self.bytes_arrive(which)

    @rule(which=INDEX)
    def bytes_arrive(self, which: int) -> None:
        """More of everything, perhaps its end; this also happens between other things."""
        for index, stream in enumerate(self._running(), which):
            if index % 4:
                self._arrive(stream, PIECES[index % len(PIECES)], fin=index % 3 > 0)
        for index, stream in enumerate(self._feeding(), which):
            if index % 4:
                sent = max(0, stream.at - len(stream.head))
                data = stream.payload[sent : sent + 1700]
                fin = sent + len(data) == len(stream.payload) and index % 3 > 0
                self._feed(stream, data, fin=fin)

    def _arrive(self, stream: Stream, size: int, *, fin: bool) -> None:
        data = stream.whole[stream.at : stream.at + size]
        last = stream.at + len(data) == len(stream.whole) and fin
        if not data and not last:
            return
        self.plane.stream_data(self.now, stream.ingress.session, stream.stream_id, data, last)
        if stream.over:
            stream.fin = last  # it was stopped: nobody looks
            return
        stream.at += len(data)
        stream.fin = last
        if not stream.begun and stream.at >= len(stream.head):
            self._begin(stream)
        if last and not stream.held:
            stream.over = True

    @precondition(lambda self: self._running())
    @rule(which=INDEX, code=st.integers(0, 100))
    def stream_is_reset(self, which: int, code: int) -> None:
        """By the peer."""
        stream = self._pick(which)
        self.plane.stream_reset(self.now, stream.ingress.session, stream.stream_id, code)
        if not stream.over:
            stream.over, stream.held, stream.code = True, False, code
        stream.fin = True

    @rule(which=INDEX, size=st.sampled_from([0, 10, 5000]), whole=st.booleans())
    def feed_begins(self, which: int, size: int, whole: bool) -> None:
        """Of a local publisher."""
        head = encode_data_header(DataHeader(DataKind.STREAM, 0, KEY, 0xFEED, 9, 0, 1))
        stream = Stream(Ingress(LOCAL, 1), 0xFEED, 0, head, bytes(size), begun=True)
        known = {id(out) for peer in self.peers.values() for out in peer.streams}
        stream.feed = self.feed.open_stream(self.now, priority=9)
        egress, _ = self.fib.get(stream.ingress, ([], False))
        for target in egress:
            if target.session in self.peers:
                fresh = [out for out in self.peers[target.session].streams if id(out) not in known]
                stream.copies.append(Copy(target, fresh[-1]))
        assert stream.feed.closed == (not stream.copies)
        self.streams.append(stream)
        if whole:
            self._feed(stream, stream.payload, fin=True)
        self.bytes_arrive(which)

    @precondition(lambda self: self._feeding())
    @rule(which=INDEX, code=st.integers(0, 100))
    def feed_is_reset(self, which: int, code: int) -> None:
        """By its publisher."""
        running = self._feeding()
        stream = running[which % len(running)]
        assert stream.feed is not None
        stream.feed.reset(code)
        stream.over, stream.code = True, code

    def _feed(self, stream: Stream, data: bytes, *, fin: bool) -> None:
        assert stream.feed is not None
        stream.feed.write(data, fin)
        stream.at += len(data) + (0 if stream.at else len(stream.head))
        stream.over = stream.fin = fin

    # Losses

    @precondition(lambda self: self._copies())
    @rule(which=INDEX, stopped=st.booleans())
    def copy_is_lost(self, which: int, stopped: bool) -> None:
        """A peer stops one, or is too slow for it."""
        found = self._copies()
        stream, copy = found[which % len(found)]
        assert copy.out is not None
        copy.out.gone = True
        self.plane.out_stream_gone(self.now, copy.target.session, copy.out, 1, stopped=stopped)
        stream.overloaded = stream.overloaded or not stopped
        self._end(stream, copy)
        self.bytes_arrive(which)

    @precondition(lambda self: self._copies())
    @rule(which=INDEX)
    def set_is_cut(self, which: int) -> None:
        """All open streams of one set."""
        found = self._copies()
        target = found[which % len(found)][1].target
        hit = [
            (stream, copy)
            for stream in self.streams
            for copy in stream.copies
            if copy.target == target and copy.out is not None and not copy.ended
            if not copy.out.closed or copy.out.queued
        ]
        self.plane.cut(self.now, target, 0x66)
        for stream, copy in hit:
            assert copy.out is not None
            if not copy.out.fin or copy.out.reset_code is not None:
                assert copy.out.reset_code == 0x66
                self._end(stream, copy)

    # Sets that end

    @precondition(lambda self: self._copies())
    @rule(which=INDEX)
    def set_is_retired(self, which: int) -> None:
        """It is reported when nothing of it is under way; its peer may be slow."""
        found = self._copies()
        target = found[which % len(found)][1].target
        peer = self.peers[target.session]
        if not peer.slow:
            for out in peer.streams:
                out.sent = len(out.data)  # what it had before it became slow
        peer.slow = which % 3 > 0
        self.plane.retire(self.now, target)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        """Whatever is due in it happens."""
        end = self.now + seconds
        if seconds == 0.5:
            for peer in self.peers.values():
                peer.slow = False
        while (due := self.plane.poll_timeout()) is not None and due <= end:
            self.now = max(self.now, due)
            self.plane.handle_timeout(self.now)
        self.now = end
        for notice in self.plane.poll_notices():
            if not isinstance(notice, SetIdle):  # streams end where they began
                continue
            for stream in self.streams:
                for copy in stream.copies:
                    if copy.target == notice.egress and not copy.ended and copy.out is not None:
                        assert copy.out.closed
                        assert not copy.out.queued

    # What must hold

    @invariant()
    def every_copy_is_right(self) -> None:
        """Header, prefix, end."""
        for stream in self.streams:
            sent = stream.whole[: stream.at]
            for copy in stream.copies:
                out = copy.out
                assert out is not None
                number = copy.target.sns_id.to_bytes(4, "big")
                wanted = sent[:4] + number + sent[8:] if sent else b""
                if copy.ended:
                    assert wanted.startswith(out.data)
                    continue
                assert out.data == wanted
                assert out.fin == (stream.fin and stream.code is None)
                assert out.reset_code == stream.code
                if not stream.over:
                    assert not out.closed

    @invariant()
    def nothing_else_was_sent(self) -> None:
        """Each outgoing stream is a copy that the model knows."""
        known = {id(copy.out) for stream in self.streams for copy in stream.copies}
        for peer in self.everyone.values():
            assert {id(out) for out in peer.streams} <= known
        assert sum(len(peer.streams) for peer in self.everyone.values()) == len(known)

    @invariant()
    def our_own_clients_get_it_too(self) -> None:
        """The same, without the header."""
        arrived = {each.header.context: each for each in self.sink.streams.values()}
        assert len(arrived) == len(self.sink.streams)
        assert arrived.keys() == {stream.context for stream in self.streams if stream.local}
        for stream in self.streams:
            if stream.local:
                each = arrived[stream.context]
                assert each.data == stream.payload[: stream.at - len(stream.head)]
                assert each.fin == (stream.fin and stream.code is None)
                assert each.code == stream.code

    @invariant()
    def senders_are_stopped_when_nobody_is_left(self) -> None:
        """Once, with a reason."""
        found = {
            (session, stream_id): code
            for session, peer in self.everyone.items()
            for stream_id, code in peer.stopped
        }
        assert len(found) == sum(len(peer.stopped) for peer in self.everyone.values())
        assert found == self.stopped

    @invariant()
    def figures_are_right(self) -> None:
        """All bytes of all copies, and all that waits."""
        counters = self.plane.counters()
        outs = [out for peer in self.everyone.values() for out in peer.streams]
        assert counters.bytes_out == sum(len(out.data) for out in outs)
        assert counters.streams_out == len(outs)
        assert counters.held_bytes == sum(stream.at for stream in self.streams if stream.held)

    def teardown(self) -> None:
        """When all is over nothing is left."""
        for stream in self.streams:
            if stream.feed is not None:
                stream.feed.reset(0)
            elif stream.ingress.session in self.peers:
                self.plane.stream_reset(self.now, stream.ingress.session, stream.stream_id, 0)
        for session in tuple(self.peers):
            items = [item for _, item, _ in self.holders[session].items]
            self.plane.discard(self.now, session, items)
        assert self.plane.counters().held_bytes == 0
        sizes = self.plane.sizes()
        assert (sizes.incoming, sizes.outgoing) == (0, 0)
        for ingress in tuple(self.fib):
            self.plane.remove(self.now, ingress)
        for peer in self.peers.values():
            peer.slow = False
        self.time_passes(10.0)
        assert self.plane.sizes().targets == 0
        assert self.plane.poll_timeout() is None

    # The model

    def _session(self, which: int) -> int:
        return sorted(self.peers)[which % len(self.peers)]

    def _ingress(self, which: int, sns_id: int) -> Ingress:
        if which % 5 == 0:
            return Ingress(LOCAL, 1)
        return Ingress(self._session(which), sns_id)

    def _point(self, ingress: Ingress, sessions: list[int], *, local: bool) -> None:
        """Let an entry point to sets of these sessions."""
        egress = [EgressSet(session, 1000 + self.sets) for session in sessions]
        self.plane.install(self.now, ingress, egress, local=local)
        self.fib[ingress] = egress, local and ingress.session != LOCAL

    def _held_items(self, ingress: Ingress) -> list[object]:
        if ingress.session == LOCAL:
            return []
        return self.holders[ingress.session].take(ingress.set_id)

    def _running(self) -> list[Stream]:
        """Streams of peers that have not ended as their sender sees it."""
        return [
            stream
            for stream in self.streams
            if stream.feed is None
            and not stream.fin
            and stream.code is None
            and stream.ingress.session in self.peers
        ]

    def _pick(self, which: int) -> Stream:
        running = self._running()
        return running[which % len(running)]

    def _feeding(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.feed is not None and not stream.over]

    def _copies(self) -> list[tuple[Stream, Copy]]:
        """Copies that are under way."""
        return [
            (stream, copy)
            for stream in self.streams
            if not stream.over
            for copy in stream.copies
            if not copy.ended
        ]

    def _begin(self, stream: Stream) -> None:
        """The header is there: to where the entry points now, or wait for it."""
        entry = self.fib.get(stream.ingress)
        if entry is None:
            stream.held = True
            return
        stream.held, stream.begun = False, True
        egress, stream.local = entry
        for target in egress:
            if target.session in self.peers:
                outs = self.peers[target.session].streams
                (out,) = [
                    out
                    for out in outs
                    if out.writes
                    and out.header.context == stream.context
                    and out.header.sns_id == target.sns_id
                ]
                stream.copies.append(Copy(target, out))
        if stream.fin:
            stream.over = True
        elif not stream.alive:
            self._abandon(stream, StreamCode.NO_SUBSCRIBERS)

    def _release(self, ingress: Ingress) -> None:
        for stream in self.streams:
            if stream.held and stream.ingress == ingress:
                self._begin(stream)

    def _abandon(self, stream: Stream, code: int) -> None:
        """Nobody takes it any more; the sender is told unless it has sent all."""
        stream.held, stream.over = False, True
        if not stream.fin:
            self.stopped[stream.ingress.session, stream.stream_id] = code

    def _end(self, stream: Stream, copy: Copy) -> None:
        """One copy ends alone."""
        copy.ended = True
        if stream.over or stream.alive:
            return
        if stream.feed is not None:
            stream.over = True
        else:
            code = StreamCode.OVERLOADED if stream.overloaded else StreamCode.NO_SUBSCRIBERS
            self._abandon(stream, code)


TestPeerPlane = PeerPlaneModel.TestCase
TestPeerPlane.settings = settings(max_examples=examples(30), stateful_step_count=40)
