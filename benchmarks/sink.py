"""Where benchmarks of forwarding planes send to: as little as receiving can cost."""

from __future__ import annotations

from collections.abc import Callable

from laps_sdk.forwarding.interfaces import OutStream


class Sink:
    """A connection and a stream at once: counts and forgets."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    max_datagram_size = 65535
    closed = False
    queued = 0

    def open_unidirectional(
        self,
        *,
        priority: int = 0,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        """A stream."""
        del priority, droppable, drop_code, deadline
        return Sink()

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """Counted."""
        del data, deadline
        self.count += 1
        return True

    def unacknowledged(self) -> frozenset[int]:
        """Nothing waits."""
        return frozenset()

    def stop_sending(self, stream_id: int, code: int) -> None:
        """Nothing here is stopped."""
        raise AssertionError(stream_id, code)

    def write(self, data: bytes, fin: bool = False) -> None:
        """Counted."""
        del data, fin
        self.count += 1

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Taken, as a write."""
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Nothing is refused."""
        raise AssertionError(source)

    def reset(self, code: int) -> None:
        """Forgotten."""
        del code

    def set_priority(self, priority: int) -> None:
        """Forgotten."""
        del priority

    def set_deadline(self, deadline: float | None) -> None:
        """Forgotten."""
        del deadline
