"""What a Stub publishes goes to every parent that asked."""

from __future__ import annotations

import pytest

from laps_sdk.stub.stub_feeds import StubFeeds
from laps_sdk.upstream.stub_data import TrackFeed
from laps_wire.peering.laps2.forwarding import FLAG_CONTINUED, decode_data_header
from testkit.plane import D18, FakeEgress, FakeStream


def feed(egress: FakeEgress) -> TrackFeed:
    return TrackFeed(egress, 7, 1)


def test_each_parent_gets_the_same_bytes() -> None:
    feeds: StubFeeds[str] = StubFeeds()
    one, two = FakeEgress(D18), FakeEgress(D18)
    track = feeds.add(7, "one", feed(one))
    assert feeds.add(7, "two", feed(two)) is track
    assert feeds.owners(7) == ["one", "two"]
    assert feeds.of("two") == [7]
    stream = track.open_stream(1.0, priority=3)
    stream.set_priority(1)
    stream.write(b"abc")
    assert stream.queued == max(each.streams[0].queued for each in (one, two))
    stream.write(b"def", True)
    assert stream.closed
    for egress in (one, two):
        data = bytes(egress.streams[0].data)
        assert data[decode_data_header(data).size :] == b"abcdef"
    track.open_stream(1.0, priority=3, continued=True)
    for egress in (one, two):
        heads = [decode_data_header(stream.data) for stream in egress.streams]
        assert [head.flags for head in heads] == [0, FLAG_CONTINUED]
    assert track.send_datagram(1.0, b"x", priority=3)
    assert len(one.datagrams) == len(two.datagrams) == 1
    assert feeds.gone(one.streams[0]) is None


def test_a_deadline_holds_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    feeds: StubFeeds[str] = StubFeeds()
    one, two = FakeEgress(D18), FakeEgress(D18)
    feeds.add(7, "one", feed(one))
    stream = feeds.add(7, "two", feed(two)).open_stream(1.0, priority=3)
    told: list[float | None] = []
    monkeypatch.setattr(FakeStream, "set_deadline", lambda _, deadline: told.append(deadline))
    stream.set_deadline(9.0)
    assert told == [9.0, 9.0]


def test_a_parent_that_leaves_takes_nothing_from_the_other() -> None:
    feeds: StubFeeds[str] = StubFeeds()
    one, two = FakeEgress(D18), FakeEgress(D18)
    track = feeds.add(7, "one", feed(one))
    feeds.add(7, "two", feed(two))
    assert not feeds.remove(7, "one")
    assert not feeds.remove(7, "one")
    assert not feeds.remove(8, "one")
    track.open_stream(1.0, priority=3).reset(5)
    assert not one.streams
    assert two.streams[0].reset_code == 5
    assert feeds.remove(7, "two")
    assert feeds.owners(7) == []
    feeds.add(7, "one", feed(one))
    feeds.drop(7)
    assert feeds.owners(7) == []


def test_a_stream_is_gone_when_all_parts_are() -> None:
    feeds: StubFeeds[str] = StubFeeds()
    one, two = FakeEgress(D18), FakeEgress(D18)
    feeds.add(7, "one", feed(one))
    stream = feeds.add(7, "two", feed(two)).open_stream(1.0, priority=3)
    assert feeds.gone(one.streams[0]) is None
    stream.write(b"abc")
    assert feeds.gone(two.streams[0]) is stream
    assert stream.closed
    assert stream.queued == 0
