"""The turn of an endpoint: packets in, events to handlers, one flush for each connection.

::

    readable --> route by connection id --> feed --+
    timer    --> one heap for all ---> on_timer ---+--> events --> inboxes --> handlers
    written  --> call_soon ------------------------+                             |
                                                                                 v
    armed timer <-- next_timer <-- send <-- flush <-- pump <------------- dirty connections

A fault of a handler, or of an engine, ends its own connection and is logged; the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from laps_sdk.quic.admission import Accept, Admission, Reply
from laps_sdk.quic.base import (
    Address,
    ConnectionLimits,
    EgressLimits,
    Handler,
    IgnoringHandler,
    Listener,
)
from laps_sdk.quic.connection import INTERNAL_ERROR, QuicTransportConnection
from laps_sdk.quic.engine import Burst, Engine, EngineConnection
from laps_sdk.quic.events import Closed, Event
from laps_sdk.quic.resets import SHORTEST, TOKEN_LENGTH, StatelessResets
from laps_sdk.quic.udp import DatagramPort
from laps_sdk.timers import Timers

__all__ = ["Dispatcher", "Inboxes"]

_log = logging.getLogger("laps_sdk.quic")

_SLACK: Final = 1e-6
"""Seconds: loops may call a little early, so timers within this time are due."""

_ID_LENGTH: Final = 8
"""The length of our connection ids; short headers do not carry it, so all engines use it."""

_REFUSALS_EVERY: Final = 0.02
"""Seconds between two searches for the connections of closed ports: each looks at all of them."""
_MAX_REFUSALS: Final = 1024
"""Closed ports that wait for a search."""

_Found = QuicTransportConnection | None
_Run = tuple[QuicTransportConnection, list[bytes]]

K = TypeVar("K", bound=Hashable)


class Dispatcher:
    """The part of an endpoint that runs in turns of the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        port: DatagramPort,
        engine: Engine,
        *,
        limits: ConnectionLimits,
        egress: EgressLimits,
        admission: Admission,
        resets: StatelessResets,
        handshake_timeout: float,
        listener: Listener | None,
    ) -> None:
        self._loop = loop
        self._port = port
        self._engine = engine
        self._limits = limits
        self._egress = egress
        self._admission = admission
        self._resets = resets
        self._handshake_timeout = handshake_timeout
        self._listener = listener
        self._now: float | None = None
        self._routes = Routes()
        self.connections: dict[QuicTransportConnection, None] = {}
        self.half_open = 0
        """Connections of clients whose handshake is not complete."""
        self._touched: dict[QuicTransportConnection, None] = {}
        self._dirty: list[QuicTransportConnection] = []
        self._dials: dict[QuicTransportConnection, None] = {}
        self._refusals: set[Address] = set()
        self._refusals_due = 0.0
        self._reset: list[QuicTransportConnection] = []
        self._inboxes: Inboxes[QuicTransportConnection] = Inboxes()
        self._timers: Timers[QuicTransportConnection] = Timers()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._soon: asyncio.Handle | None = None
        self._stopped = False
        self.refused: dict[str, int] = {}
        """Datagrams that were dropped or answered without a connection, by reason."""
        port.start(self._readable)

    # A. For connections

    def clock(self) -> float:
        """Return the loop's time, read once a turn."""
        return self._loop.time() if self._now is None else self._now

    def _wake(self, connection: QuicTransportConnection) -> None:
        """Flush a connection at the end of this turn, or in a turn that begins soon."""
        self._dirty.append(connection)
        if self._now is None:
            self._turn_soon()

    # B. Beginnings and ends

    def dial(
        self,
        engine: EngineConnection,
        listener: Listener,
        outcome: Callable[[Closed | None], None],
    ) -> QuicTransportConnection:
        """Add a connection that the engine has begun."""
        connection = self._add(engine, listener, is_client=True, deadline=None)
        connection.on_outcome = outcome
        self._dials[connection] = None
        self._touch(connection)
        self._turn_soon()
        return connection

    def give_up(self, connection: QuicTransportConnection) -> None:
        """Close a dialled connection without reporting its outcome."""
        self._dials.pop(connection, None)
        connection.on_outcome = None
        connection.handler = IgnoringHandler()
        connection.close()
        self._turn_soon()

    def stop(self, code: int, reason: str) -> None:
        """Close all connections, deliver ``Closed`` to their handlers, and run no more turns."""
        for connection in list(self.connections):
            connection.close(code, reason)
        while self._dirty or self._inboxes:
            self._turn()
        self._stopped = True
        for handle in (self._alarm, self._soon):
            if handle is not None:
                handle.cancel()
        self.connections.clear()
        self._routes.clear()

    def _add(
        self,
        engine: EngineConnection,
        listener: Listener,
        *,
        is_client: bool,
        deadline: float | None,
    ) -> QuicTransportConnection:
        connection = QuicTransportConnection(
            engine,
            clock=self.clock,
            wake=self._wake,
            is_client=is_client,
            limits=self._limits,
            egress=self._egress,
            listener=listener,
            deadline=deadline,
        )
        self.connections[connection] = None
        if deadline is not None:
            self.half_open += 1
        self._routes.sync(connection)
        return connection

    def _forget(self, connection: QuicTransportConnection) -> None:
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._dials.pop(connection, None)
        self._settled(connection)
        self._timers.cancel(connection)
        self._routes.remove(connection)
        if not connection.closed_reported:
            self._enqueue(connection, [connection.end(_gone())])

    def _settled(self, connection: QuicTransportConnection) -> None:
        """Record the end of a handshake, successful or not."""
        if connection.deadline is not None:
            connection.deadline = None
            self.half_open -= 1

    # C. Packets in

    def _readable(self) -> None:
        self._now = now = self._loop.time()
        for datagrams, address in self._port.receive():

            def admit(datagram: bytes, address: Address = address) -> _Found:
                return self._admit(datagram, address, now)

            for connection, run in self._routes.runs(datagrams, admit):
                self._feed(connection, run, address, now)
        for connection in self._reset:
            self._reset_by_peer(connection)
        self._reset.clear()
        for report in self._port.unreachable():
            self._refuse_dials(report.address)
            if report.port_closed and len(self._refusals) < _MAX_REFUSALS:
                self._refusals.add(report.address)
        if self._refusals and now >= self._refusals_due:
            self._refused(now)
        self._turn()

    def _feed(
        self, connection: QuicTransportConnection, run: list[bytes], address: Address, now: float
    ) -> None:
        if self._inboxes.full(connection):
            self._count("inbox")
            return
        connection.heard_at = now
        connection.packets_received += len(run)
        connection.bytes_received += sum(map(len, run))
        try:
            connection.engine.feed(run, address, now)
        except Exception:  # noqa: BLE001 - whatever it is, it must stay this connection's
            self._engine_failed(connection, "feed")
            return
        self._routes.sync(connection)
        self._touch(connection)

    def _admit(self, datagram: bytes, address: Address, now: float) -> _Found:
        """Return a new connection for a datagram that belongs to none; None if it is refused."""
        if not datagram[0] & 0x80:
            self._stray(datagram, address, now)
            return None
        listener = self._listener
        if listener is None:
            self._count("unknown")
            return None
        verdict = self._admission.check(
            datagram, address, now, half_open=self.half_open, connections=len(self.connections)
        )
        if isinstance(verdict, Reply):
            self._count("retry" if verdict.is_retry else "version")
            self._port.send(Burst([verdict.datagram], address))
            return None
        if not isinstance(verdict, Accept):
            self._count(verdict.reason)
            return None
        try:
            engine = self._engine.accept(
                datagram,
                address,
                original_destination=verdict.original_destination,
                retry_source=verdict.retry_source,
                now=now,
            )
        except Exception:  # noqa: BLE001 - a client's first packet must not end the turn
            _log.exception("the %s engine failed to accept a connection", self._engine.name)
            self._count("failed")
            return None
        connection = self._add(
            engine, listener, is_client=False, deadline=now + self._handshake_timeout
        )
        self._routes.begin(connection, verdict.destination)
        return connection

    def _stray(self, datagram: bytes, address: Address, now: float) -> None:
        """Handle a packet of a connection that this endpoint does not have.

        It is a stateless reset of the peer, or gets one: the connection was lost in a restart.
        """
        connection = self._routes.reset(datagram)
        if connection is not None and connection.engine.peer_address == address:
            self._reset.append(connection)
            return
        self._count("unknown")
        if self._listener is not None:
            answer = self._resets.answer(datagram, now)
            if answer is not None:
                self._count("reset")
                self._port.send(Burst([answer], address))

    def _reset_by_peer(self, connection: QuicTransportConnection) -> None:
        if connection in self.connections and not connection.closed_reported:
            text = "stateless reset: the peer has lost the connection, as after a restart"
            connection.engine.abort()
            event = Closed(0, text, by_peer=True, application=False)
            self._enqueue(connection, [connection.end(event)])
            self._forget(connection)

    def _refuse_dials(self, address: Address) -> None:
        """End unanswered dials to an address that ICMP reports as unreachable."""
        for connection in list(self._dials):
            if connection.engine.peer_address == address:
                self._end(connection, Closed(0, "nothing listens there", False, False))

    def _refused(self, now: float) -> None:
        """Tell the connections to closed ports; :meth:`QuicTransportConnection.refused` decides."""
        addresses, self._refusals = self._refusals, set()
        self._refusals_due = now + _REFUSALS_EVERY
        for connection in self.connections:
            if connection.engine.peer_address in addresses and connection.handler is not None:
                event = connection.refused(now)
                if event is not None:
                    self._end(connection, event)
                self._touch(connection)

    def _end(self, connection: QuicTransportConnection, event: Closed) -> None:
        """End a connection whose peer does not answer."""
        connection.engine.close(event.code, event.reason, application=False)
        self._enqueue(connection, [connection.end(event)])

    def _count(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    # D. The turn

    def _turn_soon(self) -> None:
        if self._soon is None and not self._stopped:
            self._soon = self._loop.call_soon(self._start_turn)

    def _start_turn(self) -> None:
        self._soon = None
        self._turn()

    def _turn(self) -> None:
        if self._stopped:
            return
        if self._now is None:
            self._now = self._loop.time()
        now = self._now
        if self._timers.is_due(now + _SLACK):
            self._ring_all(now)
        self._collect()
        if self._inboxes:
            for connection, events in self._inboxes.round():
                self._deliver(connection, events)
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            self._flush(connection, now)
        self._collect()
        self._now = None
        if self._inboxes or self._dirty:
            self._turn_soon()
        self._arm()

    def _touch(self, connection: QuicTransportConnection) -> None:
        self._touched[connection] = None

    def _collect(self) -> None:
        """Move the events of touched connections into their inboxes, and mark them for a flush."""
        while self._touched:
            touched, self._touched = self._touched, {}
            for connection in touched:
                events = connection.engine.events()
                if events:
                    events = connection.filter_events(events)
                own = connection.egress.take_events()
                if own:
                    events = [*own, *events]
                if events:
                    self._enqueue(connection, events)
                if not connection.dirty:
                    connection.dirty = True
                    self._dirty.append(connection)

    def _enqueue(self, connection: QuicTransportConnection, events: list[Event]) -> None:
        self._inboxes.put(connection, events)

    def _ring_all(self, now: float) -> None:
        due: list[QuicTransportConnection] = []
        while (connection := self._timers.pop(now + _SLACK)) is not None:
            due.append(connection)
        for connection in due:
            self._on_timer(connection, now)

    def _on_timer(self, connection: QuicTransportConnection, now: float) -> None:
        deadline = connection.deadline
        if deadline is not None and deadline <= now:
            self._count("timeout")
            self._settled(connection)
            connection.close()
        else:
            timer = connection.engine.next_timer()
            if timer is not None and timer <= now + _SLACK:
                try:
                    connection.engine.on_timer(max(now, timer))
                except Exception:  # noqa: BLE001 - as in _feed
                    self._engine_failed(connection, "on_timer")
            alive = connection.alive_timer
            if alive is not None and alive <= now + _SLACK:
                event = connection.check_alive(now)
                if event is not None:
                    self._end(connection, event)
        self._touch(connection)

    def _flush(self, connection: QuicTransportConnection, now: float) -> None:
        connection.dirty = False
        if connection not in self.connections:
            return  # it failed in this turn
        egress, engine = connection.egress, connection.engine
        try:
            egress.pump(now)
            bursts = engine.flush(now)
            if egress.overrun and not connection.closed:
                connection.close_request = Closed(
                    INTERNAL_ERROR, egress.overrun, by_peer=False, application=True
                )
            request = connection.close_request
            if request is not None and not connection.closed_reported:
                self._enqueue(connection, [connection.end(request)])
                engine.close(request.code, request.reason)
                bursts = [*bursts, *engine.flush(now)]
        except Exception:  # noqa: BLE001 - as in _feed
            self._engine_failed(connection, "flush")
            bursts = []
        egress.flushed()
        for burst in bursts:
            connection.packets_sent += len(burst.datagrams)
            connection.bytes_sent += sum(map(len, burst.datagrams))
            self._port.send(burst)
        if egress.has_events:
            self._touch(connection)
        if engine.terminated:
            self._take_final_events(connection)
            self._forget(connection)
            return
        timer = engine.next_timer()
        for other in (egress.next_timer(), connection.deadline, connection.alive_timer):
            if other is not None and (timer is None or other < timer):
                timer = other
        if timer is None:
            self._timers.cancel(connection)
        elif timer != self._timers.when(connection):
            self._timers.set(connection, timer)

    def _take_final_events(self, connection: QuicTransportConnection) -> None:
        events = connection.filter_events(connection.engine.events())
        if events:
            self._enqueue(connection, events)

    def _engine_failed(self, connection: QuicTransportConnection, where: str) -> None:
        """Log an exception of an engine and forget its connection."""
        _log.exception(
            "the %s engine failed in %s with %s", self._engine.name, where, connection.peer_address
        )
        self._forget(connection)

    def _arm(self) -> None:
        when = self._timers.lower_bound()
        alarm = self._alarm
        if when is None:
            return
        if alarm is not None:
            if self._alarm_at <= when:  # not when(): uvloop's handles need not have it
                return  # it comes early enough, and looks again then
            alarm.cancel()
        self._alarm_at = when
        self._alarm = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._turn()

    # E. Handlers

    def _deliver(self, connection: QuicTransportConnection, events: list[Event]) -> None:
        handler = connection.handler
        last = events[-1]
        if handler is None:
            handler = self._begin(connection, last)
            if handler is None:
                return
        if connection.failed:
            if not isinstance(last, Closed):
                return
            events = [last]
        try:
            handler.handle_events(events)
        except Exception:  # noqa: BLE001 - isolation: see Handler
            _log.exception("the handler of the connection with %s failed", connection.peer_address)
            connection.failed = True
            connection.close(INTERNAL_ERROR, "internal error")
        if connection.egress.has_events:
            self._touch(connection)

    def _begin(self, connection: QuicTransportConnection, last: Event) -> Handler | None:
        """Handle the first events of a connection: make its handler, or report why it failed."""
        self._settled(connection)
        outcome, connection.on_outcome = connection.on_outcome, None
        self._dials.pop(connection, None)
        if not connection.engine.handshake_complete:
            if outcome is not None and isinstance(last, Closed):
                outcome(last)
            return None
        try:
            connection.handler = handler = connection.listener(connection)
        except Exception:  # noqa: BLE001 - isolation, as for handlers
            _log.exception("the listener failed for %s", connection.peer_address)
            connection.close(INTERNAL_ERROR, "internal error")
            if outcome is not None:
                outcome(Closed(INTERNAL_ERROR, "our listener failed", False, True))
            return None
        connection.keep_alive(self.clock())
        if outcome is not None:
            outcome(None)
        return handler


class Routes:
    """Finds the connection of a datagram by the connection id in its header.

    ::

        long header   1 | flags | version (4) | length | destination id | ...    (RFC 8999, 5.1)
        short header  0 | flags | destination id (8) | ...                       (RFC 8999, 5.2)
    """

    __slots__ = ("_table", "_tokens")

    def __init__(self) -> None:
        self._table: dict[bytes, QuicTransportConnection] = {}
        # Looking up a token takes no time that depends on its bytes (RFC 9000, 10.3.1): Python's
        # hash of bytes is keyed.
        self._tokens: dict[bytes, QuicTransportConnection] = {}

    def sync(self, connection: QuicTransportConnection) -> None:
        """Take the present ids of a connection's engine; cheap if they did not change."""
        engine, known = connection.engine, connection.ids
        ids = engine.connection_ids
        if ids is known:
            return
        token = engine.peer_reset_token
        if token != connection.reset_token:
            self._tokens.pop(connection.reset_token, None)
            if token:
                self._tokens[token] = connection
            connection.reset_token = token
        if ids == known:
            connection.ids = ids
            return
        for each in known:
            if each not in ids and each != connection.first_id:
                self._drop(each, connection)
        for each in ids:
            self._table[each] = connection
        connection.ids = ids

    def begin(self, connection: QuicTransportConnection, first_id: bytes) -> None:
        """Add the id that a client chose for us.

        The id stays as long as the connection, so that late copies of the client's first packet do
        not begin another connection.
        """
        connection.first_id = first_id
        self._table[first_id] = connection

    def remove(self, connection: QuicTransportConnection) -> None:
        """Forget all ids of a connection."""
        for each in (*connection.ids, connection.first_id):
            self._drop(each, connection)
        self._tokens.pop(connection.reset_token, None)

    def reset(self, datagram: bytes) -> QuicTransportConnection | None:
        """Return the connection that a stateless reset ends; None if the datagram is none."""
        if len(datagram) < SHORTEST:
            return None
        return self._tokens.get(datagram[-TOKEN_LENGTH:])

    def clear(self) -> None:
        """Forget all connections."""
        self._table.clear()
        self._tokens.clear()

    def _drop(self, each: bytes, connection: QuicTransportConnection) -> None:
        if self._table.get(each) is connection:
            del self._table[each]

    def runs(
        self,
        datagrams: list[bytes],
        admit: Callable[[bytes], QuicTransportConnection | None],
    ) -> list[_Run]:
        """Split the datagrams of one sender into runs for the same connection.

        ``admit`` returns a connection for a datagram that belongs to none, or None.
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
                to = datagram[1 : 1 + _ID_LENGTH]
            if to != last_id or current is None:
                connection = table.get(to)
                if connection is None:
                    connection = admit(datagram)
                if connection is None:
                    continue
                if connection is not current:
                    run = []
                    found.append((connection, run))
                    current = connection
                last_id = to
            run.append(datagram)
        return found


class Inboxes(Generic[K]):
    """Events for the handlers: in order for each connection, fairly between connections.

    One connection gets at most ``quota`` events in a round. The rest waits for the next round, so
    that a busy publisher cannot starve the others. A connection with more than ``limit`` waiting
    events is *full*: the dispatcher then drops its packets, and its peer detects loss and slows
    down.
    """

    __slots__ = ("_limit", "_quota", "_waiting")

    def __init__(self, *, quota: int = 256, limit: int = 4096) -> None:
        self._quota = quota
        self._limit = limit
        self._waiting: dict[K, list[Event]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, owner: K, events: list[Event]) -> None:
        """Append events; the inbox keeps the list that it is given."""
        waiting = self._waiting.get(owner)
        if waiting is None:
            self._waiting[owner] = events
        else:
            waiting.extend(events)

    def full(self, owner: K) -> bool:
        """Return whether packets of this owner should be dropped now."""
        waiting = self._waiting.get(owner)
        return waiting is not None and len(waiting) >= self._limit

    def round(self) -> list[tuple[K, list[Event]]]:
        """Return one list for each owner with events; the rest stays for the next round."""
        quota = self._quota
        waiting, self._waiting = self._waiting, {}
        found: list[tuple[K, list[Event]]] = []
        for owner, events in waiting.items():
            if len(events) > quota:
                self._waiting[owner] = events[quota:]
                del events[quota:]
            found.append((owner, events))
        return found


def _gone() -> Closed:
    return Closed(0, "the connection is gone", by_peer=False, application=False)
