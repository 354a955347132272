"""Streams that take a subgroup as it comes."""

from __future__ import annotations

from laps_sdk.forwarding.track import Flow
from testkit.plane import D16, Net, bodies, subgroup


def test_streams_come_and_go() -> None:
    net = Net()
    publisher = net.publisher()
    plain, timed = net.receiver(), net.receiver(delivery_timeout=3.0)
    net.open(publisher, subgroup(D16, bodies(1)))
    (feed,) = net.plane._state.tracks[1].feeds()
    outs = feed.outs()
    assert [out.receiver.subscription.session for out in outs] == [plain, timed]
    flow = Flow()
    for out in outs:
        flow.add(out)
    assert flow.timed == outs[1:]
    assert len(flow.writes) == 2
    for out in outs:
        flow.remove(out)
    assert flow.outs == []
    assert flow.writes == []
    assert flow.timed == []
