"""What all parts of the control plane share: the tables, the plane, timers, events, commands.

The parts know each other through it::

    relay       dispatches events, notices and timers
    spaces      namespaces and prefixes          receivers   who receives a track
    sources     who feeds a track                fetches     FETCH
    tracks      what is known of a track         statuses    TRACK_STATUS
    grants      who may do what, and how long    upstreams   the relay network
    intakes     what the relay takes itself      context     tables, commands: this module
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

from laps_sdk.edge.codes import request_code, shorten
from laps_sdk.edge.events import RelayEvent, RequestDenied
from laps_sdk.edge.records import Client, Load, Offer, Receiver, Record, Source, Watch
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.edge.tree import NamespaceTree
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.timers import Timers
from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.session.ids import RequestsBlockedError
from laps_wire.names import FullTrackName, Namespace

if TYPE_CHECKING:
    from laps_sdk.edge.fetches import Fetches
    from laps_sdk.edge.grants import Grants
    from laps_sdk.edge.intakes import Intakes
    from laps_sdk.edge.receivers import Receivers
    from laps_sdk.edge.sources import Sources
    from laps_sdk.edge.spaces import Spaces
    from laps_sdk.edge.statuses import Statuses
    from laps_sdk.edge.tracks import Tracks
    from laps_sdk.edge.upstreams import Upstreams

__all__ = ["Asked", "Context", "Due"]

P = ParamSpec("P")


class Due(Enum):
    """What a timer is for; its key is (this, the record)."""

    EXPIRY = "a grant ends"
    PATIENCE = "a SUBSCRIBE waited long enough"
    ANSWER = "a publisher should have answered"
    LINGER = "an upstream subscription has had no subscriber for a while"
    DONE = "streams behind PUBLISH_DONE should have arrived"
    FINISH = "a track that ended is done"
    FORGET = "a cache without a publisher is let go"
    FILL = "a FETCH waited long enough for a publisher"
    GOAWAY = "a session should have left"


class Asked(NamedTuple):
    """What became of a request of ours."""

    request_id: int | None
    blocked: bool = False
    """Whether it will be tried again when the peer allows more requests."""


class Context:
    """Tables and tools."""

    __slots__ = (
        "clients",
        "dirty",
        "draining",
        "events",
        "fetches",
        "grants",
        "intakes",
        "offers",
        "plane",
        "receivers",
        "settings",
        "sources",
        "spaces",
        "statuses",
        "subscriptions",
        "timers",
        "tracks",
        "upstreams",
        "watches",
    )

    grants: Grants
    sources: Sources
    receivers: Receivers
    spaces: Spaces
    fetches: Fetches
    statuses: Statuses
    tracks: Tracks
    upstreams: Upstreams
    intakes: Intakes

    def __init__(self, plane: ForwardingPlane, settings: EdgeSettings) -> None:
        self.plane = plane
        self.settings = settings
        self.timers: Timers[tuple[Due, object]] = Timers()
        self.events: list[RelayEvent] = []
        self.dirty: dict[int, None] = {}
        self.draining: Callable[[int], str] | None = None
        """While sessions are sent away: where to, by their numbers; empty if nowhere."""
        """Where clients shall go, once :meth:`EdgeRelay.drain` was called."""
        self.clients: dict[int, Client] = {}
        self.offers: NamespaceTree[Offer] = NamespaceTree()
        self.watches: NamespaceTree[Watch] = NamespaceTree()
        self.subscriptions = 0
        """Receivers of all sessions."""

    # Commands to sessions

    def tell(
        self, client: Client, command: Callable[P, object], *args: P.args, **kwargs: P.kwargs
    ) -> bool:
        """Give a session a command; False if its state does not allow it (any more).

        That is no fault: the peer may have ended the request, or its session, a moment ago.
        """
        if client.closed:
            return False
        self.dirty[client.id] = None
        try:
            command(*args, **kwargs)
        except LocalError:
            return False
        return True

    def ask(
        self,
        client: Client,
        retry: Callable[[float], None],
        command: Callable[P, int],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Asked:
        """Make a request of ours; ``retry`` is called when one that was blocked can be made."""
        if client.closed or not client.ready:
            return Asked(None)
        self.dirty[client.id] = None
        try:
            return Asked(command(*args, **kwargs))
        except RequestsBlockedError:
            if len(client.blocked) >= self.settings.session_blocked:
                return Asked(None)
            client.blocked.append(retry)
            return Asked(None, blocked=True)
        except LocalError:
            return Asked(None)

    def reject(
        self,
        client: Client,
        request_id: int,
        code: RequestErrorCode,
        reason: str,
        *,
        retry: float | None = None,
    ) -> None:
        """Say REQUEST_ERROR; ``retry`` is after how many seconds another try makes sense."""
        number = request_code(client.draft, code)
        kind = client.wire.request_kind(request_id)
        interval = 0 if retry is None else int(retry * 1000) + 1
        if self.tell(
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

    # Admission

    def overloaded(
        self, now: float, client: Client, name: Namespace | FullTrackName | None
    ) -> tuple[str, float | None] | None:
        """Why a session may not make another request now, and when it may; None if it may."""
        if client.info.upstream:
            return None
        settings = self.settings
        # A time that lies before the last one takes nothing away.
        earned = max(0.0, now - client.credited) * settings.request_rate
        client.credit = min(client.credit + earned, settings.request_burst)
        client.credited = max(client.credited, now)
        if client.credit < 1:
            return "too many requests at once", (1 - client.credit) / settings.request_rate
        client.credit -= 1
        if name is not None and name.size > settings.name_bytes:
            return f"names are limited to {settings.name_bytes} bytes here", None
        return None

    def full(self, client: Client, load: Load) -> str | None:
        """Which cap forbids one more of something; None if none does."""
        settings = self.settings
        caps = {
            Load.SUBSCRIPTIONS: settings.session_subscriptions,
            Load.PUBLISHES: settings.session_publishes,
            Load.NAMESPACES: settings.session_namespaces,
            Load.PREFIXES: settings.session_prefixes,
            Load.FETCHES: settings.session_fetches,
            Load.OFFERS: settings.session_offers,
        }
        if client.load[load] >= caps[load] and not client.info.upstream:
            return f"a session may have {caps[load]} {load.value}"
        if load in (Load.SUBSCRIPTIONS, Load.OFFERS):
            if self.subscriptions >= settings.max_subscriptions:
                return "the relay has as many subscriptions as it can"
        elif load is Load.NAMESPACES and len(self.offers) >= settings.max_namespaces:
            return "the relay has as many namespaces as it can"
        return None

    # Records

    def add(self, record: Record, load: Load | None) -> None:
        """Put a record into its session's table."""
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
        """Take it out, with its timers."""
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
        for due in (Due.EXPIRY, Due.PATIENCE, Due.ANSWER, Due.DONE, Due.FILL):
            self.timers.cancel((due, record))
