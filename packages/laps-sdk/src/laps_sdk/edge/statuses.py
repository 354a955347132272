"""TRACK_STATUS: answered from what the relay knows, or passed on to a publisher."""

from __future__ import annotations

from laps_sdk.edge.codes import properties_for
from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.fetches import no_retry
from laps_sdk.edge.records import Client, StatusLeg
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import RequestOk, TrackStatus
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.versions import Draft

__all__ = ["Statuses"]


class Statuses:
    """Questions about tracks."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def ask(self, now: float, client: Client, message: TrackStatus) -> None:
        """Answer a TRACK_STATUS that is allowed."""
        context = self._context
        track = context.tracks.by_name.get(message.track)
        if track is not None and track.established:
            parameters = Parameters(largest_object=context.tracks.largest(track))
            properties = properties_for(track.properties, track.properties_draft, client.draft)
            self._answer(client, message.request_id, parameters, properties)
            return
        for offer in reversed(context.offers.covering(message.track.namespace)):
            publisher = offer.client
            if not publisher.usable or publisher.info.peering:
                continue
            asked = context.ask(publisher, no_retry, publisher.wire.track_status, message.track)
            if asked.request_id is None:
                continue
            leg = StatusLeg(
                client=publisher,
                request_id=asked.request_id,
                asker=client,
                asker_request=message.request_id,
            )
            context.add(leg, None)
            context.timers.set((Due.ANSWER, leg), now + context.settings.upstream_timeout)
            return
        code = RequestErrorCode.DOES_NOT_EXIST
        context.reject(client, message.request_id, code, "nobody publishes this track")

    def _answer(
        self,
        client: Client,
        request_id: int,
        parameters: Parameters,
        properties: KeyValues,
    ) -> None:
        # Draft 16 has no room for properties in REQUEST_OK.
        if client.draft is Draft.D16:
            properties = ()
        context = self._context
        if not context.tell(client, client.wire.accept, request_id, parameters, properties):
            reason = "the answer cannot be written"
            context.reject(client, request_id, RequestErrorCode.INTERNAL_ERROR, reason)

    def known(self, leg: StatusLeg, message: RequestOk) -> None:
        """A publisher answered."""
        self._context.drop(leg, None)
        properties = properties_for(message.track_properties, leg.client.draft, leg.asker.draft)
        parameters = Parameters(largest_object=message.parameters.largest_object)
        self._answer(leg.asker, leg.asker_request, parameters, properties)

    def unknown(self, leg: StatusLeg, code: RequestErrorCode, reason: str) -> None:
        """A publisher rejected it, does not answer, or is gone."""
        self._context.drop(leg, None)
        self._context.reject(leg.asker, leg.asker_request, code, reason)
