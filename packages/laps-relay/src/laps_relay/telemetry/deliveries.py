"""``delivery.sample``: the times of an object on one way through the relay."""

from __future__ import annotations

from laps_relay.telemetry.network_records import hash_text
from laps_relay.telemetry.traffic import NodeOf
from laps_sdk.forwarding.samples import Sample
from laps_wire.telemetry import DeliverySample

__all__ = ["delivery"]

_LONG_MAX = (1 << 63) - 1


def delivery(
    sample: Sample,
    one_in: int,
    zero: float,
    *,
    peer: NodeOf,
    guest: NodeOf,
) -> DeliverySample | None:
    """The record; ``zero`` is the time of day at which the clock of the planes stood at 0.

    None for what the other plane tells: the session of the network at its own Edge is no way out;
    and for a peer that is not known any more.
    """
    in_peer = out_peer = None
    if sample.source is not None:
        in_peer = peer(sample.source)
        if in_peer is None:
            return None
    elif sample.client is not None:
        in_peer = guest(sample.client)
    if sample.target is not None:
        out_peer = peer(sample.target)
        if out_peer is None:
            return None
    elif sample.viewer is not None:
        out_peer = guest(sample.viewer)
        if out_peer is None:
            return None
    return DeliverySample(
        track=hash_text(sample.key),
        one_in=one_in,
        in_us=int((zero + sample.came) * 1e6),
        out_us=int((zero + sample.sent) * 1e6),
        size_bytes=sample.size,
        group_id=sample.group_id if sample.group_id <= _LONG_MAX else None,
        object_id=sample.object_id if sample.object_id <= _LONG_MAX else None,
        in_peer=in_peer,
        out_peer=out_peer,
    )
