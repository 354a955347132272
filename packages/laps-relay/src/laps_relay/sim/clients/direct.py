"""A relay's own clients in the simulation: publishers and subscribers without MoQT.

They stand where the Edge's bridge stands in a server: they are the ``LocalSide`` and the
``DataSink`` of a network core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_relay.sim.clients.ledger import Flow, Group, Interval, Ledger, encode_object
from laps_relay.sim.clients.publications import Publication, Style
from laps_relay.sim.clients.receiving import CUT, Left, Receiving, Want
from laps_relay.sim.core import RelayCore
from laps_relay.sim.net.clock import Clock
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.upstream.interfaces import Answer, Feed
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    SubscribeCode,
    SubscribeData,
)

__all__ = ["Clients"]

NO_DATA: Final = SubscribeData()
PULL_DELAY: Final = 0.002
"""How long a publisher takes to answer."""
RETRY: Final = 2.5
"""How long a client waits that was refused."""


class Clients(Receiving):
    """All clients of one relay in one life of it."""

    __slots__ = (
        "_call",
        "_clock",
        "_pulled",
        "_renewed",
        "discovered_names",
        "publications",
    )

    def __init__(
        self,
        clock: Clock,
        ledger: Ledger,
        contact: str,
        call: Callable[[Callable[[RelayCore, float], None]], None],
    ) -> None:
        super().__init__(ledger, contact)
        self._clock = clock
        self._call = call
        self.publications: list[Publication] = []
        self.discovered_names: dict[tuple[AnnounceKind, FullTrackName], None] = {}
        self._pulled: dict[int, Feed] = {}
        """By key: what the network wants now, whether the publisher has agreed or not."""
        self._renewed: dict[int, None] = {}
        """Keys of tracks whose stream goes on in another one with the next object."""

    # What clients do

    def publish(self, publication: Publication) -> None:
        """A publisher comes."""
        self.publications.append(publication)
        beat = publication.begin()
        self._call(lambda core, now: core.announce(now, publication.kind, publication.name))
        self._clock.after(publication.style.period, self._tick, publication, beat)

    def unpublish(self, publication: Publication) -> None:
        """It goes; groups under way are finished."""
        if publication not in self.publications:
            return
        self.publications.remove(publication)
        end_streams = publication.end()
        ended = list(publication.flows)
        publication.flows.clear()

        def end(core: RelayCore, now: float) -> None:
            end_streams()
            for key in ended:
                core.pull_ended(now, key, "the publisher ended it")
            core.withdraw(now, publication.kind, publication.name)

        self._call(end)

    @property
    def pulled(self) -> set[int]:
        """The keys of what is sent because somebody wants it."""
        return {key for each in self.publications for key in each.flows}

    def subscribe(self, key: int, name: FullTrackName) -> None:
        """A subscriber comes."""
        if key not in self.wants:
            self.wants[key] = Want(key, name, self._clock.now)
            self.past.pop(key, None)
        self._call(lambda core, now: core.want(now, name, NO_DATA))

    def unsubscribe(self, key: int) -> None:
        """The last subscriber of a track goes."""
        want = self._unwant(key)
        if want is None:
            return
        self._call(lambda core, now: core.unwant(now, want.name))

    def _unwant(self, key: int) -> Want | None:
        want = self.wants.pop(key, None)
        if want is not None:
            self.past[key] = Left(self._clock.now, want.answer is Answer.ACCEPTED)
            self._close(want)
        return want

    def asked(self) -> dict[int, float]:
        """What was wanted in this life and those before, and until when."""
        past = {key: left.when for key, left in self.past.items()}
        return {**self.former, **past, **dict.fromkeys(self.wants, self._clock.now)}

    def gone(self) -> None:
        """The relay is gone, and the clients with it."""
        self.alive = False
        for want in self.wants.values():
            self._close(want)

    def forget(self) -> None:
        """They are clients of another process now; what still comes here is for nobody."""
        self.publications = []
        self.wants = {}
        self._incoming.clear()

    def _close(self, want: Want) -> None:
        if want.interval is not None:
            want.interval.end = self._clock.now
            want.interval = None

    # Publishing

    def _tick(self, publication: Publication, beat: int) -> None:
        """It is time for the next group.

        A relay that stands still takes nothing from its clients either. It gets this when it goes
        on, in the order in which it happened: what comes behind a new policy is under that policy.
        """
        if self._speaks(publication, beat):
            began = self._clock.now
            self._clock.after(publication.style.period, self._tick, publication, beat)
            self._call(lambda core, now: self._group(publication, beat, began))  # noqa: ARG005

    def _speaks(self, publication: Publication, beat: int) -> bool:
        return self.alive and publication in self.publications and publication.beat == beat

    def _group(self, publication: Publication, beat: int, began: float) -> None:
        """Publish a group, or an object of a stream that does not end."""
        if not self._speaks(publication, beat):
            return
        style = publication.style
        publication.group += 1
        if style.endless:
            for key, (flow, feed) in list(publication.flows.items()):
                self._go_on(publication, key, flow, feed, began)
            return
        for flow, feed in list(publication.flows.values()):
            now = self._clock.now
            group = Group(flow, publication.group, began, style.datagrams)
            flow.groups[group.number] = group
            stream = None
            if not style.datagrams:
                stream = feed.open_stream(
                    now, priority=style.priority, ttl_ms=style.ttl_ms, deadline=style.deadline(now)
                )
            self._object(group, feed, stream, style)

    def _go_on(
        self, publication: Publication, key: int, flow: Flow, feed: Feed, began: float
    ) -> None:
        """One more object of a stream that does not end."""
        now, style = self._clock.now, publication.style
        flow.endless = True
        group = flow.groups[publication.group] = Group(flow, publication.group, began, False)
        group.sent, group.whole = 1, True
        self._ledger.published += 1
        before, stream = publication.open.get(key, (None, None))
        if stream is not None and (before is not flow or self._renewed.pop(key, self) is not self):
            stream.write(CUT, True)
            stream = None
        if stream is None:
            stream = feed.open_stream(
                now, priority=style.priority, ttl_ms=style.ttl_ms, deadline=style.deadline(now)
            )
            publication.open[key] = (flow, stream)
        stream.set_deadline(style.deadline(now))
        stream.write(encode_object(flow.number, group.number, 0, now, style.padding))

    def _object(self, group: Group, feed: Feed, stream: OutStream | None, style: Style) -> None:
        """Send one object, when the relay takes it, and plan the next one."""
        if self.alive:
            self._call(lambda core, now: self._write(now, group, feed, stream, style))  # noqa: ARG005

    def _write(
        self, now: float, group: Group, feed: Feed, stream: OutStream | None, style: Style
    ) -> None:
        data = encode_object(group.flow.number, group.number, group.sent, now, style.padding)
        group.sent += 1
        group.ended = now
        group.whole = group.sent >= style.objects
        self._ledger.published += 1
        if stream is not None:
            stream.set_deadline(style.deadline(now))
            stream.write(data, group.whole)
        else:
            feed.send_datagram(now, data, priority=style.priority, ttl_ms=style.ttl_ms)
        if not group.whole:
            self._clock.after(style.gap, self._object, group, feed, stream, style)

    # LocalSide

    def pull(
        self,
        now: float,  # noqa: ARG002
        key: int,
        name: FullTrackName,
        data: SubscribeData,  # noqa: ARG002
        feed: Feed,
    ) -> None:
        """The network wants a track: the publisher agrees a moment later."""
        self._pulled[key] = feed
        self._clock.after(PULL_DELAY, self._agree, key, name, feed)

    def _agree(self, key: int, name: FullTrackName, feed: Feed) -> None:
        if not self.alive or self._pulled.get(key) is not feed:
            return  # it was released meanwhile
        for publication in self.publications:
            if publication.covers(name):
                flow = self._ledger.flows.begin(self.contact, key, publication.scope)
                publication.flows[key] = (flow, feed)
                self._call(lambda core, now: core.pulled(now, key, NO_DATA))
                return
        self._call(lambda core, now: core.pull_ended(now, key, "no publisher any more"))

    def renew(self, now: float, key: int, before: float) -> None:  # noqa: ARG002
        """Open streams should go on in new ones, from their next objects on."""
        self._renewed[key] = None

    def release(self, now: float, key: int) -> None:  # noqa: ARG002
        """Nobody wants it any more."""
        self._pulled.pop(key, None)
        for publication in self.publications:
            publication.flows.pop(key, None)
            _, stream = publication.open.pop(key, (None, None))
            if stream is not None:
                stream.reset(0)

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: SubscribeCode,
        reason: str,  # noqa: ARG002
        data: SubscribeData,  # noqa: ARG002
    ) -> None:
        """What became of a want."""
        want = self.wants.get(key)
        if want is None:
            return
        want.answer = answer
        want.code = int(code)
        if answer is Answer.ACCEPTED:
            if want.interval is None:
                want.interval = Interval(self.contact, key, now)
                self._ledger.intervals.append(want.interval)
        else:
            # Clients that are told so ask again, as those of MoQT do.
            self._close(want)
            self._clock.after(RETRY, self._ask_again, want)

    def _ask_again(self, want: Want) -> None:
        if self.alive and self.wants.get(want.key) is want and want.answer is not Answer.ACCEPTED:
            self._call(lambda core, now: core.want(now, want.name, NO_DATA))

    def discovered(self, now: float, entry: AnnounceInfo) -> None:  # noqa: ARG002
        """A name that others announce."""
        if entry.plaintext is not None:
            self.discovered_names[entry.kind, entry.plaintext] = None

    def vanished(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:  # noqa: ARG002
        """It is gone."""
        self.discovered_names.pop((kind, name), None)
