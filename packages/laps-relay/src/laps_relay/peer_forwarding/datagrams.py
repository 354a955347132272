"""Datagrams: one object each, sent to every set of an entry."""

from __future__ import annotations

from laps_relay.peer_forwarding.state import Entry, State
from laps_wire.peering.laps2 import decode_data_header

__all__ = ["count", "forward", "send"]


def forward(now: float, state: State, entry: Entry, data: bytes) -> None:
    """Forward a datagram of a peer whose header was checked."""
    count(state, entry, int.from_bytes(data[8:16], "big"), len(data))
    if entry.targets:
        ttl_ms = int.from_bytes(data[20:24], "big")
        send(state, entry, data[:4], data[8:], now + ttl_ms / 1000 if ttl_ms else None)
    if entry.sink is not None:
        header = decode_data_header(data)
        entry.sink.datagram(now, header, data[header.size :])


def count(state: State, entry: Entry, key: int, size: int) -> None:
    """Count an incoming datagram of a track."""
    if state.traffic is not None:
        state.traffic.came(key, entry.ingress.session, size, 1)
    entry.datagrams += 1
    entry.bytes_in += size
    state.datagrams_in += 1
    state.bytes_in += size


def send(state: State, entry: Entry, front: bytes, back: bytes, deadline: float | None) -> int:
    """Send the parts before and behind the SNS id to all sets; return how many took it."""
    size = len(front) + 4 + len(back)
    targets = entry.targets
    sent = 0
    traffic, key = state.traffic, int.from_bytes(back[:8], "big")
    for target in targets:
        egress = target.session.egress
        taken = size <= egress.max_datagram_size and egress.send_datagram(
            front + target.id_bytes + back, deadline
        )
        sent += taken
        if traffic is not None:
            source, number = entry.ingress.session, target.session.number
            traffic.sent(key, source, number, size * taken, int(taken), int(not taken))
    entry.bytes_out += size * sent
    state.bytes_out += size * sent
    state.datagrams_out += sent
    lost = len(targets) - sent
    if lost:
        state.dropped_datagrams += lost
        state.dropped_bytes += size * lost
    return sent
