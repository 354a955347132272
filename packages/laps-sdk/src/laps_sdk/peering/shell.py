"""What a shell does with the network core: sockets of a server, or links of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.peering.events import Dial
from laps_wire.peering.session import Role, Transmit

__all__ = ["PeerRelay"]


class PeerRelay(Protocol):
    """``NetworkRelay`` as whoever carries its bytes sees it, or a fake."""

    # What happens to connections

    def connection_opened(
        self,
        now: float,
        session: int,
        egress: PeerEgress,
        *,
        role: Role,
        alpn: str,
        spki_hash: bytes,
        dial: Dial | None,
    ) -> None:
        """A connection stands."""

    def control_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool
    ) -> None:
        """Bytes of a bidirectional stream."""

    def control_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer abandoned its half of one."""

    def control_stopped(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer reads our half of one no more."""

    def data_stream(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """Bytes of a unidirectional stream."""

    def data_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer abandoned one."""

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """A datagram."""

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """An outgoing data stream was dropped by the egress, or stopped by the peer."""

    def connection_closed(self, now: float, session: int, code: int, reason: str) -> None:
        """The connection is gone."""

    def measured(
        self, now: float, session: int, srtt_us: int, loss: float, congested: bool
    ) -> None:
        """The round trip, the share of packets lost since the last time, and more than it carries.

        ``congested``: for some time now more waits for the peer than the connection takes away.
        """

    # Polls

    def poll_dirty(self) -> Sequence[int]:
        """Sessions that may have something to send."""

    def poll_transmit(self, session: int) -> Sequence[Transmit]:
        """What one wants to send."""

    def poll_dials(self, now: float) -> Sequence[Dial]:
        """Whom to dial now."""

    def dial_failed(self, now: float, number: int, reason: str) -> None:
        """A dial has led to nothing."""

    def poll_timeout(self) -> float | None:
        """When ``handle_timeout`` wants to be called."""

    def handle_timeout(self, now: float) -> None:
        """The time has come."""
