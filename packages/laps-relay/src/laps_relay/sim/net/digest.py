"""The digest of a run: what was sent over which link, on which stream, and when.

Two runs with the same digest put the same bytes on the same links at the same virtual times::

    Pipe, one for each direction of a connection --> Channel --.
    dials of a host                              --> Channel ---> WireDigest.hexdigest
    objects for the clients of a relay           --> Channel --'

No name of a class, module, event or enum member is part of it, nor the order of a dict: it changes
only when the relays behave differently. Channels are independent of each other, so it does not
matter which of two links is served first at the same moment.

Messages that the relays of a run hand over as objects (:mod:`laps_relay.sim.net.messages`) are
encoded for the digest.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

__all__ = ["Channel", "WireDigest"]

_BYTES: Final = 16
_CODES: Final = {"data": 0, "reset": 1, "stop": 2, "datagram": 3}
_DATAGRAM: Final = _CODES["datagram"]
_FIN, _CLOSE, _DIAL, _DELIVERED = range(4, 8)


class Channel:
    """What was sent in one direction, in its order."""

    __slots__ = ("_digest", "_hash", "_head")

    def __init__(self, digest: WireDigest) -> None:
        self._digest = digest
        self._hash = blake2b(digest_size=_BYTES)
        self._head = b""

    def sent(
        self, now: float, kind: str, stream_id: int, data: bytes, fin: bool, code: int
    ) -> None:
        """Add bytes of a stream, a datagram, or the end of a stream.

        Bytes that follow each other at the same time on the same stream are the same in one piece
        or in several.
        """
        number = _CODES[kind]
        head = b"\n%.6f %d %d %d " % (now, number, stream_id, code)
        if head != self._head or number == _DATAGRAM:
            self._head = head
            self._hash.update(head)
        if data:
            self._hash.update(self._digest.expand(data))
        if fin:
            self._add(now, _FIN, stream_id)

    def closed(self, now: float, code: int) -> None:
        """Add the end of the connection by the sender."""
        self._add(now, _CLOSE, code)

    def dialled(self, now: float, contact: str) -> None:
        """Add an attempt to connect."""
        self._add(now, _DIAL, 0, contact.encode())

    def delivered(self, now: float, track: int, flow: int, group: int, number: int) -> None:
        """Add an object that clients of a relay received."""
        self._add(now, _DELIVERED, track, b"%d %d %d" % (flow, group, number))

    def _add(self, now: float, kind: int, value: int, data: bytes = b"") -> None:
        self._head = b""
        self._hash.update(b"\n%.6f %d %d " % (now, kind, value) + data)

    def digest(self) -> bytes:
        """Return the digest of what was sent so far."""
        return self._hash.digest()


class WireDigest:
    """The digest of all channels of a run."""

    __slots__ = ("_channels", "_numbers", "expand")

    def __init__(self) -> None:
        self._channels: dict[tuple[str, str, int], Channel] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self.expand: Callable[[bytes], bytes] = bytes
        """Replaces what stands for a message by the bytes of the message."""

    def channel(self, sender: str, receiver: str) -> Channel:
        """Return a new channel between two contacts."""
        number = self._numbers.get((sender, receiver), 0)
        self._numbers[sender, receiver] = number + 1
        made = self._channels[sender, receiver, number] = Channel(self)
        return made

    def shared_channel(self, sender: str, receiver: str) -> Channel:
        """Return the one channel between two names that have no connections."""
        found = self._channels.get((sender, receiver, 0))
        return self.channel(sender, receiver) if found is None else found

    def hexdigest(self) -> str:
        """Return the digest of everything that was sent so far."""
        found = blake2b(digest_size=_BYTES)
        for (sender, receiver, number), channel in sorted(self._channels.items()):
            found.update(b"%s %s %d " % (sender.encode(), receiver.encode(), number))
            found.update(channel.digest())
        return found.hexdigest()
