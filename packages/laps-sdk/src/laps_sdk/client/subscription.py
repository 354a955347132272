"""A subscription: objects of a track as they are published, across connections.

::

    SUBSCRIBE -> SUBSCRIBE_OK (alias) -> streams and datagrams -> queue -> async for
                        |
                        '-- join, or after a new connection: FETCH what lies between the last
                            object that came and the first that will; live objects wait behind it
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from laps_sdk.client.asking import ask_for_track, past_of, wake_offer
from laps_sdk.client.backfill import CatchUp
from laps_sdk.client.core.names import track_path
from laps_sdk.client.core.objects import Object, decode_object_extensions, to_object
from laps_sdk.client.core.progress import Gap, Progress
from laps_sdk.client.core.subscribe_options import SubscriptionOptions
from laps_sdk.client.incoming import InStream
from laps_sdk.client.iteration import ItemIterator, ReceiveQueue
from laps_sdk.client.link import Link, Offer
from laps_sdk.client.requests import Request
from laps_sdk.client.teardown import Ending
from laps_sdk.errors import RequestError, SubscriptionEndedError
from laps_wire.errors import RemoteError
from laps_wire.moqt.codepoints import (
    PUBLISH_DONE_CODES,
    GroupOrder,
    ObjectStatus,
)
from laps_wire.moqt.data import MoqObject, RangeEnd, RangeKind
from laps_wire.moqt.messages import PublishDone, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.properties import TrackProperties
from laps_wire.moqt.session import (
    Event,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
)
from laps_wire.moqt.structures import (
    Location,
)
from laps_wire.names import FullTrackName

if TYPE_CHECKING:
    from laps_sdk.client.reconnect import Hub

__all__ = ["Subscription"]

_KEPT_GAPS: Final = 1024


class Subscription(ItemIterator[Object]):
    """Objects of a track; made by :meth:`laps_sdk.Session.subscribe`."""

    __slots__ = (
        "_alias",
        "_catch_up",
        "_done",
        "_ending",
        "_fill_from",
        "_gap_timer",
        "_hub",
        "_link",
        "_offer",
        "_on_gap",
        "_options",
        "_progress",
        "_request",
        "bytes",
        "duplicates",
        "gaps",
        "largest_at_start",
        "name",
        "objects",
        "order",
        "properties",
    )

    def __init__(
        self,
        hub: Hub,
        name: FullTrackName,
        options: SubscriptionOptions,
        on_gap: Callable[[Gap], None] | None,
    ) -> None:
        super().__init__(ReceiveQueue(options.limits, self._resume))
        self._hub = hub
        self.name = name
        self._options = options
        self._on_gap = on_gap
        self.order = options.order or GroupOrder.ASCENDING
        self._progress = Progress(late=options.gap_after)
        self._gap_timer: asyncio.TimerHandle | None = None
        self.gaps: deque[Gap] = deque(maxlen=_KEPT_GAPS)
        """What did not arrive: the latest gaps, oldest first."""
        self.objects = 0
        """Objects that arrived."""
        self.bytes = 0
        """Bytes of payload that arrived."""
        self.duplicates = 0
        """Objects that arrived again and were not given out."""
        self.largest_at_start: Location | None = None
        """The largest object when the relay accepted the subscription, if there was one."""
        self.properties: TrackProperties | None = None
        """What the publisher says about the track."""
        self._link: Link | None = None
        self._offer: Offer | None = None
        self._request: Request | None = None
        self._alias: int | None = None
        self._fill_from: Location | None = None
        """The first object that had not come when the present link took the subscription."""
        self._ending = Ending(self)
        self._catch_up = CatchUp(self, f"FETCH {name}", self._progress, options.limits)
        self._done = False

    def __repr__(self) -> str:
        return f"<Subscription {track_path(self.name)}>"

    @property
    def dropped(self) -> int:
        """Objects that were thrown away here because they were not taken fast enough."""
        return self._queue.window.dropped

    @property
    def late(self) -> int:
        """Objects that arrived after they were told as a gap."""
        return self._progress.late

    def dropped_early(self, size: int) -> None:
        """Count an object that found no room to wait."""
        self._queue.window.drop(size)

    @property
    def queued(self) -> int:
        """Objects that wait to be taken."""
        return len(self._queue)

    # For applications

    async def _begin(self) -> None:
        await self._hub.join(self)

    def _finish(self) -> None:
        self._stop(None)

    # Durable

    async def attach(self, link: Link) -> None:
        """Subscribe on a link; see ``Durable``."""
        wanted = self._options.on_link(link.draft, self._progress.largest)
        offer = self._hub.offer(link, self.name)
        if offer is not None:
            await self._wake(offer, wanted)
            return
        request, answer = await ask_for_track(
            self._hub.options,
            link,
            self.name,
            wanted,
            wait=self._options.wait,
            heard=lambda event: self._heard(link, event),
        )
        if self._done:
            request.give_up()
        elif self._catch_up.active:
            largest = answer.parameters.largest_object
            past = past_of(self.name, self._options, request.id, self._fill_from, largest)
            if past is not None:
                await self._catch_up.run(link, past, self._hub.options.timeout)

    async def _wake(self, offer: Offer, wanted: Parameters) -> None:
        """The relay has published the track to us already: let its objects come."""
        link, message = offer.link, offer.message
        self._offer = offer
        answer = SubscribeOk(
            None, message.track_alias, message.parameters, message.track_properties
        )
        self._accepted(link, offer.request_id, answer)
        self._catch_up.end()
        offer.user = lambda event: self._heard(link, event)
        await wake_offer(offer, wanted, self._hub.options.timeout)

    def detach(self, link: Link) -> None:
        """See ``Durable``."""
        if self._offer is not None and self._offer.link is link:
            self._offer = None
        if self._link is link and self._ending.last_word is not None:
            self.finish()  # nothing more would have come but what was under way
        elif self._link is link:
            self._link = self._request = self._alias = None
            self._streams_lost()

    def fail(self, error: Exception) -> None:
        """See ``Durable``."""
        self._stop(error)

    def _must_fill(self, largest: Location | None) -> bool:
        if largest is None:
            return False
        start = self._fill_from
        return self._options.join is not None if start is None else largest >= start

    # What the relay says

    def _heard(self, link: Link, event: Event) -> None:
        match event:
            case RequestAccepted(message=SubscribeOk() as answer):
                self._accepted(link, event.request_id, answer)
            case PublishEnded():
                link.forget(event.request_id)
                # A relay that is being left ends what its publishers take with them.
                moving = link.goaway is not None and not _is_good(event.message, link)
                if self._link is link and not moving:
                    self._ending.heard(event.message)
            case RequestCancelled():
                link.forget(event.request_id)
                words = event.reason or "without a reason"
                self._over(RequestError(f"SUBSCRIBE {self.name}: the relay ended it: {words}"))
            case _:
                pass

    def _accepted(self, link: Link, request_id: int, answer: SubscribeOk) -> None:
        """Objects may follow in the same turn, so everything is made ready here."""
        old_link, old_request, old_alias = self._link, self._request, self._alias
        self.largest_at_start = answer.parameters.largest_object
        self.properties = TrackProperties.of(answer.track_properties, link.draft)
        self._link, self._request = link, link.request(request_id)
        self._alias = answer.track_alias
        if old_link is not None and old_link is not link:
            self._release(old_link, old_request, old_alias)
        self._ending.restart()
        self._fill_from = self._catch_up.break_off() or _behind(self._progress.largest)
        if self._must_fill(self.largest_at_start):
            self._catch_up.begin()
        else:
            self._catch_up.give_up()
        self._streams_lost()
        link.incoming.subscribe(answer.track_alias, self)

    # Sink

    def stream_opened(self, stream: InStream) -> None:
        """See ``Sink``."""
        self._ending.stream_opened()
        if stream.header is not None:
            self._progress.stream_opened(stream.header.group_id)

    def arrived(self, stream: InStream | None, item: MoqObject, received_at: float) -> None:  # noqa: ARG002 - the interface
        """See ``Sink``."""
        self.take(item, received_at, live=True)

    def absent(self, item: RangeEnd) -> None:
        """See ``Sink``."""
        if item.kind is RangeKind.NON_EXISTENT:
            first = self._progress.largest or Location(item.group_id, 0)
            self._progress.account(first, Location(item.group_id, item.object_id))

    def stream_closed(self, stream: InStream, code: int | None) -> None:
        """See ``Sink``."""
        self._ending.stream_closed()
        header = stream.header
        if header is not None:
            if code is None and header.end_of_group:
                self._progress.complete(header.group_id)
            self._progress.stream_closed(header.group_id)
        self.report()
        self.settle()

    def malformed(self, error: RemoteError) -> None:
        """See ``Sink``."""
        self._stop(RequestError(f"SUBSCRIBE {self.name}: {error}"))

    def take(self, item: MoqObject, received_at: float, *, live: bool) -> None:
        """An object came, live or from the past."""
        link, header = self._link, item.header
        if self._done or link is None:
            return
        try:
            opened = decode_object_extensions(item, link.draft)
        except RemoteError as error:
            self.malformed(error)
            return
        location = header.location
        if header.status is not ObjectStatus.NORMAL:
            # It stands where the next object would.
            self._progress.note(location)
            self._progress.complete(location.group)
            self.report()
            return
        if not self._progress.note(
            location,
            group_gap=opened.prior_group_id_gap or 0,
            object_gap=opened.prior_object_id_gap or 0,
        ):
            self.duplicates += 1
            return
        size = len(item.payload)
        self.objects += 1
        self.bytes += size
        obj = to_object(item, opened, received_at)
        if live and self._catch_up.active:
            self._catch_up.keep(obj, size)
        else:
            self.put(obj, size)
        self.report()

    # The queue

    def put(self, obj: Object, size: int) -> None:
        """Queue an object for the application."""
        self._queue.put(obj, size)
        if self._queue.window.paused and self._link is not None:
            self._link.incoming.pause(self)
            self._catch_up.pause()

    def _resume(self) -> None:
        if self._link is not None:
            self._link.incoming.resume(self)
        self._catch_up.resume()
        self.settle()

    def hold_live(self) -> None:
        """Too many live objects wait for the past."""
        if self._link is not None:
            self._link.incoming.pause(self)

    def let_live(self) -> None:
        """The past has come."""
        if self._link is not None and not self._queue.window.paused:
            self._link.incoming.resume(self)

    # Gaps

    def report(self) -> None:
        """Tell the gaps that have become known, and look again when more may be."""
        loop = asyncio.get_running_loop()
        for gap in self._progress.take_gaps(loop.time()):
            self.note_gap(gap)
        if self._gap_timer is None and self._progress.due is not None and not self._done:
            self._gap_timer = loop.call_at(self._progress.due, self._gap_is_due)

    def _gap_is_due(self) -> None:
        self._gap_timer = None
        self.report()

    def note_gap(self, gap: Gap) -> None:
        """Keep and tell a gap."""
        self.gaps.append(gap)
        if self._on_gap is not None:
            self._on_gap(gap)

    # The end

    @property
    def patience(self) -> float:
        """See ``Owner`` of an ending."""
        return self._hub.options.timeout

    @property
    def busy(self) -> bool:
        """See ``Owner`` of an ending."""
        return self._catch_up.active or self._queue.window.paused

    def settle(self) -> None:
        """The end may have come."""
        if not self._done and not self._catch_up.active:
            self._ending.settle()

    def finish(self) -> None:
        """Nothing more will come of this publisher."""
        last, link = self._ending.last_word, self._link
        if last is None or link is None or _is_good(last, link):
            self._progress.finish()
            self.report()
            self._stop(None)
        else:
            self._over(SubscriptionEndedError(f"SUBSCRIBE {self.name}", last, link.draft))

    def _over(self, error: RequestError) -> None:
        """It ended otherwise than with its track: for good, or until there is a publisher again."""
        link, request, alias = self._link, self._request, self._alias
        if self._done or not self._options.follow or link is None:
            self._progress.finish()
            self.report()
            self._stop(error)
            return
        self._link = self._request = self._alias = None
        self._catch_up.break_off()
        self._catch_up.give_up()
        self._release(link, request, alias)
        self._ending.restart()
        self._streams_lost()
        self._hub.again(self)

    def _streams_lost(self) -> None:
        self._progress.streams_lost()
        self.report()

    def _stop(self, error: Exception | None) -> None:
        if self._done:
            return
        self._done = True
        self._hub.leave(self)
        self._ending.cancel()
        self._catch_up.cancel()
        if self._gap_timer is not None:
            self._gap_timer.cancel()
            self._gap_timer = None
        link, request, alias = self._link, self._request, self._alias
        self._link = self._request = None
        if link is not None:
            self._release(link, request, alias)
        self._queue.end(error)

    def _release(self, link: Link, request: Request | None, alias: int | None) -> None:
        """Want nothing more from a link."""
        if link.error is not None:
            return
        if alias is not None:
            link.incoming.unsubscribe(alias, self)
        offer, self._offer = self._offer, None
        if offer is not None and offer.link is link:
            offer.sleep()
        elif request is not None:
            request.give_up()


def _is_good(last: PublishDone, link: Link) -> bool:
    """Whether a subscription came to the end that it should have."""
    codes = PUBLISH_DONE_CODES[link.draft]
    return last.status_code in (codes.TRACK_ENDED, codes.SUBSCRIPTION_ENDED)


def _behind(last: Location | None) -> Location | None:
    return None if last is None else Location(last.group, last.object + 1)
