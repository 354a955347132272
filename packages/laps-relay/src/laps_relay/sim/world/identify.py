"""Read from the first bytes of a stream between relays, or from a datagram, what it carries."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from laps_relay.sim.clients.ledger import Object, read_object
from laps_relay.sim.clients.moqt import read_framed
from laps_wire.peering.laps2 import DataHeader
from laps_wire.peering.laps2.data import decode_data_header
from laps_wire.peering.laps2.limits import DATA_HEADER_BYTES

__all__ = ["Seen", "identify"]


class Seen(NamedTuple):
    """The header and the first object of a stream, or of a datagram."""

    header: DataHeader
    item: Object


def identify(data: bytes, *, framed: bool, datagram: bool) -> Seen | None:
    """Header and first object; None if they are not all there."""
    if len(data) < DATA_HEADER_BYTES:
        return None
    header = decode_data_header(data)
    if framed:
        item = _first_object(data[header.size :], datagram)
    else:
        item = read_object(data, header.size, whole=False)
    return None if item is None else Seen(header, item)


@lru_cache(maxsize=1024)
def _first_object(data: bytes, datagram: bool) -> Object | None:
    """The first object; it crosses several links, and is the same on each of them."""
    return read_framed(data, datagram=datagram)
