from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from laps_sdk.errors import TransportError
from laps_sdk.quic import udp
from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import Burst
from laps_sdk.quic.udp import UdpPort, Unreachable, bind_udp

pytestmark = pytest.mark.anyio


def _has_ipv6() -> bool:
    try:
        bind_udp("::1", 0).close()
    except TransportError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")


class Catcher:
    """Reads a port as an endpoint does."""

    def __init__(self, port: UdpPort) -> None:
        self.port = port
        self.got: list[bytes] = []
        self.sources: set[Address] = set()
        self.unreachable: list[Unreachable] = []
        self._changed = asyncio.Event()
        port.start(self._readable)

    def _readable(self) -> None:
        for datagrams, source in self.port.receive():
            self.got += datagrams
            self.sources.add(source)
        self.unreachable += self.port.unreachable()
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


def ports(host: str = "127.0.0.1", **options: bool) -> tuple[UdpPort, UdpPort]:
    loop = asyncio.get_running_loop()
    return (
        UdpPort(bind_udp(host, 0), loop, **options),
        UdpPort(bind_udp(host, 0), loop, **options),
    )


@pytest.mark.parametrize("offload", [True, False])
@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
async def test_bursts_arrive_as_the_datagrams_that_they_were(host: str, offload: bool) -> None:
    sender, receiver = ports(host, gro=offload, gso=offload)
    catcher = Catcher(receiver)
    sizes = [1200, 1200, 1200, 700, 1452, 1452, 100, 1, 1, 1]
    sent = [bytes([number]) * size for number, size in enumerate(sizes)]
    sender.send(Burst(sent, receiver.address))
    sender.send(Burst([b"alone"], receiver.address))
    await catcher.until(lambda: len(catcher.got) == len(sent) + 1)
    assert catcher.got == [*sent, b"alone"]
    assert catcher.sources == {sender.address}
    sender.close()
    receiver.close()
    receiver.close()


async def test_more_than_one_system_call_takes_is_split() -> None:
    sender, receiver = ports()
    catcher = Catcher(receiver)
    sent = [number.to_bytes(2, "big") * 600 for number in range(150)]
    sender.send(Burst(sent, receiver.address))
    await catcher.until(lambda: len(catcher.got) == 150)
    assert catcher.got == sent
    sender.close()
    receiver.close()


@needs_ipv6
async def test_a_socket_for_both_families() -> None:
    loop = asyncio.get_running_loop()
    both = UdpPort(bind_udp("::", 0), loop)
    four = UdpPort(bind_udp("127.0.0.1", 0), loop)
    catcher = Catcher(both)
    four.send(Burst([b"four"], ("127.0.0.1", both.address[1])))
    await catcher.until(lambda: catcher.got)
    assert catcher.sources == {four.address}
    answer = Catcher(four)
    both.send(Burst([b"back"], four.address))
    await answer.until(lambda: answer.got)
    assert both.local(("127.0.0.1", 9)) == ("127.0.0.1", 9)
    assert both.local(("fe80::1%eth0", 9)) == ("fe80::1", 9)
    both.close()
    four.close()


@needs_ipv6
async def test_a_port_knows_which_addresses_it_reaches() -> None:
    loop = asyncio.get_running_loop()
    four, six = UdpPort(bind_udp("127.0.0.1", 0), loop), UdpPort(bind_udp("::1", 0), loop)
    assert four.local(("127.0.0.1", 9)) == ("127.0.0.1", 9)
    assert four.local(("::1", 9)) is None
    assert six.local(("127.0.0.1", 9)) is None
    assert six.local(("::1", 9)) == ("::1", 9)
    four.close()
    six.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
async def test_icmp_says_where_nothing_listens() -> None:
    sender, gone = ports()
    target = gone.address
    gone.close()
    catcher = Catcher(sender)
    for _ in range(50):  # it may be lost, as all of UDP, and some networks never say it
        sender.send(Burst([b"anybody?"], target))
        sender.send(Burst([b"anybody?"], target))
        catcher.unreachable += sender.unreachable()
        await asyncio.sleep(0)
    assert set(catcher.unreachable) <= {Unreachable(target, port_closed=True)}
    assert catcher.got == []
    sender.close()


async def test_a_host_that_is_none_and_a_port_that_is_taken() -> None:
    with pytest.raises(TransportError, match="cannot listen on 'no-such-host"):
        bind_udp("no-such-host.invalid", 0)
    taken = bind_udp("127.0.0.1", 0)
    with pytest.raises(TransportError, match=r"cannot bind 127\.0\.0\.1 port"):
        bind_udp("127.0.0.1", taken.getsockname()[1])
    taken.close()


async def test_workers_may_share_a_port() -> None:
    one = bind_udp("127.0.0.1", 0, reuse_port=True)
    two = bind_udp("127.0.0.1", one.getsockname()[1], reuse_port=True)
    assert one.getsockname() == two.getsockname()
    one.close()
    two.close()


class Stubborn:
    """A socket whose ``sendmsg`` fails as it is told; all else is the real one's."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.errors: list[OSError] = []
        self.sent: list[tuple[int, bool]] = []
        self._changed = asyncio.Event()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.sent) < count:
                self._changed.clear()
                await self._changed.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def sendmsg(self, buffers: list[bytes], ancillary: list[Any], *rest: Any) -> int:
        if self.errors:
            raise self.errors.pop(0)
        self.sent.append((len(buffers), bool(ancillary)))
        self._changed.set()
        return sum(map(len, buffers))


def stubborn() -> tuple[UdpPort, Stubborn]:
    fake = Stubborn(bind_udp("127.0.0.1", 0))
    return UdpPort(fake, asyncio.get_running_loop()), fake  # type: ignore[arg-type]  # looks like one


TARGET = ("127.0.0.1", 9)
TWO = Burst([b"aa", b"bb"], TARGET)


async def test_what_the_socket_does_not_take_waits_until_it_does() -> None:
    port, fake = stubborn()
    fake.errors = [BlockingIOError()]
    port.send(TWO)
    port.send(Burst([b"behind"], TARGET))
    assert fake.sent == []
    await fake.until(2)
    assert fake.sent[-1] == (1, False)
    port.send(Burst([b"free again"], TARGET))
    assert len(fake.sent) == 3
    assert port.dropped == 0
    port.close()


async def test_the_queue_of_a_stubborn_socket_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "_QUEUE", 3)
    port, fake = stubborn()
    fake.errors = [BlockingIOError()]
    for _ in range(10):
        port.send(Burst([b"x"], TARGET))
    assert port.dropped == 7
    port.close()


@pytest.mark.skipif(sys.platform != "linux", reason="GSO is Linux")
async def test_a_card_that_cannot_segment_turns_gso_off() -> None:
    port, fake = stubborn()
    if not port.gso:
        port.gso = True
    fake.errors = [OSError(errno.EIO, "no checksums")]
    port.send(TWO)
    assert fake.sent == [(1, False), (1, False)]
    assert port.gso is False
    port.close()


async def test_a_packet_that_is_too_long_for_the_path_is_lost() -> None:
    port, fake = stubborn()
    fake.errors = [OSError(errno.EMSGSIZE, "too long")]
    port.send(Burst([b"x"], TARGET))
    assert (port.dropped, fake.sent) == (1, [])
    port.close()


async def test_an_error_of_an_earlier_packet_does_not_cost_the_next() -> None:
    port, fake = stubborn()
    fake.errors = [OSError(errno.ECONNREFUSED, "an earlier one")]
    port.send(Burst([b"x"], TARGET))
    assert fake.sent == [(1, False)]
    fake.errors = [OSError(errno.ENETUNREACH, "no way"), OSError(errno.ENETUNREACH, "no way")]
    port.send(Burst([b"x"], TARGET))
    assert port.unreachable() == [Unreachable(TARGET, port_closed=False)]
    assert port.unreachable() == []
    assert port.dropped == 1
    port.close()


async def test_a_read_error_ends_no_turn() -> None:
    port, fake = stubborn()
    errors = [OSError(errno.ECONNREFUSED, "refused"), BlockingIOError()]

    def recvmsg_into(*_: Any) -> Any:
        raise errors.pop(0)

    vars(fake)["recvmsg_into"] = recvmsg_into
    assert port.receive() == []
    assert errors == []
    port.close()


async def test_systems_without_offload_go_packet_by_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "_LINUX", False)
    sender, receiver = ports()
    assert (sender.gso, sender.gro) == (False, False)
    catcher = Catcher(receiver)
    sender.send(Burst([b"a", b"b"], receiver.address))
    await catcher.until(lambda: catcher.got == [b"a", b"b"])
    assert receiver.receive() == []
    sender.close()
    receiver.close()


async def test_an_option_that_the_system_lacks_is_left_out() -> None:
    made = bind_udp("127.0.0.1", 0)
    assert not udp._try_option(made, socket.SOL_SOCKET, 9999, 1)
    made.close()
