"""The in-memory backend: QUIC's stream semantics without TLS, for tests.

Packets are Python objects: a :class:`MemoryPacket` is the bytes of a QUIC header, so that the
endpoint routes and admits it like any other, with its frames beside it. There are packet numbers,
acknowledgements, loss detection and a fixed congestion window, because the network below
(:mod:`laps_sdk.quic.memory.network`) may lose, delay and reorder.

::

    client  Initial(hello: alpn, name, limits) -->
                            <-- [Retry(token)]       the admission's, real bytes
                            <-- hello: alpn, limits
            ack, streams ... <-> streams, datagrams, credit, resets, close

Deterministic: connection ids are counted, time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence

from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import Engine, EngineConnection, EngineOptions
from laps_sdk.quic.memory.connection import MemoryConnection
from laps_sdk.quic.memory.packets import Hello

__all__ = ["MemoryEngine"]


class MemoryEngine(Engine):
    """Makes connections; their ids are counted."""

    name = "memory"

    def __init__(
        self, options: EngineOptions, *, number: int = 0, needs_retry: bool = False
    ) -> None:
        self.options = options
        self._number = number << 32
        self._needs_retry = needs_retry
        self.reloads = 0

    def _next_id(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(8, "big")

    def dial(
        self, address: Address, *, alpn: Sequence[str], server_name: str | None, now: float
    ) -> EngineConnection:
        """See :meth:`Engine.dial`."""
        hello = Hello(tuple(alpn), server_name or "", self.options.limits, self._next_id())
        return MemoryConnection(
            self.options, address, is_client=True, hello=hello, peer_id=self._next_id(), now=now
        )

    def accept(
        self,
        datagram: bytes,  # noqa: ARG002 - fed like any other afterwards
        address: Address,
        *,
        original_destination: bytes | None,  # noqa: ARG002 - TLS would prove it
        retry_source: bytes | None,  # noqa: ARG002
        now: float,
    ) -> EngineConnection:
        """See :meth:`Engine.accept`."""
        hello = Hello((), "", self.options.limits, self._next_id())
        return MemoryConnection(
            self.options, address, is_client=False, hello=hello, peer_id=b"", now=now
        )

    @property
    def needs_retry(self) -> bool:
        """See :attr:`Engine.needs_retry`."""
        return self._needs_retry

    def reload_certificate(self) -> None:
        """See :meth:`Engine.reload_certificate`; there is none, so calls are counted."""
        self.reloads += 1
