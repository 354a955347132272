"""A script of what a transport can do to a peering session, read from any bytes.

::

    byte 0        which session: dialler or listener; before, in or after its handshake
    then, again and again:
      op (1)      data, data with FIN, reset, stop, time, early data, command, close
      stream (1)  which stream
      size (1)    how many bytes follow, for data
      bytes

Whatever the script says, the session must not raise, must end at most once, and must give the same
events and bytes when every chunk of data comes byte by byte.
"""

from __future__ import annotations

from laps_wire.nodeid import NodeId
from laps_wire.peering.session import (
    Closed,
    Dialect,
    Event,
    PeeringSession,
    State,
    StreamData,
)
from testkit.peering_pair import DIALLER, Pair

DATA, FIN, RESET, STOP, TIME, EARLY, COMMAND, CLOSE = range(8)
STAGES = 4

Op = tuple[int, int, bytes]


def parse(data: bytes) -> tuple[int, list[Op]]:
    """The stage, and the operations."""
    ops: list[Op] = []
    pos = 1
    while pos + 3 <= len(data):
        op, stream, size = data[pos : pos + 3]
        pos += 3
        ops.append((op % 8, stream, data[pos : pos + size]))
        pos += size
    return (data[0] if data else 0), ops


def script(stage: int, *ops: tuple[int, int, bytes]) -> bytes:
    """The bytes of a script; long data is cut into operations of 255 bytes."""
    out = bytearray([stage])
    for op, stream, data in ops:
        for start in range(0, max(1, len(data)), 255):
            chunk = data[start : start + 255]
            out += bytes([op, stream, len(chunk)]) + chunk
    return bytes(out)


def one_script(dialect: Dialect, data: bytes) -> None:
    """Run a script as it is and byte by byte."""
    stage, ops = parse(data)
    whole = _run(dialect, stage, ops, single=False)
    if _run(dialect, stage, ops, single=True) != whole:
        raise AssertionError("the same bytes in other chunks mean something else")


def _session(dialect: Dialect, stage: int) -> PeeringSession:
    pair = Pair(dialect=dialect)
    side, step = stage % 2, stage // 2 % STAGES
    if step or side == DIALLER:
        pair.dialler.connect(pair.now)
    if step == STAGES - 1:
        pair.run()
    elif step:
        for each in (0, 1):
            pair.flush(each)
        for _ in range(step):
            if not pair.quiet:
                pair.hop()
    session = pair.sessions[side]
    while session.poll_transmit() is not None:
        pass
    session.poll_events()
    return session


def _run(
    dialect: Dialect, stage: int, ops: list[Op], *, single: bool
) -> tuple[list[Event], dict[int, bytes], State]:
    session = _session(dialect, stage)
    now = 200.0
    events: list[Event] = []
    written: dict[int, bytes] = {}
    fed = 0
    for op, stream, data in ops:
        now += 0.001
        fed += len(data)
        _do(session, now, op, stream, data, single=single)
        events += session.poll_events()
        while (item := session.poll_transmit()) is not None:
            if isinstance(item, StreamData):
                written[item.stream_id] = written.get(item.stream_id, b"") + item.data
        if session._streams.buffered > fed:
            raise AssertionError("more is kept than was fed")
    ends = sum(isinstance(event, Closed) for event in events)
    if ends != (session.state is State.CLOSED):
        raise AssertionError(f"{ends} ends in state {session.state}")
    if session.state is State.CLOSED and session.poll_timeout() is not None:
        raise AssertionError("a closed session waits for something")
    return events, written, session.state


def _do(
    session: PeeringSession, now: float, op: int, stream: int, data: bytes, *, single: bool
) -> None:
    if op in (DATA, FIN):
        if single and len(data) > 1:
            for index in range(len(data) - 1):
                session.handle_stream_data(now, stream, data[index : index + 1])
            data = data[-1:]
        session.handle_stream_data(now, stream, data, fin=op == FIN)
    elif op == RESET:
        session.handle_stream_reset(now, stream)
    elif op == STOP:
        session.handle_stop_sending(now, stream)
    elif op == TIME:
        session.handle_timeout(now + stream)
    elif op == EARLY:
        session.hold_data(now, stream, None, len(data))
    elif op == COMMAND:
        if session.rights is not None and session.rights.sends_data:
            session.advertise_sns(now, [NodeId(stream + 1)])
    else:
        session.handle_connection_closed(now, stream, "closed")
