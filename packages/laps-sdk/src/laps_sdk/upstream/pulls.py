"""Tracks that the others want from the Edge: our SUBSCRIBEs to it, and where their objects go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from laps_sdk.upstream.bodies import error_data, ok_data, read_subscribe
from laps_sdk.upstream.codes import ended_code, subscribe_code
from laps_sdk.upstream.egress import Outlet, alias_of
from laps_sdk.upstream.interfaces import Feed
from laps_sdk.upstream.parts import Office, RequestEvent
from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.messages import SubscribeOk
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.properties import TrackProperties
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestRejected,
)
from laps_wire.moqt.structures import SubscriptionFilter
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData

__all__ = ["Pulls"]

_LARGEST: Final = SubscriptionFilter(FilterType.LARGEST_OBJECT)


@dataclass(slots=True, eq=False)
class _Pull:
    key: int
    name: FullTrackName
    request_id: int
    outlet: Outlet
    ok: SubscribeOk | None = None
    """The publisher's answer."""


class Pulls:
    """All of them, by key."""

    __slots__ = ("_office", "_pulls", "_requests", "outlets")

    def __init__(self, office: Office) -> None:
        self._office = office
        self._pulls: dict[int, _Pull] = {}
        self._requests: dict[int, _Pull] = {}
        self.outlets: dict[int, Outlet] = {}
        """Where objects go, by track alias."""

    def pull(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Subscribe to a track at the Edge; its objects go into the feed."""
        asked = read_subscribe(data)
        wishes = NO_PARAMETERS if asked is None else asked.parameters
        known = self._pulls.get(key)
        if known is not None:
            self._again(now, known, wishes, feed)
            return
        office, alias = self._office, alias_of(key)
        if alias in self.outlets:
            code, reason = SubscribeCode.HASH_COLLISION, "another track has the same alias"
            office.host.pull_refused(now, key, code, reason, SubscribeData())
            return
        parameters = Parameters(
            subscription_filter=_LARGEST,
            subscriber_priority=wishes.subscriber_priority,
            new_group_request=wishes.new_group_request,
        )
        try:
            request_id = office.session.subscribe(name, parameters)
        except LocalError as error:
            reason = f"the Edge takes no subscription: {error}"
            office.host.pull_refused(now, key, SubscribeCode.LIMIT, reason, SubscribeData())
            return
        pull = _Pull(key, name, request_id, Outlet(feed))
        self._pulls[key] = self._requests[request_id] = pull
        self.outlets[alias] = pull.outlet

    def _again(self, now: float, pull: _Pull, wishes: Parameters, feed: Feed) -> None:
        """The others ask again: they want something else of it, or have another feed for it."""
        pull.outlet.feed = feed
        if pull.ok is None:
            return
        office = self._office
        largest = office.relay.largest(pull.name)
        if largest is not None:
            pull.ok = replace(
                pull.ok, parameters=replace(pull.ok.parameters, largest_object=largest)
            )
        office.host.pulled(now, pull.key, ok_data(pull.ok, office.draft))
        if wishes.new_group_request is not None:
            update = Parameters(new_group_request=wishes.new_group_request)
            office.session.update(pull.request_id, update)

    def request_of(self, key: int) -> int | None:
        """Our SUBSCRIBE for a track."""
        pull = self._pulls.get(key)
        return None if pull is None else pull.request_id

    def release(self, key: int) -> None:
        """Nobody wants it any more."""
        pull = self._pulls.get(key)
        if pull is not None:
            self._forget(pull)
            self._office.session.cancel(pull.request_id)

    def _forget(self, pull: _Pull) -> None:
        del self._pulls[pull.key], self._requests[pull.request_id]
        del self.outlets[alias_of(pull.key)]

    def event(self, now: float, event: RequestEvent) -> bool:
        """Whether this is about a pull; if so, it was acted on."""
        pull = self._requests.get(event.request_id)
        if pull is None:
            return False
        key, host, draft = pull.key, self._office.host, self._office.draft
        match event:
            case RequestAccepted(message=SubscribeOk() as ok):
                facts = TrackProperties.of(ok.track_properties, draft)
                pull.outlet.priority = facts.publisher_priority
                pull.outlet.ttl_ms = facts.object_delivery_timeout or 0
                pull.ok = ok
                host.pulled(now, key, ok_data(ok, draft))
            case RequestRejected(message=error):
                self._forget(pull)
                code, data = subscribe_code(error.error_code), error_data(error, draft)
                host.pull_refused(now, key, code, error.reason, data)
            case PublishEnded(message=done):
                self._forget(pull)
                code = ended_code(draft, done.status_code)
                if code is SubscribeCode.ENDED:
                    host.pull_ended(now, key, done.reason)
                else:
                    host.pull_refused(now, key, code, done.reason, SubscribeData())
            case _:
                # Its stream was reset: the session lets nothing else pass for a SUBSCRIBE of ours.
                self._forget(pull)
                host.pull_ended(now, key, "the Edge ended it")
        return True
