"""What the others publish at the Edge: namespaces, and tracks that they push.

A track that was announced becomes a PUBLISH. What the publisher says about it (its properties, its
largest location) is known only with the answer to a subscribe, so that comes first; then the track
is wanted for as long as the Edge takes it with Forward State 1::

    announced --wanted--> ACCEPTED --PUBLISH--> Forward State 1: wanted, 0: not
                             |                       |
                             '-- withdrawn, ENDED ---'--> PUBLISH_DONE
"""

from __future__ import annotations

from dataclasses import dataclass

from laps_sdk.edge.codes import shorten
from laps_sdk.upstream.bodies import read_ok, subscribe_data
from laps_sdk.upstream.codes import done_status
from laps_sdk.upstream.egress import alias_of
from laps_sdk.upstream.interfaces import Answer
from laps_sdk.upstream.parts import Office, RequestEvent
from laps_sdk.upstream.wishes import Wishes
from laps_wire.errors import LocalError
from laps_wire.moqt.messages import STREAM_COUNT_UNKNOWN, PublishOk, RequestOk
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.session import RequestAccepted, UpdateReceived
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData

__all__ = ["Namespaces", "Publications"]


class Namespaces:
    """Our PUBLISH_NAMESPACEs."""

    __slots__ = ("_names", "_office", "_requests")

    def __init__(self, office: Office) -> None:
        self._office = office
        self._names: dict[Namespace, int] = {}
        self._requests: dict[int, Namespace] = {}

    def offer(self, namespace: Namespace) -> None:
        """Publish a namespace, once."""
        if namespace in self._names:
            return
        try:
            request_id = self._office.session.publish_namespace(namespace)
        except LocalError:
            return  # a name that MoQT cannot say, or an Edge that sends everybody away
        self._names[namespace] = request_id
        self._requests[request_id] = namespace

    def withdraw(self, namespace: Namespace) -> None:
        """Publish it no longer."""
        request_id = self._names.pop(namespace, None)
        if request_id is not None:
            del self._requests[request_id]
            self._office.session.cancel(request_id)

    def event(self, now: float, event: RequestEvent) -> bool:  # noqa: ARG002 - as all parts
        """Whether this is about a namespace; if so, it was acted on."""
        namespace = self._requests.get(event.request_id)
        if namespace is None:
            return False
        if not isinstance(event, RequestAccepted):
            del self._requests[event.request_id], self._names[namespace]
        return True


@dataclass(slots=True, eq=False)
class _Publication:
    key: int
    name: FullTrackName
    request_id: int | None = None
    """Our PUBLISH, once there is one."""
    wanted: bool = False


class Publications:
    """Our PUBLISHes."""

    __slots__ = ("_office", "_requests", "_tracks", "_wishes")

    def __init__(self, office: Office, wishes: Wishes) -> None:
        self._office = office
        self._wishes = wishes
        self._tracks: dict[int, _Publication] = {}
        self._requests: dict[int, _Publication] = {}

    def offer(self, now: float, name: FullTrackName) -> None:
        """A track was announced."""
        key = self._office.key_of(name)
        if key not in self._tracks:
            track = self._tracks[key] = _Publication(key, name)
            self._forward(now, track, True)

    def withdraw(self, now: float, name: FullTrackName) -> None:
        """It is not any more."""
        track = self._tracks.pop(self._office.key_of(name), None)
        if track is not None:
            self._end(track, SubscribeCode.ENDED, "the publisher ended it")
            self._forward(now, track, False)

    def _forward(self, now: float, track: _Publication, wanted: bool) -> None:
        if wanted != track.wanted:
            track.wanted = wanted
            if wanted:
                data = subscribe_data(track.name, NO_PARAMETERS, self._office.draft)
                self._office.want(now, self, track.key, track.name, data)
            else:
                self._office.unwant(now, self, track.key, track.name)

    def _end(self, track: _Publication, code: int, reason: str) -> None:
        """The track has ended, for the Edge."""
        request_id, track.request_id = track.request_id, None
        if request_id is not None:
            del self._requests[request_id]
            self._office.session.publish_done(
                request_id, done_status(code), STREAM_COUNT_UNKNOWN, shorten(reason)
            )

    def answered(
        self, now: float, key: int, answer: Answer, code: int, reason: str, data: SubscribeData
    ) -> None:
        """What became of a subscribe for a track."""
        track = self._tracks.get(key)
        if track is None or not track.wanted:
            return
        if answer is not Answer.ACCEPTED:
            # It stays announced: who subscribes to it is told why not.
            self._end(track, code, reason)
            self._forward(now, track, False)
        elif track.request_id is None and not self._wishes.is_asked(key):
            self._publish(track, data)

    def _publish(self, track: _Publication, data: SubscribeData) -> None:
        largest, properties = read_ok(data, self._office.draft)
        parameters = Parameters(largest_object=largest)
        try:
            track.request_id = self._office.session.publish(
                track.name, alias_of(track.key), parameters, properties
            )
        except LocalError:
            return  # the alias is taken, or an Edge sends everybody away
        self._requests[track.request_id] = track

    def event(self, now: float, event: RequestEvent) -> bool:
        """Whether this is about a PUBLISH of ours; if so, it was acted on."""
        track = self._requests.get(event.request_id)
        if track is None:
            return False
        match event:
            case RequestAccepted(message=(RequestOk() | PublishOk()) as ok):
                self._forward(now, track, ok.parameters.forward is not False)
            case UpdateReceived():
                self._office.session.accept(event.update_id)
                forward = event.message.parameters.forward
                if forward is not None:
                    self._forward(now, track, forward)
            case _:
                # The Edge does not take it, or not any more.
                del self._requests[event.request_id]
                track.request_id = None
                self._forward(now, track, False)
        return True
