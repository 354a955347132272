"""The streams and requests of a session, and the requests that it rejects by itself.

A stream may carry one request, and a request may have its own stream::

    Streams   stream id, StreamRef -> Stream  --request-->  Request  <- request id   Requests
                                              <--stream---           <- track, alias

    stream id bits (RFC 9000, 2.1)         halves of a request stream that we opened
    ...x0  opened by the client            sending   until we send FIN or RESET_STREAM
    ...x1  opened by the server            receiving until the peer's FIN or RESET_STREAM
    ...0x  bidirectional                   when both are over, the session forgets the stream,
    ...1x  unidirectional                  one poll_transmit later: its last actions name it

WebTransport streams have the ID of their QUIC stream, so the bits are valid there too. A stream
buffers less than one control message: type, length and at most 65535 bytes. Streams of objects are
never buffered here.

A :class:`Request` is the same record for our requests and the peer's. It has two states::

    state     the state that we know: our own commands are checked against it
    shadow    the state that the peer can know, without our end of the request: the peer's
              messages are checked against it

Until the request ends the two are equal, except for the end of a FETCH's data stream, which each
side observes independently. :mod:`laps_wire.moqt.session.state` explains why this is sufficient.

The drafts require that a session rejects some requests. The application does not receive them as
requests, but gets a ``RequestRefused`` event for its log::

    DUPLICATE_SUBSCRIPTION      a second subscription to a track with the same roles  (16: 5.1)
    PREFIX_OVERLAP              a prefix that overlaps with one already subscribed    (16: 9.25)
    INVALID_JOINING_REQUEST_ID  a joining FETCH without its subscription              (16: 9.16.2)
    INVALID_RANGE               an end before the start; draft 18: joining a subscription
                                whose Forward State is 0                             (18: 10.12.2)
    GOING_AWAY                  any request after our GOAWAY, draft 18                (18: 10.4)
    DOES_NOT_EXIST              reserved namespaces, draft 18                         (18: 3.2.1)
    EXCESSIVE_LOAD              more open requests than ``max_requests``, draft 18; draft 16 has
                                MAX_REQUEST_ID for it

Faults that must close the session are raised: DUPLICATE_TRACK_ALIAS, and in draft 16 joining a
subscription with a filter other than Largest Object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeAlias, TypeVar

from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.moqt.codepoints import FilterType, RequestErrorCode
from laps_wire.moqt.errors import DuplicateTrackAlias
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    Fetch,
    FetchOk,
    FetchTarget,
    Publish,
    PublishNamespace,
    RelativeJoiningFetch,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.session.events import (
    Action,
    CloseSession,
    OpenStream,
    RequestMessage,
    ResetStream,
    Role,
    SendData,
    StopSending,
    StreamRef,
)
from laps_wire.moqt.session.state import Actor, Kind, Migration, Signal, State, advance
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "KINDS",
    "MAX_FORGOTTEN",
    "SESSION_NAMESPACE",
    "Purpose",
    "Recent",
    "Refusal",
    "Request",
    "Requests",
    "Stream",
    "Streams",
    "check_alias",
    "check_fetch_ok",
    "is_reserved",
    "is_unidirectional",
    "namespace_of",
    "opened_by",
    "overlap",
    "prefix_of",
    "refusal",
    "track_of",
]


V = TypeVar("V")


class Recent(Generic[V]):
    """A dictionary that removes its oldest entry when it is full."""

    __slots__ = ("_entries", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[int, V] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: int) -> V | None:
        """Return the value of ``key``; None if it was never stored or is removed."""
        return self._entries.get(key)

    def put(self, key: int, value: V) -> None:
        """Store ``value``; remove the oldest entry if there are too many."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]


MAX_FORGOTTEN: Final = 1024
"""The most ended streams that are remembered, so that a late frame does not open them again."""


def opened_by(stream_id: int) -> Role:
    """Return the role that opened a stream, from its ID."""
    return Role.SERVER if stream_id & 1 else Role.CLIENT


def is_unidirectional(stream_id: int) -> bool:
    """Return whether a stream is unidirectional, from its ID."""
    return bool(stream_id & 2)


class Purpose(Enum):
    """The purpose of a stream in a session."""

    UNKNOWN = "unknown"
    """A stream of the peer whose first bytes have not arrived yet."""
    CONTROL = "control"
    REQUEST = "request"
    IGNORED = "ignored"
    """Padding, or a request that we cancelled: further bytes are dropped."""


@dataclass(slots=True, eq=False)
class Stream:
    """One stream; both halves if it is bidirectional."""

    ref: StreamRef
    stream_id: int | None
    """None until the shell has bound the stream."""
    sending: bool
    """Whether our half exists and is open."""
    receiving: bool
    """Whether the peer's half exists and is open."""
    purpose: Purpose = Purpose.UNKNOWN
    buffer: bytearray = field(default_factory=bytearray)
    """Bytes of an incomplete message."""
    wanted: int = 0
    """The least number of buffered bytes with which a message can be complete."""
    request: Request | None = None
    """The request of this stream."""
    finished: bool = False
    """Whether the peer's FIN arrived while the bytes were still held."""
    stopped: int | None = None
    """The code of a STOP_SENDING that arrived before the purpose was known."""


class Streams:
    """All streams of a session, and the actions on them."""

    __slots__ = ("_actions", "_by_id", "_by_ref", "_forgotten", "_over", "_role", "_serial")

    def __init__(self, role: Role) -> None:
        self._role = role
        self._serial = 0
        self._by_ref: dict[StreamRef, Stream] = {}
        self._by_id: dict[int, Stream] = {}
        self._actions: list[Action] = []
        self._forgotten: Recent[bool] = Recent(MAX_FORGOTTEN)
        """IDs of ended streams, because a STOP_SENDING may arrive late."""
        self._over: list[Stream] = []
        """Ended streams whose last actions were not polled yet, or are being carried out."""

    def __len__(self) -> int:
        return len(self._by_ref) - len(self._over)

    @property
    def is_idle(self) -> bool:
        """Whether :meth:`drain` would do nothing."""
        return not self._actions and not self._over

    def drain(self) -> list[Action]:
        """Return all actions in order, and remove them."""
        if not self._actions and not self._over:
            return []
        actions, self._actions = self._actions, []
        # Refs in these actions must resolve while the shell works on them: forget all others.
        named = {action.stream for action in actions if not isinstance(action, CloseSession)}
        for stream in self._over:
            if stream.ref not in named:
                self.hand_over(stream)
        self._over = [stream for stream in self._over if stream.ref in named]
        return actions

    def close(self, code: int, reason: str) -> None:
        """Close the connection after all previous actions."""
        self._actions.append(CloseSession(code, reason))

    def _new(self, stream_id: int | None, *, sending: bool, receiving: bool) -> Stream:
        ref = StreamRef(self._serial)
        self._serial += 1
        stream = Stream(ref, stream_id, sending, receiving)
        self._by_ref[ref] = stream
        if stream_id is not None:
            self._by_id[stream_id] = stream
        return stream

    def open(self, purpose: Purpose, *, unidirectional: bool) -> Stream:
        """Open a stream."""
        stream = self._new(None, sending=True, receiving=not unidirectional)
        stream.purpose = purpose
        self._actions.append(OpenStream(stream.ref, unidirectional))
        return stream

    def bind(self, ref: StreamRef, stream_id: int) -> None:
        """Set the ID that the transport assigned to one of our streams."""
        stream = self._by_ref.get(ref)
        if stream is None or stream.stream_id is not None or stream_id in self._by_id:
            raise StateError(f"{ref} cannot be bound to stream {stream_id}: one of them is taken")
        if opened_by(stream_id) is not self._role:
            raise StateError(f"stream {stream_id} is not one that a {self._role.name} opens")
        if is_unidirectional(stream_id) == stream.receiving:
            raise StateError(f"stream {stream_id} has the wrong number of directions for {ref}")
        stream.stream_id = stream_id
        self._by_id[stream_id] = stream

    def stream_id(self, ref: StreamRef) -> int:
        """Return the ID that ``ref`` is bound to."""
        stream = self._by_ref.get(ref)
        if stream is None or stream.stream_id is None:
            raise StateError(f"{ref} is not bound to a stream")
        return stream.stream_id

    def find(self, stream_id: int) -> Stream | None:
        """Return the stream with this ID; None if the session does not know it."""
        return self._by_id.get(stream_id)

    def incoming(self, stream_id: int) -> Stream | None:
        """Return the stream of a received frame; create it if the peer has just opened it.

        None if the stream has ended for the session.
        """
        stream = self._by_id.get(stream_id)
        if stream is not None or self._forgotten.get(stream_id):
            return stream
        if opened_by(stream_id) is self._role:
            raise StateError(f"stream {stream_id} is ours, but bind_stream was not called for it")
        return self._new(stream_id, sending=not is_unidirectional(stream_id), receiving=True)

    # Our half

    def send(self, stream: Stream, data: bytes, *, fin: bool = False) -> None:
        """Send bytes; do nothing if our half is over."""
        if stream.sending and (data or fin):
            self._actions.append(SendData(stream.ref, data, fin))
            if fin:
                self._sent_all(stream)

    def finish(self, stream: Stream) -> None:
        """Close our half with FIN, if it is open."""
        self.send(stream, b"", fin=True)

    def reset(self, stream: Stream, code: int) -> None:
        """Reset our half, if it is open."""
        if stream.sending:
            self._actions.append(ResetStream(stream.ref, code))
            self._sent_all(stream)

    def _sent_all(self, stream: Stream) -> None:
        stream.sending = False
        self._forget_if_over(stream)

    # The peer's half

    def stop(self, stream: Stream, code: int) -> None:
        """Send STOP_SENDING if the peer's half is open, and drop further bytes."""
        stream.purpose = Purpose.IGNORED
        stream.buffer.clear()
        if stream.receiving:
            self._actions.append(StopSending(stream.ref, code))

    def received_all(self, stream: Stream) -> None:
        """Record the end of the peer's half: its FIN or RESET_STREAM."""
        if stream.receiving:
            stream.receiving = False
            self._forget_if_over(stream)

    def hand_over(self, stream: Stream) -> None:
        """Remove a stream that the data plane takes over."""
        stream_id = self.stream_id(stream.ref)
        del self._by_ref[stream.ref]
        del self._by_id[stream_id]
        self._forgotten.put(stream_id, True)

    def _forget_if_over(self, stream: Stream) -> None:
        if not stream.sending and not stream.receiving:
            self._over.append(stream)


KINDS: dict[type[RequestMessage], Kind] = {
    Subscribe: Kind.SUBSCRIBE,
    Publish: Kind.PUBLISH,
    Fetch: Kind.FETCH,
    TrackStatus: Kind.TRACK_STATUS,
    PublishNamespace: Kind.PUBLISH_NAMESPACE,
    SubscribeNamespace: Kind.SUBSCRIBE_NAMESPACE,
    SubscribeTracks: Kind.SUBSCRIBE_TRACKS,
}
"""The kind of request that a message starts."""

_SUBSCRIPTIONS = (Kind.SUBSCRIBE, Kind.PUBLISH)


def track_of(message: RequestMessage) -> FullTrackName | None:
    """Return the track that a request names; None if it names none."""
    match message:
        case Subscribe() | Publish() | TrackStatus():
            return message.track
        case Fetch(target=StandaloneFetch(track=track)):
            return track
        case _:
            return None


def prefix_of(message: RequestMessage) -> Namespace | None:
    """Return the prefix of a namespace subscription; None for other requests."""
    match message:
        case SubscribeNamespace() | SubscribeTracks():
            return message.prefix
        case _:
            return None


@dataclass(slots=True, eq=False)
class Request:
    """One request, ours or the peer's."""

    draft: Draft
    message: RequestMessage
    ours: bool
    """Whether we sent the request."""
    stream: Stream | None = None
    """The request's own stream, if it has one."""
    state: State = State.PENDING
    shadow: State = State.PENDING
    track_alias: int | None = None
    forward: bool = True
    """A subscription's Forward State (moq-transport-16, 5.1)."""
    filter: SubscriptionFilter | None = None
    """A subscription's filter, as updated."""
    prefix: Namespace | None = None
    """A namespace subscription's prefix, as updated."""
    namespaces: dict[Namespace, None] = field(default_factory=dict)
    """The advertised namespaces of a SUBSCRIBE_NAMESPACE, with prefix, oldest first."""
    our_updates: deque[int] = field(default_factory=deque)
    """Our unanswered updates, oldest first."""
    their_updates: deque[int] = field(default_factory=deque)
    """Unanswered updates of the peer, oldest first."""
    late_answers: int = 0
    """Draft 18: the number of our updates that a REQUEST_ERROR for an older one may also have
    answered. So many answers may still arrive, and are ignored."""
    prefixes: dict[int, Namespace] = field(default_factory=dict)
    """The prefixes in unanswered updates of either side, by update."""
    their_goaway: Migration = Migration.STAYING
    our_goaway: Migration = Migration.STAYING

    def __post_init__(self) -> None:
        self.prefix = prefix_of(self.message)
        if isinstance(self.message, Publish):
            self.track_alias = self.message.track_alias
        if self.is_subscription:
            self.note_parameters(self.message)

    @property
    def id(self) -> int:
        """The Request ID."""
        return self.message.request_id

    @property
    def kind(self) -> Kind:
        """The kind of the request."""
        return KINDS[type(self.message)]

    @property
    def own_stream(self) -> Stream:
        """The request's own stream; raises if there is none."""
        if self.stream is None:
            raise StateError(f"{self.kind.value} {self.id} has no stream of its own")
        return self.stream

    @property
    def track(self) -> FullTrackName | None:
        """The track that the request names."""
        return track_of(self.message)

    @property
    def is_subscription(self) -> bool:
        """Whether the request is a subscription: SUBSCRIBE or PUBLISH."""
        return self.kind in _SUBSCRIPTIONS

    @property
    def over(self) -> bool:
        """Whether the request has ended on our side."""
        return self.state is State.TERMINATED

    @property
    def us(self) -> Actor:
        """Our side of the request."""
        return Actor.REQUESTER if self.ours else Actor.RESPONDER

    @property
    def we_publish(self) -> bool:
        """Whether we are the publisher of a subscription."""
        return self.ours == (self.kind is Kind.PUBLISH)

    def note_parameters(self, message: object) -> None:
        """Store the forward state and the filter of a message; absent ones stay unchanged."""
        parameters = getattr(message, "parameters", None)
        if parameters is not None:
            if parameters.forward is not None:
                self.forward = parameters.forward
            if parameters.subscription_filter is not None:
                self.filter = parameters.subscription_filter

    def join(self, suffix: Namespace) -> Namespace:
        """Return prefix and suffix as one namespace; raise EncodeError if it is not valid."""
        prefix = self.prefix or Namespace()
        return Namespace(prefix.fields + suffix.fields)

    # States

    def check_ours(self, signal: Signal) -> State:
        """Return the state after a command of ours; raise StateError if it is not allowed."""
        state = advance(self.draft, self.kind, self.state, self.us, signal)
        if state is None:
            raise StateError(
                f"{self.kind.value} {self.id} is {self.state.value}:"
                f" its {self.us.value} cannot {signal.value!r} now"
            )
        return state

    def apply_ours(self, signal: Signal) -> None:
        """Apply a command of ours to both states."""
        self.state = self.check_ours(signal)
        if signal is not Signal.DATA_END:
            seen = advance(self.draft, self.kind, self.shadow, self.us, signal)
            if seen is not None and seen is not State.TERMINATED:
                self.shadow = seen

    def apply_theirs(self, signal: Signal) -> bool:
        """Apply a signal of the peer; return False if the request was already over."""
        them = self.us.other
        shadow = advance(self.draft, self.kind, self.shadow, them, signal)
        if shadow is None:
            raise ProtocolViolation(
                f"{self.kind.value} {self.id} is {self.shadow.value}:"
                f" its {them.value} cannot {signal.value!r} now"
            )
        self.shadow = shadow
        if self.over:
            return False
        state = advance(self.draft, self.kind, self.state, them, signal)
        # A signal that the shadow allows is allowed in our state too, or has no effect on it.
        self.state = self.state if state is None else state
        return True


class Requests:
    """All open requests of a session, those that ended recently, and indexes."""

    __slots__ = ("_aliases", "_live", "_tracks", "ended", "theirs")

    def __init__(self, max_ended: int) -> None:
        self._live: dict[int, Request] = {}
        self._tracks: dict[tuple[bool, FullTrackName], dict[int, Request]] = {}
        """Subscriptions by (we publish, track)."""
        self._aliases: dict[tuple[bool, int], dict[int, Request]] = {}
        """Subscriptions by (we publish, track alias)."""
        self.ended: Recent[Request] = Recent(max_ended)
        """Ended requests: messages of the peer about them are checked and dropped."""
        self.theirs = 0
        """The number of open requests of the peer."""

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._live.values()))

    def get(self, request_id: int) -> Request | None:
        """Return an open request; None if there is none."""
        return self._live.get(request_id)

    def add(self, request: Request) -> None:
        """Add a new request."""
        self._live[request.id] = request
        self.theirs += not request.ours
        if request.is_subscription and request.track is not None:
            key = (request.we_publish, request.track)
            self._tracks.setdefault(key, {})[request.id] = request
        if request.track_alias is not None:
            self.add_alias(request, request.track_alias)

    def add_alias(self, request: Request, track_alias: int) -> None:
        """Store the alias of a subscription."""
        request.track_alias = track_alias
        key = (request.we_publish, track_alias)
        self._aliases.setdefault(key, {})[request.id] = request

    def end(self, request: Request) -> None:
        """Move a request to the ended ones."""
        del self._live[request.id]
        self.theirs -= not request.ours
        if request.is_subscription and request.track is not None:
            _discard(self._tracks, (request.we_publish, request.track), request)
        if request.track_alias is not None:
            _discard(self._aliases, (request.we_publish, request.track_alias), request)
        self.ended.put(request.id, request)

    def clear(self) -> None:
        """Remove all open requests, at the end of the session."""
        self._live.clear()
        self._tracks.clear()
        self._aliases.clear()
        self.theirs = 0

    def subscriptions(self, track: FullTrackName, *, we_publish: bool) -> list[Request]:
        """Return the subscriptions to a track in which we are the publisher, or the subscriber."""
        return list(self._tracks.get((we_publish, track), {}).values())

    def alias_holder(
        self, track_alias: int, track: FullTrackName | None, *, we_publish: bool
    ) -> Request | None:
        """Return a subscription to *another* track that has this alias; None if there is none."""
        for request in self._aliases.get((we_publish, track_alias), {}).values():
            if request.track != track:
                return request
        return None

    def overlapping(self, kind: Kind, prefix: Namespace, but: Request | None) -> Request | None:
        """Return a namespace subscription of the peer whose prefix overlaps with ``prefix``.

        Prefixes overlap if one is the beginning of the other, so that a namespace could match both.
        The prefixes in unanswered updates count too: otherwise both could be accepted.
        """
        for other in self._live.values():
            if other.kind is not kind or other.ours or other is but or other.prefix is None:
                continue
            for held in (other.prefix, *other.prefixes.values()):
                if held.is_prefix_of(prefix) or prefix.is_prefix_of(held):
                    return other
        return None


K = TypeVar("K")


def _discard(index: dict[K, dict[int, Request]], key: K, request: Request) -> None:
    entries = index[key]
    del entries[request.id]
    if not entries:
        del index[key]


# Refusals

SESSION_NAMESPACE = b".session"
"""The first field of session-level tracks, which no extension of ours defines (18: 3.2.2)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is rejected."""

    code: RequestErrorCode
    reason: str


_Answer: TypeAlias = Refusal | None


def refusal(
    message: RequestMessage, requests: Requests, draft: Draft, *, max_requests: int, leaving: bool
) -> Refusal | None:
    """Return why to reject ``message``, which is not in ``requests`` yet; None to accept it."""
    if draft is Draft.D18:
        if leaving:
            return Refusal(RequestErrorCode.GOING_AWAY, "GOAWAY was sent")
        if requests.theirs >= max_requests:
            return Refusal(RequestErrorCode.EXCESSIVE_LOAD, f"{max_requests} requests are open")
        if is_reserved(namespace_of(message)):
            return Refusal(RequestErrorCode.DOES_NOT_EXIST, "a reserved namespace")
    if isinstance(message, Subscribe):
        return _subscribe(message, requests)
    if isinstance(message, Publish):
        return _publish(message, requests)
    if isinstance(message, Fetch):
        return _fetch(message.target, requests, draft)
    prefix = prefix_of(message)
    if prefix is None:
        return None
    return overlap(KINDS[type(message)], prefix, requests)


def _subscribe(message: Subscribe, requests: Requests) -> _Answer:
    for other in requests.subscriptions(message.track, we_publish=True):
        return Refusal(
            RequestErrorCode.DUPLICATE_SUBSCRIPTION, f"request {other.id} is for this track"
        )
    return None


def _publish(message: Publish, requests: Requests) -> _Answer:
    check_alias(message.track_alias, message.track, requests)
    for other in requests.subscriptions(message.track, we_publish=False):
        # Our own SUBSCRIBE may cross a PUBLISH: then the application chooses between them.
        if other.kind is Kind.PUBLISH or other.state is not State.PENDING:
            return Refusal(
                RequestErrorCode.DUPLICATE_SUBSCRIPTION, f"request {other.id} is for this track"
            )
    return None


def _fetch(target: FetchTarget, requests: Requests, draft: Draft) -> _Answer:
    if isinstance(target, StandaloneFetch):
        if _ends_before(target.end, target.start):
            return Refusal(RequestErrorCode.INVALID_RANGE, "the end is before the start")
        return None
    joined = requests.get(target.joining_request_id)
    if (
        joined is None
        or not joined.is_subscription
        or not joined.we_publish
        or not (
            joined.state is State.ESTABLISHED
            or (joined.state is State.PENDING and joined.kind is Kind.SUBSCRIBE)
        )
    ):
        return Refusal(
            RequestErrorCode.INVALID_JOINING_REQUEST_ID,
            f"request {target.joining_request_id} is not a subscription that can be joined",
        )
    if draft is Draft.D18:
        if not joined.forward:
            return Refusal(RequestErrorCode.INVALID_RANGE, "the subscription's Forward State is 0")
    elif joined.filter is not None and joined.filter.type is not FilterType.LARGEST_OBJECT:
        # A subscription without a filter can be joined.
        raise ProtocolViolation(
            f"a joining FETCH for request {joined.id} with filter {joined.filter.type.name}"
        )
    return None


def overlap(kind: Kind, prefix: Namespace, requests: Requests, but: int = -1) -> _Answer:
    """Return PREFIX_OVERLAP if another subscription of ``kind`` than ``but`` overlaps."""
    other = requests.overlapping(kind, prefix, requests.get(but))
    if other is None:
        return None
    return Refusal(RequestErrorCode.PREFIX_OVERLAP, f"request {other.id} has such a prefix")


def check_alias(track_alias: int, track: FullTrackName | None, requests: Requests) -> None:
    """Raise DuplicateTrackAlias if the peer uses the alias for another track."""
    other = requests.alias_holder(track_alias, track, we_publish=False)
    if other is not None:
        raise DuplicateTrackAlias(f"track alias {track_alias} belongs to request {other.id}")


def check_fetch_ok(target: FetchTarget, message: FetchOk) -> None:
    """Raise if a FETCH_OK ends before its FETCH starts (moq-transport-16, 9.17)."""
    if isinstance(target, RelativeJoiningFetch):
        return  # only the publisher knows its start
    if isinstance(target, AbsoluteJoiningFetch):
        start = Location(target.joining_start, 0)
    else:
        start = target.start
    if _ends_before(message.end_location, start):
        raise ProtocolViolation(f"FETCH_OK ends at {message.end_location}, before {start}")


def _ends_before(end: Location, start: Location) -> bool:
    """Return whether an end in FETCH's form (object 0: the whole group) is before ``start``."""
    if end.object == 0:
        return end.group < start.group
    return end < start


def namespace_of(message: RequestMessage) -> Namespace | None:
    """Return the namespace or prefix that a request names."""
    track = track_of(message)
    if track is not None:
        return track.namespace
    if isinstance(message, PublishNamespace):
        return message.namespace
    return prefix_of(message)


def is_reserved(namespace: Namespace | None) -> bool:
    """Return whether requests for this namespace must be rejected (moq-transport-18, 3.2.1, 3.2.2).

    ``.`` is never used. ``.session`` belongs to extensions, of which we have none. The application
    decides about other namespaces that begin with a period.
    """
    return (
        namespace is not None
        and bool(namespace.fields)
        and namespace.fields[0] in (b".", SESSION_NAMESPACE)
    )
