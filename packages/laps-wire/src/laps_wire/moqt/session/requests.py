"""The requests of a session: what is known about each, and the tables that find them.

A :class:`Request` is the same record for ours and the peer's. It keeps two states::

    state     what has happened, as far as we know: our own commands are checked against it
    shadow    the same without what the peer cannot know yet, above all that we ended the request:
              what the peer says is checked against it

While nobody has ended the request the two are equal, but for the end of a FETCH's data stream,
which each side sees by itself. See :mod:`laps_wire.moqt.session.state` for why this is enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

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
from laps_wire.moqt.session.events import RequestMessage
from laps_wire.moqt.session.recent import Recent
from laps_wire.moqt.session.state import Actor, Kind, Migration, Signal, State, advance
from laps_wire.moqt.session.streams import Stream
from laps_wire.moqt.structures import SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["KINDS", "Request", "Requests", "prefix_of", "track_of"]

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
