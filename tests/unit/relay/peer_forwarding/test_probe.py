from __future__ import annotations

import pytest

from laps_relay.peer_forwarding.probe import FirstObject, Probe, may_be_sampled
from laps_sdk.forwarding.samples import Samples
from laps_wire.peering.laps2 import DataHeader, DataKind, encode_data_header
from testkit.plane import D16, D18, bodies, subgroup

KEY = 0xABC


def head(payload_format: int = 18) -> bytes:
    return encode_data_header(DataHeader(DataKind.STREAM, 7, KEY, 1, payload_format=payload_format))


def probe(one_in: int = 1, payload_format: int = 18) -> Probe:
    return Probe(Samples(one_in, lambda _: 0), head(payload_format), 5.0)


@pytest.mark.parametrize("draft", [D16, D18])
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_the_first_object_is_found_in_any_pieces(draft: int, step: int) -> None:
    payloads = {3: b"x" * 40, 5: b"y"}
    data = subgroup(D18 if draft == D18 else D16, payloads, group=300, subgroup_id=3)
    looking = probe(payload_format=int(draft))
    over = False
    for at in range(0, len(data), step):
        over = looking.look(data[at : at + step])
        if over:
            break
    assert over
    first = looking.first
    assert first is not None
    alone = subgroup(D18 if draft == D18 else D16, {3: b"x" * 40}, group=300, subgroup_id=3)
    assert first == FirstObject(300, 3, 40, len(head()) + len(alone))
    assert (looking.key, looking.came) == (KEY, 5.0)


def test_what_is_not_sampled_is_not_looked_at() -> None:
    looking = probe(one_in=0)
    assert looking.look(subgroup(D18, bodies(1)))
    assert looking.first is None


def test_other_payload_is_not_looked_at() -> None:
    looking = probe(payload_format=1)
    assert looking.look(b"anything")
    assert looking.first is None


def test_what_is_no_subgroup() -> None:
    looking = probe()
    assert looking.look(b"\x3f" * 50)
    assert looking.first is None


def test_a_header_that_does_not_end() -> None:
    data = subgroup(D18, [b"x"], extensions=[b"\x01\x50" + b"e" * 80])
    looking = probe()
    assert not looking.look(data[:20])
    assert looking.first is None
    endless = probe()
    huge = subgroup(D18, [b"x"], extensions=[b"\x01\x9f\x40" + b"e" * 8000])
    assert endless.look(huge)
    assert endless.first is None


def test_nearly_all_streams_get_a_quick_no() -> None:
    every, none = Samples(1, lambda _: 0), Samples(0, lambda _: 0)
    data = head() + subgroup(D18, bodies(1), group=300)
    assert may_be_sampled(every, data)
    assert not may_be_sampled(none, data)
    assert may_be_sampled(none, data[:26])  # the group has not come
    assert not may_be_sampled(every, head(payload_format=1) + data[24:])
    some = Samples(10, lambda _: 0)
    for group in range(100):
        whole = head() + subgroup(D18, bodies(1), group=group)
        looking = Probe(some, whole, 0.0)
        looking.look(whole[24:])
        assert may_be_sampled(some, whole) == (looking.first is not None)
