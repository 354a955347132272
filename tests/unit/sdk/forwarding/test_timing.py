"""The first object of a sampled group: which of those that get it are watched, and until when."""

from __future__ import annotations

from laps_sdk.forwarding.samples import Sample, Samples
from testkit.plane import D16, NAME, Net, bodies, subgroup

KEY = 0xABC


def sampling(one_in: int = 1) -> tuple[Net, Samples]:
    net = Net()
    samples = Samples(one_in, lambda name: KEY if name == NAME else 0)
    net.plane.time_objects(samples)
    return net, samples


def seen(net: Net, samples: Samples) -> list[Sample]:
    net.wait(0)
    return samples.take()


def test_one_client_of_many() -> None:
    net, samples = sampling()
    publisher = net.publisher()
    for _ in range(3):
        net.receiver()
    for group in range(2):
        net.send(publisher, subgroup(D16, bodies(2), group=group))
    assert seen(net, samples) == [
        Sample(KEY, group, 0, 10, came=100.0, sent=100.0) for group in range(2)
    ]


def test_what_is_not_chosen_is_not_watched() -> None:
    net, samples = sampling(one_in=1 << 64)
    publisher = net.publisher()
    net.receiver()
    net.send(publisher, subgroup(D16, bodies(2)))
    assert samples.poll_timeout() is None
    net.plane.time_objects(None)
    net.send(publisher, subgroup(D16, bodies(2), group=1))
    assert net.plane.poll_timeout() != net.now


def test_other_relays_are_watched_all_and_named() -> None:
    net, samples = sampling()
    relay = net.publisher(peering=True)
    others = [net.receiver(peering=True), net.receiver(peering=True)]
    samples.arrived(KEY, 0, 5, 99.5)
    net.send(relay, subgroup(D16, bodies(1)))
    net.send(relay, subgroup(D16, bodies(1), group=1))
    first = [Sample(KEY, 0, 0, 10, 99.5, 100.0, source=5, client=relay, viewer=x) for x in others]
    second = [Sample(KEY, 1, 0, 10, 100.0, 100.0, client=relay, viewer=x) for x in others]
    assert seen(net, samples) == first + second


def test_it_is_sent_when_its_last_byte_is() -> None:
    net, samples = sampling()
    publisher, slow = net.publisher(), net.receiver(fast=False)
    data = subgroup(D16, bodies(2))
    stream = net.open(publisher, data[:8])  # the payload is under way
    assert seen(net, samples) == []
    net.more(publisher, stream, data[8:], fin=True)
    assert seen(net, samples) == []
    out = net.egress[slow].streams[0]
    net.wait(0.0015)
    assert samples.take() == []
    out.sent = len(out.data)
    net.wait(1.0)
    (sample,) = samples.take()
    assert 0 < sample.sent - sample.came < 0.05


def test_what_is_dropped_was_not_sent() -> None:
    net, samples = sampling()
    publisher, slow = net.publisher(), net.receiver(fast=False)
    net.open(publisher, subgroup(D16, bodies(2)))
    net.drop(slow)
    assert seen(net, samples) == []
    assert samples.poll_timeout() is None
    assert net.plane.poll_timeout() != net.now


def test_a_stream_that_is_abandoned_within_the_object() -> None:
    net, samples = sampling()
    publisher = net.publisher()
    net.receiver(fast=False)
    stream = net.open(publisher, subgroup(D16, bodies(1))[:8])
    net.reset(publisher, stream)
    assert seen(net, samples) == []
    assert samples.poll_timeout() is None
