"""One subgroup that is under way: from one incoming stream to any number of receivers.

::

    stream of a publisher
          |  chunk                     RunParser: one run of bytes, marks where objects begin
          v
       admit                           each object once; a refused one is cut out of the run
          |  run
          +------> cache               by reference
          +------> flow of the same draft      write(run)   write(run)   write(run)   ...
          +------> flow of the other draft     transcoded once, then the same
          '------> waiting receivers           open a stream at the first object they want

The run is the same ``bytes`` for all of them. A second stream of the same subgroup stands by (see
``standby``) and takes over if this one is reset, or was cut for it (see ``continuing``).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from laps_sdk.forwarding.coding import (
    CANCELLED,
    INTERNAL_ERROR,
    Mark,
    mirrored_code,
    object_header,
    transcode,
)
from laps_sdk.forwarding.continuing import (
    QUIET,
    begin_anew,
    cut_quiet,
    end_paused,
    give_up_waiting,
    wait_for,
)
from laps_sdk.forwarding.flow import Flow
from laps_sdk.forwarding.group import Group
from laps_sdk.forwarding.interfaces import LinkedStream
from laps_sdk.forwarding.receiver import Out, Receiver
from laps_sdk.forwarding.runs import Run, run_from, without
from laps_sdk.forwarding.scan import RunParser
from laps_sdk.forwarding.segment import Segment
from laps_sdk.forwarding.state import Session
from laps_sdk.forwarding.timing import watch_first
from laps_wire.errors import EncodeError
from laps_wire.moqt.data.types import ObjectHeader, SubgroupHeader
from laps_wire.moqt.versions import Draft

if TYPE_CHECKING:
    from laps_sdk.forwarding.standby import Standby

__all__ = ["Feed"]


class Feed:
    """A subgroup under way; a ``Handler`` of the stream that it comes on."""

    __slots__ = (
        "_intact",
        "_lost",
        "_skipping",
        "_state",
        "_taken_over",
        "_tally",
        "awaited",
        "cut_at",
        "draft",
        "flows",
        "group",
        "header",
        "last_id",
        "objects",
        "parser",
        "paused",
        "payload",
        "priority",
        "renewing",
        "segment",
        "session",
        "standby",
        "stream_id",
        "subgroup_id",
        "track",
        "waiting",
    )

    def __init__(
        self,
        session: Session,
        stream_id: int,
        parser: RunParser,
        header: SubgroupHeader,
        subgroup_id: int,
        group: Group,
        default_priority: int,
    ) -> None:
        self._state = session.state
        self.session = session
        self.stream_id = stream_id
        self.parser = parser
        self.draft: Draft = parser.draft
        self.header = header
        self.subgroup_id = subgroup_id
        self.group = group
        self.track = group.track
        self._tally = self.track.tally(session)
        self.priority = default_priority if header.priority is None else header.priority
        self.segment: Segment | None = None
        self.last_id = -1
        """The last object that was taken; -1 before the first."""
        self.objects = 0
        self.payload = 0
        """Payload bytes that were taken."""
        self.standby: list[Standby] = []
        self.flows: dict[Draft, Flow] = {}
        refused = group.refused.get(subgroup_id, ())
        self.waiting: list[Receiver] = [
            receiver
            for receiver in self.track.receivers
            if receiver.wants_group(header.group_id)
            and receiver not in refused
            and receiver.takes_from(session.number)
        ]
        """Receivers for which no object passed yet."""
        self._intact = True  # whether the first object taken is the first of the stream
        self._skipping = False  # whether the last object begun was refused
        self._taken_over = False
        self._lost: list[Out] = []
        self.renewing: dict[Out, None] = {}
        """Streams that end with this object, and whose receivers get another one for the rest."""
        self.paused: dict[Receiver, None] = {}
        """Receivers whose stream was cut before an object that has not come yet."""
        self.awaited: int | None = None
        """It was cut: the object with which another stream goes on."""
        self.cut_at = 0.0
        """When that was."""
        group.feeds[subgroup_id] = self

    # Bytes that come

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of the stream."""
        marks: list[Mark] = []
        body, end = self.parser.scan(data, marks)
        draft, group, admit = self.draft, self.group, self.track.admit
        group.touched = now
        fresh = [mark for mark in marks if admit(group, mark[0], draft)]
        if self._taken_over:
            fresh = self._in_time(fresh)
        if len(fresh) != len(marks) or self._skipping:
            if self.last_id < 0:
                self._intact = False
            run = self._run(body[:end], marks)
            body, fresh, self._skipping = without(run, fresh, skipping=self._skipping)
        elif end != len(body):
            body = body[:end]
        awaited = self.parser.cut_before if fin and self.session.peering else None
        if awaited is not None:
            if body:
                self.emit(now, body, fresh, fin=False)
            wait_for(now, self, awaited)
            return
        if fin:
            self.parser.finish()
            self._finish_ids()
        if body or fin:
            self.emit(now, body, fresh, fin)
        if fin:
            if self.paused:
                end_paused(now, self)
            self._close(finished=True)
        elif self.standby:
            for second in tuple(self.standby):
                second.lead(now)

    def reset(self, now: float, code: int) -> None:
        """The stream was abandoned; another one of the subgroup may go on."""
        broken = self.parser.left > 0 and not self._skipping
        if broken:
            # The object did not come after all: another stream may bring it.
            self.group.seen.discard(self.last_id)
            segment = self.segment
            if segment is not None and segment.cost:
                segment.cut()
                self._state.cache.grew(segment, -1)
                if not segment.count:
                    self._state.cache.remove(segment)
        heir = self.standby.pop(0) if self.standby else None
        if heir is not None and not broken and heir.fits(self):
            self.take_over(now, heir)
            return
        self.abandon(code)
        if heir is not None:
            heir.promote(now, self.standby)

    def _in_time(self, fresh: list[Mark]) -> list[Mark]:
        """Objects of a second stream that are not behind later ones of the first."""
        good = [mark for mark in fresh if mark[0].object_id > self.last_id]
        self._state.late_objects += len(fresh) - len(good)
        self.track.dropped_objects += len(fresh) - len(good)
        return good

    def _finish_ids(self) -> None:
        """What a FIN says about ids (moq-transport-16, 2.4.2 and 10.4.2)."""
        last = self.parser.object_id
        if last < 0:
            return
        if not self._taken_over:
            self.group.finish_subgroup(self.subgroup_id, last)
        header = self.parser.header
        if header is not None and header.end_of_group:
            self.group.end_at(last)

    def _run(self, body: bytes, marks: list[Mark]) -> Run:
        return Run(body, marks, self.last_id, self.header.has_extensions, self.draft)

    # Bytes that go

    def emit(
        self,
        now: float,
        body: bytes,
        marks: list[Mark],
        fin: bool,
        again: AbstractSet[Receiver] = frozenset(),
    ) -> None:
        """Hand a run on: to the cache, to those who are in, to those who come in.

        Those who come in ``again`` had another stream for what was before.
        """
        if marks and self.renewing:
            begin_anew(now, self, body, marks, fin)
            return
        size = len(body)
        for mark in marks:
            size -= mark[2] - mark[1]
        if body:
            self._keep(now, body, marks)
        previous = self.last_id
        for draft, flow in self.flows.items():
            if draft is self.draft:
                run = body
            else:
                run = self._translated(now, flow, body, marks, previous, draft)
            for write in flow.writes:
                write(run, fin)
            for out in flow.timed:
                out.wrote(now, len(run))
        if marks:
            if self.waiting:
                self._let_in(now, body, marks, fin, again)
            self.last_id = marks[-1][0].object_id
            if not self.objects and self.track.bounded:
                self.track.check_done()  # a group that some do not want may have begun
        self.objects += len(marks)
        self.payload += size
        track = self.track
        track.objects_in += len(marks)
        track.bytes_in += size
        if self._tally is not None:
            self._tally.came(len(marks), size)
        samples = self._state.samples
        if samples is not None and marks and self.objects == len(marks):
            watch_first(now, samples, self, marks[0][0])

    def _translated(
        self, now: float, flow: Flow, body: bytes, marks: list[Mark], previous: int, draft: Draft
    ) -> bytes:
        """A run in the other draft; receivers lose the subgroup if it cannot be said there."""
        try:
            return transcode(body, marks, previous, self.header.has_extensions, self.draft, draft)
        except EncodeError:
            for out in tuple(flow.outs):
                out.stream.reset(INTERNAL_ERROR)
                out.receiver.session.gone(now, out.stream, 0)
            return b""

    def _keep(self, now: float, body: bytes, marks: list[Mark]) -> None:
        """Put a run into the cache, by reference."""
        cache, segment = self._state.cache, self.segment
        if segment is not None and not segment.cost:
            segment = self.segment = None  # it was evicted
        if marks and (segment is None or cache.is_closed(now, segment)):
            first = marks[0][1]
            if first:
                if segment is not None:
                    segment.append(body[:first], [])
                    cache.grew(segment, 0)
                body = body[first:]
                marks = [(head, start - first, end - first) for head, start, end in marks]
            if segment is not None:
                segment.live = False
            header = self.header
            if header.first_object and self.last_id < 0 and not self._intact:
                header = replace(header, first_object=False)
            segment = self.segment = Segment(
                self.group,
                header,
                self.subgroup_id,
                self.draft,
                base=self.last_id,
                default_priority=self.priority,
                born=now,
                origin=self.session.number,
            )
            cache.add(segment)
        if segment is not None:
            segment.append(body, marks)
            cache.grew(segment, len(marks))

    def _let_in(
        self, now: float, body: bytes, marks: list[Mark], fin: bool, again: AbstractSet[Receiver]
    ) -> None:
        """Open streams to receivers that want an object which begins in this run."""
        group_id = self.header.group_id
        still: list[Receiver] = []
        runs: dict[tuple[Draft, int], bytes | None] = {}
        waiting, self.waiting = self.waiting, still
        run = self._run(body, marks)
        for receiver in waiting:
            index = receiver.first_of(group_id, marks)
            if index < 0:
                still.append(receiver)
                continue
            key = (receiver.draft, index)
            if key not in runs:
                runs[key] = run_from(run, index, receiver.draft)
            first = runs[key]
            if first is None:
                receiver.dropped_streams += 1
                continue
            whole = not index and self.last_id < 0 and self._intact
            out = receiver.open(self.header, self.subgroup_id, self.priority, whole=whole)
            if out is None:
                continue
            if (receiver in again or receiver in self.paused) and isinstance(
                out.stream, LinkedStream
            ):
                out.stream.goes_on()
            self.paused.pop(receiver, None)
            out.objects_base = self.objects + index
            heads = sum(mark[2] - mark[1] for mark in marks[:index])
            out.payload_base = self.payload + marks[index][1] - heads
            self.join(out)
            out.begin(now, first, fin)

    # Receivers that come and go

    def outs(self) -> list[Out]:
        """All streams that it goes to."""
        return [out for flow in self.flows.values() for out in flow.outs]

    def join(self, out: Out) -> None:
        """Give a stream every byte from the next run on; it must have all before that."""
        out.feed = self
        flow = self.flows.get(out.receiver.draft)
        if flow is None:
            flow = self.flows[out.receiver.draft] = Flow()
        flow.add(out)

    def leave(self, out: Out) -> None:
        """Give a stream nothing more."""
        out.settle()
        self.flows[out.receiver.draft].remove(out)

    def time(self, out: Out) -> None:
        """The delivery timeout of a stream's receiver may have changed."""
        timed = self.flows[out.receiver.draft].timed
        if out in timed:
            timed.remove(out)
        if out.receiver.timeout is not None:
            timed.append(out)

    def lost(self, out: Out) -> None:
        """Remember who does not get the rest of the subgroup, to count it."""
        self._lost.append(out)
        if out.receiver in self.track.receivers:
            self.group.refused.setdefault(self.subgroup_id, set()).add(out.receiver)

    def renew(self, out: Out) -> None:
        """Let a stream end before the next object; its receiver gets another one for the rest."""
        self.renewing[out] = None
        self._state.timers.set(self.quiet, self.group.touched + QUIET)

    def quiet(self, now: float) -> None:
        """No object has come for a while, and streams should go on elsewhere."""
        cut_quiet(now, self)

    def forget(self, receiver: Receiver) -> None:
        """A receiver that has no stream yet is gone."""
        if receiver in self.waiting:
            self.waiting.remove(receiver)
        self.paused.pop(receiver, None)

    def admit_receiver(self, receiver: Receiver) -> None:
        """Let a new receiver in with the next object that it wants."""
        refused = self.group.refused.get(self.subgroup_id, ())
        if (
            receiver not in refused
            and receiver not in self.waiting
            and receiver.takes_from(self.session.number)
        ):
            self.waiting.append(receiver)

    # Ends

    def _close(self, *, finished: bool) -> None:
        """Nothing more comes; streams to receivers were finished or reset before."""
        if self.awaited is not None:
            self.awaited = None
            self._state.timers.cancel(self.unheard)
        if self.renewing:
            self.renewing.clear()
            self._state.timers.cancel(self.quiet)
        if self.segment is not None:
            self.segment.live = False
            self.segment.finished = finished
        if self.group.feeds.get(self.subgroup_id) is self:
            del self.group.feeds[self.subgroup_id]
        for flow in self.flows.values():
            for out in flow.outs:
                out.finish()
            flow.outs.clear()
            flow.writes.clear()
            flow.timed.clear()
        self.waiting.clear()
        for out in self._lost:
            missed = self.payload - out.payload_base
            out.receiver.dropped_bytes += missed
            self.track.dropped_bytes += missed
            self.track.dropped_objects += self.objects - out.objects_base
            out.receiver.session.service.gaps += self.objects - out.objects_base
        self._lost.clear()
        if finished:
            for second in self.standby:
                second.give_up()
        self.track.check_done()

    def abandon(self, code: int = CANCELLED) -> None:
        """Take nothing more, and tell the receivers so."""
        self.group.break_off(self.subgroup_id)
        for flow in self.flows.values():
            for out in tuple(flow.outs):
                out.reset(mirrored_code(code, self.draft, out.receiver.draft))
        self._close(finished=False)

    def unheard(self, now: float) -> None:
        """It was cut, and nobody went on with it in time."""
        give_up_waiting(now, self)

    # The second stream

    def take_over(self, now: float, heir: Standby) -> None:
        """Go on with another stream of the same subgroup, on the same streams to receivers."""
        former, self.session = self.session, heir.session
        self.stream_id, self.parser = heir.stream_id, heir.parser
        self._taken_over = True
        if former is not self.session:
            self._change_session(former)
        if not heir.finished:
            self.session.streams[self.stream_id] = self
        self.inject(now, heir)

    def _change_session(self, former: Session) -> None:
        """What comes from now on is another session's: so it is cached, and so it is sent."""
        self._tally = self.track.tally(self.session)
        if self.segment is not None:
            self.segment.live = False
            self.segment = None
        for out in self.outs():
            if not out.receiver.takes_from(self.session.number):
                out.reset(CANCELLED)
        for receiver in tuple(former.receivers.values()):
            if (
                receiver.track is self.track
                and not receiver.takes_from(former.number)
                and receiver.wants_group(self.header.group_id)
            ):
                self.admit_receiver(receiver)

    def inject(self, now: float, heir: Standby) -> None:
        """Hand on what a second stream brought while it stood by."""
        parts: list[bytes] = []
        marks: list[Mark] = []
        size, previous = 0, self.last_id
        self._skipping = True
        self._intact = False
        for head, payload in heir.take():
            if not self._is_next(head, previous):
                self._skipping = True
                continue
            self._skipping = False
            anew = object_header(head, previous, self.header.has_extensions, self.draft, self.draft)
            parts += (anew, payload)
            marks.append((head, size, size + len(anew)))
            size += len(anew) + len(payload)
            previous = head.object_id
        if marks:
            self.emit(now, b"".join(parts), marks, fin=False)
        if not heir.parser.left:
            self._skipping = True
        if heir.awaited is not None:
            wait_for(now, self, heir.awaited)
        elif heir.finished:
            self.emit(now, b"", [], fin=True)
            end_paused(now, self)
            self._close(finished=True)

    def _is_next(self, head: ObjectHeader, previous: int) -> bool:
        if not self.track.admit(self.group, head, self.draft):
            return False
        if head.object_id > previous:
            return True
        self._state.late_objects += 1
        self.track.dropped_objects += 1
        return False
