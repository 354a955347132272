"""Any sequence of operations, on any link: what is promised arrives, and nothing else."""

from __future__ import annotations

from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import StreamDataReceived, StreamReset
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from testkit.properties import examples
from testkit.quic_pair import Link, QuicPair

SIDES = st.sampled_from(["client", "server"])
OTHER = {"client": "server", "server": "client"}
SIZES = st.integers(0, 100) | st.integers(0, 5000) | st.just(40_000)


class Conversation(RuleBasedStateMachine):
    """Two connections and a model: what was written, what was given up."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[tuple[str, int], bytearray] = {}
        self.ended: set[tuple[str, int]] = set()
        self.given_up: set[tuple[str, int]] = set()
        self.datagrams: dict[str, list[bytes]] = {"client": [], "server": []}
        self.count = 0

    @initialize(
        kinds=st.sampled_from(["ff", "fs", "sf"]),
        small=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def begin(self, kinds: str, small: bool, seed: int) -> None:
        classes: list[type[QuicConnection]] = [
            FastQuicConnection if kind == "f" else QuicConnection for kind in kinds
        ]
        window = 4000 if small else 1 << 20
        self.pair = QuicPair(
            client=classes[0],
            server=classes[1],
            link=Link(seed=seed),
            max_data=window,
            max_stream_data=window,
        )

    def fresh_bytes(self, size: int) -> bytes:
        """Bytes that are not like others."""
        self.count += 1
        return (self.count.to_bytes(4, "big") * (size // 4 + 1))[:size]

    @rule(side=SIDES, one_way=st.booleans(), size=SIZES, end=st.booleans())
    def open(self, side: str, one_way: bool, size: int, end: bool) -> None:
        connection = self.pair.sides[side]
        stream_id = connection.get_next_available_stream_id(is_unidirectional=one_way)
        self.written[side, stream_id] = bytearray()
        self.write_to(side, stream_id, size, end)

    @precondition(lambda self: self.written)
    @rule(data=st.data(), size=SIZES, end=st.booleans())
    def write(self, data: st.DataObject, size: int, end: bool) -> None:
        side, stream_id = data.draw(st.sampled_from(sorted(self.written)))
        if (side, stream_id) not in self.ended | self.given_up:
            self.write_to(side, stream_id, size, end)

    @precondition(lambda self: self.written)
    @rule(data=st.data(), size=SIZES, end=st.booleans())
    def answer(self, data: st.DataObject, size: int, end: bool) -> None:
        side, stream_id = data.draw(st.sampled_from(sorted(self.written)))
        key = (OTHER[side], stream_id)
        known = stream_id in self.pair.sides[key[0]]._streams
        if not stream_id & 2 and known and key not in self.ended | self.given_up:
            self.written.setdefault(key, bytearray())
            self.write_to(*key, size, end)

    def write_to(self, side: str, stream_id: int, size: int, end: bool) -> None:
        # An end without data can be lost by the stock class (see FastBase._write_stream_frame).
        data = self.fresh_bytes(max(size, int(end)))
        self.pair.sides[side].send_stream_data(stream_id, data, end_stream=end)
        self.written[side, stream_id] += data
        if end:
            self.ended.add((side, stream_id))

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        side, stream_id = data.draw(st.sampled_from(sorted(self.written)))
        self.pair.sides[side].reset_stream(stream_id, 7)
        self.given_up.add((side, stream_id))

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        side, stream_id = data.draw(st.sampled_from(sorted(self.written)))
        other = self.pair.sides[OTHER[side]]
        if stream_id in other._streams:
            other.stop_stream(stream_id, 8)
            self.given_up.add((side, stream_id))

    @rule(side=SIDES, size=st.integers(0, 1100))
    def datagram(self, side: str, size: int) -> None:
        data = self.fresh_bytes(size)
        self.pair.sides[side].send_datagram_frame(data)
        self.datagrams[side].append(data)

    @rule(side=SIDES)
    def update_keys(self, side: str) -> None:
        # Not before the last one is answered (RFC 9001, 6.1), which aioquic leaves to its users.
        self.pair.run(1.0)
        self.pair.sides[side].request_key_update()
        self.pair.sides[side].send_ping(1)
        self.pair.run(1.0)

    @rule(side=SIDES)
    def ping(self, side: str) -> None:
        self.pair.sides[side].send_ping(1)

    @rule()
    def move(self) -> None:
        host, port = self.pair.client_address
        self.pair.client_address = (host, port + 1)
        self.pair.client.send_ping(2)

    @rule(
        loss=st.sampled_from([0.0, 0.0, 0.1]),
        reorder=st.sampled_from([0.0, 0.2]),
        duplicate=st.sampled_from([0.0, 0.2]),
        corrupt=st.sampled_from([0.0, 0.05]),
    )
    def change_link(self, loss: float, reorder: float, duplicate: float, corrupt: float) -> None:
        link = self.pair.link
        link.loss, link.reorder, link.duplicate, link.corrupt = loss, reorder, duplicate, corrupt

    @rule(seconds=st.sampled_from([0.0005, 0.005, 0.05, 0.5]))
    def wait(self, seconds: float) -> None:
        self.pair.run(seconds)

    @invariant()
    def what_arrived_is_what_was_written(self) -> None:
        if not hasattr(self, "pair"):
            return
        for side in ("client", "server"):
            got: dict[int, bytearray] = {}
            for event in self.pair.events[side]:
                if isinstance(event, StreamDataReceived):
                    got.setdefault(event.stream_id, bytearray()).extend(event.data)
            for stream_id, data in got.items():
                assert self.written[OTHER[side], stream_id].startswith(data)

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        pair = self.pair
        pair.link.loss = pair.link.reorder = pair.link.duplicate = pair.link.corrupt = 0.0
        live = [key for key in self.written if key not in self.given_up]

        def all_there() -> bool:
            return all(
                pair.received(OTHER[side], stream_id)
                == (bytes(self.written[side, stream_id]), (side, stream_id) in self.ended)
                for side, stream_id in live
            )

        pair.run_until(all_there, 120.0)
        for side, stream_id in self.given_up:
            ended = pair.received(OTHER[side], stream_id)[1]
            reset = any(
                isinstance(event, StreamReset) and event.stream_id == stream_id
                for event in pair.events[OTHER[side]]
            )
            assert ended or reset or (side, stream_id) not in self.written or self.settles(side)
        for side in ("client", "server"):
            sent = list(self.datagrams[side])
            for data in pair.datagrams(OTHER[side]):
                sent.remove(data)  # each at most once
            assert pair.terminated(side) is None

    def settles(self, side: str) -> bool:
        """A reset that was asked for last may need a little time."""
        self.pair.run(5.0)
        return not any(
            stream.sender.reset_pending for stream in self.pair.sides[side]._streams.values()
        )


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=examples(15), stateful_step_count=20)
