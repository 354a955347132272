"""The tables, timers and events of an Edge, and the commands to its sessions.

State knows none of the parts above it, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, ParamSpec

from laps_sdk.edge.codes import request_code, shorten
from laps_sdk.edge.events import RelayEvent, RequestDenied
from laps_sdk.edge.records import Client, Load, Offer, Receiver, Record, Source, Watch
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.edge.tree import NamespaceTree
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.timers import Timers
from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.session import RequestsBlockedError

__all__ = ["Due", "RequestOutcome", "State"]

P = ParamSpec("P")


class Due(Enum):
    """The purposes of timers; the key of a timer is (purpose, record)."""

    EXPIRY = "a grant ends"
    PATIENCE = "a SUBSCRIBE waited long enough"
    GRACE = "a publisher that was lost should be back"
    ANSWER = "a publisher should have answered"
    LINGER = "an upstream subscription has had no subscriber for a while"
    DONE = "streams behind PUBLISH_DONE should have arrived"
    FINISH = "a track that ended is done"
    FORGET = "a cache without a publisher is let go"
    FILL = "a FETCH waited long enough for a publisher"
    GOAWAY = "a session should have left"


class RequestOutcome(NamedTuple):
    """The result of a request of the relay."""

    request_id: int | None
    blocked: bool = False
    """Whether it will be tried again when the peer allows more requests."""


class State:
    """Tables of sessions, namespaces and prefixes; timers, events, and commands to sessions."""

    __slots__ = (
        "clients",
        "dirty",
        "draining",
        "events",
        "offers",
        "plane",
        "settings",
        "subscriptions",
        "timers",
        "upstreams",
        "watches",
    )

    def __init__(self, plane: ForwardingPlane, settings: EdgeSettings) -> None:
        self.plane = plane
        self.settings = settings
        self.timers: Timers[tuple[Due, object]] = Timers()
        self.events: list[RelayEvent] = []
        self.dirty: dict[int, None] = {}
        """Sessions that were given commands since the last poll."""
        self.draining: Callable[[int], str] | None = None
        """While sessions are sent away: the address for a session, empty if there is none."""
        self.clients: dict[int, Client] = {}
        self.upstreams: dict[int, Client] = {}
        """The sessions behind which the relay network is; most often one or none."""
        self.offers: NamespaceTree[Offer] = NamespaceTree()
        self.watches: NamespaceTree[Watch] = NamespaceTree()
        self.subscriptions = 0
        """Receivers of all sessions."""

    # Commands to sessions

    def command(
        self, client: Client, command: Callable[P, object], *args: P.args, **kwargs: P.kwargs
    ) -> bool:
        """Give a session a command; return False if the session does not allow it.

        That is no fault: the peer may have ended the request or the session a moment ago.
        """
        if client.closed:
            return False
        self.dirty[client.id] = None
        try:
            command(*args, **kwargs)
        except LocalError:
            return False
        return True

    def request(
        self,
        client: Client,
        retry: Callable[[float], None],
        command: Callable[P, int],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> RequestOutcome:
        """Make a request of the relay.

        If the peer allows no more requests now, ``retry`` is called when it does.
        """
        if client.closed or not client.ready:
            return RequestOutcome(None)
        self.dirty[client.id] = None
        try:
            return RequestOutcome(command(*args, **kwargs))
        except RequestsBlockedError:
            if len(client.blocked) >= self.settings.session_blocked:
                return RequestOutcome(None)
            client.blocked.append(retry)
            return RequestOutcome(None, blocked=True)
        except LocalError:
            return RequestOutcome(None)

    def reject(
        self,
        client: Client,
        request_id: int,
        code: RequestErrorCode,
        reason: str,
        *,
        retry: float | None = None,
    ) -> None:
        """Send REQUEST_ERROR; ``retry`` is after how many seconds another try makes sense."""
        number = request_code(client.draft, code)
        kind = client.wire.request_kind(request_id)
        interval = 0 if retry is None else int(retry * 1000) + 1
        if self.command(
            client,
            client.wire.reject,
            request_id,
            number,
            shorten(reason),
            retry_interval=interval,
        ):
            self.events.append(
                RequestDenied(
                    session=client.id,
                    request_id=request_id,
                    kind=kind,
                    code=number,
                    reason=reason,
                )
            )

    # Records

    def add(self, record: Record, load: Load | None) -> None:
        """Add a record to the tables of its session and track."""
        client = record.client
        if record.request_id is not None:
            client.requests[record.request_id] = record
        if load is not None:
            client.load[load] += 1
        if isinstance(record, Source):
            client.feeds[record] = None
            record.track.sources[client.id] = record
        elif isinstance(record, Receiver):
            record.track.receivers[client.id] = record
            self.subscriptions += 1

    def drop(self, record: Record, load: Load | None) -> None:
        """Remove a record from the tables of its session and track, and cancel its timers."""
        client = record.client
        if record.request_id is not None:
            client.requests.pop(record.request_id, None)
        if load is not None:
            client.load[load] -= 1
        if isinstance(record, Source):
            client.feeds.pop(record, None)
            if record.track.sources.get(client.id) is record:
                del record.track.sources[client.id]
        elif isinstance(record, Receiver):
            del record.track.receivers[client.id]
            self.subscriptions -= 1
        for due in (Due.EXPIRY, Due.PATIENCE, Due.GRACE, Due.ANSWER, Due.DONE, Due.FILL):
            self.timers.cancel((due, record))
