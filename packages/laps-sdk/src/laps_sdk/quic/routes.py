"""Which connection a datagram belongs to, by the id that it is addressed to. Pure.

::

    long header   1 | flags | version (4) | length | destination id | ...    (RFC 8999, 5.1)
    short header  0 | flags | destination id (8) | ...                       (RFC 8999, 5.2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_sdk.quic.connection import QuicTransportConnection

__all__ = ["ID_LENGTH", "Routes"]

ID_LENGTH: Final = 8
"""The length of our connection ids: short headers do not say it, so all engines use this one."""

_Run = tuple[QuicTransportConnection, list[bytes]]


class Routes:
    """The ids of all connections of an endpoint."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: dict[bytes, QuicTransportConnection] = {}

    def sync(self, connection: QuicTransportConnection) -> None:
        """Follow the ids that a connection's engine has now; cheap if they are the same."""
        ids, known = connection.engine.connection_ids, connection.ids
        if ids is known or ids == known:
            return
        for each in known:
            if each not in ids and each != connection.first_id:
                self._drop(each, connection)
        for each in ids:
            self._table[each] = connection
        connection.ids = ids

    def begin(self, connection: QuicTransportConnection, first_id: bytes) -> None:
        """Take the id that a client chose for us.

        It stays as long as the connection: late copies of the client's first packet must not begin
        another one.
        """
        connection.first_id = first_id
        self._table[first_id] = connection

    def remove(self, connection: QuicTransportConnection) -> None:
        """Forget all ids of a connection."""
        for each in (*connection.ids, connection.first_id):
            self._drop(each, connection)

    def clear(self) -> None:
        """Forget everybody."""
        self._table.clear()

    def _drop(self, each: bytes, connection: QuicTransportConnection) -> None:
        if self._table.get(each) is connection:
            del self._table[each]

    def runs(
        self,
        datagrams: list[bytes],
        stranger: Callable[[bytes], QuicTransportConnection | None],
    ) -> list[_Run]:
        """Datagrams of one sender, in runs for the same connection.

        ``stranger`` is asked for those that belong to none.
        """
        table = self._table
        found: list[_Run] = []
        run: list[bytes] = []
        current: QuicTransportConnection | None = None
        last_id = b""
        for datagram in datagrams:
            if not datagram:
                continue
            if datagram[0] & 0x80:
                to = datagram[6 : 6 + datagram[5]] if len(datagram) > 5 else b""
            else:
                to = datagram[1 : 1 + ID_LENGTH]
            if to != last_id or current is None:
                connection = table.get(to)
                if connection is None:
                    connection = stranger(datagram)
                if connection is None:
                    continue
                if connection is not current:
                    run = []
                    found.append((connection, run))
                    current = connection
                last_id = to
            run.append(datagram)
        return found
