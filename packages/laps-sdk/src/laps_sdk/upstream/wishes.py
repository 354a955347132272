"""Tracks that the Edge wants from the others: its SUBSCRIBEs to us.

::

    SUBSCRIBE --> asked --ACCEPTED--> served --ENDED--> PUBLISH_DONE --.
                    |                    |                              |
                    '--REFUSED--> REQUEST_ERROR --------------------> kept: the others may have
                    '--UNSUBSCRIBE------'--> unwanted      ACCEPTED     the track later
                                                 ^        asks again <--'
                                                 '-- nobody at the Edge waits any more
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from laps_sdk.edge.codes import shorten
from laps_sdk.timers import Timers
from laps_sdk.upstream.bodies import read_ok, subscribe_data
from laps_sdk.upstream.codes import done_status, request_error
from laps_sdk.upstream.egress import alias_of
from laps_sdk.upstream.interfaces import Answer
from laps_sdk.upstream.parts import Office, RequestEvent
from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import FilterType, RequestErrorCode
from laps_wire.moqt.messages import STREAM_COUNT_UNKNOWN, Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import RequestCancelled, UpdateReceived
from laps_wire.moqt.structures import SubscriptionFilter
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeData

__all__ = ["Wishes"]

_RECHECK: Final = 5.0
"""How often the Edge is asked whether a wish that was refused is still one, in seconds."""
_LARGEST: Final = SubscriptionFilter(FilterType.LARGEST_OBJECT)


@dataclass(slots=True, eq=False)
class _Wish:
    key: int
    name: FullTrackName
    request_id: int | None = None
    """The Edge's SUBSCRIBE; None while it was told that there is nothing."""
    data: SubscribeData | None = None
    """The publisher's answer, once there is one."""
    found: float = 0.0
    """When that came."""
    served: bool = False


class Wishes:
    """All of them, by key."""

    __slots__ = ("_office", "_requests", "_timers", "_wishes", "collisions")

    def __init__(self, office: Office) -> None:
        self._office = office
        self._wishes: dict[int, _Wish] = {}
        self._requests: dict[int, _Wish] = {}
        self._timers: Timers[int] = Timers()
        self.collisions = 0
        """Names refused because another one has their hash."""

    def is_asked(self, key: int) -> bool:
        """Whether the Edge has a SUBSCRIBE to us for a track."""
        wish = self._wishes.get(key)
        return wish is not None and wish.request_id is not None

    # The Edge

    def subscribe(self, now: float, message: Subscribe) -> None:
        """The Edge said SUBSCRIBE."""
        name, office = message.track, self._office
        key = office.key_of(name)
        wish = self._wishes.setdefault(key, _Wish(key, name))
        if wish.name != name:
            self.collisions += 1
            reason = shorten(f"{name} has the hash of {wish.name}")
            office.session.reject(message.request_id, RequestErrorCode.INTERNAL_ERROR, reason)
            return
        wish.request_id = message.request_id
        self._requests[message.request_id] = wish
        self._timers.cancel(key)
        if wish.data is not None and wish.found == now:
            self._accept(wish, message.request_id, wish.data)
            return
        if wish.data is not None:
            # What came since then found nobody here: streams that are open must go on in new ones.
            wish.data = None
            office.unwant(now, self, key, name)
        data = subscribe_data(name, message.parameters, office.draft)
        office.want(now, self, key, name, data)

    def event(self, now: float, event: RequestEvent) -> bool:
        """Whether this is about a wish; if so, it was acted on."""
        wish = self._requests.get(event.request_id)
        if wish is None:
            return False
        if isinstance(event, UpdateReceived):
            self._updated(now, wish, event)
        elif isinstance(event, RequestCancelled):
            self._cancelled(now, wish)
        return True

    def _updated(self, now: float, wish: _Wish, event: UpdateReceived) -> None:
        """The Edge's receivers want something else together."""
        self._office.session.accept(event.update_id)
        group = event.message.parameters.new_group_request
        if group is not None:
            asked = Parameters(subscription_filter=_LARGEST, new_group_request=group)
            data = subscribe_data(wish.name, asked, self._office.draft)
            self._office.want(now, self, wish.key, wish.name, data)

    def _cancelled(self, now: float, wish: _Wish) -> None:
        """The Edge unsubscribed, or has waited long enough for an answer."""
        waits = not wish.served and self._is_wanted(wish)
        self._close(wish)
        if waits:
            self._timers.set(wish.key, now + _RECHECK)
        else:
            self._drop(now, wish)

    def _is_wanted(self, wish: _Wish) -> bool:
        return self._office.relay.is_wanted(self._office.seam.number, wish.name)

    def _close(self, wish: _Wish) -> None:
        """Its request is over."""
        if wish.request_id is not None:
            del self._requests[wish.request_id]
        wish.request_id, wish.data, wish.served = None, None, False

    def _drop(self, now: float, wish: _Wish) -> None:
        del self._wishes[wish.key]
        self._timers.cancel(wish.key)
        self._office.unwant(now, self, wish.key, wish.name)

    # The others

    def answered(
        self, now: float, key: int, answer: Answer, code: int, reason: str, data: SubscribeData
    ) -> None:
        """What became of a wish."""
        wish = self._wishes.get(key)
        if wish is None:
            return
        if answer is not Answer.ACCEPTED:
            self._refuse(now, wish, code, reason, data)
        elif not wish.served:
            wish.data, wish.found = data, now
            if wish.request_id is not None:
                self._accept(wish, wish.request_id, data)
            else:
                office = self._office
                office.relay.ask_again(now, office.seam.number, wish.name)

    def _accept(self, wish: _Wish, request_id: int, data: SubscribeData) -> None:
        largest, properties = read_ok(data, self._office.draft)
        session = self._office.session
        parameters = Parameters(largest_object=largest)
        try:
            session.accept_subscribe(request_id, alias_of(wish.key), parameters, properties)
            wish.served = True
        except LocalError:
            # Two keys that differ in nothing that an alias has.
            self._close(wish)
            code, reason = RequestErrorCode.INTERNAL_ERROR, "the track alias is taken"
            session.reject(request_id, code, reason)

    def _refuse(self, now: float, wish: _Wish, code: int, reason: str, data: SubscribeData) -> None:
        """The others do not, or do not any more, have a track."""
        request_id, served = wish.request_id, wish.served
        self._close(wish)
        if self._timers.when(wish.key) is None:
            self._timers.set(wish.key, now + _RECHECK)
        if request_id is None:
            return
        session, reason = self._office.session, shorten(reason)
        if served:
            session.publish_done(request_id, done_status(code), STREAM_COUNT_UNKNOWN, reason)
        else:
            session.reject(request_id, request_error(code, data), reason)

    # Time

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Give up wishes that are none any more."""
        while (key := self._timers.pop(now)) is not None:
            wish = self._wishes[key]
            if self._is_wanted(wish):
                self._timers.set(key, now + _RECHECK)
            else:
                self._drop(now, wish)
