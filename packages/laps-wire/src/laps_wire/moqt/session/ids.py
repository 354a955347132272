"""Request ids: who may use which, in what order, and how many (moq-transport-16, 9.1, 9.5).

::

    client   0  2  4  6 ...        each side counts for itself; an id is never used twice
    server   1  3  5  7 ...

Both drafts close the session with INVALID_REQUEST_ID for the wrong parity and for an id that was
used before. Order differs:

- Draft 18 gives every request its own stream, and streams overtake each other: any new id is good.
- Draft 16 wants "the next in sequence", yet puts SUBSCRIBE_NAMESPACE on a stream of its own, which
  can overtake the control stream or be overtaken. Taken by the letter, two honest peers would end
  their session at random. So ids on the control stream must ascend, and a gap is tolerated as
  long as SUBSCRIBE_NAMESPACE streams that are under way could account for it.

Draft 16 also limits how many requests may be made: MAX_REQUEST_ID is one above the largest id that
may be used. :class:`RequestCredit` keeps a window of it open, as QUIC does with MAX_STREAMS.
"""

from __future__ import annotations

from typing import Final

from laps_wire.errors import StateError
from laps_wire.moqt.errors import InvalidRequestId, TooManyRequests
from laps_wire.moqt.versions import Draft

__all__ = [
    "MAX_GAPS",
    "OwnRequestIds",
    "PeerRequestIds",
    "RequestCredit",
    "RequestsBlockedError",
]

MAX_GAPS: Final[dict[Draft, int]] = {Draft.D16: 64, Draft.D18: 1024}
"""How many ids below the largest one seen may be missing at a time, by draft."""


class RequestsBlockedError(StateError):
    """A request that must wait for the peer's MAX_REQUEST_ID (draft 16 only)."""

    def __init__(self, request_id: int, maximum: int) -> None:
        super().__init__(
            f"request {request_id} must wait: the peer allows ids below {maximum};"
            " retry after RequestsAllowed"
        )
        self.request_id = request_id
        self.maximum = maximum


class OwnRequestIds:
    """The ids that we give to our requests."""

    __slots__ = ("_next", "blocked_at", "maximum")

    def __init__(self, first: int, maximum: int | None) -> None:
        self._next = first
        self.maximum = maximum
        """The peer's MAX_REQUEST_ID; None if the draft has no such limit."""
        self.blocked_at: int | None = None
        """The maximum for which REQUESTS_BLOCKED was already said; once for each is enough."""

    @property
    def next(self) -> int:
        """The id that the next request will have."""
        return self._next

    def check(self) -> None:
        """Raise :class:`RequestsBlockedError` if the next id may not be used yet."""
        if self.maximum is not None and self._next >= self.maximum:
            raise RequestsBlockedError(self._next, self.maximum)

    def take(self) -> int:
        """Use the next id."""
        self.check()
        request_id = self._next
        self._next += 2
        return request_id

    def used(self, request_id: int) -> bool:
        """Whether we have used ``request_id``."""
        return request_id % 2 == self._next % 2 and request_id < self._next


class PeerRequestIds:
    """The ids that the peer has used."""

    __slots__ = ("_draft", "_first", "_missing", "_next", "_ordered")

    def __init__(self, first: int, draft: Draft) -> None:
        self._first = first
        self._draft = draft
        self._next = first
        """One step above the largest id used."""
        self._ordered = -1
        """The largest id that came on draft 16's control stream."""
        self._missing: dict[int, None] = {}
        """Ids below ``_next`` that were not used yet, in ascending order."""

    @property
    def next(self) -> int:
        """One step above the largest id that the peer has used."""
        return self._next

    @property
    def count(self) -> int:
        """How many ids lie below :attr:`next`."""
        return (self._next - self._first) // 2

    def used(self, request_id: int) -> bool:
        """Whether the peer has used ``request_id``."""
        return self._is_peers(request_id) and (
            request_id < self._next and request_id not in self._missing
        )

    def _is_peers(self, request_id: int) -> bool:
        return request_id % 2 == self._first

    def use(self, request_id: int, *, ordered: bool) -> None:
        """Note a new request; ``ordered`` says that it came on draft 16's control stream."""
        if not self._is_peers(request_id):
            parity = "odd" if self._first else "even"
            raise InvalidRequestId(f"request id {request_id}: the peer's ids are {parity}")
        if ordered:
            if request_id <= self._ordered:
                raise InvalidRequestId(
                    f"request id {request_id} after {self._ordered}: ids must ascend"
                )
            self._ordered = request_id
        if request_id < self._next:
            if request_id not in self._missing:
                raise InvalidRequestId(f"request id {request_id} was used before")
            del self._missing[request_id]
            return
        limit = MAX_GAPS[self._draft]
        skipped = (request_id - self._next) // 2
        if skipped > limit or (self._draft is Draft.D16 and skipped + len(self._missing) > limit):
            raise InvalidRequestId(
                f"request id {request_id} where {self._next} is next: too many ids were left out"
            )
        self._missing.update(dict.fromkeys(range(self._next, request_id, 2)))
        # Draft 18: an id whose stream was reset at once never arrives. Old gaps count as used.
        while len(self._missing) > limit:
            del self._missing[next(iter(self._missing))]
        self._next = request_id + 2


class RequestCredit:
    """How many requests the peer may make: a window that moves as requests end (draft 16)."""

    __slots__ = ("_busy", "_window", "maximum")

    def __init__(self, window: int) -> None:
        self._window = window
        self._busy = 0
        self.maximum = 2 * window
        """The Maximum Request ID that the peer was told: ids below it may be used."""

    @property
    def busy(self) -> int:
        """How many of the peer's requests and updates are not over."""
        return self._busy

    def spend(self, request_id: int) -> None:
        """Note a request; :class:`TooManyRequests` if its id is at or above the maximum."""
        if request_id >= self.maximum:
            raise TooManyRequests(f"request id {request_id} is not below {self.maximum}")
        self._busy += 1

    def release(self) -> None:
        """Note that a request, or an update, is over."""
        self._busy -= 1

    def grant(self, used: int) -> int | None:
        """A new maximum worth telling, or None; ``used`` ids have been used so far.

        The maximum only grows, in steps of half a window, so that not every request costs a
        MAX_REQUEST_ID.
        """
        maximum = 2 * (used + self._window - self._busy)
        if maximum - self.maximum < max(self._window, 1):
            return None
        self.maximum = maximum
        return maximum
