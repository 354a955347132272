from __future__ import annotations

from laps_relay.telemetry.deliveries import delivery
from laps_sdk.forwarding.samples import Sample
from laps_wire.telemetry import DeliverySample

PEERS = {1: "1:1", 2: "2:2"}
GUESTS = {-1: "9:9"}
SAMPLE = Sample(0xABC, 7, 0, 100, 10.0, 10.5)


def made(sample: Sample) -> DeliverySample | None:
    return delivery(sample, 100, 1000.0, peer=PEERS.get, guest=GUESTS.get)


def ends(sample: Sample) -> tuple[str | None, str | None]:
    body = made(sample)
    assert body is not None
    return body.in_peer, body.out_peer


def test_times_of_day() -> None:
    assert made(SAMPLE) == DeliverySample(
        track=f"{0xABC:016x}",
        one_in=100,
        in_us=1_010_000_000,
        out_us=1_010_500_000,
        size_bytes=100,
        group_id=7,
        object_id=0,
    )


def test_who_is_at_both_ends() -> None:
    assert ends(SAMPLE._replace(source=1, client=0, target=2)) == ("1:1", "2:2")
    assert ends(SAMPLE._replace(client=-1)) == ("9:9", None)
    assert ends(SAMPLE._replace(viewer=-1)) == (None, "9:9")
    assert ends(SAMPLE._replace(client=0)) == (None, None)


def test_what_nobody_can_name_is_left_out() -> None:
    assert made(SAMPLE._replace(source=5)) is None
    assert made(SAMPLE._replace(target=5)) is None
    assert made(SAMPLE._replace(viewer=0)) is None  # the other plane tells it


def test_ids_that_fit_no_column() -> None:
    body = made(SAMPLE._replace(group_id=1 << 63, object_id=1 << 63))
    assert body is not None
    assert (body.group_id, body.object_id) == (None, None)
