"""The tables of a session: its streams, its requests, and how they refer to each other.

A stream may carry one request, and a request may have a stream of its own::

    Streams   stream id, StreamRef -> Stream  --request-->  Request  <- request id   Requests
                                              <--stream---           <- track, alias

    stream id bits (RFC 9000, 2.1)         halves of a request stream that we opened
    ...x0  opened by the client            sending   until we send FIN or RESET_STREAM
    ...x1  opened by the server            receiving until the peer's FIN or RESET_STREAM
    ...0x  bidirectional                   when both are over the session forgets the stream,
    ...1x  unidirectional                  one poll_transmit later: its last actions name it

WebTransport streams keep the id of the QUIC stream below them, so the bits hold there too. A stream
buffers less than one control message: type, length and at most 65535 bytes. Streams of objects are
never buffered here.

A :class:`Request` is the same record for our requests and the peer's. It has two states::

    state     what has happened, as far as we know: our own commands are checked against it
    shadow    the same without what the peer cannot know yet, above all that we ended the request:
              the peer's messages are checked against it

While nobody has ended the request the two are equal, except for the end of a FETCH's data stream,
which each side sees by itself. :mod:`laps_wire.moqt.session.state` explains why this is enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from laps_wire.errors import ProtocolViolation, StateError
from laps_wire.moqt.messages import (
    Fetch,
    Publish,
    PublishNamespace,
    StandaloneFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeTracks,
    TrackStatus,
)
from laps_wire.moqt.session.actions import (
    Action,
    CloseSession,
    OpenStream,
    ResetStream,
    SendData,
    StopSending,
    StreamRef,
)
from laps_wire.moqt.session.config import Role
from laps_wire.moqt.session.events import RequestMessage
from laps_wire.moqt.session.state import Actor, Kind, Migration, Signal, State, advance
from laps_wire.moqt.structures import SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "KINDS",
    "MAX_FORGOTTEN",
    "Purpose",
    "Recent",
    "Request",
    "Requests",
    "Stream",
    "Streams",
    "is_unidirectional",
    "opened_by",
    "prefix_of",
    "track_of",
]

V = TypeVar("V")


class Recent(Generic[V]):
    """A dictionary that forgets its oldest entry when it is full."""

    __slots__ = ("_entries", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[int, V] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: int) -> V | None:
        """The value of ``key``, or None if it was never put or is forgotten."""
        return self._entries.get(key)

    def put(self, key: int, value: V) -> None:
        """Store ``value``; the oldest entry goes if there are too many."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]


MAX_FORGOTTEN: Final = 1024
"""How many streams that are over are remembered, so that nothing late makes them new again."""


def opened_by(stream_id: int) -> Role:
    """Who opened a stream, from its id."""
    return Role.SERVER if stream_id & 1 else Role.CLIENT


def is_unidirectional(stream_id: int) -> bool:
    """Whether a stream has one direction only, from its id."""
    return bool(stream_id & 2)


class Purpose(Enum):
    """What a stream is for, as far as the session is concerned."""

    UNKNOWN = "unknown"
    """The peer's, and its first bytes have not said yet."""
    CONTROL = "control"
    REQUEST = "request"
    IGNORED = "ignored"
    """Padding, or a request that we cancelled: what still comes is dropped."""


@dataclass(slots=True, eq=False)
class Stream:
    """One stream; both halves of it if it is bidirectional."""

    ref: StreamRef
    stream_id: int | None
    """None until the shell has bound it."""
    sending: bool
    """Whether our half exists and is open."""
    receiving: bool
    """Whether the peer's half exists and is open."""
    purpose: Purpose = Purpose.UNKNOWN
    buffer: bytearray = field(default_factory=bytearray)
    """Bytes that do not make a whole message yet."""
    wanted: int = 0
    """How many bytes the buffer needs before it is worth another look."""
    request: Request | None = None
    """The request that lives on this stream."""
    finished: bool = False
    """Whether the peer's FIN came while its bytes were still held back."""
    stopped: int | None = None
    """The code of a STOP_SENDING that came before the stream said what it is for."""


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
        """Ids of streams that were forgotten, for a STOP_SENDING may come late."""
        self._over: list[Stream] = []
        """Streams whose last actions were not handed out yet, or are being carried out."""

    def __len__(self) -> int:
        return len(self._by_ref) - len(self._over)

    @property
    def is_idle(self) -> bool:
        """Whether :meth:`drain` has nothing to give, and nothing to forget."""
        return not self._actions and not self._over

    def drain(self) -> list[Action]:
        """Take all actions, in order."""
        if not self._actions and not self._over:
            return []
        actions, self._actions = self._actions, []
        # Refs in these actions must resolve while the shell works on them: forget those before.
        named = {action.stream for action in actions if not isinstance(action, CloseSession)}
        for stream in self._over:
            if stream.ref not in named:
                self.hand_over(stream)
        self._over = [stream for stream in self._over if stream.ref in named]
        return actions

    def close(self, code: int, reason: str) -> None:
        """Close the connection behind everything that was asked for before."""
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
        """Open a stream of ours."""
        stream = self._new(None, sending=True, receiving=not unidirectional)
        stream.purpose = purpose
        self._actions.append(OpenStream(stream.ref, unidirectional))
        return stream

    def bind(self, ref: StreamRef, stream_id: int) -> None:
        """Give one of our streams the id that the transport gave it."""
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
        """The id that ``ref`` is bound to."""
        stream = self._by_ref.get(ref)
        if stream is None or stream.stream_id is None:
            raise StateError(f"{ref} is not bound to a stream")
        return stream.stream_id

    def find(self, stream_id: int) -> Stream | None:
        """The stream with this id, if the session knows it."""
        return self._by_id.get(stream_id)

    def incoming(self, stream_id: int) -> Stream | None:
        """The stream that something from the peer belongs to; a new one of the peer's is noted.

        None if the session is done with the stream.
        """
        stream = self._by_id.get(stream_id)
        if stream is not None or self._forgotten.get(stream_id):
            return stream
        if opened_by(stream_id) is self._role:
            raise StateError(f"stream {stream_id} is ours, but bind_stream was not called for it")
        return self._new(stream_id, sending=not is_unidirectional(stream_id), receiving=True)

    # Our half

    def send(self, stream: Stream, data: bytes, *, fin: bool = False) -> None:
        """Send bytes; nothing happens if our half is over."""
        if stream.sending and (data or fin):
            self._actions.append(SendData(stream.ref, data, fin))
            if fin:
                self._sent_all(stream)

    def finish(self, stream: Stream) -> None:
        """Close our half in good order, if it is open."""
        self.send(stream, b"", fin=True)

    def reset(self, stream: Stream, code: int) -> None:
        """Abandon our half, if it is open."""
        if stream.sending:
            self._actions.append(ResetStream(stream.ref, code))
            self._sent_all(stream)

    def _sent_all(self, stream: Stream) -> None:
        stream.sending = False
        self._forget_if_over(stream)

    # The peer's half

    def stop(self, stream: Stream, code: int) -> None:
        """Ask the peer to abandon its half, if it is open, and drop what still comes."""
        stream.purpose = Purpose.IGNORED
        stream.buffer.clear()
        if stream.receiving:
            self._actions.append(StopSending(stream.ref, code))

    def received_all(self, stream: Stream) -> None:
        """Note the end of the peer's half: its FIN or RESET_STREAM."""
        if stream.receiving:
            stream.receiving = False
            self._forget_if_over(stream)

    def hand_over(self, stream: Stream) -> None:
        """Forget a stream that the data plane takes over."""
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
    """The track that a request names, if it names one."""
    match message:
        case Subscribe() | Publish() | TrackStatus():
            return message.track
        case Fetch(target=StandaloneFetch(track=track)):
            return track
        case _:
            return None


def prefix_of(message: RequestMessage) -> Namespace | None:
    """The prefix that a namespace subscription asks for."""
    match message:
        case SubscribeNamespace() | SubscribeTracks():
            return message.prefix
        case _:
            return None


@dataclass(slots=True, eq=False)
class Request:
    """One request, from its message until it is forgotten."""

    draft: Draft
    message: RequestMessage
    ours: bool
    """Whether we sent it."""
    stream: Stream | None = None
    """The stream that it has for itself, if it has one."""
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
    """What is advertised for a SUBSCRIBE_NAMESPACE now, prefix included, oldest first."""
    our_updates: deque[int] = field(default_factory=deque)
    """Updates of ours that were not answered, oldest first."""
    their_updates: deque[int] = field(default_factory=deque)
    """Updates of the peer that we have not answered, oldest first."""
    late_answers: int = 0
    """Draft 18: updates of ours that a REQUEST_ERROR may have answered along with an older one, or
    may not: so many answers may still come and mean nothing."""
    prefixes: dict[int, Namespace] = field(default_factory=dict)
    """Prefixes that unanswered updates ask for, by update; either side's."""
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
        """Its Request ID."""
        return self.message.request_id

    @property
    def kind(self) -> Kind:
        """What it asks for."""
        return KINDS[type(self.message)]

    @property
    def own_stream(self) -> Stream:
        """The stream that it has for itself, where it must have one."""
        if self.stream is None:
            raise StateError(f"{self.kind.value} {self.id} has no stream of its own")
        return self.stream

    @property
    def track(self) -> FullTrackName | None:
        """The track that it names."""
        return track_of(self.message)

    @property
    def is_subscription(self) -> bool:
        """Whether objects of a track flow until it ends."""
        return self.kind in _SUBSCRIPTIONS

    @property
    def over(self) -> bool:
        """Whether it has ended, as far as we are concerned."""
        return self.state is State.TERMINATED

    @property
    def us(self) -> Actor:
        """Which side of it we are."""
        return Actor.REQUESTER if self.ours else Actor.RESPONDER

    @property
    def we_publish(self) -> bool:
        """Whether we are the publisher of a subscription."""
        return self.ours == (self.kind is Kind.PUBLISH)

    def note_parameters(self, message: object) -> None:
        """Keep what a message's parameters say about a subscription; what is absent stays."""
        parameters = getattr(message, "parameters", None)
        if parameters is not None:
            if parameters.forward is not None:
                self.forward = parameters.forward
            if parameters.subscription_filter is not None:
                self.filter = parameters.subscription_filter

    def join(self, suffix: Namespace) -> Namespace:
        """The whole namespace that a suffix stands for; EncodeError if there can be none such."""
        prefix = self.prefix or Namespace()
        return Namespace(prefix.fields + suffix.fields)

    # States

    def check_ours(self, signal: Signal) -> State:
        """Where a command of ours would lead; StateError if it is not allowed."""
        state = advance(self.draft, self.kind, self.state, self.us, signal)
        if state is None:
            raise StateError(
                f"{self.kind.value} {self.id} is {self.state.value}:"
                f" its {self.us.value} cannot {signal.value!r} now"
            )
        return state

    def apply_ours(self, signal: Signal) -> None:
        """Note what we did."""
        self.state = self.check_ours(signal)
        if signal is not Signal.DATA_END:
            seen = advance(self.draft, self.kind, self.shadow, self.us, signal)
            if seen is not None and seen is not State.TERMINATED:
                self.shadow = seen

    def apply_theirs(self, signal: Signal) -> bool:
        """Note what the peer did; False if the request was over, so that it has no effect."""
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
        # The tables let the peer do in our state whatever they let it do in its own.
        self.state = self.state if state is None else state
        return True


class Requests:
    """All requests of a session that are not over, those that just ended, and indexes."""

    __slots__ = ("_aliases", "_live", "_tracks", "ended", "theirs")

    def __init__(self, max_ended: int) -> None:
        self._live: dict[int, Request] = {}
        self._tracks: dict[tuple[bool, FullTrackName], dict[int, Request]] = {}
        """Subscriptions by (we publish, track)."""
        self._aliases: dict[tuple[bool, int], dict[int, Request]] = {}
        """Subscriptions by (we publish, track alias)."""
        self.ended: Recent[Request] = Recent(max_ended)
        """Requests that are over: what the peer still says about them is checked and dropped."""
        self.theirs = 0
        """How many of the live requests are the peer's."""

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._live.values()))

    def get(self, request_id: int) -> Request | None:
        """A request that is not over."""
        return self._live.get(request_id)

    def add(self, request: Request) -> None:
        """Note a new request."""
        self._live[request.id] = request
        self.theirs += not request.ours
        if request.is_subscription and request.track is not None:
            key = (request.we_publish, request.track)
            self._tracks.setdefault(key, {})[request.id] = request
        if request.track_alias is not None:
            self.add_alias(request, request.track_alias)

    def add_alias(self, request: Request, track_alias: int) -> None:
        """Note the alias of a subscription."""
        request.track_alias = track_alias
        key = (request.we_publish, track_alias)
        self._aliases.setdefault(key, {})[request.id] = request

    def end(self, request: Request) -> None:
        """Move a request that is over out of the way."""
        del self._live[request.id]
        self.theirs -= not request.ours
        if request.is_subscription and request.track is not None:
            _discard(self._tracks, (request.we_publish, request.track), request)
        if request.track_alias is not None:
            _discard(self._aliases, (request.we_publish, request.track_alias), request)
        self.ended.put(request.id, request)

    def clear(self) -> None:
        """Forget everything: the session is over."""
        self._live.clear()
        self._tracks.clear()
        self._aliases.clear()
        self.theirs = 0

    def subscriptions(self, track: FullTrackName, *, we_publish: bool) -> list[Request]:
        """The subscriptions to a track in which we are the publisher, or the subscriber."""
        return list(self._tracks.get((we_publish, track), {}).values())

    def alias_holder(
        self, track_alias: int, track: FullTrackName | None, *, we_publish: bool
    ) -> Request | None:
        """A subscription to *another* track that has this alias."""
        for request in self._aliases.get((we_publish, track_alias), {}).values():
            if request.track != track:
                return request
        return None

    def overlapping(self, kind: Kind, prefix: Namespace, but: Request | None) -> Request | None:
        """A namespace subscription of the peer's whose prefix overlaps with ``prefix``.

        Overlap means that one is the beginning of the other, so that a namespace could match both.
        A prefix that an unanswered update asks for is taken too: both could be accepted otherwise.
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
