"""How a subscription asks the relay: for a track, for its past, or for what was offered already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from laps_sdk.client.backfill import Past
from laps_sdk.client.core.progress import ANY_OBJECT, GapCause
from laps_sdk.client.core.subscribe_options import SubscriptionOptions
from laps_sdk.client.link import Link, Offer
from laps_sdk.client.options import ConnectOptions
from laps_sdk.client.requests import Request
from laps_sdk.errors import RequestRefusedError, RequestTimeoutError
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import Event, Terminated, UpdateAccepted, UpdateRejected
from laps_wire.moqt.session.events import OkMessage
from laps_wire.moqt.structures import Location, RelativeJoiningFetch, StandaloneFetch
from laps_wire.names import FullTrackName

__all__ = ["ask_for_track", "past_of", "wake_offer"]


async def ask_for_track(
    options: ConnectOptions,
    link: Link,
    name: FullTrackName,
    wanted: Parameters,
    *,
    wait: float,
    heard: Callable[[Event], None],
) -> tuple[Request, OkMessage]:
    """SUBSCRIBE, again and again while there is no publisher and time to wait for one.

    In draft 18 the relay waits for us, in draft 16 we ask again, for the last time at the end.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    attempt = 0
    while True:
        request = await link.ask(
            f"SUBSCRIBE {name}", lambda session: session.subscribe(name, wanted), heard
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
    """Let the objects of an offer come; its user hears what happens to it."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    user = offer.user

    def heard(event: Event) -> None:
        if user is not None:
            user(event)
        if isinstance(event, UpdateAccepted | UpdateRejected | Terminated) and not woken.done():
            woken.set_result(None)

    offer.user = heard
    what = replace(wanted, forward=True, group_order=None, rendezvous_timeout=None)
    await offer.link.update(offer.request_id, what)
    # A refusal is followed by the end of the subscription, which says why.
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
    """What to fetch before live objects are given out, if anything.

    ``start`` is where a subscription goes on that was there before.
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
        # Nobody asked for what lies behind the end.
        end, largest = Location(last_group, 0), Location(last_group, ANY_OBJECT)
    return Past(StandaloneFetch(name, start, end), start, largest, GapCause.RECONNECTED)
