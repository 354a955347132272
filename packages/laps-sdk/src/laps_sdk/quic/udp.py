"""One UDP socket, read and written in batches.

::

    kernel --recvmsg (UDP_GRO: up to 64 packets)--> UdpPort.receive --> dispatcher
    kernel <--sendmsg (UDP_SEGMENT: up to 64)------ UdpPort.send   <--- dispatcher
                 '-- buffer full --> a short queue; what does not fit there is dropped

With UDP_GRO the kernel joins adjacent datagrams of one sender. With UDP_SEGMENT (GSO) the kernel
splits one large write into datagrams. The port tries both options when it is made and works without
them. If the network card rejects a GSO write, the port stops using GSO.

Datagrams may be dropped, because QUIC sends the data again.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from laps_sdk.errors import TransportError
from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import Burst

__all__ = ["DatagramPort", "UdpPort", "Unreachable", "bind_udp"]

_SOL_UDP: Final = 17
_UDP_SEGMENT: Final = 103
_UDP_GRO: Final = 104
_IP_MTU_DISCOVER: Final = 10
_IPV6_MTU_DISCOVER: Final = 23
_PMTUDISC_PROBE: Final = 3
_IP_RECVERR: Final = 11
_IPV6_RECVERR: Final = 25
_MSG_ERRQUEUE: Final = 0x2000
_BATCH: Final = 64
"""The most packets read in one turn, so that their effects are handled before more are read."""
_SEGMENTS: Final = 64
_LONGEST: Final = 65000
_BUFFER: Final = 8 * 1024 * 1024
_QUEUE: Final = 1024
_MAPPED: Final = "::ffff:"
_LINUX: Final = sys.platform == "linux"

_Ancillary = list[tuple[int, int, bytes]]
_Sockaddr = tuple[str, int] | tuple[str, int, int, int]


class Unreachable(NamedTuple):
    """A report of the network about packets to an address."""

    address: Address
    port_closed: bool
    """Whether the host answered that nothing listens at the port."""


class DatagramPort(Protocol):
    """What an endpoint sends through and receives from: ``UdpPort`` or ``MemoryPort``."""

    address: Address

    def start(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever datagrams can be received."""

    def receive(self) -> list[tuple[list[bytes], Address]]:
        """Return some of the received datagrams in order, joined if the sender is the same."""

    def unreachable(self) -> list[Unreachable]:
        """Return the addresses that the network reported as unreachable since the last call."""

    def send(self, burst: Burst) -> None:
        """Send datagrams without blocking; some may be lost."""

    def local(self, address: Address) -> Address | None:
        """Return the address in the form of ``receive``; None if the port cannot reach it."""

    def close(self) -> None:
        """Close the port."""


def bind_udp(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """Return a bound UDP socket; host "::" also accepts IPv4.

    Raises ``TransportError`` if the host is unknown or the port cannot be bound.
    """
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise TransportError(f"cannot listen on {host!r}: {error.strerror}") from error
    family, kind, protocol, _, target = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        if reuse_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(target)
    except OSError as error:
        made.close()
        raise TransportError(f"cannot bind {host} port {port}/udp: {error.strerror}") from error
    return made


class UdpPort:
    """A bound socket in an asyncio loop."""

    def __init__(
        self,
        sock: socket.socket,
        loop: asyncio.AbstractEventLoop,
        *,
        gro: bool = True,
        gso: bool = True,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = loop
        self._v6 = sock.family == socket.AF_INET6
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            _try_option(sock, socket.SOL_SOCKET, option, _BUFFER)
        if _LINUX:
            # Packets must not be fragmented (RFC 9000, 14); and without the error queue a socket
            # that is not connected never learns that an address is unreachable.
            _try_option(sock, socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
            _try_option(sock, socket.IPPROTO_IP, _IP_RECVERR, 1)
            if self._v6:
                _try_option(sock, socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
                _try_option(sock, socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
        self.gro = gro and _LINUX and _try_option(sock, _SOL_UDP, _UDP_GRO, 1)
        self.gso = gso and _LINUX and _try_option(sock, _SOL_UDP, _UDP_SEGMENT, 0)
        self._buffer = bytearray(1 << 16)
        self._view = memoryview(self._buffer)
        self._queue: deque[tuple[list[bytes], _Ancillary, _Sockaddr]] = deque()
        self._unreachable: list[Unreachable] = []
        self._ancillary: dict[int, _Ancillary] = {}
        self.dropped = 0
        """Writes that were dropped because the socket accepted nothing for too long."""
        self.address = self._plain(sock.getsockname())

    # Receiving

    def start(self, callback: Callable[[], None]) -> None:
        """See :meth:`DatagramPort.start`."""
        self._loop.add_reader(self._sock.fileno(), callback)

    def receive(self) -> list[tuple[list[bytes], Address]]:
        """See :meth:`DatagramPort.receive`; about 64 packets at most."""
        recvmsg_into, buffers, view = self._sock.recvmsg_into, [self._buffer], self._view
        found: list[tuple[list[bytes], Address]] = []
        last: tuple[object, list[bytes]] | None = None
        count = 0
        while count < _BATCH:
            try:
                size, ancillary, _, source = recvmsg_into(buffers, 64)
            except BlockingIOError:
                if not found:
                    self._read_errors()
                break
            except OSError:
                self._read_errors()
                count += 1  # so that a stream of errors ends too
                continue
            segment = size
            for _level, kind, data in ancillary:
                if kind == _UDP_GRO:
                    segment = int.from_bytes(data[:4], sys.byteorder)
            if segment >= size:
                datagrams = [bytes(view[:size])]
            else:
                datagrams = [bytes(view[at : at + segment]) for at in range(0, size, segment)]
                # The last one may be shorter, and the buffer goes on behind it.
                datagrams[-1] = datagrams[-1][: size - (len(datagrams) - 1) * segment]
            count += len(datagrams)
            if last is not None and last[0] == source:
                last[1].extend(datagrams)
            else:
                last = (source, datagrams)
                found.append((datagrams, self._plain(source)))
        return found

    def unreachable(self) -> list[Unreachable]:
        """See :meth:`DatagramPort.unreachable`."""
        found, self._unreachable = self._unreachable, []
        return found

    def _read_errors(self) -> None:
        """Empty the socket's error queue; an ICMP error names the destination of its packet."""
        if not _LINUX:
            return
        for _ in range(_BATCH):
            try:
                _, ancillary, _, target = self._sock.recvmsg(64, 512, _MSG_ERRQUEUE)
            except OSError:
                return
            for _level, kind, data in ancillary:
                if kind in {_IP_RECVERR, _IPV6_RECVERR} and len(data) >= 4:
                    (number,) = struct.unpack_from("=I", data)
                    if number in {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH}:
                        closed = number == errno.ECONNREFUSED
                        self._unreachable.append(Unreachable(self._plain(target), closed))

    # Sending

    def send(self, burst: Burst) -> None:
        """See :meth:`DatagramPort.send`."""
        datagrams = burst.datagrams
        target = self._sockaddr(burst.address)
        if len(datagrams) == 1:
            self._send(datagrams, [], target)
            return
        if not self.gso:
            for datagram in datagrams:
                self._send([datagram], [], target)
            return
        start, count = 0, len(datagrams)
        while start < count:
            segment = total = len(datagrams[start])
            end = start + 1
            while end < count and end - start < _SEGMENTS:
                size = len(datagrams[end])
                if size > segment or total + size > _LONGEST:
                    break
                total += size
                end += 1
                if size < segment:  # only the last of a run may be shorter
                    break
            if end - start == 1:
                self._send(datagrams[start:end], [], target)
            else:
                ancillary = self._ancillary.get(segment)
                if ancillary is None:
                    ancillary = [(_SOL_UDP, _UDP_SEGMENT, struct.pack("=H", segment))]
                    self._ancillary[segment] = ancillary
                self._send(datagrams[start:end], ancillary, target)
            start = end

    def _send(self, buffers: list[bytes], ancillary: _Ancillary, target: _Sockaddr) -> None:
        if self._queue:
            self._wait(buffers, ancillary, target)
            return
        try:
            self._sock.sendmsg(buffers, ancillary, 0, target)
        except BlockingIOError:
            self._loop.add_writer(self._sock.fileno(), self._writable)
            self._wait(buffers, ancillary, target)
        except OSError as error:
            self._failed(error, buffers, ancillary, target)

    def _failed(
        self, error: OSError, buffers: list[bytes], ancillary: _Ancillary, target: _Sockaddr
    ) -> None:
        if ancillary and error.errno in {errno.EIO, errno.EINVAL, errno.EOPNOTSUPP}:
            self.gso = False  # a card without checksums in hardware
            for datagram in buffers:
                self._send([datagram], [], target)
            return
        if error.errno in {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH}:
            # The error is of an earlier packet, or of this one.
            self._read_errors()
            try:
                self._sock.sendmsg(buffers, ancillary, 0, target)
            except OSError as again:
                if again.errno in {errno.EHOSTUNREACH, errno.ENETUNREACH}:
                    self._unreachable.append(Unreachable(self._plain(target), False))
            else:
                return
        self.dropped += 1  # too long for the path, or unreachable: counts as lost

    def _wait(self, buffers: list[bytes], ancillary: _Ancillary, target: _Sockaddr) -> None:
        if len(self._queue) >= _QUEUE:
            self.dropped += 1
        else:
            self._queue.append((buffers, ancillary, target))

    def _writable(self) -> None:
        waiting, self._queue = self._queue, deque()
        self._loop.remove_writer(self._sock.fileno())
        for buffers, ancillary, target in waiting:
            self._send(buffers, ancillary, target)

    # Addresses

    def _plain(self, source: _Sockaddr) -> Address:
        if not self._v6:
            return source  # type: ignore[return-value]  # IPv4: a pair already
        host = source[0].partition("%")[0]
        return (host.removeprefix(_MAPPED), source[1])

    def _sockaddr(self, address: Address) -> _Sockaddr:
        if not self._v6 or ":" in address[0]:
            return address
        return (_MAPPED + address[0], address[1])

    def local(self, address: Address) -> Address | None:
        """See :meth:`DatagramPort.local`; the host must be numeric."""
        host, port = address
        v6 = ":" in host
        if v6 and not self._v6:
            return None
        if not v6 and self._v6:
            only = self._sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            return None if only else address
        return (host.partition("%")[0], port)

    def close(self) -> None:
        """See :meth:`DatagramPort.close`."""
        number = self._sock.fileno()
        if number >= 0:
            self._loop.remove_reader(number)
            self._loop.remove_writer(number)
            self._sock.close()


def _try_option(sock: socket.socket, level: int, option: int, value: int) -> bool:
    try:
        sock.setsockopt(level, option, value)
    except OSError:
        return False
    return True
