"""Namespaces: which session publishes one, and which session subscribed to a prefix.

::

    PUBLISH_NAMESPACE ---> Offer --NAMESPACE, NAMESPACE_DONE---> Watch <-- SUBSCRIBE_NAMESPACE
                             |                                     |       SUBSCRIBE_TRACKS
                             '--our SUBSCRIBE for tracks that      |
                                receivers wait for                 |
    PUBLISH -------------> Track --our PUBLISH---------------------'  all, or the top N
"""

from __future__ import annotations

from laps_sdk.edge.admission import Admission
from laps_sdk.edge.authorization import Grant
from laps_sdk.edge.events import NamespaceAdded, NamespaceGone, PrefixAdded, PrefixGone
from laps_sdk.edge.records import Client, Load, Offer, Receiver, Watch
from laps_sdk.edge.state import State
from laps_sdk.edge.subscriptions import Subscriptions
from laps_sdk.edge.tracks import Tracks
from laps_sdk.forwarding.ranking import Ranking
from laps_wire.moqt.codepoints import RequestErrorCode, SubscribeOptions
from laps_wire.moqt.messages import PublishNamespace, SubscribeNamespace, SubscribeTracks
from laps_wire.moqt.session import UpdateReceived
from laps_wire.moqt.top_n import requested_top_n
from laps_wire.moqt.versions import Draft
from laps_wire.names import Namespace

__all__ = ["Namespaces"]


class Namespaces:
    """The namespaces that sessions publish, and the prefixes that sessions subscribed to."""

    __slots__ = ("_admission", "_state", "_subscriptions", "_tracks")

    def __init__(
        self, state: State, admission: Admission, tracks: Tracks, subscriptions: Subscriptions
    ) -> None:
        self._state = state
        self._admission = admission
        self._tracks = tracks
        self._subscriptions = subscriptions

    # PUBLISH_NAMESPACE

    def publish_namespace_received(
        self, now: float, client: Client, message: PublishNamespace, grant: Grant
    ) -> None:
        """Accept a PUBLISH_NAMESPACE that is authorized, or reject it if a cap is reached."""
        state = self._state
        full = self._admission.full(client, Load.NAMESPACES)
        if full is not None:
            state.reject(
                client, message.request_id, RequestErrorCode.EXCESSIVE_LOAD, full, retry=1.0
            )
            return
        if not state.command(client, client.wire.accept, message.request_id):
            return
        namespace = message.namespace
        offer = Offer(
            client=client, request_id=message.request_id, namespace=namespace, grant=grant
        )
        state.add(offer, Load.NAMESPACES)
        state.offers.add(namespace, offer)
        self._admission.hold(offer)
        state.events.append(NamespaceAdded(session=client.id, namespace=namespace))
        for watch in state.watches.covering(namespace):
            self._announce(watch, namespace)
        # Tracks that have receivers may come from here too (moq-transport-16, 8.5).
        for track in list(self._tracks.tree.under(namespace)):
            if track.receivers:
                track.refused.discard(client.id)
                self._subscriptions.subscribe_to_publishers(now, track)

    def publish_namespace_ended(self, now: float, offer: Offer) -> None:  # noqa: ARG002 - like all ends
        """Remove a published namespace; subscriptions to its tracks stay."""
        state, namespace = self._state, offer.namespace
        state.drop(offer, Load.NAMESPACES)
        state.offers.remove(namespace, offer)
        state.events.append(NamespaceGone(session=offer.client.id, namespace=namespace))
        if state.offers.at(namespace):
            return
        for watch in state.watches.covering(namespace):
            if namespace in watch.sent:
                del watch.sent[namespace]
                wire = watch.client.wire
                state.command(
                    watch.client, wire.namespace_done, watch.request_id, watch.suffix(namespace)
                )

    def revoke(self, now: float, offer: Offer, code: int, reason: str) -> None:
        """End a PUBLISH_NAMESPACE, and our subscriptions that it was the reason for."""
        state, client = self._state, offer.client
        state.command(client, client.wire.cancel, offer.request_id, code=code, reason=reason)
        self.publish_namespace_ended(now, offer)
        for track in list(self._tracks.tree.under(offer.namespace)):
            source = track.sources.get(client.id)
            if source is None or source.pushed:
                continue
            covering = state.offers.covering(track.name.namespace)
            if not any(other.client is client for other in covering):
                self._subscriptions.end_source(now, source, code, reason, status="UNAUTHORIZED")

    def offer_updated(self, now: float, offer: Offer, event: UpdateReceived) -> None:
        """Apply an update of a PUBLISH_NAMESPACE: new tokens."""
        state, client = self._state, offer.client
        if self._admission.renew(now, offer, event.update_id, event.tokens):
            state.command(client, client.wire.accept, event.update_id)
        elif client.draft is Draft.D18:
            # The session closed the request with the error (moq-transport-18, 10.9.1).
            self.publish_namespace_ended(now, offer)

    # SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS

    def subscribe_namespace_received(
        self,
        now: float,
        client: Client,
        message: SubscribeNamespace | SubscribeTracks,
        grant: Grant,
    ) -> None:
        """Accept a SUBSCRIBE_NAMESPACE or SUBSCRIBE_TRACKS that is authorized, or reject it."""
        state = self._state
        if isinstance(message, SubscribeTracks):
            namespaces, tracks = False, True
        else:
            namespaces = message.options is not SubscribeOptions.PUBLISH
            tracks = message.options is not SubscribeOptions.NAMESPACE
        full = self._admission.full(client, Load.PREFIXES)
        if full is not None:
            state.reject(
                client, message.request_id, RequestErrorCode.EXCESSIVE_LOAD, full, retry=1.0
            )
            return
        if self._too_large(message.prefix, namespaces=namespaces, tracks=tracks):
            code = RequestErrorCode.NAMESPACE_TOO_LARGE
            state.reject(client, message.request_id, code, "the prefix matches too much")
            return
        if not state.command(client, client.wire.accept, message.request_id):
            return
        top_n = requested_top_n(message.parameters.ignored, client.draft) or client.top_n
        ranking = None
        if tracks and top_n is not None:
            top_n = min(top_n, state.settings.top_n_max)
            ranking = Ranking(top_n, state.settings.top_n_margin)
        watch = Watch(
            client=client,
            request_id=message.request_id,
            prefix=message.prefix,
            namespaces=namespaces,
            tracks=tracks,
            forward=message.parameters.forward is not False,
            ranking=ranking,
            grant=grant,
        )
        state.add(watch, Load.PREFIXES)
        state.watches.add(watch.prefix, watch)
        self._admission.hold(watch)
        state.events.append(
            PrefixAdded(
                session=client.id,
                prefix=watch.prefix,
                namespaces=namespaces,
                tracks=tracks,
                top_n=None if ranking is None else ranking.size,
            )
        )
        self._catch_up(now, watch)

    def _too_large(self, prefix: Namespace, *, namespaces: bool, tracks: bool) -> bool:
        state = self._state
        limit = state.settings.max_enumerated
        for asked, found in (
            (namespaces, state.offers.under(prefix)),
            (tracks, self._tracks.tree.under(prefix)),
        ):
            if asked and sum(1 for _, _ in zip(range(limit + 1), found, strict=False)) > limit:
                return True
        return False

    def _catch_up(self, now: float, watch: Watch) -> None:
        """Send a watch the namespaces and tracks that exist already."""
        state = self._state
        if watch.namespaces:
            for offer in list(state.offers.under(watch.prefix)):
                self._announce(watch, offer.namespace)
        if watch.tracks:
            for track in list(self._tracks.tree.under(watch.prefix)):
                self._subscriptions.consider(now, track, watch)

    def _announce(self, watch: Watch, namespace: Namespace) -> None:
        """Send NAMESPACE, once for each namespace, however many sessions publish it."""
        if not watch.namespaces or namespace in watch.sent:
            return
        wire = watch.client.wire
        if self._state.command(
            watch.client, wire.namespace, watch.request_id, watch.suffix(namespace)
        ):
            watch.sent[namespace] = None

    def watch_ended(self, now: float, watch: Watch) -> None:
        """Remove a watch; tracks that were pushed for it stay (moq-transport-18, 10.16)."""
        state = self._state
        state.drop(watch, Load.PREFIXES)
        state.watches.remove(watch.prefix, watch)
        state.events.append(PrefixGone(session=watch.client.id, prefix=watch.prefix))
        if watch.ranking is not None:
            self._subscriptions.rerank(watch.prefix)
        for receiver in list(watch.client.requests.values()):
            if not isinstance(receiver, Receiver) or receiver.watch is not watch:
                continue
            receiver.watch = None
            if watch.ranking is not None:
                # Without a ranking to keep it there, a track is in no top.
                reason = "Top-N was cancelled"
                self._subscriptions.end_receiver(now, receiver, "SUBSCRIPTION_ENDED", reason)

    def end_watch(self, now: float, watch: Watch, code: int, reason: str) -> None:
        """Cancel a watch with an error code, and remove it."""
        client = watch.client
        self._state.command(client, client.wire.cancel, watch.request_id, code=code, reason=reason)
        self.watch_ended(now, watch)

    def watch_updated(self, now: float, watch: Watch, event: UpdateReceived) -> None:
        """Apply an update of a watch: a new prefix, or new tokens (moq-transport-18, 10.9.2)."""
        state, client = self._state, watch.client
        prefix = event.message.parameters.track_namespace_prefix
        if prefix is not None and watch.grant is not None:
            grant = watch.grant
            tokens = event.tokens or grant.tokens
            fresh = self._admission.allow(
                now, client, event.update_id, grant.action, prefix, None, tokens
            )
            if fresh is None:
                self.watch_ended(now, watch)
                return
            watch.grant = fresh
            self._admission.hold(watch)
        elif not self._admission.renew(now, watch, event.update_id, event.tokens):
            if client.draft is Draft.D18:
                self.watch_ended(now, watch)
            return
        if not state.command(client, client.wire.accept, event.update_id) or prefix is None:
            return
        state.watches.remove(watch.prefix, watch)
        before, watch.prefix = watch.prefix, prefix
        state.watches.add(prefix, watch)
        watch.sent = {name: None for name in watch.sent if prefix.is_prefix_of(name)}
        if watch.ranking is not None:
            watch.ranking = Ranking(watch.ranking.size, state.settings.top_n_margin)
            self._subscriptions.rerank(before)
        self._catch_up(now, watch)
