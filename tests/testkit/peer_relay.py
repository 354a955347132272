"""A relay that only peers: ``Peers`` and ``Dialler`` behind the interface of the peer port.

It keeps what arrives. Data of peers must begin with a data header, as for the real relay.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar

from laps_sdk.forwarding.interfaces import Egress, OutStream
from laps_sdk.peering.dialler import Contact, Dialler, DialReport
from laps_sdk.peering.events import Dial, PeerAuthenticator, PeerEvent, PeerFilter, PeerUp
from laps_sdk.peering.keys import AuthMethod, open_key_ring
from laps_sdk.peering.peers import Peers
from laps_sdk.peering.server import PeerServer, PeerServerConfig
from laps_sdk.peering.settings import Identity, PeeringSettings, show_contact
from laps_sdk.quic.admission import AdmissionLimits
from laps_sdk.quic.base import ConnectionLimits
from laps_sdk.quic.engine import EngineOptions, Tls
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_wire.errors import ProtocolViolation
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodeSelf, RelayType, Stamp, decode_data_header
from laps_wire.peering.session import Role, Transmit
from testkit.certs import certificates
from testkit.peer_nodes import banning

__all__ = ["PeerTask", "PeeringRelay", "eventually"]

E = TypeVar("E")
LIMIT = 30.0
PATIENCE = 120.0
"""No session ends because the machine is busy."""


class PeeringRelay:
    """See the module."""

    def __init__(
        self,
        number: int,
        authenticator: PeerAuthenticator,
        *,
        epoch: int = 1,
        relay_type: RelayType = RelayType.EDGE,
        settings: PeeringSettings | None = None,
        may_peer: PeerFilter | None = None,
        max_handshakes: int = 64,
    ) -> None:
        me = NodeSelf(NodeId(number), relay_type, Stamp(epoch, 0))
        self.peers = Peers(
            Identity(node_id=NodeId(number), epoch=epoch),
            settings or PeeringSettings(relay_type=relay_type, hold=PATIENCE),
            authenticator,
            challenge=lambda: secrets.token_bytes(32),
            hash_check=7,
            may_peer=may_peer or banning(),
            node_info=lambda: NodeInfo(me),
            max_handshakes=max_handshakes,
            handshake_seconds=PATIENCE,
        )
        self.dialler = Dialler(random.Random(number).random, relay_type=relay_type)
        self.egress: dict[int, Egress] = {}
        self.told: list[tuple[int, PeerEvent]] = []
        self.reports: list[DialReport] = []
        self.streams: dict[tuple[int, int], bytes] = {}
        self.datagrams: list[tuple[int, bytes]] = []
        self.gone: list[tuple[int, bool]] = []
        self.rtts: dict[int, int] = {}

    def of(self, kind: type[E]) -> list[E]:
        """All events of one kind."""
        return [event for _, event in self.told if isinstance(event, kind)]

    # The interface of the peer port

    def connection_opened(
        self,
        now: float,
        session: int,
        egress: Egress,
        *,
        role: Role,
        alpn: str,
        spki_hash: bytes,
        dial: Dial | None,
    ) -> None:
        self.egress[session] = egress
        if dial is not None:
            self.dialler.made(now, dial.number, session)
        self.peers.opened(now, session, role=role, alpn=alpn, spki_hash=spki_hash, dial=dial)
        self._settle(now)

    def control_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool
    ) -> None:
        self.peers.stream_data(now, session, stream_id, data, fin)
        self._settle(now)

    def control_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        self.peers.stream_reset(now, session, stream_id, code)
        self._settle(now)

    def control_stopped(self, now: float, session: int, stream_id: int, code: int) -> None:
        self.peers.stop_sending(now, session, stream_id, code)
        self._settle(now)

    def data_stream(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        del fin
        if not self._takes_data(now, session):
            return
        before = self.streams.get((session, stream_id), b"")
        self.streams[session, stream_id] = before + data
        if not before:
            decode_data_header(data)

    def data_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        del now, code
        self.streams.pop((session, stream_id), None)

    def datagram(self, now: float, session: int, data: bytes) -> None:
        if self._takes_data(now, session):
            self.datagrams.append((session, data))

    def _takes_data(self, now: float, session: int) -> bool:
        """Nobody sends data who may not (laps-2, 7.1)."""
        up = self.peers.up(session)
        if up is None or not up.receives_data:
            self.peers.fail(now, session, ProtocolViolation("data from the side that sends none"))
            self._settle(now)
            return False
        return True

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        del now, stream, lost
        self.gone.append((session, stopped))

    def connection_closed(self, now: float, session: int, code: int, reason: str) -> None:
        self.egress.pop(session, None)
        self.peers.closed(now, session, code, reason)
        self._settle(now)
        self.dialler.ended(now, session)

    def measured(
        self, now: float, session: int, srtt_us: int, loss: float, congested: bool
    ) -> None:
        del now, congested
        assert 0 <= loss <= 1
        self.rtts[session] = srtt_us

    def poll_dirty(self) -> list[int]:
        return self.peers.poll_dirty()

    def poll_transmit(self, session: int) -> list[Transmit]:
        return self.peers.poll_transmit(session)

    def poll_dials(self, now: float) -> list[Dial]:
        for session in self.dialler.poll_unwanted():
            self.peers.close(now, session)
        return self.dialler.poll_dials(now)

    def dial_failed(self, now: float, number: int, reason: str) -> None:
        self.dialler.failed(now, number, reason)
        self._settle(now)

    def poll_timeout(self) -> float | None:
        due = [self.peers.poll_timeout(), self.dialler.poll_timeout()]
        return min((each for each in due if each is not None), default=None)

    def handle_timeout(self, now: float) -> None:
        self.peers.handle_timeout(now)
        self._settle(now)

    def _settle(self, now: float) -> None:
        for session, event in self.peers.poll_events():
            self.told.append((session, event))
            self.dialler.observe(now, session, event)
        self.reports += self.dialler.poll_reports()


class PeerTask:
    """A peering relay on a real socket (or in memory), for one test."""

    def __init__(
        self,
        number: int,
        state: Path,
        *,
        method: AuthMethod = "shared-key",
        key: str = "5a" * 32,
        authenticator: PeerAuthenticator | None = None,
        backend: str = "aioquic",
        network: MemoryNetwork | None = None,
        tls: Tls | None = None,
        dial_timeout: float = LIMIT,
        **more: object,
    ) -> None:
        if authenticator is None:
            key_file = state / "key"
            key_file.touch(mode=0o600)
            key_file.write_text(key)
            authenticator = open_key_ring(method, state, key_file=key_file)
        self.number = number
        self.relay = PeeringRelay(number, authenticator, **more)  # type: ignore[arg-type]  # passed on
        server = certificates().server
        shown = tls or Tls(
            certificate=server.certificate, private_key=server.private_key, verify=False
        )
        self.server = PeerServer(
            PeerServerConfig(
                backend=backend,  # type: ignore[arg-type]  # one of the literals
                engine=EngineOptions(tls=shown),
                dial_timeout=dial_timeout,
                sample_interval=0.05,
                limits=ConnectionLimits(idle_timeout=PATIENCE),
                admission=AdmissionLimits(handshake_timeout=PATIENCE),
            ),
            self.relay,
            network=network,
        )

    def listen_on(self, port: int) -> None:
        """Take the port that another one had."""
        self.server.config = replace(self.server.config, port=port)

    async def __aenter__(self) -> Self:
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()

    @property
    def contact(self) -> str:
        return show_contact(self.server.address)

    def dial(self, *others: PeerTask | Contact) -> None:
        """Stay connected with others, and with nobody else."""
        contacts = [
            each if isinstance(each, Contact) else Contact(address=each.contact) for each in others
        ]
        self.relay.dialler.set_contacts(self.server.now, contacts)
        self.server.settle()

    @property
    def up(self) -> list[PeerUp]:
        """Established sessions that stand."""
        sessions: Iterable[int] = list(self.server.ports)
        return [up for each in sessions if (up := self.relay.peers.up(each)) is not None]

    def nodes(self) -> list[int]:
        """The peers, lowest first, each once for each session."""
        return sorted(int(up.node.node.node_id) for up in self.up)


async def eventually(what: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until something is so; fails with what it is when it never is."""
    end = asyncio.get_running_loop().time() + limit
    while not what():
        if asyncio.get_running_loop().time() > end:
            raise AssertionError("it never came to be so")
        await asyncio.sleep(0.005)
