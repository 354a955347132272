"""The rows of the control plane's tables.

::

    Client --requests--> Source     a track that the client feeds: its PUBLISH, or our SUBSCRIBE
                         Receiver   a track that it receives: its SUBSCRIBE, or our PUBLISH
                         Offer      its PUBLISH_NAMESPACE
                         Watch      its SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS
                         FetchJob   its FETCH
                         FetchLeg   our FETCH on behalf of a FetchJob
                         StatusLeg  our TRACK_STATUS on behalf of a client's
                         Deposit    its PUBLISH of a track that the relay takes itself

    Track  --sources---> Source, one for each client that publishes or may publish it
           --receivers-> Receiver

Records are compared by identity. Request ids are unique in a session, for requests of both sides.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

from laps_sdk.edge.authorization import Grant
from laps_sdk.edge.ranges import Span
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import Subscription
from laps_sdk.forwarding.ranking import Ranking
from laps_wire.moqt.codepoints import GroupOrder, RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import Fetch, FetchTarget
from laps_wire.moqt.parameters import Parameters, TrackProperties
from laps_wire.moqt.session import AuthToken, Kind, State
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "Client",
    "ClientSession",
    "Deposit",
    "FetchJob",
    "FetchLeg",
    "Load",
    "Offer",
    "Receiver",
    "Record",
    "Source",
    "Stage",
    "StatusLeg",
    "Track",
    "Watch",
]


class Stage(Enum):
    """The state of a source or receiver."""

    PENDING = "pending"
    """The request has no answer yet; one of the relay may even wait to be sent."""
    ESTABLISHED = "established"
    DONE = "done"
    """The publisher sent PUBLISH_DONE; its last streams may still arrive."""


class Load(Enum):
    """The kinds of records that are counted and capped for each session."""

    SUBSCRIPTIONS = "subscriptions"
    PUBLISHES = "publishes"
    NAMESPACES = "namespaces"
    PREFIXES = "prefixes"
    FETCHES = "fetches"
    OFFERS = "offers"


class ClientSession(Protocol):
    """A MoQT session as the Edge commands it.

    :class:`laps_wire.moqt.session.Session` is one, with a client at the other end of a connection;
    :class:`laps_sdk.upstream.seam.SeamEnd` is one, with the network in the same process. Commands
    raise :class:`~laps_wire.errors.LocalError` and do nothing if they are not allowed.
    """

    @property
    def closed(self) -> bool:
        """Whether the session is over."""

    @property
    def open_requests(self) -> tuple[int, ...]:
        """The ids of all requests that are not over, of both ends, oldest first."""

    def request_state(self, request_id: int) -> State | None:
        """Return the state of a request; None if it does not exist or is over."""

    def request_kind(self, request_id: int) -> Kind | None:
        """Return the kind of a request; None if it does not exist or is over."""

    def subscribe(self, track: FullTrackName, parameters: Parameters = ...) -> int:
        """Ask for the objects of a track; return the request's id."""

    def publish(
        self,
        track: FullTrackName,
        track_alias: int,
        parameters: Parameters = ...,
        track_properties: KeyValues = ...,
    ) -> int:
        """Offer a track; return the request's id."""

    def fetch(self, target: FetchTarget, parameters: Parameters = ...) -> int:
        """Ask for past objects; return the request's id."""

    def track_status(self, track: FullTrackName, parameters: Parameters = ...) -> int:
        """Ask what a subscription would find; return the request's id."""

    def update(self, request_id: int, parameters: Parameters) -> int:
        """Change a request; return the update's own id."""

    def accept(
        self, request_id: int, parameters: Parameters = ..., track_properties: KeyValues = ...
    ) -> None:
        """Accept a request that has no command of its own, or an update."""

    def accept_subscribe(
        self,
        request_id: int,
        track_alias: int,
        parameters: Parameters = ...,
        track_properties: KeyValues = ...,
    ) -> None:
        """Accept a SUBSCRIBE."""

    def accept_fetch(
        self,
        request_id: int,
        end_location: Location,
        *,
        end_of_track: bool = ...,
        parameters: Parameters = ...,
        track_properties: KeyValues = ...,
    ) -> None:
        """Accept a FETCH."""

    def reject(
        self, request_id: int, error_code: int, reason: str = ..., *, retry_interval: int = ...
    ) -> None:
        """Reject a request or an update."""

    def cancel(self, request_id: int, *, code: int | None = ..., reason: str = ...) -> None:
        """Cancel a request."""

    def publish_done(
        self, request_id: int, status_code: int, stream_count: int, reason: str = ...
    ) -> None:
        """End a subscription as its publisher."""

    def fetch_ended(self, request_id: int) -> None:
        """Record that the stream of a FETCH has ended."""

    def namespace(self, request_id: int, suffix: Namespace) -> None:
        """Advertise a namespace that was asked for."""

    def namespace_done(self, request_id: int, suffix: Namespace) -> None:
        """Withdraw a namespace."""

    def publish_blocked(self, request_id: int, track: FullTrackName) -> None:
        """Say that a track cannot be published for lack of a stream."""

    def goaway(self, new_session_uri: str = ..., timeout: int = ...) -> None:
        """Ask the other end to leave."""

    def close(self, code: int = ..., reason: str = ...) -> None:
        """End the session."""


@dataclass(slots=True, eq=False, kw_only=True)
class Client:
    """One session."""

    id: int
    wire: ClientSession
    info: SessionInfo
    opened: float
    tokens: tuple[AuthToken, ...] = ()
    """The tokens in its SETUP."""
    ready: bool = False
    closed: bool = False
    """Its session is over, though its connection may not be yet."""
    leaving: bool = False
    """It sent GOAWAY: no new requests to it."""
    drained: bool = False
    """The relay sent GOAWAY."""
    stays: bool = False
    """The relay sent GOAWAY, and then let the session stay."""
    top_n: int | None = None
    """The Top-N option of its SETUP."""
    path: str = ""
    """The path in its SETUP, over raw QUIC."""
    grant: Grant | None = None
    requests: dict[int, Record] = field(default_factory=dict)
    feeds: dict[Source, None] = field(default_factory=dict)
    """Its sources; those without a request too."""
    load: Counter[Load] = field(default_factory=Counter)
    blocked: deque[Callable[[float], None]] = field(default_factory=deque)
    """Requests of ours that wait for MAX_REQUEST_ID (draft 16)."""
    credit: float = 0.0
    """Requests that it may make at once."""
    credited: float = 0.0
    """When ``credit`` was counted."""

    @property
    def draft(self) -> Draft:
        """The MoQT draft of the session."""
        return self.info.draft

    @property
    def usable(self) -> bool:
        """Whether the relay may make requests to the session."""
        return self.ready and not self.closed and not self.leaving

    def alias(self, track: Track) -> int:
        """Return the track alias that the session knows a track by."""
        choose = self.info.alias
        return track.number if choose is None else choose(track.name)


@dataclass(slots=True, eq=False, kw_only=True)
class Track:
    """One track, from the first request about it until it is forgotten."""

    number: int
    name: FullTrackName
    sources: dict[int, Source] = field(default_factory=dict)
    """By session."""
    refused: set[int] = field(default_factory=set)
    """Sessions that rejected our SUBSCRIBE; not asked again while another one publishes."""
    refusal: tuple[RequestErrorCode, str] | None = None
    """The error code and reason of the last rejection."""
    receivers: dict[int, Receiver] = field(default_factory=dict)
    """By session: each has one at most (moq-transport-16, 5.1)."""
    fetches: dict[FetchJob, None] = field(default_factory=dict)
    fed: bool = False
    """Whether it has had a publisher."""
    instance: int | None = None
    """Of the publisher that fed it last: see ``TrackProperties.publisher_instance``."""
    parting: tuple[str, str] | None = None
    """The status and reason with which the last source left; None while there is one."""
    goes_on: bool = False
    """Whether the next publisher is the former one, so that its objects stay known."""
    installed: bool = False
    """Whether the forwarding plane knows it."""
    stale: bool = False
    """No publisher is left: only its cache is."""
    properties: KeyValues = ()
    properties_draft: Draft = Draft.D18
    facts: TrackProperties = field(default_factory=TrackProperties)
    hint: Location | None = None
    """The largest location in SUBSCRIBE_OK or PUBLISH of a publisher."""
    final: Location | None = None
    """Where the track ends, once that is known."""
    finish_by: float = 0.0
    """How long streams are waited for that were under way then."""
    group_asked: tuple[int, int] | None = None
    """A NEW_GROUP_REQUEST under way: its value and the largest group then, -1 for none."""
    rank: int | None = None
    ranked: bool = False
    """Whether the plane reports its rank."""

    @property
    def established(self) -> bool:
        """Whether a publisher feeds the track."""
        return any(source.stage is Stage.ESTABLISHED for source in self.sources.values())

    @property
    def pending(self) -> bool:
        """Whether a publisher was asked and has not answered."""
        return any(source.stage is Stage.PENDING for source in self.sources.values())

    def receivers_for(self, client: Client) -> Iterator[Receiver]:
        """Return the receivers that a session would feed: not its own, if relays are behind it."""
        if not client.info.peering:
            return iter(self.receivers.values())
        return (other for session, other in self.receivers.items() if session != client.id)

    @property
    def pushed(self) -> bool:
        """Whether a publisher sent PUBLISH."""
        return any(source.pushed and source.live for source in self.sources.values())


@dataclass(slots=True, eq=False, kw_only=True)
class Source:
    """A session that feeds a track, or that the relay has asked to."""

    client: Client
    track: Track
    pushed: bool
    """It sent PUBLISH; otherwise we sent SUBSCRIBE."""
    request_id: int | None = None
    """None while our SUBSCRIBE waits to be sent."""
    stage: Stage = Stage.PENDING
    alias: int = 0
    forward: bool = True
    """The Forward State that it knows from us."""
    filter: SubscriptionFilter | None = None
    """The filter of our SUBSCRIBE."""
    status: str = ""
    """The status of the PUBLISH_DONE."""
    reason: str = ""
    promised: int = 0
    """The stream count of the PUBLISH_DONE."""
    done_by: float = 0.0
    """Until when the relay waits for the last of those streams."""
    grant: Grant | None = None

    @property
    def live(self) -> bool:
        """Whether the source feeds its track now."""
        return self.stage is Stage.ESTABLISHED

    @property
    def receivers(self) -> Iterator[Receiver]:
        """The receivers that the source feeds: not its own session, if relays are behind that."""
        return self.track.receivers_for(self.client)

    @property
    def unused(self) -> bool:
        """Whether the relay has subscribed here, and no receiver is left."""
        return not self.pushed and next(self.receivers, None) is None


@dataclass(slots=True, eq=False, kw_only=True)
class Receiver:
    """A session that receives a track, or waits for a publisher of it."""

    client: Client
    track: Track
    pushed: bool
    """We sent PUBLISH; otherwise it sent SUBSCRIBE."""
    request_id: int
    stage: Stage = Stage.PENDING
    forward: bool = True
    priority: int = 128
    order: GroupOrder | None = None
    filter: SubscriptionFilter | None = None
    timeout: int | None = None
    """Delivery timeout in milliseconds; None or 0: the track's."""
    joining: Location | None = None
    """The largest location when it began: where joining FETCHes end."""
    start: Location | None = None
    end_group: int | None = None
    patience: float = 0.0
    """Until when it waits for a publisher."""
    rendezvous: bool = False
    """Whether the SUBSCRIBE has a rendezvous timeout (draft 18)."""
    new_group: int | None = None
    updates: list[int] = field(default_factory=list)
    """Updates that came before the answer."""
    joins: list[FetchJob] = field(default_factory=list)
    """Joining FETCHes that came before the answer."""
    watch: Watch | None = None
    """Why we sent PUBLISH."""
    grant: Grant | None = None
    lost: tuple[str, str] | None = None
    """The status and reason with which it ends unless a publisher comes back in time."""
    ending: tuple[str, str] | None = None
    """The status and reason of its PUBLISH_DONE, which waits for streams that are behind."""

    @property
    def subscription(self) -> Subscription:
        """The key of the receiver in the forwarding plane."""
        return Subscription(self.client.id, self.request_id)

    @property
    def alias(self) -> int:
        """The track alias that the receiver knows the track by."""
        return self.client.alias(self.track)

    @property
    def sources(self) -> list[Source]:
        """The sources that feed it or were asked to: not its own session, if that has relays."""
        own = self.client.id if self.client.info.peering else None
        return [source for session, source in self.track.sources.items() if session != own]

    @property
    def fed(self) -> bool:
        """Whether a publisher feeds the receiver."""
        return any(source.live for source in self.sources)

    @property
    def expects(self) -> bool:
        """Whether a source has not answered yet, or is behind PUBLISH_DONE.

        When such a source ends, all other publishers are asked again.
        """
        return any(not source.live for source in self.sources)


@dataclass(slots=True, eq=False, kw_only=True)
class Offer:
    """A namespace that a session publishes."""

    client: Client
    request_id: int
    namespace: Namespace
    grant: Grant | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Watch:
    """A prefix of which a session subscribed to the namespaces, the tracks, or both."""

    client: Client
    request_id: int
    prefix: Namespace
    namespaces: bool
    tracks: bool
    forward: bool = True
    ranking: Ranking | None = None
    """For Top-N."""
    sent: dict[Namespace, None] = field(default_factory=dict)
    """The namespaces that NAMESPACE was sent for."""
    blocked: dict[FullTrackName, None] = field(default_factory=dict)
    """Tracks that PUBLISH_BLOCKED was sent for: no PUBLISH follows."""
    declined: set[int] = field(default_factory=set)
    """Tracks that the session gave up: offered again only after a new PUBLISH."""
    grant: Grant | None = None

    def suffix(self, namespace: Namespace) -> Namespace:
        """Return the fields of a namespace behind the prefix."""
        return Namespace(namespace.fields[len(self.prefix.fields) :])


@dataclass(slots=True, eq=False, kw_only=True)
class FetchJob:
    """A FETCH of a client."""

    client: Client
    request_id: int
    message: Fetch
    track: Track | None = None
    span: Span | None = None
    answered: bool = False
    leg: FetchLeg | None = None
    asked: list[Client] = field(default_factory=list)
    """The publishers that were asked already."""
    error: tuple[RequestErrorCode, str] | None = None
    """The first error of those publishers."""
    joined: bool = False
    """Whether it has waited for another one."""
    grant: Grant | None = None

    @property
    def subscription(self) -> Subscription:
        """The key of the FETCH in the forwarding plane."""
        return Subscription(self.client.id, self.request_id)


@dataclass(slots=True, eq=False, kw_only=True)
class FetchLeg:
    """A FETCH of the relay to a publisher."""

    client: Client
    request_id: int
    job: FetchJob | None
    """None after the client of the FETCH has left."""
    grant: Grant | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class StatusLeg:
    """A TRACK_STATUS of the relay to a publisher."""

    client: Client
    request_id: int
    asker: Client
    asker_request: int
    grant: Grant | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Deposit:
    """A PUBLISH of a track that the relay consumes itself: the reports of a player."""

    client: Client
    request_id: int
    alias: int
    grant: Grant | None = None


Record: TypeAlias = Source | Receiver | Offer | Watch | FetchJob | FetchLeg | StatusLeg | Deposit
