"""Namespaces: who publishes them, who wants to hear of them, and who gets tracks pushed.

::

    PUBLISH_NAMESPACE ---> Offer --NAMESPACE, NAMESPACE_DONE---> Watch <-- SUBSCRIBE_NAMESPACE
                             |                                     |       SUBSCRIBE_TRACKS
                             '--our SUBSCRIBE for tracks that      |
                                receivers wait for                 |
    PUBLISH -------------> Track --our PUBLISH---------------------'  all, or the top N

A track goes to a watch once, never to a session that publishes it, and only if the authorizer lets
the session subscribe to it. Top-N is in docs/spec/top-n.md.
"""

from __future__ import annotations

from laps_sdk.edge.authorization import Action
from laps_sdk.edge.context import Context
from laps_sdk.edge.events import NamespaceAdded, NamespaceGone, PrefixAdded, PrefixGone
from laps_sdk.edge.records import Client, Grant, Load, Offer, Receiver, Track, Watch
from laps_sdk.forwarding.ranking import Change, Ranking
from laps_wire.moqt.codepoints import RequestErrorCode, SubscribeOptions
from laps_wire.moqt.messages import PublishNamespace, SubscribeNamespace, SubscribeTracks
from laps_wire.moqt.session.events import UpdateReceived
from laps_wire.moqt.top_n import RANK_PROPERTY, requested_top_n
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Spaces"]


class Spaces:
    """Offers and watches."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    # PUBLISH_NAMESPACE

    def publish(self, now: float, client: Client, message: PublishNamespace, grant: Grant) -> None:
        """Take a PUBLISH_NAMESPACE that is allowed."""
        context = self._context
        full = context.full(client, Load.NAMESPACES)
        if full is not None:
            context.reject(
                client, message.request_id, RequestErrorCode.EXCESSIVE_LOAD, full, retry=1.0
            )
            return
        if not context.tell(client, client.wire.accept, message.request_id):
            return
        namespace = message.namespace
        offer = Offer(
            client=client, request_id=message.request_id, namespace=namespace, grant=grant
        )
        context.add(offer, Load.NAMESPACES)
        context.offers.add(namespace, offer)
        context.grants.hold(offer)
        context.events.append(NamespaceAdded(session=client.id, namespace=namespace))
        for watch in context.watches.covering(namespace):
            self._announce(watch, namespace)
        # Tracks that are wanted already may come from here too (moq-transport-16, 8.5).
        for track in list(context.tracks.tree.under(namespace)):
            if track.receivers:
                track.refused.discard(client.id)
                context.sources.ensure(now, track)

    def unpublished(self, now: float, offer: Offer) -> None:  # noqa: ARG002 - like all ends
        """A namespace is published no longer; subscriptions to its tracks stay."""
        context, namespace = self._context, offer.namespace
        context.drop(offer, Load.NAMESPACES)
        context.offers.remove(namespace, offer)
        context.events.append(NamespaceGone(session=offer.client.id, namespace=namespace))
        if context.offers.at(namespace):
            return
        for watch in context.watches.covering(namespace):
            if namespace in watch.told:
                del watch.told[namespace]
                wire = watch.client.wire
                context.tell(
                    watch.client, wire.namespace_done, watch.request_id, _suffix(watch, namespace)
                )

    def revoke(self, now: float, offer: Offer, code: int, reason: str) -> None:
        """A session may not publish a namespace any more: nor the tracks that it had for it."""
        context, client = self._context, offer.client
        context.tell(client, client.wire.cancel, offer.request_id, code=code, reason=reason)
        self.unpublished(now, offer)
        for track in list(context.tracks.tree.under(offer.namespace)):
            source = track.sources.get(client.id)
            if source is None or source.pushed:
                continue
            covering = context.offers.covering(track.name.namespace)
            if not any(other.client is client for other in covering):
                context.sources.drop(now, source, code, reason, status="UNAUTHORIZED")

    def update_offer(self, now: float, offer: Offer, event: UpdateReceived) -> None:
        """New tokens for a namespace."""
        context, client = self._context, offer.client
        if context.grants.renew(now, offer, event.update_id, event.tokens):
            context.tell(client, client.wire.accept, event.update_id)
        elif client.draft is Draft.D18:
            # The session closed the request with the error (moq-transport-18, 10.9.1).
            self.unpublished(now, offer)

    # SUBSCRIBE_NAMESPACE and SUBSCRIBE_TRACKS

    def watch(
        self,
        now: float,
        client: Client,
        message: SubscribeNamespace | SubscribeTracks,
        grant: Grant,
    ) -> None:
        """Take a prefix that is allowed."""
        context = self._context
        if isinstance(message, SubscribeTracks):
            namespaces, tracks = False, True
        else:
            namespaces = message.options is not SubscribeOptions.PUBLISH
            tracks = message.options is not SubscribeOptions.NAMESPACE
        full = context.full(client, Load.PREFIXES)
        if full is not None:
            context.reject(
                client, message.request_id, RequestErrorCode.EXCESSIVE_LOAD, full, retry=1.0
            )
            return
        if self._too_large(message.prefix, namespaces=namespaces, tracks=tracks):
            code = RequestErrorCode.NAMESPACE_TOO_LARGE
            context.reject(client, message.request_id, code, "the prefix matches too much")
            return
        if not context.tell(client, client.wire.accept, message.request_id):
            return
        top_n = requested_top_n(message.parameters.ignored, client.draft) or client.top_n
        ranking = None
        if tracks and top_n is not None:
            top_n = min(top_n, context.settings.top_n_max)
            ranking = Ranking(top_n, context.settings.top_n_margin)
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
        context.add(watch, Load.PREFIXES)
        context.watches.add(watch.prefix, watch)
        context.grants.hold(watch)
        context.events.append(
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
        context = self._context
        limit = context.settings.max_enumerated
        for wanted, found in (
            (namespaces, context.offers.under(prefix)),
            (tracks, context.tracks.tree.under(prefix)),
        ):
            if wanted and sum(1 for _, _ in zip(range(limit + 1), found, strict=False)) > limit:
                return True
        return False

    def _catch_up(self, now: float, watch: Watch) -> None:
        """Tell a watch what is there already."""
        context = self._context
        if watch.namespaces:
            for offer in list(context.offers.under(watch.prefix)):
                self._announce(watch, offer.namespace)
        if watch.tracks:
            for track in list(context.tracks.tree.under(watch.prefix)):
                self._consider(now, track, watch)

    def _announce(self, watch: Watch, namespace: Namespace) -> None:
        """Say NAMESPACE, once for each, however many publish it."""
        if not watch.namespaces or namespace in watch.told:
            return
        wire = watch.client.wire
        if self._context.tell(
            watch.client, wire.namespace, watch.request_id, _suffix(watch, namespace)
        ):
            watch.told[namespace] = None

    def unwatched(self, now: float, watch: Watch) -> None:
        """A prefix is not wanted any more; tracks that were pushed stay (18: 10.16)."""
        context = self._context
        context.drop(watch, Load.PREFIXES)
        context.watches.remove(watch.prefix, watch)
        context.events.append(PrefixGone(session=watch.client.id, prefix=watch.prefix))
        if watch.ranking is not None:
            self._rerank(watch.prefix)
        for receiver in list(watch.client.requests.values()):
            if not isinstance(receiver, Receiver) or receiver.watch is not watch:
                continue
            receiver.watch = None
            if watch.ranking is not None:
                # Without a ranking to keep it there, a track is in no top.
                reason = "Top-N was cancelled"
                context.receivers.end(now, receiver, "SUBSCRIPTION_ENDED", reason)

    def dismiss(self, now: float, watch: Watch, code: int, reason: str) -> None:
        """End a watch ourselves."""
        client = watch.client
        self._context.tell(client, client.wire.cancel, watch.request_id, code=code, reason=reason)
        self.unwatched(now, watch)

    def update_watch(self, now: float, watch: Watch, event: UpdateReceived) -> None:
        """A new prefix, or new tokens (moq-transport-18, 10.9.2)."""
        context, client = self._context, watch.client
        prefix = event.message.parameters.track_namespace_prefix
        if prefix is not None and watch.grant is not None:
            grant = watch.grant
            tokens = event.tokens or grant.tokens
            fresh = context.grants.allow(
                now, client, event.update_id, grant.action, prefix, None, tokens
            )
            if fresh is None:
                self.unwatched(now, watch)
                return
            watch.grant = fresh
            context.grants.hold(watch)
        elif not context.grants.renew(now, watch, event.update_id, event.tokens):
            if client.draft is Draft.D18:
                self.unwatched(now, watch)
            return
        if not context.tell(client, client.wire.accept, event.update_id) or prefix is None:
            return
        context.watches.remove(watch.prefix, watch)
        before, watch.prefix = watch.prefix, prefix
        context.watches.add(prefix, watch)
        watch.told = {name: None for name in watch.told if prefix.is_prefix_of(name)}
        if watch.ranking is not None:
            watch.ranking = Ranking(watch.ranking.size, context.settings.top_n_margin)
            self._rerank(before)
        self._catch_up(now, watch)

    # Tracks for watches

    def track_published(self, now: float, track: Track) -> None:
        """Somebody PUBLISHed a track: whoever watches its namespace gets it."""
        for watch in self._context.watches.covering(track.name.namespace):
            if watch.tracks:
                self._consider(now, track, watch)

    def publisher_left(self, now: float, track: Track) -> None:
        """One that PUBLISHed a track does so no longer; receivers end with the last source."""
        if track.pushed:
            # It may want the track from the others now.
            self.track_published(now, track)
            return
        self._rank(track, wanted=False)
        for watch in self._context.watches.covering(track.name.namespace):
            watch.declined.discard(track.number)
            if watch.ranking is not None:
                self._apply(now, watch, watch.ranking.remove(track.number))

    def _consider(self, now: float, track: Track, watch: Watch) -> None:
        """Offer a track to a watch, or let it compete for the top."""
        if not track.pushed or track.number in watch.declined:
            return
        if watch.client.id in track.sources:
            # A session never gets its own, nor does that rank against others.
            if watch.ranking is not None:
                self._apply(now, watch, watch.ranking.remove(track.number))
            else:
                self._withdraw(now, watch, track, "the session publishes it itself")
        elif watch.ranking is None:
            self.offer(now, track, watch)
        else:
            self._rank(track, wanted=True)
            self._apply(now, watch, watch.ranking.update(track.number, track.rank or 0))

    def _withdraw(self, now: float, watch: Watch, track: Track, reason: str) -> None:
        """End what we PUBLISHed to a watch."""
        receiver = track.receivers.get(watch.client.id)
        if receiver is not None and receiver.watch is watch:
            self._context.receivers.end(now, receiver, "SUBSCRIPTION_ENDED", reason)

    def offer(self, now: float, track: Track, watch: Watch) -> None:
        """PUBLISH a track to a watch, if it may have it and has it not."""
        context, client = self._context, watch.client
        if (
            client.requests.get(watch.request_id) is not watch
            or not client.usable
            or not track.pushed
            or client.id in track.sources
            or track.name in watch.blocked
            or track.number in watch.declined
            or (watch.ranking is not None and not watch.ranking.in_top(track.number))
            or client.id in track.receivers
        ):
            return
        tokens = () if watch.grant is None else watch.grant.tokens
        name = track.name
        grant, decision = context.grants.request(
            now, client, Action.SUBSCRIBE, name.namespace, name.name, tokens
        )
        if not decision.allowed:
            return
        if context.full(client, Load.OFFERS) is None and context.receivers.publish(
            now, track, watch, grant
        ):
            return
        if client.draft is Draft.D18 and watch.ranking is None:
            # It can SUBSCRIBE instead, and must not hear of the track twice (18: 6.1).
            suffix = FullTrackName(_suffix(watch, name.namespace), name.name)
            if context.tell(client, client.wire.publish_blocked, watch.request_id, suffix):
                watch.blocked[name] = None

    def receiver_left(self, now: float, receiver: Receiver) -> None:
        """A session gave up a track that was pushed to it: it shall not come again."""
        watch = receiver.watch
        if watch is None:
            return
        watch.declined.add(receiver.track.number)
        if watch.ranking is not None:
            self._apply(now, watch, watch.ranking.remove(receiver.track.number))

    # Top-N

    def rank_changed(self, now: float, track: Track, value: int) -> None:
        """A track's ranking property has a new value."""
        track.rank = value
        for watch in self._context.watches.covering(track.name.namespace):
            if watch.ranking is not None and track.number in watch.ranking:
                self._apply(now, watch, watch.ranking.update(track.number, value))

    def _apply(self, now: float, watch: Watch, change: Change) -> None:
        context = self._context
        if change.left is not None:
            left = context.tracks.get(change.left)
            if left is not None:
                self._withdraw(now, watch, left, "the track left the top")
        if change.entered is not None:
            entered = context.tracks.get(change.entered)
            if entered is not None:
                self.offer(now, entered, watch)

    def _rerank(self, prefix: Namespace) -> None:
        """A Top-N watch is gone: tracks that no other one ranks need no ranking."""
        context = self._context
        for track in list(context.tracks.tree.under(prefix)):
            self._rank(
                track,
                wanted=any(
                    watch.ranking is not None
                    for watch in context.watches.covering(track.name.namespace)
                ),
            )

    def _rank(self, track: Track, *, wanted: bool) -> None:
        if wanted != track.ranked and track.installed:
            track.ranked = wanted
            self._context.plane.rank_by(track.number, RANK_PROPERTY if wanted else None)
            self._context.sources.sync(track)


def _suffix(watch: Watch, namespace: Namespace) -> Namespace:
    return Namespace(namespace.fields[len(watch.prefix.fields) :])
