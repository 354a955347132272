"""Subscriptions: the objects of a track as they are published, across connections.

::

    SUBSCRIBE -> SUBSCRIBE_OK (alias) -> streams and datagrams -> queue -> async for
                        |
                        '-- join, or after a new connection: Backfill fetches the objects between
                            the last received one and the live ones; live objects wait

    queue full -> the relay gets no credit for what waits, until half of it is read

    PUBLISH_DONE (n streams) -> n have arrived and none is open     -> over
     (Teardown)              -> some are missing or open            -> over when no data arrives
                             -> the queue is full                   -> wait for the application
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from laps_sdk.client.core.objects import Object, decode_object_extensions, to_object, track_path
from laps_sdk.client.core.progress import ANY_OBJECT, Gap, GapCause, Progress
from laps_sdk.client.core.subscribe_options import (
    SubscriptionOptions,
    Verdict,
    Window,
    WindowLimits,
)
from laps_sdk.client.dial import ConnectOptions
from laps_sdk.client.fetch import FetchRun
from laps_sdk.client.iteration import ItemIterator, ReceiveQueue
from laps_sdk.client.link import InStream, Link, Offer, Request
from laps_sdk.client.reconnect import Reconnector
from laps_sdk.errors import (
    RequestError,
    RequestRefusedError,
    RequestTimeoutError,
    SubscriptionEndedError,
)
from laps_wire.errors import LapsError, RemoteError
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, GroupOrder, ObjectStatus, RequestErrorCode
from laps_wire.moqt.data import MoqObject, RangeEnd, RangeKind
from laps_wire.moqt.messages import STREAM_COUNT_UNKNOWN, PublishDone, SubscribeOk
from laps_wire.moqt.parameters import Parameters, TrackProperties
from laps_wire.moqt.session import (
    Event,
    OkMessage,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    Terminated,
    UpdateAccepted,
    UpdateRejected,
)
from laps_wire.moqt.structures import FetchTarget, Location, RelativeJoiningFetch, StandaloneFetch
from laps_wire.names import FullTrackName

__all__ = ["Subscription"]

_KEPT_GAPS: Final = 1024


class Subscription(ItemIterator[Object]):
    """The objects of a track; :meth:`laps_sdk.Session.subscribe` makes it."""

    __slots__ = (
        "_alias",
        "_backfill",
        "_drops",
        "_fill_from",
        "_find_offer",
        "_gap_timer",
        "_held_back",
        "_link",
        "_offer",
        "_on_gap",
        "_options",
        "_progress",
        "_reconnector",
        "_request",
        "_teardown",
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
        reconnector: Reconnector,
        name: FullTrackName,
        options: SubscriptionOptions,
        on_gap: Callable[[Gap], None] | None,
        find_offer: Callable[[Link, FullTrackName], Offer | None],
    ) -> None:
        super().__init__(ReceiveQueue(options.limits, self._resume, self._note_drop, self.hold))
        self._reconnector = reconnector
        self.name = name
        self._options = options
        self._on_gap = on_gap
        self._find_offer = find_offer
        self.order = options.order or GroupOrder.ASCENDING
        self._progress = Progress(late=options.gap_after)
        self._gap_timer: asyncio.TimerHandle | None = None
        self._drops: tuple[Location, Location] | None = None
        """Objects that were dropped one after the other, and are not reported yet."""
        self.gaps: deque[Gap] = deque(maxlen=_KEPT_GAPS)
        """The most recent gaps, oldest first."""
        self.objects = 0
        """Objects received."""
        self.bytes = 0
        """Bytes of payload received."""
        self.duplicates = 0
        """Objects that arrived twice; the second copy is discarded."""
        self.largest_at_start: Location | None = None
        """The largest object when the relay accepted the subscription; None if there was none."""
        self.properties: TrackProperties | None = None
        """The properties of the track; None until the relay accepts the subscription."""
        self._link: Link | None = None
        self._offer: Offer | None = None
        self._request: Request | None = None
        self._alias: int | None = None
        self._fill_from: Location | None = None
        """The first object that was missing when the current link accepted the subscription."""
        self._held_back = False
        """Whether the queue is full, and the relay gets no credit for what waits."""
        self._teardown = Teardown(self)
        self._backfill = Backfill(self, f"FETCH {name}", self._progress, options.limits)

    def __repr__(self) -> str:
        return f"<Subscription {track_path(self.name)}>"

    @property
    def dropped(self) -> int:
        """Objects that were dropped because the application read too slowly."""
        return self._queue.window.dropped

    @property
    def late(self) -> int:
        """Objects that arrived after they were reported as a gap."""
        return self._progress.late

    def dropped_early(self, obj: Object, size: int) -> None:
        """Count an object that was dropped before it was queued."""
        self._queue.drop(obj, size)

    @property
    def queued(self) -> int:
        """Objects in the receive queue."""
        return len(self._queue)

    # For applications

    async def _begin(self) -> None:
        await self._reconnector.join(self)

    # Durable

    async def attach(self, link: Link) -> None:
        """Subscribe on a link; see ``Durable``."""
        wanted = self._options.on_link(link.draft, self._progress.largest)
        offer = self._find_offer(link, self.name)
        if offer is not None:
            await self._wake(offer, wanted)
            return
        request, answer = await ask_for_track(
            self._reconnector.options,
            link,
            self.name,
            wanted,
            wait=self._options.wait,
            received=lambda event: self._received(link, event),
        )
        if self._ended:
            request.give_up()
        elif self._backfill.active:
            largest = answer.parameters.largest_object
            past = past_of(self.name, self._options, request.id, self._fill_from, largest)
            if past is not None:
                await self._backfill.run(link, past, self._reconnector.options.timeout)

    async def _wake(self, offer: Offer, wanted: Parameters) -> None:
        """Use the PUBLISH that the relay sent for this track: set its forward state to 1."""
        link, message = offer.link, offer.message
        self._offer = offer
        answer = SubscribeOk(
            None, message.track_alias, message.parameters, message.track_properties
        )
        self._accepted(link, offer.request_id, answer)
        self._backfill.end()
        offer.user = lambda event: self._received(link, event)
        await wake_offer(offer, wanted, self._reconnector.options.timeout)

    def detach(self, link: Link) -> None:
        """See ``Durable``."""
        if self._offer is not None and self._offer.link is link:
            self._offer = None
        if self._link is link and self._teardown.last_word is not None:
            self.finish()  # only data in flight is missing
        elif self._link is link:
            self._link = self._request = self._alias = None
            self._streams_lost()

    def fail(self, error: Exception) -> None:
        """See ``Durable``."""
        self._end(error)

    def _must_fill(self, largest: Location | None) -> bool:
        if largest is None:
            return False
        start = self._fill_from
        return self._options.join is not None if start is None else largest >= start

    # What the relay says

    def _received(self, link: Link, event: Event) -> None:
        match event:
            case RequestAccepted(message=SubscribeOk() as answer):
                self._accepted(link, event.request_id, answer)
            case PublishEnded():
                link.forget(event.request_id)
                # A relay that sent GOAWAY also ends tracks whose publishers move.
                moving = link.goaway is not None and not _is_good(event.message, link)
                if self._link is link and not moving:
                    self._teardown.publish_done_received(event.message)
            case RequestCancelled():
                link.forget(event.request_id)
                words = event.reason or "without a reason"
                self._over(RequestError(f"SUBSCRIBE {self.name}: the relay ended it: {words}"))
            case _:
                pass

    def _accepted(self, link: Link, request_id: int, answer: SubscribeOk) -> None:
        """Prepare for objects, which may arrive in the same turn."""
        old_link, old_request, old_alias = self._link, self._request, self._alias
        self.largest_at_start = answer.parameters.largest_object
        self.properties = TrackProperties.of(answer.track_properties, link.draft)
        self._link, self._request = link, link.request(request_id)
        self._alias = answer.track_alias
        if old_link is not None and old_link is not link:
            self._release(old_link, old_request, old_alias)
        self._teardown.restart()
        self._fill_from = self._backfill.break_off() or _behind(self._progress.largest)
        if self._must_fill(self.largest_at_start):
            self._backfill.begin()
        else:
            self._backfill.give_up()
        self._streams_lost()
        self.hold()
        link.incoming.subscribe(answer.track_alias, self)

    # Sink

    def stream_opened(self, stream: InStream) -> None:
        """See ``Sink``."""
        self._teardown.stream_opened()
        if stream.header is not None:
            header = stream.header
            self._progress.stream_opened(header.group_id, header.subgroup_id)

    def arrived(self, stream: InStream | None, item: MoqObject, received_at: float) -> None:
        """See ``Sink``."""
        self.take(item, received_at, live=True, credited=stream is not None)

    def absent(self, item: RangeEnd) -> None:
        """See ``Sink``."""
        if item.kind is RangeKind.NON_EXISTENT:
            first = self._progress.largest or Location(item.group_id, 0)
            self._progress.account(first, Location(item.group_id, item.object_id))

    def stream_closed(self, stream: InStream, code: int | None) -> None:
        """See ``Sink``."""
        self._teardown.stream_closed()
        header = stream.header
        if header is not None:
            if code is None and header.end_of_group:
                self._progress.complete(header.group_id)
            self._progress.stream_closed(header.group_id, header.subgroup_id, fin=code is None)
        self.report()
        self.settle()

    def malformed(self, error: RemoteError) -> None:
        """See ``Sink``."""
        self._end(RequestError(f"SUBSCRIBE {self.name}: {error}"))

    def take(
        self, item: MoqObject, received_at: float, *, live: bool, credited: bool = True
    ) -> None:
        """Handle an object, live or fetched; ``credited`` if it came on a stream."""
        link, header = self._link, item.header
        if self._ended or link is None:
            return
        try:
            opened = decode_object_extensions(item, link.draft)
        except RemoteError as error:
            self.malformed(error)
            return
        location = header.location
        if header.status is not ObjectStatus.NORMAL:
            # An end marker has the location of the next object.
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
        credited = credited and self._held_back
        if live and self._backfill.active:
            self._backfill.keep(obj, size, credited=credited)
        else:
            self.put(obj, size, credited=credited)
        self.report()

    # The queue

    def put(self, obj: Object, size: int, *, credited: bool) -> None:
        """Queue an object for the application."""
        self._queue.put(obj, size, credited=credited)
        if self._queue.window.paused:
            self.hold()

    def _resume(self) -> None:
        self.hold()
        self.settle()

    def hold(self) -> None:
        """Hold the relay back for what waits, or let it go on."""
        link, backfill, window = self._link, self._backfill, self._queue.window
        self._held_back = False
        if link is None:
            return
        incoming = link.incoming
        if window.paused:
            self._held_back = incoming.pause(self, window.unread + backfill.unread)
            backfill.pause()
            return
        backfill.resume()
        if backfill.is_full:
            # The fetch needs the credit of the connection: only the live streams stop.
            incoming.pause(self)
        else:
            incoming.resume(self)

    # Gaps

    def report(self) -> None:
        """Report new gaps, and set a timer for those that may follow."""
        loop = asyncio.get_running_loop()
        for gap in self._progress.take_gaps(loop.time()):
            self.note_gap(gap)
        if self._gap_timer is None and self._progress.due is not None and not self._ended:
            self._gap_timer = loop.call_at(self._progress.due, self._gap_is_due)

    def _gap_is_due(self) -> None:
        self._gap_timer = None
        self.report()

    def _note_drop(self, obj: Object) -> None:
        """Remember an object that was dropped; those that follow each other are one gap."""
        location, drops = Location(obj.group, obj.object), self._drops
        if drops is None:
            asyncio.get_running_loop().call_soon(self._report_drops)
        elif (location.group, location.object - 1) == drops[1]:
            self._drops = drops[0], location
            return
        else:
            self._report_drops()
        self._drops = location, location

    def _report_drops(self) -> None:
        drops, self._drops = self._drops, None
        if drops is not None:
            self.note_gap(Gap(first=drops[0], last=drops[1], cause=GapCause.DROPPED))

    def note_gap(self, gap: Gap) -> None:
        """Record a gap and call ``on_gap``."""
        self.gaps.append(gap)
        if self._on_gap is not None:
            self._on_gap(gap)

    # The end

    @property
    def patience(self) -> float:
        """Seconds to wait for the rest of an open stream; see ``Teardown``."""
        return self._reconnector.options.timeout

    @property
    def busy(self) -> bool:
        """Whether more objects follow once the application has read; see ``Teardown``."""
        return self._backfill.active or self._queue.window.paused

    def settle(self) -> None:
        """End the subscription if everything has arrived."""
        if not self._ended and not self._backfill.active:
            self._teardown.settle()

    def finish(self) -> None:
        """End the subscription: nothing more arrives from this publisher."""
        last, link = self._teardown.last_word, self._link
        if last is None or link is None or _is_good(last, link):
            self._progress.finish()
            self.report()
            self._end(None)
        else:
            self._over(SubscriptionEndedError(f"SUBSCRIBE {self.name}", last, link.draft))

    def _over(self, error: RequestError) -> None:
        """End with an error, or with ``follow`` subscribe again."""
        link, request, alias = self._link, self._request, self._alias
        if self._ended or not self._options.follow or link is None:
            self._progress.finish()
            self.report()
            self._end(error)
            return
        self._link = self._request = self._alias = None
        self._backfill.break_off()
        self._backfill.give_up()
        self._release(link, request, alias)
        self._teardown.restart()
        self._streams_lost()
        self._reconnector.attach_again(self)

    def _streams_lost(self) -> None:
        self._progress.streams_lost()
        self.report()

    def _finish(self) -> None:
        self._report_drops()
        self._reconnector.leave(self)
        self._teardown.cancel()
        self._backfill.cancel()
        if self._gap_timer is not None:
            self._gap_timer.cancel()
            self._gap_timer = None
        link, request, alias = self._link, self._request, self._alias
        self._link = self._request = None
        if link is not None:
            self._release(link, request, alias)

    def _release(self, link: Link, request: Request | None, alias: int | None) -> None:
        """Release the request and the alias on a link."""
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
    """Return whether the publisher or the subscriber ended the track as planned."""
    codes = PUBLISH_DONE_CODES[link.draft]
    return last.status_code in (codes.TRACK_ENDED, codes.SUBSCRIPTION_ENDED)


def _behind(last: Location | None) -> Location | None:
    return None if last is None else Location(last.group, last.object + 1)


class Past(NamedTuple):
    """The range of a backfill."""

    target: FetchTarget
    start: Location
    end: Location
    """The last object."""
    cause: GapCause | None
    """The cause of the gap if the range does not arrive; None: report no gap."""


class Backfill:
    """Fetches past objects of one subscription while live objects wait."""

    __slots__ = (
        "_is_whole",
        "_kept",
        "_limits",
        "_owner",
        "_past",
        "_progress",
        "_reached",
        "_run",
        "_what",
        "_window",
        "active",
    )

    def __init__(
        self, owner: Subscription, what: str, progress: Progress, limits: WindowLimits
    ) -> None:
        self._owner = owner
        self._what = what
        self._progress = progress
        self._limits = limits
        self._window = Window(limits)
        self._kept: deque[tuple[Object, int]] = deque()
        self._run: FetchRun | None = None
        self._past: Past | None = None
        self._reached: Location | None = None
        """The last past object that arrived."""
        self._is_whole = True
        """Whether the relay knows everything in the range."""
        self.active = False
        """Whether live objects wait."""

    def begin(self) -> None:
        """Let live objects wait and report no gaps."""
        self.active = True
        self._progress.hold()

    @property
    def unread(self) -> int:
        """About the bytes of the live objects that wait."""
        return self._window.unread

    @property
    def is_full(self) -> bool:
        """Whether as many live objects wait as the receive queue holds."""
        return self._window.paused

    def keep(self, obj: Object, size: int, *, credited: bool) -> None:
        """Let a live object wait, within the limits of the receive queue."""
        window = self._window
        while (verdict := window.judge(size, credited=credited)) is Verdict.DROP_OLDEST:
            oldest, old = self._kept.popleft()
            window.give(old)
            self._owner.dropped_early(oldest, old)
        if verdict is Verdict.DROP_NEWEST:
            self._owner.dropped_early(obj, size)
            return
        window.take(size)
        self._kept.append((obj, size))
        if window.paused or credited:
            self._owner.hold()

    async def run(self, link: Link, past: Past, seconds: float) -> None:
        """Fetch the range; returns after the answer, and objects arrive in the background."""
        self._past, self._reached, self._is_whole = past, None, True
        run = self._run = FetchRun(
            link, self._what, take=self._came, over=self._over, absent=self._absent
        )
        try:
            await run.start(past.target, Parameters(group_order=GroupOrder.ASCENDING), seconds)
        except LapsError as error:
            if self._run is run:
                self._over(error)

    def _came(self, item: MoqObject, received_at: float) -> None:
        self._reached = item.header.location
        self._owner.take(item, received_at, live=False)

    def _absent(self, item: RangeEnd) -> None:
        self._is_whole = self._is_whole and item.kind is RangeKind.NON_EXISTENT
        self._owner.absent(item)

    def _over(self, error: Exception | None) -> None:
        past = self._past
        if error is not None:
            self._missed()
        elif past is not None and self._is_whole:
            self._progress.fetched(past.start.group, past.end.group - 1)
        self.end()
        self._owner.settle()

    def _missed(self) -> None:
        """Report the rest of the range as a gap, if it was due or has begun to arrive."""
        past, first = self._past, self._first_missing()
        if past is None or first is None:
            return
        self._progress.account(first, past.end)
        if past.cause is not None or self._reached is not None:
            cause = past.cause or GapCause.MISSING
            self._owner.note_gap(Gap(first=first, last=past.end, cause=cause))

    def _first_missing(self) -> Location | None:
        past, reached = self._past, self._reached
        if past is None:
            return None
        first = past.start if reached is None else Location(reached.group, reached.object + 1)
        return first if first <= past.end else None

    def break_off(self) -> Location | None:
        """Cancel the fetch on a link that is left; return the first object still missing.

        Live objects keep waiting until :meth:`end` or :meth:`give_up`.
        """
        run, self._run = self._run, None
        if run is None:
            return None
        run.cancel()
        return self._first_missing()

    def give_up(self) -> None:
        """Stop waiting for the rest: no cache has it."""
        if self.active:
            self._missed()
            self.end()

    def end(self) -> None:
        """Finish the backfill and release the live objects."""
        self._run = self._past = None
        self.active = False
        self._progress.release()
        kept, self._kept = self._kept, deque()
        self._window = Window(self._limits)
        for obj, size in kept:
            self._owner.put(obj, size, credited=True)
        self._owner.hold()
        self._owner.report()

    def cancel(self) -> None:
        """Cancel the fetch and drop the live objects that wait."""
        run, self._run = self._run, None
        self._kept.clear()
        if run is not None:
            run.cancel()

    def pause(self) -> None:
        """Pause the fetch: the queue is full."""
        if self._run is not None:
            self._run.link.incoming.pause(self._run)

    def resume(self) -> None:
        """Resume the fetch: the queue has room."""
        if self._run is not None:
            self._run.link.incoming.resume(self._run)


async def ask_for_track(
    options: ConnectOptions,
    link: Link,
    name: FullTrackName,
    wanted: Parameters,
    *,
    wait: float,
    received: Callable[[Event], None],
) -> tuple[Request, OkMessage]:
    """Send SUBSCRIBE and return the request and its answer.

    Without a publisher a relay of draft 18 waits up to ``wait`` seconds. With draft 16 this
    function subscribes again until that time is over.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    attempt = 0
    while True:
        request = await link.ask(
            f"SUBSCRIBE {name}", lambda session: session.subscribe(name, wanted), received
        )
        try:
            return request, await request.answered(options.timeout + wait)
        except RequestRefusedError as error:
            left = deadline - loop.time()
            if error.code != RequestErrorCode.DOES_NOT_EXIST or left <= 0:
                raise
            pause = min(left, options.backoff.delay(attempt, 0.0))
        attempt += 1
        await asyncio.sleep(pause)


async def wake_offer(offer: Offer, wanted: Parameters, seconds: float) -> None:
    """Set the forward state of an offer to 1 and wait for the answer."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    user = offer.user

    def received(event: Event) -> None:
        if user is not None:
            user(event)
        if isinstance(event, UpdateAccepted | UpdateRejected | Terminated) and not woken.done():
            woken.set_result(None)

    offer.user = received
    what = replace(wanted, forward=True, group_order=None, rendezvous_timeout=None)
    await offer.link.update(offer.request_id, what)
    # After a refusal the relay ends the subscription and gives the reason there.
    try:
        async with asyncio.timeout(seconds):
            await woken
    except TimeoutError:
        words = f"SUBSCRIBE {offer.message.track}: no answer in {seconds:g} s"
        raise RequestTimeoutError(words) from None


def past_of(
    name: FullTrackName,
    options: SubscriptionOptions,
    request_id: int,
    start: Location | None,
    largest: Location | None,
) -> Past | None:
    """Return the range to fetch before live objects are delivered; None for nothing.

    ``start`` is the first missing object of a subscription that continues on a new link.
    """
    if largest is None:
        return None
    if start is None:
        back = options.join or 0
        start = Location(max(0, largest.group - back), 0)
        return Past(RelativeJoiningFetch(request_id, back), start, largest, None)
    end = Location(largest.group, largest.object + 1)
    last_group = options.filter.end_group
    if last_group is not None and largest.group > last_group:
        # The application did not ask for groups after the end.
        end, largest = Location(last_group, 0), Location(last_group, ANY_OBJECT)
    return Past(StandaloneFetch(name, start, end), start, largest, GapCause.RECONNECTED)


_LINGER: Final = 2.0
"""Seconds to wait after PUBLISH_DONE for streams that have not begun."""


class Teardown:
    """Decides when a subscription is complete after PUBLISH_DONE."""

    __slots__ = ("_objects", "_open", "_owner", "_seen", "_timer", "last_word")

    def __init__(self, owner: Subscription) -> None:
        self._owner = owner
        self._open = 0
        self._seen = 0
        self._objects = 0
        self._timer: asyncio.TimerHandle | None = None
        self.last_word: PublishDone | None = None

    def stream_opened(self) -> None:
        """Count a stream that began."""
        self._open += 1
        self._seen += 1

    def stream_closed(self) -> None:
        """Count a stream that ended."""
        self._open = max(0, self._open - 1)

    def restart(self) -> None:
        """Start again on another link, or with another publisher."""
        self.cancel()
        self._open = self._seen = 0
        self.last_word = None

    def publish_done_received(self, message: PublishDone) -> None:
        """Keep PUBLISH_DONE and finish if everything has arrived."""
        self.last_word = message
        self.settle()

    def settle(self) -> None:
        """Finish if everything has arrived; otherwise set a timer."""
        last = self.last_word
        if last is None:
            return
        expected = last.stream_count
        complete = expected != STREAM_COUNT_UNKNOWN and self._seen >= expected
        if not self._open and complete:
            self.cancel()
            self._owner.finish()
        elif self._timer is None and not self._owner.busy:
            self._arm()

    def _arm(self) -> None:
        self._objects = self._owner.objects
        seconds = max(_LINGER, self._owner.patience) if self._open else _LINGER
        self._timer = asyncio.get_running_loop().call_later(seconds, self._waited)

    def _waited(self) -> None:
        self._timer = None
        if self._owner.busy:
            return  # settled when the queue has room again
        if self._owner.objects != self._objects:
            self._arm()
        else:
            self._owner.finish()

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
