"""An engine connection that does only what a test tells it, and records what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import Burst, EngineConnection, EngineStats
from laps_sdk.quic.events import Event

__all__ = ["ScriptedEngine"]


class ScriptedEngine(EngineConnection):
    """Fields are what the getters answer; ``calls`` is what was asked, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.window = 100_000
        self.held: dict[int, int] = {}
        """Backlog by stream."""
        self.left = {True: 100, False: 100}
        self.opened = {True: 0, False: 0}
        self.longest_datagram = 1200
        self.pending: list[Event] = []
        self.bursts: list[Burst] = []
        self.timer: float | None = None
        self.over = False
        self.complete = True
        self.ids: Sequence[bytes] = (b"scripted",)
        self.fault: str = ""
        """The method that raises."""

    def _called(self, *call: object) -> None:
        self.calls.append(call)
        if call[0] == self.fault:
            raise ZeroDivisionError("a fault of the engine")

    def take(self, *names: str) -> list[tuple[object, ...]]:
        """The calls so far of these names, which are then forgotten; of all without names."""
        found = [call for call in self.calls if not names or call[0] in names]
        self.calls.clear()
        return found

    # From the endpoint

    def feed(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        self._called("feed", list(datagrams), address)

    def events(self) -> list[Event]:
        events, self.pending = self.pending, []
        return events

    def flush(self, now: float) -> list[Burst]:
        self._called("flush")
        bursts, self.bursts = self.bursts, []
        return bursts

    def next_timer(self) -> float | None:
        return self.timer

    def on_timer(self, now: float) -> None:
        self.timer = None
        self._called("on_timer")

    @property
    def connection_ids(self) -> Sequence[bytes]:
        return self.ids

    @property
    def terminated(self) -> bool:
        return self.over

    # Getters

    @property
    def handshake_complete(self) -> bool:
        return self.complete

    @property
    def alpn(self) -> str:
        return "scripted"

    @property
    def server_name(self) -> str:
        return "name.example"

    @property
    def peer_address(self) -> Address:
        return ("192.0.2.1", 4433)

    @property
    def max_datagram_size(self) -> int:
        return self.longest_datagram

    def stats(self) -> EngineStats:
        return EngineStats(1, 0.25, 0.125, 20_000, 300)

    # Sending

    def streams_left(self, unidirectional: bool) -> int:
        return self.left[unidirectional]

    def open_stream(self, unidirectional: bool) -> int:
        self.left[unidirectional] -= 1
        number = self.opened[unidirectional]
        self.opened[unidirectional] += 1
        return number << 2 | unidirectional << 1

    def write(self, stream_id: int, data: bytes, fin: bool) -> None:
        self._called("write", stream_id, data, fin)

    def backlog(self, stream_id: int) -> int:
        return self.held.get(stream_id, 0)

    def total_backlog(self) -> int:
        return sum(self.held.values())

    def send_window(self) -> int:
        return self.window

    def datagram(self, data: bytes) -> None:
        self._called("datagram", data)

    def reset(self, stream_id: int, code: int) -> None:
        self._called("reset", stream_id, code)

    def stop(self, stream_id: int, code: int) -> None:
        self._called("stop", stream_id, code)

    def set_reading(self, stream_id: int, on: bool) -> bool:
        self._called("set_reading", stream_id, on)
        return True

    def withhold(self, size: int) -> bool:
        self._called("withhold", size)
        return True

    def ping(self) -> None:
        self._called("ping")

    def abort(self) -> None:
        self._called("abort")

    def close(self, code: int, reason: str, *, application: bool = True) -> None:
        self._called("close", code, reason, application)
